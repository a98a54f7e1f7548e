//! The contract of the endpoints of classes and records, with a module for each address.
//! Each test starts its own server, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod access;
mod forms;
mod narrowed_keys;
mod object_class_fields;
mod object_class_fields_races;
mod object_classes;
mod object_classes_owners;
mod object_classes_permission_sets;
mod object_records;
mod object_records_aggregate;
mod object_records_assignees;
mod object_records_batch;
mod object_records_changes;
mod object_records_children;
mod object_records_deleted;
mod object_records_export;
mod object_records_files;
mod object_records_history;
mod object_records_lists;
mod object_records_owners;
mod object_records_slow;
mod object_records_together;
mod races;
mod record_permission_sets;
mod rights_that_end;
mod search;
mod set_up;
mod walk;

/// The modules that the tests serve.
struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static kit::domain::Module] =
        &[&events::MODULE, &files::MODULE, &administration::MODULE, &identity::MODULE, &records::MODULE];
}

type TestServer = testkit::TestServer<Api>;
