//! The interface between the kit and the domains. A domain is a crate that implements a part of the specification and
//! has one [`Module`]. The list of all domains stands in `platform`; no lower crate knows it.

use crate::answer::Outcome;
use crate::answer_cache::AnswerCache;
use crate::app::{App, BuildHooks, OpenError};
use crate::authenticate::{Authenticate, Credential};
use crate::build::Build;
use crate::description;
use crate::jobs::{self, JobFuture, JobKind, Jobs, StandingJob};
use crate::limits::Limit;
use crate::permissions::{self, PermissionResource};
use crate::reactions::{self, Reaction, Removal};
use crate::route::Route;
use crate::secret::{self, Keys, SealedColumn};
use crate::settings::KitSettings;
use crate::slots::Slots;
use crate::table::Table;
use http::request::Parts;
use serde_json::Value as Json;
use std::sync::{LazyLock, OnceLock};
use store::{Conn, Migrations, StoreError};

/// The description of a domain: its routes, permissions, limits, jobs and hooks. `..Module::EMPTY` leaves out the rest.
pub struct Module {
    /// The name of its crate.
    pub name: &'static str,
    pub routes: fn() -> Vec<Route>,
    /// The tags of its routes in OpenAPI, each with its text: the first words of their paths.
    pub tags: &'static [(&'static str, &'static str)],
    pub permissions: &'static [PermissionResource],
    pub limits: &'static [&'static Limit],
    pub reactions: &'static [Reaction],
    /// What follows when rows are gone for good.
    pub removals: &'static [Removal],
    pub jobs: &'static [&'static JobKind],
    pub standing_jobs: &'static [&'static StandingJob],
    /// Checks for rights on single objects, which an account may hold beside those of its type and roles.
    pub object_rights: &'static [ObjectRights],
    /// The columns in the databases of builds whose values are encrypted.
    pub sealed_columns: &'static [SealedColumn],
    /// The kinds of credentials that it authenticates.
    pub callers: &'static [(Credential, Authenticate)],
    /// Puts its state of the process into the slots. An error is a line that names the wrong setting.
    pub slots: fn(&KitSettings, &Keys, &mut Slots) -> Result<(), String>,
    /// Puts its state of one build into the build's slots.
    pub build_slots: fn(&mut Slots),
    /// Its health details in `/readyz`.
    pub health: Option<Health>,
    /// What the description tells of these details.
    pub health_schema: Option<HealthSchema>,
    /// The front end that is part of the program.
    pub front_end: Option<FrontEnd>,
    /// Called when a server starts.
    pub start: fn(&App),
    /// Removes the data of a deleted build, by its uid, that is stored outside of the build's database.
    pub remove_build: fn(App, String) -> JobFuture<Result<(), StoreError>>,
}

/// The front end that is part of the program. It is served beside the table of routes, since no client calls it.
pub struct FrontEnd {
    /// Where people find it.
    pub path: &'static str,
    /// Names its files: two versions are equal when all files are.
    pub version: &'static str,
    /// Answers a request for a build; `None` where the address is not the front end's.
    pub answer: fn(&Build, &Parts) -> Option<Outcome>,
}

/// A function that says whether the user with an id holds rights on single objects.
pub type ObjectRights = fn(&mut Conn, i64) -> Result<bool, StoreError>;

impl Module {
    /// A domain without routes, permissions, jobs or anything else.
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
        front_end: None,
        start: |_| {},
        remove_build: |_, _| Box::pin(async { Ok(()) }),
    };
}

static MODULES: OnceLock<&'static [&'static Module]> = OnceLock::new();

/// Registers the domains of the process, in which permissions, limits and reactions are looked up. Further calls have
/// no effect.
pub fn register(domains: &'static [&'static Module]) {
    MODULES.get_or_init(|| domains);
    permissions::register(domains.iter().flat_map(|domain| domain.permissions));
    reactions::register(
        domains.iter().flat_map(|domain| domain.reactions),
        domains.iter().flat_map(|domain| domain.removals),
    );
    secret::register(domains.iter().flat_map(|domain| domain.sealed_columns));
}

/// Opens the application with these domains.
pub async fn open(
    settings: KitSettings,
    migrations: Migrations,
    domains: &'static [&'static Module],
) -> Result<App, OpenError> {
    register(domains);
    let (keys, mut slots) = (Keys::new(&settings.secret_key), Slots::default());
    let mut for_builds = BuildHooks::default();
    slots.insert(AnswerCache::default());
    let kinds = domains.iter().flat_map(|domain| domain.jobs).copied();
    let standing = domains.iter().flat_map(|domain| domain.standing_jobs).copied();
    slots.insert(Jobs::new(&settings.domains.get(), kinds, standing));
    for_builds.found.push(jobs::wake);
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

/// Creates the routes of the registered domains, and those of the API description.
pub fn all_routes() -> Vec<Route> {
    let domain_routes = registered().iter().rev().flat_map(|domain| (domain.routes)());
    description::routes().into_iter().chain(domain_routes).collect()
}

/// Returns the table of all routes, which is created once, after [`register`].
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(all_routes()));
    &TABLE
}

/// The domains of this process; none before [`register`].
pub fn registered() -> &'static [&'static Module] {
    MODULES.get().copied().unwrap_or_default()
}

/// The front end of this process; `None` where it is switched off.
pub fn front_end(app: &App) -> Option<&'static FrontEnd> {
    registered().iter().find_map(|domain| domain.front_end.as_ref()).filter(|_| app.settings.console)
}

/// The state of a domain in `/readyz`.
pub struct HealthReport {
    /// The member under which the details stand.
    pub name: &'static str,
    pub details: Json,
    /// A line for `warnings`.
    pub warning: Option<String>,
    /// Whether the process can serve; `/readyz` answers 503 otherwise.
    pub is_ready: bool,
}

/// A function that returns the state of a domain; `None` when there is nothing to tell now.
pub type Health = fn(&App) -> Option<HealthReport>;

/// The name of a domain's health details, and their schema.
pub type HealthSchema = (&'static str, fn() -> Json);

/// Whether a user holds rights on single objects in any domain.
pub fn holds_objects(conn: &mut Conn, user: i64) -> Result<bool, StoreError> {
    for holds in registered().iter().flat_map(|domain| domain.object_rights) {
        if holds(conn, user)? {
            return Ok(true);
        }
    }
    Ok(false)
}
