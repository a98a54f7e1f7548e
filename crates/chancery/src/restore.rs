//! `chancery restore` puts a copy of `chancery backup` in the place of the data directory, and `chancery check` compares what is
//! stored (`docs/moving.md`).

use crate::backup;
use crate::data_directory::{RESTORE, UNFINISHED};
use crate::open::{CommandFailure, open_for_command};
use crate::output::{print_line, progress, say_lines};
use crate::secrets_file::SECRET_KEY;
use crate::settings::ProgramSettings;
use platform::kit::app::App;
use platform::moving::check::{self, Finding, Severity};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::Path;

/// Copies a backup into the data directory, which must be empty or missing, and checks it. An interrupted restore leaves a directory
/// that no server accepts; the same command begins again.
pub async fn restore(settings: &ProgramSettings, from: &Path) -> Result<(), CommandFailure> {
    if settings.database_url.is_some() {
        return Err("restore fills the embedded data directory; for PostgreSQL use its own tools".to_owned());
    }
    let name = from.display();
    if from.join(UNFINISHED).exists() {
        return Err(format!("{name}: the backup is not finished"));
    }
    if !from.join("control.db").exists() {
        return Err(format!("{name}: it is not a copy of `chancery backup`"));
    }
    let data = &settings.data;
    let mut mark = backup::begin(from, data)?;
    mark.write_all(RESTORE.as_bytes()).and_then(|()| mark.sync_all()).map_err(|error| backup::words(data, &error))?;
    let bar = progress("files", 0);
    let unfinished = |error| format!("{error}; call the command again, or remove {}", data.display());
    backup::copy_everything(from, data, &|_| bar.inc(1)).map_err(unfinished)?;
    bar.finish_and_clear();
    if !data.join(SECRET_KEY).exists() && settings.secret_key.is_none() {
        backup::finish(data)?;
        return print_line(
            "The copy was restored without a check: its secret key is missing. Put it back, or set \
                           CHANCERY_SECRET_KEY, then call `chancery check`.",
        );
    }
    let app = open_for_command(settings).await.map_err(unfinished)?;
    let findings = check::check(&app, None, &|_| {}).await.map_err(|error| unfinished(error.to_string()));
    app.store.close().await;
    let findings = findings?;
    backup::finish(data)?;
    drop(mark);
    print_line(format_args!("The copy {name} was restored to {}.", data.display()))?;
    print_findings(&findings)?;
    failure_of(&findings)
}

/// Checks the databases and files of all builds, or of one.
pub async fn check(app: &App, domain: Option<&str>, is_json: bool) -> Result<(), CommandFailure> {
    let bar = progress("builds", 0);
    let show = |at: platform::moving::Progress| {
        bar.set_length(at.total);
        bar.set_position(at.done);
    };
    let domain = domain.map(str::to_ascii_lowercase);
    let findings = check::check(app, domain.as_deref(), &show).await.map_err(|error| error.to_string())?;
    bar.finish_and_clear();
    if is_json {
        let has_errors = failure_of(&findings).is_err();
        let listed: Vec<Json> = findings.iter().map(Finding::to_json).collect();
        say_lines(&format!("{:#}\n", json!({"ok": !has_errors, "findings": listed})))?;
    } else {
        print_findings(&findings)?;
    }
    failure_of(&findings)
}

fn print_findings(findings: &[Finding]) -> Result<(), CommandFailure> {
    if findings.is_empty() {
        return print_line("Nothing is wrong.");
    }
    for Finding { build, part, severity, line } in findings {
        let severity = if *severity == Severity::Error { "error" } else { "warning" };
        print_line(format_args!("{}\t{part}\t{severity}\t{line}", build.as_deref().unwrap_or("-")))?;
    }
    Ok(())
}

fn failure_of(findings: &[Finding]) -> Result<(), CommandFailure> {
    match findings.iter().filter(|finding| finding.severity == Severity::Error).count() {
        0 => Ok(()),
        1 => Err("1 error was found".to_owned()),
        errors => Err(format!("{errors} errors were found")),
    }
}
