//! The limits of resources that do not exist yet. They can be read and set, and their count is 0. A module that adds the resource
//! declares the limit itself.

use kit::limits::{Limit, LimitSummary};

pub static LIMITS_TO_COME: &[&Limit] = &[
    &counter("task_group_templates", 100, LimitSummary::Counter("task_group_templates")),
    &flat_limit("personal_authentication_objects_per_user_per_provider", 10),
    &flat_limit("record_relations_transaction", 100),
];

const fn counter(name: &'static str, default: i64, summary: LimitSummary) -> Limit {
    Limit { name, default, is_counted: true, summary, ..Limit::EMPTY }
}

const fn flat_limit(name: &'static str, default: i64) -> Limit {
    Limit { name, default, ..Limit::EMPTY }
}
