//! Tests `/api/system-events/batch` and `/api/system-events`.

use crate::{expect_problem, id, problems, system_event};
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use testkit::{ApiClient, HistoryServer, Reply};

const BATCH: &str = "/api/system-events/batch";

async fn add(api: &ApiClient, events: Json) -> Reply {
    api.post(BATCH, json!({"events": events})).await
}

#[tokio::test]
async fn an_event_is_read_back_as_it_was_sent() {
    let server = HistoryServer::start().await;
    let api = server.tenant("whole").await;
    let whole = json!({
        "id": id(1), "event_timestamp": "2026-01-31T10:30:00.123456+01:00", "category": 1, "event_type": 3, "source_id": 42,
        "source_type": 1, "source_info": "Ünïcode \"quoted\" \u{0}", "source_ip": "2001:db8::1",
        "event_data": "{\"reason\": \"no JSON",
    });
    add(&api, json!([whole, system_event(2)])).await.expect_reply(201, json!({"inserted": 2}));
    api.get("/api/system-events").await.expect_reply(
        200,
        json!({"limit": 25, "offset": 0, "total_count": 2, "filtered_count": 2, "results": [
            {
                "id": id(1), "event_timestamp": "2026-01-31T09:30:00.123456Z", "category": "auth",
                "event_type": "login_failed_sso", "source_id": 42, "source_type": 1,
                "source_info": "Ünïcode \"quoted\" \u{0}", "source_ip": "2001:db8::1", "event_data": "{\"reason\": \"no JSON",
            },
            {
                "id": id(2), "event_timestamp": "2026-01-31T09:30:00.000002Z", "category": "auth",
                "event_type": "login_success", "source_id": 0, "source_type": 0, "source_info": "", "source_ip": "",
                "event_data": "",
            },
        ]}),
    );
}

#[tokio::test]
async fn an_id_is_written_once() {
    let server = HistoryServer::start().await;
    let api = server.tenant("once").await;
    let mut later = system_event(1);
    later["event_type"] = json!(2);
    later["event_timestamp"] = json!("2020-01-01T00:00:00Z");
    // The same id occurs twice in one request: the first event counts.
    add(&api, json!([system_event(1), later, system_event(2)])).await.expect_reply(201, json!({"inserted": 2}));
    // The same id in a later request is skipped silently.
    add(&api, json!([later, system_event(3)])).await.expect_reply(201, json!({"inserted": 1}));
    add(&api, json!([system_event(3)])).await.expect_reply(201, json!({"inserted": 0}));
    add(&api, json!([])).await.expect_reply(201, json!({"inserted": 0}));
    let listed = api.get("/api/system-events").await;
    assert_eq!(listed.column("id"), [json!(id(3)), json!(id(2)), json!(id(1))]);
    assert_eq!(listed.column("event_type"), [json!("login_success"), json!("login_success"), json!("login_success")]);
}

#[tokio::test]
async fn parallel_equal_batches_are_counted_once() {
    let server = HistoryServer::start().await;
    let api = server.tenant("parallel").await;
    let batch: Vec<Json> = (0..2000).map(system_event).collect();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (api, mut batch) = (api.clone(), batch.clone());
            batch.rotate_left(n * 100);
            tokio::spawn(async move { add(&api, json!(batch)).await.expect_created()["inserted"].as_i64().unwrap() })
        })
        .collect();
    let mut inserted = 0;
    for task in tasks {
        inserted += task.await.unwrap();
    }
    assert_eq!(inserted, 2000);
    assert_eq!(api.get("/api/system-events").await.ok()["total_count"], 2000);
}

#[tokio::test]
async fn a_refusal_names_everything_that_is_wrong() {
    let server = HistoryServer::start().await;
    let api = server.tenant("wrong").await;
    let place = |at: usize, field: &str| json!(["body", "events", at, field]);
    let wrong = json!([
        {},
        {"id": "x", "event_timestamp": "yesterday", "category": 2, "event_type": 11},
        {
            "id": id(1), "event_timestamp": 5, "category": "1", "event_type": true, "source_id": "1", "source_type": 5,
            "source_info": 1, "source_ip": null, "event_data": {},
        },
        5,
        system_event(4),
    ]);
    let missing = ("field required", "value_error.missing");
    let member = ("value is not a valid enumeration member", "type_error.enum");
    let text = ("str type expected", "type_error.str");
    let invalid_datetime = ("invalid datetime format", "value_error.datetime");
    let expected = [
        (0, "id", missing),
        (0, "event_timestamp", missing),
        (0, "category", missing),
        (0, "event_type", missing),
        (1, "id", ("value is not a valid uuid", "type_error.uuid")),
        (1, "event_timestamp", invalid_datetime),
        (1, "category", member),
        (1, "event_type", member),
        (2, "event_timestamp", invalid_datetime),
        (2, "category", member),
        (2, "event_type", member),
        (2, "source_id", ("value is not a valid integer", "type_error.integer")),
        (2, "source_type", member),
        (2, "source_info", text),
        (2, "source_ip", ("none is not an allowed value", "type_error.none.not_allowed")),
        (2, "event_data", text),
    ];
    let mut expected: Vec<Json> =
        expected.iter().map(|(at, field, (message, kind))| json!([place(*at, field), message, kind])).collect();
    expected.push(json!([["body", "events", 3], "value is not a valid dict", "type_error.dict"]));
    add(&api, wrong).await.expect_reply(422, problems(json!(expected)));
    // The batch is stored as a whole or not at all.
    assert_eq!(api.get("/api/system-events").await.ok()["total_count"], 0);
}

#[tokio::test]
async fn the_list_itself_is_checked() {
    let server = HistoryServer::start().await;
    let api = server.tenant("lists").await;
    let place = || json!(["body", "events"]);
    expect_problem(&api.post(BATCH, json!({})).await, place(), "field required", "value_error.missing");
    expect_problem(&add(&api, json!("x")).await, place(), "value is not a valid list", "type_error.list");
    expect_problem(&add(&api, json!({})).await, place(), "value is not a valid list", "type_error.list");
    expect_problem(
        &add(&api, json!(null)).await,
        place(),
        "none is not an allowed value",
        "type_error.none.not_allowed",
    );
}

#[tokio::test]
async fn times_and_numbers_have_their_ranges() {
    let server = HistoryServer::start().await;
    let api = server.tenant("ranges").await;
    let with = |n: u32, field: &str, value: Json| {
        let mut event = system_event(n);
        event[field] = value;
        json!([event])
    };
    for (n, time, shown) in [
        (1, "1900-01-01T00:00:00Z", "1900-01-01T00:00:00.000000Z"),
        (2, "2299-12-31T23:59:59.999999Z", "2299-12-31T23:59:59.999999Z"),
        (3, "2026-01-31T09:30:00", "2026-01-31T09:30:00.000000Z"),
        (4, "2026-01-31 09:30:00.1234567+00:00", "2026-01-31T09:30:00.123456Z"),
    ] {
        add(&api, with(n, "event_timestamp", json!(time))).await.expect_reply(201, json!({"inserted": 1}));
        let listed = api.get(&format!("/api/system-events?event_timestamp={}", time.replace('+', "%2B"))).await;
        assert_eq!(listed.column("event_timestamp"), [json!(shown)]);
    }
    for time in ["1899-12-31T23:59:59.999999Z", "2300-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "", "now", "1e9"] {
        let reply = add(&api, with(9, "event_timestamp", json!(time))).await;
        expect_problem(
            &reply,
            json!(["body", "events", 0, "event_timestamp"]),
            "invalid datetime format",
            "value_error.datetime",
        );
    }
    for (n, number) in [(10, i64::MIN), (11, i64::MAX)] {
        add(&api, with(n, "source_id", json!(number))).await.expect_reply(201, json!({"inserted": 1}));
        let listed = api.get(&format!("/api/system-events?source_id={number}")).await;
        assert_eq!(listed.column("source_id"), [json!(number)]);
    }
    for number in [json!(u64::MAX), json!(1.5), json!(1e300)] {
        let reply = add(&api, with(9, "source_id", number)).await;
        expect_problem(
            &reply,
            json!(["body", "events", 0, "source_id"]),
            "value is not a valid integer",
            "type_error.integer",
        );
    }
}

#[tokio::test]
async fn ten_thousand_are_taken_and_one_more_is_refused() {
    let server = HistoryServer::start().await;
    let api = server.tenant("many").await;
    let mut events: Vec<Json> = (0..10_001).map(system_event).collect();
    let reply = add(&api, json!(events)).await;
    expect_problem(
        &reply,
        json!(["body", "events"]),
        "ensure this value has at most 10000 items",
        "value_error.list.max_items",
    );
    // Items are counted before they are checked.
    let nothings = format!("{{\"events\": [{}{{}}]}}", "{},".repeat(4_000_000));
    let reply = api.call("POST", BATCH).body("application/json", nothings).send().await;
    expect_problem(
        &reply,
        json!(["body", "events"]),
        "ensure this value has at most 10000 items",
        "value_error.list.max_items",
    );
    events.pop();
    add(&api, json!(events)).await.expect_reply(201, json!({"inserted": 10_000}));
    assert_eq!(api.get("/api/system-events?limit=1000&offset=9990").await.column("id").len(), 10);
}

/// Returns a batch of one event whose body has this size in bytes.
fn batch_of_size(bytes: usize) -> String {
    let mut event = system_event(1);
    event["event_data"] = json!("");
    let empty = json!({"events": [event]}).to_string();
    event["event_data"] = json!("x".repeat(bytes - empty.len()));
    json!({"events": [event]}).to_string()
}

#[tokio::test]
async fn a_body_has_at_most_16_mib() {
    const MAX_BODY: usize = 16 * 1024 * 1024;
    let server = HistoryServer::start().await;
    let api = server.tenant("large").await;
    let too_large = json!({"detail": "Request body is too large."});
    let post = async |body: String| api.call("POST", BATCH).body("application/json", body).send().await;
    post(batch_of_size(MAX_BODY + 1)).await.expect_reply(413, too_large.clone());
    post(batch_of_size(MAX_BODY)).await.expect_reply(201, json!({"inserted": 1}));
    let listed = api.get("/api/system-events").await.ok();
    assert!(listed["results"][0]["event_data"].as_str().unwrap().len() > MAX_BODY - 200);
}

#[tokio::test]
async fn compressed_bodies_are_measured_decompressed() {
    let server = HistoryServer::start().await;
    let api = server.tenant("packed").await;
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let post = async |encoding: &str, body: Vec<u8>| {
        api.call("POST", BATCH).body("application/json", body).header("content-encoding", encoding).send().await
    };
    let batch = json!({"events": [system_event(1)]}).to_string();
    post("gzip", gzip(batch.as_bytes())).await.expect_reply(201, json!({"inserted": 1}));
    // Some programs create two gzip members.
    let halves = batch.as_bytes().split_at(20);
    post("gzip", [gzip(halves.0), gzip(halves.1)].concat()).await.expect_reply(201, json!({"inserted": 0}));
    post("identity", batch.clone().into_bytes()).await.expect_reply(201, json!({"inserted": 0}));
    // The bodies are 20 MB in 20 KB, and 2 GB in 2 MB.
    let too_large = json!({"detail": "Request body is too large."});
    post("gzip", gzip(batch_of_size(20_000_000).as_bytes())).await.expect_reply(413, too_large.clone());
    let block = gzip(&vec![b' '; 64 << 20]);
    post("gzip", block.repeat(32)).await.expect_reply(413, too_large);
    post("gzip", batch.clone().into_bytes()).await.expect_reply(400, json!({"detail": "Invalid JSON body."}));
    post("br", batch.into_bytes()).await.expect_reply(415, json!({"detail": "Unsupported content encoding."}));
}

#[tokio::test]
async fn system_events_are_filtered() {
    let server = HistoryServer::start().await;
    let api = server.tenant("filtered").await;
    let events: Vec<Json> = (1..=10)
        .map(|n| {
            let mut event = system_event(n);
            event["event_type"] = json!(n);
            event["source_id"] = json!(n % 3);
            event
        })
        .collect();
    add(&api, json!(events)).await.expect_created();
    let ids = async |query: &str| -> Vec<i64> {
        let listed = api.get(&format!("/api/system-events?{query}")).await;
        let ids: Vec<i64> = listed.column("id").iter().map(|id| id.as_str().unwrap()[24..].parse().unwrap()).collect();
        assert_eq!(
            (listed.json["total_count"].as_i64(), listed.json["filtered_count"].as_i64()),
            (Some(10), Some(ids.len() as i64))
        );
        ids
    };
    assert_eq!(ids("").await, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(ids("category=auth").await.len(), 10);
    assert_eq!(ids("category__exclude=auth").await.len(), 0);
    assert_eq!(ids("event_type=login_failed").await, [2]);
    assert_eq!(ids("event_type__in=login_success,password_reset_failed").await, [10, 1]);
    assert_eq!(ids("event_type__in__exclude=login_success,password_reset_failed").await, [9, 8, 7, 6, 5, 4, 3, 2]);
    assert_eq!(ids("source_id=0").await, [9, 6, 3]);
    assert_eq!(ids("source_id__in=0,1&event_type__exclude=login_failed_sso").await, [10, 9, 7, 6, 4, 1]);
    assert_eq!(ids("event_timestamp__gt=2026-01-31T09:30:00.000008Z").await, [10, 9]);
    assert_eq!(ids("event_timestamp__range=2026-01-31T09:30:00.000002Z,2026-01-31T09:30:00.000003Z").await, [3, 2]);
    assert_eq!(ids("unknown=5").await.len(), 10);
}

#[tokio::test]
async fn the_51st_filter_is_refused_and_thousands_of_values_are_not() {
    let server = HistoryServer::start().await;
    let api = server.tenant("many_filters").await;
    add(&api, json!([system_event(1)])).await.expect_created();
    let problem = json!({"detail": [{
        "loc": ["query"],
        "msg": "ensure that there are at most 50 filters",
        "type": "value_error.filters.max_items",
    }]});
    for path in ["/api/system-events", "/api/history/events"] {
        let filters = |count: usize| "source_id__exclude=7&".repeat(count);
        let fifty = api.get(&format!("{path}?{}limit=1&offset=0&colour=red", filters(50))).await;
        assert_eq!(fifty.status, 200, "{fifty:?}");
        api.get(&format!("{path}?{}source_id__nonsense=x&limit=x", filters(50)))
            .await
            .expect_reply(422, problem.clone());
        api.get(&format!("{path}?{}", filters(1500))).await.expect_reply(422, problem.clone());
        let numbers: Vec<String> = (1..5900).map(|n: i64| n.to_string()).collect();
        for values in [numbers.join(","), vec!["1"; 14_000].join(",")] {
            for name in ["source_id__in", "source_id__in__exclude", "event_type__in"] {
                let reply = api.get(&format!("{path}?{name}={values}")).await;
                assert!([200, 422].contains(&reply.status), "{name}: {:.300}", format!("{reply:?}"));
            }
        }
    }
}

#[tokio::test]
async fn a_list_that_the_caller_knows_is_answered_with_304_and_a_long_one_is_compressed() {
    let server = HistoryServer::start().await;
    let api = server.tenant("known").await;
    add(&api, (1..20).map(system_event).collect()).await.expect_reply(201, json!({"inserted": 19}));
    let path = "/api/system-events";
    let shown = api.get(path).await;
    let tag = shown.header("etag").to_owned();
    let call = |method: &str, name: &str, value: &str| {
        api.call(method, path).header("accept-encoding", "gzip").header(name, value).send()
    };

    for known in [&tag, &format!("W/{tag}"), "*"] {
        let known = call("GET", "if-none-match", known).await;
        assert_eq!((known.status, known.text.as_str(), known.header("content-type")), (304, "", ""));
        for header in ["etag", "vary", "cache-control"] {
            assert!(!known.header(header).is_empty() && known.header(header) == shown.header(header), "{header}");
        }
    }
    let mut text = String::new();
    let compressed = call("GET", "if-none-match", "\"other\"").await;
    assert_eq!(
        (compressed.status, compressed.header("content-encoding"), compressed.header("etag")),
        (200, "gzip", &*tag)
    );
    flate2::read::GzDecoder::new(compressed.bytes.as_ref()).read_to_string(&mut text).unwrap();
    assert!(text == shown.text && 2 * compressed.bytes.len() < text.len());

    add(&api, json!([system_event(20)])).await.expect_reply(201, json!({"inserted": 1}));
    assert_eq!(call("GET", "if-none-match", &tag).await.status, 200);
    let address = api.call("GET", "/api/files/upload-url").header("accept-encoding", "identity;q=0, gzip").send().await;
    assert_eq!((address.status, address.header("content-encoding")), (200, ""));
}
