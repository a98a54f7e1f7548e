//! The reason why a provider could not be used.

/// The reason why a provider could not be used.
#[derive(Clone, Debug)]
pub struct ProviderFailure {
    /// The reason for users who test a configuration.
    pub why: String,
    /// Further details for the log. Only operators may see the outcome of a connection.
    pub details: String,
}

impl ProviderFailure {
    /// Returns a line for the log.
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
