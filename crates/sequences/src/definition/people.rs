//! People and groups of a definition: the arrays that name assignees and receivers (`docs/reference/sequences.md`).

use super::values::{self, Reference, Value};
use crate::problems::{Place, Problems};
use resource::message;
use serde_json::Value as Json;

/// The maximum number of members of an array of people.
const MAX_PEOPLE: usize = 20;

/// A member of an array of people.
#[derive(Clone, Debug, PartialEq)]
pub enum People {
    Owner,
    Creator,
    Starter,
    /// The user in a field of the record.
    Field(String),
    Reference(Reference),
    /// Those who are assigned to the record by a permission set.
    PermissionSet(i64),
    /// The assignees of a task.
    AssigneesOf(Value),
    Users(Vec<i64>),
    Groups(Vec<i64>),
    /// The address in a field of the record. Of mails only.
    EmailField(String),
    /// An address. Of mails only.
    Address(String),
}

impl People {
    /// Returns whether it names addresses instead of accounts.
    pub fn is_outside(&self) -> bool {
        matches!(self, People::EmailField(_) | People::Address(_))
    }

    /// Reads an array of people. `null` and no value are an empty array.
    pub fn read_all(sent: Option<&Json>, place: &Place, problems: &mut Problems) -> Vec<People> {
        let Some(sent) = sent.filter(|sent| !sent.is_null()) else { return Vec::new() };
        let Some(items) = sent.as_array() else {
            problems.add(place, message::not_a_list(resource::type_name(sent)));
            return Vec::new();
        };
        if items.len() > MAX_PEOPLE {
            problems.add(place, message::too_many(MAX_PEOPLE));
            return Vec::new();
        }
        let read = |(at, item): (usize, &Json)| read_one(item, &place.of(at), problems);
        items.iter().enumerate().filter_map(read).collect()
    }
}

fn read_one(sent: &Json, place: &Place, problems: &mut Problems) -> Option<People> {
    let Some(object) = sent.as_object() else {
        problems.add(place, message::not_an_object(resource::type_name(sent)));
        return None;
    };
    if object.contains_key("ref") {
        return values::read_reference(object, place, problems).map(People::Reference);
    }
    let mut members = object.iter();
    let (Some((name, value)), None) = (members.next(), members.next()) else {
        problems.add(place, message::VALUE);
        return None;
    };
    let ids = || -> Option<Vec<i64>> { value.as_array()?.iter().map(Json::as_i64).collect() };
    let people = match name.as_str() {
        "owner" => value.as_bool().filter(|is| *is).map(|_| People::Owner),
        "creator" => value.as_bool().filter(|is| *is).map(|_| People::Creator),
        "starter" => value.as_bool().filter(|is| *is).map(|_| People::Starter),
        "field" => value.as_str().map(|alias| People::Field(alias.to_owned())),
        "permission_set" => value.as_i64().map(People::PermissionSet),
        "assignees_of" => Some(People::AssigneesOf(values::read(value, &place.of(name), problems))),
        "users" => ids().map(People::Users),
        "user_groups" => ids().map(People::Groups),
        "email_field" => value.as_str().map(|alias| People::EmailField(alias.to_owned())),
        "address" => {
            value.as_str().filter(|text| resource::is_email(text)).map(|text| People::Address(text.to_owned()))
        }
        _ => {
            problems.add(&place.of(name), message::NO_FIELD);
            return None;
        }
    };
    if people.is_none() {
        problems.add(&place.of(name), message::VALUE);
    }
    people
}
