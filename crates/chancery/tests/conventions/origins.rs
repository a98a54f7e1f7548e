//! Who may call what anybody may call: the build's own pages, configured front ends and programs, and no page of
//! another site; and by which host a build is reached (`docs/reference/conventions.md`).

use crate::bodies::{is_refused, raw};
use crate::message;
use http::Method;
use platform::kit::caller::Access;
use platform::kit::route::Schema;
use platform::table;
use serde_json::json;
use testkit::{ADMIN, Client, DOMAIN, PASSWORD, Reply, Server};

/// A front end on a site of its own.
const FRONT_END: &str = "https://front.example";

/// The headers of whoever is welcome.
const WELCOME: [(&str, &[(&str, &str)]); 8] = [
    ("a program", &[]),
    ("the own page over http", &[("origin", "http://a.example")]),
    (
        "the own page behind a TLS proxy that is not trusted",
        &[("origin", "https://a.example"), ("x-forwarded-proto", "https")],
    ),
    ("the same in a browser that says so", &[("origin", "https://a.example"), ("sec-fetch-site", "same-origin")]),
    (
        "the same where the proxy has another host for us",
        &[("origin", "https://shown.example"), ("sec-fetch-site", "same-origin")],
    ),
    ("an address that was typed", &[("sec-fetch-site", "none")]),
    ("a front end on another site", &[("origin", FRONT_END), ("sec-fetch-site", "cross-site")]),
    ("a front end in an old browser", &[("origin", FRONT_END)]),
];

/// The headers of foreign pages.
const FOREIGN: [(&str, &[(&str, &str)]); 7] = [
    ("a foreign page", &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")]),
    ("a foreign page in an old browser", &[("origin", "https://evil.example")]),
    ("a sandboxed page", &[("origin", "null")]),
    ("a page on another port", &[("origin", "http://a.example:9000")]),
    ("a page of the same site", &[("origin", "https://b.a.example"), ("sec-fetch-site", "same-site")]),
    ("a page without an origin", &[("sec-fetch-site", "cross-site")]),
    ("a page that claims the own origin", &[("origin", "https://a.example"), ("sec-fetch-site", "cross-site")]),
];

async fn server() -> Server {
    Server::with(|config| {
        config.cors_origins = vec![FRONT_END.to_owned()];
        config.identity.address_attempts = 3;
    })
    .await
}

fn with(client: &Client, headers: &[(&str, &str)]) -> Client {
    headers.iter().fold(client.clone(), |client, (name, value)| client.with_header(name, value))
}

/// Signs in by the page.
async fn by_page(client: &Client) -> Reply {
    client.call("POST", "/sign-in/").form(&[("username", ADMIN), ("password", PASSWORD)]).send().await
}

#[tokio::test]
async fn own_pages_front_ends_and_programs_sign_in() {
    let server = server().await;
    for (who, headers) in WELCOME {
        let client = with(&server.anonymous(), headers);
        let pair = client.login(ADMIN, PASSWORD).await;
        assert_eq!(pair.status, 200, "{who}: {pair:?}");
        // The page is stricter, since it can begin the session of a browser.
        let is_own = headers.iter().all(|(_, value)| ![FRONT_END, "none"].contains(value));
        let page = by_page(&client).await;
        assert_eq!(page.status, if is_own { 200 } else { 403 }, "{who}: {page:?}");
        let refreshed = client.post("/api/auth/refresh/", json!({"refresh_token": pair["refresh_token"]})).await;
        assert_eq!(refreshed.status, 200, "{who}: {refreshed:?}");
        let body = json!({"refresh_token": refreshed["refresh_token"]});
        client.post("/api/auth/logout/", body).await.is_empty();
    }
}

#[tokio::test]
async fn a_foreign_page_is_refused_by_every_public_post_before_anything_is_counted() {
    let server = server().await;
    let posts = || table().routes().filter(|route| route.access == Access::Public && route.method == Method::POST);
    // What these take is no visitor's: it carries the secret of the client that sends it.
    let from_any_site: Vec<_> = posts().filter(|route| route.from_any_site).map(|route| route.path).collect();
    assert_eq!(from_any_site, ["/oauth/token/", "/oauth/revoke/"]);
    for route in posts().filter(|route| !route.from_any_site) {
        for (who, headers) in FOREIGN {
            let call = with(&server.anonymous(), headers).call("POST", route.path);
            let call = match route.body {
                Schema::Form(_) => call.form(&[("username", ADMIN), ("password", "wrong"), ("token", "x"), ("id", "1")]),
                _ => call.json(&json!({"username": ADMIN, "password": "wrong", "token": "x", "refresh_token": "x", "ticket": "x", "id": 1})),
            };
            let reply = call.send().await;
            assert_eq!(reply.status, 403, "{} from {who}: {reply:?}", route.path);
            is_refused(route, &reply, 403, "You do not have permission to perform this action.");
        }
    }
    server.admin().await.get("/api/users/1/").await.ok();
    assert_eq!(by_page(&server.anonymous()).await.status, 200);
}

#[tokio::test]
async fn pages_let_browsers_tell_where_a_form_comes_from() {
    let server = server().await;
    for path in ["/sign-in/", "/activate/?token=x", "/password-reset/", "/task/?token=x", "/api/docs/"] {
        // `no-referrer` would make browsers send `Origin: null`.
        assert_eq!(server.anonymous().get(path).await.header("referrer-policy"), "same-origin", "{path}");
    }
}

#[tokio::test]
async fn a_request_names_one_host_and_that_in_its_first_line_wins() {
    let server = Server::start().await;
    let get = async |first: &str, headers: &str| {
        let answer = raw::send(&server, &format!("GET {first} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n")).await;
        answer.split(' ').nth(1).unwrap_or("").to_owned()
    };
    assert_eq!(get("/api/security/", "Host: a.example\r\n").await, "200");
    for (first, headers) in [
        ("/api/security/", ""),
        ("/api/security/", "Host: a.example\r\nHost: a.example\r\n"),
        ("/api/security/", "Host: a.example\r\nHost: b.example\r\n"),
        ("http://a.example/api/security/", ""),
    ] {
        assert_eq!(get(first, headers).await, "400", "{first} {headers}");
    }
    for (first, headers) in [
        ("http://b.example/api/security/", "Host: a.example\r\n"),
        ("/api/security/", "Host:\r\n"),
        ("/api/security/", "Host: a.example/x\r\n"),
    ] {
        assert_eq!(get(first, headers).await, "404", "{first} {headers}");
    }
    assert_eq!(get("http://a.example/api/security/", "Host: b.example\r\n").await, "200");
    for path in ["/healthz", "/readyz"] {
        for headers in ["", "Host: x\r\nHost: y\r\n", "Host: a b\r\n"] {
            assert_eq!(get(path, headers).await, "200", "{path} {headers}");
        }
    }
}

#[tokio::test]
async fn the_description_is_the_same_for_everybody() {
    let server = Server::start().await;
    let one = server.anonymous().get("/api/openapi.json").await;
    let other = server.anonymous().with_header("host", "A.example:8000").get("/api/openapi.json").await;
    assert_eq!((one.status, &one.text), (200, &other.text));
    assert_eq!(one["servers"][0]["url"], "/");
}

#[tokio::test]
async fn a_browser_at_a_host_without_a_build_gets_a_page_that_tells_an_operator_what_to_do() {
    let server = Server::start().await;
    let stranger = Client::new(server.address, "nowhere.example:8000");
    let browser = stranger.with_header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for path in ["/", "/sign-in/", "/api/docs/", "/nothing/"] {
        let page = browser.get(path).await;
        assert_eq!((page.status, page.header("content-type")), (404, "text/html; charset=utf-8"), "{path}");
        for text in ["No build here", ">nowhere.example<", "chancery build create DOMAIN", "CHANCERY_FALLBACK_BUILD"] {
            assert!(page.text.contains(text), "{path}: {text} is not in {}", page.text);
        }
        assert!(!page.text.contains(DOMAIN), "which builds there are is not for everybody: {}", page.text);
    }
    for program in
        [stranger.clone(), stranger.with_header("accept", "*/*"), stranger.with_header("accept", "application/json")]
    {
        assert_eq!(program.get("/api/security/").await, (404, message::not_found()));
    }
    assert_eq!(browser.post("/api/auth/login/", json!({})).await, (404, message::not_found()));
    let elsewhere = server.anonymous().with_header("accept", "text/html").get("/nothing/").await;
    assert_eq!(elsewhere, (404, message::not_found()));
}
