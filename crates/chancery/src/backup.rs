//! `chancery backup`: a consistent copy of the embedded data directory (`docs/operations.md`).
//!
//! An unfinished copy contains the file [`UNFINISHED`]. Servers and commands refuse it, and the next backup starts it again. A
//! finished copy is marked as a copy: it may not use the history service of the original.

use crate::data_directory::UNFINISHED;
use crate::open::{CommandFailure, open_for_command};
use crate::output::print_line;
use crate::output::progress;
use crate::secrets_file::{self, SECRET_KEY};
use crate::settings::ProgramSettings;
use history::sqlite::HistorySqlite;
use platform::builds;
use platform::events::own_history;
use platform::files;
use platform::kit::build::database_name;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use store::Store;
use web::clock::Clock;

/// Copies the list of builds first, so that every build in it is copied after it. History, keys and mails follow.
pub async fn backup(settings: &ProgramSettings, target: &Path, without_keys: bool) -> Result<(), CommandFailure> {
    if settings.database_url.is_some() {
        return Err("backup copies the embedded data directory; for PostgreSQL use its own tools".to_owned());
    }
    let app = open_for_command(settings).await?;
    let mark = begin(&settings.data, target)?;
    let no_removals = files::without_removals(&settings.data).await.map_err(|error| words(&settings.data, &error))?;
    let copied = copy(settings, &app.store, builds::list(&app).await?, target, without_keys).await;
    drop(no_removals);
    app.store.close().await;
    copied.and_then(|()| finish(target)).map_err(|error| {
        format!("{error}; the copy in {} is not finished: call it again, or remove the directory", target.display())
    })?;
    drop(mark);
    if target.join(SECRET_KEY).exists() {
        print_line("The copy holds the secret key beside what it seals: keep it safe, or make one --without-keys.")
    } else {
        print_line("The copy is of no use without the secret key, which is not in it: keep both, in different places.")
    }
}

/// Creates the directory of the copy, or empties the directory of an unfinished backup. The file that marks it is locked until it
/// is dropped, so that two backups cannot write to one directory.
pub fn begin(data: &Path, target: &Path) -> Result<File, CommandFailure> {
    let unfinished = target.join(UNFINISHED);
    let above = target.ancestors().skip(1).find_map(|above| match above.as_os_str().is_empty() {
        true => fs::canonicalize(".").ok(),
        false => fs::canonicalize(above).ok(),
    });
    let data = fs::canonicalize(data).map_err(|error| words(data, &error))?;
    if above.is_some_and(|above| above.starts_with(&data)) {
        return Err(format!("{}: the copy must not be in the data directory", target.display()));
    }
    if !unfinished.exists() {
        make_private(target)?;
    }
    let mark = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&unfinished);
    let mark = mark.map_err(|error| words(&unfinished, &error))?;
    mark.try_lock().map_err(|_| format!("{}: another backup is writing there", target.display()))?;
    let creation = (|| {
        mark.sync_all()?;
        File::open(target)?.sync_all()?;
        for entry in fs::read_dir(target)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else if entry.file_name() != UNFINISHED {
                fs::remove_file(entry.path())?;
            }
        }
        // Only the owner may read the copy, like the original.
        DirBuilder::new().mode(0o700).create(target.join("builds"))
    })();
    creation.map(|()| mark).map_err(|error| words(target, &error))
}

/// Creates a directory that only the owner may read, or makes an empty directory private.
fn make_private(target: &Path) -> Result<(), CommandFailure> {
    let creation = match DirBuilder::new().mode(0o700).create(target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none()) {
                return Err(format!("{}: is there already and is no unfinished backup", target.display()));
            }
            fs::set_permissions(target, Permissions::from_mode(0o700))
        }
        result => result,
    };
    creation.map_err(|error| words(target, &error))
}

/// Makes the copy usable, after all its content is on the disk.
pub fn finish(target: &Path) -> Result<(), CommandFailure> {
    // One call for the whole file system replaces a call for each file of the history.
    let finished = File::open(target)
        .and_then(|directory| Ok(rustix::fs::syncfs(directory)?))
        .and_then(|()| fs::remove_file(target.join(UNFINISHED)))
        .and_then(|()| File::open(target)?.sync_all());
    finished.map_err(|error| words(target, &error))
}

async fn copy(
    settings: &ProgramSettings,
    store: &Store,
    build_rows: Vec<builds::BuildRow>,
    target: &Path,
    without_keys: bool,
) -> Result<(), CommandFailure> {
    let text = |error: store::StoreError| error.to_string();
    let bar = progress("databases", build_rows.len() as u64 + 1);
    store.backup(None, target.join("control.db")).await.map_err(text)?;
    bar.inc(1);
    for build in build_rows.iter().filter(|build| build.state == "active") {
        let name = database_name(build.id);
        let copy = target.join("builds").join(format!("{name}.db"));
        match store.backup(Some(&name), copy).await {
            // The build was deleted in the meantime, so the copy omits it too.
            Ok(()) | Err(store::StoreError::Missing) => bar.inc(1),
            Err(error) => return Err(format!("{}: {error}", build.domain)),
        }
    }
    bar.finish();
    // The history is copied after the builds. Events that are delivered in between are in both copies, and the history service
    // stores them once.
    let embedded_history = copy_history(&settings.data, target).await?;
    let engine = store::StoreEngine::Sqlite { directory: target.to_owned() };
    let copied = Store::open(engine, platform::MIGRATIONS, store::Options::default()).await.map_err(text)?;
    // With these settings, the history can be in another service. A former version did not store its id.
    let is_usual = settings.history_url.is_none() && settings.history_database_url.is_none();
    own_history::mark_copy(&copied, embedded_history.as_deref().filter(|_| is_usual)).await.map_err(text)?;
    copied.close().await;
    let left_out: &[&str] = if without_keys { &secrets_file::ALL } else { &[] };
    copy_rest(&settings.data, target, left_out)
}

/// Copies the embedded history, if it exists. Returns its id.
async fn copy_history(data: &Path, target: &Path) -> Result<Option<String>, CommandFailure> {
    let (from, to) = (data.join("history"), target.join("history"));
    if !from.join("control.db").exists() {
        return Ok(None);
    }
    for directory in [&to, &to.join("tenants")] {
        DirBuilder::new().mode(0o700).create(directory).map_err(|error| words(directory, &error))?;
    }
    let history = HistorySqlite::open(from, Clock::system()).await.map_err(|error| error.to_string())?;
    let bar = progress("history", 0);
    let copied = history.backup(&to, |copied_count, total| {
        bar.set_length(total);
        bar.set_position(copied_count);
    });
    copied.await.map_err(|error| format!("history: {error}"))?;
    bar.finish();
    history.close().await;
    Ok(Some(history.id().to_owned()))
}

pub fn words(path: &Path, error: &io::Error) -> CommandFailure {
    format!("{}: {error}", path.display())
}

/// Copies all files of a finished backup. `copied` is called with each name.
pub fn copy_everything(from: &Path, to: &Path, copied: &dyn Fn(&Path)) -> Result<(), CommandFailure> {
    for entry in fs::read_dir(from).map_err(|error| words(from, &error))? {
        let entry = entry.map_err(|error| words(from, &error))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| words(&path, &error))?;
        if kind.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&target);
            made.map_err(|error| words(&target, &error))?;
            copy_everything(&path, &target, copied)?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(|error| words(&path, &error))?;
            copied(&path);
        }
    }
    Ok(())
}

/// Copies everything that is not a database, except the `left_out` files of the directory.
fn copy_rest(from: &Path, to: &Path, left_out: &[&str]) -> Result<(), CommandFailure> {
    let entries = match fs::read_dir(from) {
        // A tenant of the history service was deleted in the meantime.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| words(from, &error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| words(from, &error))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || left_out.contains(&name.as_str()) {
            // Temporary files, and files that the copy omits.
        } else if path.is_dir() {
            let creation = DirBuilder::new().recursive(true).mode(0o700).create(&target);
            creation.map_err(|error| words(&target, &error))?;
            copy_rest(&path, &target, &[])?;
        } else if ![".db", ".db-wal", ".db-shm"].iter().any(|ending| name.ends_with(ending)) && !target.exists() {
            match fs::copy(&path, &target) {
                // A sent mail or a temporary file can be deleted in the meantime.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(words(&path, &error)),
                _ => {}
            }
        }
    }
    Ok(())
}
