//! A certified OpenID provider (the npm package `oidc-provider`) in a separate process, and a browser that signs in
//! there.
//!
//! It is installed once below the target directory, by npm, from the lock file in `crates/testkit/openid/`.

use crate::client::{encode, http};
use crate::npm::{self, NodeServer};
use crate::reply::Reply;
use crate::server::TestBuild;
use serde_json::json;
use std::collections::HashMap;

/// The client id at providers in tests.
pub const CLIENT_ID: &str = "chancery";
/// The client secret at providers in tests.
pub const CLIENT_SECRET: &str = "a-secret-for-tests";
/// The tenant id of providers in tests.
pub const TENANT_ID: &str = "tenant-1";

const SOURCES: [(&str, &str); 3] = [
    ("package.json", include_str!("../openid/package.json")),
    ("package-lock.json", include_str!("../openid/package-lock.json")),
    ("provider.mjs", include_str!("../openid/provider.mjs")),
];

/// A running provider. Dropping it ends its process.
pub struct OpenIdProvider {
    node: NodeServer,
}

impl OpenIdProvider {
    /// Starts a provider whose client is configuration 1 of the build `a.example`. With `claims_in_token`, the ID token
    /// has the email address and the names; otherwise only the user-info endpoint does.
    pub fn start(claims_in_token: bool) -> OpenIdProvider {
        let directory = npm::ensure_installed("openid-provider", &SOURCES);
        let address = "https://a.example/api/single-sign-on/1";
        let client = json!({
            "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "redirect_uris": [format!("{address}/callback/")],
            "post_logout_redirect_uris": [format!("{address}/logout/")],
        });
        let config = json!({"path": format!("/{TENANT_ID}"), "clients": [client], "claims_in_token": claims_in_token});
        OpenIdProvider { node: NodeServer::start(&directory.join("provider.mjs"), &config) }
    }

    /// The value for `CHANCERY_SSO_PROVIDER_A_ISSUER`.
    pub fn issuer_setting(&self) -> String {
        format!("http://127.0.0.1:{}/{{tenant_id}}", self.node.port)
    }

    /// The issuer of [`TENANT_ID`].
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}/{TENANT_ID}", self.node.port)
    }

    /// Makes the provider sign with a new key.
    pub async fn rotate(&self) {
        let outcome = http().post(format!("http://127.0.0.1:{}/rotate", self.node.port)).send().await;
        assert!(outcome.is_ok_and(|reply| reply.status().is_success()), "the provider does not change its key");
    }
}

/// A browser that stores cookies for each host. It opens the public address of a build at the test's server.
pub struct Browser {
    http: reqwest::Client,
    tenant: TestBuild,
    cookies: HashMap<String, HashMap<String, String>>,
}

impl Browser {
    /// Creates a browser without cookies.
    pub fn new(tenant: &TestBuild) -> Browser {
        Browser { http: http(), tenant: tenant.clone(), cookies: HashMap::new() }
    }

    /// Stores the cookies of an answer of the build, as if the browser had sent the request.
    pub fn store_all_cookies(&mut self, reply: &Reply) {
        let host = self.tenant.build.domain.clone();
        self.store_cookies(&host, &reply.headers);
    }

    fn store_cookies(&mut self, host: &str, headers: &http::HeaderMap) {
        let jar = self.cookies.entry(host.to_owned()).or_default();
        for line in headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok()) {
            let (name, value) = line.split(';').next().and_then(|pair| pair.split_once('=')).unwrap_or((line, ""));
            if value.is_empty() || line.to_ascii_lowercase().contains("max-age=0") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// Returns the number of cookies of the build.
    pub fn cookies_of_build(&self) -> usize {
        self.cookies.get(&self.tenant.build.domain).map_or(0, HashMap::len)
    }

    /// Opens a URL, by GET or with a form by POST, without following a redirect.
    pub async fn open(&mut self, url: &str, form: Option<&[(&str, &str)]>) -> Reply {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_build = host == self.tenant.build.domain;
        let address = if is_build { format!("http://{}/{path}", self.tenant.address) } else { url.to_owned() };
        let mut request = match form {
            None => self.http.get(address),
            Some(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
                let request = self.http.post(address).header("content-type", "application/x-www-form-urlencoded");
                request.body(fields.join("&"))
            }
        };
        if is_build {
            request = request.header("host", host);
        }
        if let Some(jar) = self.cookies.get(host) {
            let pairs: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header("cookie", pairs.join("; "));
        }
        let response = request.send().await.unwrap_or_else(|error| panic!("{url} does not answer: {error:?}"));
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        self.store_cookies(host, &headers);
        Reply::new(status, headers, response.bytes().await.unwrap_or_default())
    }

    /// Signs in at the certified provider as `SUBJECT,ADDRESS,VERIFIED`, consents, and returns the address to which the
    /// provider redirects, without opening it.
    pub async fn sign_in_at_provider(&mut self, authorization: &str, person: &str) -> String {
        let origin: String = authorization.split('/').take(3).collect::<Vec<_>>().join("/");
        let mut url = authorization.to_owned();
        for _ in 0..12 {
            if url.starts_with("https://") {
                return url;
            }
            let mut reply = self.open(&url, None).await;
            if reply.status == 200 {
                let is_login = reply.text.contains("value=\"login\"");
                assert!(is_login || reply.text.contains("value=\"consent\""), "an unknown page at {url}: {reply:?}");
                let login: &[_] = &[("prompt", "login"), ("login", person), ("password", "any")];
                reply = self.open(&url, Some(if is_login { login } else { &[("prompt", "consent")] })).await;
            }
            let location = reply.header("location");
            assert!(!location.is_empty(), "no way on from {url}: {reply:?}");
            url = if location.starts_with('/') { format!("{origin}{location}") } else { location.to_owned() };
        }
        panic!("the provider goes in circles: {url}");
    }
}
