//! The rules over relations between classes (`docs/reference/object-class-fields.md`). Cycles are not allowed. The length of
//! chains, and the number of relations of one class and to one class, are limited.

use super::field::RELATED;
use crate::object_records::change::RELATION_LEVELS;
use crate::rights::{CLASS_EDIT, load_class_actions};
use kit::ids::ClassId;
use kit::limits::{self, Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Errors, message};
use std::collections::HashSet;
use store::{Conn, Sql, StoreError};

/// The maximum number of relations of one class.
pub static PARENTS: Limit = Limit {
    name: "object_relations_top_parent",
    default: 10,
    many: "Object Relation Parents",
    summary: LimitSummary::Additional("object_relations_top_parents"),
    ..Limit::EMPTY
};
/// The maximum number of relations that point to one class.
pub static CHILDREN: Limit = Limit {
    name: "object_relations_children",
    default: 50,
    many: "Object Relation Children",
    summary: LimitSummary::Additional("object_relations_children"),
    ..Limit::EMPTY
};

/// Blocks all other new classes and relations of the build until the end of the transaction. This lock precedes every other one.
pub fn lock_all(conn: &mut Conn) -> Result<(), StoreError> {
    conn.query_one(&Sql::new("SELECT n FROM versions WHERE name = 'object_relations' FOR UPDATE"), |row| row.int(0))
        .map(drop)
}

/// Checks the class to which a new relation points. The caller needs `edit` on it, because a relation prevents the deletion of
/// its records. The row of the class with the relation is locked.
pub fn check(
    request: &Request,
    conn: &mut Conn,
    class: ClassId,
    related: ClassId,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    if !load_class_actions(conn, request.caller()?, related)?.is_some_and(|rights| rights.allows(CLASS_EDIT)) {
        errors.add(RELATED.name(), message::invalid_id_message(related));
        return Ok(());
    }
    // A class may relate to itself. Cycles of its records are refused when they are written.
    if related == class {
        return Ok(());
    }
    let sql = Sql::new(
        "SELECT DISTINCT f.class_id, f.related_object_class FROM object_class_fields f \
         WHERE f.related_object_class IS NOT NULL AND f.related_object_class <> f.class_id",
    );
    let relations = conn.query_all(&sql, |row| Ok((row.id(0)?, row.id(1)?)))?;
    let up = chain(related, |level| {
        relations.iter().filter(|(child, _)| level.contains(child)).map(|(_, to)| *to).collect()
    });
    if up.seen.contains(&class) {
        errors.add(RELATED.name(), "Circular relations are not allowed.");
        return Ok(());
    }
    let down =
        chain(class, |level| relations.iter().filter(|(_, to)| level.contains(to)).map(|(child, _)| *child).collect());
    let most = limits::value(conn, &RELATION_LEVELS)?;
    if up.length + down.length > most {
        errors.add(RELATED.name(), format!("Limit of {most} relation levels has been exceeded."));
    }
    Ok(())
}

/// The classes above or below a class.
struct Chain {
    /// All of these classes, including the first.
    seen: HashSet<ClassId>,
    /// The number of classes on the longest path.
    length: i64,
}

/// Follows relations to their ends. The relations must not contain a cycle.
fn chain(from: ClassId, next: impl Fn(&HashSet<ClassId>) -> HashSet<ClassId>) -> Chain {
    let (mut visited, mut level, mut length) = (HashSet::new(), HashSet::from([from]), 0);
    while !level.is_empty() {
        length += 1;
        let further = next(&level);
        visited.extend(level);
        level = further;
    }
    Chain { seen: visited, length }
}

/// Refuses one more relation of a class, or to a class, if it would exceed the limits.
pub fn check_limits(conn: &mut Conn, class: ClassId, related: ClassId) -> Result<(), Refusal> {
    let of_class = "SELECT count(*) FROM object_class_fields WHERE class_id = $1 AND related_object_class IS NOT NULL";
    let to_class = "SELECT count(*) FROM object_class_fields WHERE related_object_class = $1";
    for (text, class_id, limit) in [(of_class, class, &PARENTS), (to_class, related, &CHILDREN)] {
        let count = conn.query_one(&Sql::new(text).arg(class_id), |row| row.int(0))?;
        limits::check(conn, limit, count, 1)?;
    }
    Ok(())
}
