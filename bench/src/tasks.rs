//! Tasks: a build with 200,000 open ones, and the lists of people who may view few, many or all of them (`bench/tasks`). Reminders
//! and expiries are due at once beside readers and writers.

use crate::expected::ask;
use crate::failure::Failure;
use crate::records::declare;
use crate::request::head;
use crate::seed::{ADMIN, Dice, config, engine, insert_person, token_of};
use platform::builds;
use platform::kit::ids::ClassId;
use platform::records::rights;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store::{Conn, Sql, Store, StoreError};

/// The number of records of the only class, each with two open tasks and a completed one. The tasks have the numbers 1 to 300,000,
/// the open ones first.
const RECORDS: i64 = 100_000;
const TASKS: i64 = 3 * RECORDS;

/// The readers of lists: account types by id, from 1 on, and their descriptions.
const PEOPLE: [(&str, &str); 10] = [
    ("super_admin", "super admin, none of his own"),
    ("super_admin", "super admin, 50 of his own"),
    ("internal", "clerk, 50"),
    ("internal", "clerk, 5,000"),
    ("internal", "group with all"),
    ("internal", "ten groups"),
    ("internal", "owner of the class"),
    ("internal", "half of the records"),
    ("internal", "half of the records, and 5,000"),
    ("internal", "sees nothing"),
];
/// The number of requests for each list.
const TIMES: usize = 15;

/// The data: each statement with the maximum of its number. Each task has a group of ten, a tenth of them has a second one, and all
/// have group 1.
const ROWS: [(&str, i64); 15] = [
    ("INSERT INTO records(id, class_id) SELECT i, 1 FROM counted", RECORDS),
    ("INSERT INTO r1(id, created_at, created_by, modified_at, modified_by) SELECT i, 0, 1, 0, 1 FROM counted", RECORDS),
    ("INSERT INTO record_counts(class_id, slot, n) SELECT 1, 0, 100000 FROM counted", 1),
    ("INSERT INTO object_class_owners(class_id, user_id, created_at) SELECT 1, 7, 0 FROM counted", 1),
    (
        "INSERT INTO record_permission_sets(class_id, name, name_fold, permissions, created_at, modified_at) \
         SELECT 1, 'tasks', 'tasks', 4097, 0, 0 FROM counted",
        1,
    ),
    (
        "INSERT INTO record_assignees(record, n, permission_set, principal, created_at) \
         SELECT i, i, 1, 8, 0 FROM counted WHERE i % 2 = 0 UNION ALL SELECT i, i, 1, 9, 0 FROM counted WHERE i % 2 = 0",
        RECORDS,
    ),
    (
        "INSERT INTO record_viewers(principal, class_id, slot, version, owned) SELECT i, 1, 0, 1, 0 FROM counted WHERE i > 7",
        9,
    ),
    (
        "INSERT INTO user_groups(id, name, name_fold, description, created_at, modified_at) \
         SELECT i, 'group ' || i, 'group ' || i, '', 0, 0 FROM counted",
        11,
    ),
    (
        "INSERT INTO user_group_members(group_id, user_id, created_at) SELECT i, CASE WHEN i = 1 THEN 5 ELSE 6 END, 0 FROM counted",
        11,
    ),
    (
        "INSERT INTO task_forms(task_type, prompt, allow_comment, approval_required, approval_conditions, configuration, instructions) \
         SELECT 'tt_form', '', 0, 0, '[]', '{}', '' FROM counted",
        1,
    ),
    (
        "INSERT INTO tasks(name, name_fold, description, template, form, record, class_id, record_n, status, \
         due_at, expires_at, audience, plan, created_at, created_by, modified_at, modified_by) \
         SELECT 'Check ' || i, 'check ' || i, '', 1, 1, i % 100000 + 1, 1, i % 100000 + 1, \
         CASE WHEN i <= 200000 THEN 'open' ELSE 'completed' END, \
         CASE WHEN i % 97 = 0 THEN NULL ELSE 1700000000000000 + i * 7919 % 200003 * 1000000 END, NULL, '', '{}', 0, 1, 0, 1 \
         FROM counted",
        TASKS,
    ),
    (
        "INSERT INTO task_assignees(task, principal, status, due_at, class_id, record_n) \
         SELECT t.id, -g.id, t.status, t.due_at, t.class_id, t.record_n FROM tasks t \
         CROSS JOIN user_groups g WHERE g.id = 1 OR g.id = 2 + t.id % 10 OR (t.id % 10 = 3 AND g.id = 2 + t.id / 10 % 10 \
         AND g.id <> 2 + t.id % 10)",
        0,
    ),
    // 50 of the open ones for users 2 and 3, 5,000 for users 4 and 9.
    (
        "INSERT INTO task_assignees(task, principal, status, due_at, class_id, record_n) \
         SELECT t.id, u.id, t.status, t.due_at, t.class_id, t.record_n FROM tasks t \
         CROSS JOIN users u WHERE t.id <= 200000 AND ((u.id IN (2, 3) AND t.id % 4000 = u.id) OR (u.id IN (4, 9) AND t.id % 40 = u.id))",
        0,
    ),
    (
        "UPDATE tasks SET audience = (SELECT string_agg(x.p, ',') FROM (SELECT CAST(a.principal AS TEXT) AS p \
         FROM task_assignees a WHERE a.task = tasks.id ORDER BY a.principal) x)",
        0,
    ),
    (
        "INSERT INTO task_audiences(principal, audience) SELECT DISTINCT a.principal, t.audience FROM task_assignees a \
         JOIN tasks t ON t.id = a.task",
        0,
    ),
];
const COUNTS: &str = "INSERT INTO task_counts(audience, class_id, status, slot, n) SELECT audience, 1, status, 0, count(*) FROM tasks \
    GROUP BY audience, status UNION ALL SELECT '', 1, status, 0, count(*) FROM tasks GROUP BY status";

/// Creates the build `localhost` with these tasks. Writes `token-1` to `token-10`.
pub fn seed(directory: &str, url: Option<&str>) -> Result<(), Failure> {
    fs::create_dir_all(directory)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let app = platform::open(config(directory, url)).await.map_err(|error| error.to_string())?;
        let build = builds::create(&app, "localhost", ADMIN.0, ADMIN.1).await?;
        build.db.write(insert_people).await?;
        build.db.write(|conn| declare(conn, ClassId::new(1), "contract", &[], rights::CREATE)).await?;
        for (text, count) in ROWS {
            build.db.run_outside_transaction(move |conn| insert(conn, text, count)).await?;
        }
        build.db.run_outside_transaction(|conn| insert(conn, COUNTS, 0)).await?;
        for user in 1..=PEOPLE.len() as i64 {
            fs::write(Path::new(directory).join(format!("token-{user}")), token_of(&app, &build, user).await?)?;
        }
        fs::copy(Path::new(directory).join("token-1"), Path::new(directory).join("token"))?;
        app.store.close().await;
        Ok(())
    })
}

fn insert_people(conn: &mut Conn) -> Result<(), StoreError> {
    let people = PEOPLE.iter().zip(1..).skip(1);
    people.into_iter().try_for_each(|((account_type, _), id)| insert_person(conn, id, account_type))
}

/// Generates the numbers from 1 up to the first argument.
const COUNTED: &str =
    "WITH RECURSIVE counted(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM counted WHERE i < $1";

fn insert(conn: &mut Conn, text: &'static str, count: i64) -> Result<(), StoreError> {
    let mut sql = Sql::new(text);
    if count > 0 {
        sql = Sql::new(
            "WITH RECURSIVE counted(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM counted WHERE i < ",
        );
        sql.bind(count).push(") ").push(text);
    }
    conn.exec(&sql).map(drop)
}

/// Requests each list as each of the people, repeatedly and with another address each time, so that no answer comes from a cache.
/// Prints a line for each of them: the median milliseconds of the lists.
pub fn lists(address: &str, directory: &Path) -> Result<(), Failure> {
    const LISTS: [&str; 3] = ["assignees=me&status=open&ordering=due_at", "ordering=due_at", "status=open"];
    let mut stream = connect(address)?;
    for ((_, who), user) in PEOPLE.iter().zip(1..) {
        let token = fs::read_to_string(directory.join(format!("token-{user}")))?;
        let mut line = (*who).to_owned();
        for list in LISTS {
            let mut times = Vec::with_capacity(TIMES);
            let mut counts = String::new();
            for at in 0..TIMES {
                // An unknown parameter is ignored, but is part of the key in the cache.
                let request = head(&format!("GET /api/tasks/?{list}&anew={user}-{at}"), "localhost", &token);
                let started = Instant::now();
                let answer = ask(&mut stream, format!("{request}\r\n").as_bytes())?;
                times.push(started.elapsed());
                counts = answer.split("\"next\"").next().unwrap_or("").to_owned();
            }
            line.push_str(&format!(",{:.2}", milliseconds(&mut times, 0.5)));
            eprintln!("{who}: {list}: {counts}");
        }
        println!("{line}");
    }
    Ok(())
}

/// The number of reminders, and of expiries, that are due at once.
const DUE: i64 = 10_000;
/// The numbers of concurrent readers and writers.
const READERS: u64 = 8;
const WRITERS: u64 = 8;
/// The time between the start of the readers and writers and the due time.
const BEFORE: Duration = Duration::from_secs(20);

/// The rows that `due` adds: tasks of one assignee that remind or expire at the time `{at}`.
const DUE_ROWS: [&str; 5] = [
    "INSERT INTO tasks(id, name, name_fold, description, template, form, record, class_id, record_n, status, \
     due_at, expires_at, audience, plan, created_at, created_by, modified_at, modified_by) \
     SELECT 1000000 + i, 'Due ' || i, 'due ' || i, '', 1, 1, NULL, NULL, NULL, 'open', CAST($2 AS BIGINT), \
     CASE WHEN i > CAST($3 AS BIGINT) THEN CAST($2 AS BIGINT) END, '4', '{}', 0, 1, 0, 1 FROM counted",
    "INSERT INTO task_assignees(task, principal, status, due_at) SELECT 1000000 + i, 4, 'open', CAST($2 AS BIGINT) FROM counted WHERE CAST($3 AS BIGINT) > 0",
    "INSERT INTO task_moments(task, kind, n, at, is_done) SELECT 1000000 + i, CASE WHEN i > CAST($3 AS BIGINT) THEN 'expire' ELSE 'remind' END, \
     0, CAST($2 AS BIGINT), 0 FROM counted",
    "INSERT INTO task_counts(audience, class_id, status, slot, n) SELECT '4', 0, 'open', 0, 20000 FROM counted WHERE i = 1 AND CAST($2 AS BIGINT) + CAST($3 AS BIGINT) > 0",
    "INSERT INTO task_counts(audience, class_id, status, slot, n) SELECT '', 0, 'open', 0, 20000 FROM counted WHERE i = 1 AND CAST($2 AS BIGINT) + CAST($3 AS BIGINT) > 0",
];

/// Adds 10,000 reminders and 10,000 expiries to the build, due in this number of seconds. Writes that time to `due`.
pub fn due(directory: &str, seconds: &str, url: Option<&str>) -> Result<(), Failure> {
    let seconds: i64 = seconds.parse()?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let app = platform::open(config(directory, url)).await.map_err(|error| error.to_string())?;
        let at = app.clock.now() + seconds * 1_000_000;
        let db = app.store.database("build_1");
        for text in DUE_ROWS {
            let add = move |conn: &mut Conn| {
                let mut sql = Sql::new(COUNTED);
                sql = sql.arg(2 * DUE).arg(at).arg(DUE);
                conn.exec(sql.push(") ").push(text)).map(drop)
            };
            db.write::<_, StoreError>(add).await?;
        }
        fs::write(Path::new(directory).join("due"), at.to_string())?;
        app.store.close().await;
        Ok(())
    })
}

/// Reads and writes single tasks over 16 connections at the same time. Prints a line: the seconds until all of it was done, and the
/// p99 of reads without and beside it, and of writes, in milliseconds.
pub fn beside(address: &str, directory: &str, url: Option<&str>) -> Result<(), Failure> {
    let place = Path::new(directory);
    let at: i64 = fs::read_to_string(place.join("due"))?.parse()?;
    let token = fs::read_to_string(place.join("token-1"))?;
    let is_over = AtomicBool::new(false);
    let started = (Instant::now(), now());
    let runtime = tokio::runtime::Runtime::new()?;
    let store =
        runtime.block_on(Store::open(engine(directory, url), platform::MIGRATIONS, store::Options::default()))?;
    let left = || -> Result<i64, Failure> {
        let sql = Sql::new("SELECT count(*) FROM task_moments WHERE is_done = 0 AND at <= $1").arg(at);
        Ok(runtime.block_on(
            store.database("build_1").read::<i64, StoreError>(move |conn| conn.query_one(&sql, |row| row.int(0))),
        )?)
    };
    let begins = Duration::from_micros((at - started.1).max(0) as u64);
    if begins < BEFORE {
        return Err("what is due is due too soon".into());
    }
    thread::sleep(begins - BEFORE);
    let (ended, calls) = thread::scope(|scope| -> Result<_, Failure> {
        let callers: Vec<_> = (0..READERS + WRITERS)
            .map(|n| {
                let (token, is_over, started) = (&token, &is_over, started.0);
                scope.spawn(move || call(address, token, n, started, is_over).map_err(|error| error.to_string()))
            })
            .collect();
        let ended = (|| -> Result<Duration, Failure> {
            thread::sleep(BEFORE);
            while left()? > 0 {
                thread::sleep(Duration::from_millis(100));
            }
            Ok(started.0.elapsed())
        })();
        is_over.store(true, Ordering::Relaxed);
        let mut calls = Vec::new();
        for caller in callers {
            calls.push(caller.join().map_err(|_| "a caller ended")??);
        }
        Ok((ended?, calls))
    })?;
    runtime.block_on(store.close());
    let p99 = |callers: &[Calls], from: Duration, to: Duration| {
        let mut times: Vec<Duration> =
            callers.iter().flatten().filter(|(at, _)| (from..to).contains(at)).map(|(_, took)| *took).collect();
        (milliseconds(&mut times, 0.99), times.len() as f64 / (to - from).as_secs_f64())
    };
    let (readers, writers) = calls.split_at(READERS as usize);
    let mut line = format!("{:.1}", (ended - begins).as_secs_f64());
    for callers in [readers, writers] {
        for (from, to) in [(begins - BEFORE, begins), (begins, ended)] {
            let (p99, rate) = p99(callers, from, to);
            line.push_str(&format!(",{rate:.0},{p99:.1}"));
        }
    }
    println!("{line}");
    Ok(())
}

/// The start and the duration of each request of a connection.
type Calls = Vec<(Duration, Duration)>;

fn call(address: &str, token: &str, n: u64, started: Instant, is_over: &AtomicBool) -> Result<Calls, Failure> {
    let mut stream = connect(address)?;
    let (mut dice, mut calls) = (Dice::new((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let task = 1 + dice.roll(TASKS * 2 / 3);
        let request = if n < READERS {
            format!("{}\r\n", head(&format!("GET /api/tasks/{task}/"), "localhost", token))
        } else {
            let body = format!("{{\"name\":\"Check {}\"}}", dice.roll(1_000_000));
            let head = head(&format!("PATCH /api/tasks/{task}/"), "localhost", token);
            format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        };
        let began = Instant::now();
        ask(&mut stream, request.as_bytes())?;
        calls.push((began - started, began.elapsed()));
    }
    Ok(calls)
}

#[expect(clippy::disallowed_methods, reason = "what is due is due by the machine's clock")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

fn connect(address: &str) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns the time below which a share of the times is, in milliseconds.
pub fn milliseconds(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times.get((times.len() as f64 * share) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
