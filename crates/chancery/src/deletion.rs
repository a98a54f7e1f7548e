//! `chancery build delete` with its signed receipt, and `chancery receipt check` (`docs/moving.md`, "Receipts").
//!
//! A draft of the receipt is stored in the control database before the data is deleted, so that a repeated command after an
//! interruption still writes it.

use crate::command_history::{self, ReachedService};
use crate::open::{CommandFailure, signing_key};
use crate::output::{print_json, print_line};
use crate::settings::ProgramSettings;
use platform::builds::{self, Deletion, HistoryOfDeleted};
use platform::events::history_tenants::BuildTenant;
use platform::kit::app::App;
use platform::kit::signing::{self, SigningKey};
use platform::moving::{MoveError, deletion_draft, read_contents};
use resource::time::show;
use serde_json::{Map, Value as Json, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use store::StoreError;

/// The directory of receipts in the data directory.
const RECEIPTS: &str = "receipts";
/// The kind of these receipts, and the version of their form.
const KIND: &str = "build_deletion";
const VERSION: i64 = 1;
/// The maximum size of a receipt, in bytes. One has a line for each table.
const MAX_RECEIPT: u64 = 64 * 1024 * 1024;

/// The options of a deletion.
pub struct DeleteOptions {
    /// Also delete the history tenant.
    pub with_history: bool,
    /// The file of the receipt.
    pub receipt: Option<PathBuf>,
    /// Print a JSON object.
    pub json: bool,
}

/// Deletes a build. Writes a receipt if the deployment has a signing key.
pub async fn delete(
    app: &App,
    settings: &ProgramSettings,
    domain: &str,
    options: DeleteOptions,
) -> Result<(), CommandFailure> {
    let DeleteOptions { with_history, receipt, json } = options;
    let key = signing_key(settings)?;
    if receipt.is_some() && key.is_none() {
        return Err("CHANCERY_SIGNING_KEY: must be set, since no signing key is set".to_owned());
    }
    if let Some(path) = receipt.as_ref().filter(|path| path.exists()) {
        return Err(format!("{}: is there already", path.display()));
    }
    let text = |error: StoreError| error.to_string();
    if let (Some(key), Some(draft)) = (&key, deletion_draft::of_deleted(app, domain).await.map_err(text)?) {
        // The command was interrupted after the deletion.
        let path = write_receipt(app, settings, key, draft, receipt).await?;
        return print_deletion(domain, None, Some(&path), json);
    }
    let history = match with_history {
        true => command_history::connect(app, settings).await?,
        false => ReachedService::default(),
    };
    let deleted = delete_connected(app, settings, (domain, with_history), key, receipt).await;
    history.close().await;
    let (outcome, receipt) = deleted?;
    print_deletion(domain, Some(&outcome), receipt.as_deref(), json)
}

async fn delete_connected(
    app: &App,
    settings: &ProgramSettings,
    (domain, with_history): (&str, bool),
    key: Option<SigningKey>,
    receipt: Option<PathBuf>,
) -> Result<(HistoryOfDeleted, Option<PathBuf>), CommandFailure> {
    let deletion = builds::begin_deletion(app, domain, with_history).await?;
    let (uid, text) = (deletion.uid.clone(), |error: StoreError| error.to_string());
    if key.is_some() && deletion_draft::load(app, &uid).await.map_err(text)?.is_none() {
        deletion_draft::store(app, &uid, &draft(app, &deletion).await?).await.map_err(text)?;
    }
    let outcome = builds::end_deletion(app, deletion).await?;
    let Some(key) = key else { return Ok((outcome, None)) };
    let mut draft = deletion_draft::load(app, &uid).await.map_err(text)?.unwrap_or_default();
    draft.insert("history".to_owned(), history_json(&outcome));
    let path = write_receipt(app, settings, &key, draft, receipt).await?;
    Ok((outcome, Some(path)))
}

/// Prints what was deleted. The outcome for the history is unknown after an interruption.
fn print_deletion(
    domain: &str,
    outcome: Option<&HistoryOfDeleted>,
    receipt: Option<&Path>,
    as_json: bool,
) -> Result<(), CommandFailure> {
    if as_json {
        let mut printed = outcome.map_or_else(|| json!({"domain": domain}), |outcome| deletion_json(domain, outcome));
        printed["receipt"] = receipt.map(|path| path.display().to_string()).into();
        return print_json(&printed);
    }
    if let Some(outcome) = outcome {
        print_line(format_args!("The build {domain} was deleted."))?;
        print_history(outcome)?;
    }
    receipt.map_or(Ok(()), |path| print_line(format_args!("The receipt is in {}.", path.display())))
}

/// The result of `build delete --json`: `{"domain", "history": {"state", "database_name", "client_id"}, "undelivered_events"}`.
/// `state` is `none`, `deleted`, `missing` in the history service, or `retained` there.
fn deletion_json(domain: &str, deleted: &HistoryOfDeleted) -> Json {
    let (state, tenant, undelivered) = match deleted {
        HistoryOfDeleted::None { undelivered } => ("none", None, *undelivered),
        HistoryOfDeleted::Deleted => ("deleted", None, 0),
        HistoryOfDeleted::Unknown(tenant) => ("missing", Some(tenant), 0),
        HistoryOfDeleted::Kept { tenant, undelivered } => ("retained", Some(tenant), *undelivered),
    };
    let history = json!({
        "state": state,
        "database_name": tenant.map(|tenant| &tenant.database_name),
        "client_id": tenant.map(|tenant| &tenant.client_id),
    });
    json!({"domain": domain, "history": history, "undelivered_events": undelivered})
}

/// Returns the receipt of a deletion before its end, without the outcome for the history.
async fn draft(app: &App, deletion: &Deletion) -> Result<Map<String, Json>, CommandFailure> {
    let build = app.new_build(deletion.id, &deletion.domain, deletion.uid.clone());
    let (tables, files) = match read_contents(app, &build).await {
        Ok(contents) => (contents.tables, contents.files),
        // An earlier deletion was interrupted after it had removed the database.
        Err(MoveError::Store(StoreError::Missing)) => (Json::Null, Json::Null),
        Err(error) => return Err(format!("{}: nothing was deleted: {error}", deletion.domain)),
    };
    let receipt = json!({
        "kind": KIND, "version": VERSION, "program": env!("CARGO_PKG_VERSION"), "domain": deletion.domain, "build": deletion.uid,
        "created_at": show(deletion.created_at), "deleted_at": show(app.clock.now()), "tables": tables, "files": files,
        "history": null,
    });
    Ok(receipt.as_object().cloned().unwrap_or_default())
}

fn history_json(outcome: &HistoryOfDeleted) -> Json {
    let with_tenant = |state: &str, tenant: &BuildTenant, undelivered: i64| {
        json!({
            "state": state, "database_name": tenant.database_name, "client_id": tenant.client_id,
            "undelivered_events": undelivered,
        })
    };
    match outcome {
        HistoryOfDeleted::None { undelivered } => json!({"state": "none", "undelivered_events": undelivered}),
        HistoryOfDeleted::Deleted => json!({"state": "deleted"}),
        HistoryOfDeleted::Unknown(tenant) => with_tenant("unknown", tenant, 0),
        HistoryOfDeleted::Kept { tenant, undelivered } => with_tenant("kept", tenant, *undelivered),
    }
}

fn print_history(outcome: &HistoryOfDeleted) -> Result<(), CommandFailure> {
    match outcome {
        HistoryOfDeleted::Deleted => print_line("Its history was deleted, too."),
        HistoryOfDeleted::Unknown(BuildTenant { database_name, client_id }) => print_line(format_args!(
            "Its history service knows no history of it: database {database_name}, client id {client_id}."
        )),
        HistoryOfDeleted::Kept { tenant: BuildTenant { database_name, client_id }, undelivered } => {
            print_line(format_args!("Its history stays: database {database_name}, client id {client_id}."))?;
            match undelivered {
                0 => Ok(()),
                _ => print_line(format_args!("{undelivered} events had not arrived there, and are gone.")),
            }
        }
        HistoryOfDeleted::None { undelivered: 0 } => Ok(()),
        HistoryOfDeleted::None { undelivered } => {
            print_line(format_args!("{undelivered} events had not arrived in any history service, and are gone."))
        }
    }
}

/// Signs a receipt and writes it, then forgets its draft. Returns the path.
async fn write_receipt(
    app: &App,
    settings: &ProgramSettings,
    key: &SigningKey,
    draft: Map<String, Json>,
    path: Option<PathBuf>,
) -> Result<PathBuf, CommandFailure> {
    let name = |member: &str| draft.get(member).and_then(Json::as_str).unwrap_or("").to_owned();
    let (domain, uid) = (name("domain"), name("build"));
    let path = path.unwrap_or_else(|| settings.data.join(RECEIPTS).join(format!("{domain}-{uid}.json")));
    let failed = |error: io::Error| format!("{}: {error}; call the command again for the receipt", path.display());
    write_file(&path, &format!("{:#}\n", key.sign(draft.clone()))).map_err(failed)?;
    deletion_draft::remove(app, &uid).await.map_err(|error| error.to_string())?;
    Ok(path)
}

/// Writes a private file durably.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    store::make_directory(directory)?;
    let temporary = path.with_extension("partial");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(directory)?.sync_all()
}

/// Checks that the holder of a public key signed a receipt, and that it was not changed since.
pub fn check_receipt(path: &Path, public_key: &str) -> Result<(), CommandFailure> {
    let failed = |reason: String| format!("{}: {reason}", path.display());
    let length = fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if length > MAX_RECEIPT {
        return Err(failed(format!("larger than {MAX_RECEIPT} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let receipt: Json = serde_json::from_str(&text).map_err(|_| failed("it is not JSON".to_owned()))?;
    signing::verify(&receipt, public_key).map_err(|error| match error {
        signing::SignatureError::Key => format!("--public-key: {error}"),
        error => failed(error.to_string()),
    })?;
    print_line("The signature is right.")
}
