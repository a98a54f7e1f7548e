//! The results of imports, the serving of their files, and their deletion.

use crate::{COMPONENTS, CONFIG, ComponentsScene, admin, component, repository, wait_for_end};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use testkit::{GIT_TOKEN, Process, S3Server, eventually, message};

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_imported_and_served() {
    let set = ComponentsScene::start_scene().await;
    let config = json!({
        "name": "Map", "version": "1.2", "publisher": "Maps Ltd", "publisher_url": "https://maps.example",
        "logo": "https://maps.example/logo.svg", "parameters": [{"parameter_name": "zoom", "parameter_type": "integer"}],
    });
    let config = config.to_string();
    let files: [(&str, &[u8]); 9] = [
        ("config.json", config.as_bytes()),
        ("index.html", b"<script src=app.js></script>"),
        ("app.js", b"let a = 1"),
        ("copy.js", b"let a = 1"),
        ("style/deep/a b.CSS", b"a {}"),
        ("wörld.svg", b"<svg/>"),
        ("empty.txt", b""),
        (".gitignore", b"*.tmp"),
        ("bytes", &[0, 255, 1]),
    ];
    set.git.commit("map.git", &files);
    let path = set.git.repository("map.git");
    symlink("/etc/passwd", path.join("passwd")).unwrap();
    symlink("..", path.join("up")).unwrap();
    set.git.commit("other.git", &[("a", b"a")]);
    let other = set.git.repository("other.git");
    set.git.git(
        &path,
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.to_str().unwrap(), "sub"],
    );
    let commit = set.git.commit_all("map.git");

    let process = set.installation.serve();
    let api = admin(&process).await;
    let url = set.git.url("map.git");
    let at = repository(&api, &url).await;
    let import = wait_for_end(&api, &at).await;
    assert_eq!((&import["status"], &import["errors"]), (&json!("imported"), &Value::Null));
    for (name, value) in [
        ("version", json!("1.2")),
        ("publisher", json!("Maps Ltd")),
        ("publisher_url", json!("https://maps.example")),
        ("logo", json!("https://maps.example/logo.svg")),
    ] {
        assert_eq!(import[name], value, "{name}");
    }
    assert!(import["imported_at"].is_string() && !import.to_string().contains("oken"));
    let id = component(&api, &at).await;
    let shown = api.get(&format!("{COMPONENTS}{id}/")).await.ok();
    assert_eq!(shown["parameters"][0]["parameter_name"], "zoom");
    let index = shown["index_url"].as_str().unwrap();
    let base = format!("/components/{id}/{commit}/");
    assert!(index.ends_with(&format!("{base}index.html")), "{index}");

    let anyone = api.anonymous();
    for ((file, bytes), media_type) in files.into_iter().zip([
        "application/json",
        "text/html; charset=utf-8",
        "text/javascript; charset=utf-8",
        "text/javascript; charset=utf-8",
        "text/css; charset=utf-8",
        "image/svg+xml",
        "text/plain; charset=utf-8",
        "application/octet-stream",
        "application/octet-stream",
    ]) {
        let path = format!("{base}{}", file.replace(' ', "%20").replace('ö', "%C3%B6"));
        let reply = anyone.get(&path).await;
        assert_eq!((reply.status, &reply.bytes[..]), (200, bytes), "{file}");
        for (name, value) in [
            ("content-type", media_type),
            ("content-security-policy", "sandbox allow-scripts"),
            ("access-control-allow-origin", "*"),
            ("cache-control", "public, max-age=31536000, immutable"),
            ("x-content-type-options", "nosniff"),
            ("set-cookie", ""),
            ("access-control-allow-credentials", ""),
        ] {
            assert_eq!(reply.header(name), value, "{file}: {name}");
        }
        let head = anyone.call("HEAD", &path).send().await;
        assert_eq!((head.status, head.header("content-length")), (200, bytes.len().to_string().as_str()), "{file}");
        let known = anyone.call("GET", &path).header("if-none-match", reply.header("etag")).send().await;
        assert_eq!((known.status, known.text.as_str()), (304, ""), "{file}");
        let by = async |destination: &str| anyone.call("GET", &path).header("sec-fetch-dest", destination).send().await;
        for part in ["iframe", "script", "empty"] {
            assert_eq!(by(part).await.status, 200, "{file}: {part}");
        }
        // As a page of its own it could imitate a page of the server. Caches must not show it as one either.
        let page = by("document").await;
        page.expect_reply(403, message::forbidden());
        for answer in [&page, &reply] {
            assert!(answer.headers.get_all("vary").iter().any(|name| name == "sec-fetch-dest"), "{file}: {answer:?}");
        }
    }
    for gone in [
        "passwd",
        "up",
        "up/config.json",
        "sub",
        "sub/a",
        ".git/config",
        ".git",
        "style",
        "style/",
        "Index.html",
        "nothing",
        "/index.html",
        "style//deep/a%20b.CSS",
        "%00",
        "index.html%00",
        "..%2findex.html",
    ] {
        anyone.get(&format!("{base}{gone}")).await.expect_reply(404, message::not_found());
    }
    // Requests that ordinary clients do not send.
    for gone in [
        "../index.html",
        "%2e%2e/index.html",
        "./index.html",
        "%2e/index.html",
        "style/../index.html",
        "style/%2e%2e/index.html",
        "..%5cindex.html",
        "../../../../etc/passwd",
        "%2fetc%2fpasswd",
    ] {
        assert_eq!(status(&process, &format!("{base}{gone}")), 404, "{gone}");
    }
    assert_eq!(status(&process, &format!("{base}style%2Fdeep/a%20b.CSS")), 200);
    for path in [
        format!("/components/{id}/{}/index.html", "0".repeat(40)),
        format!("/components/99/{commit}/index.html"),
        format!("/components/x/{commit}/index.html"),
        format!("/components/{id}/{commit}/"),
        format!("/components/{id}/{commit}"),
    ] {
        anyone.get(&path).await.expect_reply(404, message::not_found());
    }
    anyone.post(&format!("{base}index.html"), json!({})).await.expect(405);

    // A disabled component is not served; an enabled one is.
    let one = format!("{COMPONENTS}{id}/");
    api.patch(&one, json!({"is_enabled": false})).await.ok();
    anyone.get(&format!("{base}index.html")).await.expect_reply(404, message::not_found());
    api.patch(&one, json!({"is_enabled": true})).await.ok();
    anyone.get(&format!("{base}index.html")).await.expect(200);

    // The component does not exist in another build.
    set.installation.succeeds(&["build", "create", "b.example"]);
    process.client("b.example").get(&format!("{base}index.html")).await.expect_reply(404, message::not_found());

    let log = process.stderr();
    assert!(!log.contains(GIT_TOKEN), "the token is in the log");
    assert!(set.git.request_lines().iter().all(|line| !line.contains(GIT_TOKEN)));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_import_updates_and_one_that_fails_changes_nothing() {
    let set = ComponentsScene::start_scene().await;
    let first = set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b"first"), ("old.js", b"old")]);
    let process = set.installation.serve();
    let api = admin(&process).await;
    let at = repository(&api, &set.git.url("map.git")).await;
    wait_for_end(&api, &at).await;
    let id = component(&api, &at).await;
    let file = |commit: &str, path: &str| format!("/components/{id}/{commit}/{path}");
    api.get(&file(&first, "old.js")).await.expect(200);

    let second = set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b"second"), ("new.js", b"new")]);
    let import = format!("{at}import/");
    assert_eq!(api.post(&import, json!({})).await.ok()["status"], "processing");
    assert_eq!(wait_for_end(&api, &at).await["status"], "imported");
    assert_eq!(api.get(&file(&second, "index.html")).await.text, "second");
    for gone in [file(&first, "index.html"), file(&second, "old.js"), file(&first, "old.js")] {
        api.get(&gone).await.expect_reply(404, message::not_found());
    }

    set.git.commit("map.git", &[("config.json", b"{}")]);
    api.post(&import, json!({})).await.ok();
    let failed = wait_for_end(&api, &at).await;
    let required = json!(["This field is required."]);
    let missing = json!(["This file is required."]);
    assert_eq!(failed["errors"], json!({"index.html": missing, "version": required, "publisher": required}));
    assert_eq!((&failed["status"], &failed["version"]), (&json!("failed"), &json!("1.0")));
    assert_eq!(api.get(&file(&second, "index.html")).await.text, "second");
    assert_eq!(api.get(&format!("{COMPONENTS}{id}/")).await["status"], "installed");

    // The deletion of the component and its repository removes the stored files.
    let stored = || stored_files(&set);
    assert_eq!(stored(), 1);
    api.delete(&format!("{COMPONENTS}{id}/")).await.expect_empty();
    api.get(&file(&second, "index.html")).await.expect_reply(404, message::not_found());
    api.delete(&at).await.expect_empty();
    eventually(async || stored() == 0).await;
}

/// Returns the status of the answer to a path that is sent unchanged.
fn status(process: &Process, path: &str) -> u16 {
    let mut stream = TcpStream::connect(process.api()).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer)[9..12].parse().unwrap()
}

/// Returns the number of stored files of builds.
fn stored_files(set: &ComponentsScene) -> usize {
    let groups = std::fs::read_dir(set.installation.data().join("files")).into_iter().flatten().flatten();
    let groups = groups.filter(|entry| entry.path().is_dir() && !entry.file_name().to_string_lossy().starts_with('.'));
    groups.map(|group| std::fs::read_dir(group.path()).unwrap().count()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_repository_within_the_bounds_is_imported() {
    let set = ComponentsScene::start_scene().await;
    // Incompressible bytes, in files that share most of them, so that git sends deltas.
    let mut state = 1_u64;
    let mut random = |count: usize| -> Vec<u8> {
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..count).map(next).collect()
    };
    let (large, common) = (random(10 * 1024 * 1024), random(20_000));
    let mut files = vec![
        ("config.json".to_owned(), CONFIG.to_vec()),
        ("index.html".to_owned(), b"index".to_vec()),
        ("large.bin".to_owned(), large.clone()),
    ];
    for n in 0..1997 {
        let mut bytes = common.clone();
        bytes.splice(n * 5..n * 5, format!("{n}").bytes());
        files.push((format!("directory-{}/file-{n}.js", n % 50), bytes));
    }
    let borrowed: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    let commit = set.git.commit("large.git", &borrowed);
    let path = set.git.repository("large.git");
    set.git.git(&path, &["gc", "--quiet"]);
    let process = set.installation.serve();
    let api = admin(&process).await;
    let idle = process.held_memory();
    let started = std::time::Instant::now();
    let at = repository(&api, &set.git.url("large.git")).await;
    let found = wait_for_end(&api, &at).await;
    assert_eq!((&found["status"], &found["errors"]), (&json!("imported"), &Value::Null));
    println!("2,000 files in {:?}, {} MiB above idle", started.elapsed(), process.peak_memory() - idle);
    let id = component(&api, &at).await;
    let base = format!("/components/{id}/{commit}/");
    assert!(api.get(&format!("{base}large.bin")).await.bytes == large);
    for (path, bytes) in files.iter().step_by(97) {
        assert!(api.get(&format!("{base}{path}")).await.bytes == *bytes, "{path}");
    }
    let script = api.call("GET", &format!("{base}{}", files[3].0)).header("accept-encoding", "gzip").send().await;
    assert_eq!((script.status, script.header("content-encoding")), (200, "gzip"));
    assert!(process.peak_memory() - idle < 128, "{} MiB above {idle}", process.peak_memory() - idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_on_s3_are_served_as_others() {
    let mut set = ComponentsScene::start_scene().await;
    let (s3, commit) =
        (S3Server::start(), set.git.commit("map.git", &[("config.json", CONFIG), ("index.html", b"a map")]));
    for (name, value) in s3.environment() {
        set.installation = set.installation.set(&name, &value);
    }
    set.installation = set.installation.set("CHANCERY_FILES_URL", &s3.url("chancery"));
    let process = set.installation.serve();
    let api = admin(&process).await;
    let at = repository(&api, &set.git.url("map.git")).await;
    assert_eq!(wait_for_end(&api, &at).await["status"], "imported");
    let id = component(&api, &at).await;
    let index = api.get(&format!("/components/{id}/{commit}/index.html")).await;
    assert_eq!((index.text.as_str(), index.header("content-length")), ("a map", "5"));
    let stored = || s3.keys().iter().filter(|key| key.contains("/main-files/")).count();
    assert_eq!(stored(), 1);
    api.delete(&format!("{COMPONENTS}{id}/")).await.expect_empty();
    api.delete(&at).await.expect_empty();
    eventually(async || stored() == 0).await;
}
