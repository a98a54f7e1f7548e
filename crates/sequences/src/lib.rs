//! The module of sequences, the workflow of the platform: what is done automatically when a record is written or a person starts it
//! (`docs/reference/sequences.md`). `definition` reads and checks definitions, `values` evaluates them, `engine` starts and continues runs.

pub mod definition;
mod engine;
mod notices;
mod problems;
mod runs;
mod schedule;
mod sequences;
mod settings;
mod skipped;
mod span;
mod values;

pub use sequences::pausing::pause_by_operator;
pub use settings::SequenceSettings;

use administration::mail::queue::MailKinds;
use engine::work::EngineOfProcess;
use kit::domain::Module;
use records::single_records::RecordHooks;
use tasks::single_tasks::{OnTasks, TaskHooks};

/// The registration of the sequences module.
pub static MODULE: Module = Module {
    name: "sequences",
    routes: || [sequences::routes(), runs::routes(), skipped::routes()].into_iter().flatten().collect(),
    tags: &[
        ("sequences", "What is done automatically: a trigger and steps, in drafts and published versions."),
        ("sequence-runs", "Runs of sequences and their steps."),
    ],
    permissions: &[sequences::sequence::PERMISSIONS],
    limits: &[
        &sequences::sequence::SEQUENCES,
        &sequences::sequence::SEQUENCE_STEPS,
        &sequences::sequence::RUNS_IN_PROGRESS,
        &sequences::sequence::MAILS_PER_DAY,
    ],
    reactions: &engine::ON_USER_CHANGED,
    jobs: &[&runs::cleaning::LEFT_RUNS, &runs::CANCEL_RUNS],
    standing_jobs: &[&engine::work::RUNS, &skipped::SKIPS, &runs::cleaning::OLD_RUNS],
    sealed_columns: &runs::SEALED_COLUMNS,
    slots: |settings, _, slots| {
        let settings: SequenceSettings = settings.domains.get();
        slots.insert(settings);
        slots.entry::<EngineOfProcess>();
        let kinds = [&engine::mails::MAIL, &notices::FAILED, &notices::PAUSED, &notices::TAKEN_OVER];
        slots.entry::<MailKinds>().0.extend(kinds);
        slots.insert(engine::EngineJob(&engine::work::RUNS));
        let hooks = slots.entry::<RecordHooks>();
        hooks.written.push(engine::starts::on_written);
        hooks.deleted.push(engine::cancel_runs_of_records);
        let hooks = slots.entry::<TaskHooks>();
        hooks.created.push(engine::on_tasks);
        hooks.changed.extend([engine::on_tasks_changed as OnTasks, engine::on_tasks]);
        Ok(())
    },
    build_slots: engine::work::build_slots,
    ..Module::EMPTY
};
