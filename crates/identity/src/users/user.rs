//! The declaration of a user (`docs/reference/users.md`).

use crate::passwords;
use crate::timezones;
use kit::account_type::AccountType;
use kit::address::Ranges;
use kit::limits::Limit;
use resource::json::RowForm;
use resource::{Changes, Field, FieldKey, FieldKind, ReferenceTarget, Resource, UNDIRECTED, openapi};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;

/// The maximum number of address ranges of a user.
pub static USER_RANGES: Limit =
    Limit { name: "users_ip_restrictions", default: 10, many: "IP restrictions", ..Limit::EMPTY };

const STATUSES: &[(&str, &str)] = &[
    ("pending", "Pending"),
    ("invited", "Invited"),
    ("active", "Active"),
    ("locked", "Locked"),
    ("inactive", "Inactive"),
    ("anonymized", "Anonymized"),
];

pub static USERNAME: FieldKey<String> = FieldKey::new("username");
pub static ACCOUNT_TYPE: FieldKey<String> = FieldKey::new("account_type");
pub static FIRST_NAME: FieldKey<String> = FieldKey::new("first_name");
pub static LAST_NAME: FieldKey<String> = FieldKey::new("last_name");
pub static FULL_NAME: FieldKey<String> = FieldKey::new("full_name");
pub static JOB_TITLE: FieldKey<String> = FieldKey::new("job_title");
pub static COMPANY_NAME: FieldKey<String> = FieldKey::new("company_name");
pub static PHONE: FieldKey<String> = FieldKey::new("phone");
pub static MOBILE: FieldKey<String> = FieldKey::new("mobile");
pub static PASSWORD: FieldKey<String> = FieldKey::new("password");
pub static ROLES: FieldKey<Vec<i64>> = FieldKey::new("roles");
pub static DELAY_ACTIVATION: FieldKey<bool> = FieldKey::new("delay_activation");
pub static TIMEZONE: FieldKey<String> = FieldKey::new("timezone");
pub static IS_RESTRICTED: FieldKey<bool> = FieldKey::new("is_ip_restriction_enabled");
pub static RANGES: FieldKey<Vec<String>> = FieldKey::new("allowed_ip_ranges");
pub static STATUS: FieldKey<String> = FieldKey::new("status");

/// SQL for the state that users see. A lock ends at its time.
pub const SHOWN_STATUS: &str =
    "(CASE WHEN t.status = 'active' AND t.locked_until > {now} THEN 'locked' ELSE t.status END)";
const IS_AVAILABLE: &str =
    "(CASE WHEN t.status = 'active' AND (t.locked_until IS NULL OR t.locked_until <= {now}) THEN 1 ELSE 0 END)";
const IS_SUPER_ADMIN: &str = "(CASE WHEN t.account_type = 'super_admin' THEN 1 ELSE 0 END)";
/// An account that a directory has created or changed, and still sees.
const IS_PROVISIONED: &str = "(CASE WHEN t.account_type IN ('internal', 'external') AND EXISTS (SELECT 1 FROM scim_users x \
    WHERE x.user_id = t.id AND x.is_deleted = 0) THEN 1 ELSE 0 END)";
const EXPIRES_AT: &str = "(t.password_set_at + (SELECT NULLIF(x.password_rotation_interval, 0) FROM security x WHERE x.id = 1) * 86400000000)";

/// A user.
pub static USER: LazyLock<Resource> = LazyLock::new(|| {
    let date_time = |name: &'static str| Field::new(name, FieldKind::DateTime).read_only().nullable();
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "users",
        "User",
        "users",
        [
            Field::id(),
            USERNAME
                .declare(FieldKind::Email { max: 100 })
                .example("anna.berg@example.com")
                .required()
                .unique("users_username")
                .folded()
                .filter()
                .sort()
                .personal(),
            ACCOUNT_TYPE.declare(FieldKind::choices(AccountType::CHOICES)).example("internal").required().filter(),
            FIRST_NAME.text(100).charset(UNDIRECTED).example("Anna").min_length(1).required().detail_only().personal(),
            LAST_NAME.text(100).charset(UNDIRECTED).example("Berg").min_length(1).required().detail_only().personal(),
            FULL_NAME.text(201).folded().read_only().list_only().filter().personal(),
            JOB_TITLE.text(100).default("").detail_only().personal(),
            COMPANY_NAME.text(100).charset(UNDIRECTED).default("").detail_only().personal(),
            PHONE.text(20).default("").detail_only().personal(),
            MOBILE.text(20).default("").detail_only().personal(),
            PASSWORD
                .declare(FieldKind::Secret { min: 0, max: passwords::MAX_LENGTH })
                .write_only()
                .stored_by_resource(),
            ROLES
                .declare(FieldKind::References {
                    target: ReferenceTarget {
                        table: "roles".into(),
                        autocomplete: Some("/api/roles/autocomplete/?text__icontains=".into()),
                    },
                    max_items: 100,
                })
                .members("user_roles", "user_id", "role_id")
                .filter(),
            DELAY_ACTIVATION.boolean().write_only().stored_by_resource(),
            TIMEZONE
                .declare(FieldKind::Listed { is_listed: timezones::is_timezone, all: timezones::names })
                .default("UTC")
                .detail_only()
                .personal(),
            IS_RESTRICTED.boolean().default(false).detail_only(),
            RANGES
                .declare(FieldKind::Texts {
                    // The rules of users check the number, since the limit belongs to the build.
                    at_most: None,
                    are_valid: |ranges| Ranges::parse(ranges).is_some(),
                    invalid: "Must be a valid set of IPv4 or IPv6 network addresses.",
                })
                .default(resource::CheckedValue::List(Vec::new()))
                .detail_only()
                .personal(),
            STATUS.declare(FieldKind::choices(STATUSES)).sql(SHOWN_STATUS).read_only().filter(),
            Field::new("is_available", FieldKind::Boolean).sql(IS_AVAILABLE).filter_only(),
            Field::new("is_super_admin", FieldKind::Boolean).sql(IS_SUPER_ADMIN).filter_only(),
            Field::new("is_provisioned", FieldKind::Boolean).sql(IS_PROVISIONED).filter_only(),
            date_time("last_login").list_only().filter().sort(),
            date_time("activated_at").filter().sort(),
            date_time("password_set_at").filter().sort(),
            date_time("password_expires_at").sql(EXPIRES_AT),
            date_time("link_sent_at").filter().sort(),
            Field::new("link_sent_by", FieldKind::User).read_only().nullable().filter_by_choice(),
            Field::new("next_actions", FieldKind::List).schema(texts).read_only().stored_by_resource(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .alive("t.is_deleted = 0")
    .with_extra_schemas(|form| vec![("_meta", meta_schema(form))])
});

fn texts() -> Json {
    json!({"type": "array", "items": {"type": "string"}})
}

/// Returns the schema of `_meta`. A single user has more members than a user in a list.
pub fn meta_schema(form: RowForm) -> Json {
    let mut meta = openapi::meta(ACTIONS);
    let names = match form {
        RowForm::Detail => texts(),
        // Null replaces the name of a role that the caller may not see.
        _ => json!({"type": "array", "items": {"type": ["string", "null"]}}),
    };
    openapi::require(&mut meta, "labels", openapi::object([("roles", names)]));
    if form == RowForm::Detail {
        openapi::require(&mut meta, "allowed_account_type_changes", texts());
        let text = "True if mails leave the server; false if they stay on its disk";
        openapi::require(&mut meta, "is_mail_set_up", json!({"type": "boolean", "description": text}));
    }
    meta
}

/// The actions in `_meta`.
pub const ACTIONS: [&str; 5] = ["list", "view", "create", "edit", "delete"];

/// Returns the account type in the values of a user; `None` if it is missing or invalid.
pub fn account_type(values: &Changes) -> Option<AccountType> {
    values.get(&ACCOUNT_TYPE).and_then(|name| AccountType::parse(&name))
}
