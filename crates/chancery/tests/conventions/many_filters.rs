//! Large numbers of filters on every list (`docs/reference/conventions.md`), and other addresses within the listener's limit that
//! lead to long statements.

use crate::TestServer;
use crate::message;
use crate::routes::{create_rows, with_ids_of};
use http::Method;
use platform::kit::route::Route;
use platform::table;
use resource::FieldKind;

/// Returns every list with filters, and the names of the filters in an address.
fn lists() -> impl Iterator<Item = (&'static Route, Vec<String>)> {
    table().routes().filter(|route| route.method == Method::GET).filter_map(|route| {
        let filters: Vec<String> = resource::openapi::parameters(route.selects?)
            .iter()
            .filter_map(|parameter| parameter["name"].as_str())
            .filter(|name| !["limit", "offset", "ordering"].contains(name))
            .map(str::to_owned)
            .collect();
        (!filters.is_empty()).then_some((route, filters))
    })
}

/// Returns a number of parameters with these names in turn.
fn parameters(names: &[String], count: usize, value: &str) -> String {
    names.iter().cycle().take(count).map(|name| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

#[tokio::test]
async fn the_51st_filter_is_refused_by_every_list() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await;
    let mut count = 0;
    for (route, filters) in lists() {
        let path = with_ids_of(&server, route.path, &[1]).await;
        // The limit applies to numbers, times and texts. A wrong value would be reported if it were read.
        for (number, value) in [(51, "1"), (51, "%00"), (700, "")] {
            let reply = admin.get(&format!("{path}?{}", parameters(&filters, number, value))).await;
            assert_eq!(reply, (400, message::detail("Limit of 50 filters has been exceeded.")), "{path}");
        }
        for name in &filters {
            let fifty = parameters(std::slice::from_ref(name), 50, "1");
            let reply = admin.get(&format!("{path}?{fifty}&colour=red&colour=red&limit=5&offset=0")).await;
            assert!(
                reply.status == 200 || reply.status == 400 && reply.json.get("detail").is_none(),
                "{path}: {reply:?}"
            );
        }
        count += 1;
    }
    assert!(count >= 8, "{count} lists");
}

#[tokio::test]
async fn filters_with_thousands_of_values_are_answered() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await;
    let numbers: Vec<String> = (1..).map(|n: i64| n.to_string()).take(5900).collect();
    let values = [numbers.join(","), vec!["1"; 14_000].join(","), "x".repeat(29_000), ",".repeat(29_000)];
    for (route, filters) in lists() {
        let path = with_ids_of(&server, route.path, &[1]).await;
        for name in filters {
            for value in &values {
                let reply = admin.get(&format!("{path}?{name}={value}")).await;
                let expected = [200, 400];
                assert!(expected.contains(&reply.status), "{path}?{name}={value:.20}: {:.300}", format!("{reply:?}"));
            }
        }
    }
}

#[tokio::test]
async fn a_choice_counts_once_however_often_it_is_sent() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await;
    for (route, filters) in lists() {
        for field in &route.selects.unwrap().fields {
            let (FieldKind::Set { choices, .. } | FieldKind::Enum { choices }) = &field.kind else { continue };
            for name in filters.iter().filter(|name| **name == format!("{}__in", field.name)) {
                let once: Vec<&str> = choices.iter().map(|choice| choice.value.as_ref()).collect();
                let choices = format!("{},", once.join(","));
                let often = choices.repeat(28_000 / choices.len());
                let path = with_ids_of(&server, route.path, &[1]).await;
                let (once, often) = (
                    admin.get(&format!("{path}?{name}={}", once.join(","))).await.ok(),
                    admin.get(&format!("{path}?{name}={}", often.trim_end_matches(','))).await.ok(),
                );
                assert_eq!(once["results"], often["results"], "{path}?{name}");
            }
        }
    }
}

/// Filters on records of the class from [`create_rows`], each once.
const OF_RECORDS: [&str; 9] = [
    "id__in",
    "owner",
    "created_at__gt",
    "title__icontains",
    "title__in",
    "person__in",
    "above__in",
    "above.title__icontains",
    "above.id__in",
];

#[tokio::test]
async fn the_21st_filter_is_refused_by_lists_of_records() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await;
    let filters = OF_RECORDS.map(str::to_owned);
    for path in ["/api/object-classes/1/object-records/", "/api/object-classes/1/object-records/export/"] {
        for value in ["1", "%00", ""] {
            let reply = admin.get(&format!("{path}?{}", parameters(&filters, 21, value))).await;
            assert_eq!(reply, (400, message::detail("Limit of 20 filters has been exceeded.")), "{path}");
        }
        for name in &filters {
            let twenty = parameters(std::slice::from_ref(name), 20, "1");
            let reply = admin.get(&format!("{path}?{twenty}&search=a&search=b&limit=5&offset=0&ordering=-id")).await;
            assert!(
                reply.status == 200 || reply.status == 400 && reply.json.get("detail").is_none(),
                "{path}: {reply:?}"
            );
        }
    }
}

#[tokio::test]
async fn filters_of_records_with_thousands_of_values_are_answered() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await;
    let numbers: Vec<String> = (1..).map(|n: i64| n.to_string()).take(5900).collect();
    let values = [numbers.join(","), vec!["1"; 14_000].join(","), "x".repeat(29_000), ",".repeat(29_000)];
    for name in OF_RECORDS.into_iter().chain(["search"]) {
        for value in &values {
            let reply = admin.get(&format!("/api/object-classes/1/object-records/?{name}={value}")).await;
            assert!([200, 400].contains(&reply.status), "{name}={value:.20}: {:.300}", format!("{reply:?}"));
        }
    }
}
