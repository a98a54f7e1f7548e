//! The record or the task that a comment is about, with the caller's rights there.

use kit::account_type::AccountType;
use kit::caller::Caller;
use kit::ids::{RecordId, TaskId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::rights::{EDIT_OWNERS, TASKS_DELETE, owns_class};
use records::single_records::{self, RecordAccess};
use store::{Argument, Conn, Sql, StoreError};
use tasks::task_access::{self, TaskAccess};

/// A record or a task that the caller may view.
pub enum Subject {
    Record(RecordAccess),
    Task(TaskAccess),
}

/// The kind of subject that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    Record,
    Task,
}

impl Subject {
    /// Loads the subject of the path. 404 if the caller may not view it.
    pub fn from_path(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Result<Subject, Refusal> {
        Ok(match kind {
            SubjectKind::Record => Subject::Record(single_records::load_from_path(request, conn)?),
            SubjectKind::Task => Subject::Task(task_access::load_from_path(request, conn)?),
        })
    }

    /// Loads the subject of the path and locks it, so that its comments are counted exactly. 404 if the caller may not view it.
    pub fn for_change(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Result<Subject, Refusal> {
        Ok(match kind {
            SubjectKind::Record => {
                let record = single_records::for_change(request, conn, request.id())?;
                Subject::Record(record.ok_or_else(Refusal::not_found)?)
            }
            SubjectKind::Task => Subject::Task(task_access::for_change(request, conn, request.id())?.0),
        })
    }

    /// Appends the condition that the comment with this alias is about the subject.
    pub fn push_condition(&self, sql: &mut Sql, alias: &'static str) {
        match self {
            Subject::Record(record) => sql.push(alias).push(".record = ").bind(record.id),
            Subject::Task(task) => sql.push(alias).push(".task = ").bind(task.id),
        };
    }

    /// The columns of a comment with the subject.
    pub fn columns(&self) -> [(&'static str, Argument); 2] {
        let (record, task): (Option<RecordId>, Option<TaskId>) = match self {
            Subject::Record(record) => (Some(record.id), None),
            Subject::Task(task) => (None, Some(task.id)),
        };
        [("record", record.into()), ("task", task.into())]
    }

    /// The owner of a record.
    pub fn owner(&self) -> Option<UserId> {
        match self {
            Subject::Record(record) => record.owner,
            Subject::Task(_) => None,
        }
    }

    /// The name in the administration log.
    pub fn logged_name(&self) -> String {
        match self {
            Subject::Record(record) => format!("#{}", record.id),
            Subject::Task(task) => task.name.clone(),
        }
    }

    /// Returns whether the caller may delete the comments of others: the owner of the record, owners of its class, holders of
    /// `tasks.delete` at a task, and super admins.
    pub fn may_delete_all(&self, conn: &mut Conn, caller: &Caller) -> Result<bool, StoreError> {
        match self {
            _ if caller.is_super() => Ok(true),
            Subject::Record(record) if caller.has_rights_of(record.owner) => Ok(true),
            Subject::Record(record) => owns_class(conn, caller.ownership(), record.class.id),
            Subject::Task(task) => Ok(task.allows(TASKS_DELETE)),
        }
    }

    /// The record, if the caller may ask about the access of others to it.
    pub fn record_with_access_of_others(&self) -> Option<&RecordAccess> {
        match self {
            Subject::Record(record) if record.allows(EDIT_OWNERS) => Some(record),
            _ => None,
        }
    }
}

/// Returns whether accounts of this type are staff, who read and write internal comments.
pub fn is_staff(account_type: AccountType) -> bool {
    matches!(
        account_type,
        AccountType::Internal | AccountType::Full | AccountType::SuperAdmin | AccountType::ServiceInternal
    )
}
