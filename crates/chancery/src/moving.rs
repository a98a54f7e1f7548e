//! `chancery build export` and `chancery build import` (`docs/moving.md`).

use crate::cli::ArchiveContents;
use crate::command_history::{self, ReachedService};
use crate::moved_history::{MovedHistory, StoredHistory};
use crate::open::CommandFailure;
use crate::output::{print_error_line, print_line, progress};
use crate::passwords::read_passphrase;
use crate::settings::ProgramSettings;
use indicatif::ProgressBar;
use platform::builds;
use platform::files;
use platform::kit::app::App;
use platform::moving::history::{HistorySource, HistoryTarget};
use platform::moving::{self, ExportOptions, ExportReport, Extent, ImportOptions, ImportReport, Progress};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of standard input and output.
const STANDARD: &str = "-";
/// The size of the buffer behind the input, in bytes.
const BUFFER: usize = 1024 * 1024;
/// The maximum number of missing files that are printed.
const PRINTED_FILES: usize = 20;

/// Writes a build to an archive. The file appears when it is complete and synced to the disk.
pub async fn export(
    app: &App,
    settings: &ProgramSettings,
    (domain, extent): (&str, Extent),
    path: &Path,
    contents: &ArchiveContents,
) -> Result<(), CommandFailure> {
    let build = builds::find(app, domain).await?;
    let output = Output::open(path)?;
    let passphrase = passphrase(contents)?;
    let history: Option<Box<dyn HistorySource>> = match contents.with_history {
        true => Some(Box::new(MovedHistory::open(app, settings, &build).await?)),
        false => None,
    };
    // Files that the rows name are not removed meanwhile.
    let no_removals = match settings.files_url {
        None => Some(files::without_removals(&settings.data).await.map_err(|error| format!("CHANCERY_DATA: {error}"))?),
        Some(_) => None,
    };
    let options = ExportOptions { extent, passphrase, history, now: app.clock.now() };
    let bar = Bar::new();
    let sink = output.sink()?;
    let exported = moving::export(app, &build, sink, options, &|at| bar.show(at)).await;
    drop(no_removals);
    let report = match exported {
        Ok((_, report)) => report,
        Err(error) => {
            output.discard();
            return Err(format!("{}: {error}", build.domain));
        }
    };
    output.finish()?;
    bar.finish();
    let say = |line: String| {
        if !output.is_standard() {
            return print_line(line);
        }
        print_error_line(line);
        Ok(())
    };
    export_lines(&build.domain, &report).into_iter().try_for_each(say)
}

/// Creates a build from an archive.
pub async fn import(
    app: &App,
    settings: &ProgramSettings,
    path: &Path,
    domain: Option<String>,
    contents: &ArchiveContents,
) -> Result<(), CommandFailure> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let (input, size): (Box<dyn Read + Send>, u64) = match path.to_str() {
        Some(STANDARD) => (Box::new(io::stdin()), 0),
        _ => {
            let file = File::open(path).map_err(|error| named(&error))?;
            let size = file.metadata().map_err(|error| named(&error))?.len();
            (Box::new(file), size)
        }
    };
    let passphrase = passphrase(contents)?;
    let service = command_history::connect(app, settings).await?;
    let history: Option<Box<dyn HistoryTarget>> =
        contents.with_history.then(|| Box::new(StoredHistory::new(settings.clone())) as Box<dyn HistoryTarget>);
    let options = ImportOptions { domain, passphrase, history, size };
    let bar = Bar::new();
    let imported = moving::import(app, BufReader::with_capacity(BUFFER, input), options, &|at| bar.show(at)).await;
    bar.finish();
    let told = match imported {
        Ok(report) => finish_import(app, &service, &report).await,
        Err(error) => Err(named(&error)),
    };
    service.close().await;
    told
}

async fn finish_import(app: &App, service: &ReachedService, report: &ImportReport) -> Result<(), CommandFailure> {
    import_lines(report).into_iter().try_for_each(print_line)?;
    let build = builds::find(app, &report.domain).await?;
    service.finish_new_build(app, &build).await
}

fn passphrase(contents: &ArchiveContents) -> Result<Option<String>, CommandFailure> {
    contents.with_secrets.then(|| read_passphrase(contents.passphrase_file.as_deref())).transpose()
}

/// The lines about an export.
fn export_lines(domain: &str, report: &ExportReport) -> Vec<String> {
    let mut lines = vec![format!(
        "The build {domain} was exported: {} rows, {} files with {} bytes.",
        report.rows, report.files, report.file_bytes
    )];
    if report.history_events + report.system_events > 0 {
        lines.push(format!(
            "Its history is in the archive: {} events of records, {} of the system.",
            report.history_events, report.system_events
        ));
    }
    lines.extend(emptied_line("Left out, since it is secret", &report.emptied));
    if report.unopened > 0 {
        lines.push(format!("{} sealed values were not opened by the secret key, and are left out.", report.unopened));
    }
    lines.extend(missing_line(&report.missing_files));
    lines
}

/// The lines about an import.
fn import_lines(report: &ImportReport) -> Vec<String> {
    let mut lines = vec![format!(
        "The build {} was imported: {} rows, {} files with {} bytes.",
        report.domain, report.rows, report.files, report.file_bytes
    )];
    if report.history_events + report.system_events > 0 && !report.has_left_history {
        lines.push(format!(
            "Its history was imported: {} events of records, {} of the system.",
            report.history_events, report.system_events
        ));
    }
    if report.has_left_history {
        lines.push("The history in the archive was not imported; --with-history does that.".to_owned());
    }
    lines.extend(emptied_line("Empty, since the archive has no secrets", &report.emptied));
    lines.extend(missing_line(&report.missing_files));
    lines
}

fn emptied_line(what: &str, emptied: &BTreeMap<String, u64>) -> Option<String> {
    let fields: Vec<String> = emptied.iter().map(|(field, count)| format!("{field} ({count})")).collect();
    (!fields.is_empty()).then(|| format!("{what}: {}.", fields.join(", ")))
}

fn missing_line(missing: &[String]) -> Option<String> {
    let named: Vec<&str> = missing.iter().take(PRINTED_FILES).map(String::as_str).collect();
    let more = if missing.len() > PRINTED_FILES { ", …" } else { "" };
    (!missing.is_empty()).then(|| format!("{} files are missing: {}{more}.", missing.len(), named.join(", ")))
}

/// The file of an archive, or standard output. The file has another name until it is complete.
struct Output {
    path: PathBuf,
    temporary: Option<PathBuf>,
}

impl Output {
    fn open(path: &Path) -> Result<Output, CommandFailure> {
        if path.as_os_str() == STANDARD {
            return Ok(Output { path: path.to_owned(), temporary: None });
        }
        if path.exists() {
            return Err(format!("{}: is there already", path.display()));
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".partial");
        Ok(Output { path: path.to_owned(), temporary: Some(temporary.into()) })
    }

    fn is_standard(&self) -> bool {
        self.temporary.is_none()
    }

    /// Returns the place to which the archive is written. Only the owner may read the file.
    fn sink(&self) -> Result<Box<dyn Write + Send>, CommandFailure> {
        let Some(temporary) = &self.temporary else { return Ok(Box::new(io::stdout())) };
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary);
        Ok(Box::new(file.map_err(|error| format!("{}: {error}", temporary.display()))?))
    }

    fn finish(&self) -> Result<(), CommandFailure> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let finished = File::open(temporary)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(temporary, &self.path))
            .and_then(|()| File::open(directory)?.sync_all());
        finished.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    fn discard(&self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A progress bar, on which the steps follow each other.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        Bar(progress("", 0))
    }

    fn show(&self, at: Progress) {
        self.0.set_message(at.step);
        self.0.set_length(at.total);
        self.0.set_position(at.done);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}
