//! The settings of sequences.

/// The settings of this module.
#[derive(Clone)]
pub struct SequenceSettings {
    /// `CHANCERY_SEQUENCES`: true if this process begins and continues runs.
    pub runs: bool,
}

impl Default for SequenceSettings {
    fn default() -> SequenceSettings {
        SequenceSettings { runs: true }
    }
}
