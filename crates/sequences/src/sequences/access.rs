//! The rights of a caller on sequences (`docs/reference/sequences.md`): those of their permissions, and those of the owners of a
//! class on sequences whose published trigger is about it.

use super::sequence::{PERMISSIONS, ViewForm, may_edit};
use kit::caller::Caller;
use kit::ids::{ClassId, SequenceId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::rights::owns_class;
use store::{Conn, Sql, StoreError};

/// A sequence that the caller may view.
pub struct SequenceAccess {
    pub id: SequenceId,
    pub name: String,
    pub status: String,
    pub paused_because: String,
    pub paused_by: Option<UserId>,
    pub published_version: Option<i64>,
    pub runs_as: Option<UserId>,
    pub object_class: Option<ClassId>,
    pub form: ViewForm,
    is_class_owner: bool,
    may_edit: bool,
}

const COLUMNS: &str = "SELECT t.name, t.status, t.paused_because, t.paused_by, t.published_version, t.runs_as, \
    t.object_class FROM sequences t WHERE t.id = ";

impl SequenceAccess {
    /// Loads the sequence of the path. Answers 404 if the caller may not view such a sequence.
    pub fn load(request: &Request, conn: &mut Conn) -> Result<SequenceAccess, Refusal> {
        SequenceAccess::load_with(request, conn, request.id(), "")
    }

    /// Loads the sequence of the path and locks its row.
    pub fn load_for_change(request: &Request, conn: &mut Conn) -> Result<SequenceAccess, Refusal> {
        SequenceAccess::load_with(request, conn, request.id(), " FOR UPDATE")
    }

    /// Loads a sequence that the caller may view; 404 otherwise. `lock` is the end of the statement.
    pub fn load_with(
        request: &Request,
        conn: &mut Conn,
        id: SequenceId,
        lock: &'static str,
    ) -> Result<SequenceAccess, Refusal> {
        let caller = request.caller()?;
        let mut sequence = SequenceAccess::load_any(conn, id, lock)?.ok_or_else(Refusal::not_found)?;
        sequence.is_class_owner = match sequence.object_class {
            Some(class) => owns_class(conn, caller.ownership(), class)?,
            None => false,
        };
        let may_view = caller.has_permission(PERMISSIONS.name, "view");
        if !may_view && !sequence.is_class_owner {
            return Err(Refusal::not_found());
        }
        sequence.form = if may_view { ViewForm::Draft } else { ViewForm::Published };
        sequence.may_edit = may_edit(caller);
        Ok(sequence)
    }

    /// Loads a sequence without a check of rights.
    pub fn load_any(conn: &mut Conn, id: SequenceId, lock: &'static str) -> Result<Option<SequenceAccess>, StoreError> {
        let mut sql = Sql::new(COLUMNS);
        sql.bind(id).push(lock);
        conn.query_optional(&sql, |row| {
            Ok(SequenceAccess {
                id,
                name: row.text(0)?.to_owned(),
                status: row.text(1)?.to_owned(),
                paused_because: row.text(2)?.to_owned(),
                paused_by: row.opt_id(3)?,
                published_version: row.opt_int(4)?,
                runs_as: row.opt_id(5)?,
                object_class: row.opt_id(6)?,
                form: ViewForm::Draft,
                is_class_owner: false,
                may_edit: false,
            })
        })
    }

    /// Answers 404 if there is no such sequence.
    pub fn require_existing(conn: &mut Conn, id: SequenceId) -> Result<(), Refusal> {
        SequenceAccess::load_any(conn, id, "")?.map(drop).ok_or_else(Refusal::not_found)
    }

    /// Refuses with 403 a caller who may not edit it.
    pub fn require_edit(&self) -> Result<(), Refusal> {
        if self.may_edit { Ok(()) } else { Err(Refusal::forbidden()) }
    }

    /// Refuses with 403 a caller who may not pause it.
    pub fn require_pause(&self) -> Result<(), Refusal> {
        if self.may_edit || self.is_class_owner { Ok(()) } else { Err(Refusal::forbidden()) }
    }
}

/// The condition on `sequences t` for those that the caller may view; 403 if no sequence can be open to them.
pub fn visible(caller: &Caller, conn: &mut Conn) -> Result<Sql, Refusal> {
    if caller.has_permission(PERMISSIONS.name, "view") && caller.has_permission(PERMISSIONS.name, "list") {
        return Ok(Sql::new("1 = 1"));
    }
    if !caller.has_permission(PERMISSIONS.name, "list") {
        let sql = Sql::new("SELECT 1 FROM object_class_owners o WHERE o.user_id = $1 LIMIT 1").arg(caller.ownership());
        if conn.query_optional(&sql, |_| Ok(()))?.is_none() {
            return Err(Refusal::forbidden());
        }
    }
    Ok(of_owned_classes(caller))
}

/// The condition on `sequences t` for those whose published trigger is about a class that the caller owns.
pub fn of_owned_classes(caller: &Caller) -> Sql {
    let mut sql = Sql::new("t.object_class IN (SELECT o.class_id FROM object_class_owners o WHERE o.user_id = ");
    sql.bind(caller.ownership()).push(")");
    sql
}
