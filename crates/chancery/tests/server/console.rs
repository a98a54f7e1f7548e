//! The console in the binary: its page, its files, and the sessions of browsers in several processes.

use crate::{BINARY, message};
use flate2::read::GzDecoder;
use serde_json::json;
use std::io::Read;
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, Reply};

const PAGE: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

fn browser(server: &Process) -> ApiClient {
    server.client("localhost").with_header("accept", PAGE)
}

/// Returns the addresses of files that the page names.
fn files(page: &Reply) -> Vec<String> {
    page.text.split('"').filter(|text| text.starts_with("/console/assets/")).map(str::to_owned).collect()
}

/// Signs in on the page. Returns the browser with its cookie.
async fn signed_in(server: &Process) -> ApiClient {
    let form = [("username", ADMIN), ("password", PASSWORD), ("return_to", "/console/users")];
    let reply = browser(server).call("POST", "/sign-in/").form(&form).send().await;
    assert_eq!((reply.status, reply.header("location")), (303, "/console/users"));
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    browser(server).with_header("cookie", &cookie)
}

async fn token(browser: &ApiClient) -> Reply {
    browser.call("POST", "/api/auth/browser/token/").send().await
}

#[tokio::test]
async fn a_start_says_what_to_open_and_that_leads_to_the_console() {
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let address = format!("http://127.0.0.1:{}", server.api().port());
    assert!(server.stdout().contains(&format!("\nOpen {address}/\n")), "{}", server.stdout());
    for host in ["localhost", "127.0.0.1:8000"] {
        let client = server.client(host);
        let home = client.with_header("accept", PAGE).get("/").await;
        assert_eq!((home.status, home.header("location"), home.header("vary")), (302, "/console/", "Accept"));
        let bare = client.get("/console").await;
        assert_eq!((bare.status, bare.header("location")), (302, "/console/"));
        for program in
            [client.clone(), client.with_header("accept", "*/*"), client.with_header("accept", "application/json")]
        {
            assert_eq!(program.get("/").await.header("location"), "/api/docs/");
        }
    }
    // Any name can point to this address, so pages under other names are refused. Programs are served.
    let elsewhere = server.client("elsewhere.example");
    assert_eq!(elsewhere.with_header("accept", PAGE).get("/").await.status, 404);
    assert_eq!(elsewhere.get("/console").await.status, 404);
    assert_eq!(elsewhere.get("/").await.header("location"), "/api/docs/");
}

#[tokio::test]
async fn every_address_of_the_console_is_the_page_that_loads_it() {
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let client = browser(&server);
    let mut nonces = Vec::new();
    for path in ["/console/", "/console/records/order/1?a=b", "/console/x//y", "/console/assets", "/console/%00"] {
        let page = client.call("GET", path).send().await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        let nonce =
            page.text.split("<meta property=\"csp-nonce\" nonce=\"").nth(1).and_then(|rest| rest.split('"').next());
        let nonce = nonce.unwrap_or_else(|| panic!("{}", page.text)).to_owned();
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' blob: data:; \
             font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        );
        for (name, value) in [
            ("content-security-policy", policy.as_str()),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("set-cookie", ""),
        ] {
            assert_eq!(page.header(name), value, "{path} {name}");
        }
        let head = "<!doctype html><html lang=\"en-GB\" data-theme=\"system\"><head>";
        assert!(page.text.starts_with(head) && page.text.contains("<title>localhost</title>"), "{}", page.text);
        for part in
            ["<div id=\"root\"></div>", "<noscript>", "<link rel=\"modulepreload\"", "<script type=\"module\" src="]
        {
            assert!(page.text.contains(part), "{part}: {}", page.text);
        }
        // The page contains neither a script nor a part of the address.
        assert!(!page.text.contains("<script>") && !page.text.contains("order"), "{}", page.text);
        assert!(nonce.len() >= 22 && !nonces.contains(&nonce));
        nonces.push(nonce);
        let head = client.call("HEAD", path).send().await;
        assert_eq!((head.status, head.text.as_str()), (200, ""));
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let reply = client.call(method, "/console/").send().await;
        assert_eq!((reply.status, reply.header("allow")), (405, "GET, HEAD"), "{method}");
    }
    // Programs, which do not need a page, get it too, because an address has one meaning.
    assert_eq!(server.client("localhost").get("/console/users").await.status, 200);
    assert_eq!(client.get("/consoles/").await, (404, message::not_found()));
}

#[tokio::test]
async fn files_are_kept_for_good_under_their_version_and_never_the_page() {
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let client = browser(&server);
    let named = files(&client.get("/console/").await);
    assert_eq!(named.len(), 4, "{named:?}");
    for path in &named {
        let plain = client.get(path).await;
        let types = [(".js", "text/javascript; charset=utf-8"), (".css", "text/css; charset=utf-8")];
        let content_type = types.iter().find(|(end, _)| path.ends_with(end)).unwrap().1;
        assert_eq!((plain.status, plain.header("content-type")), (200, content_type));
        let file = path.rsplit('/').next().unwrap();
        let stored = concat!(env!("CARGO_MANIFEST_DIR"), "/../web-console/dist/").to_owned() + file;
        assert!(plain.bytes == std::fs::read(stored).unwrap(), "{path}");
        for coding in ["gzip", "br, GZIP;q=0.5, zstd", "gzip;q=0", "zstd"] {
            let reply = client.call("GET", path).header("accept-encoding", coding).send().await;
            assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable");
            assert_eq!((reply.header("vary"), reply.header("x-content-type-options")), ("Accept-Encoding", "nosniff"));
            let mut inflated = Vec::new();
            match reply.header("content-encoding") {
                "gzip" => drop(GzDecoder::new(&reply.bytes[..]).read_to_end(&mut inflated).unwrap()),
                "" => inflated = reply.bytes.to_vec(),
                other => panic!("{other}"),
            }
            assert!(inflated == plain.bytes, "{path} {coding}");
            assert!(coding != "gzip;q=0" || reply.header("content-encoding").is_empty());
        }
        let version = path.split('/').nth(3).unwrap();
        let others = [
            path.replace(version, "0000000000000000"),
            path.replace(&format!("{version}/"), ""),
            format!("{path}/"),
            format!("{path}x"),
            ["app", "main", "vendor"].iter().fold(path.clone(), |path, name| path.replace(name, "nothing")),
            format!("/console/assets/{version}/source.sha256"),
            format!("/console/assets/{version}/"),
            "/console/assets/".to_owned(),
        ];
        for other in others {
            let gone = client.get(&other).await;
            assert_eq!(gone, (404, message::not_found()), "{other}");
            assert_eq!(gone.header("cache-control"), "no-store");
        }
    }
    // The version is the same in each process of one binary.
    let installation = Installation::embedded(BINARY).and_build();
    let other = installation.serve();
    assert_eq!(files(&browser(&other).get("/console/").await), named);
}

#[tokio::test]
async fn it_can_be_switched_off() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_CONSOLE", "false").and_build();
    let server = installation.serve();
    assert!(!server.stdout().contains("Open "), "{}", server.stdout());
    let client = browser(&server);
    assert_eq!(client.get("/").await.header("location"), "/api/docs/");
    for path in ["/console", "/console/", "/console/assets/x/app.js"] {
        assert_eq!(client.get(path).await, (404, message::not_found()), "{path}");
    }
    let form = [("username", ADMIN), ("password", PASSWORD)];
    let reply = client.call("POST", "/sign-in/").form(&form).send().await;
    assert!(reply.status == 200 && reply.text.contains("name=\"refresh_token\""), "{reply:?}");
    assert_eq!(reply.header("set-cookie"), "");

    let wrong = Installation::embedded(BINARY).set("CHANCERY_CONSOLE", "no").run(&["serve"]);
    assert!(wrong.stderr.contains("CHANCERY_CONSOLE: \"no\" is neither true nor false"), "{}", wrong.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_browser_outlives_its_server_and_ends_with_the_key() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve_api();
    let browser = signed_in(&server).await;
    server.stop();
    let server = installation.serve_api();
    let browser = browser.for_server(server.api());
    token(&browser).await.ok();
    server.stop();
    let key = "another key, long enough for a new database";
    let installation = installation.set("CHANCERY_NEW_SECRET_KEY", key);
    installation.succeeds(&["keys", "rotate"]);
    let installation = installation.set("CHANCERY_SECRET_KEY", key);
    let server = installation.serve_api();
    token(&browser.for_server(server.api())).await.expect_reply(401, message::bad_token());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_process_knows_a_session_and_its_end() {
    let Some(installation) = Installation::postgresql(BINARY).map(Installation::and_build) else { return };
    let (one, other) = (installation.serve_api(), installation.serve_api());
    let here = signed_in(&one).await;
    let there = here.for_server(other.api());
    for _ in 0..3 {
        let (first, second) = tokio::join!(token(&here), token(&there));
        for reply in [first, second] {
            let access = reply.ok()["access_token"].as_str().unwrap().to_owned();
            there.with_token(&access).get("/api/users/me/").await.ok();
            here.with_token(&access).get("/api/users/me/").await.ok();
        }
    }
    here.post("/api/auth/browser/logout/", json!({})).await.expect_empty();
    // The check reads the database, so it sees the sign-out immediately.
    token(&there).await.expect_reply(401, message::bad_token());
    token(&here).await.expect_reply(401, message::bad_token());
}
