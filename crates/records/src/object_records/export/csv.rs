//! Records as CSV (RFC 4180): a line of names, then a line for each record.

use super::MAX_PIECE_BYTES;
use crate::classes::{Class, ClassField};
use crate::field_type::FieldType;
use crate::object_records::read::View;
use crate::visible_records::number;
use identity::visibility::visible_users;
use kit::caller::Caller;
use kit::ids::{FieldId, UserId};
use kit::refusal::Refusal;
use kit::rows::sql::{OWN, push_joins, value};
use kit::rows::stored_value;
use resource::{CheckedValue, Field, time};
use std::collections::HashMap;
use std::ops::ControlFlow;
use store::{Conn, Row, Sql, StoreError};

/// The columns before those of the fields.
const OWN_COLUMNS: [&str; 6] = ["id", "owner", "created_at", "created_by", "modified_at", "modified_by"];
/// The characters at which programs that open a CSV recognise a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];
const APOSTROPHE: char = '\'';
/// The beginning of a file with the parameter `bom`.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The columns of an export: aliases and ids of the fields of the class at the start of the export.
pub struct ExportColumns {
    fields: Vec<(String, FieldId)>,
    has_bom: bool,
}

impl ExportColumns {
    pub fn from_view(view: &View, has_bom: bool) -> ExportColumns {
        ExportColumns { fields: view.fields().map(|field| (field.alias.clone(), field.id)).collect(), has_bom }
    }

    /// The beginning of the file: the optional byte order mark and the line of names.
    pub fn header(&self) -> String {
        let names = OWN_COLUMNS.into_iter().chain(self.fields.iter().map(|(alias, _)| alias.as_str()));
        let mark = if self.has_bom { BYTE_ORDER_MARK } else { "" };
        format!("{mark}{}\r\n", names.collect::<Vec<_>>().join(","))
    }

    /// The current fields of the columns. `None` for a field that was deleted.
    fn fields<'c>(&self, class: &'c Class) -> Vec<Option<(&'c ClassField, &'c Field)>> {
        let [_, declared, _] = class.record.parts();
        let field_by_id: HashMap<FieldId, _> =
            class.fields.iter().zip(declared).map(|pair| (pair.0.id, pair)).collect();
        self.fields.iter().map(|(_, id)| field_by_id.get(id).copied()).collect()
    }
}

/// The lines of a piece without the names of people. The names are loaded once all people are collected.
#[derive(Default)]
struct CsvLines {
    text: String,
    /// The lines in the order of reading: the number of the record, the end of its text, and the number of people before the end.
    ends: Vec<(u32, usize, usize)>,
    /// The people, with the positions of their names in the text.
    people: Vec<(usize, UserId)>,
}

/// Returns the lines of the records with these numbers, in the order of the numbers. `None` if they exceed the size of a piece.
pub fn piece(
    caller: &Caller,
    conn: &mut Conn,
    class: &Class,
    columns: &ExportColumns,
    numbers: &[u32],
) -> Result<Option<Vec<u8>>, Refusal> {
    let fields = columns.fields(class);
    let existing_fields = || fields.iter().flatten();
    let mut sql = Sql::new("SELECT t.n, t.id, t.owner, t.created_at, t.created_by, t.modified_at, t.modified_by");
    for (_, declared) in existing_fields() {
        value(sql.push(", "), OWN, declared, 0);
    }
    sql.push(" FROM ").name(&class.table()).push(" t");
    push_joins(&mut sql, OWN, &class.record, existing_fields().map(|(_, declared)| *declared));
    sql.push(" WHERE t.n").push_any(numbers.iter().copied().map(i64::from).collect::<Vec<_>>());
    let mut lines = CsvLines::default();
    let outcome = conn.for_each_row_until(&sql, |row| {
        lines.push(row, &fields)?;
        let is_too_large = lines.ends.len() > 1 && lines.text.len() > MAX_PIECE_BYTES;
        Ok(if is_too_large { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if outcome.is_break() {
        return Ok(None);
    }
    let names = names(caller, conn, &lines)?;
    Ok(Some(lines.to_text(numbers, &names).into_bytes()))
}

/// The names of all people in these lines: their usernames, or their full names if the caller may not list them.
fn names(caller: &Caller, conn: &mut Conn, lines: &CsvLines) -> Result<HashMap<UserId, String>, StoreError> {
    let mut ids: Vec<UserId> = lines.people.iter().map(|(_, id)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut sql = Sql::new("SELECT t.id, CASE WHEN ");
    sql.append(&visible_users(caller)).push(" THEN t.username ELSE t.full_name END FROM users t WHERE t.id");
    Ok(conn.query_all(sql.push_any(ids), |row| Ok((row.id(0)?, row.text(1)?.to_owned())))?.into_iter().collect())
}

impl CsvLines {
    /// Adds the line of a row.
    fn push(&mut self, row: &Row<'_>, fields: &[Option<(&ClassField, &Field)>]) -> Result<(), StoreError> {
        self.text.push_str(&row.int(1)?.to_string());
        self.push_person(row.opt_id(2)?);
        for at in [3, 5] {
            push_plain(&mut self.text, &time::show(row.int(at)?));
            self.push_person(row.opt_id(at + 1)?);
        }
        let mut at = 1 + OWN_COLUMNS.len();
        for field in fields {
            let Some((field, declared)) = field else {
                self.text.push(',');
                continue;
            };
            self.value(row, at, field.kind, declared)?;
            at += 1;
        }
        self.text.push_str("\r\n");
        self.ends.push((number(row.int(0)?)?, self.text.len(), self.people.len()));
        Ok(())
    }

    fn value(&mut self, row: &Row<'_>, at: usize, kind: FieldType, declared: &Field) -> Result<(), StoreError> {
        let out = &mut self.text;
        match kind {
            FieldType::User => self.push_person(row.opt_id(at)?),
            FieldType::Integer | FieldType::Relation => {
                push_plain(out, &format_optional(row.opt_int(at)?, |n| n.to_string()))
            }
            FieldType::Boolean => push_plain(out, &format_optional(row.opt_int(at)?, |flag| (flag != 0).to_string())),
            FieldType::Datetime => push_plain(out, &format_optional(row.opt_int(at)?, time::show)),
            FieldType::Date => push_plain(out, row.opt_text(at)?.unwrap_or("")),
            FieldType::Decimal | FieldType::Set | FieldType::Document => match stored_value(declared, row, at)? {
                CheckedValue::Text(text) => push_plain(out, &text),
                CheckedValue::List(items) => push_text(out, &items.iter().map(item).collect::<Vec<_>>().join(", ")),
                _ => out.push(','),
            },
            FieldType::String
            | FieldType::Text
            | FieldType::Url
            | FieldType::Email
            | FieldType::Enum
            | FieldType::Status => push_text(out, row.opt_text(at)?.unwrap_or("")),
        }
        Ok(())
    }

    /// Adds the column of a person without the name.
    fn push_person(&mut self, id: Option<UserId>) {
        self.text.push(',');
        self.people.extend(id.map(|id| (self.text.len(), id)));
    }

    /// Returns the text with the names, in the order of the numbers.
    fn to_text(&self, numbers: &[u32], names: &HashMap<UserId, String>) -> String {
        let places: HashMap<u32, usize> = self.ends.iter().enumerate().map(|(at, end)| (end.0, at)).collect();
        let mut out = String::with_capacity(self.text.len() + 40 * self.people.len());
        for at in numbers.iter().filter_map(|number| places.get(number).copied()) {
            let (mut from, first) =
                at.checked_sub(1).map_or((0, 0), |before| (self.ends[before].1, self.ends[before].2));
            let (_, end, last) = self.ends[at];
            for (place, id) in &self.people[first..last] {
                out.push_str(&self.text[from..*place]);
                push_cell(&mut out, names.get(id).map_or("", String::as_str));
                from = *place;
            }
            out.push_str(&self.text[from..end]);
        }
        out
    }
}

/// Formats a value, or returns an empty text.
fn format_optional(value: Option<i64>, show: impl Fn(i64) -> String) -> String {
    value.map(show).unwrap_or_default()
}

fn item(value: &CheckedValue) -> String {
    match value {
        CheckedValue::Text(text) => text.clone(),
        other => other.to_json().to_string(),
    }
}

/// Appends a value that needs no quotes.
fn push_plain(out: &mut String, value: &str) {
    out.push(',');
    out.push_str(value);
}

fn push_text(out: &mut String, text: &str) {
    out.push(',');
    push_cell(out, text);
}

/// Appends a text without the comma. An apostrophe precedes a text that could be interpreted as a formula. A formula behind
/// apostrophes gets another one, so that an import can remove one apostrophe from each.
fn push_cell(out: &mut String, text: &str) {
    let is_guarded = text.trim_start_matches(APOSTROPHE).starts_with(FORMULA);
    let guard = if is_guarded { "'" } else { "" };
    if text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        out.push('"');
        out.push_str(guard);
        out.push_str(&text.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(guard);
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::push_text;

    #[test]
    fn texts_are_quoted_and_formulas_disarmed() {
        for (text, shown) in [
            ("plain", "plain"),
            ("", ""),
            (" a ", " a "),
            ("a,b", "\"a,b\""),
            ("say \"a\"", "\"say \"\"a\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@a", "'@a"),
            ("\ta", "'\ta"),
            ("\ra", "\"'\ra\""),
            ("'=x", "''=x"),
            ("''+1", "'''+1"),
            ("'", "'"),
            ("'a", "'a"),
            ("o'=x", "o'=x"),
            ("=a,\"b\"", "\"'=a,\"\"b\"\"\""),
        ] {
            let mut out = String::new();
            push_text(&mut out, text);
            assert_eq!(out, format!(",{shown}"), "{text:?}");
        }
    }
}
