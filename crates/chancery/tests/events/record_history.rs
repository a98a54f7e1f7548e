//! The history of a record: events of the main API, read from the real history service.

use crate::TestServer;
use crate::history_delivery::{count_waiting, number, request};
use crate::message;
use platform::events::history_client::HistoryAddress;
use platform::events::outbox::{self, OutboxHistoryEvent, Uuid};
use platform::events::record_events::{
    Assignee, EventPerson, EventSource, FieldValue, GeneratedDocument, RecordChangeEvent, SetName,
};
use platform::events::record_history::{self, RecordHistory};
use platform::kit::ids::{DocumentTemplateId, FieldId, GroupId, RecordId, RecordSetId, UserId};
use platform::kit::refusal::Refusal;
use platform::kit::request::Request;
use platform::table;
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};
use store::Conn;
use testkit::{Behaviour, FakeHistory, HISTORY_KEY, HistoryServer, NOW, SECOND, eventually};

/// Starts a server that delivers to a real history service.
pub async fn start_with_history(history: &HistoryServer) -> TestServer {
    let service = HistoryAddress { url: format!("http://{}", history.address), api_key: HISTORY_KEY.to_owned() };
    TestServer::start_with(|config| (config.events.history, config.identity.address_attempts) = (Some(service), 0))
        .await
}

/// Commits events in one transaction.
pub async fn commit_events(server: &TestServer, events: Vec<OutboxHistoryEvent>) {
    let request = request(server, &server.admin().await).await;
    let put = move |request: &Request, conn: &mut Conn| outbox::put_history(request, conn, &events);
    platform::kit::commit::write(&request, put).await.unwrap();
}

pub async fn delivered(server: &TestServer) {
    eventually(async || count_waiting(server).await == 0).await;
    assert_eq!(number(server, "SELECT count(*) FROM outbox_refused").await, 0);
}

/// Returns the history of a record, like an endpoint.
async fn history(server: &TestServer, record_id: i64, query: &str) -> Result<RecordHistory, Refusal> {
    let route = table().routes().find(|route| route.path == "/api/users/").unwrap();
    let request = server.request(None, route, query).await;
    record_history::history_of_record(&request, RecordId::new(record_id)).await
}

/// Returns the answer to a successful request.
async fn answer(server: &TestServer, record_id: i64, query: &str) -> Json {
    let history = history(server, record_id, query).await.unwrap();
    let shown: Json = serde_json::from_slice(history.answer.body.in_memory_bytes()).unwrap();
    assert_eq!(shown["total_count"], history.total_count);
    shown
}

/// Returns the types of the events that a request lists.
async fn types(server: &TestServer, query: &str) -> Vec<Json> {
    let listed = answer(server, 12, query).await;
    assert_eq!(
        (&listed["total_count"], &listed["filtered_count"]),
        (&json!(3), &json!(listed["results"].as_array().map(Vec::len)))
    );
    listed["results"].as_array().unwrap().iter().map(|event| event["event_type"].clone()).collect()
}

/// Returns three events of the record 12, with a second between them.
fn three() -> Vec<OutboxHistoryEvent> {
    vec![
        RecordChangeEvent::RecordCreated(Vec::new()).to_history_event(
            RecordId::new(12),
            &EventSource::user(UserId::new(3), "Ada Lovelace"),
            NOW,
        ),
        RecordChangeEvent::OwnersAdded(vec![EventPerson::user(UserId::new(4), "Alan Turing")]).to_history_event(
            RecordId::new(12),
            &EventSource::system(),
            NOW + SECOND,
        ),
        RecordChangeEvent::RecordDeleted.to_history_event(
            RecordId::new(12),
            &EventSource::user(UserId::new(4), "Alan Turing"),
            NOW + 2 * SECOND,
        ),
    ]
}

#[tokio::test]
async fn each_event_is_read_back_in_its_shape() {
    let service = HistoryServer::start().await;
    let server = start_with_history(&service).await;
    let field = |value: Json| FieldValue {
        field_id: FieldId::new(31),
        field_type: "string",
        field_name: "State",
        field_value: value,
    };
    let owner = || EventPerson::user(UserId::new(4), "Alan Turing");
    let set = || SetName { id: RecordSetId::new(7), name: "Readers" };
    let file_id = "0b5f1d5e-8a67-4f5c-9c1f-6d5f3f0f2a11";
    let events = [
        RecordChangeEvent::RecordCreated(vec![field(json!("Größe \0 \"1\""))]),
        RecordChangeEvent::OwnerInitialized(owner()),
        RecordChangeEvent::OwnersAdded(vec![owner()]),
        RecordChangeEvent::OwnersRemoved(vec![owner()]),
        RecordChangeEvent::AssigneesAdded(vec![
            Assignee { person: owner(), permission_set: set() },
            Assignee { person: EventPerson::user_group(GroupId::new(9), "Auditors"), permission_set: set() },
        ]),
        RecordChangeEvent::AssigneesRemoved(vec![Assignee { person: owner(), permission_set: set() }]),
        RecordChangeEvent::FieldValuesChanged(vec![field(json!(["a", 1.5, null]))]),
        RecordChangeEvent::RecordDeleted,
        RecordChangeEvent::DocumentGenerated(GeneratedDocument {
            document_template_id: DocumentTemplateId::new(5),
            field_id: FieldId::new(0),
            file_id,
        }),
        RecordChangeEvent::StatusInitialized(field(json!("new"))),
    ];
    let source = EventSource::mcp(UserId::new(3), Some("Ada Lovelace".to_owned()), "assistant 1.0");
    let of = |(at, event): (usize, &RecordChangeEvent<'_>)| {
        event.to_history_event(RecordId::new(12), &source, NOW - at as i64 * SECOND)
    };
    commit_events(&server, events.iter().enumerate().map(of).collect()).await;
    delivered(&server).await;
    let listed = answer(&server, 12, "").await;
    let shown: Vec<(&Json, &Json)> = listed["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (&event["event_type"], &event["event_data"]))
        .collect();
    let value =
        |value: Json| json!([{"field_id": 31, "field_type": "string", "field_value": value, "field_name": "State"}]);
    let person = json!([{"id": 4, "type": "user", "name": "Alan Turing"}]);
    let assignee =
        json!({"id": 4, "type": "user", "name": "Alan Turing", "permission_set": {"id": 7, "name": "Readers"}});
    let group =
        json!({"id": 9, "type": "user_group", "name": "Auditors", "permission_set": {"id": 7, "name": "Readers"}});
    let expected = [
        (&json!("record_created"), &value(json!("Größe \0 \"1\""))),
        (&json!("owner_initialized"), &person),
        (&json!("owners_added"), &person),
        (&json!("owners_removed"), &person),
        (&json!("assignees_added"), &json!([assignee, group])),
        (&json!("assignees_removed"), &json!([assignee])),
        (&json!("field_values_changed"), &value(json!(["a", 1.5, null]))),
        (&json!("record_deleted"), &json!([])),
        (&json!("document_generated"), &json!([{"document_template_id": 5, "field_id": 0, "file_id": file_id}])),
        (&json!("status_initialized"), &value(json!("new"))),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn the_history_of_a_record_is_a_list_of_the_main_api() {
    let service = HistoryServer::start().await;
    let server = start_with_history(&service).await;
    let events = three();
    let id = events[1].event_id;
    let of_another = RecordChangeEvent::RecordDeleted.to_history_event(RecordId::new(13), &EventSource::system(), NOW);
    commit_events(&server, [events, vec![of_another]].concat()).await;
    delivered(&server).await;
    let expected = json!({
        "limit": 1, "offset": 1, "total_count": 3, "filtered_count": 2,
        "next": null,
        "previous": "http://a.example/api/users/?limit=1&event_type__exclude=record_deleted",
        "results": [],
    });
    let mut listed = answer(&server, 12, "event_type__exclude=record_deleted&limit=1&offset=1").await;
    assert_eq!(listed["results"][0]["event_type"], "record_created");
    listed["results"] = json!([]);
    assert_eq!(listed, expected);
    let listed = answer(&server, 12, "event_type=owners_added").await;
    let expected = json!({
        "limit": 25, "offset": 0, "total_count": 3, "filtered_count": 1, "next": null, "previous": null,
        "results": [{
            "event_id": id.to_string(), "event_datetime": "2026-01-31T09:30:01.000000Z", "event_type": "owners_added",
            "event_data": [{"id": 4, "type": "user", "name": "Alan Turing"}],
            "source_type": "system", "source_id": 0, "source_name": null, "source_info": "",
        }],
    });
    assert_eq!(listed, expected);
    // A record without events.
    let expected = json!({
        "limit": 25, "offset": 0, "total_count": 0, "filtered_count": 0, "next": null, "previous": null, "results": [],
    });
    assert_eq!(answer(&server, 14, "").await, expected);
}

#[tokio::test]
async fn each_filter_and_its_opposite_divide_the_events() {
    let service = HistoryServer::start().await;
    let server = start_with_history(&service).await;
    commit_events(&server, three()).await;
    delivered(&server).await;
    let all = [json!("record_deleted"), json!("owners_added"), json!("record_created")];
    // The events that match each filter, by their indices in the list.
    for (filter, value, met) in [
        ("event_type", "owners_added", &[1][..]),
        ("event_type__in", "record_deleted,record_created", &[0, 2]),
        ("source_type", "user", &[0, 2]),
        ("source_type__in", "system,mcp", &[1]),
        ("source_id", "4", &[0]),
        ("source_id__in", "3,4", &[0, 2]),
        ("event_datetime", "2026-01-31T09:30:01Z", &[1]),
        ("event_datetime__gt", "2026-01-31T10:30:01%2B01:00", &[0]),
        ("event_datetime__gte", "2026-01-31T09:30:01Z", &[0, 1]),
        ("event_datetime__lt", "2026-01-31T09:30:01Z", &[2]),
        ("event_datetime__lte", "2026-01-31T09:30:01Z", &[1, 2]),
        ("event_datetime__range", "2026-01-31T09:30:00Z,2026-01-31T09:30:01Z", &[1, 2]),
        // The times are outside the range of all events.
        ("event_datetime__gt", "0001-01-01T00:00:00Z", &[0, 1, 2]),
        ("event_datetime__gt", "9999-12-31T00:00:00Z", &[]),
    ] {
        let (listed, left): (Vec<usize>, Vec<usize>) = (0..3).partition(|at| met.contains(at));
        let shown = |places: Vec<usize>| places.into_iter().map(|at| all[at].clone()).collect::<Vec<_>>();
        assert_eq!(types(&server, &format!("{filter}={value}")).await, shown(listed), "{filter}={value}");
        assert_eq!(types(&server, &format!("{filter}__exclude={value}")).await, shown(left), "not {filter}={value}");
    }
    // The parameters cannot select another record or another order.
    assert_eq!(types(&server, "record_id=13&ordering=event_datetime&unknown=1").await, all);
    // All filters apply together. The service counts a repeated filter once.
    assert_eq!(types(&server, &["source_id=4"; 50].join("&")).await, all[..1]);
}

#[tokio::test]
async fn wrong_parameters_are_told_as_in_every_list() {
    let history_service = FakeHistory::start().await;
    let server = TestServer::start_with(|config| config.events.history = history_service.service()).await;
    let refused = async |query: &str| {
        let refusal = history(&server, 12, query).await.err().unwrap();
        (refusal.status.as_u16(), refusal.body())
    };
    let query = "limit=0&offset=x&event_type=gone&event_type__exclude=1&source_id__gt=1&source_id=x&source_type__in=user,me\
                 &event_datetime=today&event_datetime__range__exclude=2026-01-31T09:30:00Z";
    let expected = json!({
        "limit": ["Ensure this value is greater than or equal to 1."],
        "offset": ["A valid integer is required."],
        "event_type": ["Select a valid choice. gone is not one of the available choices."],
        "event_type__exclude": ["Select a valid choice. 1 is not one of the available choices."],
        "source_id__gt": ["Select a valid choice. gt is not one of the available choices."],
        "source_id": ["A valid integer is required."],
        "source_type__in": ["Select a valid choice. me is not one of the available choices."],
        "event_datetime": ["Enter a valid date/time."],
        "event_datetime__range__exclude": ["Enter a valid date/time."],
    });
    assert_eq!(refused(query).await, (400, expected));
    let many = ["source_id=4"; 51].join("&");
    assert_eq!(refused(&many).await, (400, message::detail("Limit of 50 filters has been exceeded.")));
}

#[tokio::test]
async fn a_service_that_is_away_or_slow_is_told_in_time() {
    let unavailable = |outcome: Result<RecordHistory, Refusal>| {
        let refusal = outcome.err().unwrap();
        assert_eq!((refusal.status.as_u16(), refusal.body()), (503, message::detail("History is unavailable.")));
    };
    let nowhere = TestServer::start_with(|config| config.events.history = None).await;
    unavailable(history(&nowhere, 12, "").await);
    let fake = FakeHistory::start().await;
    let server = TestServer::start_with(|config| config.events.history = fake.service()).await;
    server.admin().await;
    fake.wait_for_events(1).await;
    for behaviour in [Behaviour::Refuses, Behaviour::Hangs] {
        fake.set_behaviour(behaviour);
        let started = Instant::now();
        unavailable(history(&server, 12, "").await);
        assert!(started.elapsed() < Duration::from_secs(8), "{behaviour:?}: {:?}", started.elapsed());
    }
    // Another service uses the address now.
    fake.set_behaviour(Behaviour::Serves);
    fake.set_id(Some("11111111-1111-4111-8111-111111111111"));
    unavailable(history(&server, 12, "").await);
}

#[tokio::test]
async fn a_page_that_is_too_large_is_refused_and_a_smaller_one_shown() {
    let service = HistoryServer::start().await;
    let server = start_with_history(&service).await;
    let text = "x".repeat(2 << 20);
    let changed = |n: i64| {
        let value =
            FieldValue { field_id: FieldId::new(1), field_type: "text", field_name: "Text", field_value: json!(text) };
        OutboxHistoryEvent {
            event_id: Uuid::from_u128(n as u128),
            ..RecordChangeEvent::FieldValuesChanged(vec![value]).to_history_event(
                RecordId::new(12),
                &EventSource::system(),
                NOW + n,
            )
        }
    };
    commit_events(&server, (0..17).map(changed).collect()).await;
    delivered(&server).await;
    let refusal = history(&server, 12, "").await.err().unwrap();
    let expected = json!({"limit": ["Ensure that the page has at most 32 MiB."]});
    assert_eq!((refusal.status.as_u16(), refusal.body()), (400, expected));
    assert_eq!(answer(&server, 12, "limit=10").await["results"].as_array().unwrap().len(), 10);
}
