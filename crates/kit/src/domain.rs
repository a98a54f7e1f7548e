//! The interface between the kit and the modules. A module is a crate that implements a part of the
//! specification and has one [`Module`]. The list of all modules is in `platform`; no lower crate depends on it.

use crate::answer::Outcome;
use crate::answer_cache::AnswerCache;
use crate::app::{App, BuildHooks, OpenError};
use crate::authenticate::{Authenticate, Credential};
use crate::build::Build;
use crate::description;
use crate::idempotency::turns::Turns;
use crate::ids::UserId;
use crate::jobs::{self, JobFuture, JobKind, Jobs, StandingJob};
use crate::limits::Limit;
use crate::permissions::{self, PermissionResource};
use crate::reactions::{self, Reaction, Removal};
use crate::route::Route;
use crate::secret::{self, Keys, SealedColumn};
use crate::settings::KitSettings;
use crate::slots::Slots;
use crate::table::{RouteTable, Table};
use http::request::Parts;
use serde_json::Value as Json;
use std::sync::{LazyLock, OnceLock};
use store::{Conn, Migrations, StoreError};
use web::metrics::MetricsText;

/// The description of a module: its routes, permissions, limits, jobs and hooks. `..Module::EMPTY` sets the defaults.
pub struct Module {
    /// The name of its crate.
    pub name: &'static str,
    pub routes: fn() -> Vec<Route>,
    /// The OpenAPI tags of its routes, which are the first words of their paths, each with its text.
    pub tags: &'static [(&'static str, &'static str)],
    pub permissions: &'static [PermissionResource],
    pub limits: &'static [&'static Limit],
    pub reactions: &'static [Reaction],
    /// The actions that follow the final removal of rows.
    pub removals: &'static [Removal],
    pub jobs: &'static [&'static JobKind],
    pub standing_jobs: &'static [&'static StandingJob],
    /// Checks for rights on single objects, which an account may have in addition to those of its type and roles.
    pub object_rights: &'static [ObjectRights],
    /// The columns in the databases of builds whose values are encrypted.
    pub sealed_columns: &'static [SealedColumn],
    /// The kinds of credentials that the module authenticates.
    pub callers: &'static [(Credential, Authenticate)],
    /// Puts the module's state of the process into the slots. An error is a line that names the wrong setting.
    pub slots: fn(&KitSettings, &Keys, &mut Slots) -> Result<(), String>,
    /// Puts the module's state of one build into the build's slots.
    pub build_slots: fn(&mut Slots),
    /// The module's health details in `/readyz`.
    pub health: Option<Health>,
    /// The name and the schema of these details in the API description.
    pub health_schema: Option<HealthSchema>,
    /// Writes the module's metrics.
    pub metrics: fn(&App, &mut MetricsText),
    /// The front end that is part of the program.
    pub front_end: Option<FrontEnd>,
    /// Called when a server starts.
    pub start: fn(&App),
    /// Removes the data of a deleted build, by its uid, that is stored outside of the build's database.
    pub remove_build: fn(App, String) -> JobFuture<Result<(), StoreError>>,
}

/// The front end that is part of the program. It is not in the table of routes, since clients do not call it.
pub struct FrontEnd {
    /// The path at which people open it.
    pub path: &'static str,
    /// Identifies its files: two versions are equal if all files are equal.
    pub version: &'static str,
    /// Answers a request for a build; `None` if the address does not belong to the front end.
    pub answer: fn(&Build, &Parts) -> Option<Outcome>,
}

/// A function that returns whether a user has rights on single objects.
pub type ObjectRights = fn(&mut Conn, UserId) -> Result<bool, StoreError>;

impl Module {
    /// A module without routes, permissions, jobs or anything else.
    pub const EMPTY: Module = Module {
        name: "",
        routes: Vec::new,
        tags: &[],
        permissions: &[],
        limits: &[],
        reactions: &[],
        removals: &[],
        jobs: &[],
        standing_jobs: &[],
        object_rights: &[],
        sealed_columns: &[],
        callers: &[],
        slots: |_, _, _| Ok(()),
        build_slots: |_| {},
        health: None,
        health_schema: None,
        metrics: |_, _| {},
        front_end: None,
        start: |_| {},
        remove_build: |_, _| Box::pin(async { Ok(()) }),
    };
}

static MODULES: OnceLock<&'static [&'static Module]> = OnceLock::new();

/// Registers the modules of the process, with their permissions, reactions and sealed columns. Further calls have no effect.
pub fn register(domains: &'static [&'static Module]) {
    MODULES.get_or_init(|| domains);
    permissions::register(domains.iter().flat_map(|domain| domain.permissions));
    reactions::register(
        domains.iter().flat_map(|domain| domain.reactions),
        domains.iter().flat_map(|domain| domain.removals),
    );
    secret::register(domains.iter().flat_map(|domain| domain.sealed_columns));
}

/// Opens the application with these modules.
pub async fn open(
    settings: KitSettings,
    migrations: Migrations,
    domains: &'static [&'static Module],
) -> Result<App, OpenError> {
    register(domains);
    let (keys, mut slots) = (Keys::new(&settings.secret_key), Slots::default());
    let mut for_builds = BuildHooks::default();
    slots.insert(AnswerCache::default());
    slots.insert(Turns::default());
    slots.insert(RouteTable(table));
    let kinds = domains.iter().flat_map(|domain| domain.jobs).copied();
    let standing = domains.iter().flat_map(|domain| domain.standing_jobs).copied();
    slots.insert(Jobs::new(&settings.domains.get(), kinds, standing));
    for_builds.found.push(jobs::start_task);
    for domain in domains {
        (domain.slots)(&settings, &keys, &mut slots).map_err(OpenError::Setting)?;
        for_builds.slots.push(domain.build_slots);
    }
    App::open(settings, keys, migrations, slots, for_builds).await
}

/// Starts the background work of a server.
pub fn start(app: &App) {
    jobs::start(app);
    registered().iter().for_each(|domain| (domain.start)(app));
}

/// Creates the routes of the registered modules, and those of the API description.
pub fn all_routes() -> Vec<Route> {
    let domain_routes = registered().iter().rev().flat_map(|domain| (domain.routes)());
    description::routes().into_iter().chain(domain_routes).collect()
}

/// Returns the table of all routes, which is created once, after [`register`].
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(all_routes()));
    &TABLE
}

/// Returns the modules of this process; an empty list before [`register`].
pub fn registered() -> &'static [&'static Module] {
    MODULES.get().copied().unwrap_or_default()
}

/// Returns the front end of this process; `None` if it is switched off.
pub fn front_end(app: &App) -> Option<&'static FrontEnd> {
    registered().iter().find_map(|domain| domain.front_end.as_ref()).filter(|_| app.settings.console)
}

/// The health of a module in `/readyz`.
pub struct HealthReport {
    /// The member of the answer that contains the details.
    pub name: &'static str,
    pub details: Json,
    /// A line for `warnings`.
    pub warning: Option<String>,
    /// Is true if the process can serve; `/readyz` answers 503 otherwise.
    pub is_ready: bool,
}

/// A function that returns the health of a module; `None` if there is nothing to report now.
pub type Health = fn(&App) -> Option<HealthReport>;

/// The name of a module's health details, and their schema.
pub type HealthSchema = (&'static str, fn() -> Json);

/// Returns whether a user has rights on single objects in any module.
pub fn holds_objects(conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
    for holds in registered().iter().flat_map(|domain| domain.object_rights) {
        if holds(conn, user)? {
            return Ok(true);
        }
    }
    Ok(false)
}
