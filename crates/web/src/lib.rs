//! What the main API and the history service share: the listener, bodies of answers, request ids, time and randomness.

pub mod clock;
pub mod compress;
pub mod content;
pub mod listener;
pub mod places;
pub mod request_id;
pub mod room;
mod stream;
pub mod tag;
pub mod tls;
