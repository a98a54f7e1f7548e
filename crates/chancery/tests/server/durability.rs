//! Acknowledged data is on the disk before the answer is sent (security, promise "an acknowledged write survives"). The page cache
//! outlives a killed process, so kills alone do not test this. `strace` shows the order of the binary's writes, syncs and sends.

use crate::BINARY;
use crate::workload::admin;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use testkit::{ApiClient, HISTORY_KEY, Installation, PASSWORD, Process, SystemCall, Trace, eventually};

fn traced_installation() -> Installation {
    let installation = Installation::embedded(BINARY).set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY);
    let data = installation.data();
    installation.set("CHANCERY_DATA", data.to_str().unwrap()).set("CHANCERY_ADMIN_PASSWORD", PASSWORD).with_trace()
}

/// Returns whether this call sends an answer with this status.
fn answers(call: &SystemCall, status: u16) -> bool {
    call.arguments.contains(&format!("\"HTTP/1.1 {status} "))
}

/// Waits until the trace contains this number of answers with this status. Returns it.
async fn trace_with(installation: &Installation, status: u16, count: usize) -> Trace {
    eventually(async || {
        let trace = installation.trace();
        let answered = trace.calls.iter().filter(|call| answers(call, status)).count();
        if answered >= count { Ok(trace) } else { Err(format!("{answered} of {count} answers of {status}")) }
    })
    .await
}

/// Waits until a file has not been written for two seconds.
async fn until_quiet(installation: &Installation, file: &str) {
    let written = || installation.trace().calls.iter().filter(|call| call.writes(file)).count();
    eventually(async || {
        let before = written();
        // The period of two seconds without a write.
        tokio::time::sleep(Duration::from_secs(2)).await;
        written() == before
    })
    .await;
}

/// Checks the time between each of the last answers with this status and the answer before it. The file was written, then synced,
/// and not written again.
#[track_caller]
fn synced_before_each(trace: &Trace, status: u16, last: usize, file: &str) {
    let calls = &trace.calls;
    let answered: Vec<usize> = (0..calls.len()).filter(|at| calls[*at].arguments.contains("\"HTTP/1.1 ")).collect();
    let of_status: Vec<usize> = (1..answered.len()).filter(|nth| answers(&calls[answered[*nth]], status)).collect();
    for nth in &of_status[of_status.len() - last..] {
        let (before, answer) = (&calls[answered[nth - 1]], &calls[answered[*nth]]);
        // The starts of calls are compared, because the end of a call can be recorded long after the client has continued.
        let window: Vec<&SystemCall> =
            calls.iter().filter(|call| call.began > before.began && call.began < answer.began).collect();
        let written: Vec<&&SystemCall> = window.iter().filter(|call| call.writes(file)).collect();
        let Some(end) = written.iter().map(|call| call.ended).max() else {
            panic!("nothing was written to {file} before an answer: {window:#?}");
        };
        let is_synced = window.iter().any(|call| call.syncs(file) && call.began > end && call.ended < answer.began);
        assert!(is_synced, "{file} was not synced before an answer: {window:#?} {answer:#?}");
    }
}

/// Creates a tenant. Returns a caller of the history service with it, and its client id.
async fn tenant(process: &Process) -> (ApiClient, String) {
    let client = ApiClient::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
    let wanted = json!({"database_name": "durable", "client_label": "durable"});
    let made = client.post("/api/initialize-tenant", wanted).await.expect_created();
    let client_id = made["client_id"].as_str().unwrap();
    (client.with_header("x-client-id", client_id), client_id.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_synced_before_its_answer() {
    let installation = traced_installation();
    let process = installation.serve();
    let admin = admin(&process).await;
    // The event of the sign-in is delivered, so that only the following requests write to the file.
    until_quiet(&installation, "/builds/build_1.db-wal").await;
    // The history service has answered with 201 too.
    let before = installation.trace().calls.iter().filter(|call| answers(call, 201)).count();
    for n in 0..5 {
        admin.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
    }
    let trace = trace_with(&installation, 201, before + 5).await;
    synced_before_each(&trace, 201, 5, "/builds/build_1.db-wal");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_synced_before_its_answer() {
    let installation = traced_installation();
    let process = installation.serve();
    let (client, client_id) = tenant(&process).await;
    let file = format!("/tenants/tenant_{}.db-wal", client_id.replace('-', ""));
    let before = trace_with(&installation, 201, 1).await.calls.iter().filter(|call| answers(call, 201)).count();
    for n in 0..3 {
        let event = |at: usize| {
            let id = format!("0000000{n}-0000-4000-8000-00000000000{at}");
            json!({"id": id, "event_timestamp": "2026-01-31T09:30:00Z", "category": 1, "event_type": 1})
        };
        let batch = json!({"events": [event(1), event(2), event(3)]});
        client.post("/api/system-events/batch", batch).await.expect_created();
    }
    for n in 0..3 {
        let id = format!("0000000{n}-0000-4000-8000-000000000009");
        let event = json!({
            "version": "0", "id": id, "detail-type": "event", "source": "durable", "account": "", "time": "2026-01-31T09:30:00Z",
            "region": "", "resources": [], "detail": {
                "event_id": id, "event_time": "2026-01-31T09:30:00Z", "event_type_id": 7, "record_id": 1, "source_id": 1,
                "source_type_id": 1, "event_data": [],
            },
        });
        client.post("/api/event-bridge/create-event", event).await.expect_created();
    }
    let trace = trace_with(&installation, 201, before + 6).await;
    synced_before_each(&trace, 201, 6, &file);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_and_its_name_are_synced_before_the_answer() {
    let installation = traced_installation();
    let process = installation.serve();
    let (client, client_id) = tenant(&process).await;
    let given = client.get("/api/files/upload-url").await.ok();
    let (address, file_id) = (given["upload_url"].as_str().unwrap(), given["file_id"].as_str().unwrap());
    let path = address.strip_prefix(&format!("http://{}", process.history())).unwrap();
    client.call("PUT", path).body("application/octet-stream", vec![7; 300_000]).send().await.expect(200);

    // The trace is written after the process's calls, and the answer to the upload is the last one.
    let trace = eventually(async || {
        let trace = installation.trace();
        let links = |call: &SystemCall| call.name.starts_with("link") && call.arguments.contains(file_id);
        let linked = trace.calls.iter().position(links)?;
        trace.calls[linked..].iter().any(|call| answers(call, 200)).then_some(trace)
    });
    let trace = trace.await;
    let calls = &trace.calls;
    let answer = calls.iter().rfind(|call| answers(call, 200)).unwrap();
    let linked =
        calls.iter().find(|call| call.name.starts_with("link") && call.is_done() && call.arguments.contains(file_id));
    let linked = linked.unwrap_or_else(|| panic!("the file got no name"));
    let is_arriving = |call: &&SystemCall| call.arguments.contains("/files/.arriving/");
    let written =
        calls.iter().filter(is_arriving).filter(|call| call.name == "write").map(|call| call.ended).max().unwrap();
    let synced = |call: &SystemCall| call.name.contains("sync") && call.result == "0";
    let content = calls.iter().filter(is_arriving).find(|call| synced(call) && call.began > written);
    assert!(content.is_some_and(|call| call.ended < linked.began), "the content was synced before it had its name");
    for directory in [format!("/files/{client_id}"), "/history/files".to_owned()] {
        let names = calls.iter().find(|call| call.syncs(&directory) && call.began > linked.ended);
        assert!(names.is_some_and(|call| call.ended < answer.began), "{directory} was synced before the answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_databases_and_directories_have_their_names_on_the_disk() {
    let installation = traced_installation();
    let process = installation.serve();
    tenant(&process).await;
    let trace = trace_with(&installation, 201, 1).await;
    let answer = trace.calls.iter().rfind(|call| answers(call, 201)).unwrap();
    names_are_synced(&trace, &installation.data(), answer.began);
    let databases =
        |part: &str| naming_calls(&trace).filter(|(_, name)| name.contains(part) && name.ends_with(".db")).count();
    assert_eq!((databases("/builds/build_1"), databases("/history/tenants/tenant_")), (1, 2));

    installation.succeeds(&["build", "create", "b.example"]);
    let trace = installation.trace();
    let said = trace.calls.iter().find(|call| call.arguments.contains("The build b.example was made."));
    names_are_synced(&trace, &installation.data(), said.unwrap().began);
    assert!(naming_calls(&trace).any(|(_, name)| name.ends_with("/builds/build_2.db")));
}

/// Returns the calls that create a lasting name, and the name.
fn naming_calls(trace: &Trace) -> impl Iterator<Item = (&SystemCall, &str)> {
    let calls = &trace.calls;
    let gone = move |name: &str, made: &SystemCall| {
        let removes = |call: &SystemCall| call.name.starts_with("unlink") || call.name.starts_with("rename");
        calls.iter().any(|call| call.began > made.began && removes(call) && call.texts().first() == Some(&name))
    };
    let made = calls.iter().filter(|call| {
        let is_named = ["mkdir", "rename", "link"].iter().any(|name| call.name.starts_with(name));
        call.is_done() && (is_named || call.name == "openat" && call.arguments.contains("O_EXCL"))
    });
    made.filter_map(|call| Some((call, *call.texts().last()?))).filter(move |(call, name)| !gone(name, call))
}

/// Checks that the name of the data directory, and every name in it that was created by then, was synced by then.
#[track_caller]
fn names_are_synced(trace: &Trace, data: &Path, by: usize) {
    let mut count = 0;
    for (call, name) in naming_calls(trace).filter(|(call, name)| call.ended < by && Path::new(name).starts_with(data))
    {
        let directory = Path::new(name).parent().unwrap().to_str().unwrap();
        let is_synced =
            trace.calls.iter().any(|sync| sync.syncs(directory) && sync.began > call.ended && sync.ended < by);
        assert!(is_synced, "{directory} was not synced after {call:?}");
        count += 1;
    }
    assert!(count >= 5, "{count} names in the trace");
}
