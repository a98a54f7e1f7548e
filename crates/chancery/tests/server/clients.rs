//! Typed clients, generated from the OpenAPI documents for clients and used by the programs in `examples/`, and the linter of all
//! documents.

use crate::BINARY;
use platform::kit::openapi::{self, Audience};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use testkit::{ADMIN, CommandOutput, HISTORY_KEY, Installation, PASSWORD, npm_packages, python_environment};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Includes the text of a file of the repository.
macro_rules! text {
    ($path:literal) => {
        include_str!(concat!("../../../../", $path))
    };
}

const LINTER: [(&str, &str); 2] = [
    ("package.json", text!("crates/testkit/redocly/package.json")),
    ("package-lock.json", text!("crates/testkit/redocly/package-lock.json")),
];
const TYPESCRIPT: [(&str, &str); 2] = [
    ("package.json", text!("examples/typescript/package.json")),
    ("package-lock.json", text!("examples/typescript/package-lock.json")),
];
const TYPESCRIPT_PROGRAMS: [(&str, &str); 3] = [
    ("tsconfig.json", text!("examples/typescript/tsconfig.json")),
    ("users.ts", text!("examples/typescript/users.ts")),
    ("history.ts", text!("examples/typescript/history.ts")),
];
const PYTHON_PROGRAMS: [(&str, &str); 3] = [
    ("users.py", text!("examples/python/users.py")),
    ("history.py", text!("examples/python/history.py")),
    ("client.yaml", text!("examples/python/client.yaml")),
];

/// Writes the documents of both services for clients, and returns each with the name of its TypeScript module.
fn documents(directory: &Path) -> [(PathBuf, &'static str); 2] {
    [
        (openapi::document(platform::table(), Audience::Clients), "chancery-client"),
        (history::openapi::document(10_000, Audience::Clients), "history-client"),
    ]
    .map(|(document, module)| {
        let path = directory.join(format!("{module}.json"));
        std::fs::write(&path, document.to_string()).unwrap();
        (path, module)
    })
}

#[test]
fn the_documents_pass_the_linter() {
    let redocly = npm_packages("redocly", &LINTER).join("node_modules/.bin/redocly");
    let directory = tempfile::tempdir().unwrap();
    let mut lint = Command::new(redocly);
    lint.args(["lint", "--format=json", "openapi.json", "openapi-history.json"]).current_dir(ROOT);
    lint.args(documents(directory.path()).map(|(path, _)| path));
    let output = run(lint.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")).stdout;
    let reports: Vec<serde_json::Value> =
        serde_json::Deserializer::from_str(&output).into_iter().map(Result::unwrap).collect();
    assert_eq!(reports.len(), 4, "a report for each document: {output}");
    for report in reports {
        assert_eq!(report["problems"], serde_json::json!([]));
    }
}

#[test]
fn typescript_has_typed_clients() {
    let packages = npm_packages("typescript-clients", &TYPESCRIPT);
    let directory = directory_with(&TYPESCRIPT_PROGRAMS, Some(&packages));
    let program = |name: &str| Command::new(packages.join("node_modules/.bin").join(name));
    for (document, module) in documents(directory.path()) {
        let mut generate = program("openapi-typescript");
        generate.arg(document).arg("-o").arg(directory.path().join(format!("{module}.d.ts")));
        expect_silent(module, &run(&mut generate));
    }
    run(program("tsc").current_dir(directory.path()));
    let node = |name: &str| {
        let mut node = Command::new("node");
        node.arg(format!("built/{name}.js")).current_dir(directory.path());
        node
    };
    assert_eq!(
        run_clients(node("users"), node("history")),
        "created: anna.berg@example.com invited\n\
         changed: Clerk true\n\
         refused: Object has been changed.\n\
         listed: Anna Berg admin@example.com\n\
         refused: username [ 'This field must be unique.' ]\n\
         stored: 1\n\
         listed: login_success Anna Berg\n\
         refused: [ 'query', 'limit' ] ensure this value is greater than or equal to 1\n"
    );
}

#[test]
fn python_has_typed_clients() {
    let programs = python_environment("python-clients", text!("examples/python/requirements.txt"));
    let directory = directory_with(&PYTHON_PROGRAMS, None);
    // The generator formats its output with a program that it expects there.
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let program = |name: &str| {
        let mut command = Command::new(programs.join(name));
        command.current_dir(directory.path()).env("PATH", &path);
        command
    };
    for (document, module) in documents(directory.path()) {
        let mut generate = program("openapi-python-client");
        generate
            .args(["generate", "--meta", "none", "--config", "client.yaml", "--fail-on-warning", "--path"])
            .arg(document);
        expect_silent(module, &run(&mut generate));
    }
    run(program("mypy").args(["--strict", "--follow-imports=silent", "users.py", "history.py"]));
    let python = |name: &str| {
        let mut python = program("python");
        python.arg(format!("{name}.py"));
        python
    };
    assert_eq!(
        run_clients(python("users"), python("history")),
        "created: anna.berg@example.com invited\n\
         changed: Clerk True\n\
         refused: Object has been changed.\n\
         listed: Anna Berg admin@example.com\n\
         refused: username ['This field must be unique.']\n\
         stored: 1\n\
         listed: login_success Anna Berg\n\
         refused: ['query', 'limit'] ensure this value is greater than or equal to 1\n"
    );
}

/// Returns the output of the two programs, each with its service.
fn run_clients(mut users: Command, mut history: Command) -> String {
    let installation = Installation::with_build(BINARY).set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY);
    let process = installation.serve();
    let written = run(users.args([&format!("http://{}", process.api()), ADMIN, PASSWORD])).stdout
        + &run(history.args([&format!("http://{}", process.history()), HISTORY_KEY])).stdout;
    process.stop();
    written
}

/// Creates a new directory with these files, below another one or in the default place.
fn directory_with(files: &[(&str, &str)], parent: Option<&Path>) -> TempDir {
    let directory = parent.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// Checks that a generator printed no warning, because it warns about parts that it omits.
#[track_caller]
fn expect_silent(module: &str, generated: &CommandOutput) {
    let warns = |text: &str| text.to_lowercase().contains("warn");
    assert!(!warns(&generated.stdout) && !warns(&generated.stderr), "{module}: {generated:#?}");
}

/// Runs a program that must succeed.
#[track_caller]
fn run(command: &mut Command) -> CommandOutput {
    let output = command.output().unwrap_or_else(|error| panic!("{:?} does not start: {error}", command.get_program()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    CommandOutput { code: 0, stdout, stderr }
}
