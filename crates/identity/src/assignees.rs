//! Collections that are changed by arrays of ids: who is assigned to a permission set, who is a member or an owner
//! (document 1, "User group assignee records" and "Assignees"; document 4, section 4; the specification repeats them
//! for groups, classes and records).
//!
//! Here is what they have in common: how a record of the collection looks, the checks of each id, the limit, the audit
//! fields, the log. Where a collection hangs, its resource finds the parent, locks its row, so that the limit is exact
//! and nobody deletes it meanwhile, and decides who may; then it hands the parent over.
//!
//! A batch is all or nothing, and what is told is the first error in the order sent; limits come last.

use crate::user_groups::rights::visible_groups;
use crate::visibility::visible_users;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::caller::Caller;
use kit::limits::{self, Limit};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Declared, Handler, Route, Schema};
use kit::rows::{self, Declaration, Scope, Shape};
use resource::json::Writer;
use resource::{Field, Kind, Resource, message, options};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use store::{Conn, Error, Sql};

/// The most users in one request.
pub const USERS_IN_BATCH: usize = 100;
/// The most groups in one request.
pub const GROUPS_IN_BATCH: usize = 10;

/// A collection of users or groups that hang on a parent.
pub struct Collection {
    /// How its rows are shown: [`shape`] of [`user_records`] or [`group_records`].
    pub shape: Shape,
    /// The column of the parent's id.
    pub parent: &'static str,
    /// What its ids are.
    pub principals: Principals,
    /// How many a parent may have.
    pub limit: &'static Limit,
    /// What its messages say.
    pub messages: Messages,
    /// How changes are noted in the administration log.
    pub log_names: LogNames,
}

/// What the ids of a collection are.
#[derive(Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Principals {
    Users,
    Groups,
}

/// The words in which collections differ.
pub struct Messages {
    /// What one of them is: "1 Time Completion account 5 cannot be `assignee`."
    pub role: &'static str,
    /// The refusal of an id that the caller may not list, from the id and the parent's.
    pub unlisted: fn(i64, i64) -> String,
}

/// An entry of the log is one of the parent's.
pub struct LogNames {
    /// The parent's declaration.
    pub parent: Declared,
    /// The action, when some are added.
    pub add: &'static str,
    /// The action, when some are removed.
    pub remove: &'static str,
    /// The name under which the ids are names.
    pub field: &'static str,
}

/// The instance on which a collection hangs.
pub struct Parent {
    /// Its id.
    pub id: i64,
    /// Its name, for the log.
    pub name: String,
}

/// What the methods of a collection do.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "GET, POST, DELETE, OPTIONS")]
pub struct Handlers {
    pub list: fn(&Request, &mut Conn) -> Outcome,
    pub add: fn(&Request, &mut Conn) -> Outcome,
    pub remove: fn(&Request, &mut Conn) -> Outcome,
    pub document: fn(&Request, &mut Conn) -> Outcome,
}

/// The declaration of a collection of users.
pub fn user_records(title: &'static str, table: &'static str, limit: &'static Limit) -> Resource {
    let fields = [
        // Told as a column, and not in the records (document 1, "Assignees", OPTIONS).
        Field::id().filter_only(),
        Field::new("user", Kind::User).column("user_id").read_only().list_only(),
        Field::new("created_at", Kind::DateTime).read_only().list_only(),
        Field::new("created_by", Kind::User).read_only().nullable().list_only(),
    ];
    let autocomplete = "/api/users/autocomplete/?account_type__exclude=one_time_completion&text__icontains=";
    let resource = Resource::new(table, title, table, fields).unselectable();
    resource.limit_items(limit.default).batch(USERS_IN_BATCH as i64, autocomplete)
}

/// The declaration of a collection of groups.
pub fn group_records(title: &'static str, table: &'static str, limit: &'static Limit) -> Resource {
    let name = "(SELECT g.name FROM user_groups g WHERE g.id = t.group_id)";
    let fields = [
        Field::id().column("group_id").list_only(),
        Field::new("name", Kind::text(100)).sql(name).read_only().list_only(),
        Field::new("created_by", Kind::User).read_only().nullable().list_only(),
        Field::new("created_at", Kind::DateTime).read_only().list_only(),
    ];
    let autocomplete = "/api/user-groups/autocomplete/?text__icontains=";
    let resource = Resource::new(table, title, table, fields).unselectable();
    resource.limit_items(limit.default).batch(GROUPS_IN_BATCH as i64, autocomplete)
}

/// A collection's shape.
pub const fn shape(of: Declared) -> Shape {
    Shape::plain(Declaration::Static(of))
}

/// The routes of a collection, and 405 for whatever is done to one of its records; `reads` and `changes` are the
/// permissions, for people.
pub fn routes(
    path: &'static str,
    record_path: &'static str,
    of: Declared,
    handlers: Handlers,
    reads: &'static str,
    changes: &'static str,
) -> Vec<Route> {
    let ids = |method, summary, handler| Route::new(method, path, summary, Handler::Write(handler)).takes(Schema::Ids);
    vec![
        Route::list(path, of, handlers.list).instance(reads),
        ids(Method::POST, "Add", handlers.add).answers(201, Schema::Records(of)).instance(changes),
        ids(Method::DELETE, "Remove", handlers.remove).answers(204, Schema::Nothing).instance(changes),
        Route::options_below(path, handlers.document),
        Route::nothing(record_path),
    ]
}

impl Collection {
    /// The schema document, with the limit that the build has.
    pub fn document(&self, conn: &mut Conn) -> Outcome {
        let mut document = options::document(&self.shape.resource);
        document["restrictions"]["limit_items"] = limits::value(conn, self.limit)?.into();
        Ok(Answer::value(&document))
    }

    /// The records below a parent, in the order in which they were made.
    pub fn list(&self, parent: i64, request: &Request, conn: &mut Conn) -> Outcome {
        rows::list(request, conn, &self.shape, Scope::of(self.below(parent)))
    }

    /// Adds the ids of the body to a parent whose row is locked. Those that are there already stay as they are; all are
    /// answered, in the order sent.
    pub fn add(&self, parent: &Parent, request: &Request, conn: &mut Conn) -> Outcome {
        let batch = request.batch(self.principals.most_in_batch())?;
        let held = self.held(parent.id, conn)?;
        let new: Vec<i64> = batch.ids.iter().copied().filter(|id| !held.contains(id)).collect();
        let known = self.principals.look_up(conn, request.caller()?, &new)?;
        for id in &new {
            self.check(*id, known.get(id), parent)?;
        }
        let ids = batch.finish()?;
        // Where a limit was lowered, those who are there already are accepted all the same.
        if !new.is_empty() {
            limits::check(conn, self.limit, held.len() as i64, new.len() as i64)?;
            self.insert(parent, &new, request, conn)?;
        }
        Ok(Answer::json(StatusCode::CREATED, self.shown(parent.id, &ids, request, conn)?))
    }

    /// Removes the ids of the body from a parent whose row is locked.
    pub fn remove(&self, parent: &Parent, request: &Request, conn: &mut Conn) -> Outcome {
        let batch = request.batch(self.principals.most_in_batch())?;
        let held = self.held(parent.id, conn)?;
        if let Some(id) = batch.ids.iter().find(|id| !held.contains(id)) {
            return Err(Refusal::bad(message::pk(id)));
        }
        let ids = batch.finish()?;
        let mut sql = Sql::new("DELETE FROM ");
        sql.name(&self.shape.resource.table).push(" WHERE ").name(self.parent).push(" = ").bind(parent.id);
        sql.push(" AND ").name(self.principals.column()).push(" IN (");
        conn.exec(listed(&mut sql, &ids).push(")"))?;
        let changes = log::Diff::from_iter([(self.log_names.field.to_owned(), json!([ids, []]))]);
        let names = &self.log_names;
        log::write(request, conn, names.remove, names.parent, parent.id, &parent.name, changes)?;
        Ok(Answer::empty())
    }

    /// Adds ids that were checked and are not there yet, with their audit fields, and notes them.
    pub fn insert(&self, parent: &Parent, ids: &[i64], request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        let mut sql = Sql::new("INSERT INTO ");
        sql.name(&self.shape.resource.table).push("(").name(self.parent).push(", ");
        sql.name(self.principals.column()).push(", created_at, created_by) VALUES ");
        for (n, id) in ids.iter().enumerate() {
            sql.push(if n > 0 { ", (" } else { "(" }).bind(parent.id).push(", ").bind(*id).push(", ");
            sql.bind(request.now).push(", ").bind(request.caller()?.user).push(")");
        }
        conn.exec(&sql)?;
        let changes = log::Diff::from_iter([(self.log_names.field.to_owned(), json!([[], ids]))]);
        let names = &self.log_names;
        log::write(request, conn, names.add, names.parent, parent.id, &parent.name, changes)
    }

    /// How many a parent has.
    pub fn count(&self, parent: i64, conn: &mut Conn) -> Result<usize, Error> {
        Ok(self.held(parent, conn)?.len())
    }

    fn below(&self, parent: i64) -> Sql {
        let mut condition = Sql::new("t.");
        condition.name(self.parent).push(" = ").bind(parent);
        condition
    }

    /// The ids that a parent has.
    fn held(&self, parent: i64, conn: &mut Conn) -> Result<HashSet<i64>, Error> {
        let mut sql = Sql::new("SELECT t.");
        sql.name(self.principals.column()).push(" FROM ").name(&self.shape.resource.table).push(" t WHERE ");
        sql.append(&self.below(parent));
        Ok(conn.all(&sql, |row| row.int(0))?.into_iter().collect())
    }

    /// Whether an id that is not there yet may be added.
    fn check(&self, id: i64, known: Option<&Candidate>, parent: &Parent) -> Result<(), Refusal> {
        let Some(candidate) = known else { return Err(Refusal::bad(message::pk(id))) };
        if candidate.is_one_time {
            return Err(Refusal::bad(format!("1 Time Completion account {id} cannot be {}.", self.messages.role)));
        }
        if !candidate.is_listed {
            return Err(Refusal::bad((self.messages.unlisted)(id, parent.id)));
        }
        Ok(())
    }

    /// The records of these ids as a JSON array in their order.
    fn shown(&self, parent: i64, ids: &[i64], request: &Request, conn: &mut Conn) -> Result<Vec<u8>, Error> {
        let mut condition = self.below(parent);
        condition.push(" AND t.").name(self.principals.column()).push(" IN (");
        listed(&mut condition, ids).push(")");
        let records = rows::records(request, conn, &self.shape, self.principals.column(), &condition)?;
        let records: HashMap<i64, Vec<u8>> = records.into_iter().collect();
        let mut out = Writer::with_capacity(512 * ids.len());
        out.raw("[");
        for record in ids.iter().filter_map(|id| records.get(id)) {
            out.comma().raw_bytes(record);
        }
        out.raw("]");
        Ok(out.into_bytes())
    }
}

/// What is known of an id that is to be added.
struct Candidate {
    is_one_time: bool,
    is_listed: bool,
}

impl Principals {
    fn column(self) -> &'static str {
        match self {
            Principals::Users => "user_id",
            Principals::Groups => "group_id",
        }
    }

    fn most_in_batch(self) -> usize {
        match self {
            Principals::Users => USERS_IN_BATCH,
            Principals::Groups => GROUPS_IN_BATCH,
        }
    }

    /// Those of the ids that exist, and whether the caller may list them (document 1, "Assignees", rule 5). Their rows
    /// are locked: nobody deletes or anonymizes a user, or deletes a group, between this look and the insert. Principals an
    /// anonymized user everything is gone for ever, so nothing can be given to it.
    fn look_up(self, conn: &mut Conn, caller: &Caller, ids: &[i64]) -> Result<HashMap<i64, Candidate>, Error> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let (from, listed_by) = match self {
            Principals::Users => (
                "t.account_type FROM users t WHERE t.is_deleted = 0 AND t.status <> 'anonymized'",
                visible_users(caller),
            ),
            Principals::Groups => ("'' FROM user_groups t WHERE 1 = 1", visible_groups(caller)),
        };
        let mut sql = Sql::new("SELECT t.id, CASE WHEN ");
        sql.append(&listed_by).push(" THEN 1 ELSE 0 END, ").push(from).push(" AND t.id IN (");
        listed(&mut sql, ids).push(") ORDER BY t.id FOR SHARE");
        let candidates = conn.all(&sql, |row| {
            Ok((row.int(0)?, Candidate { is_listed: row.flag(1)?, is_one_time: row.text(2)? == "one_time_completion" }))
        })?;
        Ok(candidates.into_iter().collect())
    }
}

fn listed<'a>(sql: &'a mut Sql, ids: &[i64]) -> &'a mut Sql {
    for (n, id) in ids.iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(*id);
    }
    sql
}
