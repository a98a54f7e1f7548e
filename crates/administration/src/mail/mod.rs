//! Outbound mail: the standard messages and how they are written, and the queue that sends them.

pub mod message;
pub mod queue;
pub mod smtp;
pub mod templates;
