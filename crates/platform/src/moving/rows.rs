//! The rows of tables in archives: JSON arrays of their columns, one on each line. Whole numbers are numbers, texts are strings,
//! and bytes are strings in base64.

use super::archive::{MAX_WHOLE_ENTRY, invalid};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::fmt::Write as _;
use std::io;
use store::{Argument, ColumnInfo, Row, StoreError, StoredKind};

/// The size from which on the lines of a table are written as an entry, in bytes.
pub const CHUNK: usize = 1024 * 1024;
/// The number of rows after which they are written as an entry.
const ROWS_IN_CHUNK: usize = 5_000;

/// A value of a row, as it is read from the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

/// Reads a value of a row.
pub fn value<'a>(row: &'a Row<'_>, at: usize, kind: StoredKind) -> Result<Value<'a>, StoreError> {
    Ok(match kind {
        StoredKind::Int => row.opt_int(at)?.map_or(Value::Null, Value::Int),
        StoredKind::Text => row.opt_text(at)?.map_or(Value::Null, Value::Text),
        StoredKind::Blob => row.opt_blob(at)?.map_or(Value::Null, Value::Blob),
        StoredKind::Other => {
            return Err(StoreError::internal(format_args!("column {at} has a type that does not move")));
        }
    })
}

/// Lines that are not written yet.
#[derive(Default)]
pub struct Lines {
    text: Vec<u8>,
    rows: usize,
    /// The number of values in the present line.
    values: usize,
}

impl Lines {
    /// Appends a value to the present line.
    pub fn push(&mut self, value: Value<'_>) {
        self.text.push(if self.values == 0 { b'[' } else { b',' });
        self.values += 1;
        match value {
            Value::Null => self.text.extend(b"null"),
            Value::Int(number) => {
                let mut text = String::new();
                let _ = write!(text, "{number}");
                self.text.extend(text.as_bytes());
            }
            Value::Text(text) => {
                serde_json::to_writer(&mut self.text, text).expect("a text is written to memory");
            }
            Value::Blob(bytes) => self.push_quoted(&STANDARD.encode(bytes)),
        }
    }

    fn push_quoted(&mut self, plain: &str) {
        self.text.push(b'"');
        self.text.extend(plain.as_bytes());
        self.text.push(b'"');
    }

    /// Ends the present line. Returns whether the lines are to be written now.
    ///
    /// # Errors
    /// The lines have more bytes than an entry may have.
    pub fn end_line(&mut self) -> Result<bool, StoreError> {
        self.text.extend(if self.values == 0 { &b"[]\n"[..] } else { b"]\n" });
        self.values = 0;
        self.rows += 1;
        if self.text.len() as u64 > MAX_WHOLE_ENTRY {
            return Err(StoreError::internal("a row is too large for an archive"));
        }
        Ok(self.text.len() >= CHUNK || self.rows >= ROWS_IN_CHUNK)
    }

    /// Removes the present line, which is not ended.
    pub fn drop_line(&mut self) {
        let end = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.text.truncate(end);
        self.values = 0;
    }

    /// Returns the lines, and forgets them.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.rows = 0;
        if self.text.is_empty() { None } else { Some(std::mem::take(&mut self.text)) }
    }
}

/// A value of a line.
enum Cell {
    Null,
    Int(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Cell, D::Error> {
        struct CellVisitor;
        impl Visitor<'_> for CellVisitor {
            type Value = Cell;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("null, a whole number or a string")
            }
            fn visit_unit<E: de::Error>(self) -> Result<Cell, E> {
                Ok(Cell::Null)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Cell, E> {
                Ok(Cell::Int(number))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Cell, E> {
                i64::try_from(number).map(Cell::Int).map_err(E::custom)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cell, E> {
                Ok(Cell::Text(text.to_owned()))
            }
            fn visit_string<E: de::Error>(self, text: String) -> Result<Cell, E> {
                Ok(Cell::Text(text))
            }
        }
        from.deserialize_any(CellVisitor)
    }
}

/// Reads the rows of an entry. Each has a value of the right type for each of the columns.
pub fn parse(name: &str, bytes: &[u8], columns: &[ColumnInfo]) -> io::Result<Vec<Vec<Argument>>> {
    let damaged = |line: usize| invalid(format!("{name}: line {}: it is not a row of this table", line + 1));
    let lines = bytes.strip_suffix(b"\n").ok_or_else(|| invalid(format!("{name}: the last line is not ended")))?;
    let mut rows = Vec::new();
    for (at, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        let cells: Vec<Cell> = serde_json::from_slice(line).map_err(|_| damaged(at))?;
        if cells.len() != columns.len() {
            return Err(damaged(at));
        }
        let row: Option<Vec<Argument>> = cells.into_iter().zip(columns).map(|(cell, of)| argument(cell, of)).collect();
        rows.push(row.ok_or_else(|| damaged(at))?);
    }
    Ok(rows)
}

/// Returns a value for a column; `None` if it has another type. Ids count from 1, since names of tables contain them.
fn argument(cell: Cell, column: &ColumnInfo) -> Option<Argument> {
    let is_id = column.name == "id";
    match (cell, column.kind) {
        (Cell::Null, _) => Some(Argument::Null),
        (Cell::Int(number), StoredKind::Int) => (number > 0 || !is_id).then_some(Argument::Int(number)),
        (Cell::Text(text), StoredKind::Text) => Some(Argument::Text(text)),
        (Cell::Text(text), StoredKind::Blob) => STANDARD.decode(text).ok().map(Argument::Blob),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<ColumnInfo> {
        let column = |name: &str, kind| ColumnInfo { name: name.to_owned(), kind, is_nullable: true };
        vec![column("id", StoredKind::Int), column("name", StoredKind::Text), column("data", StoredKind::Blob)]
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut lines = Lines::default();
        for (id, name) in [(1, "line\nfeed \"quoted\" \u{1} é"), (i64::MAX, "")] {
            [Value::Int(id), Value::Text(name), Value::Blob(&[0, 255])].into_iter().for_each(|value| lines.push(value));
            assert!(!lines.end_line().unwrap());
        }
        lines.push(Value::Int(3));
        lines.drop_line();
        [Value::Int(4), Value::Null, Value::Null].into_iter().for_each(|value| lines.push(value));
        lines.end_line().unwrap();
        let rows = parse("x", &lines.take().unwrap(), &columns()).unwrap();
        assert_eq!(rows.len(), 3);
        let first = ["line\nfeed \"quoted\" \u{1} é".into(), Argument::Blob(vec![0, 255])];
        assert_eq!(rows[0], [vec![Argument::Int(1)], first.to_vec()].concat());
        assert_eq!(rows[2], [Argument::Int(4), Argument::Null, Argument::Null]);
        assert_eq!(lines.take(), None);
    }

    #[test]
    fn other_rows_are_refused() {
        for line in [
            "",
            "[]",
            "[1,\"a\"]",
            "[1,\"a\",null,null]",
            "[\"1\",\"a\",null]",
            "[1,2,null]",
            "[0,\"a\",null]",
            "[1.5,\"a\",null]",
            "[-1,\"a\",null]",
            "[1,\"a\",\"*\"]",
            "[1,[],null]",
            "[1,{},null]",
            "[1,true,null]",
            "[9223372036854775808,\"a\",null]",
            "{}",
            "[1,\"\\ud800\",null]",
            "[1,\"a\",null] x",
        ] {
            let error = parse("tables/x/000001.ndjson", format!("{line}\n").as_bytes(), &columns()).unwrap_err();
            assert_eq!(error.to_string(), "tables/x/000001.ndjson: line 1: it is not a row of this table", "{line}");
        }
        assert!(parse("x", b"[1,\"a\",null]", &columns()).is_err());
        let deep = format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse("x", deep.as_bytes(), &columns()).is_err());
    }
}
