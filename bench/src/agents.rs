//! The cost of agents beside their persons, who send the same calls of the main API (`bench/agents`).

use crate::expected::ask;
use crate::failure::Failure;
use crate::process::{Usage, resident};
use crate::request::head;
use crate::seed::{config, token_of};
use crate::tasks::milliseconds;
use platform::identity::access_tokens::AccessTokens;
use platform::kit::ids::{SessionId, UserId};
use serde_json::{Value as Json, json};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store::Sql;

/// The number of persons with an agent.
const AGENTS: usize = 500;
/// The number of agents that call continuously, and the number of grants of each. A grant may call 600 times a minute.
const BUSY: usize = 16;
const GRANTS: usize = 128;
const RECORDS: usize = 2_000;
/// The number of records that only super admins may view, after the others.
const HIDDEN: usize = 2_000;
/// The number of tasks of the first of these.
const TASKS: usize = 200;
/// The number of different filters.
const FILTERS: usize = 50;
const DAY_US: i64 = 86_400_000_000;

/// Creates a class with records that all users of a group, and their agents, may view, and with others that they may not view.
/// Creates a class that they may not view.
pub fn set_up(address: &str, directory: &Path) -> Result<(), Failure> {
    let mut stream = connect(address)?;
    let token = fs::read_to_string(directory.join("token"))?;
    let mut send = |method: &str, path: &str, body: Json| -> Result<Json, Failure> {
        let (head, body) = (head(&format!("{method} {path}"), "localhost", &token), body.to_string());
        let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = ask(&mut stream, format!("{head}{body}").as_bytes())?;
        Ok(serde_json::from_str(&answer).unwrap_or_default())
    };
    send("POST", "/api/object-classes/", json!({"name": "Order", "alias": "order"}))?;
    for (alias, field_type) in [
        ("title", "string"),
        ("number", "string"),
        ("amount", "integer"),
        ("due_on", "date"),
        ("remark", "text"),
        ("is_paid", "boolean"),
        ("email", "email"),
        ("tax", "decimal"),
    ] {
        let mut field = json!({"label": alias, "alias": alias, "type": field_type});
        if field_type == "decimal" {
            field["scale"] = json!(2);
        }
        send("POST", "/api/object-classes/1/fields/", field)?;
    }
    send("POST", "/api/object-classes/", json!({"name": "Secret", "alias": "secret"}))?;
    let integration = json!({
        "type": "ai_mcp", "name": "Agents", "is_enabled": true, "object_classes": [1], "redirect_uris": ["https://agent.example/"],
    });
    let integration = send("POST", "/api/integrations/", integration)?;
    let connector =
        send("POST", "/api/mcp/connectors/", json!({"name": "Assistant", "integration": integration["uuid"]}))?;
    let uuid = connector["server_url"].as_str().and_then(|url| url.split('/').nth(4)).unwrap_or_default();
    fs::write(directory.join("connector"), uuid)?;
    let view = json!({"object_records": ["view"], "tasks": ["view"]});
    let sets = "/api/object-classes/1/record-permission-sets/";
    send("POST", sets, json!({"name": "Readers", "permissions": view}))?;
    let given = json!({"mcp_permissions": [{"connector": 1, "permissions": view}]});
    send("PATCH", &format!("{sets}1/"), given)?;
    send("POST", "/api/user-groups/", json!({"name": "Clerks"}))?;
    let records: Vec<Json> = (0..RECORDS + HIDDEN)
        .map(|at| {
            let sets = if at < RECORDS { json!([{"permission_set": 1, "user_groups": [1]}]) } else { json!([]) };
            json!({
                "fields": {
                    "title": format!("Order {at}"), "number": format!("N-{at}"), "amount": at % FILTERS, "due_on": "2026-01-31",
                    "remark": "To be delivered to the gate at the back", "is_paid": at % 2 == 0, "email": "a@example.com", "tax": "19.00",
                },
                "permission_sets": sets,
            })
        })
        .collect();
    for some in records.chunks(500) {
        send("POST", "/api/object-classes/1/object-records/batch/", json!({"items": some}))?;
    }
    send("POST", "/api/object-classes/2/object-records/", json!({}))?;
    let template = json!({"name": "Deliver", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    send("POST", "/api/task-templates/", template)?;
    for record in (1..=TASKS).chain(RECORDS + 1..=RECORDS + TASKS) {
        let task = json!({"task_template": 1, "name": "To be delivered", "object_record": record});
        send("POST", "/api/tasks/", task)?;
    }
    Ok(())
}

/// Writes a line for each person: an access token of their own, and those of their agent, one for each of its grants.
pub fn tokens(directory: &str, url: Option<&str>) -> Result<(), Failure> {
    let uuid = fs::read_to_string(Path::new(directory).join("connector"))?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let app = platform::open(config(directory, url)).await.map_err(|error| error.to_string())?;
        let build = app.build("localhost").await?.ok_or("there is no build")?;
        let people = |conn: &mut store::Conn| {
            let sql = "SELECT id FROM users WHERE status = 'active' AND account_type = 'internal' ORDER BY id LIMIT $1";
            conn.query_all(&Sql::new(sql).arg(AGENTS as i64), |row| row.int(0))
        };
        let people = build.db.read(people).await?;
        let (now, audience) = (app.clock.now(), format!("{}/mcp/{uuid}", build.uid));
        let mut lines = String::new();
        for (at, user) in people.into_iter().enumerate() {
            let token = token_of(&app, &build, user).await?;
            let grants = if at < BUSY { GRANTS } else { 1 };
            let add = move |conn: &mut store::Conn| {
                let sql = "INSERT INTO user_group_members(group_id, user_id, created_at, created_by) VALUES (1, $1, $2, 1)";
                conn.exec(&Sql::new(sql).arg(user).arg(now))?;
                let sql = "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent, connector) \
                           VALUES ($3, $1, $1, $2, '127.0.0.1', 'bench', 1) RETURNING id";
                let begin = |_| conn.query_one(&Sql::new(sql).arg(now).arg(now + DAY_US).arg(user), |row| row.id(0));
                (0..grants).map(begin).collect::<Result<Vec<SessionId>, _>>()
            };
            lines.push_str(&token);
            for grant in build.db.write::<_, store::StoreError>(add).await? {
                lines.push(' ');
                lines.push_str(&app.slot::<AccessTokens>().issue_of_grant(&audience, UserId::new(user), grant, now, 86_400));
            }
            lines.push('\n');
        }
        fs::write(Path::new(directory).join("agents"), lines)?;
        app.store.close().await;
        Ok(())
    })
}

/// Sends a number of calls over a number of connections, each of another person, whose calls alternate between their grants. Prints
/// a line: requests per second, their median and p99 in milliseconds, processor microseconds per request, MiB above the memory
/// before.
pub fn calls(
    address: &str,
    directory: &Path,
    operation: &str,
    connections: &str,
    count: &str,
    pid: &str,
) -> Result<(), Failure> {
    let (connections, count, pid): (usize, usize, u32) = (connections.parse()?, count.parse()?, pid.parse()?);
    let lines = fs::read_to_string(directory.join("agents"))?;
    let people: Vec<Vec<&str>> = lines.lines().map(|line| line.split(' ').collect()).take(connections).collect();
    let path = format!("/mcp/{}/", fs::read_to_string(directory.join("connector"))?);
    let (idle, used, started, is_over) = (resident(pid), Usage::of(&[pid]), Instant::now(), AtomicBool::new(false));
    let (mut times, most) = thread::scope(|scope| -> Result<_, Failure> {
        let most = scope.spawn(|| {
            let mut most: f64 = 0.0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(resident(pid));
                thread::sleep(Duration::from_millis(50));
            }
            most
        });
        let callers: Vec<_> = people
            .iter()
            .enumerate()
            .map(|(person, tokens)| {
                let path = &path;
                scope.spawn(move || -> Result<Vec<Duration>, String> {
                    let mut stream = connect(address).map_err(|error| error.to_string())?;
                    let mut times = Vec::new();
                    let (own, agents) = tokens.split_first().ok_or("a person has no token")?;
                    for (turn, at) in (person..count).step_by(connections).enumerate() {
                        let agent = agents.get(turn % agents.len().max(1)).ok_or("a person has no agent")?;
                        let request = request(operation, path, own, agent, at)?;
                        let began = Instant::now();
                        let answer = ask(&mut stream, request.as_bytes()).map_err(|error| error.to_string())?;
                        times.push(began.elapsed());
                        let is_found = !answer.contains("\"isError\":true") && answer.contains("To be delivered");
                        let is_sought = !operation.ends_with("_hidden") && !operation.ends_with("_missing");
                        let is_none = answer.contains("Not found.") || answer.contains("\"results\":[]");
                        if is_found != is_sought || is_none == is_sought {
                            return Err(answer);
                        }
                    }
                    Ok(times)
                })
            })
            .collect();
        let mut times = Vec::with_capacity(count);
        let mut failed = None;
        for caller in callers {
            match caller.join().map_err(|_| "a caller ended".to_owned()).and_then(|done| done) {
                Ok(some) => times.extend(some),
                Err(error) => failed = Some(error),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let most = most.join().map_err(|_| "the meter ended")?;
        failed.map_or(Ok((times, most)), |error| Err(error.into()))
    })?;
    let elapsed = started.elapsed();
    // Log entries of reads are written soon after.
    thread::sleep(Duration::from_secs(2));
    let used = Usage::of(&[pid]).since(&used);
    println!(
        "{operation},{:.0},{:.2},{:.2},{:.1},{:.1}",
        times.len() as f64 / elapsed.as_secs_f64(),
        milliseconds(&mut times, 0.5),
        milliseconds(&mut times, 0.99),
        used.microseconds / times.len() as f64,
        most - idle,
    );
    Ok(())
}

fn request(operation: &str, path: &str, own: &str, agent: &str, at: usize) -> Result<String, String> {
    // Each caller uses the same ones in another order.
    let (record, filter) = (at * 7919 % RECORDS + 1, at * 7919 % FILTERS);
    // A new limit makes the server read a former request again.
    let anew = 10 + at / RECORDS % 90;
    let search = |by: &str, what: Json, limit: usize| {
        let arguments = json!({"object_class": 1, by: what, "ordering": "-id", "limit": limit});
        json!({"name": "search_records", "arguments": arguments})
    };
    let tasks = |id: usize| json!({"name": "list_tasks", "arguments": {"filters": {"id": id}, "limit": anew}});
    let tool = match operation {
        "record_hidden" => json!({"name": "get_record", "arguments": {"object_record": RECORDS + record}}),
        "record_missing" => json!({"name": "get_record", "arguments": {"object_record": 10 * RECORDS + record}}),
        "search_hidden" => search("filters", json!({"id": RECORDS + record}), anew),
        "search_missing" => search("filters", json!({"id": 10 * RECORDS + record}), anew),
        "words_hidden" => search("search", format!("Order {}", RECORDS + record).into(), anew),
        "words_missing" => search("search", format!("Order {}", 10 * RECORDS + record).into(), anew),
        "words" => search("search", format!("Order {}", record - 1).into(), anew),
        "tasks_hidden" => tasks(TASKS + record % TASKS + 1),
        "tasks_missing" => tasks(10 * TASKS + record % TASKS + 1),
        "class_hidden" => json!({"name": "search_records", "arguments": {"object_class": 2}}),
        "class_missing" => json!({"name": "search_records", "arguments": {"object_class": 3}}),
        "get" => return Ok(format!("{}\r\n", head(&format!("GET /api/object-records/{record}/"), "localhost", own))),
        "list" => {
            let line = format!("GET /api/object-classes/1/object-records/?limit=10&ordering=-id&amount={filter}");
            return Ok(format!("{}\r\n", head(&line, "localhost", own)));
        }
        "get_record" | "get_record_library" => json!({"name": "get_record", "arguments": {"object_record": record}}),
        "search_records" | "search_records_library" => search("filters", json!({"amount": filter}), 10),
        _ => return Err(format!("{operation} is unknown")),
    };
    let body = json!({"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": tool}).to_string();
    // The library of the protocol answers calls of the older revision.
    let revision = if operation.ends_with("_library") { "2025-03-26" } else { "2025-06-18" };
    Ok(format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {agent}\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: {revision}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn connect(address: &str) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
