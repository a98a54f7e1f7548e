//! Fields, checked filters and orderings as SQL over the table `t`. The SQL consists of static text, names from
//! declarations, and bound values.

use resource::{Field, Kind, Members, Order, Predicate, Resource, Source, Value};
use store::{Arg, Sql};

/// Pushes SQL in which each token, such as `{now}`, is replaced by a bound value.
pub fn tokens(sql: &mut Sql, text: &'static str, values: &[(&str, i64)]) {
    let mut rest = text;
    while let Some((at, token, value)) =
        values.iter().filter_map(|(token, value)| Some((rest.find(token)?, token, value))).min()
    {
        sql.push(&rest[..at]);
        sql.push("CAST(").bind(*value).push(" AS BIGINT)");
        rest = &rest[at + token.len()..];
    }
    sql.push(rest);
}

pub fn value(sql: &mut Sql, field: &Field, now: i64) {
    match &field.source {
        Source::Column(column) => {
            sql.push("t.").name(column);
        }
        Source::Sql(expression) => tokens(sql, expression, &[("{now}", now)]),
        Source::Members(members) => {
            // Ordered inside, where an index does it; an order within string_agg would be a sort for every row.
            sql.push("(SELECT string_agg(x.item, ',') FROM (SELECT CAST(m.").name(members.item);
            sql.push(" AS TEXT) AS item FROM ").name(members.table).push(" m WHERE m.").name(members.owner);
            sql.push(" = t.id ORDER BY m.").name(members.item).push(") x)");
        }
        Source::Sealed(sealed) => {
            // Only whether there is a secret is read, never its value.
            sql.push("(CASE WHEN t.").name(sealed.column).push(" IS NULL THEN NULL ELSE '' END)");
        }
        Source::None => {
            sql.push("NULL");
        }
    }
}

/// Whether a field's value depends on the time of the request.
pub fn is_of_the_moment(field: &Field) -> bool {
    matches!(&field.source, Source::Sql(expression) if expression.contains("{now}"))
}

pub fn conditions(sql: &mut Sql, filters: &[resource::Filter], now: i64) {
    for filter in filters {
        sql.push(" AND ");
        condition(sql, filter, now);
    }
}

/// Pushes a checked filter as a condition.
fn condition(sql: &mut Sql, filter: &resource::Filter, now: i64) {
    let (field, operands) = (filter.field(), filter.operands());
    let first = || operands.first().map_or(Arg::Null, |operand| stored(field, operand));
    if let Source::Members(members) = &field.source {
        return condition_on_members(sql, members, filter.predicate(), operands);
    }
    if let (Kind::Set { .. }, Predicate::Exact | Predicate::In) = (&field.kind, filter.predicate()) {
        return condition_on_set(sql, field, filter.predicate(), operands, now);
    }
    let compared = |sql: &mut Sql| match &field.folded {
        Some(folded) if filter.predicate().ignores_case() => {
            sql.push("t.").name(folded);
        }
        _ => value(sql, field, now),
    };
    let with = |sql: &mut Sql, operator: &'static str| {
        compared(sql);
        sql.push(operator).bind(first());
    };
    match filter.predicate() {
        Predicate::Exact | Predicate::Iexact => with(sql, " = "),
        Predicate::Gt => with(sql, " > "),
        Predicate::Gte => with(sql, " >= "),
        Predicate::Lt => with(sql, " < "),
        Predicate::Lte => with(sql, " <= "),
        Predicate::Range => {
            compared(sql);
            sql.push(" BETWEEN ")
                .bind(first())
                .push(" AND ")
                .bind(operands.get(1).map_or(Arg::Null, |operand| stored(field, operand)));
        }
        Predicate::In => {
            compared(sql);
            sql.push(" IN (");
            listed(sql, operands);
            sql.push(")");
        }
        Predicate::Isnull => {
            compared(sql);
            sql.push(if operands.first() == Some(&Value::Bool(true)) { " IS NULL" } else { " IS NOT NULL" });
        }
        Predicate::Contains | Predicate::Icontains => {
            sql.push("strpos(");
            compared(sql);
            sql.push(", ").bind(first()).push(") > 0");
        }
        Predicate::Startswith | Predicate::Istartswith => {
            sql.push("substr(");
            compared(sql);
            sql.push(", 1, length(CAST(").bind(first()).push(" AS TEXT))) = ").bind(first());
        }
        Predicate::Endswith | Predicate::Iendswith => {
            // The position is counted from the start, since only SQLite counts from the end; the length is checked,
            // since the position would be wrong in a shorter text.
            sql.push("(length(");
            compared(sql);
            sql.push(") >= length(CAST(").bind(first()).push(" AS TEXT)) AND substr(");
            compared(sql);
            sql.push(", length(");
            compared(sql);
            sql.push(") - length(CAST(").bind(first()).push(" AS TEXT)) + 1) = ").bind(first()).push(")");
        }
    }
}

/// Pushes a filter on a list of members: `exact` means the same members, `in` any of them.
fn condition_on_members(sql: &mut Sql, members: &Members, predicate: Predicate, operands: &[Value]) {
    let held = |sql: &mut Sql, what: &'static str| {
        sql.push(what).name(members.table).push(" m WHERE m.").name(members.owner).push(" = t.id");
    };
    let mut ids: Vec<i64> = operands.iter().flat_map(Value::ids).collect();
    ids.sort_unstable();
    ids.dedup();
    let distinct: Vec<Value> = ids.into_iter().map(Value::Int).collect();
    if predicate == Predicate::Exact {
        held(sql, "(SELECT count(*) FROM ");
        sql.push(") = ").bind(distinct.len() as i64).push(" AND ");
        held(sql, "(SELECT count(*) FROM ");
        sql.push(" AND m.").name(members.item).push(" IN (");
        listed(sql, &distinct);
        sql.push(")) = ").bind(distinct.len() as i64);
    } else {
        held(sql, "EXISTS (SELECT 1 FROM ");
        sql.push(" AND m.").name(members.item).push(" IN (");
        listed(sql, &distinct);
        sql.push("))");
    }
}

/// Pushes a filter on a set, which is stored as the JSON array of its members in the order of the choices.
fn condition_on_set(sql: &mut Sql, field: &Field, predicate: Predicate, operands: &[Value], now: i64) {
    if let (Predicate::Exact, Kind::Set { choices, .. }) = (predicate, &field.kind) {
        let members =
            choices.iter().map(|choice| Value::from(choice.value.as_ref())).filter(|value| operands.contains(value));
        value(sql, field, now);
        sql.push(" = ").bind(arg(&Value::List(members.collect())));
        return;
    }
    sql.push("(");
    for (n, operand) in operands.iter().enumerate() {
        sql.push(if n > 0 { " OR strpos(" } else { "strpos(" });
        value(sql, field, now);
        sql.push(", ").bind(operand.to_json().to_string()).push(") > 0");
    }
    sql.push(")");
}

fn listed(sql: &mut Sql, operands: &[Value]) {
    for (n, operand) in operands.iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(arg(operand));
    }
}

/// Pushes an ordering: nulls first, texts by their folded code points, ties by id in the direction of the last field.
pub fn order(sql: &mut Sql, resource: &Resource, ordering: &[Order]) {
    sql.push(" ORDER BY ");
    let mut has_id = false;
    for order in ordering {
        let direction = match (order.descending, order.field.nullable) {
            (false, true) => " NULLS FIRST, ",
            (true, true) => " DESC NULLS LAST, ",
            (false, false) => ", ",
            (true, false) => " DESC, ",
        };
        match order.field.order_column() {
            Some("id") => {
                has_id = true;
                sql.push(if order.descending { "t.id DESC, " } else { "t.id, " });
            }
            Some(column) => {
                sql.push("t.").name(column).push(direction);
            }
            None => {}
        }
    }
    let descending = ordering.last().map_or(resource.is_newest_first, |order| order.descending);
    sql.push(if descending && !has_id { "t.id DESC" } else { "t.id" });
}

/// A field's value as it is stored, as a statement's argument.
pub fn stored(field: &Field, value: &Value) -> Arg {
    match (&field.kind, value) {
        (Kind::Decimal { .. }, Value::Text(text)) => resource::decimal::encode(text).into(),
        _ => arg(value),
    }
}

/// A value as a statement's argument.
pub fn arg(value: &Value) -> Arg {
    match value {
        Value::Null => Arg::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Text(value) => value.into(),
        Value::JsonText(text) => text.into(),
        Value::List(_) | Value::Json(_) => value.to_json().to_string().into(),
    }
}
