//! `chancery config check`: reads the settings as `chancery serve` does, and names every mistake (`docs/operations.md`, "Commands").
//!
//! It creates and changes nothing. Its lines contain no keys and no passwords, like those of a start that fails.

use crate::data_directory;
use crate::log;
use crate::open::{self, CommandFailure};
use crate::output::{print_error_line, print_json, print_line};
use crate::secrets_file::HISTORY_API_KEY;
use crate::settings::{Flags, ProgramSettings};
use history::clickhouse::ClickHouseEngine;
use serde_json::json;
use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use store::blobs::{Blobs, DocumentStore, process_environment};
use web::clock::Clock;

/// The time limit of an answer of ClickHouse or of the bucket.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the settings and prints the result. `connect` also connects to the database, to ClickHouse and to the store of files.
///
/// Without mistakes the exit code is 0. Each mistake is a line on standard error, `SETTING: PROBLEM`, where the setting has the name
/// of its source: `--listen`, `CHANCERY_LISTEN` or `chancery.toml, listen`. With `as_json` the output is `{"is_valid", "mistakes":
/// [{"setting", "problem"}], "unknown_variables": […]}`.
pub fn run(flags: &Flags, config: Option<&Path>, connect: bool, as_json: bool) -> ExitCode {
    let (mut mistakes, unknown_variables) = match ProgramSettings::check(flags, config) {
        Ok(settings) => (mistakes_of_a_start(&settings, connect), settings.unknown_variables),
        Err(mistakes) => (mistakes.iter().map(ToString::to_string).collect(), Vec::new()),
    };
    mistakes.extend(log::filter().err());
    let printed = match as_json {
        true => {
            let problem = |line: &String| {
                let (setting, problem) = line.split_once(": ").unwrap_or(("", line));
                json!({"setting": setting, "problem": problem})
            };
            let listed: Vec<_> = mistakes.iter().map(problem).collect();
            print_json(&json!({
                "is_valid": mistakes.is_empty(), "mistakes": listed, "unknown_variables": unknown_variables,
            }))
        }
        false => {
            mistakes.iter().for_each(|line| print_error_line(format_args!("chancery: {line}")));
            unknown_variables.iter().for_each(|name| print_error_line(format_args!("{name} is not a setting.")));
            if mistakes.is_empty() { print_line("The settings are valid.") } else { Ok(()) }
        }
    };
    if mistakes.is_empty() && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The reasons for which a start with valid values fails: files and keys in the data directory, and addresses of stores.
fn mistakes_of_a_start(settings: &ProgramSettings, connect: bool) -> Vec<CommandFailure> {
    let mut mistakes = Vec::new();
    mistakes.extend(data_directory::check(settings).err());
    mistakes.extend(mistakes_of_keys(settings));
    if settings.listen == settings.history_listen && settings.listen.port() != 0 {
        mistakes.push(format!("CHANCERY_HISTORY_LISTEN: {}: the main API listens there", settings.listen));
    }
    let engine = open::engine(settings);
    let database = match connect {
        true => engine.check().and_then(|()| engine.check_connection()),
        false => engine.check(),
    };
    mistakes.extend(database.err().map(|error| format!("CHANCERY_DATABASE_URL: {error}")));
    mistakes.extend(mistakes_of_other_stores(settings, connect));
    mistakes
}

/// Checks the keys without generating missing ones.
fn mistakes_of_keys(settings: &ProgramSettings) -> Vec<CommandFailure> {
    let is_new = settings.database_url.is_none() && !settings.data.join("control.db").exists();
    let secret_key = match is_new && settings.secret_key.is_none() {
        true => None,
        false => open::secret_key(settings).err(),
    };
    let history_api_key = match (&settings.history_api_key, open::read_kept(settings, HISTORY_API_KEY)) {
        (None, Ok(Some(key))) => open::long_enough(settings, HISTORY_API_KEY, key).err(),
        (None, Err(error)) => Some(error),
        _ => None,
    };
    [secret_key, open::api_key(settings).err(), history_api_key].into_iter().flatten().collect()
}

fn mistakes_of_other_stores(settings: &ProgramSettings, connect: bool) -> Vec<CommandFailure> {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return vec![format!("the runtime does not start: {error}")],
    };
    runtime.block_on(async {
        let mut mistakes = Vec::new();
        if let Some(url) = &settings.history_database_url {
            let checked = match ClickHouseEngine::open(url) {
                Ok(engine) if connect => {
                    in_time(async { engine.ready().await.map_err(|error| error.to_string()) }).await
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            };
            mistakes.extend(checked.err().map(|error| format!("CHANCERY_HISTORY_DATABASE_URL: {error}")));
        }
        if let Some(url) = &settings.files_url {
            let directory = settings.data.join("files");
            let prefix = "";
            match Blobs::open(process_environment(), Some(url), prefix, directory, Clock::system()) {
                Ok(bucket) if connect => {
                    let answered = in_time(async { bucket.probe().await.map_err(|outage| outage.to_string()) }).await;
                    mistakes.extend(answered.err().map(|error| format!("CHANCERY_FILES_URL: {error}")));
                }
                Ok(_) => {}
                Err(error) => mistakes.push(error),
            }
        }
        // The store creates a directory when it is opened, so only the address of a bucket is checked.
        if let Some(url) = settings.document_store_url.as_ref().filter(|url| !url.starts_with("file:")) {
            let opened = DocumentStore::open(url, process_environment());
            mistakes.extend(opened.err().map(|error| format!("CHANCERY_DOCUMENT_STORE_URL: {error}")));
        }
        mistakes
    })
}

async fn in_time(answer: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let late = |_| Err(format!("no answer within {} seconds", TIMEOUT.as_secs()));
    tokio::time::timeout(TIMEOUT, answer).await.unwrap_or_else(late)
}
