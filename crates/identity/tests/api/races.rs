//! The promises under concurrent calls: limits, unique names, tokens that work once, last owners and last super admins, counters.
//! They include exact limits and sessions that end immediately. `reliability/races` repeats them.

use crate::TestServer;
use crate::message::{self, limit_exceeded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, PASSWORD, PreparedCall, Reply, one_wins, rounds, send_concurrently};

/// The number of calls in a crowd.
const CROWD: usize = 60;

/// Checks that one call of a crowd succeeds in each round, and that all others are refused with `refused`. `undo` removes the
/// result of the successful call for the next round.
async fn one_wins_each_round(
    crowd: impl Fn(usize) -> Vec<PreparedCall>,
    status: u16,
    refused: Value,
    undo: impl AsyncFn(Value) -> Reply,
) {
    for round in 1..=rounds(1) {
        let won = one_wins(&send_concurrently(crowd(round)).await, status, &refused);
        if round < rounds(1) {
            let undone = undo(won).await;
            assert!(matches!(undone.status, 200 | 204), "{undone:?}");
        }
    }
}

/// Returns the address of an instance that was created in a collection.
fn created_address(collection: &str, won: &Value) -> String {
    format!("{collection}{}/", won["id"])
}

/// Returns the body of an account that needs no mail.
fn account(account_type: &str, name: usize) -> Value {
    let mut body = json!({
        "username": format!("{account_type}.{name}@example.com"), "account_type": account_type, "first_name": "Made",
        "last_name": name.to_string(), "password": PASSWORD,
    });
    if matches!(account_type, "internal" | "external" | "full" | "super_admin") {
        body["delay_activation"] = json!(true);
    }
    body
}

/// Creates `count` external accounts. Returns their ids.
async fn accounts(api: &ApiClient, count: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(api.post("/api/users/", account("external", n)).await.id());
    }
    ids
}

/// Returns each counter, and the number of rows that it counts.
async fn counters(server: &TestServer) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
    let read = |conn: &mut Conn| {
        let stored = Sql::new("SELECT name, CAST(sum(n) AS BIGINT) FROM all_counters GROUP BY name HAVING sum(n) <> 0");
        let counted = Sql::new(
            "SELECT 'users_' || u.account_type, count(*) FROM users u WHERE u.is_deleted = 0 AND u.status <> 'anonymized' \
             GROUP BY u.account_type \
             UNION ALL SELECT 'users_anonymized', count(*) FROM users u WHERE u.is_deleted = 0 AND u.status = 'anonymized' \
             HAVING count(*) > 0 \
             UNION ALL SELECT 'roles', count(*) FROM roles HAVING count(*) > 0 \
             UNION ALL SELECT 'user_groups', count(*) FROM user_groups HAVING count(*) > 0",
        );
        let mut all = |sql: &Sql| conn.query_all(sql, |row| Ok((row.text(0)?.to_owned(), row.int(1)?)));
        Ok::<_, StoreError>((all(&stored)?, all(&counted)?))
    };
    let (stored, counted) = server.build.db.read(read).await.unwrap();
    (stored.into_iter().collect(), counted.into_iter().collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_place_that_is_left_is_taken_once_by_accounts() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (account_type, limit) in [("service_external", 5), ("super_admin", 25), ("service_internal", 1)] {
        let held = if account_type == "super_admin" { 2 } else { 1 };
        for n in held..limit {
            api.post("/api/users/", account(account_type, 1000 + n)).await.expect_created();
        }
        let body = |round: usize, n: usize| account(account_type, 10_000 * round + n);
        let crowd = |round| (0..CROWD).map(|n| api.call("POST", "/api/users/").json(&body(round, n))).collect();
        let refused = limit_exceeded(&format!("{limit} {account_type} accounts"));
        one_wins_each_round(crowd, 201, refused, async |won| api.delete(&created_address("/api/users/", &won)).await)
            .await;
    }
    // A change of type counts against the limit, too.
    let users = accounts(&api, CROWD).await;
    let gone = api.get("/api/users/?account_type=super_admin&ordering=-id").await.ids()[0];
    api.delete(&format!("/api/users/{gone}/")).await.expect_empty();
    let promote = json!({"account_type": "super_admin"});
    let call = |id: &i64| api.call("PATCH", &format!("/api/users/{id}/")).json(&promote);
    let crowd = |_| users.iter().map(call).collect();
    let refused = limit_exceeded("25 super_admin accounts");
    let demote = json!({"account_type": "external"});
    let undo = async |won: Value| api.patch(&created_address("/api/users/", &won), demote.clone()).await;
    one_wins_each_round(crowd, 200, refused, undo).await;
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
    assert_eq!((kept["users_super_admin"], kept["users_external"]), (25, CROWD as i64 - 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_counted_exactly_far_below_the_limit_and_near_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let set_limit = async |value: i64| {
        let sql = Sql::new(
            "INSERT INTO limits(name, value) VALUES ('users_external', $1) ON CONFLICT(name) DO UPDATE SET value = $1",
        );
        let sql = sql.arg(value);
        server.build.db.write(move |conn| conn.exec(&sql)).await.unwrap();
    };
    let create = async |first: usize| {
        let calls: Vec<_> =
            (0..CROWD).map(|n| api.call("POST", "/api/users/").json(&account("external", first + n))).collect();
        let replies = send_concurrently(calls).await;
        (replies.iter().filter(|reply| reply.status == 201).count(), replies)
    };
    // The first creates lock a part of the counter each, the later ones the whole.
    set_limit(1_000 + CROWD as i64 / 2).await;
    assert_eq!(create(0).await.0, CROWD);

    set_limit(CROWD as i64 + 7).await;
    let (created, replies) = create(CROWD).await;
    assert_eq!(created, 7);
    for reply in replies.iter().filter(|reply| reply.status != 201) {
        reply.refuses(limit_exceeded(&format!("{} external accounts", CROWD + 7)));
    }

    // Deletions give back while accounts are created.
    set_limit(1_000_000).await;
    let ids = api.get("/api/users/?account_type=external&limit=20").await.ids();
    let deletions = ids.iter().map(|id| api.call("DELETE", &format!("/api/users/{id}/")));
    let creates = (0..20).map(|n| api.call("POST", "/api/users/").json(&account("external", 1_000 + n)));
    for reply in send_concurrently(deletions.chain(creates)).await {
        assert!(matches!(reply.status, 201 | 204), "{reply:?}");
    }
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
    assert_eq!(kept["users_external"], CROWD as i64 + 7);
    assert_eq!(api.get("/api/users/?limit=1").await.ok()["total_count"], json!(CROWD + 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_place_that_is_left_is_taken_once_by_roles_and_groups() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for n in 1..100 {
        api.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
    }
    let body = |n: usize| json!({"name": format!("One more {n}")});
    let crowd = |path: &'static str| (0..CROWD).map(|n| api.call("POST", path).json(&body(n))).collect();
    let undo = async |path: &str, won: Value| api.delete(&created_address(path, &won)).await;
    let (roles, groups) = ("/api/roles/", "/api/user-groups/");
    let refused = limit_exceeded("100 Roles");
    one_wins_each_round(|_| crowd(roles), 201, refused, async |won| undo(roles, won).await).await;

    let smaller = |conn: &mut Conn| conn.exec(&Sql::new("INSERT INTO limits(name, value) VALUES ('user_groups', 1)"));
    server.build.db.write(smaller).await.unwrap();
    let refused = limit_exceeded("1 User Groups");
    one_wins_each_round(|_| crowd(groups), 201, refused, async |won| undo(groups, won).await).await;
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_place_that_is_left_is_taken_once_below_a_group() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let users = accounts(&api, 60).await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    let sets = "/api/user-groups/1/permission-sets/";
    for n in 3..=9 {
        api.post(sets, json!({"name": format!("Set {n}")})).await.expect_created();
    }
    let body = |n: usize| json!({"name": format!("One more {n}")});
    let crowd = |_| (0..CROWD).map(|n| api.call("POST", sets).json(&body(n))).collect();
    let refused = limit_exceeded("10 User Group Permission Sets");
    one_wins_each_round(crowd, 201, refused, async |won| api.delete(&created_address(sets, &won)).await).await;
    assert_eq!(api.get(sets).await["total_count"], 10);

    let mut groups = Vec::new();
    for n in 0..69 {
        groups.push(api.post("/api/user-groups/", json!({"name": format!("Team {n}")})).await.id());
    }
    let assigned = format!("{sets}3/assignees/user-groups/");
    api.post(&assigned, json!(groups[..9])).await.expect_created();
    let assign = |ids: &[i64], path: &str| ids.iter().map(|id| api.call("POST", path).json(&json!([id]))).collect();
    let refused = limit_exceeded("10 permission set assignees");
    let undo = async |won: Value| api.delete_all(&assigned, json!([won[0]["id"]])).await;
    one_wins_each_round(|_| assign(&groups[9..], &assigned), 201, refused, undo).await;
    assert_eq!(api.get(&assigned).await["total_count"], 10);

    let owners = "/api/user-groups/1/owners/users/";
    api.post(owners, json!(users[..8])).await.expect_created();
    let refused = limit_exceeded("10 User Group Owners");
    let undo = async |won: Value| api.delete_all(owners, json!([won[0]["user"]["id"]])).await;
    one_wins_each_round(|_| assign(&users[8..], owners), 201, refused, undo).await;
    assert_eq!(api.get(owners).await["total_count"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_given_once_in_all_its_spellings() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    let spellings = ["Straße ΣΊΣΥΦΟΣ", "STRASSE σίσυφος", "strasse Σίσυφοσ", " sTRaßE ςίςυφος "];
    let not_unique = json!({"name": ["This field must be unique."]});
    for path in ["/api/roles/", "/api/user-groups/", "/api/user-groups/1/permission-sets/"] {
        let body = |n: usize| json!({"name": spellings[n % spellings.len()]});
        let crowd = |_| (0..CROWD).map(|n| api.call("POST", path).json(&body(n))).collect();
        one_wins_each_round(crowd, 201, not_unique.clone(), async |won| api.delete(&created_address(path, &won)).await)
            .await;
    }
    let body = |n: usize| {
        let username = ["straße@example.com", "STRASSE@example.com", "Strasse@EXAMPLE.com"][n % 3];
        json!({"username": username, "account_type": "internal", "first_name": "A", "last_name": "B", "delay_activation": true})
    };
    let crowd = |_| (0..CROWD).map(|n| api.call("POST", "/api/users/").json(&body(n))).collect();
    let refused = json!({"username": ["This field must be unique."]});
    one_wins_each_round(crowd, 201, refused, async |won| api.delete(&created_address("/api/users/", &won)).await).await;

    // A PATCH has the same rule.
    let mut roles = Vec::new();
    for n in 0..CROWD {
        roles.push(api.post("/api/roles/", json!({"name": format!("Role {n}")})).await.id());
    }
    let body = |id: i64| json!({"name": if id % 2 == 0 { "Fuß" } else { "FUSS" }});
    let call = |id: &i64| api.call("PATCH", &format!("/api/roles/{id}/")).json(&body(*id));
    let undo = async |won: Value| {
        let other = json!({"name": format!("Another {}", won["id"])});
        api.patch(&created_address("/api/roles/", &won), other).await
    };
    one_wins_each_round(|_| roles.iter().map(call).collect(), 200, not_unique, undo).await;
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_a_reserved_name_in_any_spelling_or_by_any_way() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    let sets = "/api/user-groups/1/permission-sets/";
    api.post(sets, json!({"name": "Custom"})).await.expect_created();
    let names = api.get(sets).await.column("name");
    let spellings =
        ["owners", "EVERYONE", "\u{a0}Members", "ｅｖｅｒｙｏｎｅ", "ⓜembers", "memberſ", "𝐎wners", " oWnErS "];
    for _ in 0..rounds(1) {
        let ways = [("POST", sets.to_owned()), ("PATCH", format!("{sets}3/"))];
        let attempts = (0..CROWD).map(|n| (&ways[n % 2], spellings[n / 2 % spellings.len()]));
        let replies = send_concurrently(
            attempts.clone().map(|((method, path), name)| api.call(method, path).json(&json!({"name": name}))),
        )
        .await;
        for ((_, name), reply) in attempts.zip(replies) {
            reply.refuses(json!({"name": [format!("Name {} is reserved and cannot be used.", name.trim())]}));
        }
        assert_eq!(api.get(sets).await.column("name"), names);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_those_who_saw_the_same_state_one_changes_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let group = api.post("/api/user-groups/", json!({"name": "Group"})).await;
    let role = api.post("/api/roles/", json!({"name": "Role"})).await;
    let security = api.get("/api/security/").await;
    for (path, original, body) in [
        ("/api/user-groups/1/", &group, json!({"description": "x"})),
        ("/api/roles/1/", &role, json!({"description": "x"})),
        ("/api/security/", &security, json!({"systemconf": {"password_prevent_reuse": true}})),
    ] {
        let call = || api.call("PATCH", path).header("if-match", original.header("etag")).json(&body);
        let crowd = send_concurrently((0..CROWD).map(|_| call())).await;
        let changed = crowd.iter().filter(|reply| reply.status == 200).count();
        let late = crowd.iter().filter(|reply| **reply == (412, message::detail("Object has been changed."))).count();
        assert_eq!((changed, late), (1, CROWD - 1), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_is_redeemed_once_and_its_second_use_ends_the_session() {
    let server = TestServer::start().await;
    for crowd in [2, 2, 2, CROWD].repeat(rounds(1)) {
        let user = server.admin().await;
        let body = json!({"refresh_token": user.refresh_token});
        let anonymous = server.anonymous();
        let replies =
            send_concurrently((0..crowd).map(|_| anonymous.call("POST", "/api/auth/refresh/").json(&body))).await;
        let (pairs, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
        assert_eq!((pairs.len(), refused.len()), (1, crowd - 1));
        assert!(refused.iter().all(|reply| **reply == (401, message::bad_token())));
        // The token was stolen, and the thief is unknown. Neither the old pair nor the new one works.
        let new = anonymous.with_pair(&user.username, &pairs[0].json);
        for client in [&user, &new] {
            client.get("/api/users/me/").await.expect_reply(401, message::bad_token());
            let body = json!({"refresh_token": client.refresh_token});
            anonymous.post("/api/auth/refresh/", body).await.expect_reply(401, message::bad_token());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_remains_when_all_are_removed_at_once() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let users = accounts(&api, 9).await;
    for n in 1..=5 * rounds(1) {
        let owners = format!("/api/user-groups/{n}/owners/users/");
        api.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.expect_created();
        api.post(&owners, json!(users)).await.expect_created();
        // Six calls remove the same owner at once.
        let all = users.iter().copied().chain([1]).cycle().take(CROWD);
        let replies = send_concurrently(all.map(|id| api.call("DELETE", &owners).json(&json!([id])))).await;
        let (removed, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 204);
        let last = message::detail("The last owner must remain.");
        assert_eq!(removed.len(), 9);
        assert!(refused.iter().any(|reply| **reply == (400, last.clone())), "{refused:?}");
        assert!(refused.iter().all(|reply| reply.status == 400), "{refused:?}");
        assert_eq!(api.get(&owners).await["total_count"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_super_admin_remains_when_all_go_at_once() {
    let last = message::detail("The last super admin must remain.");
    let to_external = json!({"account_type": "external"});
    let nothing = json!({});
    let ways: [(&str, &str, &Value); 4] = [
        ("POST", "deactivate/", &nothing),
        ("POST", "anonymize/", &nothing),
        ("DELETE", "", &nothing),
        ("PATCH", "", &to_external),
    ];
    for first in ways.iter().cycle().take(ways.len() * rounds(1)) {
        let server = TestServer::start().await;
        let robot = server.as_type("service_internal").await;
        let second = server.as_type("super_admin").await;
        for other in &ways {
            // The remaining super admin is part of the next round.
            let left = robot.get("/api/users/?is_super_admin=true&is_available=true").await.ids();
            let next = if left.len() == 2 { second.id } else { server.as_type("super_admin").await.id };
            let call = |id: i64, way: &(&str, &str, &Value)| {
                robot.call(way.0, &format!("/api/users/{id}/{}", way.1)).json(way.2)
            };
            let replies = send_concurrently([call(left[0], first), call(next, other)]).await;
            let went = replies.iter().filter(|reply| matches!(reply.status, 200 | 204)).count();
            let kept = replies.iter().filter(|reply| **reply == (400, last.clone())).count();
            assert_eq!((went, kept), (1, 1), "{first:?} {other:?} {replies:?}");
        }
        let (kept, counted) = counters(&server).await;
        assert_eq!(kept, counted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_assignments_of_a_user_store_one() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let users = accounts(&api, 10).await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    api.post("/api/user-groups/1/permission-sets/", json!({"name": "Set"})).await.expect_created();
    let (set, members) = ("/api/user-groups/1/permission-sets/3/assignees/users/", "/api/user-groups/1/members/users/");
    for path in [set, members].repeat(rounds(1)) {
        let shifted = |n: usize| users.iter().cycle().skip(n % 10).take(10).collect::<Vec<_>>();
        let crowd = send_concurrently((0..CROWD).map(|n| api.call("POST", path).json(&json!(shifted(n))))).await;
        assert!(crowd.iter().all(|reply| reply.status == 201), "{crowd:?}");
        assert_eq!(api.get(path).await["total_count"], 10);
        // They are removed once, too.
        let crowd = send_concurrently((0..CROWD).map(|_| api.call("DELETE", path).json(&json!(users)))).await;
        assert_eq!(crowd.iter().filter(|reply| reply.status == 204).count(), 1);
        assert_eq!(crowd.iter().filter(|reply| reply.status == 400).count(), CROWD - 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_during_an_assignment_remove_its_references() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let users = accounts(&api, 10).await;
    for id in &users {
        api.patch(&format!("/api/users/{id}/"), json!({"account_type": "full"})).await.ok();
    }
    for round in 1..=5 * rounds(1) {
        let role = api.post("/api/roles/", json!({"name": "Given"})).await.id();
        let group = api.post("/api/user-groups/", json!({"name": "Group"})).await.id();
        let team = api.post("/api/user-groups/", json!({"name": "Team"})).await.id();
        let user = api.post("/api/users/", account("internal", 100 + round)).await.id();
        let set = api.post(&format!("/api/user-groups/{group}/permission-sets/"), json!({"name": "Set"})).await.id();
        let at = |kind: &str| format!("/api/user-groups/{group}/permission-sets/{set}/assignees/{kind}/");
        let mut calls = Vec::new();
        for id in &users {
            calls.push(api.call("PATCH", &format!("/api/users/{id}/")).json(&json!({"roles": [role]})));
            calls.push(api.call("POST", &at("users")).json(&json!([id, user])));
            calls.push(api.call("POST", &format!("/api/user-groups/{group}/members/users/")).json(&json!([user, id])));
        }
        for _ in 0..5 {
            calls.push(api.call("POST", &at("user-groups")).json(&json!([team, group])));
            calls.push(api.call("POST", &at("user-groups")).json(&json!([group, team])));
        }
        calls.insert(12, api.call("DELETE", &format!("/api/roles/{role}/")));
        calls.insert(16, api.call("DELETE", &format!("/api/users/{user}/")));
        calls.insert(20, api.call("DELETE", &format!("/api/user-groups/{team}/")));
        calls.insert(24, api.call("DELETE", &format!("/api/user-groups/{group}/")));
        for reply in send_concurrently(calls).await {
            assert!(matches!(reply.status, 200 | 201 | 204 | 400 | 404), "{reply:?}");
        }
        assert_eq!(api.get("/api/user-groups/").await["total_count"], 0);
        assert_eq!(api.get(&format!("/api/users/?roles={role}")).await.ids(), Vec::<i64>::new());
        for id in &users {
            assert_eq!(api.get(&format!("/api/users/{id}/")).await.ok()["roles"], json!([]));
        }
    }
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_right_after_everything_at_once() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let users = accounts(&api, 20).await;
    for n in 0..10 {
        api.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
        api.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.expect_created();
    }
    let mut calls = Vec::new();
    for (n, id) in users.iter().enumerate() {
        let path = format!("/api/users/{id}/");
        let types = ["internal", "full", "external", "super_admin"];
        calls.push(api.call("PATCH", &path).json(&json!({"account_type": types[n % 4]})));
        calls.push(api.call("PATCH", &path).json(&json!({"account_type": types[(n + 1) % 4]})));
        calls.push(api.call("POST", &format!("{path}anonymize/")).json(&json!({})));
        calls.push(api.call("POST", &format!("{path}deactivate/")).json(&json!({})));
        if n % 2 == 0 {
            calls.push(api.call("DELETE", &path));
        }
        calls.push(api.call("POST", "/api/users/").json(&account("internal", n)));
        calls.push(api.call("DELETE", &format!("/api/roles/{}/", n % 10 + 1)));
        calls.push(api.call("DELETE", &format!("/api/user-groups/{}/", n % 10 + 1)));
        calls.push(api.call("POST", "/api/roles/").json(&json!({"name": format!("New {}", n % 15)})));
        calls.push(api.call("POST", "/api/user-groups/").json(&json!({"name": format!("New {}", n % 15)})));
    }
    for reply in send_concurrently(calls).await {
        assert!(matches!(reply.status, 200 | 201 | 204 | 400 | 404), "{reply:?}");
    }
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
    let total = counted.iter().filter(|(name, _)| name.starts_with("users_")).map(|(_, n)| n).sum::<i64>();
    assert_eq!(api.get("/api/users/").await["total_count"], total);
    assert_eq!(api.get("/api/user-groups/").await["total_count"], counted["user_groups"]);
}

#[tokio::test]
async fn an_anonymized_user_does_not_count_towards_an_account_type() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let user = accounts(&api, 1).await[0];
    let path = format!("/api/users/{user}/");
    api.post(&format!("{path}anonymize/"), json!({})).await.ok();
    api.patch(&path, json!({"account_type": "full"})).await.ok();
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
    assert_eq!(kept, BTreeMap::from([("users_anonymized".to_owned(), 1), ("users_super_admin".to_owned(), 1)]));
    api.delete(&path).await.expect_empty();
    let (kept, counted) = counters(&server).await;
    assert_eq!(kept, counted);
}
