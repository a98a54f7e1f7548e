//! Outbound mail: the standard messages, their composition, and the queue that sends them.

pub mod message;
pub mod queue;
pub mod smtp;
pub mod templates;
