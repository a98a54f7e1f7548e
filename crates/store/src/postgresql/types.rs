//! Conversion of values to the types of PostgreSQL and back.
//!
//! The server infers the type of each placeholder, and the driver requires that type, so an integer is sent as the
//! expected integer type. `SUM` of BIGINT returns NUMERIC, which is read as an integer if it is one.

use std::error::Error as StdError;
use std::fmt::{self, Debug, Formatter};

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

use crate::error::StoreError;
use crate::sql::{Argument, BorrowedArgument};

type ConversionError = Box<dyn StdError + Sync + Send>;

impl ToSql for Argument {
    fn to_sql(&self, expected: &Type, out: &mut BytesMut) -> Result<IsNull, ConversionError> {
        self.borrowed().to_sql(expected, out)
    }

    fn accepts(_: &Type) -> bool {
        // `to_sql` decides, because it has the value.
        true
    }

    to_sql_checked!();
}

impl ToSql for BorrowedArgument<'_> {
    fn to_sql(&self, expected: &Type, out: &mut BytesMut) -> Result<IsNull, ConversionError> {
        match (self, expected) {
            (BorrowedArgument::Null, _) => return Ok(IsNull::Yes),
            (BorrowedArgument::Int(number), &Type::INT8) => out.put_i64(*number),
            (BorrowedArgument::Int(number), &Type::INT4) => out.put_i32(i32::try_from(*number)?),
            (BorrowedArgument::Int(number), &Type::INT2) => out.put_i16(i16::try_from(*number)?),
            (BorrowedArgument::Int(number), &Type::BOOL) => out.put_u8(u8::from(*number != 0)),
            (BorrowedArgument::Int(number), &Type::NUMERIC) => put_numeric(*number, out),
            (
                BorrowedArgument::Text(text),
                &(Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN),
            ) => {
                out.put_slice(text.as_bytes());
            }
            (BorrowedArgument::Blob(bytes), &Type::BYTEA) => out.put_slice(bytes),
            (BorrowedArgument::Ints(numbers), array) => {
                let Kind::Array(element) = array.kind() else {
                    return Err(format!("integers where {array} is expected").into());
                };
                put_array(element, numbers.iter().map(|&number| BorrowedArgument::Int(number)), out)?;
            }
            (BorrowedArgument::Int(_), other) => return Err(format!("an integer where {other} is expected").into()),
            (BorrowedArgument::Text(_), other) => return Err(format!("text where {other} is expected").into()),
            (BorrowedArgument::Blob(_), other) => return Err(format!("a blob where {other} is expected").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // `to_sql` decides, because it has the value.
        true
    }

    to_sql_checked!();
}

/// The values of one column of many rows, sent as an array.
pub(crate) struct ColumnOf<'a, R> {
    pub rows: &'a [R],
    pub column: usize,
}

impl<R> Debug for ColumnOf<'_, R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "column {} of {} rows", self.column, self.rows.len())
    }
}

impl<'a, R: AsRef<[BorrowedArgument<'a>]>> ToSql for ColumnOf<'_, R> {
    fn to_sql(&self, expected: &Type, out: &mut BytesMut) -> Result<IsNull, ConversionError> {
        let Kind::Array(element) = expected.kind() else { return Err(format!("no array: {expected}").into()) };
        let values =
            self.rows.iter().map(|row| row.as_ref().get(self.column).copied().unwrap_or(BorrowedArgument::Null));
        put_array(element, values, out)?;
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Writes an array. It consists of the number of dimensions, the flag for nulls and the type of the elements. The count
/// and the first index of the only dimension follow, and for each element its length and bytes.
fn put_array<'a>(
    element: &Type,
    values: impl ExactSizeIterator<Item = BorrowedArgument<'a>>,
    out: &mut BytesMut,
) -> Result<(), ConversionError> {
    out.put_i32(1);
    out.put_i32(1);
    out.put_u32(element.oid());
    out.put_i32(i32::try_from(values.len())?);
    out.put_i32(1);
    for value in values {
        let at = out.len();
        out.put_i32(-1);
        if let IsNull::No = value.to_sql(element, out)? {
            let length = i32::try_from(out.len() - at - 4)?;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}

/// Writes an integer as NUMERIC: the count of digits to the base 10,000, the weight of the first, sign, scale, digits.
fn put_numeric(number: i64, out: &mut BytesMut) {
    let mut digits = Vec::new();
    let mut rest = number.unsigned_abs();
    while rest > 0 {
        digits.push(i16::try_from(rest % 10_000).unwrap_or_default());
        rest /= 10_000;
    }
    let count = i16::try_from(digits.len()).unwrap_or_default();
    out.put_i16(count);
    out.put_i16((count - 1).max(0));
    out.put_u16(if number < 0 { 0x4000 } else { 0 });
    out.put_u16(0);
    digits.iter().rev().for_each(|&digit| out.put_i16(digit));
}

/// An integer of any type of the server.
struct Int(i64);

impl<'a> FromSql<'a> for Int {
    fn from_sql(db_type: &Type, raw: &'a [u8]) -> Result<Int, ConversionError> {
        let number = match *db_type {
            Type::INT8 => i64::from_be_bytes(raw.try_into()?),
            Type::INT4 => i64::from(i32::from_be_bytes(raw.try_into()?)),
            Type::INT2 => i64::from(i16::from_be_bytes(raw.try_into()?)),
            Type::BOOL => i64::from(raw != [0]),
            _ => numeric(raw).ok_or("not a BIGINT")?,
        };
        Ok(Int(number))
    }

    fn accepts(db_type: &Type) -> bool {
        matches!(*db_type, Type::INT8 | Type::INT4 | Type::INT2 | Type::BOOL | Type::NUMERIC)
    }
}

fn numeric(raw: &[u8]) -> Option<i64> {
    let mut parts = raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let (count, weight, sign, _scale) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let negative = match sign {
        0 => false,
        0x4000 => true,
        _ => return None,
    };
    let weight = i16::from_be_bytes(weight.to_be_bytes());
    let mut number: i128 = 0;
    for place in 0..i32::from(weight) + 1 {
        let digit = if place < i32::from(count) { parts.next()? } else { 0 };
        number = number.checked_mul(10_000)?.checked_add(i128::from(digit))?;
    }
    // Digits after the point must all be 0.
    if parts.any(|digit| digit != 0) {
        return None;
    }
    i64::try_from(if negative { -number } else { number }).ok()
}

/// Reads an integer column.
pub(crate) fn int(row: &Row, column: usize) -> Result<Option<i64>, StoreError> {
    get::<Int>(row, column).map(|value| value.map(|Int(number)| number))
}

/// Reads a text column.
pub(crate) fn text(row: &Row, column: usize) -> Result<Option<&str>, StoreError> {
    get(row, column)
}

/// Reads a column of bytes.
pub(crate) fn blob(row: &Row, column: usize) -> Result<Option<&[u8]>, StoreError> {
    get(row, column)
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<Option<T>, StoreError> {
    row.try_get(column).map_err(|error| {
        let reason = StdError::source(&error).map_or_else(|| error.to_string(), |source| source.to_string());
        StoreError::Db(format!("column {column}: {reason}"))
    })
}
