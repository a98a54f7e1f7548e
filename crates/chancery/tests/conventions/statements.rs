//! What lists cost: every list of the route table answers from at most three statements, whatever its page size.

use platform::kit::route::{Handler, Route};
use platform::table;
use serde_json::json;
use store::Conn;
use testkit::{Client, Server};

async fn statements(server: &Server, admin: &Client, route: &'static Route, query: &str) -> u64 {
    let Handler::Read(handler) = route.handler else { panic!("{} is no read", route.path) };
    let request = server.request(Some(admin), route, query).await;
    let script = move |conn: &mut Conn| handler(&request, conn).map(|_| conn.statements());
    server.build.db.read(script).await.unwrap_or_else(|refusal| panic!("{}: {}", route.path, refusal.body))
}

#[tokio::test]
async fn every_list_answers_from_three_statements() {
    let server = Server::start().await;
    let admin = server.admin().await;
    for n in 0..30 {
        let role = admin.post("/api/roles/", json!({"name": format!("Role {n}")})).await.created()["id"].take();
        let user = json!({"username": format!("u{n}@example.com"), "account_type": "full", "first_name": "U", "last_name": "N", "roles": [role, 1]});
        admin.post("/api/users/", user).await.created();
        admin.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.created();
    }
    let lists: Vec<_> = table().routes().filter(|route| route.selects.is_some()).collect();
    assert!(lists.len() >= 8, "{}", lists.len());
    for route in lists {
        for query in ["limit=2", "limit=1000", "limit=1000&id__gt=0&full_name__icontains=u&ordering=-id"] {
            let cost = statements(&server, &admin, route, query).await;
            assert!(cost <= 3, "{}?{query} took {cost} statements", route.path);
        }
    }
}
