//! The hooks by which modules above learn of new tasks and of changed states.

use kit::ids::TaskId;
use kit::refusal::Refusal;
use kit::request::Request;
use store::Conn;

/// The hooks of modules above, in the transactions that create tasks and change their states.
#[derive(Default)]
pub struct TaskHooks {
    pub created: Vec<OnTasks>,
    /// Runs after changes of states and after deletions.
    pub changed: Vec<OnTasks>,
}

/// Handles tasks by their ids.
pub type OnTasks = fn(&Request, &mut Conn, &[TaskId]) -> Result<(), Refusal>;

/// Runs the hooks for new tasks.
pub(crate) fn run_created(request: &Request, conn: &mut Conn, tasks: &[TaskId]) -> Result<(), Refusal> {
    run(&request.app.slot::<TaskHooks>().created, request, conn, tasks)
}

/// Runs the hooks for tasks whose state has changed, or that are deleted.
pub(crate) fn run_changed(request: &Request, conn: &mut Conn, tasks: &[TaskId]) -> Result<(), Refusal> {
    run(&request.app.slot::<TaskHooks>().changed, request, conn, tasks)
}

fn run(hooks: &[OnTasks], request: &Request, conn: &mut Conn, tasks: &[TaskId]) -> Result<(), Refusal> {
    if tasks.is_empty() {
        return Ok(());
    }
    hooks.iter().try_for_each(|hook| hook(request, conn, tasks))
}
