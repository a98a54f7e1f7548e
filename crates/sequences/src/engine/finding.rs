//! Finds records for a step as the lists of the API do, with the rights of the account, in a snapshot before its transaction.

use super::run::Run;
use super::stepper::Stepper;
use crate::definition::EachSource;
use crate::definition::conditions::{Operand, Selection};
use crate::values::Val;
use crate::values::evaluate::Evaluator;
use http::Method;
use kit::ids::RecordId;
use kit::refusal::Refusal;
use records::single_records::class_of;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use store::Conn;

/// The maximum number of records of a class that point to one, among which a repetition chooses.
const MAX_CHILDREN: i64 = 1_000;

/// The parameters of a list; `None` if nothing is selected, because a comparison with null is false.
pub type Parameters = Option<Vec<(String, String)>>;

/// Computes the parameters of a selection.
pub fn parameters(
    evaluator: &mut Evaluator<'_>,
    conn: &mut Conn,
    selection: &Selection,
) -> Result<Parameters, Refusal> {
    let mut parameters = Vec::new();
    for comparison in &selection.0 {
        let name = format!("{}__{}", comparison.reference.names[1..].join("."), comparison.predicate.name());
        let value = match &comparison.to {
            Operand::Absence(is_absent) => is_absent.to_string(),
            operand => {
                let mut texts = Vec::new();
                for value in operand.values() {
                    match evaluator.value(conn, value)? {
                        Val::Null => return Ok(None),
                        value => texts.push(parameter(&value.to_json())),
                    }
                }
                texts.join(",")
            }
        };
        parameters.push((name, value));
    }
    Ok(Some(parameters))
}

/// A value as a parameter has it.
fn parameter(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(parameter).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// The records of a class by their ids, at most `at_most`, and the number of all.
pub fn page(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    object_class: i64,
    parameters: &[(String, String)],
    at_most: i64,
) -> Result<(Vec<i64>, i64), Refusal> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    query.append_pair("ordering", "id").append_pair("limit", &at_most.to_string()).append_pair("fields", "");
    let path = format!("/api/object-classes/{object_class}/object-records/");
    let page = stepper.call_with(conn, (Method::GET, path, query.finish()), Json::Null)?;
    let records = page["results"].as_array().into_iter().flatten().filter_map(|record| record["id"].as_i64()).collect();
    Ok((records, page["filtered_count"].as_i64().unwrap_or(0)))
}

/// Finds the records of a class that a selection selects.
pub fn find(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (object_class, selection, at_most): (i64, &Selection, i64),
) -> Result<Vec<i64>, Refusal> {
    let mut evaluator = Evaluator::for_account(stepper.as_account, run.facts());
    match parameters(&mut evaluator, conn, selection)? {
        Some(parameters) => Ok(page(stepper, conn, object_class, &parameters, at_most)?.0),
        None => Ok(Vec::new()),
    }
}

/// Finds the records for which steps are repeated, at most `at_most`, and the number of further ones.
pub fn find_items(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (source, selection, at_most): (&EachSource, &Selection, i64),
) -> Result<(Vec<i64>, i64), Refusal> {
    let mut evaluator = Evaluator::for_account(stepper.as_account, run.facts());
    let Some(parameters) = parameters(&mut evaluator, conn, selection)? else { return Ok((Vec::new(), 0)) };
    match source {
        EachSource::Broken => Ok((Vec::new(), 0)),
        EachSource::Children(class) => children(stepper, conn, run, (*class, parameters, at_most)),
        EachSource::Records(value) => {
            let ids = match evaluator.value(conn, value)? {
                Val::Records(ids) => ids,
                Val::Record(id) => vec![id],
                _ => Vec::new(),
            };
            let Some(first) = ids.first() else { return Ok((Vec::new(), 0)) };
            let Some(class) = class_of(conn, RecordId::new(*first))? else { return Ok((Vec::new(), 0)) };
            let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
            let parameters = [parameters, vec![("id__in".to_owned(), ids.join(","))]].concat();
            let (found, all) = page(stepper, conn, class.get(), &parameters, at_most)?;
            let left_out = all - found.len() as i64;
            Ok((found, left_out))
        }
    }
}

/// Finds the records of a class that point to the record of the run by one of their relations.
fn children(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (object_class, parameters, at_most): (i64, Vec<(String, String)>, i64),
) -> Result<(Vec<i64>, i64), Refusal> {
    let parent = run.record.ok_or_else(Refusal::not_found)?;
    let of_parent = class_of(conn, parent)?.ok_or_else(Refusal::not_found)?;
    let class = stepper.class(conn, object_class)?.ok_or_else(Refusal::not_found)?;
    let relations = class.fields.iter().filter(|field| field.related_object_class == Some(of_parent));
    let (mut found, mut beyond) = (BTreeSet::new(), 0);
    for relation in relations {
        let parameters = [parameters.clone(), vec![(relation.alias.clone(), parent.to_string())]].concat();
        let (ids, all) = page(stepper, conn, object_class, &parameters, MAX_CHILDREN)?;
        beyond += all - ids.len() as i64;
        found.extend(ids);
    }
    let left_out = beyond + (found.len() as i64 - at_most).max(0);
    Ok((found.into_iter().take(at_most as usize).collect(), left_out))
}
