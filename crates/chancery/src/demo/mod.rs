//! `chancery demo`: a new build with a small organisation, for people who want to try the product (`docs/operations.md`,
//! "Commands").

mod agents;
mod calls;
mod classes;
mod organisation;
mod records;
mod tasks;

use self::calls::DemoCaller;
use self::organisation::{ANNA, JONAS, account_type, username};
use crate::command_history;
use crate::open::{CommandFailure, open};
use crate::output::{print_line, progress, say_lines};
use crate::serve::Signals;
use crate::settings::ProgramSettings;
use platform::builds;
use platform::events;
use platform::kit::account_type::AccountType;
use platform::kit::app::App;
use platform::kit::build::Build;
use serde_json::{Value as Json, json};
use web::clock::random_token;

/// An account that the command prints for the operator.
struct DemoAccount {
    username: String,
    account_type: &'static str,
    password: String,
    /// True if the password is new and stored nowhere else.
    is_new: bool,
}

/// The number of created objects, with the name of the resource and its name for people.
type DemoCounts = Vec<(&'static str, &'static str, usize)>;

/// Creates the complete build, or nothing.
pub async fn demo(domain: &str, as_json: bool, settings: &ProgramSettings) -> Result<(), CommandFailure> {
    let mut signals = Signals::watch()?;
    let app = open(settings, settings.listen).await?;
    if let Ok(build) = builds::find(&app, domain).await {
        let domain = &build.domain;
        return Err(format!(
            "{domain}: there is such a build already; name another domain (`chancery demo DOMAIN`), or delete it first \
             (`chancery build delete {domain} --yes`)"
        ));
    }
    let history = command_history::connect(&app, settings).await?;
    let accounts = accounts(settings);
    let [admin, ..] = &accounts;
    let build = builds::create(&app, domain, &admin.username, &admin.password).await?;
    let filled = tokio::select! {
        filled = fill_build(&app, &build, &accounts) => filled,
        () = signals.wait_for_signal() => Err("it was interrupted".to_owned()),
    };
    let counts = match filled {
        Ok(counts) => counts,
        Err(reason) => {
            let removed = remove(&app, &build, history.away.is_none()).await;
            history.close().await;
            app.store.close().await;
            return Err(format!("{reason}; {removed}"));
        }
    };
    let address = format!("{}/", app.address_of(&build));
    // The passwords are printed immediately, because they are stored nowhere else.
    match as_json {
        true => say_lines(&to_json(&build, &address, &counts, &accounts))?,
        false => print_summary(&build, &address, &counts, &accounts)?,
    }
    history.finish_new_build(&app, &build).await?;
    history.close().await;
    app.store.close().await;
    Ok(())
}

/// Returns the accounts that can sign in, the super admin first.
fn accounts(settings: &ProgramSettings) -> [DemoAccount; 3] {
    let admin = DemoAccount {
        username: settings.admin_username.clone(),
        account_type: AccountType::SuperAdmin.name(),
        password: settings.admin_password.clone().unwrap_or_else(random_token),
        is_new: settings.admin_password.is_none(),
    };
    let account_of = |place| DemoAccount {
        username: username(place),
        account_type: account_type(place),
        password: random_token(),
        is_new: true,
    };
    [admin, account_of(ANNA), account_of(JONAS)]
}

/// Fills the build with requests of its super admin and of the two people who answer tasks.
async fn fill_build(app: &App, build: &Build, accounts: &[DemoAccount; 3]) -> Result<DemoCounts, CommandFailure> {
    let [admin, anna, jonas] = accounts;
    let sign_in = async |account: &DemoAccount| {
        DemoCaller::sign_in(app, &build.domain, &account.username, &account.password).await
    };
    let mut admin = sign_in(admin).await?;
    let bar = progress("people", records::RECORDS as u64);
    let passwords = [(ANNA, anna.password.clone()), (JONAS, jonas.password.clone())];
    let people = organisation::make(app, build, &mut admin, &passwords).await?;
    bar.set_message("classes");
    let classes = classes::make(&mut admin, &people).await?;
    agents::make(&mut admin, &classes).await?;
    classes::form(&mut admin, &classes).await?;
    bar.set_message("records");
    let records = records::make(&mut admin, &people, &classes, &bar).await?;
    classes::document_template(&mut admin, &classes).await?;
    bar.set_message("tasks");
    let (mut anna, mut jonas) = (sign_in(anna).await?, sign_in(jonas).await?);
    let callers = tasks::TaskPeople { admin: &mut admin, anna: &mut anna, jonas: &mut jonas };
    let tasks = tasks::make(callers, &people, &classes, &records).await?;
    bar.finish_and_clear();
    Ok(vec![
        // The number includes the super admin.
        ("users", "people and programs", people.users.len() + 1),
        ("roles", "roles", people.num_of_roles),
        ("user_groups", "groups", people.num_of_groups),
        ("object_classes", "classes", classes.classes().len()),
        ("object_records", "records", records.companies.len() + records.contracts.len() + records.invoices.len()),
        ("document_templates", "document template", 1),
        ("object_class_forms", "form", 1),
        ("task_templates", "task templates", tasks.templates),
        ("tasks", "tasks", tasks.tasks),
        ("integrations", "integration for agents", 1),
        ("mcp_connectors", "connector", 1),
    ])
}

/// Removes a build that could not be filled. Returns a line with the outcome.
async fn remove(app: &App, build: &Build, has_history: bool) -> String {
    let domain = &build.domain;
    let with_history = has_history && events::client(app).is_some();
    let mut removed = builds::delete(app, domain, with_history).await;
    if with_history && removed.is_err() {
        removed = builds::delete(app, domain, false).await;
    }
    match removed {
        Ok(_) => format!("the build {domain} was removed again"),
        Err(reason) => format!(
            "the build {domain} is half-made and could not be removed ({reason}): `chancery build delete {domain} --yes`"
        ),
    }
}

fn print_summary(
    build: &Build,
    address: &str,
    counts: &DemoCounts,
    accounts: &[DemoAccount; 3],
) -> Result<(), CommandFailure> {
    let summary: Vec<String> = counts.iter().map(|(_, name, count)| format!("{count} {name}")).collect();
    print_line(format_args!("The build {} was made: {}.", build.domain, summary.join(", ")))?;
    print_line(format_args!("Open {address} while a server runs (`chancery serve`). Sign in as"))?;
    for DemoAccount { username, account_type, password, is_new } in accounts {
        match is_new {
            true => print_line(format_args!(
                "  {username} ({account_type}) with the password {password} (it is shown this once)"
            ))?,
            false => print_line(format_args!("  {username} ({account_type})"))?,
        }
    }
    Ok(())
}

fn to_json(build: &Build, address: &str, counts: &DemoCounts, accounts: &[DemoAccount; 3]) -> String {
    let counts = Json::from_iter(counts.iter().map(|(resource, _, count)| (*resource, *count)));
    let accounts = accounts.iter().map(|account| {
        let password = account.is_new.then_some(&account.password);
        json!({"username": account.username, "account_type": account.account_type, "password": password})
    });
    let description =
        json!({"domain": build.domain, "address": address, "made": counts, "accounts": Json::from_iter(accounts)});
    format!("{description:#}\n")
}
