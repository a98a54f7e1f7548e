//! The module of files: uploads, public files, downloads, and the removal of files without references (`docs/reference/files.md`).

mod download;
pub mod file_name;
mod public_storage;
mod removal;
mod storage;
pub mod storage_limit;
pub mod stored_files;
pub mod uploads;

pub use download::send;
pub use storage::{FileSettings, Storage, key as storage_key, to_store_error, without_removals};

use kit::domain::Module;
use kit::permissions::PermissionResource;

/// The registration of the files module.
pub static MODULE: Module = Module {
    name: "files",
    routes: || [uploads::routes(), public_storage::routes()].into_iter().flatten().collect(),
    tags: &[("files", "Uploads, whose tokens other endpoints take, and public files.")],
    permissions: &[PermissionResource::assignable("files", &["store", "list", "delete"])],
    limits: &[&public_storage::PUBLIC_FILES, &storage_limit::STORAGE],
    slots: |settings, _, slots| {
        slots.insert(Storage::open(settings)?);
        Ok(())
    },
    removals: &[stored_files::RECORDS_REMOVED],
    standing_jobs: &[&removal::REMOVAL, &storage_limit::COUNT],
    health: Some(storage::health),
    metrics: storage::write_metrics,
    health_schema: Some((storage::HEALTH, storage::health_schema)),
    start: storage::start_watch,
    remove_build: |app, uid| Box::pin(async move { storage::remove_build(&app, &uid).await }),
    ..Module::EMPTY
};
