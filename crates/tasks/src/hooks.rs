//! The hooks by which modules above learn that the states of tasks change.

use kit::ids::TaskId;
use kit::refusal::Refusal;
use kit::request::Request;
use store::Conn;

/// The hooks of modules above, in the transactions in which the states of tasks change, also by their deletion.
#[derive(Default)]
pub struct TaskHooks(pub Vec<OnTasksChanged>);

/// Handles tasks whose state has changed, by their ids.
pub type OnTasksChanged = fn(&Request, &mut Conn, &[TaskId]) -> Result<(), Refusal>;

/// Runs the hooks for tasks whose state has changed.
pub(crate) fn run_hooks(request: &Request, conn: &mut Conn, tasks: &[TaskId]) -> Result<(), Refusal> {
    if tasks.is_empty() {
        return Ok(());
    }
    request.app.slot::<TaskHooks>().0.iter().try_for_each(|changed| changed(request, conn, tasks))
}
