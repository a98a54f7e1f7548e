//! The encryption of connections to PostgreSQL, and connections over a Unix socket.

use crate::BINARY;
use testkit::{Authority, Installation, PostgreSql};

#[test]
fn a_certificate_is_checked_against_the_roots_that_the_url_names() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let Some(server) = PostgreSql::start_encrypted(&ours) else { return };
    let root = ours.write_root(directory.path()).display().to_string();
    let build_list = |url: String| Installation::on_postgres(BINARY, &url).run(&["build", "list"]);

    for mode in ["require", "verify-ca", "verify-full"] {
        let listed = build_list(format!("{}?sslmode={mode}&sslrootcert={root}", server.url()));
        assert_eq!((listed.code, listed.stdout.as_str()), (0, ""), "{mode}: {}", listed.stderr);
    }
    std::fs::create_dir(directory.path().join("other")).unwrap();
    let foreign = other.write_root(&directory.path().join("other")).display().to_string();
    for query in [format!("sslmode=verify-full&sslrootcert={foreign}"), "sslmode=require".to_owned()] {
        let refused = build_list(format!("{}?{query}", server.url()));
        assert_eq!(refused.code, 1, "{query}");
        let line = &refused.stderr;
        assert!(
            line.starts_with("chancery: CHANCERY_DATABASE_URL: ") && line.contains("UnknownIssuer"),
            "{query}: {line}"
        );
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let refused = build_list(format!("{by_name}?sslmode=verify-full&sslrootcert={root}"));
    assert!(refused.code == 1 && refused.stderr.contains("not valid for name"), "{}", refused.stderr);
}

#[test]
fn a_database_may_be_reached_by_a_unix_socket() {
    let Some(server) = PostgreSql::start() else { return };
    let installation = Installation::on_postgres(BINARY, &server.socket_url());
    assert_eq!(installation.succeeds(&["build", "list"]), "");
}
