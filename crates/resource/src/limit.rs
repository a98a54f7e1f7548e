/// How many rows of a kind a build, or a row that they hang on, may have (`docs/reference/limits.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The name under which counters and changed limits are stored; it stays.
    pub name: &'static str,
    /// What holds where a build has no value of its own (`docs/reference/limits.md`).
    pub default: i64,
    /// What is counted, in the words of the message: "Limit of 100 `Roles` has been exceeded."
    pub many: &'static str,
    /// Its key in the build limits, where that is not the name.
    pub key: Option<&'static str>,
    /// Whether the build limits show how many places are taken.
    pub is_counted: bool,
    /// What `GET /api/limits/` shows of it.
    pub summary: LimitSummary,
}

/// Where `GET /api/limits/` shows a limit, and under which name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSummary {
    Absent,
    /// With its count.
    Counter(&'static str),
    /// As an integer among the `additional_limits`.
    Additional(&'static str),
}

impl Limit {
    /// A limit that only the build limits show, as an integer under its name.
    pub const EMPTY: Limit =
        Limit { name: "", default: 0, many: "", key: None, is_counted: false, summary: LimitSummary::Absent };

    /// Its key in the build limits (`docs/reference/limits.md`).
    pub fn key(&self) -> &'static str {
        self.key.unwrap_or(self.name)
    }
}
