//! The comments module: what people say about records and tasks (`docs/reference/comments.md`).

mod comments;
mod mentions;
mod subject;

use kit::domain::Module;

/// The registration of the comments module.
pub static MODULE: Module = Module {
    name: "comments",
    routes: comments::routes,
    reactions: &[comments::ON_CLASS_LEAVING],
    removals: &[comments::ON_RECORDS_REMOVED],
    ..Module::EMPTY
};
