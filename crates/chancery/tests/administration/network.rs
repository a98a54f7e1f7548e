//! Addresses of builds lead the server only to destinations that the deployment allows. The tests cover all network callers and
//! all spellings of an address (`docs/operations.md`, `CHANCERY_OUTBOUND_ALLOW`).

use crate::BINARY;
use crate::TestServer;
use platform::identity::single_sign_on::Providers;
use platform::kit::address::Ranges;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{
    ADMIN, ApiClient, Authority, Forger, Installation, MAIL_PASSWORD, MAIL_USERNAME, MailOptions, MailServer, PASSWORD,
    eventually, quiet_period,
};

const TEST: &str = "/api/administration/smtp-settings/test/";

/// The only address to which the deployment allows connections. The fake servers of builds listen there.
const ALLOWED: &str = "127.0.0.1/32";

/// Spellings of addresses at which the listener of a test accepts connections: 127.0.0.2, `::1` and all addresses of this machine.
const HEARD: &[&str] = &[
    "127.0.0.2",
    "127.2",
    "127.0.2",
    "0x7f.2",
    "0x7f000002",
    "0x7f.0x0.0x0.0x2",
    "0177.0.0.2",
    "017700000002",
    "2130706434",
    "0.0.0.0",
    "0",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "[0:0:0:0:0:ffff:7f00:2]",
    "ip6-localhost",
    "ip6-loopback",
];

/// Private, link-local and reserved addresses, and addresses that contain another one. No listener is needed there.
const CLOSED: &[&str] = &[
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "172.16.0.1",
    "192.168.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::127.0.0.2]",
    "[64:ff9b::7f00:2]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::7f00:2]",
    "[2002:7f00:2::]",
    "[2001:0:7f00:2::]",
    "[fe80::1]",
    "[fec0::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[100::1]",
];

/// Counts the connections to one port of 127.0.0.2, and of `::1` and 127.0.0.1 where the port is free.
struct PortListener {
    port: u16,
    heard: Arc<AtomicUsize>,
}

impl PortListener {
    fn start() -> PortListener {
        let heard = Arc::new(AtomicUsize::new(0));
        let first = TcpListener::bind("127.0.0.2:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let mut listeners = vec![first];
        // 0.0.0.0 leads to 127.0.0.1, where another process can own the port.
        for address in ["::1", "127.0.0.1"] {
            let address: IpAddr = address.parse().unwrap();
            listeners.extend(TcpListener::bind(SocketAddr::new(address, port)));
        }
        for listener in listeners {
            let heard = heard.clone();
            std::thread::spawn(move || {
                for _ in listener.incoming() {
                    heard.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        PortListener { port, heard }
    }
}

const REPOSITORIES: &str = "/api/custom-components/repository/";

/// The code that calls an address that a build names. A new caller needs a line here.
const CALLERS: &[&str] =
    &["mail server", "token of mail", "keys of a provider", "user info of a provider", "webhook", "git"];

/// The servers of a test.
struct Network {
    api: ApiClient,
    mail: MailServer,
    forger: Forger,
    server: TestServer,
    /// The address of a webhook.
    webhook: String,
}

impl Network {
    /// Makes a caller call this host. Returns whether it reports that it could not connect.
    async fn refuses(&self, caller: &str, host: &str, port: u16) -> bool {
        let url = |scheme: &str| format!("{scheme}://{host}:{port}/token");
        match caller {
            "mail server" => {
                let bare = host.trim_matches(['[', ']']);
                self.could_not_connect(json!({"host": bare, "port": port, "password": MAIL_PASSWORD})).await
                    && self
                        .could_not_connect(json!({"host": host, "port": port, "tls": false, "password": MAIL_PASSWORD}))
                        .await
            }
            "token of mail" => {
                let mut refuses = true;
                for scheme in ["http", "https"] {
                    let object = json!({"token_url": url(scheme), "client_secret": "s"});
                    let object = self.api.patch("/api/authentication-objects/1/", object).await;
                    // Text that is not an address is refused before.
                    refuses &= object.status == 400 || self.could_not_connect(settings_with_token(&self.mail)).await;
                }
                refuses
            }
            "keys of a provider" => {
                self.forger.state().discovery = json!({"jwks_uri": url("http")});
                self.providers().provider(&self.forger.issuer()).keys(&self.server.clock, None).await.is_err()
            }
            "user info of a provider" => {
                self.forger.state().discovery = json!({"userinfo_endpoint": url("http")});
                self.providers().provider(&self.forger.issuer()).user_info(&self.server.clock, "token").await.is_err()
            }
            "webhook" => {
                let changed = json!({"url": url("https"), "secret": "sixteen letters!"});
                if self.api.patch(&self.webhook, changed).await.status == 400 {
                    return true;
                }
                let sent = self.api.post(&format!("{}test/", self.webhook), json!({})).await.ok();
                let tried = self.wait_until_stable(async || {
                    let deliveries = self.api.get(&format!("{}deliveries/", self.webhook)).await.ok();
                    let deliveries = deliveries["results"].as_array().unwrap().clone();
                    deliveries.into_iter().find(|delivery| delivery["event_id"] == sent["event_id"]).unwrap()
                });
                let tried = tried.await;
                (&tried["status"], &tried["response_status"]) == (&json!("failed"), &Value::Null)
            }
            "git" => {
                let body = json!({"repository_url": url("https"), "username": "deploy", "token": "t0ken"});
                let made = self.api.post(REPOSITORIES, body).await;
                if made.status == 400 {
                    return true;
                }
                let path = format!("{REPOSITORIES}{}/", made.id());
                let imported = self.wait_until_stable(async || self.api.get(&path).await.ok()).await;
                self.api.delete(&path).await.expect_empty();
                imported["status"] == "failed" && imported["errors"]["repository_url"].is_array()
            }
            _ => panic!("{caller} is new: say here how it calls"),
        }
    }

    /// Waits until a state is neither waiting nor processing. Returns it.
    async fn wait_until_stable(&self, look: impl AsyncFn() -> Value) -> Value {
        eventually(async || {
            let found = look().await;
            let is_settled = found["status"] != "pending" && found["status"] != "processing";
            if is_settled { Ok(found) } else { Err(found) }
        })
        .await
    }

    async fn could_not_connect(&self, of_server: Value) -> bool {
        let reply = self.api.post(TEST, settings(of_server)).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        reply["detail"].as_str().is_none_or(|detail| detail.ends_with(": could not connect"))
    }

    /// Returns new providers without a cache.
    fn providers(&self) -> Providers {
        Providers::new(Ranges::parse_list(ALLOWED).unwrap())
    }
}

/// Returns mail settings with these values of the server.
fn settings(of_server: Value) -> Value {
    let mut body = json!({
        "tls": true, "username": MAIL_USERNAME, "from_email": "no-reply@a.example", "failure_email": "ops@a.example",
    });
    body.as_object_mut().unwrap().extend(of_server.as_object().unwrap().clone());
    body
}

/// Returns mail settings of an allowed mail server with a sign-in by token.
fn settings_with_token(mail: &MailServer) -> Value {
    json!({
        "host": "127.0.0.1", "port": mail.port, "authorization_method": "vendor_client_credentials",
        "authentication_object": 1,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_connects_where_the_deployment_does_not_allow() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let root = authority.write_root(certificates.path());
    let installation = Installation::with_build(BINARY).set("SSL_CERT_FILE", root.to_str().unwrap());
    let installation = installation.set("CHANCERY_OUTBOUND_ALLOW", ALLOWED);
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let vendor = json!({
        "name": "Vendor", "provider": "vendor_client_credentials", "client_id": "client", "client_secret": "s",
        "token_url": "https://localhost/",
    });
    api.post("/api/authentication-objects/", vendor).await.expect_created();
    let mail = MailServer::start(&authority, &MailOptions::default());
    let webhook = json!({
        "type": "webhook", "name": "Webhook", "is_enabled": true, "url": "https://receiver.example/",
        "secret": "sixteen letters!",
    });
    let webhook = api.post("/api/integrations/", webhook).await.expect_created();
    let webhook = format!("/api/integrations/{}/", webhook["uuid"].as_str().unwrap());
    let network = Network { api, mail, forger: Forger::start().await, server: TestServer::start().await, webhook };
    let ear = PortListener::start();
    std::net::TcpStream::connect(("127.0.0.2", ear.port)).unwrap();
    eventually(async || ear.heard.load(Ordering::Relaxed) > 0).await;

    for caller in CALLERS {
        for host in HEARD.iter().chain(CLOSED) {
            let begin = Instant::now();
            assert!(network.refuses(caller, host, ear.port).await, "{caller}: {host}");
            // An attempt to connect to an address without a listener takes five seconds.
            assert!(begin.elapsed() < Duration::from_secs(4), "{caller}: {host}");
        }
    }
    // An allowed server cannot redirect there either.
    network.forger.state().redirects_to = Some(format!("http://127.0.0.2:{}", ear.port));
    let issuer = network.forger.issuer();
    assert!(network.providers().provider(&issuer).discovery(&network.server.clock).await.is_err());
    let object = json!({"token_url": format!("{issuer}/token"), "client_secret": "s"});
    network.api.patch("/api/authentication-objects/1/", object).await.ok();
    let reply = network.api.post(TEST, settings(settings_with_token(&network.mail))).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(network.forger.state().calls["/token"], 1, "the allowed server is called");

    quiet_period().await;
    assert_eq!(ear.heard.load(Ordering::Relaxed), 1, "somebody connected");
}
