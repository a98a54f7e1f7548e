//! Query strings: filters, orders, pages.

use crate::declared;
use history::readers;
use resource::select::MAX_LIMIT;
use resource::{FieldKind, Predicate, Query, RelatedRows, Resource, SelectError, select_related};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// Four bytes choose the declaration; the rest is a query, and the value of each of its filters.
pub fn queries(data: &[u8]) {
    let Some((numbers, text)) = data.split_first_chunk() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let query = Query::parse(text);
    declared::with_declaration(*numbers, |resource| {
        selects(resource, &query);
        for field in &resource.fields {
            for predicate in field.predicates() {
                let filter = format!("{}__{}={}", field.name, predicate.name(), text.replace('&', "%26"));
                selects(resource, &Query::parse(&filter));
                for relation in resource.fields.iter().filter(|field| matches!(field.kind, FieldKind::Reference { .. }))
                {
                    selects(resource, &Query::parse(&format!("{}.{filter}", relation.name)));
                }
            }
        }
    });
    for page in [readers::history_events(&query), readers::system_events(&query)] {
        match page {
            Ok(page) => assert!((1..=MAX_LIMIT).contains(&page.limit) && page.offset >= 0),
            Err(refusal) => assert!(refusal.cause.is_none() && refusal.status_and_body().0 == 422, "{refusal:?}"),
        }
    }
}

/// Checks the result of a resource for a query.
pub fn selects(resource: &Resource, query: &Query) {
    let select = match select_related(resource, query, |_| Some(RelatedRows::Of(resource)), resource.max_filters) {
        Ok(select) => select,
        Err(SelectError::TooManyFilters(most)) => {
            assert!(query.pairs().count() > most, "{query:?}");
            return;
        }
        Err(SelectError::Wrong(errors)) => {
            let errors = errors.to_json();
            let named: Vec<&String> = errors.as_object().into_iter().flat_map(Map::keys).collect();
            assert!(!named.is_empty());
            assert!(named.iter().all(|name| query.pairs().any(|(sent, _)| sent == *name)), "{errors} {query:?}");
            assert!(errors.as_object().into_iter().flat_map(Map::values).all(Json::is_array), "{errors}");
            return;
        }
    };
    assert!((1..=MAX_LIMIT).contains(&select.limit) && select.offset >= 0);
    let mut seen = HashSet::new();
    for order in &select.ordering {
        // A list without sorting has its own order.
        let is_default = resource.order_field.as_deref() == Some(order.field.name.as_ref());
        assert!((order.field.sort || is_default) && seen.insert(order.field.name.as_ref()), "{query:?}");
    }
    for filter in &select.filters {
        let (field, operands) = (filter.field(), filter.operands());
        assert!(field.filter && field.predicates().contains(&filter.predicate()), "{query:?}");
        match filter.predicate() {
            Predicate::Range => assert_eq!(operands.len(), 2, "{query:?}"),
            Predicate::In | Predicate::Exact => assert!(!operands.is_empty(), "{query:?}"),
            _ => assert_eq!(operands.len(), 1, "{query:?}"),
        }
        // PostgreSQL does not accept NUL in a text.
        assert!(
            !operands.iter().any(|value| value.to_json().as_str().is_some_and(|text| text.contains('\0'))),
            "{query:?}"
        );
    }
}
