//! The global permissions (`docs/reference/roles.md`, `docs/reference/users.md`): the list of all permissions, the permissions
//! that a role can grant, and the permissions that an account type has without a role.

use crate::account_type::AccountType;
use resource::{EnumOption, Errors, Field, FieldKind, message, options, type_name};
use serde_json::{Map, Value as Json, json};
use std::sync::OnceLock;

/// A resource with its actions. A global permission is a pair of a resource and an action.
pub struct PermissionResource {
    pub name: &'static str,
    pub actions: &'static [&'static str],
    /// The actions that a role can grant.
    pub assignable: &'static [&'static str],
    /// The actions that account types have without a role. Super admins have all of them.
    pub held_by: &'static [(AccountType, &'static [&'static str])],
}

/// The actions that most resources have.
pub const CRUD: &[&str] = &["list", "view", "create", "edit", "delete"];

impl PermissionResource {
    /// Returns a resource with the usual actions. A role can grant each of them.
    pub const fn crud(name: &'static str) -> PermissionResource {
        PermissionResource::assignable(name, CRUD)
    }

    /// Returns a resource with these actions. A role can grant each of them.
    pub const fn assignable(name: &'static str, actions: &'static [&'static str]) -> PermissionResource {
        PermissionResource { name, actions, assignable: actions, held_by: &[] }
    }
}

/// Returns these actions for every account type, which has them without a role. Super admins have every action anyway.
pub const fn held_by_everybody(actions: &'static [&'static str]) -> [(AccountType, &'static [&'static str]); 5] {
    use AccountType::{External, Full, Internal, OneTimeCompletion, ServiceExternal};
    [
        (Internal, actions),
        (External, actions),
        (Full, actions),
        (OneTimeCompletion, actions),
        (ServiceExternal, actions),
    ]
}

/// The name of the field with the actions of a role or a set.
pub const PERMISSIONS: &str = "permissions";

static CATALOGUE: OnceLock<Vec<&'static PermissionResource>> = OnceLock::new();

/// Registers the permission resources of all modules, once in a process.
pub(crate) fn register(resources: impl Iterator<Item = &'static PermissionResource>) {
    CATALOGUE.get_or_init(|| resources.collect());
}

/// Returns every permission resource, in the order of the modules.
fn catalogue() -> impl Iterator<Item = &'static PermissionResource> {
    CATALOGUE.get().into_iter().flatten().copied()
}

/// A set of permissions, with a bit for each action of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Permissions(u128);

impl Permissions {
    /// The empty set.
    pub const NONE: Permissions = Permissions(0);

    /// Returns every permission. Super admins have this set.
    pub fn all() -> Permissions {
        Permissions((1 << catalogue().map(|group| group.actions.len()).sum::<usize>()) - 1)
    }

    /// Returns the permissions that an account type has without a role.
    pub fn for_account_type(account_type: AccountType) -> Permissions {
        if account_type.is_super() {
            return Permissions::all();
        }
        let defaults =
            catalogue().flat_map(|group| group.held_by.iter().map(move |(holder, actions)| (group, holder, actions)));
        defaults
            .filter(|(_, holder, _)| **holder == account_type)
            .flat_map(|(group, _, actions)| actions.iter().map(|action| (group.name, *action)))
            .fold(Permissions::NONE, |set, (resource, action)| set.with_permission(resource, action))
    }

    /// Returns the set with one more permission; unchanged if the permission does not exist.
    pub fn with_permission(self, resource: &str, action: &str) -> Permissions {
        Permissions(self.0 | bit(resource, action).unwrap_or(0))
    }

    /// Returns the permissions of both sets.
    pub fn union(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }

    /// Returns the permissions that are in both sets.
    pub fn intersection(self, other: Permissions) -> Permissions {
        Permissions(self.0 & other.0)
    }

    /// Returns whether the set contains a permission.
    pub fn contains(self, resource: &str, action: &str) -> bool {
        bit(resource, action).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Returns whether the set contains every permission of another one.
    pub fn covers(self, other: Permissions) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the set as `{resource: {action: bool}}`, the answer of `GET /api/users/permissions/`.
    pub fn to_json(self) -> Json {
        let actions = |group: &PermissionResource| -> Map<String, Json> {
            group
                .actions
                .iter()
                .map(|action| ((*action).to_owned(), self.contains(group.name, action).into()))
                .collect()
        };
        Json::Object(catalogue().map(|group| (group.name.to_owned(), actions(group).into())).collect())
    }

    /// Returns the set as `{resource: [action, …]}` without empty resources, the form that a role stores and shows.
    pub fn to_actions(self) -> Json {
        let mut grants = Map::new();
        for group in catalogue() {
            let actions: Vec<&str> =
                group.actions.iter().copied().filter(|action| self.contains(group.name, action)).collect();
            if !actions.is_empty() {
                grants.insert(group.name.to_owned(), json!(actions));
            }
        }
        Json::Object(grants)
    }

    /// Reads the form of [`Permissions::to_actions`]. Unknown names are ignored.
    pub fn from_actions(grants: &Json) -> Permissions {
        let mut set = Permissions::NONE;
        for (resource, actions) in grants.as_object().into_iter().flatten() {
            for action in actions.as_array().into_iter().flatten().filter_map(Json::as_str) {
                set = set.with_permission(resource, action);
            }
        }
        set
    }

    /// Returns the set without the permissions of one resource.
    fn without_resource(self, group: &PermissionResource) -> Permissions {
        Permissions(
            group.actions.iter().filter_map(|action| bit(group.name, action)).fold(self.0, |set, bit| set & !bit),
        )
    }
}

fn bit(resource: &str, action: &str) -> Option<u128> {
    let mut first = 0;
    for group in catalogue() {
        if group.name == resource {
            return group.actions.iter().position(|candidate| *candidate == action).map(|n| 1 << (first + n));
        }
        first += group.actions.len();
    }
    None
}

/// Reads the permissions in a role's body and adds the required ones. Every action except `list` requires `list`
/// and `view`, if a role can grant them. A resource that is not sent retains its permissions of `before`.
pub fn accept_permissions(grants: &Map<String, Json>, before: Permissions) -> Result<Permissions, Errors> {
    let mut errors = Errors::new();
    let mut set = before;
    for (resource, actions) in grants {
        let Some(group) = catalogue().find(|group| group.name == resource && !group.assignable.is_empty()) else {
            return Err(Errors::single("permissions", format!("Invalid resource {resource}.")));
        };
        set = set.without_resource(group);
        match read_actions(actions, group.assignable) {
            Err(message) => errors.add(resource, message),
            Ok(actions) => {
                for action in &actions {
                    set = required_by(group, action)
                        .fold(set.with_permission(resource, action), |set, needed_action| {
                            set.with_permission(resource, needed_action)
                        });
                }
            }
        }
    }
    if errors.is_empty() {
        return Ok(set);
    }
    let mut nested = Errors::new();
    nested.nest("permissions", errors);
    Err(nested)
}

/// Reads the permissions in the body of an API key, and adds the required ones as [`accept_grants`] does. An account grants to its
/// keys only permissions that it has.
pub fn accept_held_grants(grants: &Map<String, Json>, caller_permissions: Permissions) -> Result<Permissions, Errors> {
    let (mut errors, mut set) = (Errors::new(), Permissions::NONE);
    for (resource, actions) in grants {
        let group = catalogue().find(|group| group.name == resource);
        let assignable_actions = group.map_or(&[][..], |group| group.assignable);
        let assignable_actions: Vec<&str> =
            assignable_actions.iter().copied().filter(|action| caller_permissions.contains(resource, action)).collect();
        match (read_actions(actions, &assignable_actions), group) {
            (Err(message), _) => errors.add(resource, message),
            (Ok(_), None) => errors.add(resource, format!("Invalid resource {resource}.")),
            (Ok(actions), Some(group)) => {
                for action in actions {
                    set = required_by(group, action).fold(set.with_permission(resource, action), |set, needed| {
                        set.with_permission(resource, needed)
                    });
                }
            }
        }
    }
    if errors.is_empty() {
        return Ok(set.intersection(caller_permissions));
    }
    let mut nested = Errors::new();
    nested.nest("permissions", errors);
    Err(nested)
}

/// The actions that require no others.
const INDEPENDENT: [&str; 2] = ["list", "start"];

/// Returns the actions that an action requires: `list` and `view`, if a role can grant them.
fn required_by(group: &PermissionResource, action: &str) -> impl Iterator<Item = &'static str> {
    let needed = move |candidate: &&str| {
        !INDEPENDENT.contains(&action) && action != *candidate && group.assignable.contains(candidate)
    };
    ["list", "view"].into_iter().filter(needed)
}

/// Reads a sent list of known actions, or returns the error message.
pub fn read_actions<'a>(value: &Json, allowed_actions: &[&'a str]) -> Result<Vec<&'a str>, String> {
    if value.is_null() {
        return Err(message::NULL.to_owned());
    }
    let items = value.as_array().ok_or_else(|| message::not_a_list(type_name(value)))?;
    let mut actions = Vec::new();
    let mut wrong = Vec::new();
    for item in items {
        match item.as_str().and_then(|name| allowed_actions.iter().find(|action| **action == name)) {
            Some(action) => actions.push(*action),
            None => wrong.push(item.as_str().map_or_else(|| item.to_string(), str::to_owned)),
        }
    }
    if wrong.is_empty() { Ok(actions) } else { Err(format!("Invalid actions {}.", wrong.join(","))) }
}

/// An action in a schema document: its name, its display text, and the actions that it requires.
pub type DescribedAction = (&'static str, &'static str, Vec<String>);

/// Adds resources with their actions to a schema document, as the nested schema of its `permissions`.
/// Each action has its text and the actions that it requires.
pub fn describe(document: &mut Json, resources: impl Iterator<Item = (&'static str, Vec<DescribedAction>)>) {
    let nested = resources.map(|(resource, actions)| {
        let choices = actions.iter().map(|(name, text, _)| EnumOption::new(*name, *text)).collect();
        let mut entry = options::schema(&Field::new(resource, FieldKind::Set { choices, max_items: actions.len() }));
        let values = entry["values"].as_array_mut().into_iter().flatten();
        for (value, (_, _, requires)) in values.zip(actions) {
            value["requires"] = json!(requires);
        }
        entry
    });
    let nested: Json = nested.collect();
    let entries = document["details"]["schema"].as_array_mut();
    for entry in entries.into_iter().flatten().filter(|entry| entry["alias"] == PERMISSIONS) {
        entry["schema"] = nested.clone();
    }
}

/// Adds the permissions that a role can grant to its schema document, as the nested schema of `permissions`.
pub fn describe_assignable(document: &mut Json) {
    let groups = catalogue().filter(|group| !group.assignable.is_empty()).map(|group| {
        let actions = group
            .assignable
            .iter()
            .map(|action| (*action, text(action), required_by(group, action).map(str::to_owned).collect()));
        (group.name, actions.collect())
    });
    describe(document, groups);
}

/// Returns the display text of an action.
fn text(action: &'static str) -> &'static str {
    match action {
        "list" => "List",
        "view" => "View",
        "create" => "Create",
        "edit" => "Edit",
        "delete" => "Delete",
        "store" => "Store",
        "edit_owners" => "Edit owners",
        "edit_perm_set" => "Edit permission sets",
        "start" => "Start",
        other => other,
    }
}

/// Returns the permissions that a role can grant as `{resource: [action, …]}`, for OPTIONS.
pub fn assignable() -> Json {
    let groups = catalogue().filter(|group| !group.assignable.is_empty());
    Json::Object(groups.map(|group| (group.name.to_owned(), json!(group.assignable))).collect())
}
