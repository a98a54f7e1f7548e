//! The common rules of the permission sets of groups, classes and records: reserved names, actions that need others,
//! and how a PATCH changes the actions (`docs/reference/permission-sets.md`). Roles read their lists of actions here too.
//!
//! A set stores its actions as bits, so that SQL can test them.

use crate::refusal::Refusal;
use crate::rows;
use resource::json::Writer;
use resource::{
    Accepted, Choice, Errors, Field, Kind, Object, Resource, fold::fold_compatible, message, options, type_name,
};
use serde_json::{Map, Value as Json, json};
use store::Conn;

/// The names that users may not give to a set (`docs/reference/permission-sets.md`).
pub const RESERVED: [&str; 3] = ["owners", "everyone", "members"];

/// The name of the field with the actions.
pub const PERMISSIONS: &str = "permissions";

/// The schema of granted actions by resource, in OpenAPI.
pub fn grants_schema() -> Json {
    let actions = json!({"type": "array", "items": {"type": "string"}});
    json!({"type": "object", "additionalProperties": actions, "examples": [{"user_groups": ["view"]}]})
}

/// An action that a set can give.
pub struct Action {
    /// The name in requests and answers.
    pub name: &'static str,
    /// The display text.
    pub text: &'static str,
    /// The bit in a stored set.
    pub bit: i64,
    /// The bits of the actions that it needs, of any key.
    pub needs: i64,
}

/// A key of `permissions`: a permission resource with its actions, in the order in which they are shown.
pub struct PermissionKey {
    pub name: &'static str,
    pub actions: &'static [Action],
}

/// The actions that the permission sets of a level (groups, classes or records) can give.
pub struct Vocabulary(pub &'static [PermissionKey]);

impl Vocabulary {
    /// Applies a body's `permissions` to the bits of a set: a sent list replaces the current one of its key, a key that
    /// is not sent is kept, then the actions that others need are added. `allowed` are the bits that the type of the
    /// set accepts. The errors stand under the field's name.
    pub fn merge(&self, sent: &Map<String, Json>, current: i64, allowed: i64) -> Result<i64, Errors> {
        let mut bits = current;
        let (mut errors, mut by_key) = (Errors::new(), Errors::new());
        for (name, list) in sent {
            let Some(key) = self.0.iter().find(|key| key.name == name) else {
                errors.add(PERMISSIONS, format!("Invalid resource {name}."));
                continue;
            };
            let known: Vec<&str> =
                key.actions.iter().filter(|action| action.bit & allowed != 0).map(|it| it.name).collect();
            match actions(list, &known) {
                Ok(chosen) => bits = (bits & !key.bits(|_| true)) | key.bits(|action| chosen.contains(&action.name)),
                Err(message) => by_key.add(name, message),
            }
        }
        if errors.is_empty() {
            errors.nest(PERMISSIONS, by_key);
        }
        if errors.is_empty() { Ok(self.expanded(bits)) } else { Err(errors) }
    }

    /// Adds the bits of all actions that are needed, directly or indirectly.
    fn expanded(&self, bits: i64) -> i64 {
        let held = self.0.iter().flat_map(|key| key.actions).filter(|action| action.bit & bits != 0);
        let all = held.fold(bits, |all, action| all | action.needs);
        if all == bits { bits } else { self.expanded(all) }
    }

    /// The actions of a set as `{key: [action, …]}`, the form in answers and the administration log.
    pub fn to_json(&self, bits: i64) -> Json {
        Json::Object(
            self.0.iter().map(|key| (key.name.to_owned(), json!(key.held(bits).collect::<Vec<_>>()))).collect(),
        )
    }

    /// Writes the form of [`Vocabulary::to_json`] into an answer.
    pub fn write(&self, out: &mut Writer, bits: i64) {
        out.raw("{");
        for key in self.0 {
            out.name(key.name).raw("[");
            key.held(bits).for_each(|action| {
                out.comma().text(action);
            });
            out.raw("]");
        }
        out.raw("}");
    }

    /// Adds the keys and their actions to a schema document, as the nested schema of the field.
    pub fn describe(&self, document: &mut Json) {
        let nested: Vec<Json> = self.0.iter().map(PermissionKey::schema).collect();
        let entries = document["details"]["schema"].as_array_mut();
        for entry in entries.into_iter().flatten().filter(|entry| entry["alias"] == PERMISSIONS) {
            entry["schema"] = json!(nested);
        }
    }
}

impl PermissionKey {
    fn bits(&self, wanted: impl Fn(&Action) -> bool) -> i64 {
        self.actions.iter().filter(|action| wanted(action)).fold(0, |bits, action| bits | action.bit)
    }

    fn held(&self, bits: i64) -> impl Iterator<Item = &'static str> {
        self.actions.iter().filter(move |action| action.bit & bits != 0).map(|action| action.name)
    }

    fn schema(&self) -> Json {
        let choices = self.actions.iter().map(|action| Choice::new(action.name, action.text)).collect();
        options::schema(&Field::new(self.name, Kind::Set { choices, max_items: self.actions.len() }))
    }
}

/// Reads a sent list of known actions, or returns the message of what is wrong with it.
pub fn actions<'a>(sent: &Json, known: &[&'a str]) -> Result<Vec<&'a str>, String> {
    if sent.is_null() {
        return Err(message::NULL.to_owned());
    }
    let items = sent.as_array().ok_or_else(|| message::not_a_list(type_name(sent)))?;
    let mut actions = Vec::new();
    let mut wrong = Vec::new();
    for item in items {
        match item.as_str().and_then(|name| known.iter().find(|action| **action == name)) {
            Some(action) => actions.push(*action),
            None => wrong.push(item.as_str().map_or_else(|| item.to_string(), str::to_owned)),
        }
    }
    if wrong.is_empty() { Ok(actions) } else { Err(format!("Invalid actions {}.", wrong.join(","))) }
}

/// Checks the body of a set against its declaration. Names are unique among the rows of one parent (`scope`: column and
/// id). `own` is the name of a set that the system made, which cannot be changed.
pub fn accepted(
    conn: &mut Conn,
    resource: &Resource,
    body: &Object<'_>,
    id: Option<i64>,
    scope: (&'static str, i64),
    own: Option<&str>,
) -> Result<Accepted, Refusal> {
    let Some(refused) = refused_name(body, own) else {
        return rows::accepted_within(conn, resource, body, id, scope);
    };
    // The name gets one message, that it is reserved, and not also that it is taken.
    let others = body.clone().only(|name| name != "name");
    let mut accepted = rows::accepted_within(conn, resource, &others, Some(id.unwrap_or(0)), scope)?;
    accepted.errors.add("name", refused);
    Ok(accepted)
}

fn refused_name(body: &Object<'_>, own: Option<&str>) -> Option<String> {
    let sent = body.get("name")?.as_str()?;
    let sent = sent.trim();
    match own {
        Some(own) if sent != own && !sent.is_empty() => Some(format!("Name {own} is reserved and cannot be changed.")),
        None if is_reserved(sent) => Some(format!("Name {sent} is reserved and cannot be used.")),
        _ => None,
    }
}

/// Whether a name is reserved; letter case and compatible characters make no difference.
fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&fold_compatible(name).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: i64 = 1;
    const EDIT: i64 = 2;
    const TASKS_VIEW: i64 = 4;
    const TASKS_EDIT: i64 = 8;
    const TASKS_ASSIGN: i64 = 16;
    const ALL: i64 = 31;

    /// The vocabulary of record sets: a task can be viewed only with its record.
    static RECORDS: Vocabulary = Vocabulary(&[
        PermissionKey {
            name: "object_records",
            actions: &[
                Action { name: "view", text: "View", bit: VIEW, needs: 0 },
                Action { name: "edit", text: "Edit", bit: EDIT, needs: VIEW },
            ],
        },
        PermissionKey {
            name: "tasks",
            actions: &[
                Action { name: "view", text: "View", bit: TASKS_VIEW, needs: VIEW },
                Action { name: "edit", text: "Edit", bit: TASKS_EDIT, needs: TASKS_VIEW },
                Action { name: "assign", text: "Assign", bit: TASKS_ASSIGN, needs: TASKS_EDIT },
            ],
        },
    ]);

    fn merged(sent: Json, current: i64, allowed: i64) -> Result<i64, Json> {
        RECORDS.merge(sent.as_object().unwrap(), current, allowed).map_err(|errors| errors.to_json())
    }

    #[test]
    fn what_is_sent_takes_the_place_of_its_key_alone() {
        assert_eq!(merged(json!({"object_records": ["view"]}), VIEW | EDIT, ALL), Ok(VIEW));
        assert_eq!(merged(json!({"object_records": ["edit", "edit"]}), 0, ALL), Ok(VIEW | EDIT));
        assert_eq!(merged(json!({"object_records": []}), VIEW | EDIT, ALL), Ok(0));
        assert_eq!(merged(json!({"tasks": []}), VIEW | TASKS_VIEW, ALL), Ok(VIEW));
        assert_eq!(merged(json!({}), VIEW | EDIT, ALL), Ok(VIEW | EDIT));
    }

    #[test]
    fn what_another_action_needs_stays() {
        assert_eq!(merged(json!({"object_records": []}), VIEW | TASKS_VIEW, ALL), Ok(VIEW | TASKS_VIEW));
        assert_eq!(merged(json!({"tasks": ["assign"]}), 0, ALL), Ok(VIEW | TASKS_VIEW | TASKS_EDIT | TASKS_ASSIGN));
    }

    #[test]
    fn wrong_keys_and_actions_are_named() {
        assert_eq!(
            merged(json!({"object_records": ["view", "edit", "x", 5], "tasks": null}), 0, VIEW | TASKS_VIEW),
            Err(json!({"permissions": {
                "object_records": ["Invalid actions edit,x,5."],
                "tasks": ["This field may not be null."],
            }}))
        );
        assert_eq!(
            merged(json!({"planets": null, "tasks": "view"}), 0, ALL),
            Err(json!({"permissions": ["Invalid resource planets."]}))
        );
        assert_eq!(
            merged(json!({"tasks": "view"}), 0, ALL),
            Err(json!({"permissions": {"tasks": ["Expected a list of items but got type str."]}}))
        );
    }

    #[test]
    fn shows_every_key() {
        let shown = json!({"object_records": ["view", "edit"], "tasks": []});
        assert_eq!(RECORDS.to_json(VIEW | EDIT), shown);
        let mut out = Writer::default();
        RECORDS.write(&mut out, VIEW | EDIT);
        assert_eq!(serde_json::from_slice::<Json>(&out.into_bytes()).unwrap(), shown);
    }

    #[test]
    fn reserved_names_in_every_spelling() {
        let refused = |name: &str, own: Option<&str>| {
            let body = resource::Body::of(&json!({"name": name}));
            refused_name(&body.sent().as_object(|_| true).unwrap(), own)
        };
        for name in ["members", " Members ", "ｅｖｅｒｙｏｎｅ", "OWNERS", "everyoNe"] {
            assert_eq!(refused(name, None), Some(format!("Name {} is reserved and cannot be used.", name.trim())));
        }
        assert_eq!(refused("memberships", None), None);
        assert_eq!(refused("", None), None);
        assert_eq!(
            refused("anything", Some("members")),
            Some("Name members is reserved and cannot be changed.".to_owned())
        );
        assert_eq!(refused("members ", Some("members")), None);
        assert_eq!(refused(" ", Some("members")), None);
    }
}
