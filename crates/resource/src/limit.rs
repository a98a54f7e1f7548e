/// The maximum number of rows of a kind in a build, or below another row (`docs/reference/limits.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The name under which counters and changed limits are stored; it must never change.
    pub name: &'static str,
    /// The value for builds without a value of their own (`docs/reference/limits.md`).
    pub default: i64,
    /// The counted rows, in the words of the message: "Limit of 100 `Roles` has been exceeded."
    pub many: &'static str,
    /// Its key in the build limits, if that is not the name.
    pub key: Option<&'static str>,
    /// Is true if the build limits show the number of counted rows.
    pub is_counted: bool,
    /// The form in which `GET /api/limits/` shows it.
    pub summary: LimitSummary,
    /// Is true if many transactions count rows at once. On PostgreSQL the count is then spread over several rows.
    pub has_slots: bool,
}

/// The place and the name of a limit in `GET /api/limits/`.
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
    pub const EMPTY: Limit = Limit {
        name: "",
        default: 0,
        many: "",
        key: None,
        is_counted: false,
        summary: LimitSummary::Absent,
        has_slots: false,
    };

    /// Returns its key in the build limits (`docs/reference/limits.md`).
    pub fn key(&self) -> &'static str {
        self.key.unwrap_or(self.name)
    }
}
