//! The tables and columns that move with a build, and those that stay. A table of a migration is in one of the two lists, which a
//! test checks.

use super::archive::invalid;
use kit::secret::{SealedColumn, sealed_columns};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io;
use store::TableInfo;

/// The tables whose rows move.
const MOVED: [&str; 92] = [
    "administration_log",
    "agent_writes",
    "api_keys",
    "authentication_objects",
    "comment_mentions",
    "comments",
    "company_details",
    "counter_slots",
    "counters",
    "custom_component_files",
    "custom_component_repositories",
    "custom_components",
    "deleted_records",
    "document_copies",
    "document_runs",
    "document_template_classes",
    "document_templates",
    "file_extensions",
    "files",
    "integration_classes",
    "integrations",
    JOBS,
    "limits",
    "mcp_connector_classes",
    "mcp_connectors",
    "object_class_fields",
    "object_class_form_components",
    "object_class_forms",
    "object_class_owners",
    "object_class_permission_sets",
    "object_class_set_groups",
    "object_class_set_users",
    "object_classes",
    "outbox",
    "outbox_refused",
    "password_history",
    "public_files",
    "record_assignees",
    "record_counts",
    "record_permission_sets",
    "record_set_connectors",
    "record_viewers",
    "records",
    "recovery_codes",
    "roles",
    "scim_groups",
    "scim_tokens",
    "scim_users",
    "second_factors",
    "security",
    "sequence_classes",
    "sequence_groups",
    "sequence_mails",
    "sequence_moments",
    "sequence_runs",
    "sequence_skips",
    "sequence_steps",
    "sequence_versions",
    "sequence_wakes",
    "sequences",
    "single_sign_on",
    "single_sign_on_identities",
    "single_sign_on_roles",
    "smtp_settings",
    "task_assignees",
    "task_audiences",
    "task_blocks",
    "task_counts",
    "task_forms",
    "task_log",
    "task_moments",
    "task_template_counts",
    "task_templates",
    "tasks",
    "text_passes",
    "ui_config_components",
    "ui_config_uploads",
    "ui_configs",
    "user_group_members",
    "user_group_owners",
    "user_group_permission_sets",
    "user_group_set_groups",
    "user_group_set_users",
    "user_groups",
    "user_preferences",
    "user_roles",
    "users",
    "versions",
    "webhook_deliveries",
    "webhook_events",
    "webhook_queues",
    ACTIVITY,
];

#[cfg(test)]
/// The tables whose rows stay: sessions, links, running sign-ins, counts of the last minutes, and state of one deployment.
const STAYING: [&str; 21] = [
    "address_attempts",
    "agent_codes",
    "agent_refresh_tokens",
    "browser_sessions",
    "document_requests",
    "export_links",
    "idempotency_keys",
    "link_tokens",
    "mail_jobs",
    "mailed_links",
    "outbox_claim",
    "refresh_tokens",
    "removed_files",
    "sessions",
    "settings",
    "sign_in_challenges",
    "single_sign_on_spent",
    "single_sign_on_tickets",
    "task_link_mails",
    "task_links",
    "used_code_steps",
];

/// The tables that an export of the build's own super admins omits: all hashes of passwords and tokens, and queues.
const OMITTED_FOR_TENANTS: [&str; 7] =
    ["api_keys", JOBS, "outbox", "outbox_refused", "password_history", "recovery_codes", "scim_tokens"];

/// The columns that such an export empties.
const EMPTIED_FOR_TENANTS: [(&str, &str); 6] = [
    ("users", "password_hash"),
    ("users", "password_salt"),
    ("files", "token"),
    ("mcp_connectors", "client_secret"),
    ("second_factors", "challenge_hash"),
    ("second_factors", "public_key"),
];

/// The columns that every export empties: claims of processes and challenges that are being answered.
const ALWAYS_EMPTIED: [(&str, &str); 4] =
    [(JOBS, "holder"), (JOBS, "held_until"), ("webhook_queues", "holder"), ("second_factors", "challenge_hash")];

/// The table of the control database with the calls of agents, and its name in archives.
pub const ACTIVITY: &str = "agent_activity";
/// The table of background work.
pub const JOBS: &str = "jobs";
/// The kinds of jobs that stay. Mails lead to live links. The others concern columns and words that an import creates itself.
pub const STAYING_JOBS: [&str; 3] = ["mail", "object_class_field_values", "object_record_words"];

/// The extent of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The archive of an operator: with hashes of passwords and tokens.
    Full,
    /// The archive of the build's own super admins: without hashes, tokens and secrets.
    Tenant,
}

/// The treatment of a column by an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnRule {
    /// The value.
    Kept,
    /// NULL, or an empty text.
    Emptied,
    /// The value of a sealed column, under the archive's own key or emptied. `row` is the place of the row's key.
    Sealed { column: &'static SealedColumn, row: usize },
    /// The payload of a job, as JSON. `row` is the place of the row's key.
    Payload { row: usize },
}

/// Returns the number of the class's table that a name denotes, with the class: `r12` and `r12_3`.
pub fn class_table(name: &str) -> Option<(i64, i64)> {
    let number = |text: &str| text.parse().ok().filter(|number: &i64| *number > 0 && number.to_string() == text);
    let rest = name.strip_prefix('r')?;
    match rest.split_once('_') {
        None => Some((number(rest)?, 0)),
        Some((class, table)) => Some((number(class)?, number(table)?)),
    }
}

/// Returns whether the rows of a table of the build's database move.
pub fn is_moved(name: &str, extent: Extent) -> bool {
    let is_omitted = extent == Extent::Tenant && OMITTED_FOR_TENANTS.contains(&name);
    !is_omitted && name != ACTIVITY && (MOVED.contains(&name) || class_table(name).is_some())
}

/// Returns whether a table of the build's database is in one of the lists.
#[cfg(test)]
fn is_known(name: &str) -> bool {
    MOVED.contains(&name) || STAYING.contains(&name) || class_table(name).is_some()
}

/// Returns the rules of the columns of a table.
pub fn column_rules(table: &TableInfo, extent: Extent) -> Vec<ColumnRule> {
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    let rule = |name: &str| {
        let is_listed = |list: &[(&str, &str)]| list.contains(&(table.name.as_str(), name));
        if is_listed(&ALWAYS_EMPTIED) || extent == Extent::Tenant && is_listed(&EMPTIED_FOR_TENANTS) {
            return ColumnRule::Emptied;
        }
        let sealed = sealed_columns().find(|sealed| sealed.table == table.name && sealed.column == name);
        match sealed.and_then(|sealed| Some((sealed, place(sealed.row)?))) {
            Some((_, row)) if table.name == JOBS => ColumnRule::Payload { row },
            Some((column, row)) => ColumnRule::Sealed { column, row },
            None => ColumnRule::Kept,
        }
    };
    table.columns.iter().map(|column| rule(&column.name)).collect()
}

/// Returns the moved tables in an order in which each table follows those to which its foreign keys refer. Tables of classes come
/// last.
pub fn in_order(tables: Vec<TableInfo>, extent: Extent) -> Vec<TableInfo> {
    let mut left: Vec<TableInfo> = tables.into_iter().filter(|table| is_moved(&table.name, extent)).collect();
    let names: HashSet<String> = left.iter().map(|table| table.name.clone()).collect();
    left.sort_by_key(|table| class_table(&table.name).unwrap_or((0, 0)));
    let (mut ordered, mut done) = (Vec::with_capacity(left.len()), HashSet::new());
    while !left.is_empty() {
        let is_free = |table: &TableInfo| {
            table.references.iter().all(|other| *other == table.name || done.contains(other) || !names.contains(other))
        };
        // Without a free table the references form a circle, in which the first one begins.
        let next = left.remove(left.iter().position(is_free).unwrap_or(0));
        done.insert(next.name.clone());
        ordered.push(next);
    }
    ordered
}

/// Refuses the name of a table that no archive contains.
pub fn check_name(name: &str, extent: Extent) -> io::Result<()> {
    if is_moved(name, extent) || name == ACTIVITY {
        return Ok(());
    }
    Err(invalid(format!("{}: no such table moves", name.chars().take(60).collect::<String>())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MIGRATIONS, MODULES};
    use store::{Conn, Options, Store, StoreEngine, StoreError};

    async fn tables_of_new_build() -> Vec<TableInfo> {
        kit::domain::register(&MODULES);
        let data = tempfile::tempdir().unwrap();
        let engine = StoreEngine::Sqlite { directory: data.path().to_owned() };
        let store = Store::open(engine, MIGRATIONS, Options::default()).await.unwrap();
        store.create("build_1").await.unwrap();
        let tables = store.database("build_1").read::<_, StoreError>(|conn: &mut Conn| conn.tables()).await.unwrap();
        store.close().await;
        tables
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_table_either_moves_or_stays() {
        let tables = tables_of_new_build().await;
        let unknown: Vec<&str> =
            tables.iter().map(|table| table.name.as_str()).filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "add these to a list in moving/tables.rs: {unknown:?}");
        let named = |name: &str| tables.iter().any(|table| table.name == name);
        let gone: Vec<&&str> = MOVED.iter().chain(&STAYING).filter(|name| **name != ACTIVITY && !named(name)).collect();
        assert!(gone.is_empty(), "no such tables: {gone:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn sealed_values_never_move_as_they_are() {
        let tables = tables_of_new_build().await;
        for sealed in sealed_columns().filter(|sealed| is_moved(sealed.table, Extent::Full)) {
            let table = tables.iter().find(|table| table.name == sealed.table).unwrap();
            let at = table.columns.iter().position(|column| column.name == sealed.column).unwrap();
            assert_ne!(column_rules(table, Extent::Full)[at], ColumnRule::Kept, "{sealed:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_table_follows_those_that_it_refers_to() {
        let ordered = in_order(tables_of_new_build().await, Extent::Full);
        for (at, table) in ordered.iter().enumerate() {
            for other in table.references.iter().filter(|other| **other != table.name) {
                let place = ordered.iter().position(|table| table.name == *other);
                assert!(place.is_none_or(|place| place < at), "{} before {other}", table.name);
            }
        }
    }

    #[test]
    fn tables_of_classes_are_told_by_their_names() {
        assert_eq!((class_table("r12"), class_table("r12_3")), (Some((12, 0)), Some((12, 3))));
        for name in
            ["roles", "records", "r", "r0", "r01", "r-1", "r12_", "r12_words", "r1_2_3", "r99999999999999999999"]
        {
            assert_eq!(class_table(name), None, "{name}");
        }
    }
}
