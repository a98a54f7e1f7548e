//! Background work (`kit::jobs`): the life of jobs of kinds that exist only in these tests.

use crate::TestServer;
use platform::kit::app::App;
use platform::kit::build::Build;
use platform::kit::commit;
use platform::kit::ids::JobId;
use platform::kit::jobs::{self, Job, JobFailure, JobFuture, JobKind, JobSettings, JobState, NewJob, StandingJob};
use platform::kit::request::Request;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use testkit::{HOUR, NOW, SECOND, TestBuild, eventually, quiet_period};

const LEASE: Duration = Duration::from_millis(300);

const PROBE: JobKind = JobKind {
    name: "probe",
    at_a_time: 8,
    of_build: 1,
    patience: Duration::from_secs(20),
    longest_pause: jobs::LONGEST_PAUSE,
    given_up_after: Duration::from_secs(3600),
    runs_again: false,
    run,
    given_up,
};
static ONE: JobKind = PROBE;
static ONCE_MORE: JobKind = JobKind { name: "once more", runs_again: true, ..PROBE };
/// One at a time over all builds.
static NARROW: JobKind = JobKind { name: "narrow", at_a_time: 1, ..PROBE };
/// Two at a time in a build.
static PAIRED: JobKind = JobKind { name: "paired", of_build: 2, ..PROBE };
static HASTY: JobKind = JobKind { name: "hasty", patience: Duration::from_millis(100), ..PROBE };
static KINDS: [&JobKind; 5] = [&ONE, &ONCE_MORE, &NARROW, &PAIRED, &HASTY];

/// The executed jobs, by the build's uid and the name in the payload, and the released builds.
static RAN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
static RELEASED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn run(_: App, build: Arc<Build>, job: Job) -> JobFuture<Result<(), JobFailure>> {
    Box::pin(async move {
        RAN.lock().unwrap().push((build.uid.clone(), job.payload["name"].as_str().unwrap().to_owned()));
        match job.payload["does"].as_str().unwrap() {
            "fails" => return Err(JobFailure::new("it cannot be done")),
            "fails for good" => {
                return Err(JobFailure { is_final: true, details: json!("why"), ..JobFailure::new("never") });
            }
            "panics" => panic!("a fault of ours"),
            // The time is longer than the start of another build's jobs.
            "takes a moment" => tokio::time::sleep(Duration::from_millis(20)).await,
            "tells and lasts" => {
                job.progress(3, 10).await?;
                wait_for_release(&build).await;
            }
            "lasts" => wait_for_release(&build).await,
            _ => {}
        }
        Ok(())
    })
}

/// Waits until the build is released.
async fn wait_for_release(build: &Build) {
    while !RELEASED.lock().unwrap().contains(&build.uid) {
        // The future of a job is `Send`, which that of `testkit::eventually` is not.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn given_up(_: &App, build: &Build, _: &mut Conn, job: &Job, failure: &JobFailure) -> Result<(), StoreError> {
    let told = format!("{} was given up: {} {}", job.payload["name"], failure.reason, failure.details);
    RAN.lock().unwrap().push((build.uid.clone(), told));
    Ok(())
}

async fn server() -> TestServer {
    let settings = JobSettings { kinds: &KINDS, lease: LEASE };
    TestServer::start_with(|config| config.domains = config.domains.clone().with_settings(settings)).await
}

/// Returns the names of the executed jobs of a build.
fn executed_jobs(tenant: &TestBuild) -> Vec<String> {
    let ran = RAN.lock().unwrap();
    ran.iter().filter(|(uid, _)| *uid == tenant.build.uid).map(|(_, name)| name.clone()).collect()
}

fn release(tenant: &TestBuild) {
    RELEASED.lock().unwrap().push(tenant.build.uid.clone());
}

fn wake(tenant: &TestBuild) {
    jobs::wake(&tenant.app, &tenant.build);
}

/// Returns a request without a caller, for its transaction.
async fn request(tenant: &TestBuild) -> Request {
    let route = platform::table().routes().next().unwrap();
    tenant.request(None, route, "").await
}

async fn enqueue_job(tenant: &TestBuild, kind: &'static JobKind, name: &str, does: &str) -> JobId {
    put_later(tenant, kind, name, does, None, 0).await
}

async fn put_later(
    tenant: &TestBuild,
    kind: &'static JobKind,
    name: &str,
    does: &str,
    key: Option<&'static str>,
    delay: i64,
) -> JobId {
    let payload = json!({"name": name, "does": does});
    let request = Arc::new(request(tenant).await);
    let write = move |request: &_, conn: &mut Conn| {
        let not_before = NOW + delay;
        Ok(jobs::enqueue(request, conn, &NewJob { kind, payload: payload.clone(), key, not_before })?)
    };
    commit::write(&request, write).await.unwrap()
}

async fn cancel(tenant: &TestBuild, id: JobId) {
    let request = Arc::new(request(tenant).await);
    commit::write(&request, move |request, conn| Ok(jobs::cancel(request, conn, id)?)).await.unwrap();
}

async fn state(tenant: &TestBuild, id: JobId) -> Option<JobState> {
    tenant.build.db.read::<_, StoreError>(move |conn| jobs::state(conn, id)).await.unwrap()
}

/// Waits until the state of a job meets a condition. Returns it.
async fn wait_for_state(
    tenant: &TestBuild,
    id: JobId,
    is_wanted: impl Fn(&Option<JobState>) -> bool,
) -> Option<JobState> {
    eventually(async || {
        let state = state(tenant, id).await;
        if is_wanted(&state) { Ok(state) } else { Err(format!("{state:?}; these ran: {:?}", executed_jobs(tenant))) }
    })
    .await
}

async fn wait_for_failures(tenant: &TestBuild, id: JobId, attempts: i64) -> JobState {
    wait_for_state(tenant, id, |state| state.as_ref().is_some_and(|state| state.attempts == attempts)).await.unwrap()
}

async fn wait_for_removal(tenant: &TestBuild, id: JobId) {
    wait_for_state(tenant, id, Option::is_none).await;
}

async fn running(tenant: &TestBuild, id: JobId) -> JobState {
    wait_for_state(tenant, id, |state| state.as_ref().is_some_and(|state| state.is_running)).await.unwrap()
}

async fn sql(tenant: &TestBuild, sql: Sql) {
    tenant.build.db.write::<_, StoreError>(move |conn| conn.exec(&sql)).await.unwrap();
}

#[tokio::test]
async fn a_job_is_done_once_and_its_number_is_no_former_message_s() {
    let server = server().await;
    let id = enqueue_job(&server, &ONE, "a", "nothing").await;
    wait_for_removal(&server, id).await;
    assert_eq!(executed_jobs(&server), ["a"]);
    assert!(id >= JobId::new(1 << 40), "{id}");
}

/// Standing work that no build has.
static OTHER: StandingJob =
    StandingJob { name: "other", at_a_time: 1, due: |_, _, _, _| Ok(None), run: |_, _| Box::pin(async { Ok(()) }) };

#[tokio::test]
async fn a_job_runs_in_time_though_the_build_is_woken_for_other_work_alone() {
    let server = server().await;
    let id = put_later(&server, &ONE, "later", "nothing", None, 60 * SECOND).await;
    quiet_period().await;
    assert!(state(&server, id).await.is_some());
    server.clock.advance(61 * SECOND);
    eventually(async || {
        jobs::wake_for(&server.app, &server.build, &OTHER);
        state(&server, id).await.is_none()
    })
    .await;
    assert_eq!(executed_jobs(&server), ["later"]);
}

#[tokio::test]
async fn a_job_that_fails_is_tried_again_after_growing_delays() {
    let server = server().await;
    let id = enqueue_job(&server, &ONE, "a", "fails").await;
    let mut due = NOW;
    for (attempts, delay) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
        due += delay * SECOND;
        let state = wait_for_failures(&server, id, attempts).await;
        assert_eq!((state.next_at, state.last_error.as_deref()), (due, Some("it cannot be done")));
        server.advance((delay - 1) * SECOND);
        wake(&server);
        quiet_period().await;
        assert_eq!(executed_jobs(&server).len(), attempts as usize, "not before its time");
        server.advance(SECOND);
        wake(&server);
    }
    wait_for_failures(&server, id, 5).await;
    server.advance(HOUR);
    wake(&server);
    wait_for_removal(&server, id).await;
    assert_eq!(executed_jobs(&server)[5..], ["a", r#""a" was given up: it cannot be done null"#]);
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    let server = server().await;
    let id = enqueue_job(&server, &ONE, "a", "fails for good").await;
    wait_for_removal(&server, id).await;
    assert_eq!(executed_jobs(&server), ["a", r#""a" was given up: never "why""#]);
}

#[tokio::test]
async fn a_job_that_panics_or_takes_too_long_has_failed() {
    let server = server().await;
    let id = enqueue_job(&server, &ONE, "a", "panics").await;
    let error = wait_for_failures(&server, id, 1).await.last_error.unwrap();
    assert!(error.starts_with("it ended early: "), "{error}");
    let id = enqueue_job(&server, &HASTY, "b", "lasts").await;
    assert_eq!(wait_for_failures(&server, id, 1).await.last_error.unwrap(), "it took too long");
}

#[tokio::test]
async fn a_lease_is_renewed_for_as_long_as_its_job_runs() {
    let server = server().await;
    let id = enqueue_job(&server, &ONE, "a", "lasts").await;
    running(&server, id).await;
    // The time is five times the lease.
    for _ in 0..10 {
        // The process renews its lease by the real clock.
        tokio::time::sleep(LEASE * 2 / 3).await;
        server.advance(LEASE.as_micros() as i64 / 2);
        wake(&server);
    }
    assert!(state(&server, id).await.unwrap().is_running);
    release(&server);
    wait_for_removal(&server, id).await;
    assert_eq!(executed_jobs(&server), ["a"]);
}

#[tokio::test]
async fn a_job_of_a_process_that_died_is_taken_when_its_lease_has_run_out() {
    let server = server().await;
    // The only process of a deployment ends all leases when it first reads a build's jobs.
    let first = enqueue_job(&server, &ONE, "first", "nothing").await;
    wait_for_removal(&server, first).await;
    let id = put_later(&server, &ONE, "a", "nothing", None, HOUR).await;
    let left = Sql::new("UPDATE jobs SET holder = 'dead', held_until = $1, next_at = $2 WHERE id = $3");
    sql(&server, left.arg(NOW + 60 * SECOND).arg(NOW).arg(id)).await;
    server.advance(59 * SECOND);
    wake(&server);
    quiet_period().await;
    assert_eq!(executed_jobs(&server), ["first"]);
    server.advance(SECOND);
    wake(&server);
    wait_for_removal(&server, id).await;
    assert_eq!(executed_jobs(&server), ["first", "a"]);
}

#[tokio::test]
async fn a_job_whose_lease_another_process_took_is_left_to_it() {
    let server = server().await;
    let id = enqueue_job(&server, &ONE, "a", "lasts").await;
    running(&server, id).await;
    sql(&server, Sql::new("UPDATE jobs SET holder = 'other', held_until = $1").arg(NOW + HOUR)).await;
    // The process detects the loss when it renews its lease.
    tokio::time::sleep(LEASE).await;
    let health = server.anonymous().get("/readyz").await.ok();
    assert_eq!(health["jobs"]["running"], 0, "it was ended");
    assert!(state(&server, id).await.unwrap().is_running);
}

#[tokio::test]
async fn a_job_is_canceled_before_it_runs_and_while_it_does() {
    let server = server().await;
    let waits = put_later(&server, &ONE, "waits", "nothing", None, HOUR).await;
    cancel(&server, waits).await;
    assert_eq!(state(&server, waits).await, None);

    let runs = enqueue_job(&server, &ONE, "runs", "lasts").await;
    running(&server, runs).await;
    cancel(&server, runs).await;
    wait_for_removal(&server, runs).await;
    assert_eq!(server.anonymous().get("/readyz").await.ok()["jobs"]["running"], 0);
    // Another process detects the cancellation when it renews its lease. The job of a dead process remains marked.
    let left = put_later(&server, &ONE, "left", "nothing", None, HOUR).await;
    let held = Sql::new("UPDATE jobs SET holder = 'dead', held_until = $1, next_at = $1 WHERE id = $2");
    sql(&server, held.arg(NOW + SECOND).arg(left)).await;
    cancel(&server, left).await;
    server.advance(SECOND);
    wake(&server);
    wait_for_removal(&server, left).await;
    assert_eq!(executed_jobs(&server), ["runs"]);
}

#[tokio::test]
async fn a_job_sleeps_until_its_time() {
    let server = server().await;
    let id = put_later(&server, &ONE, "a", "nothing", None, HOUR).await;
    server.advance(HOUR - 1);
    wake(&server);
    quiet_period().await;
    assert_eq!(executed_jobs(&server), [""; 0]);
    server.advance(1);
    wake(&server);
    wait_for_removal(&server, id).await;
    assert_eq!(executed_jobs(&server), ["a"]);
}

#[tokio::test]
async fn of_jobs_with_one_key_there_is_one() {
    let server = server().await;
    let id = put_later(&server, &ONE, "first", "nothing", Some("k"), HOUR).await;
    assert_eq!(put_later(&server, &ONE, "later", "nothing", Some("k"), 2 * HOUR).await, id);
    assert_eq!(state(&server, id).await.unwrap().next_at, NOW + HOUR);
    // The same key with another kind is another job.
    let other = put_later(&server, &ONCE_MORE, "other", "nothing", Some("k"), HOUR).await;
    assert_ne!(other, id);
    assert_eq!(put_later(&server, &ONE, "now", "nothing", Some("k"), 0).await, id);
    wait_for_removal(&server, id).await;
    assert_eq!(executed_jobs(&server), ["first"], "the one that waited");
}

#[tokio::test]
async fn a_job_whose_cause_comes_again_while_it_runs_is_done_once_more_where_its_kind_says_so() {
    let server = server().await;
    for kind in [&ONE, &ONCE_MORE] {
        let id = put_later(&server, kind, kind.name, "lasts", Some("k"), 0).await;
        running(&server, id).await;
        assert_eq!(put_later(&server, kind, "again", "nothing", Some("k"), 0).await, id);
        assert_eq!(put_later(&server, kind, "again", "nothing", Some("k"), 0).await, id);
    }
    release(&server);
    until_ran(&server, 3).await;
    quiet_period().await;
    let mut ran = executed_jobs(&server);
    ran.sort();
    assert_eq!(ran, ["once more", "once more", "probe"]);
}

async fn until_ran(tenant: &TestBuild, count: usize) {
    eventually(async || {
        let ran = executed_jobs(tenant);
        if ran.len() >= count { Ok(()) } else { Err(ran) }
    })
    .await;
}

#[tokio::test]
async fn a_build_with_many_jobs_does_not_keep_another_waiting() {
    let server = server().await;
    let other = server.build("b.example").await;
    for n in 0..50 {
        enqueue_job(&server, &NARROW, &n.to_string(), "takes a moment").await;
    }
    until_ran(&server, 1).await;
    let before = executed_jobs(&server).len();
    let id = enqueue_job(&other, &NARROW, "the other's", "nothing").await;
    wait_for_removal(&other, id).await;
    let between = executed_jobs(&server).len() - before;
    assert!(between <= 10, "{between} jobs of the first build ran meanwhile");
    assert!(before + between < 50);
}

/// Jobs of one kind do not wait for those of another.
#[tokio::test]
async fn of_jobs_put_together_as_many_begin_as_their_kind_says() {
    let server = server().await;
    let request = Arc::new(request(&server).await);
    let write = |request: &Request, conn: &mut Conn| {
        let put = |name| {
            let payload = json!({"name": name, "does": "lasts"});
            jobs::enqueue(request, conn, &NewJob { kind: &PAIRED, payload, key: None, not_before: NOW })
        };
        Ok(["a", "b", "c"].map(put).into_iter().collect::<Result<Vec<_>, StoreError>>()?)
    };
    let ids = commit::write(&request, write).await.unwrap();
    until_ran(&server, 1).await;
    // The pause is shorter than the interval of the count of waiting jobs.
    quiet_period().await;
    assert_eq!(executed_jobs(&server), ["a", "b"]);
    release(&server);
    for id in ids {
        wait_for_removal(&server, id).await;
    }
    assert_eq!(executed_jobs(&server), ["a", "b", "c"]);
}

#[tokio::test]
async fn kinds_of_a_build_do_not_wait_for_each_other() {
    let server = server().await;
    let long = enqueue_job(&server, &ONE, "long", "lasts").await;
    running(&server, long).await;
    let short = enqueue_job(&server, &ONCE_MORE, "short", "nothing").await;
    wait_for_removal(&server, short).await;
    assert_eq!(executed_jobs(&server), ["long", "short"]);
}

#[tokio::test]
async fn progress_is_stored_and_health_tells_what_waits_runs_and_fails() {
    let server = server().await;
    let jobs = async || -> Value { server.anonymous().get("/readyz").await.ok()["jobs"].clone() };
    enqueue_job(&server, &ONCE_MORE, "fails", "fails").await;
    put_later(&server, &ONE, "sleeps", "nothing", None, HOUR).await;
    let id = enqueue_job(&server, &ONE, "lasts", "tells and lasts").await;
    let told = |state: &Option<JobState>| state.as_ref().is_some_and(|state| state.total.is_some());
    let state = wait_for_state(&server, id, told).await.unwrap();
    assert_eq!((state.done, state.total), (3, Some(10)));
    let wanted = json!({"waiting": 2, "running": 1, "failed": 1});
    eventually(async || {
        let now = jobs().await;
        if now == wanted { Ok(()) } else { Err(now) }
    })
    .await;
}
