//! The children of a record, which point to it by a relation: `/api/object-records/{id}/children/`
//! (`docs/reference/object-records.md`).

use super::change::relations_to;
use super::list::{advised, fields_parameter};
use super::read::{RecordMeta, RecordPage, View};
use super::record_access;
use crate::classes::{ClassField, table, table_of};
use crate::visible_records::{VisibleClass, classes_with_visible};
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::ids::{ClassId, RecordId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::sql::{OWN, conditions};
use kit::rows::{self, PageSize, Relations};
use resource::json::JsonWriter;
use resource::{CheckedFilter, Field, FieldKind, Resource, options, select};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql};

/// The parts of a child that the records of all classes share, with the filters of the list of children.
static CHILDREN: LazyLock<Resource> = LazyLock::new(|| {
    let number = |name| Field::new(name, FieldKind::Integer { min: 1, max: i64::MAX });
    let user = |name| Field::new(name, FieldKind::User).nullable();
    let date_time = |name| Field::new(name, FieldKind::DateTime);
    let fields = [
        number("id"),
        number("object_class").filter(),
        user("owner"),
        Field::new("fields", FieldKind::Object),
        date_time("created_at"),
        user("created_by"),
        date_time("modified_at"),
        user("modified_by"),
    ];
    Resource::new("object_records", "ObjectRecordChild", "children", fields.map(Field::read_only)).complements()
});

pub fn routes() -> Vec<Route> {
    let path = "/api/object-records/{record_id}/children/";
    let mut list = Route::open_list(path, super::schemas::record_schema, list)
        .parameters(|| vec![fields_parameter()])
        .instance("object_records.view");
    list.selects = Some(&CHILDREN);
    vec![list, Route::options_below(path, document).with_read(document)]
}

/// Returns the schema document of the list to callers who may view the record.
fn document(request: &Request, conn: &mut Conn) -> Outcome {
    record_access::load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&CHILDREN)))
}

/// A class whose records may point to the record, with the relations that do.
struct ChildClass {
    seen: VisibleClass,
    relations: Vec<ClassField>,
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    page(request, conn).map_err(advised)
}

fn page(request: &Request, conn: &mut Conn) -> Outcome {
    let parent = record_access::load_from_path(request, conn)?;
    let select = select(&CHILDREN, &request.query)?;
    let classes = child_classes(request, conn, parent.class.id)?;
    let (mut total, mut filtered, mut out) = (0, 0, JsonWriter::with_capacity(2048));
    out.raw("[");
    if let Some(children) = children(&classes, parent.id) {
        let count = |conn: &mut Conn, filters: &[CheckedFilter]| {
            let mut sql = Sql::new("SELECT count(*) FROM (");
            sql.append(&children).push(") t WHERE 1 = 1");
            conditions(&mut sql, OWN, filters, &Relations::new(), request.now);
            conn.query_one(&sql, |row| row.int(0))
        };
        total = count(conn, &[])?;
        filtered = if select.filters.is_empty() { total } else { count(conn, &select.filters)? };
        let mut sql = Sql::new("SELECT t.object_class, t.id FROM (");
        sql.append(&children).push(") t WHERE 1 = 1");
        conditions(&mut sql, OWN, &select.filters, &Relations::new(), request.now);
        sql.push(" ORDER BY t.id").page(select.limit, select.offset);
        let ids = conn.query_all(&sql, |row| Ok((row.id(0)?, row.id(1)?)))?;
        write(request, conn, &classes, &ids, &mut out)?;
    }
    out.raw("]");
    let body = rows::envelope(request, select.limit, select.offset, total, filtered, out.into_bytes());
    let mut answer = Answer::json(StatusCode::OK, body);
    answer.cacheable_until = Some(i64::MAX);
    Ok(answer)
}

/// The classes that point to a class, each with the records that the caller may view.
fn child_classes(request: &Request, conn: &mut Conn, parent: ClassId) -> Result<Vec<ChildClass>, Refusal> {
    let mut relations: BTreeMap<ClassId, Vec<ClassField>> = BTreeMap::new();
    for (class, field) in relations_to(conn, parent)? {
        relations.entry(class).or_default().push(field);
    }
    if relations.is_empty() {
        return Ok(Vec::new());
    }
    let visible_classes = classes_with_visible(request, conn, relations.keys().copied().collect())?;
    let child = |visible_class: VisibleClass| {
        let relations = relations.remove(&visible_class.class.id).unwrap_or_default();
        ChildClass { seen: visible_class, relations }
    };
    Ok(visible_classes.into_iter().filter(|visible_class| !visible_class.visible.is_none()).map(child).collect())
}

/// The class and the id of each visible child, without duplicates. `None` if there cannot be any.
fn children(classes: &[ChildClass], parent: RecordId) -> Option<Sql> {
    let mut sql = Sql::new("");
    for (child, relation) in
        classes.iter().flat_map(|child| child.relations.iter().map(move |relation| (child, relation)))
    {
        if !sql.text().is_empty() {
            // UNION without ALL: a record that points to the parent twice is one child.
            sql.push(" UNION ");
        }
        let class = child.seen.class.id;
        sql.push("SELECT CAST(").bind(class).push(" AS BIGINT) AS object_class, t.id FROM ");
        sql.name(&table(class)).push(" t");
        let mut holder = "t";
        if relation.table_number > 0 {
            sql.push(" JOIN ").name(&table_of(class, relation.table_number)).push(" x ON x.id = t.id");
            holder = "x";
        }
        sql.push(" WHERE ").push(holder).push(".").name(&relation.column()).push(" = ").bind(parent).push(" AND ");
        child.seen.visible.condition(&mut sql, "t.n");
    }
    Some(sql).filter(|sql| !sql.text().is_empty())
}

/// Writes the records of a page in its order. They can belong to several classes.
fn write(
    request: &Request,
    conn: &mut Conn,
    classes: &[ChildClass],
    page: &[(ClassId, RecordId)],
    out: &mut JsonWriter,
) -> Result<(), Refusal> {
    let (mut pages, mut bytes): (Vec<(RecordPage, RecordMeta)>, _) = (Vec::new(), 0);
    let mut places: HashMap<RecordId, (usize, usize)> = HashMap::new();
    for VisibleClass { class, on_class, .. } in classes.iter().map(|child| &child.seen) {
        let ids: Vec<RecordId> = page.iter().filter(|(class_id, _)| *class_id == class.id).map(|(_, id)| *id).collect();
        if ids.is_empty() {
            continue;
        }
        let view = Arc::new(View::from_request(request, class.clone()));
        let mut sql = Sql::new("SELECT ");
        view.select(&mut sql, request);
        view.from(&mut sql);
        sql.push(" WHERE t.id").push_any(ids);
        let records = RecordPage::read(request, &view, conn, &sql)?;
        bytes += records.bytes();
        PageSize { items: page.len(), bytes }.check(request)?;
        places.extend(records.items.iter().enumerate().map(|(at, item)| (item.id, (pages.len(), at))));
        let meta = records.load(request, conn, *on_class)?;
        pages.push((records, meta));
    }
    for (class_id, at) in page.iter().filter_map(|(_, id)| places.get(id)) {
        let (records, meta) = &pages[*class_id];
        records.write_one(*at, meta, out.comma(), true);
    }
    Ok(())
}
