//! The declaration of a user group (`docs/reference/user-groups.md`).

use super::rights::RIGHT_NAMES;
use kit::limits::{Limit, LimitSummary};
use resource::{Field, FieldKey, FieldKind, Resource, UNDIRECTED, openapi};
use std::sync::LazyLock;

/// The maximum number of groups of a build.
pub static USER_GROUPS: Limit = Limit {
    name: "user_groups",
    default: 1000,
    many: "User Groups",
    is_counted: true,
    summary: LimitSummary::Counter("user_groups"),
    ..Limit::EMPTY
};

pub static NAME: FieldKey<String> = FieldKey::new("name");
pub static DESCRIPTION: FieldKey<String> = FieldKey::new("description");
/// A field that only filters. The members of a group have addresses of their own.
pub static MEMBER: FieldKey<i64> = FieldKey::new("member");

/// A group that a directory has made.
const IS_PROVISIONED: &str =
    "(CASE WHEN EXISTS (SELECT 1 FROM scim_groups x WHERE x.group_id = t.id) THEN 1 ELSE 0 END)";

/// A user group.
pub static GROUP: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::id(),
        NAME.text(100)
            .charset(UNDIRECTED)
            .example("Finance")
            .required()
            .unique("user_groups_name")
            .folded()
            .filter()
            .sort(),
        DESCRIPTION.text(500).default(""),
        MEMBER.declare(FieldKind::UserId).members("user_group_members", "group_id", "user_id").filter_only(),
        Field::new("is_provisioned", FieldKind::Boolean).sql(IS_PROVISIONED).filter_only(),
    ];
    let fields = fields.into_iter().chain(Field::audit().map(Field::sort));
    Resource::new("user_groups", "UserGroup", "user_groups", fields)
        .limit(&USER_GROUPS)
        .with_extra_schemas(|_| vec![("_meta", openapi::meta(RIGHT_NAMES.map(|(name, _)| name)))])
});
