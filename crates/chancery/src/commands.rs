//! Runs the commands (`docs/operations.md`).

use crate::backup::backup;
use crate::build_list;
use crate::cli::{
    BuildCommand, Command, HistoryCommand, KeysCommand, SequencesCommand, ServicePart, UserCommand, UserPassword,
};
use crate::command_history::{self, ReachedService};
use crate::data_directory;
use crate::demo::demo;
use crate::open::{
    CommandFailure, engine, generated, history_api_key, long_enough, open, open_for_command, secret_key,
};
use crate::output::{print_line, progress, say_lines};
use crate::passwords;
use crate::secrets_file::{self, API_KEY, SECRET_KEY};
use crate::serve;
use crate::settings::ProgramSettings;
use platform::builds::HistoryOfDeleted;
use platform::events::history_tenants::BuildTenant;
use platform::key_rotation::{self, RotationResult};
use platform::kit::app::App;
use platform::{builds, limits, sequences};
use std::io::IsTerminal;
use web::clock::random_token;

/// Runs a command.
pub async fn run(command: Command, settings: ProgramSettings) -> Result<(), CommandFailure> {
    data_directory::check(&settings)?;
    match command {
        Command::Serve { part } => {
            let (api, history) = (part != Some(ServicePart::History), part != Some(ServicePart::Api));
            serve::run(settings, api, history).await
        }
        Command::Build(command) => build(command, settings).await,
        Command::User(command) => user(command, settings).await,
        Command::Sequences(SequencesCommand::Pause { build, id }) => pause_sequences(&settings, &build, id).await,
        Command::Demo { domain, json } => demo(&domain, json, &settings).await,
        Command::History(HistoryCommand::Adopt { new_tenants }) => adopt_history(&settings, new_tenants).await,
        Command::Keys { command: None } => keys(&settings),
        Command::Keys { command: Some(KeysCommand::Rotate) } => rotate(&settings).await,
        Command::Backup { directory, without_keys } => backup(&settings, &directory, without_keys).await,
    }
}

async fn build(command: BuildCommand, settings: ProgramSettings) -> Result<(), CommandFailure> {
    let app = match &command {
        BuildCommand::Create { .. } => open(&settings, settings.listen).await?,
        _ => open_for_command(&settings).await?,
    };
    match command {
        BuildCommand::Create { domain, password } => {
            let given = passwords::read(&password)?.or_else(|| settings.admin_password.clone());
            let history = command_history::connect(&app, &settings).await?;
            let is_random = given.is_none();
            let password = given.unwrap_or_else(random_token);
            let build = builds::create(&app, &domain, &settings.admin_username, &password).await?;
            print_line(format_args!("The build {} was made.", build.domain))?;
            // The password is printed immediately, because it is stored nowhere else.
            if is_random {
                print_line(format_args!(
                    "Sign in as {} with the password {password} (it is shown this once).",
                    settings.admin_username
                ))?;
            }
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
        BuildCommand::Delete { domain, yes, with_history } => {
            if !yes {
                return Err(format!("{domain}: everything in the build would be lost; say --yes if that is meant"));
            }
            delete_build(&app, &settings, &domain, with_history).await?;
        }
        BuildCommand::Limits { domain, key, value } => {
            let build = builds::find(&app, &domain).await?;
            if let (Some(key), Some(value)) = (&key, &value) {
                limits::set(&app, &build, key, value).await?;
            }
            for line in limits::list(&build, key.as_deref()).await? {
                let (key, value, origin) = (line.key, line.value, if line.is_default { "default" } else { "set" });
                let count = line.count.map(|count| count.to_string()).unwrap_or_default();
                print_line(format_args!("{key}\t{value}\t{origin}\t{count}"))?;
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

async fn delete_build(
    app: &App,
    settings: &ProgramSettings,
    domain: &str,
    with_history: bool,
) -> Result<(), CommandFailure> {
    let history = match with_history {
        true => command_history::connect(app, settings).await?,
        false => ReachedService::default(),
    };
    let deleted = builds::delete(app, domain, with_history).await;
    history.close().await;
    let deleted = deleted?;
    print_line(format_args!("The build {domain} was deleted."))?;
    match deleted {
        HistoryOfDeleted::Deleted => print_line("Its history was deleted, too.")?,
        HistoryOfDeleted::Unknown(BuildTenant { database_name, client_id }) => {
            print_line(format_args!(
                "Its history service knows no history of it: database {database_name}, client id {client_id}."
            ))?;
        }
        HistoryOfDeleted::Kept { tenant: BuildTenant { database_name, client_id }, undelivered } => {
            print_line(format_args!("Its history stays: database {database_name}, client id {client_id}."))?;
            if undelivered > 0 {
                print_line(format_args!("{undelivered} events had not arrived there, and are gone."))?;
            }
        }
        HistoryOfDeleted::None { undelivered } => {
            if undelivered > 0 {
                print_line(format_args!("{undelivered} events had not arrived in any history service, and are gone."))?;
            }
        }
    }
    Ok(())
}

async fn adopt_history(settings: &ProgramSettings, new_tenants: bool) -> Result<(), CommandFailure> {
    let app = open_for_command(settings).await?;
    let adopted = command_history::adopt(&app, settings, new_tenants).await;
    app.store.close().await;
    print_line(adopted?)?;
    Ok(())
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

fn keys(settings: &ProgramSettings) -> Result<(), CommandFailure> {
    let api_key = match &settings.api_key {
        Some(key) => key.clone(),
        None => long_enough(settings, API_KEY, generated(&settings.data, API_KEY)?)?,
    };
    let history_api_key = history_api_key(settings)?;
    print_line(format_args!("CHANCERY_API_KEY={api_key}\nCHANCERY_HISTORY_API_KEY={history_api_key}"))?;
    Ok(())
}

/// Replaces the secret key while no other process has the databases open. The file of the key is replaced last. Until then, the
/// databases store the progress.
async fn rotate(settings: &ProgramSettings) -> Result<(), CommandFailure> {
    let new = settings.new_secret_key.as_deref();
    let new = new.ok_or_else(|| "CHANCERY_NEW_SECRET_KEY: must be set to the key that is to come".to_owned())?;
    let is_kept = settings.secret_key.is_none();
    if is_kept && new.trim() != new {
        return Err("CHANCERY_NEW_SECRET_KEY: no spaces can be kept around a key in a file".to_owned());
    }
    data_directory::must_exist(settings)?;
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
