//! The client of a provider: its discovery document, its keys, and the exchange of a code (OpenID Connect Discovery 1.0, Core 1.0).
//! It calls only the issuers that the operator has set and the addresses in their discovery documents. The checks for addresses of
//! builds apply to addresses on other hosts than that of the issuer, since the provider chooses them.
//!
//! Discovery documents and keys are cached for an hour by issuer, for all builds. A token with an unknown key id causes another
//! fetch of the keys, at most once a minute. A provider can therefore rotate its keys, and forged tokens cause few requests. After
//! a failure the provider is not called for some seconds.

use super::configuration::SignInConfiguration;
use super::failure::ProviderFailure;
use super::id_token::SigningKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header;
use kit::address::Ranges;
use kit::outbound;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use web::clock::Clock;

/// The time for which a discovery document and keys are cached, in microseconds.
const DISCOVERY_MAX_AGE_US: i64 = 3_600_000_000;
/// The minimum time between two fetches of the keys because of an unknown key id, in microseconds.
const KEY_REFETCH_INTERVAL_US: i64 = 60_000_000;
/// The time for which a provider is not called after a failure, in microseconds.
const RETRY_PAUSE_US: i64 = 5_000_000;
/// The maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// The maximum number of cached issuers. At this number all are dropped.
const MAX_ISSUERS: usize = 1000;

/// The discovery document of a provider.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub authorization_endpoint: String,
    pub end_session_endpoint: Option<String>,
    /// Is true if the callback gets the issuer as `iss` (RFC 9207).
    pub names_issuer_in_response: bool,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    /// Is true if the client authenticates by HTTP Basic, otherwise in the form.
    takes_basic: bool,
}

/// The providers that this process has used, by issuer.
pub struct Providers {
    known: Mutex<HashMap<String, Arc<Provider>>>,
    /// The networks that are allowed in addition to public ones.
    allow: Ranges,
}

/// A provider with its cache. Requests for its documents are serialized.
pub struct Provider {
    issuer: String,
    allow: Ranges,
    cache: tokio::sync::Mutex<ProviderCache>,
}

/// The documents of a provider with the times at which they were fetched.
#[derive(Default)]
struct ProviderCache {
    discovery: Option<(i64, Discovery)>,
    keys: Option<(i64, Arc<Vec<SigningKey>>)>,
    /// The time of the last fetch of the keys because of an unknown key id.
    refetched_at: Option<i64>,
    /// The last call, if it failed.
    failure: Option<(i64, ProviderFailure)>,
}

/// The tokens for which a code was exchanged.
pub struct ProviderTokens {
    pub id_token: String,
    pub access_token: Option<String>,
}

impl Providers {
    /// Creates an empty cache. Endpoints on other hosts than their issuer's must be public or in the networks of `allow`.
    pub fn new(allow: Ranges) -> Providers {
        Providers { known: Mutex::default(), allow }
    }

    /// Returns the provider of an issuer.
    pub fn provider(&self, issuer: &str) -> Arc<Provider> {
        let mut providers = web::lock(&self.known);
        if providers.len() >= MAX_ISSUERS && !providers.contains_key(issuer) {
            providers.clear();
        }
        let make = || {
            let (issuer, allow) = (issuer.to_owned(), self.allow.clone());
            Arc::new(Provider { issuer, allow, cache: Default::default() })
        };
        providers.entry(issuer.to_owned()).or_insert_with(make).clone()
    }
}

impl Provider {
    /// Returns the provider's discovery document, from the cache or fetched.
    pub async fn discovery(&self, clock: &Clock) -> Result<Discovery, ProviderFailure> {
        self.cached_discovery(&mut *self.cache.lock().await, clock).await
    }

    async fn cached_discovery(&self, cache: &mut ProviderCache, clock: &Clock) -> Result<Discovery, ProviderFailure> {
        let now = clock.now();
        if let Some((at, discovery)) = &cache.discovery
            && now < at + DISCOVERY_MAX_AGE_US
        {
            return Ok(discovery.clone());
        }
        cache.check_pause(now)?;
        let fetched = self.fetch_discovery().await;
        cache.record_outcome(clock.now(), &fetched);
        let discovery = fetched?;
        cache.discovery = Some((now, discovery.clone()));
        Ok(discovery)
    }

    async fn fetch_discovery(&self) -> Result<Discovery, ProviderFailure> {
        let document =
            self.get_json(&format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'))).await?;
        if document.get("issuer").and_then(Json::as_str) != Some(&self.issuer) {
            return Err("the discovery document names another issuer".into());
        }
        let address = |name: &str| document.get(name).and_then(Json::as_str).filter(|url| self.is_safe(url));
        let needed = |name: &str| {
            address(name)
                .map(str::to_owned)
                .ok_or_else(|| ProviderFailure::from(format!("the discovery document has no usable {name}")))
        };
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Json::as_array);
        let has_method = |method: &str| methods.is_some_and(|names| names.iter().any(|name| name == method));
        Ok(Discovery {
            authorization_endpoint: needed("authorization_endpoint")?,
            token_endpoint: needed("token_endpoint")?,
            jwks_uri: needed("jwks_uri")?,
            end_session_endpoint: address("end_session_endpoint").map(str::to_owned),
            userinfo_endpoint: address("userinfo_endpoint").map(str::to_owned),
            names_issuer_in_response: document.get("authorization_response_iss_parameter_supported")
                == Some(&Json::Bool(true)),
            // HTTP Basic is the default of the standard.
            takes_basic: has_method("client_secret_basic") || !has_method("client_secret_post"),
        })
    }

    /// Returns whether an address may be called. Plain HTTP is allowed only for issuers that the operator has set with it.
    fn is_safe(&self, url: &str) -> bool {
        url.starts_with("https://") || self.issuer.starts_with("http://") && url.starts_with("http://")
    }

    /// Returns the keys that may have signed a token: those with its key id, or all keys if the token does not name one. An unknown
    /// id causes another fetch of the keys.
    pub async fn keys(&self, clock: &Clock, key_id: Option<&str>) -> Result<Vec<SigningKey>, ProviderFailure> {
        let cache = &mut *self.cache.lock().await;
        let discovery = self.cached_discovery(cache, clock).await?;
        let now = clock.now();
        let fits = |keys: &[SigningKey]| -> Vec<SigningKey> {
            keys.iter().filter(|key| key_id.is_none_or(|id| key.id.as_deref() == Some(id))).cloned().collect()
        };
        if let Some((at, keys)) = &cache.keys
            && now < at + DISCOVERY_MAX_AGE_US
        {
            let fitting = fits(keys);
            if !fitting.is_empty() || cache.refetched_at.is_some_and(|at| now < at + KEY_REFETCH_INTERVAL_US) {
                return Ok(fitting);
            }
            cache.refetched_at = Some(now);
        }
        cache.check_pause(now)?;
        let fetched = self.get_json(&discovery.jwks_uri).await;
        cache.record_outcome(clock.now(), &fetched);
        let document = fetched?;
        let keys = document.get("keys").and_then(Json::as_array).map_or(&[] as &[Json], Vec::as_slice);
        let keys = Arc::new(keys.iter().filter_map(SigningKey::from_json).collect::<Vec<_>>());
        cache.keys = Some((now, keys.clone()));
        Ok(fits(&keys))
    }

    /// Exchanges a code for tokens. A code can be exchanged once, even if the exchange fails.
    pub(super) async fn exchange(
        &self,
        clock: &Clock,
        configuration: &SignInConfiguration,
        code: &str,
        verifier: &str,
    ) -> Result<ProviderTokens, ProviderFailure> {
        let discovery = self.discovery(clock).await?;
        let (id, secret) = (configuration.client_id.as_str(), configuration.client_secret.as_str());
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", configuration.redirect_uri.as_str()),
            ("code_verifier", verifier),
        ];
        let (client, url) = self.client(&discovery.token_endpoint).await?;
        let mut request = client.post(url);
        if discovery.takes_basic {
            // Client ids and secrets contain only characters that need no encoding (letters, digits, hyphens).
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
        let id_token = text("id_token").ok_or("the token endpoint gave no id_token")?;
        let bearer = text("token_type").filter(|kind| kind.eq_ignore_ascii_case("bearer"));
        Ok(ProviderTokens { id_token, access_token: bearer.and_then(|_| text("access_token")) })
    }

    /// Returns the claims of the user-info endpoint, since some providers omit claims from the ID token. Returns `None` if the
    /// provider does not have such an endpoint.
    pub async fn user_info(
        &self,
        clock: &Clock,
        access_token: &str,
    ) -> Result<Option<Map<String, Json>>, ProviderFailure> {
        let Some(endpoint) = self.discovery(clock).await?.userinfo_endpoint else { return Ok(None) };
        let (client, url) = self.client(&endpoint).await?;
        let request = client.get(url).header(header::AUTHORIZATION, format!("Bearer {access_token}"));
        match json_of(request.header(header::ACCEPT, "application/json")).await? {
            Json::Object(claims) => Ok(Some(claims)),
            _ => Ok(None),
        }
    }

    async fn get_json(&self, url: &str) -> Result<Json, ProviderFailure> {
        let (client, url) = self.client(url).await?;
        json_of(client.get(url).header(header::ACCEPT, "application/json")).await
    }

    /// Returns the client for an address of the provider.
    async fn client(&self, url: &str) -> Result<(Client, Url), ProviderFailure> {
        let parse_url = |url: &str| Url::parse(url).map_err(|_| "an address of the provider is no URL");
        let (url, issuer) = (parse_url(url)?, parse_url(&self.issuer)?);
        if url.host() == issuer.host() {
            return Ok((http_client()?.clone(), url));
        }
        let client = outbound::http_client_for(&url, &self.allow).await;
        Ok((client.map_err(|_| "an endpoint of the provider is not reachable")?, url))
    }
}

impl ProviderCache {
    /// Returns the failure of the last call during the pause after it.
    fn check_pause(&self, now: i64) -> Result<(), ProviderFailure> {
        match &self.failure {
            Some((at, failure)) if now < at + RETRY_PAUSE_US => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    fn record_outcome<T>(&mut self, now: i64, outcome: &Result<T, ProviderFailure>) {
        self.failure = outcome.as_ref().err().map(|failure| (now, failure.clone()));
    }
}

/// Encodes the fields for a form or the query of an address.
fn encoded(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Returns an address with these parameters added to its query.
pub fn with_query(address: &str, fields: &[(&str, &str)]) -> String {
    let (address, fragment) = address.split_once('#').map_or((address, None), |(address, rest)| (address, Some(rest)));
    let joint = if address.contains('?') { '&' } else { '?' };
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    format!("{address}{joint}{}{fragment}", encoded(fields))
}

/// Sends a request and reads the JSON of its answer. Another status than 200 and an answer that is too long are failures.
async fn json_of(request: RequestBuilder) -> Result<Json, ProviderFailure> {
    let result = request.timeout(TIMEOUT).header(header::USER_AGENT, "chancery").send().await;
    let response = result.map_err(|error| ProviderFailure {
        why: "the provider is not reachable".to_owned(),
        details: outbound::error_text(error),
    })?;
    if response.status() != http::StatusCode::OK {
        return Err(format!("the provider answered {}", response.status()).into());
    }
    let body = outbound::body(response, MAX_ANSWER_BYTES).await.ok_or("the provider's answer is too long or broken")?;
    Ok(serde_json::from_slice(&body)?)
}

/// Returns the HTTP client for issuers.
fn http_client() -> Result<&'static Client, ProviderFailure> {
    static CLIENT: LazyLock<Result<Client, ProviderFailure>> =
        LazyLock::new(|| Ok(outbound::http_client().connect_timeout(Duration::from_secs(5)).build()?));
    CLIENT.as_ref().map_err(Clone::clone)
}
