//! Checks the bodies of records against the declaration of their class (`docs/reference/object-records.md`). What only the
//! database can answer is asked for all records of a request together, so that a batch costs few statements.

use super::held::viewable;
use crate::classes::{Class, ClassField, MAX_RECORD_BYTES, table_of};
use crate::field_type::FieldType;
use identity::assignees::Principals;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::stored;
use resource::{Changes, Errors, Field, Kind, Lookup, Mode, Object, Value, accept, message};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use store::{Conn, Sql};

/// A record of a request whose body is checked.
pub struct Checked {
    /// The values of the fields and `owner`, as far as they are to be stored.
    pub changes: Changes,
    pub errors: Errors,
}

/// A body and what it is for.
pub struct Sent<'a> {
    pub body: Object<'a>,
    /// The stored values of the record that it changes; `None`: it creates one.
    pub before: Option<&'a Changes>,
    pub id: Option<i64>,
    /// Whether `owner` in it counts.
    pub takes_owner: bool,
}

/// The name of the member with the values.
pub const FIELDS: &str = "fields";
/// The name of the member with the owner.
pub const OWNER: &str = "owner";

/// Questions about the values of one record that the database answers.
#[derive(Default)]
struct Questions {
    /// Users in fields, and the user who is to be the owner.
    users: Vec<(String, i64)>,
    owner: Option<i64>,
    /// Related records, by alias.
    records: Vec<(String, i64)>,
    unique: Vec<(String, Value)>,
}

/// Notes questions instead of answering them.
struct Noting<'a> {
    questions: Questions,
    before: Option<&'a Changes>,
}

impl Lookup for Noting<'_> {
    type Error = Infallible;

    fn missing(&mut self, field: &Field, ids: &[i64]) -> Result<Vec<i64>, Infallible> {
        for id in ids {
            // A value that the field holds already is accepted whatever it is.
            if self.before.and_then(|before| before.value(&field.name)) == Some(&Value::Int(*id)) {
                continue;
            }
            match &field.kind {
                Kind::User => self.questions.owner = Some(*id),
                Kind::UserId => self.questions.users.push((field.name.to_string(), *id)),
                _ => self.questions.records.push((field.name.to_string(), *id)),
            }
        }
        Ok(Vec::new())
    }

    fn is_taken(&mut self, field: &Field, value: &Value) -> Result<bool, Infallible> {
        if self.before.and_then(|before| before.value(&field.name)) != Some(value) {
            self.questions.unique.push((field.name.to_string(), value.clone()));
        }
        Ok(false)
    }
}

/// Checks the bodies of records of a class, in the transaction of their write. The order is that of the bodies.
pub fn check(request: &Request, conn: &mut Conn, class: &Class, sent: &[Sent<'_>]) -> Result<Vec<Checked>, Refusal> {
    let mut all = Vec::with_capacity(sent.len());
    let mut questions = Vec::with_capacity(sent.len());
    for one in sent {
        let mode = if one.before.is_some() { Mode::Edit } else { Mode::Create };
        let body = one.body.clone().only(|name| name != OWNER || one.takes_owner);
        let mut noting = Noting { questions: Questions::default(), before: one.before };
        let Ok(accepted) = accept(&class.record, &body, mode, &mut noting);
        let mut checked = Checked { changes: accepted.changes, errors: accepted.errors };
        refuse_files(class, &mut checked);
        if one.before.is_none() {
            forget_lost_defaults(conn, class, &one.body, &mut checked)?;
        }
        bound(class, one.before, &mut checked);
        all.push(checked);
        questions.push(noting.questions);
    }
    answer_users(request, conn, &questions, &mut all)?;
    answer_records(request, conn, class, &questions, &mut all)?;
    answer_unique(conn, class, sent, &questions, &mut all)?;
    Ok(all)
}

impl Checked {
    /// Adds an error to the field of this alias.
    fn refuse_field(&mut self, alias: &str, message: String) {
        self.errors.add_nested(FIELDS, alias, message);
        self.changes.take(alias);
    }
}

/// Leaves out a user or a record that is a default but is there no more. Others are as they were declared, whether or not
/// the caller may view them.
fn forget_lost_defaults(
    conn: &mut Conn,
    class: &Class,
    body: &Object<'_>,
    checked: &mut Checked,
) -> Result<(), Refusal> {
    let refers = |field: &&ClassField| matches!(field.kind, FieldType::User | FieldType::Relation);
    for field in class.fields.iter().filter(|field| field.default.is_some()).filter(refers) {
        let sent = body.get(FIELDS).and_then(|fields| fields.as_object(|name| name == field.alias));
        let (None, Some(Value::Int(id))) =
            (sent.and_then(|fields| fields.get(&field.alias)), checked.changes.value(&field.alias).cloned())
        else {
            continue;
        };
        let mut sql = Sql::new("SELECT t.id FROM ");
        match field.related_object_class {
            Some(related) => sql.name(&table_of(related, 0)).push(" t WHERE t.id = ").bind(id),
            None => sql.push("users t WHERE t.is_deleted = 0 AND t.status <> 'anonymized' AND t.id = ").bind(id),
        };
        if conn.opt(sql.push(" FOR SHARE"), |_| Ok(()))?.is_none() {
            match field.is_required {
                true => checked.refuse_field(&field.alias, message::REQUIRED.to_owned()),
                false => checked.changes.insert(field.alias.clone(), Value::Null),
            }
        }
    }
    Ok(())
}

/// Files come with uploads, which do not exist yet: no token and no id is one that a field may hold.
fn refuse_files(class: &Class, checked: &mut Checked) {
    for field in class.fields.iter().filter(|field| field.kind == FieldType::Document) {
        let Some(Value::List(files)) = checked.changes.value(&field.alias).cloned() else { continue };
        for file in &files {
            let wrong = match file {
                Value::Text(token) => format!("Invalid token {token}."),
                other => message::pk(other.to_json()),
            };
            checked.refuse_field(&field.alias, wrong);
        }
        if files.is_empty() {
            checked.changes.insert(field.alias.clone(), Value::Null);
        }
    }
}

/// Refuses values that take too many bytes together.
fn bound(class: &Class, before: Option<&Changes>, checked: &mut Checked) {
    let size = |value: &Value| match value {
        Value::Null => 4,
        Value::Text(text) if text.len() < 1000 => text.len() + 2,
        other => other.to_json().to_string().len(),
    };
    let of_field = |field: &ClassField| {
        let value = checked.changes.value(&field.alias).or_else(|| before?.value(&field.alias));
        field.alias.len() + 4 + value.map_or(4, size)
    };
    if class.fields.iter().map(of_field).sum::<usize>() > MAX_RECORD_BYTES {
        checked.errors.add(FIELDS, message::TOO_LARGE);
    }
}

fn answer_users(
    request: &Request,
    conn: &mut Conn,
    questions: &[Questions],
    all: &mut [Checked],
) -> Result<(), Refusal> {
    let mut ids: Vec<i64> =
        questions.iter().flat_map(|of| of.users.iter().map(|(_, id)| *id).chain(of.owner)).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(());
    }
    let known = Principals::Users.look_up(conn, request.caller()?, &ids)?;
    for (of, checked) in questions.iter().zip(all) {
        for (alias, id) in &of.users {
            if known.get(id).is_none_or(|user| user.is_one_time || !user.is_listed) {
                checked.refuse_field(alias, message::pk(id));
            }
        }
        let Some(id) = of.owner else { continue };
        let wrong = match known.get(&id) {
            None => message::pk(id),
            Some(user) if user.is_one_time => format!("1 Time Completion account {id} cannot be owner."),
            Some(user) if !user.is_listed && id != request.caller()?.user => {
                format!("You do not have permission to make user {id} the owner of the record.")
            }
            Some(_) => continue,
        };
        checked.errors.add(OWNER, wrong);
    }
    Ok(())
}

fn answer_records(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    questions: &[Questions],
    all: &mut [Checked],
) -> Result<(), Refusal> {
    let related = |alias: &str| class.field(alias).and_then(|field| field.related_object_class).unwrap_or(0);
    let mut by_class: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (alias, id) in questions.iter().flat_map(|of| &of.records) {
        by_class.entry(related(alias)).or_default().push(*id);
    }
    let mut known: HashSet<(i64, i64)> = HashSet::new();
    for (class, mut ids) in by_class {
        ids.sort_unstable();
        ids.dedup();
        known.extend(viewable(conn, request.caller()?, class, &ids)?.into_iter().map(|id| (class, id)));
    }
    for (of, checked) in questions.iter().zip(all) {
        for (alias, id) in &of.records {
            if !known.contains(&(related(alias), *id)) {
                checked.refuse_field(alias, message::pk(id));
            }
        }
    }
    Ok(())
}

/// Refuses values of unique fields that another record has: a stored one, or one before it in the request.
fn answer_unique(
    conn: &mut Conn,
    class: &Class,
    sent: &[Sent<'_>],
    questions: &[Questions],
    all: &mut [Checked],
) -> Result<(), Refusal> {
    for field in class.fields.iter().filter(|field| field.is_unique) {
        let Some(declared) = class.declared(&field.alias) else { continue };
        let asked: Vec<(usize, &Value)> = questions
            .iter()
            .enumerate()
            .flat_map(|(at, of)| {
                of.unique.iter().filter(|(alias, _)| *alias == field.alias).map(move |(_, value)| (at, value))
            })
            .collect();
        if asked.is_empty() {
            continue;
        }
        let mut taken: HashMap<String, i64> = HashMap::new();
        for some in asked.chunks(500) {
            let table = table_of(class.id, field.table_number);
            let mut sql = Sql::new("SELECT x.id, x.");
            sql.name(&field.column())
                .push(" FROM ")
                .name(&table)
                .push(" x WHERE x.")
                .name(&field.column())
                .push(" IN (");
            for (n, (_, value)) in some.iter().enumerate() {
                sql.push(if n > 0 { ", " } else { "" }).bind(stored(declared, value));
            }
            let is_text = !matches!(some.first(), Some((_, Value::Int(_) | Value::Bool(_))));
            conn.each(sql.push(")"), |row| {
                let value = if is_text { row.text(1)?.to_owned() } else { row.int(1)?.to_string() };
                taken.insert(value, row.int(0)?);
                Ok(())
            })?;
        }
        let key = |value: &Value| match stored(declared, value) {
            store::Arg::Text(text) => text,
            store::Arg::Int(number) => number.to_string(),
            _ => String::new(),
        };
        let mut seen: HashSet<String> = HashSet::new();
        for (at, value) in asked {
            let key = key(value);
            // A record of the same request that gives its value up does so only when all are written.
            let is_others = taken.get(&key).is_some_and(|id| sent[at].id != Some(*id)) || !seen.insert(key);
            if is_others {
                all[at].refuse_field(&field.alias, message::UNIQUE.to_owned());
            }
        }
    }
    Ok(())
}
