//! Repositories that cannot be imported, the reasons, and interrupted imports.

use crate::{
    CONFIG, ComponentsScene, REPOSITORIES, TOO_LARGE, UNREACHABLE, UNREADABLE, admin, repository, wait_for_end,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::{ADMIN, Authority, GIT_TOKEN, GIT_USERNAME, GitAnswer, GitServer, PASSWORD, eventually};

fn url_error(text: &str) -> Value {
    json!({"repository_url": [text]})
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_a_repository_name_file_and_attribute() {
    let set = ComponentsScene::start_scene().await;
    let (large, many, all): (Vec<u8>, Vec<String>, Vec<Vec<u8>>) = (
        vec![7; 10 * 1024 * 1024 + 1],
        (0..1999).map(|n| format!("{n}.js")).collect(),
        (0..6_u8).map(|n| vec![n; 9 * 1024 * 1024]).collect(),
    );
    let plain: [(&str, &[u8]); 2] = [("config.json", CONFIG), ("index.html", b"")];
    let with = |others: Vec<(String, &[u8])>| {
        let mut files: Vec<(String, Vec<u8>)> = plain.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).to_vec();
        files.extend(others.into_iter().map(|(path, bytes)| (path, bytes.to_vec())));
        files
    };
    let long = format!(r#"{{"version": "{}"}}"#, "1".repeat(100_000));
    let required = json!(["This file is required."]);
    let only = |path: &str, bytes: &[u8]| vec![(path.to_owned(), bytes.to_vec())];
    let cases = [
        ("nothing", Vec::new(), json!({"config.json": required, "index.html": required})),
        ("index", only("config.json", CONFIG), json!({"index.html": required})),
        ("config", only("index.html", b""), json!({"config.json": required})),
        (
            "long",
            vec![("config.json".to_owned(), long.into_bytes()), ("index.html".to_owned(), Vec::new())],
            json!({"config.json": ["Ensure this field has no more than 100000 characters."]}),
        ),
        (
            "wrong",
            vec![("config.json".to_owned(), b"[]".to_vec()), ("index.html".to_owned(), Vec::new())],
            json!({"config.json": ["Invalid data. Expected a dictionary, but got list."]}),
        ),
        (
            "parameters",
            vec![
                (
                    "config.json".to_owned(),
                    br#"{"version": "1", "publisher": "P", "parameters": [{"parameter_type": "x"}]}"#.to_vec(),
                ),
                ("index.html".to_owned(), Vec::new()),
            ],
            json!({"parameters": {"0": {"parameter_name": ["This field is required."], "parameter_type": ["x is not a valid choice."]}}}),
        ),
        ("large", with(vec![("large.bin".to_owned(), &large)]), url_error(TOO_LARGE)),
        ("many", with(many.iter().map(|path| (path.clone(), path.as_bytes())).collect()), url_error(TOO_LARGE)),
        (
            "all",
            with(all.iter().map(|bytes| (format!("{}.bin", bytes[0]), bytes.as_slice())).collect()),
            url_error(TOO_LARGE),
        ),
        // Equal files count separately.
        ("copies", with((0..2000).map(|n| (format!("{n}.js"), &b"same"[..])).collect()), url_error(TOO_LARGE)),
    ];
    let process = set.installation.serve();
    let api = admin(&process).await;
    let mut made = Vec::new();
    for (name, files, errors) in &cases {
        let borrowed: Vec<(&str, &[u8])> =
            files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
        set.git.commit(name, &borrowed);
        made.push((repository(&api, &set.git.url(name)).await, name, errors));
    }
    // A repository without a commit.
    set.git.repository("empty");
    let errors = json!({"config.json": required, "index.html": required});
    made.push((repository(&api, &set.git.url("empty")).await, &"empty", &errors));
    for (at, name, errors) in made {
        let found = wait_for_end(&api, &at).await;
        assert_eq!((&found["status"], &found["errors"]), (&json!("failed"), errors), "{name}");
    }
    assert!(process.peak_memory() < 512, "{} MiB", process.peak_memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_corrected_by_another_import() {
    let set = ComponentsScene::start_scene().await;
    set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b"")]);
    let process = set.installation.serve();
    let api = admin(&process).await;
    let body = json!({"repository_url": set.git.url("map.git"), "username": GIT_USERNAME, "token": "wr0ng-t0ken"});
    let at = format!("{REPOSITORIES}{}/", api.post(REPOSITORIES, body).await.id());
    assert_eq!(wait_for_end(&api, &at).await["errors"], url_error(UNREACHABLE));
    let import = format!("{at}import/");
    api.post(&import, json!({"username": "other", "token": GIT_TOKEN})).await.ok();
    assert_eq!(wait_for_end(&api, &at).await["errors"], url_error(UNREACHABLE));
    api.post(&import, json!({"username": GIT_USERNAME})).await.ok();
    assert_eq!(wait_for_end(&api, &at).await["status"], "imported");
    // A deleted repository, a repository that never existed, and a forbidden one have the same answer.
    let nothing = repository(&api, &set.git.url("nothing.git")).await;
    assert_eq!(wait_for_end(&api, &nothing).await["errors"], url_error(UNREACHABLE));
    for secret in ["wr0ng-t0ken", GIT_TOKEN] {
        assert!(!process.stderr().contains(secret), "{secret} is in the log");
        assert!(!api.get("/api/administration/log/").await.text.contains(secret));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_are_left() {
    let set = ComponentsScene::start_scene().await;
    let random: Vec<u8> = (0..5000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect();
    set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b""), ("random", &random)]);
    let process = set.installation.serve();
    let api = admin(&process).await;
    let at = repository(&api, &set.git.url("map.git")).await;
    assert_eq!(wait_for_end(&api, &at).await["status"], "imported");
    let advertisement = "application/x-git-upload-pack-advertisement";
    let of_type = |media_type: &str| vec![("Content-Type", media_type.to_owned())];
    let elsewhere = set.git.url("map.git/info/refs?service=git-upload-pack");
    let other = |status, headers, body: &[u8]| GitAnswer::Other(status, headers, body.to_vec());
    let loud = "0000".repeat(1024 * 1024).into_bytes();
    for (answer, wrong) in [
        (other(302, vec![("Location", elsewhere)], b""), UNREACHABLE),
        (other(500, of_type(advertisement), b""), UNREACHABLE),
        (other(200, of_type("text/html"), b"<html>"), UNREADABLE),
        (other(200, of_type(advertisement), b""), UNREADABLE),
        (other(200, of_type(advertisement), b"garbage garbage"), UNREADABLE),
        (other(200, of_type(advertisement), b"ffff"), UNREADABLE),
        (other(200, of_type(advertisement), b"+00f"), UNREADABLE),
        (other(200, of_type(advertisement), b"0003"), UNREADABLE),
        (other(200, of_type(advertisement), b"000eversion 1\n0000"), UNREADABLE),
        (other(200, of_type(advertisement), b"000eversion 2\n0000"), UNREADABLE),
        (other(200, of_type(advertisement), b"000eversion 2\n000cfetch=\n001aobject-format=sha256\n0000"), UNREADABLE),
        // The server repeats this answer, which is not an answer to the next request.
        (other(200, of_type(advertisement), b"000eversion 2\n000afetch\n0000"), UNREADABLE),
        (other(200, of_type(advertisement), &loud), TOO_LARGE),
        // The server sends nothing for too long, from the beginning or in the middle.
        (GitAnswer::Never, UNREACHABLE),
        (GitAnswer::Half, UNREACHABLE),
    ] {
        set.git.answers(answer.clone());
        api.post(&format!("{at}import/"), json!({})).await.ok();
        let found = wait_for_end(&api, &at).await;
        assert_eq!(found["errors"], url_error(wrong), "{:.200}", format!("{answer:?}"));
    }
    // Answers of the server never lead the client elsewhere.
    assert!(set.git.request_lines().iter().all(|line| line.contains("/map.git/")));

    // The certificate has an unknown authority.
    let stranger = GitServer::start(&Authority::new("Other CA")).await;
    stranger.commit("map.git", &[("config.json", CONFIG), ("index.html", b"")]);
    let at = repository(&api, &stranger.url("map.git")).await;
    assert_eq!(wait_for_end(&api, &at).await["errors"], url_error(UNREACHABLE));
    assert!(stranger.request_lines().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_is_done_again() {
    let set = ComponentsScene::start_scene().await;
    set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b"")]);
    set.git.answers(GitAnswer::Never);
    let process = set.installation.serve();
    let api = admin(&process).await;
    let at = repository(&api, &set.git.url("map.git")).await;
    eventually(async || !set.git.request_lines().is_empty()).await;
    process.kill();
    set.git.answers(GitAnswer::Git);
    let process = set.installation.serve();
    let api = admin(&process).await;
    assert_eq!(wait_for_end(&api, &at).await["status"], "imported");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_fails_if_its_caller_has_lost_the_right() {
    let set = ComponentsScene::start_scene().await;
    set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b"")]);
    let eve = ["--username", "eve@example.com", "--account-type", "super_admin", "--password", PASSWORD];
    set.installation.succeeds(&[&["user", "create", "--build", "localhost"][..], &eve[..]].concat());
    let process = set.installation.serve();
    let api = admin(&process).await;
    let eve = process.client("localhost").sign_in("eve@example.com", PASSWORD).await;
    // A build imports one repository at a time, and this one hangs.
    set.git.answers(GitAnswer::Never);
    let first = repository(&api, &set.git.url("map.git")).await;
    let second = repository(&eve, &set.git.url("map.git")).await;
    api.patch(&format!("/api/users/{}/", eve.id), json!({"account_type": "internal"})).await.ok();
    assert_eq!(wait_for_end(&api, &first).await["errors"], url_error(UNREACHABLE));
    set.git.answers(GitAnswer::Git);
    assert_eq!(wait_for_end(&api, &second).await["errors"], url_error(UNREACHABLE));
    assert_eq!(set.git.request_lines().len(), 1);
    // The right must not end during the import either.
    api.patch(&format!("/api/users/{}/", eve.id), json!({"account_type": "super_admin"})).await.ok();
    let eve = process.client("localhost").sign_in("eve@example.com", PASSWORD).await;
    set.git.answers(GitAnswer::After(Duration::from_secs(3)));
    eve.post(&format!("{second}import/"), json!({})).await.ok();
    let asked = set.git.request_lines().len();
    eventually(async || set.git.request_lines().len() > asked).await;
    api.patch(&format!("/api/users/{}/", eve.id), json!({"account_type": "internal"})).await.ok();
    assert_eq!(wait_for_end(&api, &second).await["errors"], url_error(UNREACHABLE));
    assert_eq!(set.git.request_lines().len(), asked + 3);
    set.git.answers(GitAnswer::Git);
    // Another user starts the import with the stored credentials.
    api.post(&format!("{second}import/"), json!({})).await.ok();
    assert_eq!(wait_for_end(&api, &second).await["status"], "imported");
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_of_a_build_leave_places_to_others() {
    let set = ComponentsScene::start_scene().await;
    set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b"")]);
    set.installation.succeeds(&["build", "create", "b.example"]);
    let process = set.installation.serve();
    let (first, second) = (admin(&process).await, process.client("b.example").sign_in(ADMIN, PASSWORD).await);
    // The number exceeds the four permits of the process. The server answers nothing until the imports time out after seconds.
    set.git.answers(GitAnswer::Never);
    let mut waiting = Vec::new();
    for _ in 0..6 {
        waiting.push(repository(&first, &set.git.url("map.git")).await);
    }
    eventually(async || !set.git.request_lines().is_empty()).await;
    set.git.answers(GitAnswer::Git);
    let at = repository(&second, &set.git.url("map.git")).await;
    let began = Instant::now();
    assert_eq!(wait_for_end(&second, &at).await["status"], "imported");
    println!("an import beside six of another build: {:.1?}", began.elapsed());
    // One of them was requested, and the others wait for its end.
    let mut statuses = Vec::new();
    for at in &waiting {
        statuses.push(first.get(at).await.ok()["status"].clone());
    }
    assert_eq!(statuses, ["processing"; 6]);
    for (n, at) in waiting.iter().enumerate() {
        assert_eq!(wait_for_end(&first, at).await["status"], if n == 0 { "failed" } else { "imported" });
    }
}
