//! What of a list is wanted, checked: nothing that a caller typed goes beyond this module but whole numbers, so that
//! both engines write their conditions from it without a word of the caller's.

/// A column that lists are filtered by. Each holds whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The record of a history event.
    RecordId,
    /// The type, by its number.
    EventType,
    /// The category of a system event, by its number.
    Category,
    /// The kind of source, by its number.
    SourceType,
    /// The source.
    SourceId,
    /// The moment, in microseconds since 1970.
    At,
}

/// What is asked of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// It is one of these (`exact`, `in`); there is at least one.
    In(Vec<i64>),
    /// `gt`
    Above(i64),
    /// `gte`
    From(i64),
    /// `lt`
    Below(i64),
    /// `lte`
    UpTo(i64),
    /// `range`, both ends within.
    Between(i64, i64),
}

/// One condition; all of a list's must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Of which column.
    pub column: Column,
    /// What is asked.
    pub test: Test,
    /// Whether it must not be so (`__exclude`).
    pub is_excluded: bool,
}

/// Which part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// 1 to 1000.
    pub limit: i64,
    /// From 0 on.
    pub offset: i64,
}
