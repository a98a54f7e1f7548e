//! Which permissions exist, which a role can give, and what an account holds without one (document 4, section 4).

use resource::Errors;
use serde_json::{Map, Value as Json, json};

/// A permission resource with its actions; those that a role can give come from `assignable`.
struct Group {
    resource: &'static str,
    actions: &'static [&'static str],
    assignable: &'static [&'static str],
}

const CRUD: &[&str] = &["list", "view", "create", "edit", "delete"];

static CATALOGUE: &[Group] = &[
    Group { resource: "users", actions: CRUD, assignable: CRUD },
    Group { resource: "roles", actions: CRUD, assignable: CRUD },
    Group { resource: "single_sign_on", actions: CRUD, assignable: CRUD },
    Group { resource: "authentication_objects", actions: CRUD, assignable: CRUD },
    Group {
        resource: "user_groups",
        actions: &["list", "view", "create", "edit", "delete", "edit_perm_set"],
        assignable: &["list", "view", "create"],
    },
    Group { resource: "standard_authentication", actions: &["list", "edit"], assignable: &["list", "edit"] },
    Group { resource: "company_details", actions: &["view", "edit"], assignable: &["view", "edit"] },
    Group { resource: "outbound_mail_setup", actions: &["view", "edit"], assignable: &["view", "edit"] },
    Group { resource: "administration_log", actions: &["list"], assignable: &["list"] },
];

/// A set of permissions, a bit for each of the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Permissions(u128);

impl Permissions {
    /// None.
    pub const NONE: Permissions = Permissions(0);

    /// Every permission: what super admins and `service_internal` hold.
    pub fn all() -> Permissions {
        Permissions((1 << CATALOGUE.iter().map(|group| group.actions.len()).sum::<usize>()) - 1)
    }

    /// What an account type holds without a role.
    pub fn of_account(account_type: &str) -> Permissions {
        match account_type {
            "super_admin" | "service_internal" => Permissions::all(),
            "internal" | "full" => {
                let held = [("users", "list"), ("users", "view"), ("user_groups", "list")];
                held.into_iter().fold(Permissions::NONE, |set, (resource, action)| set.with(resource, action))
            }
            _ => Permissions::NONE,
        }
    }

    /// With one more; unchanged when there is no such permission.
    pub fn with(self, resource: &str, action: &str) -> Permissions {
        Permissions(self.0 | bit(resource, action).unwrap_or(0))
    }

    /// All that either holds.
    pub fn union(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }

    /// Whether it holds the permission.
    pub fn has(self, resource: &str, action: &str) -> bool {
        bit(resource, action).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Whether it holds everything that the other does.
    pub fn covers(self, other: Permissions) -> bool {
        self.0 & other.0 == other.0
    }

    /// `{resource: {action: bool}}`, as `GET /api/users/permissions/` answers.
    pub fn to_json(self) -> Json {
        let actions = |group: &Group| -> Map<String, Json> {
            group.actions.iter().map(|action| ((*action).to_owned(), self.has(group.resource, action).into())).collect()
        };
        Json::Object(CATALOGUE.iter().map(|group| (group.resource.to_owned(), actions(group).into())).collect())
    }

    /// `{resource: [action, …]}` without the resources of which it holds nothing: how a role stores and shows them.
    pub fn to_grants(self) -> Json {
        let mut grants = Map::new();
        for group in CATALOGUE {
            let held: Vec<&str> =
                group.actions.iter().copied().filter(|action| self.has(group.resource, action)).collect();
            if !held.is_empty() {
                grants.insert(group.resource.to_owned(), json!(held));
            }
        }
        Json::Object(grants)
    }

    /// Reads what [`Permissions::to_grants`] wrote; unknown names give nothing.
    pub fn from_grants(grants: &Json) -> Permissions {
        let mut set = Permissions::NONE;
        for (resource, actions) in grants.as_object().into_iter().flatten() {
            for action in actions.as_array().into_iter().flatten().filter_map(Json::as_str) {
                set = set.with(resource, action);
            }
        }
        set
    }

    /// Without the permissions of one resource.
    fn without(self, group: &Group) -> Permissions {
        Permissions(
            group.actions.iter().filter_map(|action| bit(group.resource, action)).fold(self.0, |set, bit| set & !bit),
        )
    }
}

fn bit(resource: &str, action: &str) -> Option<u128> {
    let mut first = 0;
    for group in CATALOGUE {
        if group.resource == resource {
            return group.actions.iter().position(|known| *known == action).map(|n| 1 << (first + n));
        }
        first += group.actions.len();
    }
    None
}

/// The permissions that a role's body asks for, expanded by the dependencies (`view`, `edit`, `create` and `delete`
/// need `list` and `view`, where the resource has them). A resource that is not sent keeps what it had in `before`.
pub fn accept_grants(sent: &Map<String, Json>, before: Permissions) -> Result<Permissions, Errors> {
    let mut errors = Errors::new();
    let mut set = before;
    for (resource, actions) in sent {
        let Some(group) = CATALOGUE.iter().find(|group| group.resource == resource && !group.assignable.is_empty())
        else {
            return Err(Errors::of("permissions", format!("Invalid resource {resource}.")));
        };
        set = set.without(group);
        match crate::permission_set::actions(actions, group.assignable) {
            Err(message) => errors.add(resource, message),
            Ok(actions) => {
                for action in &actions {
                    set = set.with(resource, action);
                    for needed in ["list", "view"] {
                        if *action != "list" && group.assignable.contains(&needed) {
                            set = set.with(resource, needed);
                        }
                    }
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

/// What a role can give, for OPTIONS: `{resource: [action, …]}`.
pub fn assignable() -> Json {
    Json::Object(CATALOGUE.iter().map(|group| (group.resource.to_owned(), json!(group.assignable))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_accounts_hold() {
        assert!(Permissions::of_account("super_admin").has("user_groups", "edit_perm_set"));
        assert_eq!(
            Permissions::of_account("internal").to_grants(),
            json!({"users": ["list", "view"], "user_groups": ["list"]})
        );
        assert_eq!(Permissions::of_account("external").to_grants(), json!({}));
    }

    #[test]
    fn actions_are_expanded() {
        let sent = json!({"users": ["create"], "company_details": ["edit"], "standard_authentication": ["edit"]});
        let set = accept_grants(sent.as_object().unwrap(), Permissions::NONE).unwrap();
        assert_eq!(
            set.to_grants(),
            json!({"users": ["list", "view", "create"], "standard_authentication": ["list", "edit"], "company_details": ["view", "edit"]})
        );
        assert_eq!(Permissions::from_grants(&set.to_grants()), set);
    }

    #[test]
    fn what_no_role_can_give_is_refused() {
        let refuse = |sent: Json| accept_grants(sent.as_object().unwrap(), Permissions::NONE).unwrap_err().to_json();
        assert_eq!(
            refuse(json!({"user_groups": ["view", "edit", "x"]})),
            json!({"permissions": {"user_groups": ["Invalid actions edit,x."]}})
        );
        assert_eq!(refuse(json!({"planets": []})), json!({"permissions": ["Invalid resource planets."]}));
    }
}
