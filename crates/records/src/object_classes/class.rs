//! The declaration of an object class (`docs/reference/object-classes.md`).

use crate::rights;
use kit::limits::{Limit, LimitSummary};
use resource::{Charset, Field, FieldKey, FieldKind, Resource, UNDIRECTED, openapi};
use serde_json::json;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of classes of a build.
pub static OBJECT_CLASSES: Limit = Limit {
    name: "object_classes",
    default: 500,
    many: "Object Classes",
    is_counted: true,
    summary: LimitSummary::Counter("object_classes"),
    ..Limit::EMPTY
};

pub static NAME: FieldKey<String> = FieldKey::new("name");
pub static ALIAS: FieldKey<String> = FieldKey::new("alias");
pub static LABEL_FIELD: FieldKey<String> = FieldKey::new("label_field");

/// The maximum length of an alias of a class or a field.
pub const MAX_ALIAS: usize = 50;

/// The characters of an alias. A charset cannot exclude `__`, which precedes predicates.
pub const ALIAS_CHARSET: Charset =
    Charset { allows: |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_', regex: "^[a-z](_?[a-z0-9])*_?$" };

/// The field `alias` of a class or a field. It cannot be changed.
pub fn alias_field(index: &'static str) -> Field {
    ALIAS.text(MAX_ALIAS).not_blank().charset(ALIAS_CHARSET).create_only().unique(index).filter()
}

/// Returns whether a text is a valid alias.
pub fn is_alias(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(ALIAS_CHARSET.allows)
        && !text.contains("__")
        && text.len() <= MAX_ALIAS
}

/// Derives an alias from a name. It may not be unique yet. `prefix` precedes an alias that would not begin with a letter.
pub fn default_alias(name: &str, prefix: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let alias = truncate_alias(&words.collect::<Vec<_>>().join("_"), MAX_ALIAS);
    if alias.starts_with(|first: char| first.is_ascii_lowercase()) {
        return alias;
    }
    format!("{prefix}{}", truncate_alias(&alias, MAX_ALIAS - prefix.len()))
}

/// Returns the alias, or the first free one with `_2`, `_3`, … appended.
pub fn free_alias(alias: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(alias) {
        return alias.to_owned();
    }
    let numbered = |number: usize| {
        let end = format!("_{number}");
        truncate_alias(alias, MAX_ALIAS - end.len()) + &end
    };
    (2..).map(numbered).find(|alias| !is_taken(alias)).unwrap_or_default()
}

/// Returns the beginning of an alias, without trailing `_`.
fn truncate_alias(alias: &str, most: usize) -> String {
    alias.chars().take(most).collect::<String>().trim_end_matches('_').to_owned()
}

/// The actions on the class in `_meta.permissions`. [`RECORD_ACTIONS`] are those on its records.
pub const CLASS_ACTIONS: [(&str, i64); 4] = rights::CLASS_ACTIONS.named(["view", "edit", "delete", "edit_perm_set"]);
pub const RECORD_ACTIONS: [(&str, i64); 5] = rights::RECORD_ACTIONS.named(["create", "list", "view", "edit", "delete"]);

/// An object class.
pub static CLASS: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "object_classes",
        "ObjectClass",
        "object_classes",
        [
            Field::id(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .example("Invoice")
                .required()
                .unique("object_classes_name")
                .folded()
                .filter()
                .sort(),
            alias_field("object_classes_alias").example("invoice"),
            Field::new("description", FieldKind::text(500)).default(""),
            LABEL_FIELD.text(MAX_ALIAS).nullable().default(resource::CheckedValue::Null).example("number"),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
            Field::new("num_of_records", FieldKind::Integer { min: 0, max: i64::MAX })
                .description("Number of its records that the caller may view")
                .read_only()
                .stored_by_resource(),
        ],
    )
    .limit(&OBJECT_CLASSES)
    .with_extra_schemas(|_| {
        let bools = |actions: &[(&str, i64)]| {
            openapi::object(actions.iter().map(|(action, _)| (*action, json!({"type": "boolean"}))))
        };
        let mut permissions = bools(&CLASS_ACTIONS);
        openapi::require(&mut permissions, "object_records", bools(&RECORD_ACTIONS));
        permissions["description"] = "The permissions of the caller for the class, and for all of its records".into();
        vec![("_meta", openapi::object([("permissions", permissions)]))]
    })
});

/// Derives a free alias of a class from a name.
pub fn free_class_alias(conn: &mut Conn, name: &str) -> Result<String, StoreError> {
    let aliases = conn.query_all(&Sql::new("SELECT alias FROM object_classes"), |row| Ok(row.text(0)?.to_owned()))?;
    Ok(free_alias(&default_alias(name, "class_"), |alias| aliases.iter().any(|other_alias| other_alias == alias)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_follow_from_names() {
        for (name, alias) in [
            ("Purchase order", "purchase_order"),
            ("  Order -- no. 7!", "order_no_7"),
            ("Größe", "gr_e"),
            ("2nd", "class_2nd"),
            ("日本", "class_"),
            ("a__b", "a_b"),
        ] {
            assert_eq!(default_alias(name, "class_"), alias, "{name}");
        }
        let long = "ab ".repeat(30);
        assert_eq!(default_alias(&long, "class_").len(), 50);
        assert_eq!(free_alias("class_", |alias| alias == "class_"), "class_2");
        assert_eq!(free_alias("a", |alias| ["a", "a_2"].contains(&alias)), "a_3");
        assert_eq!(free_alias(&"x".repeat(50), |alias| alias == "x".repeat(50)), "x".repeat(48) + "_2");
        assert!(is_alias("a_1_b") && !is_alias("a__b") && !is_alias("1a") && !is_alias("_a") && !is_alias("A"));
    }
}
