//! Writes answers: a JSON writer, and the forms in which rows are shown.

use crate::field::{ColumnSource, Field, FieldAccess, FieldKind};
use crate::resource::Resource;
use crate::{decimal, time};
use serde_json::value::RawValue;

/// Writes JSON directly into bytes. The caller is responsible for its structure.
#[derive(Default)]
pub struct JsonWriter {
    out: Vec<u8>,
}

impl JsonWriter {
    /// Returns an empty writer with capacity for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> JsonWriter {
        JsonWriter { out: Vec::with_capacity(bytes) }
    }
    /// Returns a writer that appends to these bytes.
    pub fn continuing(bytes: Vec<u8>) -> JsonWriter {
        JsonWriter { out: bytes }
    }
    /// Returns the bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }
    /// Removes the written bytes without releasing the memory.
    pub fn clear(&mut self) {
        self.out.clear();
    }
    /// Ends writing, and returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
    /// Ends writing, and returns the text. It is empty if bytes were written that are no UTF-8.
    pub fn into_text(self) -> String {
        String::from_utf8(self.out).unwrap_or_default()
    }
    /// Writes JSON unchanged.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.out.extend_from_slice(text.as_bytes());
        self
    }
    /// Writes bytes of JSON unchanged.
    pub fn raw_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }
    /// Writes `"name":`, after a comma unless it is the first of its object.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self
    }
    /// Writes a comma, unless an object or array has just begun.
    pub fn comma(&mut self) -> &mut Self {
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
        self
    }
    /// Writes a string.
    pub fn text(&mut self, text: &str) -> &mut Self {
        // Most texts need no escape and can be copied.
        if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            self.out.push(b'"');
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'"');
        } else {
            self.value(&text.into());
        }
        self
    }
    /// Writes a string or null.
    pub fn opt_text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(text),
            None => self.raw("null"),
        }
    }
    /// Writes an integer.
    pub fn int(&mut self, value: i64) -> &mut Self {
        let mut digits = [0_u8; 20];
        let mut rest = value.unsigned_abs();
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            self.out.push(b'-');
        }
        self.out.extend_from_slice(&digits[at..]);
        self
    }
    /// Writes a boolean.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.raw(if value { "true" } else { "false" })
    }
    /// Writes a time or null.
    pub fn datetime(&mut self, micros: Option<i64>) -> &mut Self {
        match micros {
            Some(micros) => {
                self.out.push(b'"');
                time::write(&mut self.out, micros);
                self.out.push(b'"');
                self
            }
            None => self.raw("null"),
        }
    }
    /// Writes any JSON value.
    pub fn value(&mut self, value: &serde_json::Value) -> &mut Self {
        self.raw(&value.to_string())
    }
}

/// A row of the database, whose cells are read by position.
pub trait Cells {
    /// The error for a cell of another type.
    type Error;
    /// Reads a number or null.
    fn int(&self, at: usize) -> Result<Option<i64>, Self::Error>;
    /// Reads a text or null.
    fn text(&self, at: usize) -> Result<Option<&str>, Self::Error>;
    /// Reads a JSON array in the order of [`USER_REFERENCE`], or null.
    fn user(&self, at: usize) -> Result<Option<UserCells<'_>>, Self::Error>;
}

/// The form in which a row is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowForm {
    List,
    Detail,
}

impl Field {
    /// Returns whether a form of a row shows the field.
    pub fn is_in(&self, form: RowForm) -> bool {
        let shown = match form {
            RowForm::List => self.in_list,
            RowForm::Detail => self.in_detail,
        };
        shown && self.access != FieldAccess::WriteOnly && !matches!(self.source, ColumnSource::None)
    }
}

/// The members of a user reference (`docs/reference/conventions.md`), which are columns of the table of users.
pub const USER_REFERENCE: [&str; 7] =
    ["id", "first_name", "last_name", "username", "company_name", "is_deleted", "account_type"];

/// The values of a user reference, each as JSON. Flags are 0 and 1.
pub type UserCells<'a> = [&'a RawValue; USER_REFERENCE.len()];

/// Writes the fields of a form from the cells of a row, beginning with the cell `at`. The object stays
/// open for the additions of the resource. Returns the position after the last cell.
pub fn write_fields<C: Cells>(
    out: &mut JsonWriter,
    resource: &Resource,
    form: RowForm,
    row: &C,
    at: usize,
) -> Result<usize, C::Error> {
    let [before, grouped, after] = resource.parts();
    let mut at = write_each(out, before, form, row, at)?;
    if let Some((name, _)) = &resource.group {
        out.name(name).raw("{");
        at = write_each(out, grouped, form, row, at)?;
        out.raw("}");
    }
    write_each(out, after, form, row, at)
}

fn write_each<C: Cells>(
    out: &mut JsonWriter,
    fields: &[Field],
    form: RowForm,
    row: &C,
    mut at: usize,
) -> Result<usize, C::Error> {
    for field in fields.iter().filter(|field| field.is_in(form)) {
        out.name(&field.name);
        write_value(out, field, row, at)?;
        at += 1;
    }
    Ok(at)
}

fn write_value<C: Cells>(out: &mut JsonWriter, field: &Field, row: &C, at: usize) -> Result<(), C::Error> {
    match &field.kind {
        FieldKind::User => write_user(out, row.user(at)?),
        FieldKind::Boolean => match row.int(at)? {
            Some(value) => out.bool(value != 0),
            None => out.raw("null"),
        },
        FieldKind::Integer { .. } | FieldKind::Reference { .. } | FieldKind::UserId | FieldKind::File { .. } => {
            match row.int(at)? {
                Some(value) => out.int(value),
                None => out.raw("null"),
            }
        }
        FieldKind::DateTime => out.datetime(row.int(at)?),
        FieldKind::Decimal { scale, .. } => {
            out.opt_text(row.text(at)?.map(|stored| decimal::decode(stored, *scale)).as_deref())
        }
        FieldKind::References { .. } => out.raw("[").raw(row.text(at)?.unwrap_or("")).raw("]"),
        FieldKind::Set { .. }
        | FieldKind::Texts { .. }
        | FieldKind::Json { .. }
        | FieldKind::Object
        | FieldKind::List
        | FieldKind::Files { .. } => out.raw(row.text(at)?.unwrap_or("null")),
        _ => out.opt_text(row.text(at)?),
    };
    Ok(())
}

/// Writes a user reference, or null.
pub fn write_user<'a>(out: &'a mut JsonWriter, user: Option<UserCells<'_>>) -> &'a mut JsonWriter {
    let Some(cells) = user else { return out.raw("null") };
    out.raw("{");
    for (name, cell) in USER_REFERENCE.iter().zip(cells) {
        out.name(name);
        match *name {
            "is_deleted" => out.bool(cell.get() != "0"),
            _ => out.raw(cell.get()),
        };
    }
    out.raw("}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_parses() {
        let mut out = JsonWriter::default();
        out.raw("{")
            .name("a")
            .text("q\"\\\n")
            .name("b")
            .int(i64::MIN)
            .name("c")
            .datetime(Some(0))
            .name("d")
            .opt_text(None)
            .raw("}");
        let value: serde_json::Value = serde_json::from_slice(&out.into_bytes()).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"a": "q\"\\\n", "b": i64::MIN, "c": "1970-01-01T00:00:00.000000Z", "d": null})
        );
    }
}
