//! The declaration of the outbound mail settings (`docs/reference/mail.md`).

use crate::client_credentials::{self, VENDOR};
use kit::rows::{Declaration, Shape};
use resource::{Changes, Key, Kind, LINE, Resource, Target, Value};
use std::sync::LazyLock;

pub const TABLE: &str = "smtp_settings";

pub const BY_PASSWORD: &str = "username_and_password";
pub const METHODS: &[(&str, &str)] = &[(BY_PASSWORD, "Username and password"), (VENDOR, "Vendor client credentials")];

pub static USERNAME: Key<String> = Key::new("username");
pub static PORT: Key<i64> = Key::new("port");
pub static TLS: Key<bool> = Key::new("tls");
pub static HOST: Key<String> = Key::new("host");
pub static FROM_EMAIL: Key<String> = Key::new("from_email");
pub static FAILURE_EMAIL: Key<String> = Key::new("failure_email");
pub static METHOD: Key<String> = Key::new("authorization_method");
pub static OBJECT: Key<i64> = Key::new("authentication_object");
pub static PASSWORD: Key<String> = Key::new("password");

pub static SETTINGS: LazyLock<Resource> = LazyLock::new(|| {
    let autocomplete = "/api/authentication-objects/?provider=vendor_client_credentials";
    let object = Target { table: client_credentials::TABLE.into(), autocomplete: Some(autocomplete.into()) };
    Resource::new(
        "outbound_mail_setup",
        "OutboundMailSettings",
        TABLE,
        [
            USERNAME.text(254).charset(LINE).required(),
            PORT.integer(0, 65535).required(),
            TLS.boolean().default(false),
            HOST.text(63).charset(LINE).required(),
            FROM_EMAIL.is(Kind::Email { max: 254 }).required(),
            FAILURE_EMAIL.text(255).charset(LINE).required(),
            METHOD.is(Kind::choices(METHODS)).default(BY_PASSWORD),
            OBJECT.is(Kind::Reference { target: object }).nullable(),
            PASSWORD.is(Kind::Secret { min: 0, max: 128 }).not_blank().encrypted("password", "row_key"),
        ],
    )
});

pub static SHAPE: Shape = Shape::plain(Declaration::Static(&SETTINGS));

/// The value of a text field; empty when it has none.
pub fn text(settings: &Changes, key: &Key<String>) -> String {
    match settings.value(key.name()) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    }
}
