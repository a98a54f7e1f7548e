//! A fake OpenID provider that returns and signs anything that a test chooses, unlike the certified one.

use crate::openid::{CLIENT_ID, CLIENT_SECRET, TENANT_ID};
use crate::server::NOW;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use web::listener::{self, Limits};

/// Two key pairs for tests: the private key in PKCS #8, and the two coordinates of the public key.
const KEYS: [[&str; 3]; 2] = [
    [
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKqbWC+2tLbpzeTdW8BvkBQ2FXpltB0ZhyQ1mznurE3GhRANCAATYEpS7OxS5fi3I0U2yd09cT/ys2DvDGrmThArLlNrjPufaFhLxsVA0QpQqDghoc0YzEkMYRFCFYaKitctO/Sbu",
        "2BKUuzsUuX4tyNFNsndPXE_8rNg7wxq5k4QKy5Ta4z4",
        "59oWEvGxUDRClCoOCGhzRjMSQxhEUIVhoqK1y079Ju4",
    ],
    [
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgshDezNgwMQcqZEDdBZ8q7Lnp/oMgOs6tPoEVhOjqzuehRANCAATfz9PJiC/v8Rpuq//pwOWye786xnJXqjDO/mkl0NjiHYhLMZQRDi6PGv6t9oD49k30hHfEJb1YmsJkV0Pbtsj/",
        "38_TyYgv7_Eabqv_6cDlsnu_OsZyV6owzv5pJdDY4h0",
        "iEsxlBEOLo8a_q32gPj2TfSEd8QlvViawmRXQ9u2yP8",
    ],
];

/// A running fake provider. It ends with the test's runtime.
#[derive(Clone)]
pub struct Forger {
    port: u16,
    state: Arc<Mutex<ForgerState>>,
}

/// The behaviour of the fake provider, which is correct until a test changes it.
pub struct ForgerState {
    /// Members that replace claims of every ID token; null removes a claim.
    pub claims: Json,
    /// Members that replace those of the header of every ID token.
    pub header: Json,
    /// Members that replace those of the discovery document.
    pub discovery: Json,
    /// The answer of the user-info endpoint.
    pub user_info: Json,
    /// The key that signs: 0 or 1.
    pub signs_with: usize,
    /// The keys that are published.
    pub publishes: Vec<usize>,
    /// A secret with which tokens are signed by HMAC instead; empty: tokens are not signed.
    pub hmac: Option<String>,
    /// Is true if a code can be used any number of times.
    pub repeats_codes: bool,
    /// The status of answers to valid requests.
    pub status: u16,
    /// The number of spaces that are appended to answers to valid requests.
    pub padding: usize,
    /// An address to which every request is redirected, if any.
    pub redirects_to: Option<String>,
    /// The time of its clock, in seconds since 1970.
    pub now: i64,
    /// The number of requests for each path.
    pub calls: HashMap<String, u32>,
    codes: HashMap<String, HashMap<String, String>>,
    issued: u32,
}

impl Forger {
    /// Starts a fake provider on a free port.
    pub async fn start() -> Forger {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let state = ForgerState {
            claims: json!({}),
            header: json!({}),
            discovery: json!({}),
            user_info: json!({}),
            signs_with: 0,
            publishes: vec![0],
            hmac: None,
            repeats_codes: false,
            status: 200,
            padding: 0,
            redirects_to: None,
            now: NOW / 1_000_000,
            calls: HashMap::new(),
            codes: HashMap::new(),
            issued: 0,
        };
        let forger = Forger { port, state: Arc::new(Mutex::new(state)) };
        let served = forger.clone();
        let handler = move |request, _| {
            let forger = served.clone();
            async move { forger.answer(request).await }
        };
        tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
        forger
    }

    /// Returns the state of the provider, to be read or changed.
    pub fn state(&self) -> MutexGuard<'_, ForgerState> {
        web::lock(&self.state)
    }

    /// The value for `CHANCERY_SSO_PROVIDER_B_ISSUER`.
    pub fn issuer_setting(&self) -> String {
        format!("http://127.0.0.1:{}/{{tenant_id}}", self.port)
    }

    /// The issuer of [`TENANT_ID`].
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}/{TENANT_ID}", self.port)
    }

    /// Returns the code that a sign-in at an authorization address would return.
    pub fn authorize(&self, authorization: &str) -> String {
        let query = parameters(authorization);
        let mut state = self.state();
        state.issued += 1;
        let code = format!("code-{}", state.issued);
        state.codes.insert(code.clone(), query);
        code
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().trim_start_matches(&format!("/{TENANT_ID}")).to_owned();
        let basic = format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{CLIENT_SECRET}")));
        let is_client =
            request.headers().get("authorization").is_some_and(|value| value.to_str().is_ok_and(|text| text == basic));
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let mut state = self.state();
        *state.calls.entry(path.clone()).or_default() += 1;
        if let Some(location) = &state.redirects_to {
            let redirect = Response::builder().status(302).header("location", format!("{location}{path}"));
            return redirect.body(Full::default()).unwrap_or_default();
        }
        let answer = match path.as_str() {
            "/.well-known/openid-configuration" => Some(self.discovery(&state)),
            "/keys" => Some(json!({"keys": state.publishes.iter().map(|n| public_key(*n)).collect::<Vec<_>>()})),
            "/me" => Some(state.user_info.clone()),
            "/token" if is_client => self.token(&mut state, &String::from_utf8_lossy(&body)),
            _ => None,
        };
        let (status, body) = match answer {
            Some(answer) => (state.status, format!("{answer}{}", " ".repeat(state.padding))),
            None => (400, json!({"error": "invalid_request"}).to_string()),
        };
        let answer = Response::builder().status(status).header("content-type", "application/json");
        answer.body(Full::new(Bytes::from(body))).unwrap_or_default()
    }

    fn discovery(&self, state: &ForgerState) -> Json {
        let issuer = self.issuer();
        let document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize?tenant=1"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "end_session_endpoint": format!("{issuer}/end"),
        });
        overlaid(document, &state.discovery)
    }

    fn token(&self, state: &mut ForgerState, form: &str) -> Option<Json> {
        let form_fields = parameters(&format!("?{form}"));
        let code = form_fields.get("code")?;
        let authorization =
            if state.repeats_codes { state.codes.get(code)?.clone() } else { state.codes.remove(code)? };
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form_fields.get("code_verifier")?.as_bytes()));
        let is_valid = authorization.get("code_challenge") == Some(&challenge)
            && form_fields.get("redirect_uri") == authorization.get("redirect_uri");
        if !is_valid || form_fields.get("grant_type").map(String::as_str) != Some("authorization_code") {
            return None;
        }
        let claims = json!({
            "iss": self.issuer(), "aud": CLIENT_ID, "sub": "subject-1", "nonce": authorization.get("nonce"),
            "email": "ann@example.com", "email_verified": true, "iat": state.now, "exp": state.now + 300,
        });
        let token = sign_claims(state, &overlaid(claims, &state.claims));
        Some(json!({"access_token": "access", "token_type": "Bearer", "id_token": token}))
    }
}

fn public_key(n: usize) -> Json {
    let [_, x, y] = KEYS[n];
    json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": format!("key-{n}"), "use": "sig"})
}

/// Returns a token with these claims, signed according to the state.
fn sign_claims(state: &ForgerState, claims: &Json) -> String {
    let algorithm = match &state.hmac {
        None => "ES256",
        Some(secret) if secret.is_empty() => "none",
        Some(_) => "HS256",
    };
    let header = json!({"alg": algorithm, "kid": format!("key-{}", state.signs_with)});
    let part = |json: &Json| URL_SAFE_NO_PAD.encode(json.to_string());
    let message = format!("{}.{}", part(&overlaid(header, &state.header)), part(claims));
    let signature = match &state.hmac {
        None => {
            let (key, random) = (STANDARD.decode(KEYS[state.signs_with][0]).expect("a test key"), SystemRandom::new());
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &random).expect("a test key");
            URL_SAFE_NO_PAD.encode(pair.sign(&random, message.as_bytes()).expect("a test key signs"))
        }
        Some(secret) if secret.is_empty() => String::new(),
        Some(secret) => {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes()))
        }
    };
    format!("{message}.{signature}")
}

/// Returns the members of `below`, replaced by those of `above`. A null removes a member.
fn overlaid(below: Json, above: &Json) -> Json {
    let mut members: Map<String, Json> = below.as_object().cloned().unwrap_or_default();
    for (name, value) in above.as_object().into_iter().flatten() {
        if value.is_null() {
            members.remove(name);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
    Json::Object(members)
}

/// Returns the decoded query parameters of a URL.
pub fn parameters(url: &str) -> HashMap<String, String> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let query = resource::Query::parse(query.split('#').next().unwrap_or(""));
    query.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
