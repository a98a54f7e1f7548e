//! The records module: the classes that builds declare, their fields, their records, and the permissions on them
//! (`docs/reference/`).

mod access;
mod bitmap;
pub mod classes;
mod counts;
pub mod field_type;
mod forms;
mod history_events;
pub mod named_components;
mod object_classes;
mod object_records;
mod owners;
pub mod record_permission_sets;
pub mod record_values;
pub mod restored;
pub mod rights;
mod search;
pub mod single_records;
pub mod tables;
pub mod text_forms;
pub mod visible_records;

use classes::KnownClasses;
use kit::domain::Module;
use kit::permissions::{PermissionResource, held_by_everybody};
use object_records::export::Exports;
use visible_records::KnownSets;

/// The actions of the permission resource `object_classes`.
const CLASS_ACTIONS: &[&str] = &["list", "view", "create", "edit", "delete", "edit_perm_set"];

/// The registration of the records module.
pub static MODULE: Module = Module {
    name: "records",
    routes: || {
        let routes = [
            object_classes::routes(),
            record_permission_sets::routes(),
            object_records::routes(),
            forms::routes(),
            search::routes(),
        ];
        routes.into_iter().flatten().collect()
    },
    tags: &[
        ("object-classes", "Kinds of records that tenants declare: their fields, owners and permission sets."),
        ("object-class-forms", "Forms of object classes, whose looks are the front end's."),
        ("object-records", "Single records, who owns them, who is assigned to them, and what happened to them."),
        ("search", "Records of all classes, people and groups by a text."),
    ],
    permissions: &[
        PermissionResource {
            name: "object_classes",
            actions: CLASS_ACTIONS,
            assignable: CLASS_ACTIONS,
            // Lists show the classes that the caller may view.
            held_by: &held_by_everybody(&["list"]),
        },
        PermissionResource::assignable("object_records", &["list", "view", "create", "edit", "delete", "edit_owners"]),
    ],
    limits: &[
        &object_classes::class::OBJECT_CLASSES,
        &object_classes::fields::field::CLASS_FIELDS,
        &object_classes::fields::field::STRING_LENGTH,
        &object_classes::fields::field::ENUM_OPTIONS,
        &object_classes::fields::field::SET_OPTIONS,
        &object_classes::fields::field::FILES,
        &object_classes::fields::relations::PARENTS,
        &object_classes::fields::relations::CHILDREN,
        &object_records::change::RELATION_LEVELS,
        &object_classes::owners::CLASS_OWNERS,
        &object_classes::permission_sets::CLASS_SETS,
        &object_classes::assignees::CLASS_SET_USERS,
        &object_classes::assignees::CLASS_SET_GROUPS,
        &counts::OBJECT_RECORDS,
        &object_records::list::RECORD_FILTERS,
        &record_permission_sets::RECORD_SETS,
        &object_records::assignees::RECORD_SET_USERS,
        &object_records::assignees::RECORD_SET_GROUPS,
        &object_records::owners::RECORD_OWNERS,
        &forms::FORMS,
    ],
    reactions: &[
        object_classes::ON_LEAVING,
        object_classes::permission_sets::ON_LEAVING,
        object_classes::owners::ON_USER_LEAVING,
        object_classes::assignees::ON_GROUP_LEAVING,
        record_permission_sets::ON_LEAVING,
        forms::ON_CLASS_LEAVING,
        forms::ON_COMPONENT_LEAVING,
        object_records::leaving::ON_USER_LEAVING,
        object_records::leaving::ON_GROUP_LEAVING,
    ],
    jobs: &[
        &object_classes::fields::indexes::INDEX,
        &object_classes::fields::words::WORDS,
        &object_classes::fields::left_values::LEFT_VALUES,
        &object_records::files::LEFT_FILES,
        &object_records::leaving::UNASSIGN,
    ],
    object_rights: &[rights::holds_records],
    slots: |_, _, slots| {
        slots.insert(KnownClasses::default());
        slots.insert(KnownSets::default());
        slots.insert(Exports::default());
        slots.insert(single_records::RecordHooks::default());
        Ok(())
    },
    standing_jobs: &[&object_records::deleted::REMOVAL],
    ..Module::EMPTY
};

/// The functions that read external input, for `crates/hostile`.
#[doc(hidden)]
pub mod readers {
    use crate::classes::{ClassField, record};
    use crate::object_classes::fields;
    use kit::ids::{ClassId, FieldId};
    use resource::{Errors, Resource, SentObject};

    /// Reads a field of a class from the body of its create, with the checks that need no database.
    pub fn field(id: FieldId, body: &SentObject<'_>) -> Result<ClassField, Errors> {
        fields::read(id, body)
    }

    /// The declaration of the records of a class with these fields.
    pub fn records(fields: &[ClassField]) -> Resource {
        record(ClassId::new(1), fields)
    }
}
