//! The path of messages: the mail server of a build's settings, the queue before it, and the test of the settings
//! (`docs/reference/mail.md`).

use crate::TestServer;
use crate::{BINARY, message};
use platform::kit::secret::Context;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};
use testkit::{
    ADMIN, ApiClient, Authority, DAY, FakeServer, Installation, MAIL_PASSWORD, MAIL_TOKEN, MAIL_USERNAME,
    MailEncryption, MailOptions, MailServer, PASSWORD, SECOND, TestBuild, eventually, quiet_period, takes_all,
};

const SETTINGS: &str = "/api/administration/smtp-settings/";
const TEST: &str = "/api/administration/smtp-settings/test/";
const OBJECTS: &str = "/api/authentication-objects/";

const CONNECT: &str = "could not connect";
const SECURE: &str = "the connection could not be secured";
const SIGN_IN: &str = "the sign-in was refused";
const RECIPIENT: &str = "a recipient was refused";

fn test_refusal(reason: &str) -> Value {
    message::detail(&format!(
        "Please check the username, the authentication object and the mail API settings: {reason}"
    ))
}

fn test_success() -> Value {
    json!({"status": "success", "msg": "Test message sent."})
}

fn settings(host: &str, port: u16, tls: bool) -> Value {
    json!({
        "host": host, "port": port, "tls": tls, "username": MAIL_USERNAME, "password": MAIL_PASSWORD,
        "from_email": "no-reply@a.example", "failure_email": "ops@a.example, dev@a.example",
    })
}

fn with_field(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

fn anna(username: &str) -> Value {
    json!({"username": username, "account_type": "internal", "first_name": "Anna", "last_name": "Berg"})
}

// ---- A real mail server with encryption ----------------------------------------------------------------------------

/// Returns an installation that trusts the authority and may connect to this machine.
fn installation(authority: &Authority, certificates: &Path) -> Installation {
    let root = authority.write_root(certificates);
    let installation = Installation::with_build(BINARY).set("SSL_CERT_FILE", root.to_str().unwrap());
    installation.set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8")
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_goes_by_starttls_and_sign_in() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let mail = MailServer::start(&authority, &MailOptions::default());
    let installation = installation(&authority, certificates.path());
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;

    // Before the settings are stored: the body contains everything, and the test stores nothing.
    let body = settings("localhost", mail.port, true);
    api.post(TEST, body.clone()).await.expect_reply(200, test_success());
    assert_eq!(api.get(SETTINGS).await.ok()["host"], "");
    let test = &mail.wait_for(1).await[0];
    assert_eq!(
        (test.from.as_str(), &test.to[..]),
        ("no-reply@a.example", &["ops@a.example".to_owned(), "dev@a.example".to_owned()][..])
    );
    assert!(test.is_secured && test.is_signed_in, "{test:?}");
    assert_eq!((test.header("Subject"), test.header("From")), ("Test message of localhost", "no-reply@a.example"));
    assert_eq!(test.hello, "localhost");

    // With stored settings, the password is not required, and a test can have other recipients.
    api.patch(SETTINGS, body.clone()).await.ok();
    api.post(TEST, json!({"failure_email": "eve@a.example"})).await.expect_reply(200, test_success());
    assert_eq!(mail.wait_for(2).await[1].to, ["eve@a.example"]);

    // Messages of requests use the same path, with the company's details.
    api.patch("/api/administration/company-details/", json!({"admin_last_name": "Bérg"})).await.ok();
    let made = api.post("/api/users/", anna("anna@example.com")).await;
    assert_eq!(made.expect_created()["_meta"]["is_mail_set_up"], true);
    let activation = &mail.wait_for(3).await[2];
    assert_eq!(
        (&activation.to[..], activation.header("To")),
        (&["anna@example.com".to_owned()][..], "anna@example.com")
    );
    assert_eq!(activation.header("Subject"), "Activate your account at localhost");
    // The mail server has accepted the message. This does not change the ETag of the account, so its creator can continue to edit
    // it.
    let anna = format!("/api/users/{}/", made.id());
    eventually(async || !api.get(&anna).await.ok()["link_sent_at"].is_null()).await;
    assert_eq!(api.get(&anna).await.header("etag"), made.header("etag"));
    assert!(activation.is_secured && activation.is_signed_in);
    assert!(
        testkit::MailFile::read_all(&installation.data(), "localhost").is_empty(),
        "nothing is written as a file any more"
    );
    assert!(mail.sign_ins().iter().all(|sign_in| *sign_in == ("PLAIN".to_owned(), true)), "{:?}", mail.sign_ins());

    // Refusals, each with its reason.
    let wrong = api.post(TEST, with_field(body.clone(), "password", json!("wrong"))).await;
    wrong.expect_reply(400, test_refusal(SIGN_IN));
    api.post(TEST, with_field(body.clone(), "username", json!("eve@a.example")))
        .await
        .expect_reply(400, test_refusal(SIGN_IN));
    api.post(TEST, json!({"failure_email": "ops@a.example,refused@a.example"}))
        .await
        .expect_reply(400, test_refusal(RECIPIENT));
    // Without encryption, this server accepts nothing.
    api.post(TEST, with_field(body.clone(), "tls", json!(false))).await.expect_reply(400, test_refusal(SIGN_IN));
    // Its certificate must name the host of the settings.
    api.post(TEST, with_field(body.clone(), "host", json!("127.0.0.1"))).await.expect_reply(200, test_success());
    api.post(TEST, with_field(body.clone(), "host", json!("127.1"))).await.expect_reply(400, test_refusal(SECURE));

    let log = process.stderr();
    for secret in [MAIL_PASSWORD, "wrong\"", PASSWORD] {
        assert!(!log.contains(secret) && !log.contains(&json!(secret).to_string()), "{secret} is in the log");
    }
    assert!(log.contains("a test message was not sent") && log.contains("the sign-in was refused (535)"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn login_serves_where_plain_is_missing() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let mail = MailServer::start(&authority, &MailOptions { mechanisms: &["LOGIN"], ..MailOptions::default() });
    let token_only = MailServer::start(&authority, &MailOptions { mechanisms: &["XOAUTH2"], ..MailOptions::default() });
    let installation = installation(&authority, certificates.path());
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    api.post(TEST, settings("localhost", mail.port, true)).await.expect_reply(200, test_success());
    assert_eq!(mail.sign_ins(), [("LOGIN".to_owned(), true)]);
    api.post(TEST, settings("localhost", token_only.port, true)).await.expect_reply(400, test_refusal(SIGN_IN));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_must_be_valid_and_name_the_host() {
    let (authority, other, certificates) =
        (Authority::new("Test CA"), Authority::new("Other CA"), tempfile::tempdir().unwrap());
    let strange = MailServer::start(&other, &MailOptions::default());
    let misnamed = MailServer::start(&authority, &MailOptions { names: &["mail.example"], ..MailOptions::default() });
    let installation = installation(&authority, certificates.path());
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    for server in [&strange, &misnamed] {
        api.post(TEST, settings("localhost", server.port, true)).await.expect_reply(400, test_refusal(SECURE));
        assert!(server.sign_ins().is_empty(), "nothing is told to somebody else");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn xoauth2_signs_in_with_a_token_of_the_vendor() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let mail = MailServer::start(&authority, &MailOptions::default());
    let installation = installation(&authority, certificates.path());
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let token_url = |path: &str| format!("https://localhost:{}{path}", mail.token_port);
    let vendor = json!({
        "name": "Vendor", "provider": "vendor_client_credentials", "client_id": "client", "client_secret": MAIL_PASSWORD,
        "token_url": token_url("/token"), "scope": "mail.send offline",
    });
    api.post(OBJECTS, vendor).await.expect_created();
    let mut body = settings("localhost", mail.port, true);
    body.as_object_mut().unwrap().remove("password");
    body["authorization_method"] = json!("vendor_client_credentials");
    body["authentication_object"] = json!(1);

    api.post(TEST, body.clone()).await.expect_reply(200, test_success());
    assert_eq!(mail.sign_ins(), [("XOAUTH2".to_owned(), true)]);
    let form = json!({"grant_type": "client_credentials", "client_id": "client", "client_secret": MAIL_PASSWORD, "scope": "mail.send offline"});
    assert_eq!(mail.token_requests(), [json!({"path": "/token", "form": form})]);
    api.patch(SETTINGS, body.clone()).await.ok();
    api.post("/api/users/", anna("anna@example.com")).await.expect_created();
    assert_eq!(mail.wait_for(2).await[1].to, ["anna@example.com"]);

    let object = "/api/authentication-objects/1/";
    let dead = FakeServer::closed_port().await;
    for (url, secret, reason) in [
        (token_url("/token"), "wrong", SIGN_IN),
        (token_url("/large"), MAIL_PASSWORD, SIGN_IN),
        (token_url("/redirect"), MAIL_PASSWORD, SIGN_IN),
        (format!("https://127.1:{}/token", mail.token_port), MAIL_PASSWORD, "secured or sent"),
        (format!("http://localhost:{}/token", mail.token_port), MAIL_PASSWORD, CONNECT),
        (format!("https://localhost:{dead}/token"), MAIL_PASSWORD, CONNECT),
        ("https://10.0.0.1/token".to_owned(), MAIL_PASSWORD, CONNECT),
        ("https://[::1]/token".to_owned(), MAIL_PASSWORD, CONNECT),
    ] {
        api.patch(object, json!({"token_url": url, "client_secret": secret})).await.ok();
        let reply = api.post(TEST, json!({})).await;
        if reason == "secured or sent" {
            // Addresses of the web are normalised: this one is 127.0.0.1, which the certificate names.
            reply.expect_reply(200, test_success());
        } else {
            assert_eq!(reply, (400, test_refusal(reason)), "{url} {secret}");
        }
    }
    // A redirect is not followed.
    assert!(mail.token_requests().iter().filter(|request| request["path"] == "/redirect").count() == 1);
    // The mail server refuses this token.
    api.patch(object, json!({"token_url": token_url("/token"), "client_secret": MAIL_PASSWORD})).await.ok();
    api.post(TEST, json!({"username": "eve@a.example"})).await.expect_reply(400, test_refusal(SIGN_IN));
    let log = process.stderr();
    for secret in [MAIL_TOKEN, "client_secret", "\"wrong"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

/// Settings that were stored before this method required `tls`: mail is still sent, and the token is never sent unencrypted.
#[tokio::test(flavor = "multi_thread")]
async fn stored_settings_without_tls_are_sent_with_it() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let mail = MailServer::start(&authority, &MailOptions::default());
    let installation = installation(&authority, certificates.path());
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let vendor = json!({
        "name": "Vendor", "provider": "vendor_client_credentials", "client_id": "client", "client_secret": MAIL_PASSWORD,
        "token_url": format!("https://localhost:{}/token", mail.token_port),
    });
    api.post(OBJECTS, vendor).await.expect_created();
    let mut body = settings("localhost", mail.port, true);
    body["authorization_method"] = json!("vendor_client_credentials");
    body["authentication_object"] = json!(1);
    api.patch(SETTINGS, body).await.ok();
    process.stop();
    let store = installation.store().await;
    let sql = Sql::new("UPDATE smtp_settings SET tls = 0");
    store.database("build_1").write(move |conn: &mut Conn| conn.exec(&sql)).await.unwrap();
    store.close().await;

    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    assert_eq!(api.get(SETTINGS).await.ok()["tls"], false);
    api.post("/api/users/", anna("anna@example.com")).await.expect_created();
    assert!(mail.wait_for(1).await[0].is_secured);
    assert_eq!(mail.sign_ins(), [("XOAUTH2".to_owned(), true)]);
    let warning = "the mail settings have no tls, which their method requires; mail is sent with it";
    assert!(process.stderr().contains(warning), "{}", process.stderr());
    // Their other fields can be changed.
    api.patch(SETTINGS, json!({"failure_email": "else@example.com"})).await.ok();

    // If the connection cannot be secured, no token is requested.
    let open = FakeServer::start("220 mail.test\r\n", takes_all).await;
    let sql = Sql::new("UPDATE smtp_settings SET host = '127.0.0.1', port = $1").arg(i64::from(open.address.port()));
    let store = installation.store().await;
    store.database("build_1").write(move |conn: &mut Conn| conn.exec(&sql)).await.unwrap();
    let asked = mail.token_requests().len();
    api.post("/api/users/", anna("bea@example.com")).await.expect_created();
    eventually(async || process.stderr().contains(&format!("{SECURE}\""))).await;
    assert_eq!(mail.token_requests().len(), asked);
    assert!(open.received_lines().iter().all(|line| !line.starts_with("AUTH")), "{:?}", open.received_lines());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_port_465_a_connection_is_secured_from_its_first_byte() {
    // The address is only for this test, so that the port is free.
    let address = "127.0.46.5";
    if std::net::TcpListener::bind((address, 465)).is_err() {
        eprintln!("port 465 of {address} cannot be had here: the test is left out");
        return;
    }
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let options = MailOptions { mode: MailEncryption::Implicit, address, port: 465, ..MailOptions::default() };
    let mail = MailServer::start(&authority, &options);
    let installation = installation(&authority, certificates.path());
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    api.post(TEST, settings(address, 465, true)).await.expect_reply(200, test_success());
    assert!(mail.wait_for(1).await[0].is_secured);
    // Without `tls` the port is not special: the client waits for a greeting that does not come.
    let begin = Instant::now();
    api.post(TEST, settings(address, 465, false)).await.expect_reply(400, test_refusal(CONNECT));
    assert!(begin.elapsed() < Duration::from_secs(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_queueing_and_sending_loses_no_mail() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let mail = MailServer::start(&authority, &MailOptions::default());
    let installation = installation(&authority, certificates.path());
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    // The server greets and then sends nothing, so the delivery of the message does not end.
    let hanging = FakeServer::start("220 mail.test\r\n", |_| None).await;
    api.patch(SETTINGS, settings("localhost", hanging.address.port(), true)).await.ok();
    for n in 1..=3 {
        api.post("/api/users/", anna(&format!("u{n}@example.com"))).await.expect_created();
    }
    eventually(async || hanging.received_lines().len() >= 2).await;
    process.kill();
    drop(hanging);

    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    api.patch(SETTINGS, settings("localhost", mail.port, true)).await.ok();
    // On a shared database, the claim of the dead process must expire first.
    let expected = if testkit::test_database().is_some() { 2 } else { 3 };
    let mut to: Vec<String> = mail.wait_for(expected).await.into_iter().flat_map(|message| message.to).collect();
    to.sort();
    let all = ["u1@example.com", "u2@example.com", "u3@example.com"];
    assert!(if expected == 3 { to == all } else { to == all[1..] }, "{to:?}");
}

// ---- Servers that behave badly -------------------------------------------------------------------------------------

/// Starts a server that may connect to this machine.
async fn server() -> TestServer {
    TestServer::start_with(|config| {
        config.outbound_allow = platform::kit::address::Ranges::parse_list("127.0.0.0/8").unwrap()
    })
    .await
}

fn settings_for(fake: &FakeServer, tls: bool) -> Value {
    settings("127.0.0.1", fake.address.port(), tls)
}

#[tokio::test]
async fn nobody_there_or_no_mail_server() {
    let server = server().await;
    let api = server.admin().await;
    let closed = FakeServer::closed_port().await;
    for host in ["127.0.0.1", "localhost", "127.1", "no-such-host.invalid", "not a host", "a..b", "[", "]"] {
        let reply = api.post(TEST, settings(host, closed, false)).await;
        assert_eq!(reply, (400, test_refusal(CONNECT)), "{host}");
    }
    for greeting in ["554 go away\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-x\r\n", "421 later\r\n"] {
        let fake = FakeServer::start(greeting, |_| None).await;
        for tls in [false, true] {
            api.post(TEST, settings_for(&fake, tls)).await.expect_reply(400, test_refusal(CONNECT));
        }
        assert!(fake.received_lines().iter().all(|line| line == "connected"), "{:?}", fake.received_lines());
    }
    api.post(TEST, settings("127.0.0.1", 0, false)).await.expect_reply(400, test_refusal(CONNECT));
}

#[tokio::test]
async fn a_silent_server_is_disconnected_after_ten_seconds() {
    let server = server().await;
    let api = server.admin().await;
    let silent = FakeServer::start("", |_| None).await;
    let greets = FakeServer::start("220 mail.test\r\n", |_| None).await;
    let offers = FakeServer::start("220 mail.test\r\n", |line| {
        if line.starts_with("EHLO") { Some("250-mail.test\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n") } else { None }
    })
    .await;
    let signs_in =
        FakeServer::start("220 mail.test\r\n", |line| if line == "DATA" { None } else { takes_all(line) }).await;
    let test = |body: Value, reason: &'static str| {
        let api = api.clone();
        async move {
            let begin = Instant::now();
            let reply = api.post(TEST, body.clone()).await;
            assert_eq!(reply, (400, test_refusal(reason)), "{body}");
            begin.elapsed()
        }
    };
    // A build tests four servers at a time, and the fifth would wait for a permit.
    let (a, b, c) = tokio::join!(
        test(settings_for(&silent, false), CONNECT),
        test(settings_for(&greets, true), SECURE),
        test(settings_for(&offers, true), SECURE),
    );
    let (d, e) =
        tokio::join!(test(settings_for(&offers, false), SIGN_IN), test(settings_for(&signs_in, false), RECIPIENT));
    for elapsed in [a, b, c, d, e] {
        // Ten seconds and some margin for a busy machine: the test checks that it ends, not the exact time.
        assert!((Duration::from_secs(9)..Duration::from_secs(40)).contains(&elapsed), "{elapsed:?}");
    }
}

#[tokio::test]
async fn a_server_without_starttls_receives_no_mail() {
    let server = server().await;
    let api = server.admin().await;
    let stripped = FakeServer::start("220 mail.test\r\n", takes_all).await;
    let refusing = FakeServer::start("220 mail.test\r\n", |line| match line.split(' ').next() {
        Some("EHLO") => Some("250-mail.test\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"),
        Some("STARTTLS") => Some("454 not now\r\n"),
        _ => takes_all(line),
    })
    .await;
    // Data before the handshake would count after it if the client did not detect it.
    let injecting = FakeServer::start("220 mail.test\r\n", |line| match line.split(' ').next() {
        Some("EHLO") => Some("250-mail.test\r\n250 STARTTLS\r\n"),
        Some("STARTTLS") => Some("220 go on\r\n250-mail.test\r\n250 AUTH PLAIN\r\n235 welcome\r\n"),
        _ => takes_all(line),
    })
    .await;
    for fake in [&stripped, &refusing, &injecting] {
        api.post(TEST, settings_for(fake, true)).await.expect_reply(400, test_refusal(SECURE));
        let told = fake.received_lines();
        assert!(
            told.iter().all(|line| ["connected", "EHLO a.example", "STARTTLS"].contains(&line.as_str())),
            "{told:?}"
        );
    }
    // The queue has the same checks.
    api.patch(SETTINGS, settings_for(&stripped, true)).await.ok();
    api.post("/api/users/", anna("anna@example.com")).await.expect_created();
    assert_eq!(failure(&server).await, (1, "the connection could not be secured".to_owned()));
    assert!(stripped.received_lines().iter().all(|line| !line.starts_with("AUTH") && !line.starts_with("MAIL")));
}

#[tokio::test]
async fn a_server_that_never_stops_talking_is_left() {
    let server = server().await;
    let api = server.admin().await;
    static LONG: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| format!("220-{}\r\n", "x".repeat(1000)).repeat(5000));
    let fake = FakeServer::start(LONG.as_str(), |_| None).await;
    for tls in [false, true] {
        let begin = Instant::now();
        api.post(TEST, settings_for(&fake, tls)).await.expect_reply(400, test_refusal(CONNECT));
        assert!(begin.elapsed() < Duration::from_secs(40));
    }
}

#[tokio::test]
async fn an_address_that_is_not_allowed_could_not_be_connected_to() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let fake = FakeServer::start("220 mail.test\r\n", takes_all).await;
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "0.0.0.0",
        "0",
        "::1",
        "[::1]",
        "::ffff:127.0.0.1",
        "[::ffff:7f00:1]",
        "10.0.0.1",
        "169.254.169.254",
        "192.168.0.1",
        "fe80::1",
    ] {
        let begin = Instant::now();
        let reply = api.post(TEST, settings(host, fake.address.port(), false)).await;
        assert_eq!(reply, (400, test_refusal(CONNECT)), "{host}");
        assert!(begin.elapsed() < Duration::from_secs(40), "{host}");
    }
    // Messages are not sent there either.
    api.patch(SETTINGS, settings_for(&fake, false)).await.ok();
    api.post("/api/users/", anna("anna@example.com")).await.expect_created();
    assert_eq!(failure(&server).await, (1, CONNECT.to_owned()));
    assert_eq!(fake.received_lines(), [""; 0]);
}

// ---- The queue -----------------------------------------------------------------------------------------------------

/// Another process can have another key for a moment. A message that this process cannot unseal must not be lost.
#[tokio::test]
async fn a_message_that_cannot_be_unsealed_waits() {
    let server = server().await;
    let sql = Sql::new(
        "INSERT INTO jobs(kind, row_key, payload, created_at, next_at) VALUES ('mail', 'r', '00000000.AAAA', $1, $1)",
    );
    let sql = sql.arg(server.clock.now());
    server.build.db.write(move |conn: &mut Conn| conn.exec(&sql)).await.unwrap();
    server.admin().await.post("/api/users/", anna("anna@example.com")).await.expect_created();
    assert_eq!(failure(&server).await, (1, "it could not be unsealed".to_owned()));
}

/// Messages in the table of former versions. A process of such a version can still write them beside this one.
#[tokio::test]
async fn messages_of_former_versions_are_sent_once_nobody_sends_them() {
    let server = server().await;
    let former = async |id: i64, key: Option<&str>, claimed_until: Option<i64>, is_open: bool| {
        let place = Context { build: &server.build.uid, table: "mail_jobs", column: "sealed", row: "r" };
        let text = json!({"renamed": [format!("{id}@example.com"), "Anna"]}).to_string();
        let sealed = if is_open { server.app.keys.seal(&place, text.as_bytes()) } else { "00000000.AAAA".to_owned() };
        let sql = Sql::new(
            "INSERT INTO mail_jobs(id, row_key, sealed, created_at, next_at, name_key, claimed_until, attempts) \
             VALUES ($1, 'r', $2, $3, $3, $4, $5, 0)",
        );
        let sql = sql.arg(id).arg(sealed).arg(server.clock.now()).arg(key.map(str::to_owned)).arg(claimed_until);
        server.build.db.write::<_, StoreError>(move |conn| conn.exec(&sql)).await.unwrap();
        wake(&server);
    };
    former(1, Some("k"), None, true).await;
    assert_eq!(server.mails().await.iter().map(|mail| mail.to.as_str()).collect::<Vec<_>>(), ["1@example.com"]);
    // A message that another process is sending is left to it until its claim expires.
    former(2, None, Some(server.clock.now() + 60 * SECOND), true).await;
    quiet_period().await;
    server.advance(60 * SECOND);
    wake(&server);
    assert_eq!(server.mails().await.len(), 2);
    // The file names contain the former numbers.
    let written = std::fs::read_dir(server.data().join("mail/a.example")).unwrap();
    let mut names: Vec<_> = written.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names[0].ends_with("-1.eml") && names[1].ends_with("-2.eml"), "{names:?}");

    former(3, None, None, false).await;
    let read = |conn: &mut Conn| {
        let sql = Sql::new("SELECT last_error FROM mail_jobs WHERE id = 3 AND attempts = 1");
        conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))
    };
    let error = eventually(async || server.build.db.read::<_, StoreError>(read).await.unwrap()).await;
    assert_eq!(error, "the message could not be unsealed");
}

/// Waits until a message has an error. Returns the attempts and the last error of the first message.
async fn failure(tenant: &TestBuild) -> (i64, String) {
    failure_after(tenant, 0).await
}

/// Returns the same as [`failure`], after more than this number of attempts.
async fn failure_after(tenant: &TestBuild, attempts: i64) -> (i64, String) {
    let sql = Sql::new("SELECT attempts, last_error FROM jobs WHERE attempts > $1 ORDER BY id LIMIT 1").arg(attempts);
    eventually(async || {
        let sql = sql.clone();
        let read = move |conn: &mut Conn| {
            conn.query_optional(&sql, |row| Ok((row.int(0)?, row.opt_text(1)?.unwrap_or("").to_owned())))
        };
        tenant.build.db.read::<_, StoreError>(read).await.unwrap()
    })
    .await
}

fn wake(tenant: &TestBuild) {
    platform::kit::jobs::wake(&tenant.app, &tenant.build);
}

async fn queued(tenant: &TestBuild, api: &ApiClient, username: &str) {
    api.post("/api/users/", anna(username)).await.expect_created();
    failure(tenant).await;
}

#[tokio::test]
async fn failed_mails_are_retried_with_exponential_back_off() {
    let server = server().await;
    let api = server.admin().await;
    let closed = FakeServer::closed_port().await;
    api.patch(SETTINGS, settings("127.0.0.1", closed, false)).await.ok();
    queued(&server, &api, "anna@example.com").await;
    for (attempts, delay) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
        assert_eq!(failure_after(&server, attempts - 1).await, (attempts, CONNECT.to_owned()));
        // No attempt happens before its time.
        server.advance((delay - 1) * SECOND);
        wake(&server);
        quiet_period().await;
        assert_eq!(failure(&server).await.0, attempts);
        server.advance(SECOND);
        wake(&server);
    }
    failure_after(&server, 4).await;

    // Better settings are tried immediately.
    let fake = FakeServer::start("220 mail.test\r\n", takes_all).await;
    api.patch(SETTINGS, settings_for(&fake, false)).await.ok();
    assert_eq!(server.mails().await, [], "sent, and none of it as a file");
    assert!(fake.received_lines().contains(&"RCPT TO:<anna@example.com>".to_owned()), "{:?}", fake.received_lines());
}

#[tokio::test]
async fn a_message_that_was_given_up_is_told_to_the_failure_addresses() {
    let server = server().await;
    let api = server.admin().await;
    let closed = FakeServer::closed_port().await;
    api.patch(SETTINGS, settings("127.0.0.1", closed, false)).await.ok();
    queued(&server, &api, "anna@example.com").await;
    // The last attempt fails, and a notice reports it.
    server.advance(3 * DAY);
    wake(&server);
    let is_failure_recipient = |line: &String| line == "RCPT TO:<ops@a.example>" || line == "RCPT TO:<dev@a.example>";
    // The job of the message is deleted by then, so that the check reads the job of the notice.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(failure(&server).await.0, 1, "the word itself waits now");
    let api = server.admin().await;
    let fake = FakeServer::start("220 mail.test\r\n", takes_all).await;
    api.patch(SETTINGS, settings_for(&fake, false)).await.ok();
    assert_eq!(server.mails().await, []);
    let heard = fake.received_lines();
    assert_eq!(heard.iter().filter(|line| is_failure_recipient(line)).count(), 2, "{heard:?}");
    assert!(heard.contains(&"Subject: A message of a.example was not delivered".to_owned()), "{heard:?}");
    assert!(heard.iter().all(|line| !line.contains("token=") && line != "RCPT TO:<anna@example.com>"), "{heard:?}");
    let text = heard.join("\n");
    assert!(
        text.contains("the message \"Activate your account at a.example\" to anna@example.com could not be delivered"),
        "{text}"
    );

    // A failed notice does not cause another notice.
    api.patch(SETTINGS, settings("127.0.0.1", closed, false)).await.ok();
    queued(&server, &api, "bo@example.com").await;
    for _ in 0..2 {
        server.advance(3 * DAY);
        wake(&server);
        // The wait is longer than a failed attempt, so that the next round finds the job of the notice.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(server.mails().await, [], "nothing waits and nothing was written");
}

#[tokio::test]
async fn a_receiver_that_there_is_not_is_given_up_at_once_and_one_for_later_is_not() {
    let server = server().await;
    let api = server.admin().await;
    let picky = FakeServer::start("220 mail.test\r\n", |line| match line {
        "RCPT TO:<gone@example.com>" => Some("550 no such mailbox\r\n"),
        "RCPT TO:<later@example.com>" => Some("451 later\r\n"),
        _ => takes_all(line),
    })
    .await;
    api.patch(SETTINGS, settings_for(&picky, false)).await.ok();
    api.post("/api/users/", anna("gone@example.com")).await.expect_created();
    assert_eq!(server.mails().await, []);
    let heard = picky.received_lines();
    assert!(heard.contains(&"RCPT TO:<ops@a.example>".to_owned()), "{heard:?}");
    assert!(heard.join("\n").contains("was given up: a recipient was refused (550)."), "{heard:?}");

    queued(&server, &api, "later@example.com").await;
    assert_eq!(failure(&server).await, (1, "a recipient was refused (451)".to_owned()));
}

#[tokio::test]
async fn the_failure_addresses_that_take_a_message_get_it() {
    let server = server().await;
    let api = server.admin().await;
    let picky = FakeServer::start("220 mail.test\r\n", |line| match line {
        "RCPT TO:<gone@example.com>" | "RCPT TO:<dev@a.example>" => Some("550 no such mailbox\r\n"),
        _ => takes_all(line),
    })
    .await;
    api.patch(SETTINGS, settings_for(&picky, false)).await.ok();
    api.post("/api/users/", anna("gone@example.com")).await.expect_created();
    assert_eq!(server.mails().await, []);
    let heard = picky.received_lines();
    assert_eq!(heard.iter().filter(|line| *line == "DATA").count(), 1, "{heard:?}");
    // A test reports that one of the recipients is wrong.
    api.post(TEST, json!({})).await.expect_reply(400, test_refusal(RECIPIENT));
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_share_a_queue_send_each_message_once() {
    if testkit::test_database().is_none() {
        return;
    }
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let mail = MailServer::start(&authority, &MailOptions::default());
    let installation = installation(&authority, certificates.path());
    let (one, two) = (installation.serve(), installation.serve());
    let first = one.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let second = two.client("localhost").sign_in(ADMIN, PASSWORD).await;
    first.patch(SETTINGS, settings("localhost", mail.port, true)).await.ok();
    for n in 0..20 {
        let api = if n % 2 == 0 { &first } else { &second };
        api.post("/api/users/", anna(&format!("u{n}@example.com"))).await.expect_created();
    }
    mail.wait_for(20).await;
    // By then, a message that both processes send would have arrived a second time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut to: Vec<String> = mail.messages().into_iter().flat_map(|message| message.to).collect();
    to.sort();
    to.dedup();
    assert_eq!((to.len(), mail.messages().len()), (20, 20));
}

#[tokio::test]
async fn resets_that_cannot_be_sent_do_not_pile_up() {
    let outbound = platform::kit::address::Ranges::parse_list("127.0.0.0/8").unwrap();
    let server =
        TestServer::start_with(|config| (config.outbound_allow, config.identity.address_attempts) = (outbound, 0))
            .await;
    let api = server.admin().await;
    let (silent, taking) =
        (FakeServer::start("421 later\r\n", |_| None).await, FakeServer::start("220 mail.test\r\n", takes_all).await);
    api.patch(SETTINGS, settings_for(&silent, false)).await.ok();
    let waiting = async || {
        let sql = Sql::new(
            "SELECT count(*), (SELECT count(*) FROM link_tokens), (SELECT count(*) FROM mailed_links) FROM jobs",
        );
        let read = move |conn: &mut Conn| conn.query_one(&sql, |row| Ok([row.int(0)?, row.int(1)?, row.int(2)?]));
        server.build.db.read::<_, StoreError>(read).await.unwrap()
    };
    let tried = || silent.received_lines().iter().filter(|line| *line == "connected").count();
    eventually(async || {
        server.advance(10 * SECOND);
        for username in [ADMIN, "Admin@Example.com"] {
            server.anonymous().post("/api/auth/password-reset/", json!({"username": username})).await.expect_empty();
        }
        tried() >= 5
    })
    .await;
    assert_eq!(waiting().await, [1, 1, 1]);

    api.patch(SETTINGS, with_field(settings_for(&taking, false), "password", json!(MAIL_PASSWORD))).await.ok();
    server.mails().await;
    assert_eq!(waiting().await, [0, 1, 1]);
    assert_eq!(taking.received_lines().iter().filter(|line| line.starts_with("RCPT")).count(), 1);
}

#[tokio::test]
async fn queued_mails_are_sealed_and_requests_do_not_wait() {
    let server = server().await;
    let api = server.admin().await;
    let silent = FakeServer::start("", |_| None).await;
    api.patch(SETTINGS, settings_for(&silent, false)).await.ok();
    let begin = Instant::now();
    api.post("/api/users/", anna("anna@example.com")).await.expect_created();
    server
        .anonymous()
        .post("/api/auth/password-reset/", json!({"username": "secret-name@example.com"}))
        .await
        .expect_empty();
    assert!(begin.elapsed() < Duration::from_secs(40));
    let read =
        |conn: &mut Conn| conn.query_all(&Sql::new("SELECT payload FROM jobs"), |row| Ok(row.text(0)?.to_owned()));
    let sealed = server.build.db.read::<_, StoreError>(read).await.unwrap();
    assert_eq!(sealed.len(), 2);
    assert!(sealed.iter().all(|text| !text.contains("secret-name") && !text.contains("anna")), "{sealed:?}");
}
