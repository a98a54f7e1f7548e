//! Evaluates values, texts and conditions in the transaction of a step. Records are read with the rights of the account of the
//! run; one that it may not view is null.

use super::numbers::Number;
use super::{Val, compare};
use crate::definition::conditions::{Comparison, Condition, Operand};
use crate::definition::types::Type;
use crate::definition::values::{Operation, Piece, Reference, Template, Value};
use crate::schedule::date_of;
use administration::company_details::admin_email_address;
use documents::merge::TagValue;
use documents::merge::format::format_value;
use identity::timezones;
use kit::ids::{RecordId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, class};
use records::single_records::{self, StoredRecord, class_of, each_stored, load_record_access};
use resource::{Predicate, message, time};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use store::{Conn, Sql};

/// The maximum number of characters of a filled text.
const MAX_TEXT: usize = 20_000;

/// Values by name.
pub type Named = BTreeMap<String, Val>;

/// The facts about a run, besides the records that it reads.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub record: Option<RecordId>,
    /// The record for which the step is repeated.
    pub item: Option<RecordId>,
    /// The former values of changed fields.
    pub before: &'a Named,
    /// The task whose state started the run: `id`, `status`, `completed_by`, `response`.
    pub task: &'a Named,
    /// The values of a record whose deletion started the run.
    pub deleted: Option<&'a Named>,
    pub inputs: &'a Named,
    /// The outputs of steps by their keys.
    pub outputs: &'a BTreeMap<String, Named>,
    pub starter: Option<UserId>,
    pub run: &'a str,
    /// The time zone of its schedule.
    pub zone: Option<&'a str>,
}

/// A record with its class.
struct LoadedRecord {
    class: Arc<Class>,
    stored: StoredRecord,
}

/// Evaluates values.
pub struct Evaluator<'a> {
    request: &'a Request,
    facts: Facts<'a>,
    /// True if records are read whatever the account may view: for conditions of triggers.
    is_of_system: bool,
    records: HashMap<RecordId, Option<Rc<LoadedRecord>>>,
}

impl<'a> Evaluator<'a> {
    /// Evaluates with the rights of the caller of the request.
    pub fn for_account(request: &'a Request, facts: Facts<'a>) -> Evaluator<'a> {
        Evaluator { request, facts, is_of_system: false, records: HashMap::new() }
    }

    /// Evaluates conditions of triggers and waits, which see the record without regard to rights.
    pub fn for_system(request: &'a Request, facts: Facts<'a>) -> Evaluator<'a> {
        Evaluator { request, facts, is_of_system: true, records: HashMap::new() }
    }

    pub fn value(&mut self, conn: &mut Conn, value: &Value) -> Result<Val, Refusal> {
        match value {
            Value::Literal(literal) | Value::Plain(literal) => Ok(of_literal(literal)),
            Value::Reference(reference) => self.reference(conn, reference),
            Value::Text(template) => Ok(Val::Text(self.text(conn, template)?)),
            Value::First(items) => {
                for item in items {
                    let value = self.value(conn, item)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Val::Null)
            }
            Value::Calculation(operation, operands) => self.calculate(conn, *operation, operands),
            Value::Span(_) | Value::Broken => Ok(Val::Null),
        }
    }

    fn calculate(&mut self, conn: &mut Conn, operation: Operation, operands: &[Value; 2]) -> Result<Val, Refusal> {
        let [first, second] = operands;
        let first = self.value(conn, first)?;
        let sign = if operation == Operation::Subtract { -1 } else { 1 };
        if let Value::Span(span) = second {
            return Ok(match &first {
                Val::Moment(at) => Val::Moment(span.moved(*at, sign)),
                Val::Date(date) | Val::Text(date) => match date.parse::<jiff::civil::Date>() {
                    Ok(day) => match span.moved_date(day, sign) {
                        Some(day) => Val::Date(day.to_string()),
                        None => time::parse(&format!("{date}T00:00:00Z"))
                            .map_or(Val::Null, |at| Val::Moment(span.moved(at, sign))),
                    },
                    Err(_) => time::parse(date).map_or(Val::Null, |at| Val::Moment(span.moved(at, sign))),
                },
                _ => Val::Null,
            });
        }
        let second = self.value(conn, second)?;
        let (Some(left), Some(right)) = (number_of(&first), number_of(&second)) else { return Ok(Val::Null) };
        let result = match operation {
            Operation::Add => left.plus(right),
            Operation::Subtract => left.minus(right),
            Operation::Multiply => left.times(right),
        };
        let result = result.ok_or_else(|| Refusal::bad_request(message::TOO_LARGE))?;
        let are_ints = matches!((&first, &second), (Val::Int(_), Val::Int(_)));
        match result.to_int().filter(|_| are_ints) {
            Some(number) => Ok(Val::Int(number)),
            None if are_ints => Err(Refusal::bad_request(message::TOO_LARGE)),
            None => Ok(Val::Decimal(result.to_text())),
        }
    }

    /// Returns the value of a reference. A record of the run that the account may not view is refused with 404.
    pub fn reference(&mut self, conn: &mut Conn, reference: &Reference) -> Result<Val, Refusal> {
        let value = self.named(conn, reference)?;
        if reference.is_link {
            let address = self.request.app.address_of(&self.request.build);
            return Ok(match value {
                Val::Record(id) => Val::Text(format!("{address}/console/records/-/{id}")),
                Val::Task(id) => Val::Text(format!("{address}/console/tasks/{id}")),
                _ => Val::Null,
            });
        }
        let Some(pointer) = &reference.pointer else { return Ok(value) };
        let found = match &value {
            Val::Json(json) => json.pointer(pointer).cloned().unwrap_or(Json::Null),
            _ => Json::Null,
        };
        match &reference.pointed {
            None => Ok(of_literal(&found)),
            Some((of, _)) => Val::of_json(of, &found).ok_or_else(|| {
                let expected = Type::of_input(of, None).map_or("json", |of| of.name());
                Refusal::bad_request(format!("Expected {expected}, but got {}.", Val::json_type(&found)))
            }),
        }
    }

    fn named(&mut self, conn: &mut Conn, reference: &Reference) -> Result<Val, Refusal> {
        let names: Vec<&str> = reference.names.iter().map(String::as_str).collect();
        let own = |values: &Named, name: &str| values.get(name).cloned().unwrap_or_default();
        match names.as_slice() {
            ["now"] => Ok(Val::Moment(self.request.now)),
            ["today"] => Ok(Val::Date(self.today())),
            ["starter"] => Ok(self.facts.starter.map_or(Val::Null, |user| Val::User(user.get()))),
            ["task"] => Ok(own(self.facts.task, "id")),
            ["task", "id"] => Ok(match own(self.facts.task, "id") {
                Val::Task(id) => Val::Int(id),
                other => other,
            }),
            ["task", name] => Ok(own(self.facts.task, name)),
            ["run", "uuid"] => Ok(Val::Text(self.facts.run.to_owned())),
            ["company", _] => Ok(Val::Text(admin_email_address(conn)?)),
            ["before", alias] => Ok(own(self.facts.before, alias)),
            ["record", rest @ ..] => self.own_record(conn, rest),
            ["item", rest @ ..] => {
                let item = self.facts.item.map_or(Val::Null, |item| Val::Record(item.get()));
                self.member(conn, item, rest)
            }
            ["inputs", name, rest @ ..] => {
                let value = own(self.facts.inputs, name);
                self.member(conn, value, rest)
            }
            ["steps", key, rest @ ..] => {
                let Some(outputs) = self.facts.outputs.get(*key) else { return Ok(Val::Null) };
                match rest {
                    ["error", part, ..] => Ok(own(outputs, &format!("error.{part}"))),
                    [name, rest @ ..] => {
                        let value = own(outputs, name);
                        self.member(conn, value, rest)
                    }
                    [] => Ok(Val::Null),
                }
            }
            _ => Ok(Val::Null),
        }
    }

    /// The date in the time zone of the schedule, otherwise in UTC.
    fn today(&self) -> String {
        match self.facts.zone.and_then(timezones::zone) {
            Some(zone) => date_of(self.request.now, &zone).to_string(),
            None => time::show(self.request.now)[..10].to_owned(),
        }
    }

    fn own_record(&mut self, conn: &mut Conn, rest: &[&str]) -> Result<Val, Refusal> {
        let Some(id) = self.facts.record else { return Ok(Val::Null) };
        if let Some(deleted) = self.facts.deleted {
            return match rest {
                [] | ["id"] => Ok(if rest.is_empty() { Val::Record(id.get()) } else { Val::Int(id.get()) }),
                [name, rest @ ..] => {
                    let value = deleted.get(*name).cloned().unwrap_or_default();
                    self.member(conn, value, rest)
                }
            };
        }
        if !rest.is_empty() && self.record(conn, id)?.is_none() {
            return Err(Refusal::not_found());
        }
        self.member(conn, Val::Record(id.get()), rest)
    }

    /// Returns a member of a record, or of the record to which it relates.
    fn member(&mut self, conn: &mut Conn, value: Val, names: &[&str]) -> Result<Val, Refusal> {
        let [name, rest @ ..] = names else { return Ok(value) };
        let Val::Record(id) = value else { return Ok(Val::Null) };
        let Some(record) = self.record(conn, RecordId::new(id))? else { return Ok(Val::Null) };
        let user = |user: Option<UserId>| user.map_or(Val::Null, |user| Val::User(user.get()));
        let stored = &record.stored;
        let member = match *name {
            "id" => Val::Int(id),
            "owner" => user(stored.owner),
            "created_at" => Val::Moment(stored.created_at),
            "created_by" => user(stored.created_by),
            "modified_at" => Val::Moment(stored.modified_at),
            "modified_by" => user(stored.modified_by),
            alias => match (record.class.field(alias), stored.values.value(alias)) {
                (Some(field), Some(value)) => Val::of_field(field, value),
                _ => Val::Null,
            },
        };
        self.member(conn, member, rest)
    }

    fn record(&mut self, conn: &mut Conn, id: RecordId) -> Result<Option<Rc<LoadedRecord>>, Refusal> {
        if let Some(known) = self.records.get(&id) {
            return Ok(known.clone());
        }
        let class = match self.is_of_system {
            true => match class_of(conn, id)? {
                Some(of) => class(&self.request.app, &self.request.build, conn, of)?,
                None => None,
            },
            false => load_record_access(self.request, conn, id)?.map(|held| held.class),
        };
        let mut loaded = None;
        if let Some(class) = class {
            each_stored(
                conn,
                &class.clone(),
                vec![id],
                |_| true,
                |stored| {
                    loaded = Some(Rc::new(LoadedRecord { class: class.clone(), stored }));
                },
            )?;
        }
        self.records.insert(id, loaded.clone());
        Ok(loaded)
    }

    /// The records that were read, and that the account may view.
    pub fn read_records(&self) -> Vec<RecordId> {
        self.records.iter().filter(|(_, record)| record.is_some()).map(|(id, _)| *id).collect()
    }

    /// Returns whether a condition is true.
    pub fn condition(&mut self, conn: &mut Conn, condition: &Condition) -> Result<bool, Refusal> {
        match condition {
            Condition::Always => Ok(true),
            Condition::Comparison(comparison) => self.comparison(conn, comparison),
            Condition::Not(inside) => Ok(!self.condition(conn, inside)?),
            Condition::All(parts) => {
                for part in parts {
                    if !self.condition(conn, part)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Any(parts) => {
                for part in parts {
                    if self.condition(conn, part)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn comparison(&mut self, conn: &mut Conn, comparison: &Comparison) -> Result<bool, Refusal> {
        let value = self.reference(conn, &comparison.reference)?;
        if let (Predicate::Isnull, Operand::Absence(is_absent)) = (comparison.predicate, &comparison.to) {
            return Ok(value.is_null() == *is_absent);
        }
        let mut operands = Vec::new();
        for operand in comparison.to.values() {
            operands.push(like(&value, self.value(conn, operand)?));
        }
        Ok(compare::holds(&value, comparison.predicate, &operands))
    }

    /// Fills a text. Values are shown as document templates show them.
    pub fn text(&mut self, conn: &mut Conn, template: &Template) -> Result<String, Refusal> {
        let mut out = String::new();
        self.pieces(conn, &template.0, &mut out)?;
        if out.chars().count() > MAX_TEXT {
            return Err(Refusal::bad_request(message::too_long(MAX_TEXT)));
        }
        Ok(out)
    }

    fn pieces(&mut self, conn: &mut Conn, pieces: &[Piece], out: &mut String) -> Result<(), Refusal> {
        for piece in pieces {
            match piece {
                Piece::Plain(text) => out.push_str(text),
                Piece::Value(reference, filters) => {
                    let value = self.shown(conn, reference)?;
                    out.push_str(&format_value(value, filters));
                }
                Piece::Block(reference, is_absence, inside) => {
                    if self.shown(conn, reference)?.is_truthy() != *is_absence {
                        self.pieces(conn, inside, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns a value in the form for people.
    fn shown(&mut self, conn: &mut Conn, reference: &Reference) -> Result<TagValue, Refusal> {
        let joined = |items: &[(String, String)]| {
            let texts: Vec<&str> = items.iter().map(|(_, text)| text.as_str()).collect();
            TagValue::Text(texts.join(", "))
        };
        Ok(match self.reference(conn, reference)? {
            Val::Null | Val::Groups(_) => TagValue::Empty,
            Val::Text(text) | Val::Choice(_, text) => TagValue::Text(text),
            Val::Int(number) | Val::Task(number) => TagValue::Number(number.to_string()),
            Val::Decimal(number) => TagValue::Number(number),
            Val::Bool(value) => TagValue::Bool(value),
            Val::Date(date) => date.parse().map_or_else(|_| TagValue::Text(date.clone()), TagValue::Date),
            Val::Moment(at) => TagValue::DateTime(at),
            Val::Set(items) => joined(&items),
            Val::User(user) => TagValue::Text(user_names(conn, &[user])?),
            Val::Users(users) => TagValue::Text(user_names(conn, &users)?),
            Val::Record(id) => TagValue::Text(self.label(conn, id)?),
            Val::Records(ids) => {
                let mut labels = Vec::new();
                for id in ids {
                    labels.push(self.label(conn, id)?);
                }
                TagValue::Text(labels.join(", "))
            }
            Val::Json(Json::String(text)) => TagValue::Text(text),
            Val::Json(Json::Number(number)) => TagValue::Number(number.to_string()),
            Val::Json(Json::Bool(value)) => TagValue::Bool(value),
            Val::Json(_) => TagValue::Empty,
        })
    }

    /// Returns the label of a record, or an empty text if the account may not view it.
    fn label(&mut self, conn: &mut Conn, id: i64) -> Result<String, Refusal> {
        let id = RecordId::new(id);
        match self.record(conn, id)? {
            Some(record) => Ok(single_records::label(conn, &record.class, id)?),
            None => Ok(String::new()),
        }
    }
}

/// Returns the full names of users, separated by `, `.
fn user_names(conn: &mut Conn, users: &[i64]) -> Result<String, Refusal> {
    let mut sql = Sql::new("SELECT u.full_name FROM users u WHERE u.id");
    sql.push_any(users.iter().copied()).push(" ORDER BY u.id");
    Ok(conn.query_all(&sql, |row| Ok(row.text(0)?.to_owned()))?.join(", "))
}

/// Returns a literal as a value.
pub fn of_literal(literal: &Json) -> Val {
    match literal {
        Json::Null => Val::Null,
        Json::Bool(value) => Val::Bool(*value),
        Json::Number(number) => number.as_i64().map_or_else(|| Val::Decimal(number.to_string()), Val::Int),
        Json::String(text) => Val::Text(text.clone()),
        other => Val::Json(other.clone()),
    }
}

fn number_of(value: &Val) -> Option<Number> {
    match value {
        Val::Int(number) => Some(Number::from_int(*number)),
        Val::Decimal(text) | Val::Text(text) => Number::parse(text),
        _ => None,
    }
}

/// Returns a literal operand with the type of the value with which it is compared.
fn like(value: &Val, operand: Val) -> Val {
    match (value, operand) {
        (Val::Date(_) | Val::Moment(_), Val::Text(text)) => match time::parse_date(&text) {
            Some(date) => Val::Date(date),
            None => time::parse(&text).map_or(Val::Null, Val::Moment),
        },
        (Val::Int(_) | Val::Decimal(_), Val::Text(text)) => Val::Decimal(text),
        (Val::Set(_), Val::Json(Json::Array(items))) => {
            let texts = items.iter().filter_map(|item| item.as_str().map(|item| (item.to_owned(), item.to_owned())));
            Val::Set(texts.collect())
        }
        (Val::Json(_), operand) => Val::Json(operand.to_json()),
        (_, operand) => operand,
    }
}
