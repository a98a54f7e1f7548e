//! What each command does (document 4, section 1).

use crate::build_list;
use crate::cli::{BuildCommand, Command, KeysCommand, Part, UserCommand, UserPassword};
use crate::open::{Failure, engine, generated, history_api_key, long_enough, open, secret_key};
use crate::passwords;
use crate::secrets_file::{self, API_KEY, SECRET_KEY};
use crate::serve;
use crate::settings::Settings;
use history::sqlite::Sqlite;
use indicatif::{ProgressBar, ProgressStyle};
use platform::key_rotation::{self, Rotated};
use platform::kit::build::database_name;
use platform::kit::callers::STALE_AFTER;
use platform::{builds, limits};
use std::fs::DirBuilder;
use std::io::IsTerminal;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use web::clock::{Clock, random_token};

/// Runs a command.
pub async fn run(command: Command, settings: Settings) -> Result<(), Failure> {
    match command {
        Command::Serve { part } => {
            let (api, history) = (part != Some(Part::History), part != Some(Part::Api));
            serve::run(settings, api, history).await
        }
        Command::Build(command) => build(command, settings).await,
        Command::User(command) => user(command, settings).await,
        Command::Keys { command: None } => keys(&settings),
        Command::Keys { command: Some(KeysCommand::Rotate) } => rotate(&settings).await,
        Command::Backup { directory, without_keys } => backup(&settings, &directory, without_keys).await,
    }
}

async fn build(command: BuildCommand, settings: Settings) -> Result<(), Failure> {
    let app = open(&settings, settings.listen, None).await?;
    match command {
        BuildCommand::Create { domain, password } => {
            let given = passwords::read(&password)?.or_else(|| settings.admin_password.clone());
            let is_random = given.is_none();
            let password = given.unwrap_or_else(random_token);
            let build = builds::create(&app, &domain, &settings.admin_username, &password).await?;
            // Running servers serve it at once (document 4, section 1), also those that have just learnt of no such build.
            tokio::time::sleep(STALE_AFTER).await;
            println!("The build {} was made.", build.domain);
            if !builds::has_history(&app, &build).await? {
                eprintln!("The history service was not reached; a running server makes the build's tenant there.");
            }
            if is_random {
                println!(
                    "Sign in as {} with the password {password} (it is shown this once).",
                    settings.admin_username
                );
            }
        }
        BuildCommand::List { json } => {
            let builds = builds::list(&app).await?;
            match (json, std::io::stdout().is_terminal()) {
                (true, _) => print!("{}", build_list::json(&builds)),
                (false, true) => print!("{}", build_list::table(&builds)),
                (false, false) => print!("{}", build_list::lines(&builds)),
            }
        }
        BuildCommand::Delete { domain, yes, with_history } => {
            if !yes {
                return Err(format!("{domain}: everything in the build would be lost; say --yes if that is meant"));
            }
            let kept = builds::delete(&app, &domain, with_history).await?;
            println!("The build {domain} was deleted.");
            if let Some(builds::Kept { tenant, undelivered }) = kept {
                println!("Its history stays: database {}, client id {}.", tenant.database_name, tenant.client_id);
                if undelivered > 0 {
                    println!("{undelivered} events had not arrived there, and are gone.");
                }
            }
        }
        BuildCommand::Limits { domain, key, value } => {
            let build = builds::find(&app, &domain).await?;
            if let (Some(key), Some(value)) = (&key, &value) {
                limits::set(&app, &build, key, value).await?;
            }
            for line in limits::list(&build, key.as_deref()).await? {
                let (key, value, origin) = (line.key, line.value, if line.is_default { "default" } else { "set" });
                let count = line.count.map(|count| count.to_string()).unwrap_or_default();
                println!("{key}\t{value}\t{origin}\t{count}");
            }
        }
        BuildCommand::AllowPasswords { domain } => {
            let build = builds::find(&app, &domain).await?;
            builds::allow_passwords(&app, &build).await?;
            println!(
                "Super admins of {} may sign in with passwords; `chancery user set-password` gives one.",
                build.domain
            );
        }
    }
    app.store.close().await;
    Ok(())
}

async fn user(command: UserCommand, settings: Settings) -> Result<(), Failure> {
    let app = open(&settings, settings.listen, None).await?;
    match command {
        UserCommand::Create { user, account_type } => {
            let build = builds::find(&app, &user.build).await?;
            builds::create_user(&app, &build, &user.username, account_type, &password(&user)?).await?;
            println!("The user {} was made.", user.username);
        }
        UserCommand::SetPassword { user } => {
            let build = builds::find(&app, &user.build).await?;
            builds::set_password(&app, &build, &user.username, &password(&user)?).await?;
            println!("The password of {} was set.", user.username);
        }
    }
    app.store.close().await;
    Ok(())
}

fn password(user: &UserPassword) -> Result<String, Failure> {
    match user.password.clone().map_or_else(|| passwords::read(&user.source), |password| Ok(Some(password)))? {
        Some(password) => Ok(password),
        None if std::io::stdin().is_terminal() => passwords::ask(),
        None => Err("--password: must be given where there is no terminal to ask on".to_owned()),
    }
}

fn keys(settings: &Settings) -> Result<(), Failure> {
    let api_key = match &settings.api_key {
        Some(key) => key.clone(),
        None => long_enough(settings, API_KEY, generated(&settings.data, API_KEY)?)?,
    };
    let history_api_key = history_api_key(settings)?;
    println!("CHANCERY_API_KEY={api_key}\nCHANCERY_HISTORY_API_KEY={history_api_key}");
    Ok(())
}

/// Puts another secret key in the place of the present one, while nobody else has the databases open. The file of the key
/// is replaced last: until then the databases say how far it is.
async fn rotate(settings: &Settings) -> Result<(), Failure> {
    let new = settings.new_secret_key.as_deref();
    let new = new.ok_or_else(|| "CHANCERY_NEW_SECRET_KEY: must be set to the key that is to come".to_owned())?;
    let is_kept = settings.secret_key.is_none();
    if is_kept && new.trim() != new {
        return Err("CHANCERY_NEW_SECRET_KEY: no spaces can be kept around a key in a file".to_owned());
    }
    if settings.database_url.is_none() && !settings.data.join("control.db").exists() {
        return Err(format!("{}: there is no data directory", settings.data.display()));
    }
    let old = secret_key(settings)?;
    let bar = progress("builds", 0);
    let shown = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let rotated = key_rotation::rotate(engine(settings), &old, new, shown).await?;
    bar.finish();
    if is_kept {
        let replaced = secrets_file::replace(&settings.data, SECRET_KEY, new);
        replaced.map_err(|error| format!("CHANCERY_DATA: {error}"))?;
    }
    match rotated {
        None => println!("The secret key is the new one already."),
        Some(Rotated { builds, unopened }) => {
            println!("The secret key was changed (builds: {builds}). All sessions and links in mails have ended.");
            if unopened > 0 {
                println!("{unopened} sealed values were opened by neither key, and stay as they are.");
            }
        }
    }
    if !is_kept {
        println!("Set CHANCERY_SECRET_KEY to the new key before the next start.");
    }
    Ok(())
}

/// A consistent copy of the embedded data directory: the list of builds first, so that every build in it is copied
/// after it, then keys and mails.
async fn backup(settings: &Settings, target: &Path, without_keys: bool) -> Result<(), Failure> {
    if settings.database_url.is_some() {
        return Err("backup copies the embedded data directory; for PostgreSQL use its own tools".to_owned());
    }
    if !settings.data.join("control.db").exists() {
        return Err(format!("{}: there is no data directory", settings.data.display()));
    }
    let words = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    // Both directories stand before the first copy is synced, and are as private as the original.
    for directory in [target, &target.join("builds")] {
        DirBuilder::new().mode(0o700).create(directory).map_err(|error| words(directory, error))?;
    }
    let app = open(settings, settings.listen, None).await?;
    let all = builds::list(&app).await?;
    let bar = progress("databases", all.len() as u64 + 1);
    app.store.backup(None, target.join("control.db")).await.map_err(|error| error.to_string())?;
    bar.inc(1);
    for build in all.iter().filter(|build| build.state == "active") {
        let name = database_name(build.id);
        let copy = target.join("builds").join(format!("{name}.db"));
        match app.store.backup(Some(&name), copy).await {
            // Deleted meanwhile: then the copy is without it, too.
            Ok(()) | Err(store::Error::Missing) => bar.inc(1),
            Err(error) => return Err(format!("{}: {error}", build.domain)),
        }
    }
    bar.finish();
    app.store.close().await;
    // After the builds: what was delivered meanwhile is in both then, and the history service takes it once.
    backup_history(&settings.data, target).await?;
    let left_out: &[&str] = if without_keys { &secrets_file::ALL } else { &[] };
    copy_rest(&settings.data, target, left_out)?;
    if target.join(SECRET_KEY).exists() {
        println!("The copy holds the secret key beside what it seals: keep it safe, or make one --without-keys.");
    } else {
        println!("The copy is of no use without the secret key, which is not in it: keep both, in different places.");
    }
    Ok(())
}

/// The embedded history, if there is one.
async fn backup_history(data: &Path, target: &Path) -> Result<(), Failure> {
    let (from, to) = (data.join("history"), target.join("history"));
    if !from.join("control.db").exists() {
        return Ok(());
    }
    for directory in [&to, &to.join("tenants")] {
        let made = DirBuilder::new().mode(0o700).create(directory);
        made.map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let history = Sqlite::open(from, Clock::system()).await.map_err(|error| error.to_string())?;
    let bar = progress("history", 0);
    let copied = history.backup(&to, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    copied.await.map_err(|error| format!("history: {error}"))?;
    bar.finish();
    history.close().await;
    Ok(())
}

fn progress(what: &'static str, length: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:20} {bar:30} {pos}/{len}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style).with_message(what)
}

/// Everything that is no database, but for these files of the directory itself.
fn copy_rest(from: &Path, to: &Path, left_out: &[&str]) -> Result<(), Failure> {
    let words = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let entries = match std::fs::read_dir(from) {
        // A tenant of the history service was deleted meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| words(from, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| words(from, error))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || left_out.contains(&name.as_str()) {
            // What is on its way in or out, or is not wanted.
        } else if path.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&target);
            made.map_err(|error| words(&target, error))?;
            copy_rest(&path, &target, &[])?;
        } else if ![".db", ".db-wal", ".db-shm"].iter().any(|ending| name.ends_with(ending)) && !target.exists() {
            match std::fs::copy(&path, &target) {
                // A mail that was sent, or a temporary file, may be gone meanwhile.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(words(&path, error)),
                _ => {}
            }
        }
    }
    Ok(())
}
