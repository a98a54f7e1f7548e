/// How many rows of a kind a build, or a row that they hang on, may have (document 3, "Limits").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The name under which counters and changed limits are stored; it stays.
    pub name: &'static str,
    /// What holds where a build has no value of its own (document 5, section 12).
    pub default: i64,
    /// What is counted, in the words of the message: "Limit of 100 `Roles` has been exceeded."
    pub many: &'static str,
}
