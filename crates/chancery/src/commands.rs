//! Runs the commands (`docs/operations.md`).

use crate::backup::backup;
use crate::build_list;
use crate::cli::{
    BuildCommand, Command, HistoryCommand, KeysCommand, ReceiptCommand, SequencesCommand, ServicePart, UserCommand,
    UserPassword,
};
use crate::command_history::{self, AdoptedService};
use crate::data_directory;
use crate::deletion::{self, DeleteOptions};
use crate::demo::demo;
use crate::health;
use crate::moving;
use crate::open::{
    CommandFailure, engine, generated, history_api_key, long_enough, open, open_for_command, secret_key, signing_key,
};
use crate::output::{print_json, print_line, progress, say_lines};
use crate::passwords;
use crate::restore;
use crate::secrets_file::{self, API_KEY, SECRET_KEY};
use crate::serve;
use crate::settings::ProgramSettings;
use platform::key_rotation::{self, RotationResult};
use platform::limits::LimitRow;
use platform::moving::Extent;
use platform::{builds, limits, sequences};
use serde_json::{Value as Json, json};
use std::io::IsTerminal;
use web::clock::random_token;

/// Runs a command.
pub async fn run(command: Command, settings: ProgramSettings) -> Result<(), CommandFailure> {
    if let Command::Restore { directory } = &command {
        return restore::restore(&settings, directory).await;
    }
    data_directory::check(&settings)?;
    match command {
        Command::Restore { .. } => Ok(()),
        Command::Check { domain, json } => check(&settings, domain.as_deref(), json).await,
        Command::Serve { part } => {
            let (api, history) = (part != Some(ServicePart::History), part != Some(ServicePart::Api));
            serve::run(settings, api, history).await
        }
        Command::Build(command) => build(command, settings).await,
        Command::User(command) => user(command, settings).await,
        Command::Sequences(SequencesCommand::Pause { build, id }) => pause_sequences(&settings, &build, id).await,
        Command::Demo { domain, json } => demo(&domain, json, &settings).await,
        Command::History(HistoryCommand::Adopt { new_tenants, json }) => {
            adopt_history(&settings, new_tenants, json).await
        }
        Command::Keys { command: None, json } => keys(&settings, json),
        Command::Keys { command: Some(KeysCommand::Rotate { json }), .. } => rotate(&settings, json).await,
        Command::Health { part, json } => health::run(&settings, part, json),
        // `main` runs these, because they do not need valid settings.
        Command::Config(_) | Command::Completions { .. } => Ok(()),
        Command::Receipt(ReceiptCommand::Check { file, public_key }) => deletion::check_receipt(&file, &public_key),
        Command::Backup { directory, without_keys } => backup(&settings, &directory, without_keys).await,
    }
}

async fn build(command: BuildCommand, settings: ProgramSettings) -> Result<(), CommandFailure> {
    let app = match &command {
        BuildCommand::Create { .. } => open(&settings, settings.listen).await?,
        _ => open_for_command(&settings).await?,
    };
    match command {
        BuildCommand::Create { domain, password, json } => {
            let password_option = passwords::read(&password)?.or_else(|| settings.admin_password.clone());
            let history = command_history::connect(&app, &settings).await?;
            let is_random = password_option.is_none();
            let password = password_option.unwrap_or_else(random_token);
            let build = builds::create(&app, &domain, &settings.admin_username, &password).await?;
            // The password is printed immediately, because it is stored nowhere else.
            print_new_build(&build.domain, &settings.admin_username, is_random.then_some(password), json)?;
            history.finish_new_build(&app, &build).await?;
            history.close().await;
        }
        BuildCommand::List { json } => {
            let builds = builds::list(&app).await?;
            match (json, std::io::stdout().is_terminal()) {
                (true, _) => say_lines(&build_list::json(&builds))?,
                (false, true) => say_lines(&build_list::table(&builds))?,
                (false, false) => say_lines(&build_list::lines(&builds))?,
            }
        }
        BuildCommand::Delete { domain, yes, with_history, receipt, json } => {
            if !yes {
                return Err(format!("{domain}: everything in the build would be lost; say --yes if that is meant"));
            }
            let options = DeleteOptions { with_history, receipt, json };
            deletion::delete(&app, &settings, &domain, options).await?;
        }
        BuildCommand::Export { domain, file, without_credentials, contents } => {
            let extent = if without_credentials { Extent::Tenant } else { Extent::Full };
            moving::export(&app, &settings, (&domain, extent), &file, &contents).await?;
        }
        BuildCommand::Import { file, domain, contents } => {
            moving::import(&app, &settings, &file, domain, &contents).await?;
        }
        BuildCommand::Limits { domain, key, value, json } => {
            let build = builds::find(&app, &domain).await?;
            if let (Some(key), Some(value)) = (&key, &value) {
                limits::set(&app, &build, key, value).await?;
            }
            let listed = limits::list(&build, key.as_deref()).await?;
            match json {
                true => print_json(&Json::from_iter(listed.iter().map(limit_json)))?,
                false => listed.iter().try_for_each(print_limit)?,
            }
        }
        BuildCommand::AllowPasswords { domain } => {
            let build = builds::find(&app, &domain).await?;
            builds::allow_passwords(&app, &build).await?;
            print_line(format_args!(
                "Super admins of {} may sign in with passwords; `chancery user set-password` gives one.",
                build.domain
            ))?;
        }
    }
    app.store.close().await;
    Ok(())
}

/// Prints a new build. `password` is the generated password of its super admin, or `None` if the operator chose it.
fn print_new_build(
    domain: &str,
    username: &str,
    password: Option<String>,
    as_json: bool,
) -> Result<(), CommandFailure> {
    if as_json {
        return print_json(&json!({"domain": domain, "username": username, "password": password}));
    }
    print_line(format_args!("The build {domain} was made."))?;
    match password {
        Some(password) => {
            print_line(format_args!("Sign in as {username} with the password {password} (it is shown this once)."))
        }
        None => Ok(()),
    }
}

fn print_limit(limit: &LimitRow) -> Result<(), CommandFailure> {
    let LimitRow { key, value, is_default, count } = limit;
    let (origin, count) = (if *is_default { "default" } else { "set" }, count.map(|count| count.to_string()));
    print_line(format_args!("{key}\t{value}\t{origin}\t{}", count.unwrap_or_default()))
}

/// A limit: `{"key", "value", "is_default", "count"}`. The value is a number, or the list of file extensions.
fn limit_json(limit: &LimitRow) -> Json {
    let value = match limit.value.parse::<i64>() {
        Ok(number) => json!(number),
        Err(_) => Json::from_iter(limit.value.split(',').filter(|extension| !extension.is_empty())),
    };
    json!({"key": limit.key, "value": value, "is_default": limit.is_default, "count": limit.count})
}

async fn check(settings: &ProgramSettings, domain: Option<&str>, json: bool) -> Result<(), CommandFailure> {
    let app = open_for_command(settings).await?;
    let checked = restore::check(&app, domain, json).await;
    app.store.close().await;
    checked
}

async fn adopt_history(settings: &ProgramSettings, new_tenants: bool, as_json: bool) -> Result<(), CommandFailure> {
    let app = open_for_command(settings).await?;
    let adopted = command_history::adopt(&app, settings, new_tenants).await;
    app.store.close().await;
    let AdoptedService { id, place } = adopted?;
    match as_json {
        true => print_json(&json!({"id": id, "place": place})),
        false => print_line(format_args!("The history service of this database is {id} now ({place}).")),
    }
}

async fn pause_sequences(settings: &ProgramSettings, domain: &str, id: Option<i64>) -> Result<(), CommandFailure> {
    let app = open_for_command(settings).await?;
    let build = builds::find(&app, domain).await?;
    let paused = sequences::pause_by_operator(&app, &build, id).await;
    app.store.close().await;
    for name in paused? {
        print_line(format_args!("The sequence {name} is paused."))?;
    }
    Ok(())
}

async fn user(command: UserCommand, settings: ProgramSettings) -> Result<(), CommandFailure> {
    let app = open_for_command(&settings).await?;
    match command {
        UserCommand::Create { user, account_type } => {
            let build = builds::find(&app, &user.build).await?;
            builds::create_user(&app, &build, &user.username, account_type, &password(&user)?).await?;
            print_line(format_args!("The user {} was made.", user.username))?;
        }
        UserCommand::SetPassword { user } => {
            let build = builds::find(&app, &user.build).await?;
            builds::set_password(&app, &build, &user.username, &password(&user)?).await?;
            print_line(format_args!("The password of {} was set.", user.username))?;
        }
        UserCommand::ResetSecondFactors { build, username } => {
            let build = builds::find(&app, &build).await?;
            builds::reset_second_factors(&app, &build, &username).await?;
            print_line(format_args!("The second factors of {username} were removed."))?;
        }
    }
    app.store.close().await;
    Ok(())
}

fn password(user: &UserPassword) -> Result<String, CommandFailure> {
    match user.password.clone().map_or_else(|| passwords::read(&user.source), |password| Ok(Some(password)))? {
        Some(password) => Ok(password),
        None if std::io::stdin().is_terminal() => passwords::prompt_password(),
        None => Err("--password: must be given where there is no terminal to ask on".to_owned()),
    }
}

fn keys(settings: &ProgramSettings, as_json: bool) -> Result<(), CommandFailure> {
    let api_key = match &settings.api_key {
        Some(key) => key.clone(),
        None => long_enough(settings, API_KEY, generated(&settings.data, API_KEY)?)?,
    };
    let history_api_key = history_api_key(settings)?;
    let signing = signing_key(settings)?;
    if as_json {
        let signing = signing.map(|key| json!({"public_key": key.public_key(), "id": key.id()}));
        return print_json(&json!({"api_key": api_key, "history_api_key": history_api_key, "signing_key": signing}));
    }
    print_line(format_args!("CHANCERY_API_KEY={api_key}\nCHANCERY_HISTORY_API_KEY={history_api_key}"))?;
    match signing {
        Some(key) => print_line(format_args!("SIGNING_PUBLIC_KEY={}\nSIGNING_KEY_ID={}", key.public_key(), key.id())),
        None => Ok(()),
    }
}

/// Replaces the secret key while no other process has the databases open. The file of the key is replaced last. Until then, the
/// databases store the progress.
async fn rotate(settings: &ProgramSettings, as_json: bool) -> Result<(), CommandFailure> {
    let new = settings.new_secret_key.as_deref();
    let new = new.ok_or_else(|| "CHANCERY_NEW_SECRET_KEY: must be set to the key that is to come".to_owned())?;
    let is_kept = settings.secret_key.is_none();
    if is_kept && new.trim() != new {
        return Err("CHANCERY_NEW_SECRET_KEY: no spaces can be kept around a key in a file".to_owned());
    }
    data_directory::must_exist(settings)?;
    let old = secret_key(settings)?;
    let bar = progress("builds", 0);
    let shown = |rotated_count: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(rotated_count as u64);
    };
    let rotated = key_rotation::rotate(engine(settings), &old, new, shown).await?;
    bar.finish();
    if is_kept {
        let replaced = secrets_file::replace(&settings.data, SECRET_KEY, new);
        replaced.map_err(|error| format!("CHANCERY_DATA: {error}"))?;
    }
    if as_json {
        let (builds, unopened) = rotated.map_or((0, 0), |result| (result.builds, result.unopened));
        return print_json(&json!({"rotated_builds": builds, "unopened_values": unopened, "is_in_file": is_kept}));
    }
    match rotated {
        None => print_line("The secret key is the new one already.")?,
        Some(RotationResult { builds, unopened }) => {
            print_line(format_args!(
                "The secret key was changed (builds: {builds}). All sessions and links in mails have ended."
            ))?;
            if unopened > 0 {
                print_line(format_args!("{unopened} sealed values were opened by neither key, and stay as they are."))?;
            }
        }
    }
    if !is_kept {
        print_line("Set CHANCERY_SECRET_KEY to the new key before the next start.")?;
    }
    Ok(())
}
