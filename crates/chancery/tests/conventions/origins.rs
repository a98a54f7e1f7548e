//! Calls of public routes are accepted from the build's own pages, from configured front ends and from programs, but not from pages
//! of other sites. The host of a request selects the build (`docs/reference/conventions.md`).

use crate::TestServer;
use crate::bodies::{expect_refusal, raw};
use crate::message;
use http::Method;
use platform::kit::address::TrustedProxies;
use platform::kit::caller::RouteAccess;
use platform::kit::route::Schema;
use platform::table;
use serde_json::json;
use testkit::{ADMIN, ApiClient, DOMAIN, PASSWORD, Reply};

/// A front end on another site.
const FRONT_END: &str = "https://front.example";

/// The headers of accepted callers.
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

async fn server() -> TestServer {
    TestServer::start_with(|config| {
        config.cors_origins = vec![FRONT_END.to_owned()];
        config.identity.address_attempts = 3;
    })
    .await
}

fn with_headers(client: &ApiClient, headers: &[(&str, &str)]) -> ApiClient {
    headers.iter().fold(client.clone(), |client, (name, value)| client.with_header(name, value))
}

/// Signs in with the sign-in page.
async fn sign_in_by_page(client: &ApiClient) -> Reply {
    client.call("POST", "/sign-in/").form(&[("username", ADMIN), ("password", PASSWORD)]).send().await
}

#[tokio::test]
async fn own_pages_front_ends_and_programs_sign_in() {
    let server = server().await;
    for (who, headers) in WELCOME {
        let client = with_headers(&server.anonymous(), headers);
        let pair = client.login(ADMIN, PASSWORD).await;
        assert_eq!(pair.status, 200, "{who}: {pair:?}");
        // The page is stricter, because it can begin the session of a browser.
        let is_own = headers.iter().all(|(_, value)| ![FRONT_END, "none"].contains(value));
        let page = sign_in_by_page(&client).await;
        assert_eq!(page.status, if is_own { 200 } else { 403 }, "{who}: {page:?}");
        let refreshed = client.post("/api/auth/refresh/", json!({"refresh_token": pair["refresh_token"]})).await;
        assert_eq!(refreshed.status, 200, "{who}: {refreshed:?}");
        let body = json!({"refresh_token": refreshed["refresh_token"]});
        client.post("/api/auth/logout/", body).await.expect_empty();
    }
}

#[tokio::test]
async fn a_foreign_page_is_refused_by_every_public_post_before_anything_is_counted() {
    let server = server().await;
    let posts = || table().routes().filter(|route| route.access == RouteAccess::Public && route.method == Method::POST);
    // These routes do not use the browser's session: the request contains the secret of the client.
    let from_any_site: Vec<_> = posts().filter(|route| route.from_any_site).map(|route| route.path).collect();
    assert_eq!(from_any_site, ["/oauth/token/", "/oauth/revoke/"]);
    for route in posts().filter(|route| !route.from_any_site) {
        for (who, headers) in FOREIGN {
            let call = with_headers(&server.anonymous(), headers).call("POST", route.path);
            let call = match route.body {
                Schema::Form(_) => call.form(&[("username", ADMIN), ("password", "wrong"), ("token", "x"), ("id", "1")]),
                _ => call.json(&json!({"username": ADMIN, "password": "wrong", "token": "x", "refresh_token": "x", "ticket": "x", "id": 1})),
            };
            let reply = call.send().await;
            assert_eq!(reply.status, 403, "{} from {who}: {reply:?}", route.path);
            expect_refusal(route, &reply, 403, "You do not have permission to perform this action.");
        }
    }
    server.admin().await.get("/api/users/1/").await.ok();
    assert_eq!(sign_in_by_page(&server.anonymous()).await.status, 200);
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
async fn a_window_that_opened_a_page_cannot_reach_it() {
    let server = server().await;
    for path in
        ["/sign-in/", "/activate/?token=x", "/password-reset/", "/task/?token=x", "/oauth/authorize/", "/console/"]
    {
        let page = server.anonymous().get(path).await;
        assert_eq!(page.header("cross-origin-opener-policy"), "same-origin", "{path}: {page:?}");
    }
}

/// Hosts that cannot lead a browser to a server of another owner.
const OWN_HOSTS: [&str; 10] = [
    // The build's own domain.
    "a.example",
    "A.EXAMPLE:8000",
    // The host of the base URL.
    "chancery.example",
    "Chancery.Example:8000",
    "localhost:8000",
    "LOCALHOST",
    "127.0.0.1:8000",
    "203.0.113.7",
    "[::1]:8000",
    "[2001:db8::1]",
];

/// Names whose owners can point them to this server.
const FOREIGN_HOSTS: [&str; 8] = [
    "evil.example",
    "evil.example:8000",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "a.example.evil.example",
    "chancery.example.",
    "1.2.3",
    "[::1].evil",
];

#[tokio::test]
async fn a_fallback_build_shows_itself_to_browsers_where_no_foreign_name_leads() {
    let server = TestServer::start_with(|config| config.fallback_build = Some(DOMAIN.to_owned())).await;
    let at = |host: &str| ApiClient::new(server.address, host);
    let browser = |host: &str| at(host).with_header("accept", "text/html,*/*;q=0.8");
    let pages = [
        "/",
        "/console/",
        "/sign-in/",
        "/activate/?token=x",
        "/password-reset/",
        "/task/?token=x",
        "/oauth/authorize/",
    ];
    for host in OWN_HOSTS {
        for path in pages {
            let page = browser(host).get(path).await;
            assert_ne!(page.status, 404, "{host} {path}: {page:?}");
        }
        let own =
            at(host).with_header("origin", &format!("http://{host}")).with_header("sec-fetch-site", "same-origin");
        assert_eq!(own.login(ADMIN, PASSWORD).await.status, 200, "{host}");
    }
    for host in FOREIGN_HOSTS {
        for path in pages {
            let page = browser(host).get(path).await;
            assert_eq!((page.status, page.header("content-type")), (404, "text/html; charset=utf-8"), "{host} {path}");
            assert!(page.text.contains("CHANCERY_BASE_URL"), "it tells an operator what to do: {}", page.text);
        }
        assert_eq!(at(host).get("/sign-in/").await, (404, message::not_found()), "{host}");
        // Programs are served under every name.
        let program = at(host).sign_in(ADMIN, PASSWORD).await;
        program.get("/api/users/me/").await.ok();
    }
}

#[tokio::test]
async fn no_public_post_of_a_page_reaches_a_fallback_build_by_a_foreign_name() {
    let server = TestServer::start_with(|config| {
        config.fallback_build = Some(DOMAIN.to_owned());
        config.cors_origins = vec![FRONT_END.to_owned()];
    })
    .await;
    let rebound = ApiClient::new(server.address, "evil.example:8000");
    let as_own: [&[(&str, &str)]; 4] = [
        &[("sec-fetch-site", "same-origin")],
        &[("origin", "http://evil.example:8000")],
        &[("origin", "http://evil.example:8000"), ("sec-fetch-site", "same-origin")],
        &[("origin", FRONT_END)],
    ];
    for route in table().routes().filter(|route| route.access == RouteAccess::Public && route.method == Method::POST) {
        for headers in as_own {
            let call = with_headers(&rebound, headers).call("POST", route.path);
            let reply = match route.body {
                Schema::Form(_) => call.form(&[("username", ADMIN), ("password", PASSWORD)]),
                _ => call.json(&json!({"username": ADMIN, "password": PASSWORD})),
            };
            let reply = reply.send().await;
            assert_eq!(reply, (403, message::forbidden()), "{} {headers:?}", route.path);
        }
    }
    assert_eq!(rebound.login(ADMIN, PASSWORD).await.status, 200, "a program sends neither header");
}

#[tokio::test]
async fn browsers_stay_with_the_https_of_the_base_url() {
    let proxied = TestServer::start_with(|config| {
        config.base_url = "https://chancery.example:8443".to_owned();
        config.trusted_proxies = TrustedProxies::parse("127.0.0.0/8").unwrap();
    })
    .await;
    let anyone = proxied.anonymous();
    let plain = anyone.with_header("x-forwarded-proto", "http").with_header("host", "a.example:8080");
    for (reply, address) in [
        (plain.get("/api/security/?a=b%20c").await, "https://a.example:8443/api/security/?a=b%20c"),
        (plain.get("/").await, "https://a.example:8443/"),
        (plain.post("/api/auth/login/", json!({})).await, "https://a.example:8443/api/auth/login/"),
        (
            plain.with_header("host", "nowhere.example").get("//evil.example").await,
            "https://nowhere.example:8443//evil.example",
        ),
    ] {
        assert_eq!((reply.status, reply.header("location")), (308, address), "{reply:?}");
        assert_eq!(reply.header("strict-transport-security"), "", "it came without TLS");
    }
    assert_eq!(plain.get("/healthz").await.status, 200);
    // A proxy without this header can terminate TLS.
    for client in [anyone.clone(), anyone.with_header("x-forwarded-proto", "https")] {
        let reply = client.get("/api/security/").await;
        assert_eq!((reply.status, reply.header("strict-transport-security")), (200, "max-age=31536000"));
    }
    let direct = TestServer::start().await;
    let forged = direct.anonymous().with_header("x-forwarded-proto", "http").get("/api/security/").await;
    assert_eq!((forged.status, forged.header("strict-transport-security")), (200, "max-age=31536000"));
    let of_http = TestServer::start_with(|config| {
        config.base_url = "http://chancery.example".to_owned();
        config.trusted_proxies = TrustedProxies::parse("127.0.0.0/8").unwrap();
    })
    .await;
    let plain = of_http.anonymous().with_header("x-forwarded-proto", "http").get("/api/security/").await;
    assert_eq!((plain.status, plain.header("strict-transport-security")), (200, ""));
}

#[tokio::test]
async fn a_request_names_one_host_and_that_in_its_first_line_wins() {
    let server = TestServer::start().await;
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
    let server = TestServer::start().await;
    let one = server.anonymous().get("/api/openapi.json").await;
    let other = server.anonymous().with_header("host", "A.example:8000").get("/api/openapi.json").await;
    assert_eq!((one.status, &one.text), (200, &other.text));
    assert_eq!(one["servers"][0]["url"], "/");
}

#[tokio::test]
async fn a_browser_at_a_host_without_a_build_gets_a_page_that_tells_an_operator_what_to_do() {
    let server = TestServer::start().await;
    let stranger = ApiClient::new(server.address, "nowhere.example:8000");
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
