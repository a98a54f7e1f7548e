//! The declarations of resources.

use crate::field::{Field, FieldAccess, StaticText};
use crate::json::RowForm;
use crate::limit::Limit;
use foldhash::fast::RandomState;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::ops::Range;

/// How many parameters of a request may be filters, unless a declaration says otherwise
/// (`docs/reference/conventions.md`).
pub const MAX_FILTERS: usize = 50;

/// The names and schemas of what answers show beside the fields.
pub type ExtraSchemas = fn(RowForm) -> Vec<(&'static str, Json)>;

/// The declaration of a resource.
#[derive(Clone)]
pub struct Resource {
    /// The name of the resource in permissions and in the administration log.
    pub name: StaticText,
    /// The name of one instance, for OpenAPI (`User`).
    pub title: StaticText,
    /// The name of the schema of its create's body, where that is not `{title}Create`.
    pub body_title: Option<StaticText>,
    pub table: StaticText,
    /// Tables with further columns of the same rows, joined by their `id`; a row may be missing there, which counts as
    /// nulls. In SQL they have the alias of the first table with their number, from 1: `t1`.
    pub further_tables: Vec<StaticText>,
    /// The fields, in the order in which they are shown.
    pub fields: Vec<Field>,
    /// How many rows a build may have, if they are counted.
    pub limit: Option<&'static Limit>,
    /// What a row fulfils that is not deleted, as SQL over the table `t`, where deleted rows stay.
    pub alive: Option<&'static str>,
    /// The limit that OPTIONS shows as `restrictions.limit_items`.
    pub limit_items: Option<i64>,
    /// The limit that OPTIONS shows as `restrictions.limit_items_in_batch`, and the address where items of a batch are
    /// looked up by text.
    pub batch: Option<(i64, StaticText)>,
    /// Whether lists honour `ordering` and filters.
    pub is_selectable: bool,
    /// Whether each filter has a complement, by `exclude` behind its predicate.
    pub has_complements: bool,
    /// How many parameters of a request may be filters.
    pub max_filters: usize,
    /// Whether lists begin with the highest id.
    pub is_newest_first: bool,
    /// The field by which lists are ordered that are not asked for another order.
    pub order_field: Option<StaticText>,
    /// Whether creating, changing and deleting its rows is written to the administration log.
    pub is_logged: bool,
    /// The fields that stand in an object of their own, under this name.
    pub group: Option<(StaticText, Range<usize>)>,
    /// The schemas of what answers show beyond the fields, such as `_meta`, by name.
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
    /// Fields that say so have their columns in these tables, which have the column `id` as the first one has it.
    pub fn further_tables(mut self, tables: impl IntoIterator<Item = StaticText>) -> Resource {
        self.further_tables = tables.into_iter().collect();
        self
    }
    /// A build has at most so many rows, which are counted; OPTIONS shows it.
    pub fn limit(mut self, limit: &'static Limit) -> Resource {
        self.limit = Some(limit);
        self.limit_items(limit.default)
    }
    /// Deleted rows stay; the others fulfil this condition over the table `t`.
    pub fn alive(mut self, condition: &'static str) -> Resource {
        self.alive = Some(condition);
        self
    }
    /// Rows below another one have this limit.
    pub fn limit_items(mut self, limit: i64) -> Resource {
        self.limit_items = Some(limit);
        self
    }
    /// The collection is changed by arrays of at most `limit` ids.
    pub fn batch(mut self, limit: i64, autocomplete: impl Into<StaticText>) -> Resource {
        self.batch = Some((limit, autocomplete.into()));
        self
    }
    /// Lists begin with the highest id, or the highest value of the field by which they are ordered.
    pub fn newest_first(mut self) -> Resource {
        self.is_newest_first = true;
        self
    }
    /// Lists are ordered by this field, unless they are asked for another order.
    pub fn ordered_by(mut self, field: impl Into<StaticText>) -> Resource {
        self.order_field = Some(field.into());
        self
    }
    /// Each filter has a complement, by `exclude` behind its predicate.
    pub fn complements(mut self) -> Resource {
        self.has_complements = true;
        self
    }
    /// Lists take at most so many filters.
    pub fn max_filters(mut self, most: usize) -> Resource {
        self.max_filters = most;
        self
    }
    /// Lists have no sorting and no filters.
    pub fn unselectable(mut self) -> Resource {
        self.is_selectable = false;
        self
    }
    /// The administration log has no entries about its rows.
    pub fn unlogged(mut self) -> Resource {
        self.is_logged = false;
        self
    }
    /// These of its fields, by their places, stand in an object under this name, in bodies as in answers. Filters and
    /// ordering name them without it.
    pub fn group(mut self, name: impl Into<StaticText>, fields: Range<usize>) -> Resource {
        let end = fields.end.min(self.fields.len());
        self.group = Some((name.into(), fields.start.min(end)..end));
        self
    }
    /// Answers show these, too, beside the fields; OpenAPI has their schemas from here.
    pub fn with_extra_schemas(mut self, schemas: ExtraSchemas) -> Resource {
        self.shown_beside = Some(schemas);
        self
    }
    /// The fields before the group, those of the group, and those after it. Without a group, all are before it.
    pub fn parts(&self) -> [&[Field]; 3] {
        let all = self.fields.len();
        let group = self.group.as_ref().map_or(all..all, |(_, group)| group.clone());
        [&self.fields[..group.start], &self.fields[group.clone()], &self.fields[group.end..]]
    }
    /// The name of the group that a field stands in.
    pub fn group_of(&self, field: &Field) -> Option<&str> {
        let (name, places) = self.group.as_ref()?;
        self.by_name.get(&field.name).filter(|place| places.contains(place)).map(|_| name.as_ref())
    }
    /// Whether a field of the group has this name.
    pub fn is_in_group(&self, name: &str) -> bool {
        let places = self.group.as_ref().map(|(_, places)| places);
        places.zip(self.by_name.get(name)).is_some_and(|(places, place)| places.contains(place))
    }
    /// The names behind that of a field by which lists are filtered: its predicates, and their complements if there are any.
    pub fn filters_of(&self, field: &Field) -> Vec<String> {
        if !self.is_selectable {
            return Vec::new();
        }
        let predicates = field.predicates();
        let complements = predicates.iter().filter(|_| self.has_complements).map(|of| of.name_of_complement());
        predicates.iter().map(|predicate| predicate.name().to_owned()).chain(complements).collect()
    }
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).map(|n| &self.fields[*n])
    }
    /// The field that an index of the database keeps unique.
    pub fn field_of_index(&self, index: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.unique.as_deref() == Some(index))
    }
    /// The fields that lists show, sort by or filter by.
    pub fn columns(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| field.access != FieldAccess::WriteOnly && (field.in_list || field.filter || field.sort))
    }
}
