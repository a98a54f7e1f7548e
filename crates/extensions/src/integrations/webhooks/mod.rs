//! Webhooks: the queue of deliveries (`queue.rs`), their signatures, their transmission (`send.rs`), the job that sends them
//! (`work.rs`), and their endpoints (`deliveries.rs`).

pub mod deliveries;
pub mod queue;
mod send;
mod signature;
pub mod work;
