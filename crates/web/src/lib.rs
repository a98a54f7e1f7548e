//! The common parts of the main API and the history service: the listener, bodies of answers, request
//! ids, time and randomness, and the page of an API description.

pub mod clock;
pub mod compress;
pub mod content;
pub mod listener;
mod lock;
pub mod metrics;
pub mod pace;
pub mod places;
pub mod request_id;
pub mod shares;
mod stream;
pub mod tag;
pub mod tls;
pub mod viewer;

pub use lock::lock;
