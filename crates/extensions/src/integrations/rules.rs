//! The rights to change an integration, and the rules of its fields that the declaration cannot express.

use super::integration::{
    AUTHENTICATION_OBJECT, EVENTS, FOLDER, OBJECT_CLASS, OBJECT_CLASS_FIELD, OBJECT_CLASSES, REDIRECT_URIS, SECRET,
    Type, URL,
};
use kit::caller::Caller;
use kit::ids::ClassId;
use kit::refusal::Refusal;
use kit::request::Request;
use records::rights::{VIEW, load_class_actions};
use resource::{Changes, Errors, FieldKey, RowAfterWrite, SentObject, message};
use std::net::IpAddr;
use store::{Conn, Sql, StoreError};
use url::{Host, Url};

/// The maximum length of a folder, in characters.
pub const MAX_FOLDER: usize = 255;
/// The maximum length of a folder, in bytes. The key of an S3 object has at most 1,024 bytes and also contains the build, the
/// record and the file.
const MAX_FOLDER_BYTES: usize = 500;
/// The maximum length of a part of a path, which is a directory, in bytes.
const MAX_PART_BYTES: usize = 255;
/// The bounds of a secret, in characters.
pub const MIN_SECRET: usize = 16;
pub const MAX_SECRET: usize = 255;
/// The maximum length of an agent's redirect address, in bytes.
const MAX_REDIRECT_URI: usize = 2048;
/// The parameters of the answer at an agent's redirect address.
const ANSWER_PARAMETERS: [&str; 3] = ["code", "state", "iss"];

// ---- Rights --------------------------------------------------------------------------------------------------------

/// The objects that an integration uses, in its stored or its future state.
pub struct Used {
    pub of: Type,
    pub class: Option<ClassId>,
    /// Is true if the caller may view all records of the class.
    pub views_records: bool,
    /// Is true if it refers to an authentication object.
    pub authentication_object: bool,
}

impl Used {
    /// Returns whether the caller has the rights on all objects that an integration uses. These are `view` on the records of its
    /// class and `view` on its authentication object. Only super admins have the rights on all classes. Integrations of agents are
    /// for super admins.
    pub fn may_be_changed_by(&self, caller: &Caller) -> bool {
        if caller.is_super() {
            return true;
        }
        let holds_records = match self.class {
            Some(_) => self.views_records,
            None => self.of != Type::Webhook,
        };
        let views_object = !self.authentication_object || caller.has_permission("authentication_objects", "view");
        self.of.hands_out_records() && holds_records && views_object
    }
}

/// Refuses a caller without the rights on everything that an integration with these values uses.
pub fn check_rights(
    request: &Request,
    conn: &mut Conn,
    integration_type: Type,
    values: &RowAfterWrite,
) -> Result<(), Refusal> {
    let caller = request.caller()?;
    let class = values.get(&OBJECT_CLASS);
    let views_records = match class {
        Some(class) if !caller.is_super() => {
            load_class_actions(conn, caller, class)?.is_some_and(|rights| rights.allows(VIEW))
        }
        _ => true,
    };
    let authentication_object = values.get(&AUTHENTICATION_OBJECT).is_some();
    let used = Used { of: integration_type, class, views_records, authentication_object };
    if used.may_be_changed_by(caller) { Ok(()) } else { Err(Refusal::forbidden()) }
}

// ---- Values --------------------------------------------------------------------------------------------------------

/// Replaces the messages about unknown ids by those of integrations.
pub fn name_unknown(body: &SentObject<'_>, errors: &mut Errors) {
    for (name, kind) in [
        (AUTHENTICATION_OBJECT.name(), "Authentication object"),
        (OBJECT_CLASS.name(), "Object class"),
        (OBJECT_CLASS_FIELD.name(), "Object class field"),
        (OBJECT_CLASSES.name(), "Object class"),
    ] {
        errors.replace_messages(name, |text| {
            let id = text.strip_prefix("Invalid pk ")?.strip_suffix(" - object does not exist.")?;
            Some(format!("Invalid pk {id} - {kind} does not exist."))
        });
    }
    let is_empty = |key: &FieldKey<Vec<String>>| {
        body.get(key.name()).and_then(|value| value.as_list(1)).is_some_and(|(items, _)| items.is_empty())
    };
    for key in [&REDIRECT_URIS, &EVENTS] {
        if is_empty(key) && !errors.has_field(key.name()) {
            errors.add(key.name(), message::EMPTY_LIST);
        }
    }
}

/// Checks the rules of a type. `before` are the stored values.
pub fn check(
    request: &Request,
    conn: &mut Conn,
    integration_type: Type,
    before: Option<&Changes>,
    changes: &Changes,
    errors: &mut Errors,
) -> Result<(), StoreError> {
    let after = RowAfterWrite { before, sent: changes };
    match integration_type {
        Type::DocumentManagement => {
            if changes.get(&FOLDER).is_some_and(|folder| !is_folder(&folder)) {
                errors.add(FOLDER.name(), message::VALUE);
            }
            check_field(conn, &after, errors)?;
        }
        Type::AiMcp => {}
        Type::Webhook => check_webhook(request, before, changes, errors),
    }
    Ok(())
}

/// Checks that the field is a document field of the class.
fn check_field(conn: &mut Conn, after: &RowAfterWrite, errors: &mut Errors) -> Result<(), StoreError> {
    if errors.has_field(OBJECT_CLASS_FIELD.name()) || errors.has_field(OBJECT_CLASS.name()) {
        return Ok(());
    }
    let Some(field) = after.get(&OBJECT_CLASS_FIELD) else { return Ok(()) };
    let sql = Sql::new("SELECT 1 FROM object_class_fields WHERE id = $1 AND class_id = $2 AND type = 'document'");
    let row = conn.query_optional(&sql.arg(field).arg(after.get(&OBJECT_CLASS)), |_| Ok(()))?;
    if row.is_none() {
        errors.add(OBJECT_CLASS_FIELD.name(), format!("Invalid pk {field} - Object class field does not exist."));
    }
    Ok(())
}

fn check_webhook(request: &Request, before: Option<&Changes>, changes: &Changes, errors: &mut Errors) {
    let url = changes.get(&URL);
    if let Some(url) = &url
        && !is_receiver(request, url)
    {
        errors.add(URL.name(), message::URL);
    }
    // A change of the address requires the secret. Otherwise a new receiver would get messages that are signed with a secret
    // unknown to the caller.
    let changes_url = |before: &Changes| url.as_ref().is_some_and(|url| Some(url) != before.get(&URL).as_ref());
    if before.is_some_and(changes_url) && !changes.contains(&SECRET) && !errors.has_field(SECRET.name()) {
        errors.add(SECRET.name(), message::REQUIRED);
    }
}

/// Returns whether a webhook may have an address: `https`, or `http` if the operator allows the network. Each attempt resolves the
/// name and checks its addresses.
fn is_receiver(request: &Request, url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let allow = &request.app.settings.outbound_allow;
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    let is_allowed = match (url.scheme(), url.host()) {
        (_, None) => false,
        ("https", Some(_)) => true,
        ("http", Some(Host::Domain(_))) => !allow.is_empty(),
        ("http", Some(Host::Ipv4(address))) => allow.contains(IpAddr::from(address)),
        ("http", Some(Host::Ipv6(address))) => allow.contains(IpAddr::from(address).to_canonical()),
        _ => false,
    };
    is_allowed && !has_credentials
}

/// Returns whether a folder stays below the directory of the build, and can be a directory.
fn is_folder(folder: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && part.len() <= MAX_PART_BYTES;
    let is_plain = |character: char| !character.is_control() && character != '\\';
    folder.len() <= MAX_FOLDER_BYTES
        && folder.chars().all(is_plain)
        && folder.strip_suffix('/').unwrap_or(folder).split('/').all(is_part)
}

/// Returns whether agents' sign-ins may redirect to these addresses: `https`, or `http` of the local computer. The text must be
/// valid in a header as it is, since the text is used and not the parsed address.
pub fn are_redirect_uris(uris: &[String]) -> bool {
    uris.iter().all(|uri| {
        let Ok(url) = Url::parse(uri) else { return false };
        let is_loopback = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
            None => return false,
        };
        let is_web = url.scheme() == "https" || url.scheme() == "http" && is_loopback;
        let is_plain = url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
        let is_printable = uri.bytes().all(|byte| byte.is_ascii_graphic());
        // An agent reads its answer from these parameters, and uses the first of two equal ones.
        let has_answer = url.query_pairs().any(|(name, _)| ANSWER_PARAMETERS.contains(&name.as_ref()));
        is_web && is_plain && is_printable && !has_answer && uri.len() <= MAX_REDIRECT_URI
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stay_below_the_place_of_the_build() {
        for good in ["contracts", "contracts/2026", "Verträge/", "a b/c.d", "..a", "a..", ".hidden", "..."] {
            assert!(is_folder(good), "{good}");
        }
        let long = "x".repeat(256);
        for bad in
            ["", "/", "/a", "a//b", "..", "a/..", "../a", "a/../b", ".", "a/./b", "a\\b", "a\nb", "a\u{7f}", &long]
        {
            assert!(!is_folder(bad), "{bad:?}");
        }
        assert!(!is_folder(&"ä/".repeat(200)));
    }

    #[test]
    fn sign_ins_return_by_https_or_to_this_computer() {
        let is_good = |uri: &str| are_redirect_uris(&[uri.to_owned()]);
        for good in [
            "https://agent.example/callback?x=1",
            "https://agent.example/callback?codes=1&my_state=2&issuer=3",
            "http://localhost:3000/callback",
            "http://127.0.0.1/",
            "http://[::1]:9/x",
        ] {
            assert!(is_good(good), "{good}");
        }
        for bad in [
            "http://agent.example/",
            "https://user@agent.example/",
            "https://agent.example/#part",
            "https://agent.example/?code=x",
            "https://agent.example/?x=1&state",
            "https://agent.example/?%69ss=https://other.example",
            "http://localhost/callback?x=1&code=",
            "javascript:alert(1)",
            "http://localhost.example/",
            "http://10.0.0.1/",
            "agent.example",
            "",
            "https://agent.example/ü",
            "https://ägent.example/",
            "https://agent.example/a b",
            " https://agent.example/",
            "https://agent.example/\n",
            "https://agent.example/a\r\nSet-Cookie: x",
            "https://agent.exam\tple/",
            "https://agent.example/\u{7f}",
        ] {
            assert!(!is_good(bad), "{bad:?}");
        }
    }
}
