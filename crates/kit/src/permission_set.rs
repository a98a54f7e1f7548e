//! The common rules of the permission sets of groups, classes and records (`docs/reference/permission-sets.md`). They are
//! reserved names, actions that require others, changes of the actions by a PATCH, the limit, and sets that cannot be deleted.
//!
//! A set stores its actions as bits, so that SQL can test them.

use crate::answer::{Answer, Outcome};
use crate::limits::{self, Limit};
use crate::permissions;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::rights;
use crate::rows;
use resource::json::JsonWriter;
use resource::{
    Changes, CheckedBody, CheckedValue, EnumOption, Errors, Field, FieldKey, FieldKind, Id, Resource, SentObject,
    UNDIRECTED, fold::fold_compatible, options,
};
use serde_json::{Map, Value as Json, json};
use std::marker::PhantomData;
use std::sync::LazyLock;
use store::{Conn, Sql};

/// The names that users cannot choose for a set (`docs/reference/permission-sets.md`).
pub const RESERVED: [&str; 3] = ["owners", "everyone", "members"];

pub use crate::permissions::PERMISSIONS;

/// The field with the name of a set.
pub static NAME: FieldKey<String> = FieldKey::new("name");
/// The field with the type of a set.
static TYPE: FieldKey<String> = FieldKey::new("type");
/// The field with the actions of a set.
pub static GRANTS: FieldKey<Json> = FieldKey::new(PERMISSIONS);

/// Returns the schema of granted actions by resource, in OpenAPI.
pub fn grants_schema() -> Json {
    let actions = json!({"type": "array", "items": {"type": "string"}});
    json!({"type": "object", "additionalProperties": actions, "examples": [{"user_groups": ["view"]}]})
}

/// An action that a set can grant.
pub struct SetAction {
    /// The name in requests and answers.
    pub name: &'static str,
    /// The display text.
    pub text: &'static str,
    /// The bit in a stored set.
    pub bit: i64,
    /// The bits of the actions that it requires, of any key.
    pub needs: i64,
}

/// A key of `permissions`: a permission resource with its actions, in the order in which they are shown.
pub struct PermissionKey {
    pub name: &'static str,
    pub actions: &'static [SetAction],
}

/// The actions that the permission sets of a level (groups, classes or records) can grant.
pub struct Vocabulary(pub &'static [PermissionKey]);

impl Vocabulary {
    /// Applies a body's `permissions` to the bits of a set, then adds the actions that others require. A
    /// sent list replaces the current one of its key; a key that is not sent is unchanged. `allowed` are
    /// the bits that the type of the set accepts. The errors are reported under the field's name.
    pub fn merge(&self, grants: &Map<String, Json>, current: i64, allowed: i64) -> Result<i64, Errors> {
        let mut bits = current;
        let (mut errors, mut by_key) = (Errors::new(), Errors::new());
        for (name, list) in grants {
            let Some(key) = self.0.iter().find(|key| key.name == name) else {
                errors.add(PERMISSIONS, format!("Invalid resource {name}."));
                continue;
            };
            let allowed_actions: Vec<&str> =
                key.actions.iter().filter(|action| action.bit & allowed != 0).map(|action| action.name).collect();
            match permissions::read_actions(list, &allowed_actions) {
                Ok(chosen) => bits = (bits & !key.bits(|_| true)) | key.bits(|action| chosen.contains(&action.name)),
                Err(message) => by_key.add(name, message),
            }
        }
        if errors.is_empty() {
            errors.nest(PERMISSIONS, by_key);
        }
        if errors.is_empty() { Ok(self.expanded(bits)) } else { Err(errors) }
    }

    /// Applies the `permissions` of a body by [`Vocabulary::merge`], and adds its errors to those of the
    /// body. Returns the bits that the set has afterwards.
    pub fn accept(&self, accepted: &mut CheckedBody, current: i64, allowed: i64) -> i64 {
        let Some(Json::Object(grants)) = accepted.changes.get(&GRANTS) else { return current };
        let merged = self.merge(&grants, current, allowed);
        let bits = merged.unwrap_or_else(|errors| {
            accepted.errors.merge(errors);
            current
        });
        accepted.changes.set(&GRANTS, CheckedValue::Json(self.to_json(bits)));
        bits
    }

    /// Adds the bits of all actions that are required, directly or indirectly.
    fn expanded(&self, bits: i64) -> i64 {
        let granted_actions = self.0.iter().flat_map(|key| key.actions).filter(|action| action.bit & bits != 0);
        let bits_with_needs = granted_actions.fold(bits, |bits_so_far, action| bits_so_far | action.needs);
        if bits_with_needs == bits { bits } else { self.expanded(bits_with_needs) }
    }

    /// Returns the actions of a set as `{key: [action, …]}`, the form in answers and the administration log.
    pub fn to_json(&self, bits: i64) -> Json {
        Json::Object(
            self.0.iter().map(|key| (key.name.to_owned(), json!(key.action_names(bits).collect::<Vec<_>>()))).collect(),
        )
    }

    /// Writes the form of [`Vocabulary::to_json`] into an answer.
    pub fn write(&self, out: &mut JsonWriter, bits: i64) {
        out.raw("{");
        for key in self.0 {
            out.name(key.name).raw("[");
            key.action_names(bits).for_each(|action| {
                out.comma().text(action);
            });
            out.raw("]");
        }
        out.raw("}");
    }

    /// Adds the keys and their actions to a schema document, as the nested schema of the field.
    fn describe(&self, document: &mut Json) {
        let keys = self.0.iter().map(|key| {
            let actions = key.actions.iter().map(|action| (action.name, action.text, self.required_by(key, action)));
            (key.name, actions.collect())
        });
        permissions::describe(document, keys);
    }

    /// Returns the actions that an action requires: those of its own key by their name, others as `key.action`.
    fn required_by(&self, own: &PermissionKey, action: &SetAction) -> Vec<String> {
        let bits = self.expanded(action.bit) & !action.bit;
        let of_key = |key: &'static PermissionKey| {
            let is_own = key.name == own.name;
            key.action_names(bits)
                .map(move |name| if is_own { name.to_owned() } else { format!("{}.{name}", key.name) })
        };
        self.0.iter().flat_map(of_key).collect()
    }
}

/// Compares texts in constants.
const fn is_same(text: &str, other: &str) -> bool {
    let (text, other) = (text.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < text.len() && at < other.len() && text[at] == other[at] {
        at += 1;
    }
    at == text.len() && at == other.len()
}

impl PermissionKey {
    /// Returns these actions with their bits, for the permissions that answers show. Fails to compile in a constant if the key
    /// does not have one of them.
    pub const fn named<const N: usize>(&self, names: [&'static str; N]) -> [(&'static str, i64); N] {
        let mut named = [("", 0); N];
        let mut at = 0;
        while at < N {
            named[at] = (names[at], self.bit(names[at]));
            at += 1;
        }
        named
    }

    const fn bit(&self, name: &str) -> i64 {
        let mut at = 0;
        while at < self.actions.len() {
            if is_same(self.actions[at].name, name) {
                return self.actions[at].bit;
            }
            at += 1;
        }
        panic!("the key does not have this action")
    }

    fn bits(&self, is_wanted: impl Fn(&SetAction) -> bool) -> i64 {
        self.actions.iter().filter(|action| is_wanted(action)).fold(0, |bits, action| bits | action.bit)
    }

    fn action_names(&self, bits: i64) -> impl Iterator<Item = &'static str> {
        self.actions.iter().filter(move |action| action.bit & bits != 0).map(|action| action.name)
    }
}

/// The permission sets of groups, of classes or of records. It has their declaration, the actions that
/// they can grant, and their limit per parent (a group or a class). The type parameters are the ids of the parents and of
/// the sets.
pub struct PermissionSets<P, S> {
    pub resource: &'static LazyLock<Resource>,
    pub vocabulary: &'static Vocabulary,
    pub limit: &'static Limit,
    /// The column with the id of the parent.
    pub parent_column: &'static str,
    pub ids: PhantomData<fn(P) -> S>,
}

impl<P: Id, S: Id> PermissionSets<P, S> {
    /// Answers the schema document of the collection, with the build's limit.
    pub fn document(&self, conn: &mut Conn) -> Outcome {
        let mut document = options::document(self.resource);
        self.vocabulary.describe(&mut document);
        document["restrictions"]["limit_items"] = limits::value(conn, self.limit)?.into();
        Ok(Answer::value(&document))
    }

    /// Refuses one more set beyond the limit of a parent. The calling code must have locked the parent's row.
    pub fn check_limit(&self, conn: &mut Conn, parent: P) -> Result<(), Refusal> {
        let mut sql = Sql::new("SELECT count(*) FROM ");
        sql.name(&self.resource.table).push(" WHERE ").name(self.parent_column).push(" = ").bind(parent.to_number());
        let count = conn.query_one(&sql, |row| row.int(0))?;
        limits::check(conn, self.limit, count, 1)
    }

    /// Updates a set and logs the differences from `before`. `current` and `grants` are its actions before and afterwards, as bits.
    pub fn update(
        &self,
        request: &Request,
        conn: &mut Conn,
        id: S,
        mut before: Changes,
        changes: &Changes,
        (current, grants): (i64, i64),
    ) -> Result<(), Refusal> {
        before.set(&GRANTS, CheckedValue::Json(self.vocabulary.to_json(current)));
        rows::update(
            request,
            conn,
            self.resource,
            id.to_number(),
            &before,
            changes,
            &[("permissions", grants.into())],
        )?;
        if current & !grants != 0 {
            rights::object_rights_ended(request);
        }
        Ok(())
    }
}

// ---- Sets with a type ----------------------------------------------------------------------------------------------

/// The type of the sets that callers create; the system creates all others.
const CUSTOM: &str = "custom";

/// A stored set with a type, of a group or of a class.
pub struct StoredSet<S> {
    pub id: S,
    pub name: String,
    /// The type.
    pub kind: String,
    /// The actions, as bits.
    pub grants: i64,
}

impl<S> StoredSet<S> {
    /// Returns whether the system created the set. The name of such a set is fixed; it cannot be deleted and has no assignees.
    pub fn is_system(&self) -> bool {
        self.kind != CUSTOM
    }
}

/// Returns the fields of sets that have a type. `types` are the value and the text of each type, and
/// whether only the system creates sets of it. `example` is a name, and `unique` the index of the names.
pub fn fields<const N: usize>(
    types: [(&'static str, &'static str, bool); N],
    example: &'static str,
    unique: &'static str,
) -> impl Iterator<Item = Field> {
    let types = types.map(|(value, text, system)| EnumOption { system: Some(system), ..EnumOption::new(value, text) });
    let fields = [
        Field::id(),
        NAME.text(100)
            .charset(UNDIRECTED)
            .example(example)
            .min_length(1)
            .required()
            .unique(unique)
            .folded()
            .reserved(&RESERVED),
        TYPE.declare(FieldKind::Enum { choices: types.into() }).read_only(),
        GRANTS.declare(FieldKind::Object).schema(grants_schema).stored_by_resource(),
    ];
    fields.into_iter().chain(Field::audit())
}

impl<P: Id, S: Id> PermissionSets<P, S> {
    /// Returns a set of a parent and locks its row; 404 if the parent has no such set.
    pub fn load_for_change(&self, conn: &mut Conn, parent: P, id: S) -> Result<StoredSet<S>, Refusal> {
        let mut sql = Sql::new("SELECT name, type, permissions FROM ");
        sql.name(&self.resource.table).push(" WHERE id = ").bind(id.to_number());
        sql.push(" AND ").name(self.parent_column).push(" = ").bind(parent.to_number()).push(" FOR UPDATE");
        let set = conn.query_optional(&sql, |row| {
            Ok(StoredSet { id, name: row.text(0)?.to_owned(), kind: row.text(1)?.to_owned(), grants: row.int(2)? })
        })?;
        set.ok_or_else(Refusal::not_found)
    }

    /// Checks the body of a new set or of a change. Names are unique among the sets of the parent. Some are
    /// reserved, and the name of a set that the system created is fixed.
    pub fn check_body(
        &self,
        conn: &mut Conn,
        body: &SentObject<'_>,
        parent: P,
        set: Option<&StoredSet<S>>,
    ) -> Result<CheckedBody, Refusal> {
        let own = set.filter(|set| set.is_system()).map(|set| set.name.as_str());
        let (id, scope) = (set.map(|set| set.id.to_number()), (self.parent_column, parent.to_number()));
        let Some(refused) = refused_name(body, own) else {
            return rows::accepted_within(conn, self.resource, body, id, scope);
        };
        // The name gets one message, that it is reserved, without a second one that it is not unique.
        let other_members = body.clone().filter_members(|name| name != "name");
        let mut accepted = rows::accepted_within(conn, self.resource, &other_members, Some(id.unwrap_or(0)), scope)?;
        accepted.errors.add("name", refused);
        Ok(accepted)
    }

    /// Inserts a set that a caller creates, unless its parent has reached the limit. The calling code must
    /// have locked the parent's row.
    pub fn insert(
        &self,
        request: &Request,
        conn: &mut Conn,
        parent: P,
        changes: &Changes,
        grants: i64,
    ) -> Result<S, Refusal> {
        self.check_limit(conn, parent)?;
        let columns =
            [(self.parent_column, parent.to_number().into()), ("type", CUSTOM.into()), ("permissions", grants.into())];
        rows::insert(request, conn, self.resource, changes, &columns).map(S::from_number)
    }

    /// Inserts a set that the system creates with its parent. It has the name of its type, no creator and no entry in the log.
    pub fn insert_system_set(
        &self,
        request: &Request,
        conn: &mut Conn,
        parent: P,
        kind: &'static str,
        grants: i64,
    ) -> Result<(), Refusal> {
        let mut changes = Changes::new();
        changes.set(&NAME, kind);
        let columns =
            [(self.parent_column, parent.to_number().into()), ("type", kind.into()), ("permissions", grants.into())];
        rows::insert_row(conn, self.resource, &changes, &columns, request.now, None).map(drop)
    }

    /// Deletes a set, unless the system created it.
    pub fn delete(&self, request: &Request, conn: &mut Conn, set: &StoredSet<S>) -> Outcome {
        if set.is_system() {
            let kind = self.resource.field(TYPE.name()).map(|field| &field.kind);
            let text = kind.and_then(|kind| kind.choice_text(&set.kind)).unwrap_or_default();
            return Err(Refusal::bad_request(format!(
                "Permission set of type {text} is restricted and cannot be deleted."
            )));
        }
        rows::delete(request, conn, self.resource, set.id.to_number(), &set.name)?;
        rights::object_rights_ended(request);
        Ok(Answer::empty())
    }
}

/// Returns the refusal of the name in a body. `own` is the name of a set that the system created.
fn refused_name(body: &SentObject<'_>, own: Option<&str>) -> Option<String> {
    let name = body.get("name")?.as_str()?;
    let name = name.trim();
    match own {
        Some(own) if name != own && !name.is_empty() => Some(format!("Name {own} is reserved and cannot be changed.")),
        None if is_reserved(name) => Some(format!("Name {name} is reserved and cannot be used.")),
        _ => None,
    }
}

/// Returns whether a name is reserved. Letter case and compatible characters make no difference.
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
                SetAction { name: "view", text: "View", bit: VIEW, needs: 0 },
                SetAction { name: "edit", text: "Edit", bit: EDIT, needs: VIEW },
            ],
        },
        PermissionKey {
            name: "tasks",
            actions: &[
                SetAction { name: "view", text: "View", bit: TASKS_VIEW, needs: VIEW },
                SetAction { name: "edit", text: "Edit", bit: TASKS_EDIT, needs: TASKS_VIEW },
                SetAction { name: "assign", text: "Assign", bit: TASKS_ASSIGN, needs: TASKS_EDIT },
            ],
        },
    ]);

    fn merge_actions(grants: Json, current: i64, allowed: i64) -> Result<i64, Json> {
        RECORDS.merge(grants.as_object().unwrap(), current, allowed).map_err(|errors| errors.to_json())
    }

    #[test]
    fn actions_replace_only_those_of_their_own_key() {
        assert_eq!(merge_actions(json!({"object_records": ["view"]}), VIEW | EDIT, ALL), Ok(VIEW));
        assert_eq!(merge_actions(json!({"object_records": ["edit", "edit"]}), 0, ALL), Ok(VIEW | EDIT));
        assert_eq!(merge_actions(json!({"object_records": []}), VIEW | EDIT, ALL), Ok(0));
        assert_eq!(merge_actions(json!({"tasks": []}), VIEW | TASKS_VIEW, ALL), Ok(VIEW));
        assert_eq!(merge_actions(json!({}), VIEW | EDIT, ALL), Ok(VIEW | EDIT));
    }

    #[test]
    fn actions_required_by_other_actions_remain() {
        assert_eq!(merge_actions(json!({"object_records": []}), VIEW | TASKS_VIEW, ALL), Ok(VIEW | TASKS_VIEW));
        assert_eq!(
            merge_actions(json!({"tasks": ["assign"]}), 0, ALL),
            Ok(VIEW | TASKS_VIEW | TASKS_EDIT | TASKS_ASSIGN)
        );
    }

    #[test]
    fn wrong_keys_and_actions_are_named() {
        assert_eq!(
            merge_actions(json!({"object_records": ["view", "edit", "x", 5], "tasks": null}), 0, VIEW | TASKS_VIEW),
            Err(json!({"permissions": {
                "object_records": ["Invalid actions edit,x,5."],
                "tasks": ["This field may not be null."],
            }}))
        );
        assert_eq!(
            merge_actions(json!({"planets": null, "tasks": "view"}), 0, ALL),
            Err(json!({"permissions": ["Invalid resource planets."]}))
        );
        assert_eq!(
            merge_actions(json!({"tasks": "view"}), 0, ALL),
            Err(json!({"permissions": {"tasks": ["Expected a list of items but got type str."]}}))
        );
    }

    #[test]
    fn shows_every_key() {
        let shown = json!({"object_records": ["view", "edit"], "tasks": []});
        assert_eq!(RECORDS.to_json(VIEW | EDIT), shown);
        let mut out = JsonWriter::default();
        RECORDS.write(&mut out, VIEW | EDIT);
        assert_eq!(serde_json::from_slice::<Json>(&out.into_bytes()).unwrap(), shown);
    }

    #[test]
    fn reserved_names_in_every_spelling() {
        let refused = |name: &str, own: Option<&str>| {
            let body = resource::JsonBody::from_json(&json!({"name": name}));
            refused_name(&body.as_value().as_object(|_| true).unwrap(), own)
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
