//! The conditions of a list after they were checked. They hold nothing from outside but whole numbers, so that engines
//! can write SQL from them.

/// A column that lists are filtered by. Each holds whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterColumn {
    /// Only history events have it.
    RecordId,
    EventType,
    /// Only system events have it.
    Category,
    SourceType,
    SourceId,
    /// The moment, in microseconds since 1970.
    At,
}

/// What a condition requires of a column's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// The value is one of these, at least one (`exact`, `in`).
    In(Vec<i64>),
    /// `gt`
    Above(i64),
    /// `gte`
    From(i64),
    /// `lt`
    Below(i64),
    /// `lte`
    UpTo(i64),
    /// `range`, both ends included
    Between(i64, i64),
}

/// A condition on one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub column: FilterColumn,
    pub test: Test,
    /// Whether the test must fail (`__exclude`).
    pub is_excluded: bool,
}

/// Which page of a list is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRange {
    /// The events on the page meet all of these.
    pub conditions: Vec<Condition>,
    /// From 1 to 1000.
    pub limit: i64,
    /// From 0 on.
    pub offset: i64,
}
