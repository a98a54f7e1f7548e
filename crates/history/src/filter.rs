//! The validated conditions of a list. Their only external input are whole numbers, so that engines can write SQL from
//! them.

/// A column by which lists are filtered. Its values are whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterColumn {
    /// A column of history events only.
    RecordId,
    EventType,
    /// A column of system events only.
    Category,
    SourceType,
    SourceId,
    /// The time, in microseconds since 1970.
    At,
}

/// The test of a column's value in a condition.
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
    /// Is true if the test must fail (`__exclude`).
    pub is_excluded: bool,
}

/// The requested page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRange {
    /// The conditions that all events on the page meet.
    pub conditions: Vec<Condition>,
    /// From 1 to 1000.
    pub limit: i64,
    /// From 0 on.
    pub offset: i64,
}
