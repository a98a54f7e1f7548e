//! Tests the rows and the order that parameters select.

use super::*;
use serde_json::json;

impl SelectError {
    /// The body of the answer with status 400.
    fn to_json(&self) -> serde_json::Value {
        match self {
            SelectError::TooManyFilters(most) => json!({"detail": message::too_many_filters(*most)}),
            SelectError::Wrong(errors) => errors.to_json(),
        }
    }
}

fn books() -> Resource {
    Resource::new(
        "books",
        "Book",
        "books",
        [
            Field::id(),
            Field::new("name", FieldKind::text(100)).folded().filter().sort(),
            Field::new("genre", FieldKind::choices(&[("a", "A"), ("b", "B")])).filter(),
            Field::new("is_lent", FieldKind::Boolean).filter(),
            Field::new("copy", FieldKind::Uuid).filter(),
            Field::new("secret", FieldKind::text(10)).write_only(),
        ]
        .into_iter()
        .chain(Field::audit()),
    )
}

fn errors(query: &str) -> serde_json::Value {
    select(&books(), &Query::parse(query)).err().map(|wrong| wrong.to_json()).unwrap_or_default()
}

#[test]
fn every_wrong_parameter_is_reported() {
    assert_eq!(
        errors(
            "limit=0&offset=-1&ordering=name,-secret,x&id=x&name__gt=3&genre=c&genre__in=a,d&is_lent=maybe&copy=%00&created_at__range=2026-01-01&created_by=me"
        ),
        json!({
            "limit": ["Ensure this value is greater than or equal to 1."],
            "offset": ["Ensure this value is greater than or equal to 0."],
            "ordering": ["Select a valid choice. -secret is not one of the available choices."],
            "id": ["A valid integer is required."],
            "name__gt": ["Select a valid choice. gt is not one of the available choices."],
            "genre": ["Select a valid choice. c is not one of the available choices."],
            "genre__in": ["Select a valid choice. d is not one of the available choices."],
            "is_lent": ["Must be a valid boolean."],
            "copy": ["Null characters are not allowed."],
            "created_at__range": ["Enter a valid date/time."],
            "created_by": ["A valid integer is required."],
        })
    );
    assert_eq!(errors("limit=1001"), json!({"limit": ["Ensure this value is less than or equal to 1000."]}));
}

#[test]
fn filters_are_counted_before_anything_else_is_checked() {
    let filters = |count: usize| vec!["name=a&genre__in=wrong"; count / 2].join("&");
    let other_parameters = "&limit=0&ordering=x&secret=s&colour=red".repeat(100);
    assert_eq!(
        errors(&(filters(50) + &other_parameters)),
        json!({
            "limit": ["Ensure this value is greater than or equal to 1."],
            "ordering": ["Select a valid choice. x is not one of the available choices."],
            "genre__in": ["Select a valid choice. wrong is not one of the available choices."],
        })
    );
    let too_many = json!({"detail": "Limit of 50 filters has been exceeded."});
    assert_eq!(errors(&(filters(50) + "&name__nonsense=x" + &other_parameters)), too_many);
    assert_eq!(errors(&filters(2000)), too_many);
    let one_filter = books().max_filters(1);
    assert_eq!(
        select(&one_filter, &Query::parse("name=a&name=a")).err().map(|wrong| wrong.to_json()),
        Some(json!({"detail": "Limit of 1 filter has been exceeded."}))
    );
    assert!(select(&books().unselectable(), &Query::parse(&filters(2000))).is_ok());
}

#[test]
fn repeated_values_count_once_and_at_most_a_hundred_wrong_ones_are_reported() {
    let books = books();
    let select = select(&books, &Query::parse("genre__in=b,a,%20b,a")).ok().unwrap();
    assert_eq!(select.filters[0].operands(), &[CheckedValue::from("b"), CheckedValue::from("a")]);
    let texts: Vec<String> = (0..5000).map(|n| format!("x{n}")).collect();
    let errors_by_name = errors(&format!("genre__in={}", texts.join(",")));
    assert_eq!(errors_by_name["genre__in"].as_array().map(Vec::len), Some(100));
}

/// Returns books with relations: a book may be a volume of a series and may have a clerk.
fn volumes() -> Resource {
    let reference = |name, table: &'static str| {
        let target = crate::ReferenceTarget { table: table.into(), autocomplete: None };
        Field::new(name, FieldKind::Reference { target }).nullable().filter().sort().also_in().isnull()
    };
    let fields =
        [Field::id().also_in(), Field::new("name", FieldKind::text(9)).filter(), reference("series", "series")];
    let clerk = Field::new("clerk", FieldKind::UserId).filter().sort().isnull();
    Resource::new("books", "Book", "books", fields.into_iter().chain([clerk])).max_filters(3)
}

fn parse_series(query: &str) -> Result<Vec<(String, String, Predicate)>, serde_json::Value> {
    let (volumes, series) = (volumes(), volumes());
    let related = |field: &Field| (field.name == "series").then_some(RelatedRows::Of(&series));
    let select = select_related(&volumes, &Query::parse(query), related, volumes.max_filters)
        .map_err(|wrong| wrong.to_json())?;
    let names = |filter: &CheckedFilter| {
        let via = filter.relation_field().map_or("", |via| &via.name);
        (via.to_owned(), filter.field().name.to_string(), filter.predicate())
    };
    Ok(select.filters.iter().map(names).collect())
}

#[test]
fn filters_go_one_step_over_a_relation() {
    assert_eq!(
        parse_series("series.name__icontains=x&series__in=1,2&series.series__isnull=true"),
        Ok(vec![
            ("series".into(), "name".into(), Icontains),
            (String::new(), "series".into(), In),
            ("series".into(), "series".into(), Isnull),
        ])
    );
    assert_eq!(parse_series("series.series.name=a&name.name=a&series.=a&.name=a&series.colour=a&x.name=a"), Ok(vec![]));
    assert_eq!(
        parse_series("series.name__gt=a&series.id__in=1,x&name__x.y=1"),
        Err(json!({
            "series.name__gt": ["Select a valid choice. gt is not one of the available choices."],
            "series.id__in": ["A valid integer is required."],
            "name__x.y": ["Select a valid choice. x.y is not one of the available choices."],
        }))
    );
    let too_many = json!({"detail": "Limit of 3 filters has been exceeded."});
    assert_eq!(parse_series("series.name=a&series.name=a&series.id=1&series.id=2"), Err(too_many));
    assert_eq!(parse_series("series.a=1&series.b=1&series.c=1&series.d=1"), Ok(vec![]));
    let volumes = volumes();
    let named = relations(&volumes, &Query::parse("name.id=1&series.a.b=1&series.name=b&other.name=c&name=1"));
    assert_eq!(named.iter().map(|field| field.name.as_ref()).collect::<Vec<_>>(), ["series"]);
    assert!(select(&volumes, &Query::parse("series.name=a")).is_ok_and(|select| select.filters.is_empty()));
}

#[test]
fn of_hidden_rows_every_field_is_null_whatever_its_name() {
    let volumes = volumes();
    let conditions = |query: &str| {
        let select = select_related(&volumes, &Query::parse(query), |_| Some(RelatedRows::Hidden), 3);
        let shown = |filter: &CheckedFilter| {
            (filter.relation_field().is_some(), filter.predicate(), filter.operands().to_vec())
        };
        select.map(|select| select.filters.iter().map(shown).collect::<Vec<_>>()).map_err(|wrong| wrong.to_json())
    };
    let (holds, fails) = ((true, Isnull, vec![true.into()]), (true, Isnull, vec![false.into()]));
    assert_eq!(
        conditions("series.name=a&series.colour__gt=x&series.name__isnull=true"),
        Ok(vec![fails.clone(), fails, holds])
    );
    assert_eq!(
        conditions("series.colour__isnull=x"),
        Err(json!({"series.colour__isnull": ["Must be a valid boolean."]}))
    );
    assert_eq!(
        conditions("series.a=1&series.b=1&series.c=1&series.d=1"),
        Err(json!({"detail": "Limit of 3 filters has been exceeded."}))
    );
}

#[test]
fn a_complement_is_found_by_exclude_behind_a_predicate() {
    let volumes = volumes().complements();
    let conditions = |query: &str, related| {
        let select = select_related(&volumes, &Query::parse(query), |_| Some(related), 3);
        let shown = |filter: &CheckedFilter| (filter.predicate(), filter.operands().to_vec(), filter.is_complement());
        select.map(|select| select.filters.iter().map(shown).collect::<Vec<_>>()).map_err(|wrong| wrong.to_json())
    };
    let (visible, hidden) = (RelatedRows::Of(&volumes), RelatedRows::Hidden);
    let (number, yes, no) = (|| vec![CheckedValue::Int(1)], || vec![true.into()], || vec![false.into()]);
    assert_eq!(
        conditions("id__exclude=1&id__exact__exclude=1&id__gt__exclude=1", visible),
        Ok(vec![(Exact, number(), true), (Exact, number(), true), (Gt, number(), true)])
    );
    assert_eq!(
        conditions("series.id__exclude=1&series.series__isnull__exclude=true&series__isnull__exclude=false", visible),
        Ok(vec![(Exact, number(), true), (Isnull, no(), false), (Isnull, yes(), false)])
    );
    assert_eq!(
        conditions("series.x__exclude=1&series.x__isnull__exclude=true&series.x__lt__exclude=1", hidden),
        Ok(vec![(Isnull, yes(), false), (Isnull, no(), false), (Isnull, yes(), false)])
    );
    assert_eq!(
        conditions("id__x__exclude=1&name__exclude__exclude=1", visible),
        Err(json!({
            "id__x__exclude": ["Select a valid choice. x is not one of the available choices."],
            "name__exclude__exclude": ["Select a valid choice. exclude is not one of the available choices."],
        }))
    );
    let too_many = json!({"detail": "Limit of 3 filters has been exceeded."});
    assert_eq!(conditions("id__exclude=1&id__exclude=1&id__exclude=1&id=1", visible), Err(too_many));
    let of_id = volumes.filters_of(volumes.field("id").unwrap());
    assert_eq!(
        of_id[6..],
        [
            "in",
            "exclude",
            "gt__exclude",
            "gte__exclude",
            "lt__exclude",
            "lte__exclude",
            "range__exclude",
            "in__exclude"
        ]
    );
    assert_eq!(
        errors("name__exclude=a"),
        json!({"name__exclude": ["Select a valid choice. exclude is not one of the available choices."]})
    );
}

#[test]
fn texts_are_compared_in_one_normal_form() {
    let books = books();
    let select = select(&books, &Query::parse("name=Zoe%CC%88&name__icontains=E%CC%88")).ok().unwrap();
    let operands: Vec<_> = select.filters.iter().map(|filter| filter.operands()[0].clone()).collect();
    assert_eq!(operands, [CheckedValue::from("Zoë"), CheckedValue::from("ë")]);
}

#[test]
fn texts_may_be_sorted_naturally_where_their_field_says_so() {
    let mut name = Field::new("name", FieldKind::text(100)).folded().sort();
    name.sorts_naturally = true;
    let books = Resource::new("books", "Book", "books", [Field::id(), name]);
    let order = |query: &str| {
        let select = select(&books, &Query::parse(query));
        let shown = |order: &OrderField| (order.field.name.to_string(), order.descending, order.is_natural);
        select.map(|select| select.ordering.iter().map(shown).collect::<Vec<_>>()).map_err(|wrong| wrong.to_json())
    };
    assert_eq!(
        order("ordering=-name__natural,name__natural,name"),
        Ok(vec![("name".to_owned(), true, true), ("name".to_owned(), false, false)])
    );
    let wrong = "Select a valid choice. id__natural is not one of the available choices.";
    assert_eq!(order("ordering=id__natural"), Err(json!({"ordering": [wrong]})));
}

#[test]
fn names_may_end_with_an_underscore() {
    for (parameter, name, predicate) in [
        ("field_", "field_", "exact"),
        ("field___in", "field_", "in"),
        ("field__in", "field", "in"),
        ("field__", "field", ""),
        ("field__other__in", "field", "other__in"),
    ] {
        assert_eq!(name_and_predicate(parameter), (name, predicate), "{parameter}");
    }
}

#[test]
fn ids_relations_and_users_have_their_predicates() {
    let volumes = volumes();
    let predicates_of = |name: &str| volumes.field(name).unwrap().predicates();
    assert_eq!(predicates_of("id"), [Exact, Gt, Gte, Lt, Lte, Range, In]);
    assert_eq!(predicates_of("series"), [Exact, Gt, Gte, Lt, Lte, Range, In, Isnull]);
    assert_eq!(predicates_of("clerk"), [Exact, In, Isnull]);
}

#[test]
fn unknown_and_unlisted_parameters_are_ignored() {
    let books = books();
    let select = select(
        &books,
        &Query::parse("colour=red&secret=x&secret__startswith=a&name__icontains=%C3%84b+c&ordering=-id"),
    )
    .ok()
    .unwrap();
    assert_eq!(select.filters.len(), 1);
    assert_eq!(select.filters[0].operands(), &[CheckedValue::from("äb c")]);
    assert!(select.ordering[0].descending);
    assert_eq!((select.limit, select.offset), (25, 0));
}
