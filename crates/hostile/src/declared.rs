//! The declarations with which texts are parsed: those of the main API, and one in the form of a declaration of a build.

use platform::kit::route::Schema;
use platform::table;
use resource::{EnumOption, Field, FieldKind, LINE, ReferenceTarget, Resource};
use std::sync::LazyLock;

/// Every declaration of the route table, each once.
static DECLARED: LazyLock<Vec<&'static Resource>> = LazyLock::new(|| {
    let mut all: Vec<&'static Resource> = Vec::new();
    for route in table().routes() {
        let of_body = if let Schema::Body(declared, _) = &route.body { Some(*declared) } else { None };
        for declared in route.selects.into_iter().chain(of_body) {
            let resource: &'static Resource = declared;
            if !all.iter().any(|known| std::ptr::eq(*known, resource)) {
                all.push(resource);
            }
        }
    }
    all
});

/// Calls a function with a declaration of the table, or with a declaration that the numbers define if the first number is beyond
/// the table.
pub fn with_declaration(numbers: [u8; 4], then: impl FnOnce(&Resource)) {
    match DECLARED.get(usize::from(numbers[0])) {
        Some(resource) => then(resource),
        None => then(&fields_of_every_kind(numbers)),
    }
}

/// Returns a resource with a field of every kind. These numbers are the bounds.
fn fields_of_every_kind([flags, low, high, scale]: [u8; 4]) -> Resource {
    let (min, max, scale) = (usize::from(low), usize::from(high), usize::from(scale));
    let target = || ReferenceTarget { table: "users".into(), autocomplete: None };
    let choices = || ["low", "high", "ä"].map(|value| EnumOption::new(value, value)).into();
    let kinds = [
        FieldKind::Text { min, max, trim: flags & 1 == 0, charset: (flags & 2 == 0).then_some(LINE) },
        FieldKind::Email { max },
        FieldKind::Url { max },
        FieldKind::Secret { min: 0, max },
        FieldKind::Integer { min: -i64::from(low), max: i64::from(high) },
        FieldKind::Decimal { precision: max, scale },
        FieldKind::Boolean,
        FieldKind::Date,
        FieldKind::DateTime,
        FieldKind::Uuid,
        FieldKind::Enum { choices: choices() },
        FieldKind::Listed { is_listed: |text| text == "Europe/Zurich", all: Vec::new },
        FieldKind::Set { choices: choices(), max_items: max },
        FieldKind::Reference { target: target() },
        FieldKind::References { target: target(), max_items: max },
        FieldKind::Texts {
            at_most: Some((max, "too many".into())),
            are_valid: |texts| texts.iter().all(|text| !text.contains('x')),
            invalid: "invalid",
        },
        FieldKind::User,
        FieldKind::UserId,
        FieldKind::Files { max_items: max },
        FieldKind::Json { max_bytes: max, max_depth: scale },
        FieldKind::Object,
    ];
    let field = |(n, kind): (usize, FieldKind)| {
        let mut field = Field::new(format!("f{n}"), kind).filter().sort();
        field.nullable = flags & 4 == 0;
        field.blank = flags & 8 == 0;
        field.isnull = flags & 16 == 0;
        field
    };
    Resource::new("things", "Thing", "things", kinds.into_iter().enumerate().map(field))
}
