//! Forms of a task's page with long files. The files are stored while they arrive, and are not in memory.

use crate::BINARY;
use serde_json::json;
use testkit::{ADMIN, Installation, MailFile, PASSWORD, eventually, send_concurrently};

/// The number of concurrent forms, and the length of the file in each.
const FORMS: usize = 8;
const FILE: usize = 30 * 1024 * 1024;
/// The maximum growth of the process in MiB.
const MAX_GROWTH: u64 = 64;

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_forms_are_never_in_memory() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_api();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let guest = json!({"username": "guest@example.com", "account_type": "one_time_completion", "first_name": "G", "last_name": "G"});
    let guest = admin.post("/api/users/", guest).await.id();
    let questions = json!([{"name": "f", "type": "file"}, {"name": "n", "type": "integer"}]);
    let config = json!({"task_type": "tt_form", "configuration": {"questions": questions}});
    let template = json!({"name": "Survey", "complete_by": "asap", "plugin_config": config});
    let template = admin.post("/api/task-templates/", template).await.id();
    admin.post("/api/tasks/", json!({"task_template": template, "assignees": [guest]})).await.expect_created();
    let mails = eventually(async || {
        Some(MailFile::read_all(&installation.data(), "localhost")).filter(|mails| !mails.is_empty())
    });
    let token = mails.await[0].token();
    let part = |head: &str, content: &[u8]| {
        [format!("--x\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(), content, b"\r\n"].concat()
    };
    // The integer is invalid, so that no form completes the task and each is read to its end.
    let body = [
        part("name=\"token\"", token.as_bytes()),
        part("name=\"q0\"; filename=\"a.csv\"", &vec![b'x'; FILE]),
        part("name=\"q1\"", b"many"),
        b"--x--\r\n".to_vec(),
    ];
    let body = body.concat();
    let form =
        || process.client("localhost").call("POST", "/task/").body("multipart/form-data; boundary=x", body.clone());
    let before = process.peak_memory();
    let replies = send_concurrently((0..FORMS).map(|_| form())).await;
    for reply in &replies {
        assert!(reply.status == 400 && reply.text.contains("A valid integer is required."), "{}", reply.text);
    }
    let growth = process.peak_memory() - before;
    assert!(growth <= MAX_GROWTH, "the process has grown by {growth} MiB");
}
