//! The declarations of resources.

use crate::field::{Field, FieldAccess, StaticText};
use crate::json::RowForm;
use crate::limit::Limit;
use foldhash::fast::RandomState;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::ops::Range;

/// The maximum number of filters in a request, unless a declaration has another one (`docs/reference/conventions.md`).
pub const MAX_FILTERS: usize = 50;

/// The names and schemas of the members that answers show beside the fields.
pub type ExtraSchemas = fn(RowForm) -> Vec<(&'static str, Json)>;

/// The declaration of a resource.
#[derive(Clone)]
pub struct Resource {
    /// The name of the resource in permissions and in the administration log.
    pub name: StaticText,
    /// The name of one instance, for OpenAPI (`User`).
    pub title: StaticText,
    /// The name of the schema of its create's body, if that is not `{title}Create`.
    pub body_title: Option<StaticText>,
    pub table: StaticText,
    /// Tables with further columns of the same rows, joined by their `id`. The values of a row that is missing
    /// there count as nulls. In SQL the tables have the alias of the first table with their number, from 1: `t1`.
    pub further_tables: Vec<StaticText>,
    /// The fields, in the order in which they are shown.
    pub fields: Vec<Field>,
    /// The maximum number of rows of a build, if they are counted.
    pub limit: Option<&'static Limit>,
    /// The condition on rows that are not deleted, as SQL over the table `t`, if deleted rows stay.
    pub alive: Option<&'static str>,
    /// The limit that OPTIONS shows as `restrictions.limit_items`.
    pub limit_items: Option<i64>,
    /// The limit that OPTIONS shows as `restrictions.limit_items_in_batch`, and the address that finds items of a batch by text.
    pub batch: Option<(i64, StaticText)>,
    /// Is true if lists apply `ordering` and filters.
    pub is_selectable: bool,
    /// Is true if each filter has a complement, by `exclude` behind its predicate.
    pub has_complements: bool,
    /// The maximum number of filters in a request.
    pub max_filters: usize,
    /// Is true if lists begin with the highest id.
    pub is_newest_first: bool,
    /// The field by which lists are ordered if a request has no other order.
    pub order_field: Option<StaticText>,
    /// Is true if the administration log contains the creation, change and deletion of its rows.
    pub is_logged: bool,
    /// The fields that are in an object of their own, under this name.
    pub group: Option<(StaticText, Range<usize>)>,
    /// The schemas of the members that answers show beside the fields, such as `_meta`, by name.
    pub shown_beside: Option<ExtraSchemas>,
    by_name: HashMap<StaticText, usize, RandomState>,
}

impl Resource {
    pub fn new(
        name: impl Into<StaticText>,
        title: impl Into<StaticText>,
        table: impl Into<StaticText>,
        fields: impl IntoIterator<Item = Field>,
    ) -> Resource {
        let fields: Vec<Field> = fields.into_iter().collect();
        let by_name = fields.iter().enumerate().map(|(n, field)| (field.name.clone(), n)).collect();
        Resource {
            name: name.into(),
            title: title.into(),
            body_title: None,
            table: table.into(),
            further_tables: Vec::new(),
            fields,
            limit: None,
            alive: None,
            limit_items: None,
            batch: None,
            is_selectable: true,
            has_complements: false,
            max_filters: MAX_FILTERS,
            is_newest_first: false,
            order_field: None,
            is_logged: true,
            group: None,
            shown_beside: None,
            by_name,
        }
    }
    /// Names the schema of its create's body for OpenAPI.
    pub fn body_title(mut self, title: impl Into<StaticText>) -> Resource {
        self.body_title = Some(title.into());
        self
    }
    /// Sets the tables for the columns of fields that declare them. They have the same column `id` as the first table.
    pub fn further_tables(mut self, tables: impl IntoIterator<Item = StaticText>) -> Resource {
        self.further_tables = tables.into_iter().collect();
        self
    }
    /// Limits the number of rows of a build, which are counted; OPTIONS shows the limit.
    pub fn limit(mut self, limit: &'static Limit) -> Resource {
        self.limit = Some(limit);
        self.limit_items(limit.default)
    }
    /// Declares that deleted rows stay; the others fulfil this condition over the table `t`.
    pub fn alive(mut self, condition: &'static str) -> Resource {
        self.alive = Some(condition);
        self
    }
    /// Sets the limit of rows below another row.
    pub fn limit_items(mut self, limit: i64) -> Resource {
        self.limit_items = Some(limit);
        self
    }
    /// Declares that the collection is changed by arrays of at most `limit` ids.
    pub fn batch(mut self, limit: i64, autocomplete: impl Into<StaticText>) -> Resource {
        self.batch = Some((limit, autocomplete.into()));
        self
    }
    /// Makes lists begin with the highest id, or the highest value of the field by which they are ordered.
    pub fn newest_first(mut self) -> Resource {
        self.is_newest_first = true;
        self
    }
    /// Orders lists by this field, unless a request has another order.
    pub fn ordered_by(mut self, field: impl Into<StaticText>) -> Resource {
        self.order_field = Some(field.into());
        self
    }
    /// Adds a complement to each filter, by `exclude` behind its predicate.
    pub fn complements(mut self) -> Resource {
        self.has_complements = true;
        self
    }
    /// Sets the maximum number of filters of a list.
    pub fn max_filters(mut self, most: usize) -> Resource {
        self.max_filters = most;
        self
    }
    /// Disables sorting and filters of lists.
    pub fn unselectable(mut self) -> Resource {
        self.is_selectable = false;
        self
    }
    /// Disables the entries about its rows in the administration log.
    pub fn unlogged(mut self) -> Resource {
        self.is_logged = false;
        self
    }
    /// Puts the fields at these places into an object under this name, in bodies and answers. Filters and
    /// ordering name them without it.
    pub fn group(mut self, name: impl Into<StaticText>, fields: Range<usize>) -> Resource {
        let end = fields.end.min(self.fields.len());
        self.group = Some((name.into(), fields.start.min(end)..end));
        self
    }
    /// Adds members to answers beside the fields. OpenAPI uses these schemas of them.
    pub fn with_extra_schemas(mut self, schemas: ExtraSchemas) -> Resource {
        self.shown_beside = Some(schemas);
        self
    }
    /// Returns the fields before the group, those of the group, and those after it. Without a group, all are before it.
    pub fn parts(&self) -> [&[Field]; 3] {
        let field_count = self.fields.len();
        let group = self.group.as_ref().map_or(field_count..field_count, |(_, group)| group.clone());
        [&self.fields[..group.start], &self.fields[group.clone()], &self.fields[group.end..]]
    }
    /// Returns the name of the group that contains a field.
    pub fn group_of(&self, field: &Field) -> Option<&str> {
        let (name, places) = self.group.as_ref()?;
        self.by_name.get(&field.name).filter(|place| places.contains(place)).map(|_| name.as_ref())
    }
    /// Returns whether a field of the group has this name.
    pub fn is_in_group(&self, name: &str) -> bool {
        let places = self.group.as_ref().map(|(_, places)| places);
        places.zip(self.by_name.get(name)).is_some_and(|(places, place)| places.contains(place))
    }
    /// Returns the suffixes of a field's name by which lists are filtered: its predicates, and their complements if there are any.
    pub fn filters_of(&self, field: &Field) -> Vec<String> {
        if !self.is_selectable {
            return Vec::new();
        }
        let predicates = field.predicates();
        let complements =
            predicates.iter().filter(|_| self.has_complements).map(|predicate| predicate.name_of_complement());
        predicates.iter().map(|predicate| predicate.name().to_owned()).chain(complements).collect()
    }
    /// Returns the field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).map(|n| &self.fields[*n])
    }
    /// Returns the field that an index of the database makes unique.
    pub fn field_of_index(&self, index: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.unique.as_deref() == Some(index))
    }
    /// Returns the fields that lists show, sort by or filter by.
    pub fn columns(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| field.access != FieldAccess::WriteOnly && (field.in_list || field.filter || field.sort))
    }
}
