//! Why a provider could not be used.

/// Why a provider could not be used: a line for the log.
#[derive(Clone, Debug)]
pub struct Failure(pub String);

impl<T: std::fmt::Display> From<T> for Failure {
    fn from(why: T) -> Failure {
        Failure(why.to_string())
    }
}
