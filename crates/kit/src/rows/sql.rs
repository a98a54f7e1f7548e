//! Fields, checked filters and orderings as SQL. The SQL consists of static text, names from declarations, and bound values.

use resource::{
    CheckedFilter, CheckedValue, ColumnSource, Field, FieldKind, Id, OrderField, Predicate, Resource, SetTable,
    StaticText, fold,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use store::{Argument, Conn, Sql, StoreError};

/// Pushes SQL in which each token, such as `{now}`, is replaced by a bound value.
pub fn tokens<I: Id>(sql: &mut Sql, text: &'static str, values: &[(&str, I)]) {
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, remainder) = rest.split_at(at);
        let token = values.iter().find_map(|(token, value)| Some((remainder.strip_prefix(token)?, *value)));
        rest = match token {
            Some((rest, value)) => {
                sql.push(before).push("CAST(").bind(value.to_number()).push(" AS BIGINT)");
                rest
            }
            None => {
                sql.push(before).push("{");
                &remainder[1..]
            }
        };
    }
    sql.push(rest);
}

/// The alias of the table of a statement's own resource.
pub const OWN: &str = "t";
/// The alias of the table of a related resource.
pub const RELATED: &str = "u";

/// A resource that filters over a relation read.
#[derive(Clone)]
pub struct RelatedResource {
    pub resource: Arc<Resource>,
    /// Its table as `u`, and the condition on the rows that the caller may view. They select all rows that fulfil a filter.
    pub rows: (Sql, Sql),
    /// The condition on the rows that the caller may view, as SQL over the table `u`. Other rows count as nulls. A
    /// statement may contain the condition twice for each relation, so it must have few arguments: both engines bound them.
    pub visible: Sql,
    /// The ids of the rows that fulfil the filters, if they were loaded (see [`load_related`]).
    pub ids: Option<Vec<i64>>,
}

/// The related resources by the names of the fields that relate to them.
pub type Relations = HashMap<StaticText, RelatedResource>;

/// Joins the further tables of a resource that contain one of the fields to its table, which has the alias.
pub fn push_joins<'f>(
    sql: &mut Sql,
    alias: &'static str,
    resource: &Resource,
    fields: impl IntoIterator<Item = &'f Field>,
) {
    if resource.further_tables.is_empty() {
        return;
    }
    let used: BTreeSet<usize> = fields.into_iter().map(|field| field.table).collect();
    for (n, table) in resource.further_tables.iter().enumerate().map(|(n, table)| (n + 1, table)) {
        if used.contains(&n) {
            // A row that is older than the further table may be missing there.
            sql.push(" LEFT JOIN ").name(table).push(" ");
            push_alias(sql, alias, n);
            sql.push(" ON ");
            push_alias(sql, alias, n);
            sql.push(".id = ").push(alias).push(".id");
        }
    }
}

fn push_alias(sql: &mut Sql, alias: &'static str, table: usize) {
    if table == 0 {
        sql.push(alias);
    } else {
        sql.name(&format!("{alias}{table}"));
    }
}

/// Pushes a column of the table that contains a field.
pub(super) fn column(sql: &mut Sql, alias: &'static str, field: &Field, column: &str) {
    push_alias(sql, alias, field.table);
    sql.push(".").name(column);
}

/// Pushes the column of the case-folded copy of a field that has one.
pub fn fold_column(sql: &mut Sql, alias: &'static str, field: &Field) {
    if let Some(folded) = &field.folded {
        column(sql, alias, field, folded);
    }
}

/// Pushes the value of a field. An SQL expression is always over the table `t`, independent of the alias.
pub fn value(sql: &mut Sql, alias: &'static str, field: &Field, now: i64) {
    match &field.source {
        ColumnSource::Column(name) => column(sql, alias, field, name),
        ColumnSource::Sql(expression) => tokens(sql, expression, &[("{now}", now)]),
        ColumnSource::Members(members) => {
            // The subselect has the order, where an index does it; an order within string_agg would be a sort for every row.
            sql.push("(SELECT string_agg(x.item, ',') FROM (SELECT CAST(m.").name(members.item);
            sql.push(" AS TEXT) AS item FROM ").name(members.table).push(" m WHERE m.").name(members.owner);
            sql.push(" = ").push(alias).push(".id ORDER BY m.").name(members.item).push(") x)");
        }
        ColumnSource::Sealed(sealed) => {
            // The statement reads only whether there is a secret, never its value.
            sql.push("(CASE WHEN ");
            column(sql, alias, field, sealed.column);
            sql.push(" IS NULL THEN NULL ELSE '' END)");
        }
        ColumnSource::None => {
            sql.push("NULL");
        }
    }
}

/// Returns whether a field's value depends on the time of the request.
pub fn depends_on_time(field: &Field) -> bool {
    matches!(&field.source, ColumnSource::Sql(expression) if expression.contains("{now}"))
}

/// The maximum number of conditions side by side. SQLite bounds the depth of nesting, and each condition nests those before it.
const MAX_BESIDE: usize = 100;

/// Pushes conditions with an operator between them. More than [`MAX_BESIDE`] are put into brackets by the hundred.
pub fn push_joined<T>(sql: &mut Sql, operator: &'static str, parts: &[T], push: impl Fn(&mut Sql, &T)) {
    let [open, close] = if parts.len() > MAX_BESIDE { ["(", ")"] } else { ["", ""] };
    for (n, part) in parts.chunks(MAX_BESIDE).enumerate() {
        sql.push(if n > 0 { operator } else { "" }).push(open);
        for (n, item) in part.iter().enumerate() {
            sql.push(if n > 0 { operator } else { "" });
            push(sql, item);
        }
        sql.push(close);
    }
}

/// Pushes checked filters as further conditions over the table of this alias.
pub fn conditions(sql: &mut Sql, alias: &'static str, filters: &[CheckedFilter], relations: &Relations, now: i64) {
    let mut own: Vec<&CheckedFilter> = Vec::new();
    let mut over: Vec<(&Field, Vec<&CheckedFilter>)> = Vec::new();
    for filter in filters {
        match filter.relation_field() {
            None => own.push(filter),
            Some(via) => match over.iter_mut().find(|(relation, _)| relation.name == via.name) {
                Some((_, filters)) => filters.push(filter),
                None => over.push((via, vec![filter])),
            },
        }
    }
    push_further_filters(sql, alias, &own, now);
    for (via, filters) in over {
        conditions_on_related(sql, alias, via, &filters, relations.get(&via.name), now);
    }
}

/// Pushes filters on fields of the table of this alias as further conditions.
fn push_further_filters(sql: &mut Sql, alias: &'static str, filters: &[&CheckedFilter], now: i64) {
    sql.push(if filters.is_empty() { "" } else { " AND " });
    push_joined(sql, " AND ", filters, |sql, filter| condition(sql, alias, filter, now));
}

/// The maximum number of related rows that a statement names by their ids.
const MAX_RELATED: i64 = 1_000;

/// Loads the ids of the related rows that fulfil the filters over each relation. If there are few, the
/// statement of a list names them. PostgreSQL then estimates their number correctly and begins with them.
pub fn load_related(
    conn: &mut Conn,
    filters: &[CheckedFilter],
    relations: &mut Relations,
    now: i64,
) -> Result<(), StoreError> {
    for (name, related) in relations {
        let over = filters.iter().filter(|filter| filter.relation_field().is_some_and(|via| via.name == *name));
        let present: Vec<&CheckedFilter> = over.filter(|filter| !is_absence(filter)).collect();
        if present.is_empty() {
            continue;
        }
        let mut sql = Sql::new("SELECT u.id FROM ");
        push_related(&mut sql, related, &related.rows, &present);
        push_further_filters(&mut sql, RELATED, &present, now);
        let ids = conn.query_all(sql.push(" LIMIT ").bind(MAX_RELATED + 1), |row| row.int(0))?;
        related.ids = Some(ids).filter(|ids| ids.len() as i64 <= MAX_RELATED);
    }
    Ok(())
}

/// Returns whether a filter on a related row is true if there is no such row.
fn is_absence(filter: &CheckedFilter) -> bool {
    let is_null =
        filter.predicate() == Predicate::Isnull && filter.operands().first() == Some(&CheckedValue::Bool(true));
    is_null || filter.is_complement()
}

fn push_related(sql: &mut Sql, related: &RelatedResource, (table, visible): &(Sql, Sql), filters: &[&CheckedFilter]) {
    sql.append(table);
    push_joins(sql, RELATED, &related.resource, filters.iter().map(|filter| filter.field()));
    sql.push(" WHERE (").append(visible).push(")");
}

/// Pushes the filters on the related row of one field. Without a row that the caller may view, only `isnull=true`
/// and complements are true. There is at most one such row, so all these filters share one subquery.
fn conditions_on_related(
    sql: &mut Sql,
    alias: &'static str,
    via: &Field,
    filters: &[&CheckedFilter],
    related: Option<&RelatedResource>,
    now: i64,
) {
    let (absent, present): (Vec<&CheckedFilter>, Vec<&CheckedFilter>) =
        filters.iter().copied().partition(|filter| is_absence(filter));
    let Some(related) = related else {
        sql.push(if present.is_empty() { "" } else { " AND 1 = 0" });
        return;
    };
    // SQLite evaluates a list of ids once, and an EXISTS for every row; to PostgreSQL both are the same join. To
    // PostgreSQL a NOT IN is not a join. It is slow in proportion to its list if the list does not fit into memory.
    if let Some(ids) = related.ids.as_ref().filter(|_| !present.is_empty()) {
        sql.push(" AND ");
        value(sql, alias, via, now);
        sql.push_any(ids.clone());
    } else if !present.is_empty() {
        sql.push(" AND ");
        value(sql, alias, via, now);
        sql.push(" IN (SELECT u.id FROM ");
        push_related(sql, related, &related.rows, &present);
        push_further_filters(sql, RELATED, &present, now);
        sql.push(")");
    }
    if !absent.is_empty() {
        sql.push(" AND NOT EXISTS (SELECT 1 FROM ");
        let mut table = Sql::new("");
        table.name(&related.resource.table).push(" ").push(RELATED);
        push_related(sql, related, &(table, related.visible.clone()), &absent);
        sql.push(" AND u.id = ");
        value(sql, alias, via, now);
        push_joined(sql.push(" AND ("), " OR ", &absent, |sql, filter| match filter.is_complement() {
            true => {
                // An index must not serve it: the time of a search in an index reveals rows that the caller may not view.
                predicate(sql.push("("), RELATED, filter, now);
                sql.push(") IS TRUE");
            }
            false => {
                value(sql, RELATED, filter.field(), now);
                sql.push(" IS NOT NULL");
            }
        });
        sql.push("))");
    }
}

/// Pushes a checked filter as a condition on a field of the table of this alias.
fn condition(sql: &mut Sql, alias: &'static str, filter: &CheckedFilter, now: i64) {
    if filter.is_complement() {
        // A comparison with NULL is not true either.
        predicate(sql.push("("), alias, filter, now);
        sql.push(") IS NOT TRUE");
    } else {
        predicate(sql, alias, filter, now);
    }
}

/// Pushes the comparison of a filter, without its complement.
fn predicate(sql: &mut Sql, alias: &'static str, filter: &CheckedFilter, now: i64) {
    let (field, operands) = (filter.field(), filter.operands());
    let first = || operands.first().map_or(Argument::Null, |operand| to_argument(field, operand));
    if let ColumnSource::Members(members) = &field.source {
        let is_whole = matches!(field.kind, FieldKind::References { .. }) && filter.predicate() == Predicate::Exact;
        return condition_on_members(sql, alias, members, is_whole, operands);
    }
    if let (FieldKind::Set { .. }, Predicate::Exact | Predicate::In) = (&field.kind, filter.predicate()) {
        return condition_on_set(sql, alias, field, filter.predicate(), operands, now);
    }
    let value = |sql: &mut Sql| value(sql, alias, field, now);
    if field.is_text() {
        return condition_on_text(sql, alias, filter, value);
    }
    let push_comparison = |sql: &mut Sql, operator: &'static str| {
        value(sql);
        sql.push(operator).bind(first());
    };
    let values = match &field.kind {
        FieldKind::Boolean => 2,
        FieldKind::Enum { choices } => choices.len(),
        _ => 0,
    };
    match filter.predicate() {
        Predicate::Exact if values > 1 => {
            sql.one_in(values, |sql| push_comparison(sql, " = "));
        }
        Predicate::Gt => push_comparison(sql, " > "),
        Predicate::Gte => push_comparison(sql, " >= "),
        Predicate::Lt => push_comparison(sql, " < "),
        Predicate::Lte => push_comparison(sql, " <= "),
        Predicate::Range => {
            value(sql);
            sql.push(" BETWEEN ")
                .bind(first())
                .push(" AND ")
                .bind(operands.get(1).map_or(Argument::Null, |operand| to_argument(field, operand)));
        }
        Predicate::In => {
            value(sql);
            sql.push(" IN (");
            push_list(sql, operands.iter().map(|operand| to_argument(field, operand)));
            sql.push(")");
        }
        Predicate::Isnull => push_null_test(sql, value, operands),
        // The other predicates are for texts.
        _ => push_comparison(sql, " = "),
    }
}

fn push_null_test(sql: &mut Sql, value: impl Fn(&mut Sql), operands: &[CheckedValue]) {
    value(sql);
    sql.push(if operands.first() == Some(&CheckedValue::Bool(true)) { " IS NULL" } else { " IS NOT NULL" });
}

/// Pushes a filter on a text. If there is a folded copy, exact predicates compare it first. Then the
/// texts of only few rows must be converted to form NFC.
fn condition_on_text(sql: &mut Sql, alias: &'static str, filter: &CheckedFilter, value: impl Fn(&mut Sql)) {
    let (field, operands) = (filter.field(), filter.operands());
    let text = match operands.first() {
        Some(CheckedValue::Text(text)) => text.as_str(),
        _ => return push_null_test(sql, value, operands),
    };
    let folded = |sql: &mut Sql| fold_column(sql, alias, field);
    let normalized = |sql: &mut Sql| {
        value(sql.push("nfc("));
        sql.push(")");
    };
    match field.folded {
        // Values that the program writes are ASCII.
        None => compare(sql, filter.predicate(), value, text),
        Some(_) if filter.predicate().ignores_case() => compare(sql, filter.predicate(), folded, text),
        Some(_) => {
            compare(sql, filter.predicate(), folded, &fold(text));
            compare(sql.push(" AND "), filter.predicate(), normalized, text);
        }
    }
}

/// Pushes the comparison of one text with another.
fn compare(sql: &mut Sql, predicate: Predicate, compared: impl Fn(&mut Sql), text: &str) {
    match predicate {
        Predicate::Contains | Predicate::Icontains => {
            compared(sql.push("strpos("));
            sql.push(", ").bind(text).push(") > 0");
        }
        Predicate::Startswith | Predicate::Istartswith => {
            compared(sql.push("substr("));
            sql.push(", 1, length(CAST(").bind(text).push(" AS TEXT))) = ").bind(text);
        }
        Predicate::Endswith | Predicate::Iendswith => {
            // The position is counted from the start, since only SQLite counts from the end. The length is
            // checked, since the position would be wrong in a shorter text.
            compared(sql.push("(length("));
            compared(sql.push(") >= length(CAST(").bind(text).push(" AS TEXT)) AND substr("));
            compared(sql.push(", length("));
            sql.push(") - length(CAST(").bind(text).push(" AS TEXT)) + 1) = ").bind(text).push(")");
        }
        _ => {
            compared(sql);
            sql.push(" = ").bind(text);
        }
    }
}

/// Pushes a filter on the members of a set: they equal the operands (`is_whole`), or include at least one operand.
fn condition_on_members(
    sql: &mut Sql,
    alias: &'static str,
    members: &SetTable,
    is_whole: bool,
    operands: &[CheckedValue],
) {
    let push_members = |sql: &mut Sql, prefix: &'static str| {
        sql.push(prefix).name(members.table).push(" m WHERE m.").name(members.owner).push(" = ").push(alias);
        sql.push(".id");
    };
    let mut ids: Vec<i64> = operands.iter().flat_map(CheckedValue::ids).collect();
    ids.sort_unstable();
    ids.dedup();
    let distinct: Vec<CheckedValue> = ids.into_iter().map(CheckedValue::Int).collect();
    if is_whole {
        push_members(sql, "(SELECT count(*) FROM ");
        sql.push(") = ").bind(distinct.len() as i64).push(" AND ");
        push_members(sql, "(SELECT count(*) FROM ");
        sql.push(" AND m.").name(members.item).push(" IN (");
        push_list(sql, distinct.iter().map(arg));
        sql.push(")) = ").bind(distinct.len() as i64);
    } else {
        push_members(sql, "EXISTS (SELECT 1 FROM ");
        sql.push(" AND m.").name(members.item).push(" IN (");
        push_list(sql, distinct.iter().map(arg));
        sql.push("))");
    }
}

/// Pushes a filter on a set, which is stored as the JSON array of its members in the order of the choices.
fn condition_on_set(
    sql: &mut Sql,
    alias: &'static str,
    field: &Field,
    predicate: Predicate,
    operands: &[CheckedValue],
    now: i64,
) {
    if let (Predicate::Exact, FieldKind::Set { choices, .. }) = (predicate, &field.kind) {
        let members = choices
            .iter()
            .map(|choice| CheckedValue::from(choice.value.as_ref()))
            .filter(|value| operands.contains(value));
        value(sql, alias, field, now);
        sql.push(" = ").bind(arg(&CheckedValue::List(members.collect())));
        return;
    }
    push_joined(sql.push("("), " OR ", operands, |sql, operand| {
        push_member_test(sql, |sql| value(sql, alias, field, now), operand);
    });
    sql.push(")");
}

/// Pushes the condition that a set has a member. The searched text includes the comma before the member,
/// since values contain no commas. In a value with quotation marks, other text may stand between two of them.
pub fn push_member_test(sql: &mut Sql, set: impl Fn(&mut Sql), member: &CheckedValue) {
    set(sql.push("strpos(',' || substr("));
    sql.push(", 2), ").bind(format!(",{}", member.to_json())).push(") > 0");
}

fn push_list(sql: &mut Sql, args: impl Iterator<Item = Argument>) {
    for (n, arg) in args.enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(arg);
    }
}

/// Pushes an ordering over the table of this alias: nulls first, texts by their folded code points.
/// Ties are ordered by id in the direction of the last field.
pub fn order(sql: &mut Sql, alias: &'static str, resource: &Resource, ordering: &[OrderField]) {
    sql.push(" ORDER BY ");
    let mut has_id = false;
    for order in ordering {
        if order.field.order_column() == Some("id") {
            has_id = true;
            sql.push(alias).push(if order.descending { ".id DESC, " } else { ".id, " });
            continue;
        }
        if !push_key(sql, alias, order) {
            continue;
        }
        sql.push(match (order.descending, order.field.may_be_null()) {
            (false, true) => " NULLS FIRST, ",
            (true, true) => " DESC NULLS LAST, ",
            (false, false) => ", ",
            (true, false) => " DESC, ",
        });
    }
    let descending = ordering.last().map_or(resource.is_newest_first, |order| order.descending);
    sql.push(alias).push(if descending && !has_id { ".id DESC" } else { ".id" });
}

/// Pushes the sort key of a field. Returns whether there is one.
fn push_key(sql: &mut Sql, alias: &'static str, order: &OrderField) -> bool {
    let field = order.field;
    match (field.order_column(), &field.kind, &field.source) {
        (Some(name), FieldKind::Enum { choices }, _) if field.sorts_by_place => {
            // The key is the position of the value in the text of all values; none has a comma.
            let mut values = String::from(",");
            choices.iter().for_each(|choice| values.extend([choice.value.as_ref(), ","]));
            sql.push("strpos(").bind(values).push(", ',' || ");
            column(sql, alias, field, name);
            sql.push(" || ',')");
        }
        (Some(name), ..) if order.is_natural => {
            column(sql.push("natural_key("), alias, field, name);
            sql.push(")");
        }
        (Some(name), ..) => column(sql, alias, field, name),
        (None, _, ColumnSource::Sql(expression)) => drop(sql.push(expression)),
        (None, ..) => return false,
    }
    true
}

/// Returns a field's stored value as a statement's argument.
pub fn to_argument(field: &Field, value: &CheckedValue) -> Argument {
    match (&field.kind, value) {
        (FieldKind::Decimal { .. }, CheckedValue::Text(text)) => resource::decimal::encode(text).into(),
        _ => arg(value),
    }
}

/// Returns a value as a statement's argument.
pub fn arg(value: &CheckedValue) -> Argument {
    match value {
        CheckedValue::Null => Argument::Null,
        CheckedValue::Bool(value) => (*value).into(),
        CheckedValue::Int(value) => (*value).into(),
        CheckedValue::Text(value) => value.into(),
        CheckedValue::JsonText(text) => text.into(),
        CheckedValue::List(_) | CheckedValue::Json(_) => value.to_json().to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resource::{Query, ReferenceTarget, RelatedRows, select_related};

    fn customers() -> Resource {
        let name = Field::new("name", FieldKind::text(9)).column("f7").filter().sort().isnull();
        let city = Field::new("city", FieldKind::text(9)).column("f8").in_further_table(1).filter().isnull();
        let fields = [Field::id(), name, city];
        Resource::new("records", "Record", "r13", fields).further_tables(["r13_1".into()]).complements()
    }

    fn orders() -> Resource {
        let target = ReferenceTarget { table: "r13".into(), autocomplete: None };
        let mut number = Field::new("number", FieldKind::text(9)).column("f4").filter().sort().isnull().fold_indexed();
        number.folded = Some("f4_fold".into());
        let customer = Field::new("customer", FieldKind::Reference { target }).column("f5").filter().isnull();
        let date = Field::new("date", FieldKind::Date).column("f6").in_further_table(2).filter().sort().isnull();
        let further = ["r12_1", "r12_2"].map(StaticText::from);
        let fields = [Field::id(), number, customer, date];
        Resource::new("records", "Record", "r12", fields).further_tables(further).complements()
    }

    /// Returns the tables, conditions and order of a query.
    fn sql(query: &str) -> String {
        let (orders, customers) = (orders(), Arc::new(customers()));
        let related = |field: &Field| (field.name == "customer").then_some(RelatedRows::Of(&customers));
        let select = select_related(&orders, &Query::parse(query), related, 20).ok().unwrap();
        let visible = Sql::new("u.owner = $1").arg(3);
        let rows = (Sql::new("r13 u"), visible.clone());
        let related = RelatedResource { resource: customers.clone(), rows, visible, ids: None };
        let relations = Relations::from([("customer".into(), related)]);
        let mut sql = Sql::new("FROM r12 t");
        let ordered = select.ordering.iter().map(|order| order.field);
        push_joins(&mut sql, OWN, &orders, select.filters.iter().map(CheckedFilter::own_field).chain(ordered));
        sql.push(" WHERE 1 = 1");
        conditions(&mut sql, OWN, &select.filters, &relations, 0);
        order(&mut sql, OWN, &orders, &select.ordering);
        sql.text().to_owned()
    }

    #[test]
    fn only_the_tables_that_are_needed_are_joined() {
        assert_eq!(
            sql("customer=1&ordering=-number"),
            "FROM r12 t WHERE 1 = 1 AND t.f5 = $1 ORDER BY t.f4_fold DESC NULLS LAST, t.id DESC"
        );
        assert_eq!(
            sql("date__gt=2026-01-01&ordering=date"),
            "FROM r12 t LEFT JOIN r12_2 t2 ON t2.id = t.id WHERE 1 = 1 AND t2.f6 > $1 ORDER BY t2.f6 NULLS FIRST, t.id"
        );
    }

    #[test]
    fn lists_may_be_sorted_by_what_the_database_computes() {
        let pages =
            Field::new("pages", FieldKind::Integer { min: 0, max: 9 }).sql("(SELECT count(*) FROM pages p)").sort();
        let books = Resource::new("books", "Book", "books", [Field::id(), pages.nullable()]);
        let select = resource::select(&books, &Query::parse("ordering=-pages")).ok().unwrap();
        let mut sql = Sql::new("");
        order(&mut sql, OWN, &books, &select.ordering);
        assert_eq!(sql.text(), " ORDER BY (SELECT count(*) FROM pages p) DESC NULLS LAST, t.id DESC");
    }

    #[test]
    fn an_indexed_copy_serves_exact_filters() {
        assert_eq!(sql("number=A"), "FROM r12 t WHERE 1 = 1 AND t.f4_fold = $1 AND nfc(t.f4) = $2 ORDER BY t.id");
        assert_eq!(sql("number__iexact=A"), "FROM r12 t WHERE 1 = 1 AND t.f4_fold = $1 ORDER BY t.id");
    }

    #[test]
    fn related_rows_are_found_among_those_that_are_visible() {
        assert_eq!(
            sql("customer.name=a"),
            "FROM r12 t WHERE 1 = 1 AND t.f5 IN (SELECT u.id FROM r13 u WHERE (u.owner = $1) AND u.f7 = $2) ORDER BY t.id"
        );
        assert_eq!(
            sql("customer.city__isnull=true"),
            "FROM r12 t WHERE 1 = 1 AND NOT EXISTS (SELECT 1 FROM r13 u LEFT JOIN r13_1 u1 ON u1.id = u.id \
             WHERE (u.owner = $1) AND u.id = t.f5 AND (u1.f8 IS NOT NULL)) ORDER BY t.id"
        );
    }

    #[test]
    fn complements_hold_where_there_is_no_value() {
        assert_eq!(
            sql("number__exclude=A&date__lt__exclude=2026-01-01"),
            "FROM r12 t LEFT JOIN r12_2 t2 ON t2.id = t.id WHERE 1 = 1 AND (t.f4_fold = $1 AND nfc(t.f4) = $2) IS NOT TRUE \
             AND (t2.f6 < $3) IS NOT TRUE ORDER BY t.id"
        );
        assert_eq!(
            sql("customer.name__exclude=a&customer.city__isnull=true&customer__exclude=1"),
            "FROM r12 t WHERE 1 = 1 AND (t.f5 = $1) IS NOT TRUE \
             AND NOT EXISTS (SELECT 1 FROM r13 u LEFT JOIN r13_1 u1 ON u1.id = u.id \
             WHERE (u.owner = $2) AND u.id = t.f5 AND ((u.f7 = $3) IS TRUE OR u1.f8 IS NOT NULL)) ORDER BY t.id"
        );
    }

    #[test]
    fn choices_are_sorted_by_their_places_and_texts_naturally() {
        let mut level = Field::new("level", FieldKind::choices(&[("high", "High"), ("low", "Low")])).sort().nullable();
        level.sorts_by_place = true;
        let mut code = Field::new("code", FieldKind::text(9)).folded().sort();
        code.sorts_naturally = true;
        let books = Resource::new("books", "Book", "books", [Field::id(), level, code]);
        let select = resource::select(&books, &Query::parse("ordering=-level,code__natural")).ok().unwrap();
        let mut sql = Sql::new("");
        order(&mut sql, OWN, &books, &select.ordering);
        let expected = " ORDER BY strpos($1, ',' || t.level || ',') DESC NULLS LAST, natural_key(t.code_fold), t.id";
        assert_eq!((sql.text(), sql.args()), (expected, [Argument::from(",high,low,")].as_slice()));
    }

    #[test]
    fn filters_over_one_relation_look_for_one_row() {
        assert_eq!(
            sql("customer.name=a&customer.id__gt=1&customer.name__isnull=true&customer.city__isnull=true&customer=1"),
            "FROM r12 t WHERE 1 = 1 AND t.f5 = $1 \
             AND t.f5 IN (SELECT u.id FROM r13 u WHERE (u.owner = $2) AND u.f7 = $3 AND u.id > $4) \
             AND NOT EXISTS (SELECT 1 FROM r13 u LEFT JOIN r13_1 u1 ON u1.id = u.id \
             WHERE (u.owner = $5) AND u.id = t.f5 AND (u.f7 IS NOT NULL OR u1.f8 IS NOT NULL)) ORDER BY t.id"
        );
    }
}
