//! The page of the API's description, and the checked-in files of its viewer.

use crate::TestServer;
use crate::message;
use crate::routes::root;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read, Write};

#[tokio::test]
async fn the_description_has_a_page_with_nothing_from_elsewhere() {
    let server = TestServer::start().await;
    let browser = server.anonymous();
    let home = browser.get("/").await;
    assert_eq!((home.status, home.header("location")), (302, "/api/docs/"));
    let page = browser.get("/api/docs/").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(
        page.header("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; form-action 'none'; \
         frame-ancestors 'none'; base-uri 'none'"
    );
    let files: Vec<&str> = page.text.split('"').filter(|text| text.starts_with("/api/docs/")).collect();
    assert_eq!(files.len(), 4, "{}", page.text);
    for path in files {
        let file = browser.get(path).await;
        assert_eq!((file.status, file.header("x-content-type-options")), (200, "nosniff"), "{path}");
        assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(file.header("etag").len(), 18, "{path}: {}", file.header("etag"));
    }
    browser.get("/api/docs/page.js").await.expect_reply(404, message::detail("Not found."));
}

/// The checked-in files of the viewer, each with the name of its original in the package.
const VIEWER: [(&str, &str); 5] = [
    ("swagger-ui-bundle.js.gz", "swagger-ui-bundle.js"),
    ("swagger-ui.css.gz", "swagger-ui.css"),
    ("swagger-ui-bundle.js.LICENSE.txt", "swagger-ui-bundle.js.LICENSE.txt"),
    ("LICENSE", "LICENSE"),
    ("NOTICE", "NOTICE"),
];

#[test]
fn the_viewer_is_up_to_date() {
    let folder = root().join("crates/web/viewer");
    let sources = ["package.json", "package-lock.json"];
    let texts = sources.map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    let installed = testkit::npm::ensure_installed("viewer", &[(sources[0], &texts[0]), (sources[1], &texts[1])]);
    for (ours, name) in VIEWER {
        let original = std::fs::read(installed.join("node_modules/swagger-ui-dist").join(name)).unwrap();
        let is_compressed = ours.ends_with(".gz");
        let mut content = std::fs::read(folder.join(ours)).unwrap_or_default();
        if is_compressed {
            let compressed = std::mem::take(&mut content);
            GzDecoder::new(&compressed[..]).read_to_end(&mut content).unwrap();
        }
        if content == original {
            continue;
        }
        let update = std::env::var("UPDATE").is_ok_and(|update| update == "1");
        assert!(update, "{ours} is not that of the package: see crates/web/viewer/README.md");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&original).unwrap();
        let compressed = encoder.finish().unwrap();
        std::fs::write(folder.join(ours), if is_compressed { compressed } else { original }).unwrap();
    }
}
