//! Ids of rows as types, so that the id of a user is not passed where the id of a record is expected.

use std::fmt::Display;
use std::hash::Hash;

/// The id of a row. Code about rows of one resource uses a type of its own, code about rows of any resource uses `i64`.
/// Each conversion between an id and its number is a call of a function.
pub trait Id: Copy + Ord + Hash + Display {
    /// Returns the id with this number, which comes from the database or from a client.
    fn from_number(number: i64) -> Self;
    /// Returns the number, for the database or for a client.
    fn to_number(self) -> i64;
}

impl Id for i64 {
    fn from_number(number: i64) -> i64 {
        number
    }
    fn to_number(self) -> i64 {
        self
    }
}
