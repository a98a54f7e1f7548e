//! Lists of the records of a class that the caller may view: filters, search, order and counts
//! (`docs/reference/object-records.md`).

use super::read::{RecordPage, View, join_label, select_label};
use super::words;
use crate::classes::{Class, class_at};
use crate::counts;
use crate::rights::{ClassRights, load_class_rights, select_held};
use crate::visible_records::{VisibleClass, VisibleRecords, classes_with_visible, number, visible};
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::autocomplete;
use kit::ids::ClassId;
use kit::limits::{self, Limit};
use kit::listed::{JsonItems, ListCounts};
use kit::refusal::{Refusal, RefusalReason};
use kit::request::Request;
use kit::rows::sql::{OWN, RELATED, conditions, load_related, order, push_joins};
use kit::rows::{self, RelatedResource, Relations};
use resource::json::JsonWriter;
use resource::select::{self, Select, select_related};
use resource::{CheckedFilter, Field, Query, RelatedRows, Resource, fold, openapi};
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::sync::Arc;
use store::{Conn, Sql};

/// The maximum number of filters among the parameters of a list of records.
pub static RECORD_FILTERS: Limit =
    Limit { name: "api_filters_on_object_models_object_records_list", default: 20, ..Limit::EMPTY };

/// Up to this number of matches, page and count come from one scan. More matches are counted by a second scan, since an index may
/// return the page without reading most of them.
const MAX_MATCHES: i64 = 5_000;

/// The parameters of lists and exports of records.
pub fn parameters() -> Vec<Json> {
    let text = || json!({"type": "string"});
    let mut list = openapi::open_parameters();
    list.push(openapi::query("search", "Words of the record's texts, the last one also as a beginning", text()));
    list.push(fields_parameter());
    list
}

/// The parameter that restricts the fields of records in answers.
pub fn fields_parameter() -> Json {
    openapi::query("fields", "Comma-separated aliases: no other values are answered", json!({"type": "string"}))
}

/// Loads the class of the path with the records that the caller may view. Answers 404 if the caller may not view such a class.
pub fn open(request: &Request, conn: &mut Conn) -> Result<VisibleClass, Refusal> {
    let (caller, id) = (request.caller()?, request.id());
    let mut sql = Sql::new("SELECT t.version, ");
    select_held(&mut sql, caller);
    sql.push(" FROM object_classes t WHERE t.id = ").bind(id);
    let row = conn.query_optional(&sql, |row| Ok((row.int(0)?, ClassRights::new(caller, row.int(1)?))))?;
    let (version, on_class) = row.ok_or_else(Refusal::not_found)?;
    let class = class_at(&request.app, &request.build, conn, id, version)?.ok_or_else(Refusal::not_found)?;
    let visible = visible(request, conn, id, on_class)?;
    if visible.is_none() {
        match caller.agent {
            // An agent may view the classes with which its connector is associated.
            Some(_) => drop(load_class_rights(conn, caller, id)?),
            None => on_class.needs_to_see()?,
        }
    }
    Ok(VisibleClass { class, on_class, visible })
}

/// The parts of a class that a request selects.
pub struct ListQuery<'r> {
    pub select: Select<'r>,
    /// The table of the class, as `t`.
    table: Sql,
    condition: Sql,
    relations: Relations,
    is_searched: bool,
}

/// The related classes that the parameters of a request filter by, by the aliases of the relations. `None` for a class that the
/// caller may not view.
pub type RelatedClasses = HashMap<String, Option<(Arc<Class>, VisibleRecords)>>;

/// Loads the related classes that the filters among these parameters use.
pub fn related_classes(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    query: &Query,
) -> Result<RelatedClasses, Refusal> {
    let fields = select::relations(&class.record, query);
    let related = |alias: &str| class.field(alias).and_then(|field| field.related_object_class);
    let ids: Vec<ClassId> = fields.iter().filter_map(|field| related(&field.name)).collect();
    if ids.is_empty() {
        return Ok(RelatedClasses::new());
    }
    let to_entry = |visible_class: VisibleClass| {
        let is_hidden = visible_class.visible.is_none() && !visible_class.on_class.sees_class();
        (visible_class.class.id, (!is_hidden).then_some((visible_class.class, visible_class.visible)))
    };
    let classes: HashMap<ClassId, _> = classes_with_visible(request, conn, ids)?.into_iter().map(to_entry).collect();
    let class_of = |alias: &str| classes.get(&related(alias)?).cloned();
    Ok(fields.iter().filter_map(|field| Some((field.name.to_string(), class_of(&field.name)?))).collect())
}

/// The rows that the filters over a relation read. `None` if the field is not a relation.
fn rows_of<'r>(related: &'r RelatedClasses, field: &Field) -> Option<RelatedRows<'r>> {
    related.get(field.name.as_ref()).map(|class_and_rows| match class_and_rows {
        Some((class, _)) => RelatedRows::Of(&class.record),
        None => RelatedRows::Hidden,
    })
}

/// Returns whether a parameter filters the records of a class.
pub fn is_filter(class: &Class, related: &RelatedClasses, parameter: &str) -> bool {
    select::find_filter(&class.record, |field| rows_of(related, field), parameter)
}

impl<'r> ListQuery<'r> {
    /// Reads the parameters of a list: paging, filters, ordering and search.
    pub fn from_request(
        query: &Query,
        conn: &mut Conn,
        opened: &'r VisibleClass,
        related: &'r RelatedClasses,
        now: i64,
    ) -> Result<ListQuery<'r>, Refusal> {
        let class = &opened.class;
        let most = limits::value(conn, &RECORD_FILTERS)?;
        let rows = |field: &Field| rows_of(related, field);
        let select = select_related(&class.record, query, rows, usize::try_from(most).unwrap_or(0))?;
        let mut visible = opened.visible.clone();
        let text = query.last_value("search").map(fold);
        let read_condition = match &text {
            Some(text) => words::records_with_words(conn, class, &visible, text)?,
            None => None,
        };
        let text_condition = match (&read_condition, &text) {
            // The search tests the visibility of each match, so that the words are searched first.
            (None, Some(text)) => conn.search(&class.table(), text, None, |sql, n| {
                if visible.is_tested() {
                    visible.condition(sql.push(" AND "), n);
                }
            })?,
            _ => None,
        };
        let is_searched = read_condition.is_some() || text_condition.is_some();
        if let Some(numbers) = read_condition {
            visible = visible.restrict_to(numbers);
        }
        let (table, mut condition) = visible.rows(conn, &class.table(), OWN, "t.n");
        match text_condition {
            Some(condition_of_text) if visible.is_tested() => {
                condition = Sql::new("t.n");
                condition.append(&condition_of_text);
            }
            text_condition => text_condition.iter().for_each(|numbers| {
                condition.push(" AND t.n").append(numbers);
            }),
        }
        let mut relations = Relations::new();
        for (alias, (class, visible)) in
            related.iter().filter_map(|(alias, class_and_rows)| Some((alias, class_and_rows.as_ref()?)))
        {
            let rows = visible.rows(conn, &class.table(), RELATED, "u.n");
            let mut condition = Sql::new("");
            visible.condition(&mut condition, "u.n");
            let related_resource =
                RelatedResource { resource: class.record.clone(), rows, visible: condition, ids: None };
            relations.insert(alias.clone().into(), related_resource);
        }
        load_related(conn, &select.filters, &mut relations, now)?;
        Ok(ListQuery { select, table, condition, relations, is_searched })
    }

    /// Returns whether the query may leave out some of the visible records.
    fn is_filtered(&self) -> bool {
        self.is_searched || !self.select.filters.is_empty()
    }

    fn ordered_fields(&self) -> impl Iterator<Item = &Field> {
        self.select.ordering.iter().map(|order| order.field)
    }

    /// Appends the tables and the condition of the selected records. The tables have the columns of these fields.
    pub fn push_from<'f>(&'f self, sql: &mut Sql, class: &Class, fields: impl Iterator<Item = &'f Field>, now: i64) {
        sql.push(" FROM ").append(&self.table);
        push_joins(sql, OWN, &class.record, self.select.filters.iter().map(CheckedFilter::own_field).chain(fields));
        sql.push(" WHERE ").append(&self.condition);
        conditions(sql, OWN, &self.select.filters, &self.relations, now);
    }

    /// The statement of the page by one scan of all matches, up to [`MAX_MATCHES`]. It selects the columns of a view and then the
    /// number of matches. `None` if the order uses a further table of the class.
    fn page_of_matches(&self, request: &Request, view: &View) -> Option<Sql> {
        let (class, resource): (&Class, &Resource) = (&view.class, &view.class.record);
        let ordering = &self.select.ordering;
        let ordered: BTreeSet<&str> = ordering.iter().filter_map(|order| order.field.order_column()).collect();
        if ordering.iter().any(|order| order.field.table > 0) {
            return None;
        }
        let mut sql = Sql::new("WITH matches AS MATERIALIZED (SELECT t.n, t.id");
        for column in ordered.into_iter().filter(|column| *column != "id") {
            sql.push(", t.").name(column);
        }
        self.push_from(&mut sql, class, iter::empty(), request.now);
        sql.push(" LIMIT ").bind(MAX_MATCHES + 1).push(") SELECT ");
        view.select(&mut sql, request);
        sql.push(", (SELECT count(*) FROM matches) FROM (SELECT t.n FROM matches t");
        order(&mut sql, OWN, resource, ordering);
        sql.page(self.select.limit, self.select.offset);
        join_page(&mut sql, class);
        order(&mut sql, OWN, resource, ordering);
        Some(sql)
    }

    /// The statement of the page, with the columns of a view.
    fn page(&self, request: &Request, view: &View) -> Sql {
        let (class, resource): (&Class, &Resource) = (&view.class, &view.class.record);
        let mut sql = Sql::new("SELECT ");
        view.select(&mut sql, request);
        sql.push(" FROM (SELECT t.n");
        self.push_from(&mut sql, class, self.ordered_fields(), request.now);
        order(&mut sql, OWN, resource, &self.select.ordering);
        sql.page(self.select.limit, self.select.offset);
        join_page(&mut sql, class);
        order(&mut sql, OWN, resource, &self.select.ordering);
        sql
    }

    /// Returns the records of the page, and the number of records that match the filters.
    fn matches(&self, request: &Request, conn: &mut Conn, view: &Arc<View>) -> Result<(RecordPage, i64), Refusal> {
        if let Some(sql) = self.page_of_matches(request, view) {
            let mut matches = None;
            let records = RecordPage::read_with(request, view, conn, &sql, |row, at| {
                matches = Some(row.int(at)?);
                Ok(())
            })?;
            let none = if self.select.offset == 0 { Some(0) } else { None };
            if let Some(matches) = matches.or(none).filter(|matches| *matches <= MAX_MATCHES) {
                return Ok((records, matches));
            }
        }
        let records = RecordPage::read(request, view, conn, &self.page(request, view))?;
        let shown = records.items.len() as i64;
        // A page that is not full implies the number of matches.
        let matches = match shown < self.select.limit && (self.select.offset == 0 || shown > 0) {
            true => self.select.offset + shown,
            false => self.count(conn, &view.class, request.now)?,
        };
        Ok((records, matches))
    }

    /// The numbers of all selected records within their class, in the order of the list.
    pub fn numbers(&self, conn: &mut Conn, class: &Class, now: i64) -> Result<Vec<u32>, Refusal> {
        let mut sql = Sql::new("SELECT t.n");
        self.push_from(&mut sql, class, self.ordered_fields(), now);
        order(&mut sql, OWN, &class.record, &self.select.ordering);
        Ok(conn.query_all(&sql, |row| number(row.int(0)?))?)
    }

    fn count(&self, conn: &mut Conn, class: &Class, now: i64) -> Result<i64, Refusal> {
        let mut sql = Sql::new("SELECT count(*)");
        self.push_from(&mut sql, class, iter::empty(), now);
        Ok(conn.query_one(&sql, |row| row.int(0))?)
    }
}

/// Appends the end of the subselect `page` and the tables with the fields of its rows. SQLite preserves the order of a CROSS
/// JOIN. With another join it would read the whole table in the order of the page.
fn join_page(sql: &mut Sql, class: &Class) {
    sql.push(") page CROSS JOIN ").name(&class.table()).push(" t");
    push_joins(sql, OWN, &class.record, class.record.fields.iter());
    sql.push(" WHERE t.n = page.n");
}

/// The refusal of a query that took too long, with advice.
pub fn too_slow(error: store::StoreError) -> Refusal {
    advised(Refusal::from(error))
}

/// Adds advice to the refusal of a list, an export or a batch if a query took too long.
pub fn advised(mut refusal: Refusal) -> Refusal {
    if matches!(refusal.cause.as_deref(), Some(store::StoreError::Slow)) {
        refusal.reason = RefusalReason::Detail("The query takes too long. Use an indexed field.".to_owned());
    }
    refusal
}

/// Lists the records of a class that the caller may view.
pub fn list(request: &Request, conn: &mut Conn) -> Outcome {
    page(request, conn).map_err(advised)
}

fn page(request: &Request, conn: &mut Conn) -> Outcome {
    let opened = open(request, conn)?;
    let related = related_classes(request, conn, &opened.class, &request.query)?;
    let query = ListQuery::from_request(&request.query, conn, &opened, &related, request.now)?;
    let (limit, offset) = (query.select.limit, query.select.offset);
    let total = match opened.visible.count() {
        Some(count) => count,
        None => counts::sum(conn, opened.class.id)?,
    };
    let view = Arc::new(View::from_request(request, opened.class.clone()));
    let mut items = JsonItems::with_capacity(2048);
    let mut filtered = total;
    if total > 0 {
        let records = match query.is_filtered() {
            true => {
                let (records, matches) = query.matches(request, conn, &view)?;
                filtered = matches;
                records
            }
            false => RecordPage::read(request, &view, conn, &query.page(request, &view))?,
        };
        let meta = records.load(request, conn, opened.on_class)?;
        records.write(&meta, &mut items);
        request.reserve_answer(items.bytes())?;
    }
    let mut answer = rows::list_answer(request, limit, offset, ListCounts { total, filtered }, items);
    answer.cacheable_until = Some(i64::MAX);
    Ok(answer)
}

/// Lists the records of a class by parts of their labels.
pub fn autocomplete(request: &Request, conn: &mut Conn) -> Outcome {
    let autocomplete::AutocompleteRequest { limit, offset, needles } =
        autocomplete::AutocompleteRequest::from_request(request)?;
    let opened = open(request, conn)?;
    let class = &opened.class;
    let mut condition = Sql::new("");
    opened.visible.condition(&mut condition, "t.n");
    for needle in &needles {
        condition.push(" AND strpos(");
        if let Some(field) = class.label() {
            rows::sql::fold_column(condition.push("COALESCE("), OWN, field);
            condition.push(", '#' || CAST(t.id AS TEXT))");
        } else {
            condition.push("'#' || CAST(t.id AS TEXT)");
        }
        condition.push(", ").bind(needle.clone()).push(") > 0");
    }
    let from = |sql: &mut Sql| {
        sql.push(" FROM ").name(&class.table()).push(" t");
        join_label(sql, class, OWN);
        sql.push(" WHERE ").append(&condition);
    };
    let mut sql = Sql::new("SELECT t.id, ");
    select_label(&mut sql, class, OWN);
    from(&mut sql);
    sql.push(" ORDER BY t.id").page(limit, offset);
    let mut out = JsonWriter::default();
    out.raw("[");
    conn.for_each_row(&sql, |row| {
        out.comma().raw("{").name("value").int(row.int(0)?).name("text").text(row.text(1)?).raw("}");
        Ok(())
    })
    .map_err(too_slow)?;
    out.raw("]");
    let total = match opened.visible.count() {
        Some(count) => count,
        None => counts::sum(conn, class.id)?,
    };
    let mut counted = Sql::new("SELECT count(*)");
    from(&mut counted);
    let filtered =
        if needles.is_empty() { total } else { conn.query_one(&counted, |row| row.int(0)).map_err(too_slow)? };
    let body = rows::envelope(request, limit, offset, total, filtered, out.into_bytes());
    Ok(Answer::json(StatusCode::OK, body))
}
