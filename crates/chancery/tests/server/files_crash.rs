//! A server that is killed while many clients upload, use and release files and request documents, and the database below it. A
//! referenced file is never lost, and an unreferenced one is removed by a sweep. A run is never lost, and never puts its file into
//! a field twice.

use crate::BINARY;
use crate::file_writers::{
    AcknowledgedFiles, DocumentTarget, PAPERS, PUBLIC, RECORDS, TEMPLATES, WRITERS, content, prepare, start,
};
use crate::workload::{READY, admin, expect_served, fetch_all_pages, prepare_installation, reconnect};
use crate::writers::{down_time, lock, until_kill};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};
use testkit::{
    ApiClient, Installation, PostgreSql, S3Server, eventually, eventually_within, paragraphs, rounds, test_database,
};

/// A store of files, and the database that refers to it.
struct FileStoreUnderTest {
    installation: Installation,
    /// `None` for the data directory.
    s3: Option<S3Server>,
}

/// The files that the API shows: the id of each or, for a public one, its uuid.
#[derive(Default)]
struct ShownFiles {
    public: BTreeMap<String, String>,
    records: BTreeMap<i64, [Vec<String>; 2]>,
    templates: BTreeMap<i64, String>,
    ids: BTreeSet<i64>,
}

/// The results of all rounds.
#[derive(Default)]
struct CrashResult {
    rounds: usize,
    downloads: usize,
    slowest: Duration,
}

impl FileStoreUnderTest {
    async fn rows<T: Send + 'static>(
        &self,
        text: &'static str,
        row: fn(&store::Row<'_>) -> Result<T, StoreError>,
    ) -> Vec<T> {
        let store = self.installation.store().await;
        let result = store
            .database("build_1")
            .read::<_, StoreError>(move |conn| conn.query_all(&Sql::new(text), row))
            .await
            .unwrap();
        store.close().await;
        result
    }

    async fn number(&self, text: &'static str) -> i64 {
        self.rows(text, |row| row.int(0)).await[0]
    }

    async fn change(&self, text: &'static str) {
        let store = self.installation.store().await;
        let change = move |conn: &mut Conn| conn.exec(&Sql::new(text));
        store.database("build_1").write::<_, StoreError>(change).await.unwrap();
        store.close().await;
    }

    /// Returns the names of the stored files.
    fn stored_names(&self) -> BTreeSet<String> {
        if let Some(s3) = &self.s3 {
            return s3_files(s3).into_iter().collect();
        }
        let groups = std::fs::read_dir(self.installation.data().join("files")).unwrap().flatten();
        let groups =
            groups.filter(|group| !group.file_name().to_string_lossy().starts_with('.') && group.path().is_dir());
        let files = groups.flat_map(|group| std::fs::read_dir(group.path()).unwrap().flatten());
        files.map(|file| file.file_name().into_string().unwrap()).collect()
    }

    /// Returns the temporary files of interrupted uploads. The next start removes them after an hour.
    fn arriving(&self) -> Vec<PathBuf> {
        let directory = self.installation.data().join("files/.arriving");
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Simulates that an hour passes for temporary files, and a minute for the leases of killed processes.
    async fn time_passes(&self) -> Vec<PathBuf> {
        let left = self.arriving();
        for path in &left {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - Duration::from_secs(3601)).unwrap();
        }
        if test_database().is_some() {
            self.change("UPDATE jobs SET held_until = 1 WHERE held_until IS NOT NULL").await;
        }
        left
    }

    /// Checks the state when nothing writes any more. Removes everything of the round afterwards.
    async fn check(&self, client: &ApiClient, acknowledged_files: &Mutex<AcknowledgedFiles>, result: &mut CrashResult) {
        let acknowledged_files = {
            let mut acknowledged_files = lock(acknowledged_files);
            let (acknowledged, ends) = (acknowledged_files.acknowledged, acknowledged_files.ends.clone());
            std::mem::replace(
                &mut *acknowledged_files,
                AcknowledgedFiles { acknowledged, ends, ..AcknowledgedFiles::default() },
            )
        };
        assert_eq!(acknowledged_files.faults, Vec::<String>::new(), "answers that nobody should get");
        self.expect_no_runs(client).await;
        let mut shown = ShownFiles::default();
        let expect_stored =
            |known: &Json, name: &String| assert_eq!(known, &json!(name), "an acknowledged file is lost");
        for file in fetch_all_pages(client, PUBLIC).await {
            let (uuid, name) =
                (text(&file["uuid"]), format!("{}{}", text(&file["filename"]), text(&file["extension"])));
            expect_complete_file(client, &name, &format!("{PUBLIC}{uuid}/"), result).await;
            shown.public.insert(uuid, name);
        }
        acknowledged_files.public.iter().for_each(|(uuid, name)| expect_stored(&json!(shown.public.get(uuid)), name));
        for template in fetch_all_pages(client, TEMPLATES).await {
            let id = template["id"].as_i64().unwrap();
            let label = shown.label(&template, &template["template_file"]);
            let name = text(&label["name"]);
            expect_complete_file(client, &name, &format!("{TEMPLATES}{id}/download/"), result).await;
            shown.templates.insert(id, name);
        }
        acknowledged_files.templates.iter().for_each(|(id, name)| expect_stored(&json!(shown.templates.get(id)), name));
        self.records(client, &mut shown, result).await;
        for (id, files) in &acknowledged_files.records {
            assert_eq!(shown.records.get(id), Some(files), "record {id}: its files are lost");
        }
        for (record, documented) in &acknowledged_files.documented {
            self.documents(client, *record, documented, &mut shown, result).await;
        }
        // An acknowledged upload is available for use.
        for (token, name) in &acknowledged_files.tokens {
            let made = client.post(PUBLIC, json!({"token": token})).await.expect_created();
            expect_complete_file(client, name, &format!("{PUBLIC}{}/", text(&made["uuid"])), result).await;
            shown.public.insert(text(&made["uuid"]), name.clone());
        }
        self.expect_swept(client, &shown).await;
        for (id, files) in &acknowledged_files.deleted {
            let restored = client.post(&format!("/api/object-records/{id}/restore/"), json!({})).await.expect_created();
            assert_eq!(shown.record(&restored), *files, "deleted record {id}: its files are lost");
            expect_complete_record(client, &restored, result).await;
        }
        self.clear(client).await;
        result.rounds += 1;
    }

    /// Waits until every run has ended. Makes failed jobs due immediately, and ends leases that could not be released after some
    /// seconds.
    async fn expect_no_runs(&self, client: &ApiClient) {
        let begun = Instant::now();
        eventually_within(Duration::from_secs(90), async || {
            if self.number("SELECT count(*) FROM document_runs WHERE status = 'processing'").await == 0 {
                return true;
            }
            self.change("UPDATE jobs SET next_at = 0 WHERE held_until IS NULL AND kind = 'documents'").await;
            if begun.elapsed() > Duration::from_secs(5) {
                self.change("UPDATE jobs SET held_until = 1 WHERE held_until IS NOT NULL AND kind = 'documents'").await;
            }
            wake(client).await;
            // A run that has just begun gets the time to end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            false
        })
        .await;
        let failed = self
            .rows("SELECT error_message FROM document_runs WHERE status = 'failed'", |row| Ok(row.text(0)?.to_owned()));
        assert_eq!(failed.await, Vec::<String>::new(), "runs that failed");
    }

    async fn records(&self, client: &ApiClient, shown: &mut ShownFiles, seen: &mut CrashResult) {
        for record in fetch_all_pages(client, RECORDS).await {
            let files = shown.record(&record);
            expect_complete_record(client, &record, seen).await;
            shown.records.insert(record["id"].as_i64().unwrap(), files);
        }
    }

    /// Checks the latest run of a record, and the documents that its runs put into the field.
    async fn documents(
        &self,
        client: &ApiClient,
        record: i64,
        target: &DocumentTarget,
        shown: &mut ShownFiles,
        result: &mut CrashResult,
    ) {
        let path = format!("/api/object-records/{record}/documents/{}/", target.template);
        let run = client.get(&path).await.ok()["generated_document"].clone();
        let status = run["status"].as_str().unwrap_or("none");
        assert!(!target.is_asked || status != "none", "record {record}: its run is lost, {target:?}");
        let is_seen = run["id"] == target.seen.0;
        assert!(
            is_seen || !target.is_canceled || status == "canceled",
            "record {record}: {status} though it was canceled, {target:?}"
        );
        let count = target.seen.1 + usize::from(!is_seen && status == "field_updated");
        let [papers, contract] = &shown.records[&record];
        let in_field = match target.field {
            Some("papers") => papers.len(),
            Some(_) => contract.len(),
            None => 0,
        };
        assert_eq!((in_field, papers.len() + contract.len()), (count, count), "record {record}: {run}, {target:?}");
        assert!(papers.len() <= PAPERS && contract.len() <= 1, "record {record}: {papers:?} {contract:?}");
        if !run["document"].is_null() {
            let label = &run["_meta"]["labels"]["document"];
            expect_complete_document(client, label, result).await;
            shown.ids.insert(run["document"].as_i64().unwrap());
        }
    }

    /// Checks that, after the expiry of all unused uploads, the stored files are those of rows, and the rows those that the API
    /// shows.
    async fn expect_swept(&self, client: &ApiClient, shown: &ShownFiles) {
        self.change("UPDATE files SET kept_until = 1 WHERE kept_until IS NOT NULL").await;
        wake(client).await;
        let row = |row: &store::Row<'_>| Ok((row.int(0)?, row.text(1)?.to_owned()));
        // Files of deleted records, and of runs, including runs that were not acknowledged.
        let hidden = "SELECT f.id FROM files f JOIN deleted_records d ON d.id = f.record \
                      UNION SELECT r.file FROM document_runs r WHERE r.file IS NOT NULL";
        let hidden = self.rows(hidden, |row| row.int(0)).await;
        let is_wanted =
            |id: &i64, uuid: &String| shown.ids.contains(id) || hidden.contains(id) || shown.public.contains_key(uuid);
        eventually(async || {
            let rows = self.rows("SELECT id, uuid FROM files", row).await;
            let to_remove = self.number("SELECT count(*) FROM removed_files").await;
            let (named, stored) =
                (rows.iter().map(|(_, uuid)| uuid.clone()).collect::<BTreeSet<_>>(), self.stored_names());
            let strays: Vec<_> = rows.iter().filter(|(id, uuid)| !is_wanted(id, uuid)).collect();
            if to_remove == 0 && named == stored && strays.is_empty() {
                let ids: BTreeSet<i64> = rows.iter().map(|(id, _)| *id).collect();
                assert!(
                    ids.is_superset(&shown.ids) && hidden.iter().all(|id| ids.contains(id)),
                    "rows of files are lost"
                );
                return Ok(());
            }
            let (lost, nobodys): (Vec<_>, Vec<_>) =
                (named.difference(&stored).collect(), stored.difference(&named).collect());
            Err(format!(
                "{to_remove} to remove; lost: {lost:?}; without a row: {nobodys:?}; nothing refers to: {strays:?}"
            ))
        })
        .await;
    }

    /// Removes all references to files. Checks that no file is stored afterwards.
    async fn clear(&self, client: &ApiClient) {
        for file in fetch_all_pages(client, PUBLIC).await {
            client.delete(&format!("{PUBLIC}{}/", text(&file["uuid"]))).await.expect_empty();
        }
        for record in fetch_all_pages(client, RECORDS).await {
            client.delete(&format!("/api/object-records/{}/", record["id"])).await.expect_empty();
        }
        for record in fetch_all_pages(client, &format!("{RECORDS}deleted/")).await {
            client.delete(&format!("{RECORDS}deleted/{}/", record["id"])).await.expect_empty();
        }
        for template in fetch_all_pages(client, TEMPLATES).await {
            client.delete(&format!("{TEMPLATES}{}/", template["id"])).await.expect_empty();
        }
        self.expect_swept(client, &ShownFiles::default()).await;
        assert_eq!(self.stored_names(), BTreeSet::new());
        assert_eq!(self.number("SELECT count(*) FROM document_runs").await, 0);
    }
}

impl ShownFiles {
    /// Returns the label of a file of a record or template.
    fn label(&mut self, row: &Json, file: &Json) -> Json {
        self.ids.insert(file.as_i64().unwrap());
        row["_meta"]["labels"]["files"][file.to_string()].clone()
    }

    /// Returns the names of the files in the fields of a record.
    fn record(&mut self, record: &Json) -> [Vec<String>; 2] {
        ["papers", "contract"].map(|field| {
            let files: Vec<Json> = record["fields"][field].as_array().cloned().unwrap_or_default();
            files.iter().map(|file| text(&self.label(record, file)["name"])).collect()
        })
    }
}

/// Returns the names of the main API's files on S3. The history service has files of its own there.
pub fn s3_files(s3: &S3Server) -> Vec<String> {
    let keys = s3.keys();
    let of_main = keys.iter().filter(|key| key.contains("/main-files/"));
    of_main.map(|key| key.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

/// Commits a change, after which the server checks for jobs.
async fn wake(client: &ApiClient) {
    let token = client.upload("wake.1.txt", content("wake.1.txt")).await;
    let made = client.post(PUBLIC, json!({"token": token})).await.expect_created();
    client.delete(&format!("{PUBLIC}{}/", text(&made["uuid"]))).await.expect_empty();
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

async fn expect_complete_file(client: &ApiClient, name: &str, path: &str, result: &mut CrashResult) {
    let reply = client.get(path).await;
    assert!(
        reply.status == 200 && reply.bytes == content(name),
        "{name} at {path}: {}, {} bytes",
        reply.status,
        reply.bytes.len()
    );
    result.downloads += 1;
}

/// Checks all files of a record. Word documents are generated ones.
async fn expect_complete_record(client: &ApiClient, record: &Json, seen: &mut CrashResult) {
    for label in record["_meta"]["labels"]["files"].as_object().unwrap().values() {
        match text(&label["name"]).ends_with(".docx") {
            true => expect_complete_document(client, label, seen).await,
            false => expect_complete_file(client, &text(&label["name"]), path(label), seen).await,
        }
    }
}

/// Checks a document that was generated from a template and a record of the same name.
async fn expect_complete_document(client: &ApiClient, label: &Json, result: &mut CrashResult) {
    let (name, reply) = (text(&label["name"]), client.get(path(label)).await);
    assert_eq!(reply.status, 200, "{name}: {reply:?}");
    let title = name.strip_suffix(".docx").unwrap();
    assert_eq!(paragraphs(&reply.bytes), [format!("{title} by {name}")]);
    result.downloads += 1;
}

/// Returns the path in the address of a file.
fn path(label: &Json) -> &str {
    let url = label["url"].as_str().unwrap();
    &url[url.find("/api/").unwrap()..]
}

impl CrashResult {
    fn was_ready_after(&mut self, time: Duration) {
        assert!(time < READY, "ready again after {time:?}");
        self.slowest = self.slowest.max(time);
    }

    /// Prints a row of a table: what was killed, rounds, writers, acknowledged, downloads that were compared, runs, and the slowest
    /// time until ready.
    fn print(&self, what: &str, told: &Mutex<AcknowledgedFiles>) {
        let told = lock(told);
        let runs: usize = told.ends.values().sum();
        println!("runs: {:?}", told.ends);
        let (acknowledged, slowest) = (told.acknowledged, self.slowest.as_secs_f64());
        println!(
            "| {what} | {} | {WRITERS} | {acknowledged} | {} | {runs} | {slowest:.2} s |",
            self.rounds, self.downloads
        );
    }
}

/// Kills the server in each round.
async fn server_killed(what: &str, place: FileStoreUnderTest, rounds: usize) {
    let mut process = place.installation.serve();
    let mut admin = admin(&process).await;
    prepare(&admin).await;
    let (acknowledged_files, mut result): (Arc<Mutex<AcknowledgedFiles>>, _) = (Arc::default(), CrashResult::default());
    let mut left = 0;
    for round in 0..rounds {
        let writers = start(&admin, round, &acknowledged_files);
        writers.are_at_work().await;
        until_kill(round).await;
        process.kill();
        writers.stop().await;

        let arriving = place.time_passes().await;
        left += arriving.len();
        let killed = Instant::now();
        process = place.installation.serve();
        admin = reconnect(&process, &admin);
        expect_served(&admin).await;
        result.was_ready_after(killed.elapsed());
        let still = arriving.iter().filter(|path| path.exists()).count();
        assert!(place.s3.is_some() || still == 0, "{still} bodies that never arrived stay");
        place.check(&admin, &acknowledged_files, &mut result).await;
    }
    println!("{left} bodies were cut off");
    result.print(what, &acknowledged_files);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn no_file_and_no_run_is_lost_when_the_server_is_killed() {
    let what = if test_database().is_some() { "server on PostgreSQL" } else { "server on SQLite" };
    let installation = prepare_installation(Installation::with_build(BINARY));
    server_killed(what, FileStoreUnderTest { installation, s3: None }, rounds(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn no_file_and_no_run_is_lost_when_a_server_with_s3_is_killed() {
    let s3 = S3Server::start();
    let mut installation =
        prepare_installation(Installation::with_build(BINARY)).set("CHANCERY_FILES_URL", &s3.url("files"));
    for (name, value) in s3.environment() {
        installation = installation.set(&name, &value);
    }
    server_killed("server with S3", FileStoreUnderTest { installation, s3: Some(s3) }, rounds(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn no_file_and_no_run_is_lost_when_postgresql_is_killed() {
    let Some(mut postgresql) = PostgreSql::start() else { return };
    let installation = prepare_installation(Installation::on_postgres(BINARY, &postgresql.url()).and_build());
    let place = FileStoreUnderTest { installation, s3: None };
    let process = place.installation.serve();
    let admin = admin(&process).await;
    prepare(&admin).await;
    let (acknowledged_files, mut result): (Arc<Mutex<AcknowledgedFiles>>, _) = (Arc::default(), CrashResult::default());
    for round in 0..rounds(1) {
        let writers = start(&admin, round, &acknowledged_files);
        writers.are_at_work().await;
        until_kill(round).await;
        postgresql.kill();
        down_time().await;
        let accepts = postgresql.restart();
        expect_served(&admin).await;
        result.was_ready_after(accepts.elapsed());
        // The same process continues with the same writers.
        writers.are_at_work().await;
        writers.stop().await;
        place.check(&admin, &acknowledged_files, &mut result).await;
    }
    result.print("PostgreSQL", &acknowledged_files);
    process.stop();
}
