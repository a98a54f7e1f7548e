//! Converts the names of older versions to the form in which they are compared: folded, in NFC. The records
//! of a build are converted later, in passes while the build is served (`platform/src/text_forms.rs`).

use resource::fold;
use std::collections::HashSet;
use store::{Conn, Sql, StoreError};
use web::clock::Clock;

/// The number of the pass that replaces indexes.
pub const LAST_PASS: i64 = 2;
/// The time after the migration for which processes of the old version may write, in microseconds.
const OVERLAP_US: i64 = 120_000_000;
/// The maximum difference between the clocks of two processes, in microseconds.
const SKEW_US: i64 = 600_000_000;

/// A name with its folded copy in the column `{name}_fold`.
struct FoldedName {
    table: &'static str,
    column: &'static str,
    /// The rows among which the folded copy is unique.
    uniqueness: Uniqueness,
}

enum Uniqueness {
    None,
    All,
    /// Among rows with the same value in this column.
    Within(&'static str),
}

const fn name(table: &'static str, column: &'static str, uniqueness: Uniqueness) -> FoldedName {
    FoldedName { table, column, uniqueness }
}

const NAMES: [FoldedName; 23] = [
    // A deleted user's name is free again, but it is changed at the deletion.
    name("users", "username", Uniqueness::Within("is_deleted")),
    name("users", "full_name", Uniqueness::None),
    name("roles", "name", Uniqueness::All),
    name("user_groups", "name", Uniqueness::All),
    name("user_group_permission_sets", "name", Uniqueness::Within("group_id")),
    name("administration_log", "object_name", Uniqueness::None),
    name("authentication_objects", "name", Uniqueness::All),
    name("single_sign_on", "name", Uniqueness::All),
    name("object_classes", "name", Uniqueness::All),
    name("object_class_permission_sets", "name", Uniqueness::Within("class_id")),
    name("object_class_fields", "label", Uniqueness::None),
    name("record_permission_sets", "name", Uniqueness::Within("class_id")),
    name("public_files", "filename", Uniqueness::None),
    name("document_templates", "name", Uniqueness::Within("class_id")),
    name("document_templates", "template_file_name", Uniqueness::None),
    name("document_templates", "warning", Uniqueness::None),
    name("object_class_forms", "name", Uniqueness::Within("class_id")),
    name("task_templates", "name", Uniqueness::None),
    name("task_templates", "description", Uniqueness::None),
    name("tasks", "name", Uniqueness::None),
    name("integrations", "name", Uniqueness::All),
    name("custom_components", "name", Uniqueness::All),
    name("mcp_connectors", "name", Uniqueness::All),
];

/// Creates the functions of texts, and the passes of a build that already has texts of users. Names are
/// converted immediately, since people sign in by them.
pub fn migrate(conn: &mut Conn) -> Result<(), StoreError> {
    conn.create_text_functions()?;
    if conn.query_optional(&Sql::new("SELECT 1 FROM users LIMIT 1"), |_| Ok(()))?.is_none() {
        return Ok(());
    }
    refold_names(conn)?;
    let now = Clock::system().now();
    for (n, due_at, changed_since) in [(1, 0, 0), (LAST_PASS, now + OVERLAP_US, now - SKEW_US)] {
        let sql =
            Sql::new("INSERT INTO text_passes(n, due_at, changed_since, class_id, after_n) VALUES ($1, $2, $3, 0, 0)");
        conn.exec(&sql.arg(n).arg(due_at).arg(changed_since))?;
    }
    Ok(())
}

/// Converts the folded copies of names to form NFC. If several names are one text in that form, the
/// first one gets it, so that no other can be created. The others retain their copies.
pub fn refold_names(conn: &mut Conn) -> Result<(), StoreError> {
    for FoldedName { table, column, uniqueness } in &NAMES {
        let folded = format!("{column}_fold");
        let mut sql = Sql::new("SELECT t.id, t.");
        sql.name(column).push(", ");
        match uniqueness {
            Uniqueness::Within(scope) => sql.push("t.").name(scope),
            Uniqueness::None | Uniqueness::All => sql.push("0"),
        };
        sql.push(" FROM ").name(table).push(" t WHERE t.").name(&folded).push(" <> nfc(t.").name(&folded);
        let stale =
            conn.query_all(sql.push(") ORDER BY t.id"), |row| Ok((row.int(0)?, fold(row.text(1)?), row.int(2)?)))?;
        let mut given = HashSet::new();
        for (id, copy, scope) in stale {
            let is_unique = !matches!(uniqueness, Uniqueness::None);
            let is_taken = is_unique
                && (!given.insert((copy.clone(), scope))
                    || is_taken(conn, table, &folded, uniqueness, (&copy, scope))?);
            if !is_taken {
                let mut sql = Sql::new("UPDATE ");
                sql.name(table).push(" SET ").name(&folded).push(" = ").bind(copy).push(" WHERE id = ").bind(id);
                conn.exec(&sql)?;
            }
        }
    }
    Ok(())
}

/// Returns whether a row of a table already has this folded copy.
fn is_taken(
    conn: &mut Conn,
    table: &str,
    folded: &str,
    uniqueness: &Uniqueness,
    (copy, scope): (&str, i64),
) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM ");
    sql.name(table).push(" t WHERE t.").name(folded).push(" = ").bind(copy);
    if let Uniqueness::Within(column) = uniqueness {
        sql.push(" AND t.").name(column).push(" = ").bind(scope);
    }
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}
