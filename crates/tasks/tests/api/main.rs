//! Tests the endpoints of task templates and tasks (`docs/reference/task-templates.md`, `docs/reference/tasks.md`).
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod multipart;
mod one_time;
mod one_time_multipart;
mod one_time_page;
mod one_time_races;
mod one_time_routes;
mod schedule_walk;
mod set_up;
mod task_templates;
mod task_templates_bodies;
mod task_templates_for_record;
mod tasks;
mod tasks_acting;
mod tasks_lists;
mod tasks_records;
mod tasks_schedule;
mod tasks_story;

/// The modules that the tests serve.
struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static kit::domain::Module] = &[
        &events::MODULE,
        &files::MODULE,
        &administration::MODULE,
        &identity::MODULE,
        &records::MODULE,
        &::tasks::MODULE,
    ];
}

type TestServer = testkit::TestServer<Api>;
