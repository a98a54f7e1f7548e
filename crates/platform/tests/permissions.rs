//! The permissions of account types, and the permissions that a role can grant, over all modules.

use platform::kit::account_type::AccountType;
use platform::kit::domain;
use platform::kit::permissions::{Permissions, accept_permissions};
use serde_json::{Value as Json, json};

fn register() {
    domain::register(&platform::MODULES);
}

#[test]
fn account_types_have_their_declared_permissions() {
    register();
    assert!(Permissions::for_account_type(AccountType::SuperAdmin).contains("user_groups", "edit_perm_set"));
    let of_all = json!({"object_classes": ["list"], "ui_config": ["view"], "mcp_connectors": ["list"]});
    assert_eq!(Permissions::for_account_type(AccountType::External).to_actions(), of_all);
    let mut standard = of_all;
    standard["users"] = json!(["list", "view"]);
    standard["user_groups"] = json!(["list"]);
    assert_eq!(Permissions::for_account_type(AccountType::Internal).to_actions(), standard);
}

#[test]
fn actions_are_expanded() {
    register();
    let sent = json!({"users": ["create"], "company_details": ["edit"], "standard_authentication": ["edit"]});
    let set = accept_permissions(sent.as_object().unwrap(), Permissions::NONE).unwrap();
    assert_eq!(
        set.to_actions(),
        json!({"users": ["list", "view", "create"], "standard_authentication": ["list", "edit"], "company_details": ["view", "edit"]})
    );
    assert_eq!(Permissions::from_actions(&set.to_actions()), set);
}

#[test]
fn invalid_permissions_of_roles_are_refused() {
    register();
    let refuse = |sent: Json| accept_permissions(sent.as_object().unwrap(), Permissions::NONE).unwrap_err().to_json();
    assert_eq!(
        refuse(json!({"user_groups": ["view", "edit", "x"]})),
        json!({"permissions": {"user_groups": ["Invalid actions edit,x."]}})
    );
    assert_eq!(refuse(json!({"planets": []})), json!({"permissions": ["Invalid resource planets."]}));
}
