//! The cost of lists: every list of the route table needs at most three statements, or a number of its own, independent of its page
//! size.

use crate::TestServer;
use crate::routes::{create_rows, with_ids};
use http::Method;
use platform::kit::route::{Handler, Route};
use platform::table;
use serde_json::{Value, json};
use store::Conn;
use testkit::ApiClient;

async fn statements(server: &TestServer, admin: &ApiClient, route: &'static Route, query: &str) -> u64 {
    let Handler::Read(handler) = route.handler else { panic!("{} is no read", route.path) };
    let request = server.request(Some(admin), route, query).await;
    let script = move |conn: &mut Conn| handler(&request, conn).map(|_| conn.statements());
    server.build.db.read(script).await.unwrap_or_else(|refusal| panic!("{}: {}", route.path, refusal.body()))
}

/// Lists with more than three statements, and their maximum, independent of the page size. Classes and records show counts, rights
/// and labels beside their rows, which are read for a whole page at a time.
const DEARER: [(&str, u64); 23] = [
    // Loads the user of the identities, and their rights.
    ("/api/users/{user_id}/identities/", 6),
    ("/api/object-classes/", 5),
    ("/api/object-classes/{class_id}/object-records/", 10),
    ("/api/object-classes/{class_id}/object-records/deleted/", 4),
    ("/api/object-records/{record_id}/children/", 14),
    // The record is loaded before the objects below it.
    ("/api/object-records/{record_id}/documents/", 5),
    ("/api/integrations/{uuid}/deliveries/", 4),
    // The sequence or the run is loaded before them, and the rights on the records of a page.
    ("/api/sequences/{id}/versions/", 4),
    ("/api/sequences/{id}/runs/", 7),
    ("/api/sequences/{id}/skipped/", 5),
    ("/api/sequence-runs/", 6),
    ("/api/sequence-runs/{uuid}/steps/", 7),
    ("/api/object-records/{record_id}/sequence-runs/", 4),
    ("/api/object-records/{record_id}/sequences/", 5),
    ("/api/object-records/{record_id}/document-fields/", 3),
    ("/api/object-records/{record_id}/task-templates/", 4),
    // Loads the rights on the records of the tasks, and tasks in groups of twenty-five, because their responses can be long.
    ("/api/tasks/", 9),
    ("/api/tasks/{task_id}/log/", 6),
    ("/api/object-records/{record}/owners/", 4),
    ("/api/object-records/{record_id}/permission-sets/{set_id}/assignees/", 7),
    ("/api/object-records/{record_id}/permission-sets/{set_id}/assignees/user-groups/", 7),
    // These load the record, or the task with its record, before their page.
    ("/api/object-records/{record_id}/comments/", 5),
    ("/api/tasks/{task_id}/comments/", 7),
];

fn is_dearer(route: &Route) -> bool {
    DEARER.iter().any(|(path, _)| *path == route.path)
}

#[tokio::test]
async fn every_list_answers_from_three_statements() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await;
    for n in 0..30 {
        let role =
            admin.post("/api/roles/", json!({"name": format!("Role of {n}")})).await.expect_created()["id"].take();
        let user = json!({"username": format!("user{n}@example.com"), "account_type": "full", "first_name": "U", "last_name": "N", "roles": [role, 1]});
        admin.post("/api/users/", user).await.expect_created();
        admin.post("/api/user-groups/", json!({"name": format!("Group of {n}")})).await.expect_created();
    }
    let lists: Vec<_> = table().routes().filter(|route| route.selects.is_some() && !is_dearer(route)).collect();
    assert!(lists.len() >= 13, "{}", lists.len());
    for route in lists {
        let sorted = route.selects.and_then(|declared| declared.fields.iter().find(|field| field.sort));
        let order = sorted.map_or_else(String::new, |field| format!("&ordering=-{}", field.name));
        let id = route.selects.and_then(|declared| declared.field("id"));
        let by_id = if id.is_some_and(|id| id.filters_exactly) { "id=1" } else { "id__gt=0" };
        let filtered = format!("limit=1000&{by_id}&full_name__icontains=u{order}");
        for query in ["limit=2", "limit=1000", &filtered] {
            let cost = statements(&server, &admin, route, query).await;
            assert!(cost <= 3, "{}?{query} took {cost} statements", route.path);
        }
    }
}

/// Creates thirty classes. The first has relations to itself and to the second. Thirty records have children, labels of every kind,
/// owners and assignees.
async fn fill_classes(admin: &ApiClient, assignee: i64) {
    for n in 1..=30 {
        admin.post("/api/object-classes/", json!({"name": format!("Class {n}")})).await.expect_created();
    }
    let options = json!([{"value": "a", "text": "A"}, {"value": "b", "text": "B"}]);
    for (class, fields) in [
        (2, vec![json!({"label": "Title", "type": "string"})]),
        (
            1,
            vec![
                json!({"label": "Title", "type": "string"}),
                json!({"label": "Person", "type": "user"}),
                json!({"label": "Kind", "type": "enum", "options": options}),
                json!({"label": "Kinds", "type": "set", "options": options}),
                json!({"label": "Other", "type": "relation", "related_object_class": 2}),
                json!({"label": "Above", "type": "relation", "related_object_class": 1}),
            ],
        ),
    ] {
        for field in fields {
            admin.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
        }
        let set = json!({"name": "Viewers", "permissions": {"object_records": ["view"]}});
        admin.post(&format!("/api/object-classes/{class}/record-permission-sets/"), set).await.expect_created();
    }
    let make = async |class: i64, fields: Value, set: i64| {
        let given = json!([{"permission_set": set, "users": [assignee]}]);
        let body = json!({"fields": fields, "permission_sets": given});
        admin.post(&format!("/api/object-classes/{class}/object-records/"), body).await.id()
    };
    let set_of =
        async |class: i64| admin.get(&format!("/api/object-classes/{class}/record-permission-sets/")).await.ids()[0];
    let (of_one, of_two) = (set_of(1).await, set_of(2).await);
    // The first record of the build is the parent of all others.
    let first = make(1, json!({"title": "first"}), of_one).await;
    assert_eq!(first, 1);
    for n in 0..30 {
        let other = make(2, json!({"title": format!("other {n}")}), of_two).await;
        let fields = json!({
            "title": format!("title {n}"), "person": assignee, "kind": "a", "kinds": ["a", "b"], "other": other, "above": first,
        });
        make(1, fields, of_one).await;
        let gone = make(1, json!({}), of_one).await;
        admin.delete(&format!("/api/object-records/{gone}/")).await.expect_empty();
    }
}

#[tokio::test]
async fn a_list_of_classes_or_records_costs_the_same_whatever_its_page() {
    let server = TestServer::start().await;
    let (admin, assignee) = (server.admin().await, server.as_type("internal").await);
    fill_classes(&admin, assignee.id).await;
    let dearer: Vec<_> = table().routes().filter(|route| route.method == Method::GET && is_dearer(route)).collect();
    for route in &dearer {
        let (_, most) = DEARER.iter().find(|(path, _)| *path == route.path).unwrap();
        let has_right = async |caller: &ApiClient| {
            let path = with_ids(route.path, &[1]);
            caller.get(&path).await.status == 200
        };
        for caller in [&admin, &assignee] {
            if !has_right(caller).await {
                continue;
            }
            // A process loads a declaration only once.
            statements(&server, caller, route, "").await;
            let page = statements(&server, caller, route, "limit=2").await;
            let all = statements(&server, caller, route, "limit=1000").await;
            println!("{}: {page} and {all} statements for {}", route.path, caller.username);
            assert!(all == page && all <= *most, "{} took {page} and {all} statements", route.path);
        }
    }
    assert_eq!(dearer.len(), DEARER.len());
}
