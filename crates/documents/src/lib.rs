//! The module of documents: templates of classes, and documents that are generated from a template and a record
//! (`docs/reference/document-templates.md`, `docs/reference/document-generation.md`). `docx` reads and writes the archives of Word
//! documents, `merge` fills them.

pub mod docx;
pub mod generation;
pub mod merge;
pub mod templates;

use kit::domain::Module;

/// The exports of this module for `platform`.
pub static MODULE: Module = Module {
    name: "documents",
    routes: || [templates::routes(), generation::routes()].into_iter().flatten().collect(),
    limits: &[&templates::TEMPLATES],
    reactions: &[
        templates::ON_CLASS_LEAVING,
        templates::warnings::ON_FIELD_CREATED,
        templates::warnings::ON_FIELD_LEAVING,
    ],
    removals: &[generation::runs::RECORDS_REMOVED],
    jobs: &[&generation::work::GENERATE, &generation::runs::LEFT_RUNS],
    slots: |_, _, slots| {
        slots.insert(templates::check::TemplatePermits::default());
        Ok(())
    },
    ..Module::EMPTY
};
