//! The reasons for which a store of files does not answer.

use std::fmt;

/// The reason for which a store of files does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    NoSuchBucket,
    AccessDenied,
    Unreachable,
    Timeout,
}

impl Outage {
    /// The word for log lines and `/readyz`.
    pub fn name(self) -> &'static str {
        match self {
            Outage::NoSuchBucket => "no_such_bucket",
            Outage::AccessDenied => "access_denied",
            Outage::Unreachable => "unreachable",
            Outage::Timeout => "timeout",
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
