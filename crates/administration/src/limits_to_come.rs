//! The limits of resources that do not exist yet. They can be read and set, and their count is 0; when a domain adds
//! the resource, it declares the limit itself.

use kit::limits::{Limit, LimitSummary};

pub static LIMITS_TO_COME: &[&Limit] = &[
    &counter("custom_components", 100, LimitSummary::Counter("custom_components")),
    &counter("object_classes", 500, LimitSummary::Counter("object_classes")),
    &counter("public_files", 10_000, LimitSummary::Additional("public_files")),
    &counter("sequences", 100, LimitSummary::Counter("sequences")),
    &counter("task_group_templates", 100, LimitSummary::Counter("task_group_templates")),
    &counter("task_templates", 500, LimitSummary::Counter("task_templates")),
    &counter("ui_config", 100, LimitSummary::Additional("ui_configs")),
    &additional("assignees_standard", 100, "task_assignees_users"),
    &additional("object_class_document_templates", 1000, "object_class_document_templates"),
    &additional("object_class_fields", 500, "object_class_fields"),
    &additional("object_class_forms", 100, "object_class_forms"),
    &additional("object_class_owners", 10, "object_class_owners"),
    &additional("object_class_permission_set", 10, "object_class_permission_sets"),
    &additional("object_class_permission_set_assignees", 100, "object_class_permission_set_assignees_users"),
    &additional(
        "object_class_permission_set_users_groups_assignees",
        10,
        "object_class_permission_set_assignees_user_groups",
    ),
    &additional("object_record_owners", 1, "object_record_owners"),
    &additional("object_record_permission_set_assignees", 100, "object_record_permission_set_assignees_users"),
    &additional(
        "object_record_permission_set_users_groups_assignees",
        10,
        "object_record_permission_set_assignees_user_groups",
    ),
    &additional("object_records_per_object_class", 1_000_000, "object_records_per_object_class"),
    &additional("object_relations_children", 50, "object_relations_children"),
    &additional("object_relations_depth", 10, "object_relations_depth"),
    &additional("object_relations_top_parent", 10, "object_relations_top_parents"),
    &additional("records_permission_set", 10, "records_permission_sets"),
    &additional("task_assignees_user_groups", 10, "task_assignees_user_groups"),
    &additional("user_preferences", 100, "user_preferences"),
    &flat("api_document_max_num_of_files", 25),
    &flat("api_filters_on_object_models_object_records_list", 20),
    &flat("api_object_field_enum_options_max_count", 500),
    &flat("api_object_field_set_options_max_count", 500),
    &flat("api_object_field_string_type_length_limit", 255),
    &flat("api_task_string_type_length_limit", 255),
    &flat("personal_authentication_objects_per_user_per_provider", 10),
    &flat("record_relations_transaction", 100),
];

const fn counter(name: &'static str, default: i64, summary: LimitSummary) -> Limit {
    Limit { name, default, is_counted: true, summary, ..Limit::EMPTY }
}

const fn additional(name: &'static str, default: i64, shown_as: &'static str) -> Limit {
    Limit { name, default, summary: LimitSummary::Additional(shown_as), ..Limit::EMPTY }
}

const fn flat(name: &'static str, default: i64) -> Limit {
    Limit { name, default, ..Limit::EMPTY }
}
