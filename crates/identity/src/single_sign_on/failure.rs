//! Why a provider could not be used.

/// Why a provider could not be used.
#[derive(Clone, Debug)]
pub struct ProviderFailure {
    /// What those may know who try a configuration.
    pub why: String,
    /// What is in the log besides: what became of a connection is for operators alone.
    pub details: String,
}

impl ProviderFailure {
    /// A line for the log.
    pub fn log_line(&self) -> String {
        let ProviderFailure { why, details } = self;
        if details.is_empty() { why.clone() } else { format!("{why}: {details}") }
    }
}

impl<T: std::fmt::Display> From<T> for ProviderFailure {
    fn from(why: T) -> ProviderFailure {
        ProviderFailure { why: why.to_string(), details: String::new() }
    }
}
