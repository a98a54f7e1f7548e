//! The declaration of the outbound mail settings (`docs/reference/mail.md`).

use crate::client_credentials::{self, VENDOR};
use kit::rows::{Declaration, RowShape};
use resource::{Changes, CheckedValue, FieldKey, FieldKind, LINE, ReferenceTarget, Resource};
use std::sync::LazyLock;

pub const TABLE: &str = "smtp_settings";

pub const BY_PASSWORD: &str = "username_and_password";
pub const METHODS: &[(&str, &str)] = &[(BY_PASSWORD, "Username and password"), (VENDOR, "Vendor client credentials")];

pub static USERNAME: FieldKey<String> = FieldKey::new("username");
pub static PORT: FieldKey<i64> = FieldKey::new("port");
pub static TLS: FieldKey<bool> = FieldKey::new("tls");
pub static HOST: FieldKey<String> = FieldKey::new("host");
pub static FROM_EMAIL: FieldKey<String> = FieldKey::new("from_email");
pub static FAILURE_EMAIL: FieldKey<String> = FieldKey::new("failure_email");
pub static METHOD: FieldKey<String> = FieldKey::new("authorization_method");
pub static OBJECT: FieldKey<i64> = FieldKey::new("authentication_object");
pub static PASSWORD: FieldKey<String> = FieldKey::new("password");

pub static SETTINGS: LazyLock<Resource> = LazyLock::new(|| {
    let autocomplete = "/api/authentication-objects/?provider=vendor_client_credentials";
    let object = ReferenceTarget { table: client_credentials::TABLE.into(), autocomplete: Some(autocomplete.into()) };
    Resource::new(
        "outbound_mail_setup",
        "OutboundMailSettings",
        TABLE,
        [
            USERNAME.text(254).charset(LINE).required(),
            PORT.integer(0, 65535).required(),
            TLS.boolean().default(false),
            HOST.text(63).charset(LINE).required(),
            FROM_EMAIL.declare(FieldKind::Email { max: 254 }).required(),
            FAILURE_EMAIL.text(255).charset(LINE).required(),
            METHOD.declare(FieldKind::choices(METHODS)).default(BY_PASSWORD),
            OBJECT.declare(FieldKind::Reference { target: object }).nullable(),
            PASSWORD.declare(FieldKind::Secret { min: 0, max: 128 }).not_blank().encrypted("password", "row_key"),
        ],
    )
});

pub static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&SETTINGS));

/// Returns the value of a text field, or an empty text.
pub fn text(settings: &Changes, key: &FieldKey<String>) -> String {
    match settings.value(key.name()) {
        Some(CheckedValue::Text(text)) => text.clone(),
        _ => String::new(),
    }
}
