//! Writers of files for `files_crash.rs`. They upload, publish files, put them into records and templates, request documents and
//! cancel them. They record the acknowledged requests.

use crate::writers::{RunningWriters, WorkloadWriter, WriterNotes, lock};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use testkit::{ApiClient, Reply, docx};

pub const WRITERS: usize = 16;
pub const RECORDS: &str = "/api/object-classes/1/object-records/";
pub const TEMPLATES: &str = "/api/object-classes/1/document-templates/";
pub const PUBLIC: &str = "/api/files/public-storage/";
const GENERATE: &str = "/api/object-records/documents/";
/// The maximum number of files in the field `papers` of a record. `contract` has a maximum of one.
pub const PAPERS: usize = 3;

/// Creates class 1, whose records have a title, papers and a contract.
pub async fn prepare(admin: &ApiClient) {
    admin.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    for field in [
        json!({"label": "Title", "type": "string"}),
        json!({"label": "Papers", "type": "document", "max_num_of_files": PAPERS}),
        json!({"label": "Contract", "type": "document"}),
    ] {
        admin.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
}

/// Returns the content of a file with this name. `….{length}.txt` is text that depends on the name; a Word document is a template.
pub fn content(name: &str) -> Vec<u8> {
    if name.ends_with(".docx") {
        return docx([&template_text(name)]);
    }
    let length = name.rsplit('.').nth(1).and_then(|length| length.parse().ok()).unwrap_or_else(|| panic!("{name}"));
    name.bytes().cycle().zip(0..length).map(|(byte, at): (u8, usize)| byte ^ (at / name.len()) as u8).collect()
}

/// Returns the paragraph of a template whose file has this name.
pub fn template_text(name: &str) -> String {
    format!("{{{{ title }}}} by {name}")
}

/// A record for generated documents. Nothing else in it changes.
#[derive(Clone, Debug)]
pub struct DocumentTarget {
    pub template: i64,
    /// The field for the documents.
    pub field: Option<&'static str>,
    /// The last run with an observed end, and the number of documents in the field at that time.
    pub seen: (i64, usize),
    /// True if a run was acknowledged.
    pub is_asked: bool,
    /// True if the cancellation of the last run was acknowledged.
    pub is_canceled: bool,
}

/// Acknowledged state that no later request has touched.
#[derive(Default)]
pub struct AcknowledgedFiles {
    pub acknowledged: usize,
    /// Tokens of uploads with the names of their files.
    pub tokens: BTreeMap<String, String>,
    /// The names of public files, by their uuids.
    pub public: BTreeMap<String, String>,
    /// The names of files in papers and contract, by record.
    pub records: BTreeMap<i64, [Vec<String>; 2]>,
    /// Records that were deleted with these files.
    pub deleted: BTreeMap<i64, [Vec<String>; 2]>,
    /// The names of the files of templates.
    pub templates: BTreeMap<i64, String>,
    pub documented: BTreeMap<i64, DocumentTarget>,
    /// The observed outcomes of runs.
    pub ends: BTreeMap<String, usize>,
    /// Answers that must not occur.
    pub faults: Vec<String>,
}

impl WriterNotes for AcknowledgedFiles {
    const AT_WORK: usize = 20 * WRITERS;

    fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    fn faults(&self) -> &[String] {
        &self.faults
    }
}

/// Begins a round.
pub fn start(
    admin: &ApiClient,
    round: usize,
    told: &Arc<Mutex<AcknowledgedFiles>>,
) -> RunningWriters<AcknowledgedFiles> {
    RunningWriters::start(WRITERS, told, |number, stop| {
        let (client, told, stop) = (admin.clone(), told.clone(), stop.clone());
        FileWriter { client, told, stop, round, number }
    })
}

struct FileWriter {
    client: ApiClient,
    told: Arc<Mutex<AcknowledgedFiles>>,
    stop: Arc<AtomicBool>,
    round: usize,
    number: usize,
}

impl WorkloadWriter for FileWriter {
    async fn write(&self, n: usize) -> Option<()> {
        let name = format!("{}-{}-{n}", self.round, self.number);
        match self.number % 4 {
            0 => self.public_file(&name, n).await,
            1 => self.record(&name, n).await,
            2 => self.template(&name, n).await,
            _ => self.documents(&name, n).await,
        }
    }
}

impl FileWriter {
    fn lock_acknowledged(&self) -> MutexGuard<'_, AcknowledgedFiles> {
        lock(&self.told)
    }

    /// Sends a request. The answer must have this status, or 503 from a server without its database.
    async fn call(&self, method: &str, path: &str, body: &Json, status: u16) -> Option<Reply> {
        self.expect_status(self.client.call(method, path).json(body).try_send().await?, &[status])
    }

    fn expect_status(&self, reply: Reply, statuses: &[u16]) -> Option<Reply> {
        let mut acknowledged_files = self.lock_acknowledged();
        if statuses.contains(&reply.status) {
            acknowledged_files.acknowledged += 1;
            return Some(reply);
        }
        if reply.status != 503 || !reply["detail"].is_string() {
            acknowledged_files.faults.push(format!("{reply:?}"));
        }
        None
    }

    /// Uploads a file. Returns its token, which is recorded as unspent.
    async fn upload(&self, name: &str) -> Option<String> {
        let call = self.client.call("POST", "/api/files/upload/");
        let call = call.header("content-disposition", &format!("attachment; filename={name}"));
        let reply =
            self.expect_status(call.body("application/octet-stream", content(name)).try_send().await?, &[201])?;
        let token = reply["token"].as_str()?.to_owned();
        self.lock_acknowledged().tokens.insert(token.clone(), name.to_owned());
        Some(token)
    }

    /// Uploads a file that is spent immediately. Returns its token.
    async fn spend(&self, name: &str) -> Option<String> {
        let token = self.upload(name).await?;
        self.lock_acknowledged().tokens.remove(&token);
        Some(token)
    }

    /// Publishes a file. Half of the public files are deleted again; every fifth upload is not used.
    async fn public_file(&self, name: &str, n: usize) -> Option<()> {
        // One file in eight is long enough to be interrupted in the middle.
        let length = if n % 8 == 7 { 3_000_000 } else { 1 + n * 7919 % 60_000 };
        let name = format!("{name}.{length}.txt");
        let token = self.upload(&name).await?;
        if n % 5 == 4 {
            return Some(());
        }
        self.lock_acknowledged().tokens.remove(&token);
        let made = self.call("POST", PUBLIC, &json!({"token": token}), 201).await?;
        let uuid = made["uuid"].as_str()?.to_owned();
        self.lock_acknowledged().public.insert(uuid.clone(), name);
        if n.is_multiple_of(2) {
            self.lock_acknowledged().public.remove(&uuid);
            self.call("DELETE", &format!("{PUBLIC}{uuid}/"), &json!({}), 204).await?;
        }
        Some(())
    }

    /// Creates a record with files, replaces them, and deletes it. One in three is restored, and one in three is deleted
    /// permanently.
    async fn record(&self, name: &str, n: usize) -> Option<()> {
        let names: Vec<String> = (0..4).map(|at| format!("{name}-{at}.{}.txt", 1 + (n + at) * 6007 % 50_000)).collect();
        let (first, second) = (self.spend(&names[0]).await?, self.spend(&names[1]).await?);
        let fields = json!({"title": name, "papers": [first], "contract": [second]});
        let made = self.call("POST", RECORDS, &json!({"fields": fields}), 201).await?;
        let (id, path) = (made.id(), format!("/api/object-records/{}/", made["id"]));
        self.lock_acknowledged().records.insert(id, [vec![names[0].clone()], vec![names[1].clone()]]);
        let (third, fourth) = (self.spend(&names[2]).await?, self.spend(&names[3]).await?);
        let fields = json!({"papers": [third, made["fields"]["papers"][0]], "contract": [fourth]});
        self.lock_acknowledged().records.remove(&id);
        self.call("PATCH", &path, &json!({"fields": fields}), 200).await?;
        let files = [vec![names[2].clone(), names[0].clone()], vec![names[3].clone()]];
        self.lock_acknowledged().records.insert(id, files.clone());
        if n % 4 == 3 {
            return Some(());
        }
        self.lock_acknowledged().records.remove(&id);
        self.call("DELETE", &path, &json!({}), 204).await?;
        self.lock_acknowledged().deleted.insert(id, files.clone());
        match n % 4 {
            0 => {
                self.lock_acknowledged().deleted.remove(&id);
                self.call("POST", &format!("{path}restore/"), &json!({}), 201).await?;
                self.lock_acknowledged().records.insert(id, files);
            }
            1 => {
                self.lock_acknowledged().deleted.remove(&id);
                self.call("DELETE", &format!("{RECORDS}deleted/{id}/"), &json!({}), 204).await?;
            }
            _ => {}
        }
        Some(())
    }

    /// Creates a template, replaces its file, and mostly deletes it.
    async fn template(&self, name: &str, n: usize) -> Option<()> {
        let [first, second] = ["a", "b"].map(|which| format!("{name}{which}.docx"));
        let token = self.spend(&first).await?;
        let made = self.call("POST", TEMPLATES, &json!({"name": name, "template_file": token}), 201).await?;
        let path = format!("{TEMPLATES}{}/", made["id"]);
        self.lock_acknowledged().templates.insert(made.id(), first);
        let token = self.spend(&second).await?;
        self.lock_acknowledged().templates.remove(&made.id());
        self.call("PATCH", &path, &json!({"template_file": token}), 200).await?;
        self.lock_acknowledged().templates.insert(made.id(), second);
        if !n.is_multiple_of(4) {
            self.lock_acknowledged().templates.remove(&made.id());
            self.call("DELETE", &path, &json!({}), 204).await?;
        }
        Some(())
    }

    /// Requests documents of a record: in a field with space for three, in one with space for one, and without a field. Every third
    /// run is canceled.
    async fn documents(&self, name: &str, n: usize) -> Option<()> {
        let token = self.spend(&format!("{name}.docx")).await?;
        let made = self.call("POST", TEMPLATES, &json!({"name": name, "template_file": token}), 201).await?;
        let template = made.id();
        self.lock_acknowledged().templates.insert(template, format!("{name}.docx"));
        let record = self.call("POST", RECORDS, &json!({"fields": {"title": name}}), 201).await?.id();
        let field = [Some("papers"), Some("contract"), None][(n + self.number) % 3];
        let documented = DocumentTarget { template, field, seen: (0, 0), is_asked: false, is_canceled: false };
        self.lock_acknowledged().documented.insert(record, documented);
        let note = |change: &dyn Fn(&mut DocumentTarget)| {
            self.lock_acknowledged().documented.entry(record).and_modify(change).key().to_owned()
        };
        for run in 0..PAPERS + 2 {
            let body = json!({"object_record": record, "document_template": template, "object_record_field": field});
            note(&|noted| noted.is_canceled = false);
            self.call("POST", GENERATE, &body, 201).await?;
            note(&|noted| noted.is_asked = true);
            if run % 3 == 1 {
                let path = format!("/api/object-records/{record}/documents/{template}/cancel/");
                // The run can have ended.
                let reply = self.client.call("POST", &path).try_send().await?;
                let is_canceled = self.expect_status(reply, &[201, 400])?.status == 201;
                note(&|noted| noted.is_canceled = is_canceled);
            }
            let run = self.wait_for_run(record, template).await?;
            let mut told = self.lock_acknowledged();
            let status = run["status"].as_str()?.to_owned();
            let seen = told.documented.get_mut(&record)?;
            seen.seen = (run["id"].as_i64()?, seen.seen.1 + usize::from(status == "field_updated"));
            *told.ends.entry(status).or_default() += 1;
        }
        Some(())
    }

    /// Waits until the last run has ended. Returns its state.
    async fn wait_for_run(&self, record: i64, template: i64) -> Option<Json> {
        let path = format!("/api/object-records/{record}/documents/{template}/");
        while !self.stop.load(Ordering::Relaxed) {
            let shown = self.call("GET", &path, &json!({}), 200).await?;
            if shown["generated_document"]["status"] != "processing" {
                return Some(shown["generated_document"].clone());
            }
            // A client polls until it has its document or the round ends.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }
}
