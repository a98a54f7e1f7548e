//! The other side: what a provider says of itself, its keys, and the exchange of a code (OpenID Connect Discovery 1.0,
//! Core 1.0). Everything that is fetched comes from addresses that the operator's issuer leads to.
//!
//! What was learned is kept for an hour by issuer, whatever build asked. A token signed with an unknown key makes the
//! keys be fetched anew, at most once a minute, which is how a provider's rotation is followed and how a forger is kept
//! from making us fetch. After a failure the provider is left alone for some seconds.

use super::configuration::Configuration;
use super::failure::Failure;
use super::id_token::Key;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header;
use kit::outbound;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use web::clock::Clock;

/// How long a discovery document and keys are believed, in microseconds.
const FRESH: i64 = 3_600_000_000;
/// How often unknown key ids may make us fetch, in microseconds.
const REFETCH: i64 = 60_000_000;
/// How long a provider that failed is left alone, in microseconds.
const REST: i64 = 5_000_000;
/// The longest answer that is read.
const MAX_BYTES: usize = 1024 * 1024;
/// What needs no encoding in a form or query (RFC 3986, unreserved).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// More issuers than this are forgotten together.
const MOST: usize = 1000;

/// What a provider says of itself.
#[derive(Clone, Debug)]
pub struct Discovered {
    pub authorization_endpoint: String,
    pub end_session_endpoint: Option<String>,
    pub names_issuer_in_response: bool,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    takes_basic: bool,
}

/// The providers that this process knows, by issuer.
#[derive(Default)]
pub struct Providers(Mutex<HashMap<String, Arc<Provider>>>);

/// A provider, asked by one at a time.
pub struct Provider {
    issuer: String,
    known: tokio::sync::Mutex<Known>,
}

#[derive(Default)]
struct Known {
    discovered: Option<(i64, Discovered)>,
    keys: Option<(i64, Arc<Vec<Key>>)>,
    /// When an unknown key id made us fetch.
    refetched: Option<i64>,
    failed: Option<(i64, Failure)>,
}

/// What a code was exchanged for.
pub struct Tokens {
    pub id_token: String,
    pub access_token: Option<String>,
}

impl Providers {
    /// The provider of an issuer.
    pub fn of(&self, issuer: &str) -> Arc<Provider> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(issuer) {
            all.clear();
        }
        let make = || Arc::new(Provider { issuer: issuer.to_owned(), known: Default::default() });
        all.entry(issuer.to_owned()).or_insert_with(make).clone()
    }
}

impl Provider {
    /// What the provider says of itself, not older than an hour.
    pub async fn discovered(&self, clock: &Clock) -> Result<Discovered, Failure> {
        self.described(&mut *self.known.lock().await, clock).await
    }

    async fn described(&self, known: &mut Known, clock: &Clock) -> Result<Discovered, Failure> {
        let now = clock.now();
        if let Some((at, discovered)) = &known.discovered
            && now < at + FRESH
        {
            return Ok(discovered.clone());
        }
        known.may_ask(now)?;
        let fetched = self.discover().await;
        known.note(clock.now(), &fetched);
        let discovered = fetched?;
        known.discovered = Some((now, discovered.clone()));
        Ok(discovered)
    }

    async fn discover(&self) -> Result<Discovered, Failure> {
        let document =
            get_json(&format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'))).await?;
        if document.get("issuer").and_then(Json::as_str) != Some(&self.issuer) {
            return Err(Failure("the discovery document names another issuer".to_owned()));
        }
        let address = |name: &str| document.get(name).and_then(Json::as_str).filter(|url| self.is_safe(url));
        let needed = |name: &str| {
            address(name)
                .map(str::to_owned)
                .ok_or_else(|| Failure(format!("the discovery document has no usable {name}")))
        };
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Json::as_array);
        let has = |method: &str| methods.is_some_and(|all| all.iter().any(|known| known == method));
        Ok(Discovered {
            authorization_endpoint: needed("authorization_endpoint")?,
            token_endpoint: needed("token_endpoint")?,
            jwks_uri: needed("jwks_uri")?,
            end_session_endpoint: address("end_session_endpoint").map(str::to_owned),
            userinfo_endpoint: address("userinfo_endpoint").map(str::to_owned),
            names_issuer_in_response: document.get("authorization_response_iss_parameter_supported")
                == Some(&Json::Bool(true)),
            // Basic is the default of the standard.
            takes_basic: has("client_secret_basic") || !has("client_secret_post"),
        })
    }

    /// Plain HTTP is for issuers that the operator set so.
    fn is_safe(&self, url: &str) -> bool {
        url.starts_with("https://") || self.issuer.starts_with("http://") && url.starts_with("http://")
    }

    /// The keys that may have signed a token: those of the key id, all of them when the token names none. An unknown id
    /// makes the keys be fetched anew.
    pub async fn keys(&self, clock: &Clock, key_id: Option<&str>) -> Result<Vec<Key>, Failure> {
        let known = &mut *self.known.lock().await;
        let discovered = self.described(known, clock).await?;
        let now = clock.now();
        let fits = |keys: &[Key]| -> Vec<Key> {
            keys.iter().filter(|key| key_id.is_none_or(|id| key.id.as_deref() == Some(id))).cloned().collect()
        };
        if let Some((at, keys)) = &known.keys
            && now < at + FRESH
        {
            let fitting = fits(keys);
            if !fitting.is_empty() || known.refetched.is_some_and(|at| now < at + REFETCH) {
                return Ok(fitting);
            }
            known.refetched = Some(now);
        }
        known.may_ask(now)?;
        let fetched = get_json(&discovered.jwks_uri).await;
        known.note(clock.now(), &fetched);
        let document = fetched?;
        let keys = document.get("keys").and_then(Json::as_array).map_or(&[] as &[Json], Vec::as_slice);
        let keys = Arc::new(keys.iter().filter_map(Key::from_json).collect::<Vec<_>>());
        known.keys = Some((now, keys.clone()));
        Ok(fits(&keys))
    }

    /// Exchanges a code, once: whatever comes back, the code is spent.
    pub(super) async fn exchange(
        &self,
        clock: &Clock,
        configuration: &Configuration,
        code: &str,
        verifier: &str,
    ) -> Result<Tokens, Failure> {
        let discovered = self.discovered(clock).await?;
        let (id, secret) = (configuration.client_id.as_str(), configuration.client_secret.as_str());
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", configuration.redirect_uri.as_str()),
            ("code_verifier", verifier),
        ];
        let mut request = http_client()?.post(&discovered.token_endpoint);
        if discovered.takes_basic {
            // Their characters need no encoding (document 1: letters, digits, hyphens).
            request =
                request.header(header::AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{id}:{secret}"))));
        } else {
            form.extend([("client_id", id), ("client_secret", secret)]);
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(encoded(&form));
        let answer = json_of(request).await?;
        let text = |name: &str| answer.get(name).and_then(Json::as_str).map(str::to_owned);
        let id_token = text("id_token").ok_or_else(|| Failure("the token endpoint gave no id_token".to_owned()))?;
        let bearer = text("token_type").filter(|kind| kind.eq_ignore_ascii_case("bearer"));
        Ok(Tokens { id_token, access_token: bearer.and_then(|_| text("access_token")) })
    }

    /// The claims of the user-info endpoint, for providers that keep the ID token small; `None` when there is none.
    pub async fn user_info(&self, clock: &Clock, access_token: &str) -> Result<Option<Map<String, Json>>, Failure> {
        let Some(endpoint) = self.discovered(clock).await?.userinfo_endpoint else { return Ok(None) };
        let request = http_client()?.get(endpoint).header(header::AUTHORIZATION, format!("Bearer {access_token}"));
        match json_of(request.header(header::ACCEPT, "application/json")).await? {
            Json::Object(claims) => Ok(Some(claims)),
            _ => Ok(None),
        }
    }
}

impl Known {
    fn may_ask(&self, now: i64) -> Result<(), Failure> {
        match &self.failed {
            Some((at, failure)) if now < at + REST => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    fn note<T>(&mut self, now: i64, outcome: &Result<T, Failure>) {
        self.failed = outcome.as_ref().err().map(|failure| (now, failure.clone()));
    }
}

/// A form, or the query of an address.
fn encoded(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}

/// An address with more parameters.
pub fn with_query(address: &str, fields: &[(&str, &str)]) -> String {
    let (address, fragment) = address.split_once('#').map_or((address, None), |(address, rest)| (address, Some(rest)));
    let joint = if address.contains('?') { '&' } else { '?' };
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    format!("{address}{joint}{}{fragment}", encoded(fields))
}

async fn get_json(url: &str) -> Result<Json, Failure> {
    json_of(http_client()?.get(url).header(header::ACCEPT, "application/json")).await
}

/// Sends, and reads a bounded JSON answer with status 200.
async fn json_of(request: reqwest::RequestBuilder) -> Result<Json, Failure> {
    let response = request.send().await.map_err(|error| Failure(outbound::in_words(error)))?;
    if response.status() != http::StatusCode::OK {
        return Err(Failure(format!("the provider answered {}", response.status())));
    }
    let body = outbound::body(response, MAX_BYTES).await.ok_or("the provider's answer is too long or broken")?;
    Ok(serde_json::from_slice(&body)?)
}

/// The client of outgoing calls, with patience of ten seconds.
fn http_client() -> Result<&'static reqwest::Client, Failure> {
    static CLIENT: LazyLock<Result<reqwest::Client, Failure>> = LazyLock::new(|| {
        let client = outbound::http_client().connect_timeout(Duration::from_secs(5)).timeout(Duration::from_secs(10));
        Ok(client.user_agent("chancery").build()?)
    });
    CLIENT.as_ref().map_err(Clone::clone)
}
