//! What the main API and the history service both stand on: the listener, request ids, and the clock with its randomness.

pub mod clock;
pub mod content;
pub mod listener;
pub mod places;
pub mod request_id;
pub mod room;
mod stream;
