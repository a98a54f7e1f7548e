//! Webhooks: the deliveries that wait (`queue.rs`), their signatures, how they are sent (`send.rs`) and by whom (`work.rs`),
//! and their endpoints (`deliveries.rs`).

pub mod deliveries;
pub mod queue;
mod send;
mod signature;
pub mod work;
