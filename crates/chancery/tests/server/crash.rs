//! A server that is killed during many writes, and the database below it. Acknowledged writes are present afterwards, no write is
//! partial, and the server is ready again within 5 seconds (`docs/reliability.md`, "Crashes").

use crate::BINARY;
use crate::record_writers;
use crate::workload::{Workload, admin, clear, events, expect_served, prepare_installation, reconnect};
use crate::writers::{down_time, until_kill};
use serde_json::json;
use std::time::{Duration, Instant};
use testkit::{ADMIN, Installation, PASSWORD, PostgreSql, eventually, rounds};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let installation = prepare_installation(Installation::with_build(BINARY));
    let mut process = installation.serve();
    let mut admin = admin(&process).await;
    let mut workload = Workload::prepare(&admin).await;
    for _ in 0..rounds(3) {
        let writers = workload.start(&admin);
        writers.are_at_work().await;
        until_kill(workload.rounds).await;
        process.kill();
        writers.stop().await;

        let killed = Instant::now();
        process = installation.serve();
        admin = reconnect(&process, &admin);
        expect_served(&admin).await;
        workload.was_ready_after(killed.elapsed());
        record_writers::expect_consistent(&installation, &events(&installation, &process)).await;
        clear(&admin).await;
    }
    let what = if testkit::test_database().is_some() { "server on PostgreSQL" } else { "server on SQLite" };
    workload.check(what, Some(&installation), &admin, &events(&installation, &process)).await;
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn nothing_acknowledged_is_lost_when_postgresql_is_killed() {
    let Some(mut postgresql) = PostgreSql::start() else { return };
    let installation = prepare_installation(Installation::on_postgres(BINARY, &postgresql.url()).and_build());
    let process = installation.serve();
    let admin = admin(&process).await;
    let mut workload = Workload::prepare(&admin).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..rounds(3) {
        let writers = workload.start(&admin);
        writers.are_at_work().await;
        until_kill(workload.rounds).await;
        postgresql.kill();
        down_time().await;

        let began = Instant::now();
        let accepts = postgresql.restart();
        slowest = slowest.max(accepts - began);
        expect_served(&admin).await;
        workload.was_ready_after(accepts.elapsed());
        // The same process continues with the same writers.
        writers.are_at_work().await;
        writers.stop().await;
        record_writers::expect_consistent(&installation, &events(&installation, &process)).await;
        clear(&admin).await;
    }
    println!("PostgreSQL itself recovered within {:.2} s", slowest.as_secs_f64());
    workload.check("PostgreSQL", Some(&installation), &admin, &events(&installation, &process)).await;
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_mail_survives_and_arrives_once_more_is_served() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    let process = installation.serve();
    // A file is at the path of the mail directory. No mail can be written until it is removed.
    std::fs::write(installation.data().join("mail"), "").unwrap();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let anna =
        json!({"username": "anna@example.com", "account_type": "internal", "first_name": "Anna", "last_name": "Berg"});
    admin.post("/api/users/", anna).await.expect_created();
    process.kill();

    std::fs::remove_file(installation.data().join("mail")).unwrap();
    let process = installation.serve();
    process.client("localhost").get("/api/security/").await.ok();
    eventually(async || match &testkit::MailFile::read_all(&installation.data(), "localhost")[..] {
        [mail] => {
            assert_eq!(mail.to, "anna@example.com");
            true
        }
        _ => false,
    })
    .await;
}
