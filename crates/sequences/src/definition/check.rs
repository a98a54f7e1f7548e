//! Checks a definition against the build: what it names exists and is visible to its publisher, its references are known where
//! they stand, and its values have the right types (`docs/reference/sequences.md`).

use super::conditions::{Comparison, Condition, Operand, Selection};
use super::people::People;
use super::types::Type;
use super::values::{NO_REFERENCE, Operation, Reference, Template, Value};
use super::{Action, Definition, EachSource, Input, ManualTrigger, RecordTrigger, Step, TaskRecordOf, Trigger, Wait};
use crate::problems::{Place, Problems};
use identity::visibility::{visible_groups, visible_users};
use kit::ids::{ClassId, RecordId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, class};
use records::field_type::FieldType;
use records::rights::load_class_actions;
use records::single_records::load_record_access;
use resource::{Field, JsonBody, Predicate, check_value, message};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use store::{Conn, Sql};

const NO_DOCUMENTS: &str = "This field cannot be written by a sequence.";
/// The fields of the company to which definitions refer.
const COMPANY_FIELDS: [&str; 1] = ["admin_email_address"];

/// The place of a reference, which decides what is known there.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// The condition of a trigger, or of a wait: the record's own fields and the time.
    Condition,
    /// A step.
    Step,
}

/// A step that was checked before.
struct KnownStep {
    key: String,
    /// The branches that contain it: the key of the step with the branches, and the place of the branch.
    within: Vec<(String, usize)>,
    /// True if it repeats the steps inside it.
    is_each: bool,
    outputs: HashMap<&'static str, Type>,
}

/// Checks a definition for its publisher, who is the caller of the request. Problems are added.
pub fn check(
    request: &Request,
    conn: &mut Conn,
    definition: &Definition,
    problems: &mut Problems,
) -> Result<(), Refusal> {
    let mut checker = Checker {
        request,
        conn,
        problems,
        classes: HashMap::new(),
        trigger: definition.trigger.as_ref(),
        known: Vec::new(),
        within: Vec::new(),
        items: Vec::new(),
        has_no_run: false,
    };
    checker.trigger()?;
    checker.users(&definition.notify, &Place::default().of("notify"))?;
    checker.steps(&definition.steps)
}

struct Checker<'a> {
    request: &'a Request,
    conn: &'a mut Conn,
    problems: &'a mut Problems,
    /// The classes that were loaded; `None`: the caller may not view such a class.
    classes: HashMap<i64, Option<Arc<Class>>>,
    trigger: Option<&'a Trigger>,
    known: Vec<KnownStep>,
    /// The branches around the step that is checked.
    within: Vec<(String, usize)>,
    /// The classes of the records for which it is repeated, from the outside.
    items: Vec<Option<i64>>,
    /// True in the selection of a trigger, where there is no run yet.
    has_no_run: bool,
}

/// The type of a reference, or the message of its problem.
type Resolved = Result<Type, String>;

impl Checker<'_> {
    /// Loads a class that the caller may view, and reports another one.
    fn class(&mut self, id: i64, place: &Place) -> Result<Option<Arc<Class>>, Refusal> {
        let found = self.visible_class(id)?;
        // An id that is missing was reported before.
        if found.is_none() && !self.problems.has_any(place) {
            self.problems.add(place, message::invalid_id_message(id));
        }
        Ok(found)
    }

    fn visible_class(&mut self, id: i64) -> Result<Option<Arc<Class>>, Refusal> {
        if let Some(known) = self.classes.get(&id) {
            return Ok(known.clone());
        }
        let class_id = ClassId::new(id);
        let rights = load_class_actions(self.conn, self.request.caller()?, class_id)?;
        let found = match rights.filter(|rights| rights.sees_class()) {
            Some(_) => class(&self.request.app, &self.request.build, self.conn, class_id)?,
            None => None,
        };
        self.classes.insert(id, found.clone());
        Ok(found)
    }

    fn trigger(&mut self) -> Result<(), Refusal> {
        let place = Place::default().of("trigger");
        match self.trigger {
            None => Ok(()),
            Some(Trigger::Record(record)) => self.record_trigger(record, &place),
            Some(Trigger::Task(task)) => {
                if let Some(id) = task.object_class {
                    self.class(id, &place.of("object_class"))?;
                } else if task.condition.is_some() {
                    self.problems.add(&place.of("condition"), message::NO_FIELD);
                    return Ok(());
                }
                if let Some(template) = task.task_template {
                    self.task_template(template, &place.of("task_template"))?;
                }
                self.condition(task.condition.as_ref(), Scope::Condition, &place.of("condition"))
            }
            Some(Trigger::Schedule(schedule)) => {
                let Some((class, selection)) = &schedule.for_each else { return Ok(()) };
                let at = place.of("for_each");
                let Some(class) = self.class(*class, &at.of("object_class"))? else { return Ok(()) };
                self.has_no_run = true;
                let checked = self.selection(selection, &class, &at.of("condition"));
                self.has_no_run = false;
                checked
            }
            Some(Trigger::Manual(manual)) => self.manual_trigger(manual, &place),
        }
    }

    fn record_trigger(&mut self, record: &RecordTrigger, place: &Place) -> Result<(), Refusal> {
        let Some(class) = self.class(record.object_class, &place.of("object_class"))? else { return Ok(()) };
        for alias in record.fields.iter().filter(|alias| class.field(alias).is_none()) {
            let _ = alias;
            self.problems.add(&place.of("fields"), message::NO_FIELD);
        }
        self.condition(record.condition.as_ref(), Scope::Condition, &place.of("condition"))
    }

    fn manual_trigger(&mut self, manual: &ManualTrigger, place: &Place) -> Result<(), Refusal> {
        if let Some(id) = manual.object_class {
            self.class(id, &place.of("object_class"))?;
        } else if manual.condition.is_some() {
            self.problems.add(&place.of("condition"), message::NO_FIELD);
        }
        self.groups(&manual.user_groups, &place.of("user_groups"))?;
        for (at, input) in manual.inputs.iter().enumerate() {
            self.input(input, &place.of("inputs").of(at))?;
        }
        self.condition(manual.condition.as_ref(), Scope::Condition, &place.of("condition"))
    }

    fn input(&mut self, input: &Input, place: &Place) -> Result<(), Refusal> {
        if let Some(id) = input.object_class {
            self.class(id, &place.of("object_class"))?;
        }
        let Some(default) = &input.default else { return Ok(()) };
        for wrong in input_errors(input, default) {
            self.problems.add(&place.of("default"), wrong);
        }
        Ok(())
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Refusal> {
        for step in steps {
            let place = step.place.clone();
            self.condition(step.condition.as_ref(), Scope::Step, &place.of("if"))?;
            let outputs = self.action(step)?;
            let (key, within) = (step.key.clone(), self.within.clone());
            // The step is known to those behind it, and those inside it know that it is not over.
            let is_each = matches!(step.action, Action::ForEach { .. });
            self.known.push(KnownStep { key, within, is_each, outputs });
            match &step.action {
                Action::Branch { branches, otherwise } => {
                    for (at, (condition, steps)) in branches.iter().enumerate() {
                        self.condition(Some(condition), Scope::Step, &place.of("branches").of(at).of("if"))?;
                        self.inside(&step.key, at, steps)?;
                    }
                    self.inside(&step.key, branches.len(), otherwise)?;
                }
                Action::ForEach { source, steps, .. } => {
                    let item = self.class_of_items(source)?;
                    self.items.push(item);
                    let checked = self.inside(&step.key, 0, steps);
                    self.items.pop();
                    checked?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The class of the records for which steps are repeated, if it is known.
    fn class_of_items(&mut self, source: &EachSource) -> Result<Option<i64>, Refusal> {
        match source {
            EachSource::Children(class) => Ok(Some(*class)),
            EachSource::Records(Value::Reference(reference)) => match self.resolve(reference, Scope::Step)? {
                Ok(Type::Records(class)) => Ok(class),
                _ => Ok(None),
            },
            EachSource::Records(_) | EachSource::Broken => Ok(None),
        }
    }

    fn each(&mut self, source: &EachSource, selection: &Selection, place: &Place) -> Result<(), Refusal> {
        match source {
            EachSource::Children(id) => {
                let at = place.of("in").of("children");
                let parent = self.class_of_run();
                if parent.is_none() {
                    self.problems.add(&at, NO_REFERENCE);
                }
                if let Some(class) = self.class(*id, &at)? {
                    let points = |class: &Class| {
                        class.fields.iter().any(|field| field.related_object_class.map(ClassId::get) == parent)
                    };
                    if parent.is_some() && !points(&class) {
                        self.problems.add(&at, message::invalid_id_message(*id));
                    }
                }
            }
            EachSource::Records(value) => {
                self.value(Some(value), &Type::Records(None), &place.of("in").of("records"))?;
            }
            EachSource::Broken => {}
        }
        let class = self.class_of_items(source)?;
        match self.optional_class(class)? {
            Some(class) => self.selection(selection, &class, &place.of("condition")),
            None => Ok(()),
        }
    }

    fn inside(&mut self, key: &str, branch: usize, steps: &[Step]) -> Result<(), Refusal> {
        self.within.push((key.to_owned(), branch));
        let checked = self.steps(steps);
        self.within.pop();
        checked
    }

    /// Checks what a step does. Returns the types of its outputs.
    fn action(&mut self, step: &Step) -> Result<HashMap<&'static str, Type>, Refusal> {
        let place = &step.place;
        let mut outputs =
            HashMap::from([("failed", Type::BOOLEAN), ("error.status", Type::INTEGER), ("error.detail", Type::TEXT)]);
        match &step.action {
            Action::CreateRecord { object_class, fields, owner, sets } => {
                let class = self.class(*object_class, &place.of("object_class"))?;
                if let Some(class) = class {
                    self.fields(&class, fields, place)?;
                    for (at, (set, to)) in sets.iter().enumerate() {
                        let at = place.of("permission_sets").of(at);
                        self.record_set(*set, Some(class.id.get()), &at.of("permission_set"))?;
                        self.people(to, self.class_of_run(), &at.of("to"))?;
                    }
                }
                self.value(owner.as_ref(), &Type::USER, &place.of("owner"))?;
                outputs.insert("record", Type::Record(Some(*object_class)));
            }
            Action::UpdateRecord { record, fields, owner } => {
                let class = self.record_of_step(record.as_ref(), place)?;
                if let Some(class) = self.optional_class(class)? {
                    self.fields(&class, fields, place)?;
                }
                self.value(owner.as_ref(), &Type::USER, &place.of("owner"))?;
                outputs.insert("record", Type::Record(class));
                outputs.insert("changed", Type::Field(FieldType::Set));
            }
            Action::DeleteRecord { record } => drop(self.record_of_step(record.as_ref(), place)?),
            Action::Assign { record, set, to, .. } => {
                let class = self.record_of_step(record.as_ref(), place)?;
                self.record_set(*set, class, &place.of("permission_set"))?;
                self.people(to, class, &place.of("to"))?;
                outputs.insert("users", Type::Users);
                outputs.insert("user_groups", Type::Groups);
            }
            Action::FindRecords { object_class, selection, .. } => {
                if let Some(class) = self.class(*object_class, &place.of("object_class"))? {
                    self.selection(selection, &class, &place.of("condition"))?;
                }
                outputs.insert("records", Type::Records(Some(*object_class)));
                outputs.insert("first", Type::Record(Some(*object_class)));
                outputs.insert("count", Type::INTEGER);
            }
            Action::CreateTask { template, record, name, assignees, due_at } => {
                let class = match record {
                    TaskRecordOf::Nothing => None,
                    TaskRecordOf::Run => self.record_of_step(None, place)?,
                    TaskRecordOf::Value(value) => self.record_of_step(Some(value), place)?,
                };
                self.task_template(*template, &place.of("task_template"))?;
                self.value(name.as_ref(), &Type::STRING, &place.of("name"))?;
                self.people(assignees, class.or(self.class_of_run()), &place.of("assignees"))?;
                self.value(due_at.as_ref(), &Type::DATETIME, &place.of("due_at"))?;
                outputs.insert("task", Type::Task);
            }
            Action::GenerateDocument { template, record, field } => {
                let class = self.record_of_step(record.as_ref(), place)?;
                self.document_template(*template, class, &place.of("document_template"))?;
                if let (Some(alias), Some(class)) = (field, self.optional_class(class)?) {
                    let is_document = class.field(alias).map(|field| field.kind == FieldType::Document);
                    let at = place.of("object_record_field");
                    match is_document {
                        None => self.problems.add(&at, message::NO_FIELD),
                        Some(false) => self.problems.add(&at, message::VALUE),
                        Some(true) => {}
                    }
                }
                outputs.insert("status", Type::STRING);
            }
            Action::SendMail(mail) => {
                self.receivers(&mail.to, &place.of("to"))?;
                if let Some(subject) = &mail.subject {
                    self.template(subject, &place.of("subject"))?;
                }
                self.template(&mail.text, &place.of("text"))?;
                outputs.insert("sent", Type::Users);
                outputs.insert("left_out", Type::Users);
            }
            Action::CancelTask { task } => self.value(Some(task), &Type::Task, &place.of("task"))?,
            Action::Wait { for_what, .. } => {
                outputs.insert("outcome", Type::STRING);
                let at = place.of("for");
                match for_what {
                    Wait::Span(_) | Wait::Broken => {}
                    Wait::Until(value) => self.value(Some(value), &Type::DATETIME, &at.of("until"))?,
                    Wait::Task(value) => {
                        self.value(Some(value), &Type::Task, &at.of("task"))?;
                        outputs.extend(task_outputs());
                    }
                    Wait::Condition(condition) => {
                        self.record_of_step(None, place)?;
                        self.condition(Some(condition), Scope::Condition, &at.of("condition"))?;
                    }
                }
            }
            Action::Branch { .. } => drop(outputs.insert("taken", Type::INTEGER)),
            Action::ForEach { source, selection, .. } => {
                self.each(source, selection, place)?;
                outputs.insert("count", Type::INTEGER);
                outputs.insert("left_out", Type::INTEGER);
            }
            Action::Stop { message, .. } => {
                if let Some(message) = message {
                    self.template(message, &place.of("message"))?;
                }
            }
        }
        Ok(outputs)
    }

    fn class_of_run(&self) -> Option<i64> {
        self.trigger.and_then(Trigger::object_class)
    }

    fn optional_class(&mut self, id: Option<i64>) -> Result<Option<Arc<Class>>, Refusal> {
        match id {
            Some(id) => self.visible_class(id),
            None => Ok(None),
        }
    }

    /// Returns the class of the record of a step, which is that of the run unless the step names another one.
    fn record_of_step(&mut self, record: Option<&Value>, place: &Place) -> Result<Option<i64>, Refusal> {
        let at = place.of("record");
        match record {
            None => {
                let class = self.class_of_run();
                if class.is_none() {
                    self.problems.add(&at, message::REQUIRED);
                }
                Ok(class)
            }
            Some(Value::Literal(Json::Number(number))) => {
                let id = RecordId::new(number.as_i64().unwrap_or(0));
                let found = load_record_access(self.request, self.conn, id)?;
                if found.is_none() {
                    self.problems.add(&at, message::invalid_id_message(id));
                }
                Ok(found.map(|held| held.class.id.get()))
            }
            Some(value) => {
                self.value(Some(value), &Type::Record(None), &at)?;
                match value {
                    Value::Reference(reference) => match self.resolve(reference, Scope::Step)? {
                        Ok(Type::Record(class)) => Ok(class),
                        _ => Ok(None),
                    },
                    _ => Ok(None),
                }
            }
        }
    }

    fn fields(&mut self, class: &Arc<Class>, fields: &[(String, Value)], place: &Place) -> Result<(), Refusal> {
        for (alias, value) in fields {
            let at = place.of("fields").of(alias);
            let (Some(field), Some(declared)) = (class.field(alias), class.resource_field(alias)) else {
                self.problems.add(&at, message::NO_FIELD);
                continue;
            };
            if field.kind == FieldType::Document {
                self.problems.add(&at, NO_DOCUMENTS);
                continue;
            }
            self.value_of(value, &Type::of_field(field), Some(declared), &at)?;
        }
        Ok(())
    }

    fn value(&mut self, value: Option<&Value>, expected: &Type, place: &Place) -> Result<(), Refusal> {
        match value {
            Some(value) => self.value_of(value, expected, None, place),
            None => Ok(()),
        }
    }

    /// Checks that a value has the expected type. A literal is checked by the declaration of its field, or by its type.
    fn value_of(
        &mut self,
        value: &Value,
        expected: &Type,
        declared: Option<&Field>,
        place: &Place,
    ) -> Result<(), Refusal> {
        match value {
            Value::Broken => Ok(()),
            Value::Plain(_) if *expected == Type::Json => Ok(()),
            Value::Literal(literal) | Value::Plain(literal) => self.literal(literal, expected, declared, place),
            Value::Reference(reference) => {
                if reference.pointer.is_some() && reference.pointed.is_none() {
                    self.problems.add(&place.of("type"), message::REQUIRED);
                    return Ok(());
                }
                match self.resolve(reference, Scope::Step)? {
                    Err(wrong) => self.problems.add(place, wrong),
                    Ok(of) if of.fits(expected) => {}
                    Ok(of) => self.expected(expected, &of, place),
                }
                Ok(())
            }
            Value::Text(template) => {
                self.template(template, place)?;
                let fits = expected.is_textual() || *expected == Type::Json;
                if !fits {
                    self.expected(expected, &Type::STRING, place);
                }
                Ok(())
            }
            Value::First(items) => items.iter().try_for_each(|item| self.value_of(item, expected, declared, place)),
            Value::Calculation(operation, operands) => {
                if let Some(of) = self.calculation(*operation, operands, place)?
                    && !of.fits(expected)
                {
                    self.expected(expected, &of, place);
                }
                Ok(())
            }
            Value::Span(_) => {
                self.problems.add(place, message::VALUE);
                Ok(())
            }
        }
    }

    fn expected(&mut self, expected: &Type, of: &Type, place: &Place) {
        self.problems.add(place, format!("Expected {}, but got {}.", expected.name(), of.name()));
    }

    fn literal(
        &mut self,
        literal: &Json,
        expected: &Type,
        declared: Option<&Field>,
        place: &Place,
    ) -> Result<(), Refusal> {
        let own = expected.to_field();
        let Some(field) = declared.or(own.as_ref()) else {
            let is_list = matches!(expected, Type::Field(FieldType::Set) | Type::Records(_)) && literal.is_array();
            if !is_list && *expected != Type::Json && !literal.is_null() {
                self.problems.add(place, message::VALUE);
            }
            return Ok(());
        };
        let body = JsonBody::from_json(literal);
        if let Err(errors) = check_value(field, body.as_value()) {
            errors.into_iter().for_each(|wrong| self.problems.add(place, wrong));
            return Ok(());
        }
        match (expected, literal.as_i64()) {
            (Type::Field(FieldType::User), Some(id)) => self.users(&[id], place),
            (Type::Record(class), Some(id)) => {
                let held = load_record_access(self.request, self.conn, RecordId::new(id))?;
                if held.is_none_or(|held| class.is_some_and(|class| held.class.id.get() != class)) {
                    self.problems.add(place, message::invalid_id_message(id));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a calculation and returns its type; `None` if it has a problem.
    fn calculation(
        &mut self,
        operation: Operation,
        operands: &[Value; 2],
        place: &Place,
    ) -> Result<Option<Type>, Refusal> {
        let [first, second] = operands;
        let Some(of) = self.operand(first, place)? else { return Ok(None) };
        let is_time = of == Type::DATE || of == Type::DATETIME;
        if is_time {
            if operation == Operation::Multiply || !matches!(second, Value::Span(_) | Value::Broken) {
                self.problems.add(place, message::VALUE);
                return Ok(None);
            }
            return Ok(Some(of));
        }
        let Some(other) = self.operand(second, place)? else { return Ok(None) };
        for part in [&of, &other] {
            if *part != Type::INTEGER && *part != Type::DECIMAL {
                self.expected(&Type::DECIMAL, part, place);
                return Ok(None);
            }
        }
        Ok(Some(if of == other { of } else { Type::DECIMAL }))
    }

    /// Returns the type of an operand; `None` if it has a problem.
    fn operand(&mut self, value: &Value, place: &Place) -> Result<Option<Type>, Refusal> {
        Ok(match value {
            Value::Literal(Json::Number(number)) if number.is_i64() => Some(Type::INTEGER),
            Value::Literal(Json::Number(_)) => Some(Type::DECIMAL),
            Value::Literal(Json::String(text)) => Some(type_of_text(text)),
            Value::Reference(reference) => {
                if reference.pointer.is_some() && reference.pointed.is_none() {
                    self.problems.add(&place.of("type"), message::REQUIRED);
                    return Ok(None);
                }
                match self.resolve(reference, Scope::Step)? {
                    Ok(of) => Some(of),
                    Err(wrong) => {
                        self.problems.add(place, wrong);
                        None
                    }
                }
            }
            Value::Calculation(operation, operands) => self.calculation(*operation, operands, place)?,
            Value::First(items) => {
                let mut of = None;
                for item in items {
                    of = self.operand(item, place)?.or(of);
                }
                of
            }
            Value::Text(template) => {
                self.template(template, place)?;
                Some(Type::STRING)
            }
            Value::Broken => None,
            Value::Literal(_) | Value::Plain(_) | Value::Span(_) => {
                self.problems.add(place, message::VALUE);
                None
            }
        })
    }

    fn template(&mut self, template: &Template, place: &Place) -> Result<(), Refusal> {
        let mut references = Vec::new();
        template.for_each_reference(&mut |reference| references.push(reference.clone()));
        for reference in references {
            // In a text a pointer needs no type.
            if let Err(wrong) = self.resolve(&reference, Scope::Step)? {
                self.problems.add(place, wrong);
            }
        }
        Ok(())
    }

    fn condition(&mut self, condition: Option<&Condition>, scope: Scope, place: &Place) -> Result<(), Refusal> {
        let Some(condition) = condition else { return Ok(()) };
        let mut comparisons: Vec<Comparison> = Vec::new();
        condition.for_each(&mut |comparison| comparisons.push(comparison.clone()));
        for comparison in comparisons {
            self.comparison(&comparison, scope, place)?;
        }
        Ok(())
    }

    fn comparison(&mut self, comparison: &Comparison, scope: Scope, place: &Place) -> Result<(), Refusal> {
        let reference = &comparison.reference;
        if reference.pointer.is_some() && reference.pointed.is_none() {
            self.problems.add(place, message::REQUIRED);
            return Ok(());
        }
        let of = match self.resolve(reference, scope)? {
            Ok(of) => of,
            Err(wrong) => {
                self.problems.add(place, wrong);
                return Ok(());
            }
        };
        let is_long = scope == Scope::Condition && of == Type::TEXT && comparison.predicate != Predicate::Isnull;
        if is_long || !of.predicates().contains(&comparison.predicate) {
            self.problems.add(place, message::choice(comparison.predicate.name()));
            return Ok(());
        }
        self.operand_of(&comparison.to, &of, scope, place)
    }

    fn operand_of(&mut self, to: &Operand, of: &Type, scope: Scope, place: &Place) -> Result<(), Refusal> {
        if scope == Scope::Condition {
            let mut references = Vec::new();
            to.values().iter().for_each(|value| value.for_each_reference(&mut |one| references.push(one.clone())));
            for reference in references {
                if let Err(wrong) = self.resolve(&reference, scope)? {
                    self.problems.add(place, wrong);
                    return Ok(());
                }
            }
        }
        for value in to.values() {
            let is_set = *of == Type::Field(FieldType::Set);
            match value {
                Value::Literal(Json::String(_)) if is_set => {}
                // A record is compared with records of its class, and an id with ids.
                value => self.value_of(value, of, None, place)?,
            }
        }
        Ok(())
    }

    fn selection(&mut self, selection: &Selection, class: &Arc<Class>, place: &Place) -> Result<(), Refusal> {
        for comparison in &selection.0 {
            let names = &comparison.reference.names;
            let field = match names.as_slice() {
                [item, alias] if item == "item" => class.record.field(alias).filter(|field| field.filter).cloned(),
                [item, relation, alias] if item == "item" => {
                    let related = class.field(relation).and_then(|field| field.related_object_class);
                    match related {
                        Some(related) => self
                            .visible_class(related.get())?
                            .and_then(|class| class.record.field(alias).filter(|field| field.filter).cloned()),
                        None => None,
                    }
                }
                _ => None,
            };
            let Some(field) = field else {
                self.problems.add(place, NO_REFERENCE);
                continue;
            };
            if !field.predicates().contains(&comparison.predicate) {
                self.problems.add(place, message::choice(comparison.predicate.name()));
                continue;
            }
            let of = self.selected_type(class, names)?;
            if let Some(of) = of {
                self.operand_of(&comparison.to, &of, Scope::Step, place)?;
            }
        }
        Ok(())
    }

    /// The type of a column of a selection.
    fn selected_type(&mut self, class: &Arc<Class>, names: &[String]) -> Result<Option<Type>, Refusal> {
        let of = self.member(Some(class.id.get()), &names[1..], true)?;
        Ok(of.ok())
    }

    /// Returns the type of a reference where it stands.
    fn resolve(&mut self, reference: &Reference, scope: Scope) -> Result<Resolved, Refusal> {
        let names: Vec<&str> = reference.names.iter().map(String::as_str).collect();
        let unknown = || Ok(Err(NO_REFERENCE.to_owned()));
        let resolved = match names.as_slice() {
            ["now"] => Ok(Type::DATETIME),
            ["today"] => Ok(Type::DATE),
            ["record", rest @ ..] if self.class_of_run().is_some() && !self.has_no_run => {
                let own: Vec<String> = rest.iter().map(|name| (*name).to_owned()).collect();
                self.member(self.class_of_run(), &own, scope == Scope::Step)?
            }
            ["before", alias] => self.former(alias)?,
            _ if scope == Scope::Condition || self.has_no_run => return unknown(),
            ["starter"] => Ok(Type::USER),
            ["task", rest @ ..] if matches!(self.trigger, Some(Trigger::Task(_))) => match rest {
                [] | ["id"] => Ok(if rest.is_empty() { Type::Task } else { Type::INTEGER }),
                ["status"] => Ok(Type::STRING),
                ["completed_by"] => Ok(Type::USER),
                ["response"] => Ok(Type::Json),
                _ => return unknown(),
            },
            ["run", "uuid"] => Ok(Type::STRING),
            ["item", rest @ ..] if !self.items.is_empty() => {
                let own: Vec<String> = rest.iter().map(|name| (*name).to_owned()).collect();
                self.member(self.items.last().copied().flatten(), &own, true)?
            }
            ["company", field] if COMPANY_FIELDS.contains(field) => Ok(Type::STRING),
            ["inputs", name, rest @ ..] => self.input_reference(name, rest)?,
            ["steps", key, rest @ ..] => self.output(key, rest)?,
            _ => return unknown(),
        };
        let Ok(of) = resolved else { return Ok(resolved) };
        if reference.is_link {
            let is_linked = matches!(of, Type::Record(_) | Type::Task) && reference.pointer.is_none();
            return if is_linked { Ok(Ok(Type::STRING)) } else { unknown() };
        }
        if reference.pointer.is_none() {
            return Ok(Ok(of));
        }
        if of != Type::Json {
            return unknown();
        }
        Ok(match &reference.pointed {
            None => Ok(Type::Json),
            Some((name, class)) => Type::of_input(name, *class).ok_or_else(|| message::choice(name)),
        })
    }

    /// The type of a field of a record of a class, or of a record to which it relates.
    fn member(&mut self, class: Option<i64>, names: &[String], allows_relation: bool) -> Result<Resolved, Refusal> {
        let unknown = || Ok(Err(NO_REFERENCE.to_owned()));
        let (Some(id), [name, rest @ ..]) = (class, names) else { return Ok(Ok(Type::Record(class))) };
        let of = match name.as_str() {
            "id" => Type::INTEGER,
            "owner" | "created_by" | "modified_by" => Type::USER,
            "created_at" | "modified_at" => Type::DATETIME,
            alias => {
                let Some(class) = self.visible_class(id)? else { return unknown() };
                match class.field(alias) {
                    Some(field) => Type::of_field(field),
                    None => return unknown(),
                }
            }
        };
        match (rest, &of) {
            ([], _) => Ok(Ok(of)),
            ([_], Type::Record(related)) if allows_relation && name != "id" => self.member(*related, rest, false),
            _ => unknown(),
        }
    }

    fn former(&mut self, alias: &str) -> Result<Resolved, Refusal> {
        match self.trigger {
            Some(Trigger::Record(record)) if record.on == ["changed"] => {
                let class = self.class_of_run();
                match self.optional_class(class)?.and_then(|class| class.field(alias).map(Type::of_field)) {
                    Some(of) => Ok(Ok(of)),
                    None => Ok(Err(NO_REFERENCE.to_owned())),
                }
            }
            _ => Ok(Err(NO_REFERENCE.to_owned())),
        }
    }

    fn input_reference(&mut self, name: &str, rest: &[&str]) -> Result<Resolved, Refusal> {
        let Some(Trigger::Manual(manual)) = self.trigger else { return Ok(Err(NO_REFERENCE.to_owned())) };
        let input = manual.inputs.iter().find(|input| input.name == name);
        let of = input.and_then(|input| Type::of_input(input.of, input.object_class));
        match (of, rest) {
            (Some(of), []) => Ok(Ok(of)),
            (Some(Type::Record(class)), rest) => {
                let rest: Vec<String> = rest.iter().map(|name| (*name).to_owned()).collect();
                self.member(class, &rest, true)
            }
            _ => Ok(Err(NO_REFERENCE.to_owned())),
        }
    }

    /// The type of an output of a step, which must be over where the reference stands.
    fn output(&mut self, key: &str, rest: &[&str]) -> Result<Resolved, Refusal> {
        let Some(step) = self.known.iter().find(|step| step.key == key) else {
            return Ok(Err(format!("Step {key} does not come before this one.")));
        };
        let is_around = self.within.iter().any(|(around, _)| around == key);
        let is_beside = step
            .within
            .iter()
            .any(|(around, branch)| self.within.iter().any(|(other, at)| other == around && at != branch));
        // What is repeated is over for those inside the same repetition alone.
        let is_repeated = step.within.iter().any(|(around, _)| {
            let is_each = self.known.iter().any(|known| known.is_each && known.key == *around);
            is_each && !self.within.iter().any(|(other, _)| other == around)
        });
        if is_around || is_beside || is_repeated {
            return Ok(Err(format!("Step {key} does not come before this one.")));
        }
        let unknown = || Ok(Err(NO_REFERENCE.to_owned()));
        let (of, rest) = match rest {
            ["error", part, rest @ ..] => (step.outputs.get(format!("error.{part}").as_str()), rest),
            [name, rest @ ..] => (step.outputs.get(name), rest),
            [] => (None, rest),
        };
        match (of.cloned(), rest) {
            (Some(of), []) => Ok(Ok(of)),
            (Some(Type::Record(class)), rest) => {
                let rest: Vec<String> = rest.iter().map(|name| (*name).to_owned()).collect();
                self.member(class, &rest, true)
            }
            _ => unknown(),
        }
    }

    /// Checks the receivers of a mail, which may also be addresses.
    fn receivers(&mut self, to: &[People], place: &Place) -> Result<(), Refusal> {
        let class = self.class_of_run();
        for (at, person) in to.iter().enumerate() {
            let at = place.of(at);
            match person {
                People::Address(_) => {}
                People::EmailField(alias) => {
                    let field =
                        self.optional_class(class)?.and_then(|class| class.field(alias).map(|field| field.kind));
                    match field {
                        None => self.problems.add(&at.of("email_field"), message::NO_FIELD),
                        Some(FieldType::Email) => {}
                        Some(of) => {
                            self.expected(&Type::Field(FieldType::Email), &Type::Field(of), &at.of("email_field"))
                        }
                    }
                }
                other => self.person(other, class, &at)?,
            }
        }
        Ok(())
    }

    fn people(&mut self, people: &[People], class: Option<i64>, place: &Place) -> Result<(), Refusal> {
        for (at, person) in people.iter().enumerate() {
            let at = place.of(at);
            match person {
                person if person.is_outside() => self.problems.add(&at, message::VALUE),
                person => self.person(person, class, &at)?,
            }
        }
        Ok(())
    }

    /// Checks a member of an array of people, whose record is of a class.
    fn person(&mut self, person: &People, class: Option<i64>, at: &Place) -> Result<(), Refusal> {
        match person {
            People::Owner if class.is_none() => self.problems.add(&at.of("owner"), NO_REFERENCE),
            People::Creator if class.is_none() => self.problems.add(&at.of("creator"), NO_REFERENCE),
            People::Owner | People::Creator | People::Starter => {}
            People::Field(alias) => {
                let field = self.optional_class(class)?.and_then(|class| class.field(alias).map(Type::of_field));
                match field {
                    None => self.problems.add(&at.of("field"), message::NO_FIELD),
                    Some(of) if of == Type::USER => {}
                    Some(of) => self.expected(&Type::USER, &of, &at.of("field")),
                }
            }
            People::Reference(reference) => {
                let value = Value::Reference(reference.clone());
                self.value_of(&value, &Type::Users, None, at)?;
            }
            People::PermissionSet(set) => self.record_set(*set, class, &at.of("permission_set"))?,
            People::AssigneesOf(task) => self.value_of(task, &Type::Task, None, &at.of("assignees_of"))?,
            People::Users(ids) => self.users(ids, &at.of("users"))?,
            People::Groups(ids) => self.groups(ids, &at.of("user_groups"))?,
            People::EmailField(_) | People::Address(_) => {}
        }
        Ok(())
    }

    /// Reports users whom the caller may not list.
    fn users(&mut self, ids: &[i64], place: &Place) -> Result<(), Refusal> {
        let condition = visible_users(self.request.caller()?);
        self.listed("users", ids, condition, place)
    }

    /// Reports groups that the caller may not list.
    fn groups(&mut self, ids: &[i64], place: &Place) -> Result<(), Refusal> {
        let condition = visible_groups(self.request.caller()?);
        self.listed("user_groups", ids, condition, place)
    }

    fn listed(&mut self, table: &str, ids: &[i64], condition: Sql, place: &Place) -> Result<(), Refusal> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut sql = Sql::new("SELECT t.id FROM ");
        sql.name(table).push(" t WHERE ").append(&condition).push(" AND t.id").push_any(ids.iter().copied());
        let known: Vec<i64> = self.conn.query_all(&sql, |row| row.int(0))?;
        for id in ids.iter().filter(|id| !known.contains(id)) {
            self.problems.add(place, message::invalid_id_message(id));
        }
        Ok(())
    }

    /// Reports a record permission set that is not of a class which the caller may view.
    fn record_set(&mut self, set: i64, class: Option<i64>, place: &Place) -> Result<(), Refusal> {
        let sql = Sql::new("SELECT class_id FROM record_permission_sets WHERE id = $1").arg(set);
        let of = self.conn.query_optional(&sql, |row| row.int(0))?;
        let is_visible = match of {
            Some(of) => class.is_none_or(|class| class == of) && self.visible_class(of)?.is_some(),
            None => false,
        };
        if !is_visible && !self.problems.has_any(place) {
            self.problems.add(place, message::invalid_id_message(set));
        }
        Ok(())
    }

    /// Reports a document template that is not of the class of the record, or of a class that the caller may not view.
    fn document_template(&mut self, template: i64, class: Option<i64>, place: &Place) -> Result<(), Refusal> {
        let sql = Sql::new("SELECT class_id FROM document_templates WHERE id = $1").arg(template);
        let of = self.conn.query_optional(&sql, |row| row.int(0))?;
        let is_visible = match of {
            Some(of) => class.is_none_or(|class| class == of) && self.visible_class(of)?.is_some(),
            None => false,
        };
        if !is_visible && !self.problems.has_any(place) {
            self.problems.add(place, message::invalid_id_message(template));
        }
        Ok(())
    }

    fn task_template(&mut self, template: i64, place: &Place) -> Result<(), Refusal> {
        let sql = Sql::new("SELECT 1 FROM task_templates WHERE id = $1").arg(template);
        let is_visible = self.request.caller()?.has_permission("task_templates", "view")
            && self.conn.query_optional(&sql, |_| Ok(()))?.is_some();
        if !is_visible && !self.problems.has_any(place) {
            self.problems.add(place, message::invalid_id_message(template));
        }
        Ok(())
    }
}

/// The outputs of a wait for a task, besides its outcome.
fn task_outputs() -> [(&'static str, Type); 7] {
    [
        ("status", Type::STRING),
        ("completed_by", Type::USER),
        ("response", Type::Json),
        ("comment", Type::TEXT),
        ("approved_by", Type::USER),
        ("approval_condition", Type::STRING),
        ("approval_comment", Type::TEXT),
    ]
}

/// The type of a text that stands in a calculation.
fn type_of_text(text: &str) -> Type {
    if resource::time::parse_date(text).is_some() {
        Type::DATE
    } else if resource::time::parse(text).is_some() {
        Type::DATETIME
    } else if crate::values::numbers::Number::parse(text).is_some() {
        Type::DECIMAL
    } else {
        Type::STRING
    }
}

/// The field by which the value of an input is checked.
pub fn field_of_input(input: &Input) -> Option<Field> {
    use resource::{EnumOption, FieldKind};
    let kind = match input.of {
        "string" => FieldKind::text(255),
        "enum" => FieldKind::Enum {
            choices: input.options.iter().map(|(value, text)| EnumOption::new(value.clone(), text.clone())).collect(),
        },
        of => Type::of_input(of, input.object_class)?.to_field()?.kind,
    };
    let mut field = Field::new(input.name.clone(), kind);
    field.nullable = !input.is_required;
    field.blank = !input.is_required;
    Some(field)
}

/// The messages about a value of an input.
pub fn input_errors(input: &Input, value: &Json) -> Vec<String> {
    let Some(field) = field_of_input(input) else { return Vec::new() };
    let body = JsonBody::from_json(value);
    check_value(&field, body.as_value()).err().unwrap_or_default()
}
