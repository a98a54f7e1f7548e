//! The tasks module: task templates, tasks that people complete, the schedule of tasks, and the links that open tasks for
//! one-time accounts (`docs/reference/task-templates.md`, `docs/reference/tasks.md`).

mod hooks;
pub mod moments;
mod one_time;
mod reminders;
mod schedule;
pub mod single_tasks;
pub mod task_templates;
mod tasks;

use administration::mail::queue::MailKinds;
use identity::sessions::TaskLinks;
use kit::domain::Module;
use records::single_records::RecordHooks;
use tasks::per_record::KnownBlocks;
pub use tasks::task_access;

/// The registration of the tasks module.
pub static MODULE: Module = Module {
    name: "tasks",
    routes: || [task_templates::routes(), tasks::routes(), one_time::routes()].into_iter().flatten().collect(),
    tags: &[
        (
            "task-templates",
            "Templates of tasks: the form that the assignees complete, the due date, and the processing of the answer.",
        ),
        ("tasks", "Work of people: assignment, completion, approval and the outcome."),
    ],
    permissions: &[task_templates::PERMISSIONS],
    limits: &[
        &task_templates::TASK_TEMPLATES,
        &tasks::task::ASSIGNEES_LIMIT,
        &tasks::task::GROUPS_LIMIT,
        &tasks::response::STRING_LENGTH,
    ],
    reactions: &[
        task_templates::ON_CLASS_LEAVING,
        tasks::assignees::ON_USER_LEAVING,
        tasks::assignees::ON_GROUP_LEAVING,
    ],
    jobs: &[&tasks::assignees::UNASSIGN],
    standing_jobs: &[&schedule::SCHEDULED_CHANGES],
    slots: |_, _, slots| {
        slots.insert(KnownBlocks::default());
        slots.entry::<hooks::TaskHooks>();
        slots.entry::<MailKinds>().0.extend([&reminders::REMINDER, &one_time::TASK_LINK]);
        *slots.entry() = TaskLinks { holds: one_time::may_open_task, delete_tokens: one_time::delete_tokens_of };
        let hooks = slots.entry::<RecordHooks>();
        hooks.created.push(tasks::create::for_new_records);
        hooks.deleted.push(tasks::delete_tasks_of_records);
        Ok(())
    },
    ..Module::EMPTY
};
