//! Proofs: what a person sends in the second step of a sign-in.

use super::challenges;
use super::notices::{self, Notice};
use super::passkeys::{self, AssertionOutcome, AssertionRequest};
use super::{codes, recovery_codes};
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Errors, SentObject, message};
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};

/// The names of the members that prove the second step.
const NAMES: [&str; 3] = ["code", "recovery_code", "credential"];

/// A proof.
#[derive(Clone)]
pub enum Proof {
    /// The present code of a generator.
    Code(String),
    RecoveryCode(String),
    /// The answer of a passkey, as JSON text.
    Credential(String),
}

impl Proof {
    /// Reads the proof of a body. Adds an error if there is none, or if there are several.
    pub fn from_body(body: &SentObject<'_>, errors: &mut Errors) -> Option<Proof> {
        let mut members = NAMES.iter().filter_map(|name| Some((*name, body.get(name)?)));
        let Some((name, value)) = members.next() else {
            errors.add("code", message::REQUIRED);
            return None;
        };
        if members.next().is_some() {
            errors.add("non_field_errors", "Only one of code, recovery_code and credential is allowed.");
            return None;
        }
        if value.is_null() {
            errors.add(name, message::NULL);
            return None;
        }
        if name == "credential" {
            if value.type_name() != "dict" {
                errors.add(name, message::not_an_object(value.type_name()));
                return None;
            }
            return Some(Proof::Credential(value.text().to_owned()));
        }
        match value.as_str() {
            None => errors.add(name, message::STRING),
            Some(text) if text.is_empty() => errors.add(name, message::BLANK),
            Some(text) if text.contains('\0') => errors.add(name, message::NUL),
            Some(text) if name == "code" => return Some(Proof::Code(text.into_owned())),
            Some(text) => return Some(Proof::RecoveryCode(text.into_owned())),
        }
        None
    }

    /// Reads the proof of a form: the answer of a passkey, or a field for codes of both kinds.
    ///
    /// # Errors
    /// 400 if both fields are empty.
    pub fn from_form(code: String, credential: String) -> Result<Proof, Refusal> {
        if code.trim().is_empty() && credential.is_empty() {
            return Err(Errors::single("code", message::REQUIRED).into());
        }
        let digits: String = code.chars().filter(|character| !character.is_whitespace()).collect();
        let is_generated = digits.len() == codes::DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        Ok(match credential.is_empty() {
            false => Proof::Credential(credential),
            true if is_generated => Proof::Code(code),
            true => Proof::RecoveryCode(code),
        })
    }
}

/// Uses a proof of a user for a challenge. Returns the reason of the system event; `None` if the proof is wrong.
pub fn use_proof(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    challenge: &str,
    proof: &Proof,
) -> Result<Option<&'static str>, Refusal> {
    match proof {
        Proof::Code(code) => {
            let Some(factor) = codes::use_code(request, conn, user, code)? else { return Ok(None) };
            let sql = Sql::new("UPDATE second_factors SET last_used_at = $1 WHERE id = $2");
            conn.exec(&sql.arg(request.now).arg(factor))?;
            Ok(Some("password_totp"))
        }
        Proof::RecoveryCode(code) => {
            if !recovery_codes::use_code(request, conn, user, code)? {
                return Ok(None);
            }
            notices::send(request, conn, user, Notice::RecoveryCodeUsed)?;
            Ok(Some("password_recovery_code"))
        }
        Proof::Credential(credential) => {
            let challenge = challenges::for_passkey(challenge);
            let assertion_request =
                AssertionRequest { challenge: &challenge, user: Some(user), must_verify_user: false };
            let is_right = use_passkey(request, conn, credential, &assertion_request)?.is_some();
            Ok(is_right.then_some("password_passkey"))
        }
    }
}

/// Uses the answer of a passkey. Returns its user; `None` if the answer is wrong. Informs the user if a copy of the passkey may exist.
pub fn use_passkey(
    request: &Request,
    conn: &mut Conn,
    credential: &str,
    assertion_request: &AssertionRequest<'_>,
) -> Result<Option<UserId>, Refusal> {
    match passkeys::use_assertion(request, conn, credential, assertion_request)? {
        AssertionOutcome::Right(user) => Ok(Some(user)),
        AssertionOutcome::Wrong => Ok(None),
        AssertionOutcome::Copied(user) => {
            notices::send(request, conn, user, Notice::PasskeyCopied)?;
            Ok(None)
        }
    }
}

/// The second step of a sign-in.
#[derive(Clone)]
pub struct SecondStep {
    pub user: UserId,
    /// The token of the challenge.
    pub challenge: String,
    /// The ways to prove it: `totp`, `passkey`, `recovery_code`.
    pub methods: Vec<&'static str>,
    /// The options of WebAuthn, if a passkey is among the ways.
    pub options: Option<Json>,
}

impl SecondStep {
    /// Returns the second step of a user for a challenge. Returns `None` if the user has no factor.
    pub fn load(
        request: &Request,
        conn: &mut Conn,
        user: UserId,
        challenge: String,
    ) -> Result<Option<SecondStep>, StoreError> {
        let sql = Sql::new(
            "SELECT DISTINCT type FROM second_factors WHERE user_id = $1 AND confirmed_at IS NOT NULL ORDER BY type DESC",
        );
        let types = conn.query_all(&sql.arg(user), |row| Ok(row.text(0)? == "passkey"))?;
        if types.is_empty() {
            return Ok(None);
        }
        let mut methods: Vec<&'static str> =
            types.into_iter().map(|is_passkey| if is_passkey { "passkey" } else { "totp" }).collect();
        let options = match methods.contains(&"passkey") {
            true => passkeys::request_options(request, conn, user, &challenges::for_passkey(&challenge))?,
            false => None,
        };
        if recovery_codes::count_left(conn, user)? > 0 {
            methods.push("recovery_code");
        }
        Ok(Some(SecondStep { user, challenge, methods, options }))
    }

    /// Returns the body of the answer.
    pub fn to_json(&self) -> Json {
        let mut json = json!({"challenge": self.challenge, "methods": self.methods, "expires_in": challenges::SECONDS});
        if let Some(options) = &self.options {
            json["options"] = options.clone();
        }
        json
    }
}
