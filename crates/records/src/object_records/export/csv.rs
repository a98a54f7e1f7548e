//! Records as CSV (RFC 4180): a line of names, then a line for each record.

use super::{MAX_PIECE_BYTES, in_order};
use crate::classes::{Class, ClassField};
use crate::field_type::FieldType;
use crate::object_records::list::open;
use crate::object_records::read::View;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::{OWN, joins, value};
use kit::rows::stored_value;
use resource::{Field, Value, time};
use std::collections::HashMap;
use store::{Conn, Error, Row, Sql};

/// The columns before those of the fields.
const OWN_COLUMNS: [&str; 6] = ["id", "owner", "created_at", "created_by", "modified_at", "modified_by"];
/// What programs that open a CSV take for the beginning of a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The columns of an export: aliases and ids of the fields, as the class had them when the export began.
pub struct Columns(Vec<(String, i64)>);

impl Columns {
    pub fn of(view: &View) -> Columns {
        Columns(view.fields().map(|field| (field.alias.clone(), field.id)).collect())
    }

    /// The line of names.
    pub fn header(&self) -> String {
        let names = OWN_COLUMNS.into_iter().chain(self.0.iter().map(|(alias, _)| alias.as_str()));
        format!("{}\r\n", names.collect::<Vec<_>>().join(","))
    }

    /// The fields of the columns, as the class has them now; `None` for one that is gone.
    fn fields<'c>(&self, class: &'c Class) -> Vec<Option<(&'c ClassField, &'c Field)>> {
        let [_, declared, _] = class.record.parts();
        let known: HashMap<i64, _> = class.fields.iter().zip(declared).map(|both| (both.0.id, both)).collect();
        self.0.iter().map(|(_, id)| known.get(id).copied()).collect()
    }
}

/// A record that was read.
struct Line {
    id: i64,
    /// The owner, who created and who changed it.
    people: [Option<i64>; 3],
    created_at: i64,
    modified_at: i64,
    values: Vec<Value>,
}

/// The lines of the records with these ids, as far as the caller may view them; `None` when they take too many bytes.
pub fn piece(request: &Request, conn: &mut Conn, columns: &Columns, ids: &[i64]) -> Result<Option<Vec<u8>>, Refusal> {
    let opened = open(request, conn)?;
    let fields = columns.fields(&opened.class);
    let there = || fields.iter().flatten();
    let mut sql = Sql::new("SELECT t.id, t.owner, t.created_by, t.modified_by, t.created_at, t.modified_at");
    for (_, declared) in there() {
        value(sql.push(", "), OWN, declared, 0);
    }
    sql.push(" FROM ").name(&opened.class.table()).push(" t");
    joins(&mut sql, OWN, &opened.class.record, there().map(|(_, declared)| *declared));
    sql.push(" WHERE t.id").any(ids.to_vec()).push(" AND ");
    opened.visible.condition(&mut sql, "t.n");
    let (mut lines, mut bytes) = (Vec::new(), 0);
    let mut is_too_large = false;
    let read = conn.each(&sql, |row| {
        let line = read_line(row, &fields)?;
        bytes += line.values.iter().map(size).sum::<usize>();
        lines.push(line);
        is_too_large = lines.len() > 1 && bytes > MAX_PIECE_BYTES;
        // Any error ends the reading.
        if is_too_large { Err(Error::NotFound) } else { Ok(()) }
    });
    if is_too_large {
        return Ok(None);
    }
    read?;
    let names = usernames(conn, &lines, &fields)?;
    let mut out = String::with_capacity(bytes + 150 * lines.len());
    for at in in_order(ids, lines.iter().map(|line| line.id)) {
        push_line(&mut out, &lines[at], &fields, &names);
    }
    Ok(Some(out.into_bytes()))
}

fn read_line(row: &Row<'_>, fields: &[Option<(&ClassField, &Field)>]) -> Result<Line, Error> {
    let mut at = OWN_COLUMNS.len();
    let mut values = Vec::with_capacity(fields.len());
    for field in fields {
        values.push(match field {
            Some((_, declared)) => {
                at += 1;
                stored_value(declared, row, at - 1)?
            }
            None => Value::Null,
        });
    }
    let people = [row.opt_int(1)?, row.opt_int(2)?, row.opt_int(3)?];
    Ok(Line { id: row.int(0)?, people, created_at: row.int(4)?, modified_at: row.int(5)?, values })
}

fn size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(size).sum::<usize>() + 2 * items.len(),
        _ => 20,
    }
}

/// The usernames of all people in these records.
fn usernames(
    conn: &mut Conn,
    lines: &[Line],
    fields: &[Option<(&ClassField, &Field)>],
) -> Result<HashMap<i64, String>, Error> {
    let mut ids: Vec<i64> = lines.iter().flat_map(|line| line.people).flatten().collect();
    for (at, field) in fields.iter().enumerate() {
        if field.is_some_and(|(field, _)| field.kind == FieldType::User) {
            ids.extend(lines.iter().flat_map(|line| line.values[at].ids()));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    let mut sql = Sql::new("SELECT u.id, u.username FROM users u WHERE u.id");
    Ok(conn.all(sql.any(ids), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))?.into_iter().collect())
}

fn push_line(out: &mut String, line: &Line, fields: &[Option<(&ClassField, &Field)>], names: &HashMap<i64, String>) {
    let name = |id: Option<i64>| id.and_then(|id| names.get(&id)).map_or("", String::as_str);
    let [owner, created_by, modified_by] = line.people;
    out.push_str(&line.id.to_string());
    push_text(out, name(owner));
    push_plain(out, &time::show(line.created_at));
    push_text(out, name(created_by));
    push_plain(out, &time::show(line.modified_at));
    push_text(out, name(modified_by));
    for (field, value) in fields.iter().zip(&line.values) {
        match (field.map(|(field, _)| field.kind), value) {
            (Some(FieldType::User), Value::Int(id)) => push_text(out, name(Some(*id))),
            (Some(FieldType::Datetime), Value::Int(at)) => push_plain(out, &time::show(*at)),
            (Some(FieldType::Decimal | FieldType::Date), Value::Text(text)) => push_plain(out, text),
            (_, Value::Int(number)) => push_plain(out, &number.to_string()),
            (_, Value::Bool(flag)) => push_plain(out, if *flag { "true" } else { "false" }),
            (_, Value::Text(text)) => push_text(out, text),
            (_, Value::List(items)) => push_text(out, &items.iter().map(item).collect::<Vec<_>>().join(", ")),
            _ => out.push(','),
        }
    }
    out.push_str("\r\n");
}

fn item(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_json().to_string(),
    }
}

/// Appends a value that is no text.
fn push_plain(out: &mut String, value: &str) {
    out.push(',');
    out.push_str(value);
}

/// Appends a text, with an apostrophe in front of one that could be taken for a formula.
fn push_text(out: &mut String, text: &str) {
    out.push(',');
    let guard = if text.starts_with(FORMULA) { "'" } else { "" };
    if text.contains([',', '"', '\r', '\n']) {
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
            ("=a,\"b\"", "\"'=a,\"\"b\"\"\""),
        ] {
            let mut out = String::new();
            push_text(&mut out, text);
            assert_eq!(out, format!(",{shown}"), "{text:?}");
        }
    }
}
