//! Why a provider could not be used.

/// Why a provider could not be used.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What those may know who try a configuration.
    pub why: String,
    /// What is in the log besides: what became of a connection is for operators alone.
    pub details: String,
}

impl Failure {
    /// A line for the log.
    pub fn in_full(&self) -> String {
        let Failure { why, details } = self;
        if details.is_empty() { why.clone() } else { format!("{why}: {details}") }
    }
}

impl<T: std::fmt::Display> From<T> for Failure {
    fn from(why: T) -> Failure {
        Failure { why: why.to_string(), details: String::new() }
    }
}
