//! Parts of answers that many tests expect.

use crate::client::ApiClient;
use serde_json::{Value, json};

/// The time of a server's clock at its start, in the form of answers.
pub const START: &str = "2026-01-31T09:30:00.000000Z";

/// Returns the user reference (`docs/reference/conventions.md`) of an account that the test kit created.
pub fn user(user: &ApiClient, account_type: &str) -> Value {
    let last_name = match account_type {
        "internal" => "Internal",
        "external" => "External",
        "full" => "Full",
        "super_admin" => "Super Admin",
        "service_internal" => "Service Internal",
        "service_external" => "Service External",
        other => panic!("{other} cannot sign in"),
    };
    let first_name = user.username.split('@').next().expect("a text has a first part");
    json!({
        "id": user.id, "first_name": first_name, "last_name": last_name, "username": user.username,
        "company_name": "", "is_deleted": false, "account_type": account_type,
    })
}

/// Returns the user reference of the first super admin.
pub fn admin() -> Value {
    json!({
        "id": 1, "first_name": "admin", "last_name": "Super Admin", "username": "admin@example.com",
        "company_name": "", "is_deleted": false, "account_type": "super_admin",
    })
}

/// Returns the envelope of a list that fits on one page.
pub fn page(results: Value) -> Value {
    let count = results.as_array().expect("results are a list").len();
    json!({
        "limit": 25, "offset": 0, "total_count": count, "filtered_count": count,
        "next": null, "previous": null, "results": results,
    })
}
