//! A build with records and rights, from the files of a data set that several servers load (`bench/records`): people, teams,
//! suppliers, invoices and assignments. The rows have the form that `crates/records` writes, without events.

use crate::failure::Failure;
use crate::seed::{ADMIN, config, token_of};
use platform::builds;
use platform::kit::ids::ClassId;
use platform::records::classes::{ClassField, FIELD_COLUMNS, read_field, table};
use platform::records::{field_type::FieldType, rights, tables};
use resource::{decimal, fold, time};
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use store::{Argument, BorrowedArgument, Conn, Sql, StoreError, Words};

/// The ids of the classes, in the order of their creation.
const SUPPLIER: ClassId = ClassId::new(1);
const INVOICE: ClassId = ClassId::new(2);
/// The number of rows in a transaction.
const AT_ONCE: usize = 10_000;
/// The id of the super admin in the data set, who is user 1 of a new build.
const SUPER_ADMIN: i64 = 1_000;

/// The alias and type of the fields of an invoice.
const INVOICE_FIELDS: [(&str, FieldType); 20] = [
    ("title", FieldType::String),
    ("number", FieldType::String),
    ("description", FieldType::Text),
    ("remark", FieldType::String),
    ("contact_email", FieldType::Email),
    ("cost_center", FieldType::String),
    ("quantity", FieldType::Integer),
    ("discount", FieldType::Integer),
    ("amount", FieldType::Decimal),
    ("tax", FieldType::Decimal),
    ("is_paid", FieldType::Boolean),
    ("is_checked", FieldType::Boolean),
    ("issued_on", FieldType::Date),
    ("due_on", FieldType::Date),
    ("approved_at", FieldType::Datetime),
    ("status", FieldType::Enum),
    ("currency", FieldType::Enum),
    ("tags", FieldType::Set),
    ("responsible", FieldType::User),
    ("supplier", FieldType::Relation),
];
const SUPPLIER_FIELDS: [(&str, FieldType); 2] = [("name", FieldType::String), ("city", FieldType::String)];
const INDEXED: [&str; 3] = ["amount", "due_on", "status"];
const OPTIONS: [(&str, &[&str]); 3] = [
    ("status", &["draft", "open", "approved", "paid", "void"]),
    ("currency", &["EUR", "USD", "GBP", "PLN", "CHF"]),
    (
        "tags",
        &["urgent", "recurring", "prepaid", "foreign", "disputed", "scanned", "paper", "partial", "final", "internal"],
    ),
];

type Line = HashMap<String, String>;

/// Creates the build `localhost` with the data of a folder.
pub fn run(directory: &str, data: &str, url: Option<&str>) -> Result<(), Failure> {
    let data = Path::new(data);
    std::fs::create_dir_all(directory)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let app = platform::open(config(directory, url)).await.map_err(|error| error.to_string())?;
        let build = builds::create(&app, "localhost", ADMIN.0, ADMIN.1).await?;
        let db = &build.db;
        let people = lines(data, "people")?;
        let last = people.len() as i64;
        for part in in_parts(people) {
            db.write(move |conn| part.iter().try_for_each(|line| insert_person(conn, line))).await?;
        }
        let (teams, members, sets) = (lines(data, "teams")?, lines(data, "members")?, lines(data, "permission_sets")?);
        db.write(move |conn| insert_rights(conn, &teams, &members)).await?;
        db.write(|conn| declare(conn, SUPPLIER, "supplier", &SUPPLIER_FIELDS, rights::LIST | rights::VIEW)).await?;
        db.write(|conn| declare(conn, INVOICE, "invoice", &INVOICE_FIELDS, rights::CREATE)).await?;
        db.write(move |conn| sets.iter().try_for_each(|line| insert_set(conn, line))).await?;
        // Invoices come first, so that their ids are those of the file.
        let invoices = lines(data, "invoices")?;
        let first_supplier = invoices.len() as i64;
        for (class, records) in [(INVOICE, invoices), (SUPPLIER, lines(data, "suppliers")?)] {
            let fields = db.read(move |conn| fields_of(conn, class)).await?;
            for part in in_parts(records) {
                let fields = fields.clone();
                db.write(move |conn| insert_records(conn, class, &fields, &part, first_supplier)).await?;
            }
            for field in fields.into_iter().filter(|field| INDEXED.contains(&field.alias.as_str())) {
                db.run_outside_transaction(move |conn| tables::make_index(conn, class, &field)).await?;
            }
        }
        for part in in_parts(lines(data, "assignments")?) {
            db.write(move |conn| insert_assignments(conn, &part)).await?;
        }
        db.write(count).await?;
        for user in (1..=4).chain(SUPER_ADMIN..=last) {
            std::fs::write(Path::new(directory).join(format!("token-{user}")), token_of(&app, &build, user).await?)?;
        }
        app.store.close().await;
        Ok(())
    })
}

fn lines(data: &Path, name: &str) -> Result<Vec<Line>, Failure> {
    let rows = csv::Reader::from_path(data.join(format!("{name}.csv")))?.deserialize().collect::<Result<_, _>>();
    Ok(rows?)
}

fn in_parts(lines: Vec<Line>) -> Vec<Vec<Line>> {
    lines.chunks(AT_ONCE).map(<[Line]>::to_vec).collect()
}

fn text<'a>(line: &'a Line, name: &str) -> &'a str {
    line.get(name).map_or("", String::as_str)
}

fn number(line: &Line, name: &str) -> Option<i64> {
    text(line, name).parse().ok()
}

fn id(line: &Line, name: &str) -> i64 {
    number(line, name).unwrap_or(0)
}

fn insert_person(conn: &mut Conn, line: &Line) -> Result<(), StoreError> {
    let id = id(line, "id");
    let account_type = if id == SUPER_ADMIN { "super_admin" } else { "internal" };
    let (first, last) = (text(line, "first_name"), text(line, "last_name"));
    let name = format!("{first} {last}");
    let sql = Sql::new(if id == 1 {
        "UPDATE users SET username = $1, username_fold = $1, account_type = $2, first_name = $3, last_name = $4, \
         full_name = $5, full_name_fold = $6, company_name = $7 WHERE id = 1"
    } else {
        "INSERT INTO users(username, username_fold, account_type, first_name, last_name, full_name, full_name_fold, \
         company_name, job_title, phone, mobile, timezone, is_ip_restriction_enabled, allowed_ip_ranges, status, \
         created_at, created_by, modified_at, modified_by) \
         VALUES ($1, $1, $2, $3, $4, $5, $6, $7, '', '', '', 'UTC', 0, '[]', 'active', 0, 1, 0, 1)"
    });
    let sql = sql.arg(text(line, "username")).arg(account_type).arg(first).arg(last).arg(&name).arg(fold(&name));
    conn.exec(&sql.arg(text(line, "company_name"))).map(|_| ())
}

fn insert_rights(conn: &mut Conn, teams: &[Line], members: &[Line]) -> Result<(), StoreError> {
    let teams: Vec<[BorrowedArgument<'_>; 5]> = teams
        .iter()
        .map(|line| {
            [
                BorrowedArgument::Text(text(line, "name")),
                BorrowedArgument::Text(text(line, "name")),
                BorrowedArgument::Text(""),
                BorrowedArgument::Int(0),
                BorrowedArgument::Int(0),
            ]
        })
        .collect();
    conn.insert_rows("user_groups", &["name", "name_fold", "description", "created_at", "modified_at"], &teams, "")?;
    let members: Vec<[BorrowedArgument<'_>; 3]> = members
        .iter()
        .map(|line| {
            [
                BorrowedArgument::Int(id(line, "team")),
                BorrowedArgument::Int(id(line, "person")),
                BorrowedArgument::Int(0),
            ]
        })
        .collect();
    conn.insert_rows("user_group_members", &["group_id", "user_id", "created_at"], &members, "").map(|_| ())
}

/// Creates a class with its fields, and grants everyone these actions on it.
pub fn declare(
    conn: &mut Conn,
    class: ClassId,
    name: &'static str,
    fields: &[(&'static str, FieldType)],
    everyone: i64,
) -> Result<(), StoreError> {
    let sql = Sql::new(
        "INSERT INTO object_classes(name, name_fold, alias, description, version, fields_made, created_at, created_by, modified_at, modified_by) \
         VALUES ($1, $2, $2, '', 2, $3, 0, 1, 0, 1)",
    );
    conn.exec(&sql.arg(capital(name)).arg(name).arg(fields.len() as i64))?;
    tables::create_class(conn, class)?;
    for (at, (alias, kind)) in fields.iter().enumerate() {
        insert_field(conn, class, at as i64, alias, *kind)?;
    }
    let fields = fields_of(conn, class)?;
    fields.iter().try_for_each(|field| tables::add_field(conn, class, field, false))?;
    let sql = Sql::new(
        "INSERT INTO object_class_permission_sets(class_id, name, name_fold, type, permissions, created_at, modified_at) \
         VALUES ($1, 'everyone', 'everyone', 'everyone', $2, 0, 0)",
    );
    conn.exec(&sql.arg(class).arg(everyone)).map(|_| ())
}

fn insert_field(
    conn: &mut Conn,
    class: ClassId,
    at: i64,
    alias: &'static str,
    kind: FieldType,
) -> Result<(), StoreError> {
    let options = OPTIONS.iter().find(|(name, _)| *name == alias).map(|(_, values)| {
        json!(values.iter().map(|value| json!({"value": value, "text": capital(value)})).collect::<Vec<_>>())
            .to_string()
    });
    let is_decimal = kind == FieldType::Decimal;
    let is_relation = kind == FieldType::Relation;
    let is_indexed = INDEXED.contains(&alias);
    let sql = Sql::new(
        "INSERT INTO object_class_fields(class_id, alias, label, label_fold, description, type, is_required, is_unique, \
         wants_index, is_indexed, position, num_precision, num_scale, options, related_object_class, on_delete, \
         table_number, created_at, created_by, modified_at, modified_by) \
         VALUES ($1, $2, $3, $2, '', $4, 0, 0, $5, $5, $6, $7, $8, $9, $10, $11, 0, 0, 1, 0, 1)",
    );
    let sql = sql.arg(class).arg(alias).arg(capital(alias)).arg(kind.name()).arg(is_indexed).arg(at);
    let sql = sql.arg(is_decimal.then_some(12)).arg(is_decimal.then_some(2)).arg(options);
    conn.exec(&sql.arg(is_relation.then_some(SUPPLIER)).arg(is_relation.then_some("refuse"))).map(|_| ())
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

fn fields_of(conn: &mut Conn, class: ClassId) -> Result<Vec<ClassField>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FIELD_COLUMNS).push(" FROM object_class_fields f WHERE f.class_id = ").bind(class);
    conn.query_all(sql.push(" ORDER BY f.position"), read_field)
}

fn insert_set(conn: &mut Conn, line: &Line) -> Result<(), StoreError> {
    let bits = text(line, "actions").split(' ').fold(0, |bits, action| {
        bits | match action {
            "edit" => rights::EDIT,
            "delete" => rights::DELETE,
            _ => rights::VIEW,
        }
    });
    let sql = Sql::new(
        "INSERT INTO record_permission_sets(class_id, name, name_fold, permissions, created_at, modified_at) \
         VALUES ($1, $2, $3, $4, 0, 0)",
    );
    conn.exec(&sql.arg(INVOICE).arg(text(line, "name")).arg(fold(text(line, "name"))).arg(bits)).map(|_| ())
}

fn insert_records(
    conn: &mut Conn,
    class: ClassId,
    fields: &[ClassField],
    records: &[Line],
    first_supplier: i64,
) -> Result<(), StoreError> {
    let rows: Vec<Vec<Argument>> = records.iter().map(|_| vec![class.into()]).collect();
    let ids = tables::insert(conn, "records", &["class_id"], &rows, "RETURNING id")?;
    let mut columns: Vec<String> =
        ["id", "owner", "ownership", "owner_at", "owner_by", "created_at", "created_by", "modified_at", "modified_by"]
            .map(str::to_owned)
            .to_vec();
    columns.extend(fields.iter().flat_map(|field| [Some(field.column()), field.fold_column()]).flatten());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let (mut rows, mut words) = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
    for (line, id) in records.iter().zip(&ids) {
        let (row, of_row) = record(fields, line, *id, first_supplier);
        rows.push(row);
        words.push(of_row);
    }
    let numbers = tables::insert(conn, &table(class), &columns, &rows, "RETURNING n")?;
    let words: Vec<(i64, Words)> = numbers.into_iter().zip(words).collect();
    conn.set_words(&table(class), &words)
}

fn record(fields: &[ClassField], line: &Line, id: i64, first_supplier: i64) -> (Vec<Argument>, Words) {
    let time_of = |name: &str| time::parse(text(line, name));
    let owner = number(line, "owner");
    let (created_at, created_by) = (time_of("created_at").unwrap_or(0), number(line, "created_by"));
    let owned = |arg: Argument| if owner.is_some() { arg } else { Argument::Null };
    let mut row: Vec<Argument> = vec![
        id.into(),
        owner.into(),
        owned(id.into()),
        owned(created_at.into()),
        owned(created_by.into()),
        created_at.into(),
        created_by.into(),
        time_of("modified_at").unwrap_or(created_at).into(),
        number(line, "modified_by").into(),
    ];
    let mut words = Words::default();
    for field in fields {
        let sent = text(line, &field.alias);
        let stored = match field.kind {
            FieldType::Set => {
                let items: Vec<&str> = sent.split(';').filter(|item| !item.is_empty()).collect();
                json!(items).to_string().into()
            }
            _ if sent.is_empty() => Argument::Null,
            FieldType::Integer | FieldType::User => number(line, &field.alias).into(),
            FieldType::Relation => number(line, &field.alias).map(|supplier| supplier + first_supplier).into(),
            FieldType::Boolean => (sent == "true").into(),
            FieldType::Datetime => time::parse(sent).into(),
            FieldType::Decimal => decimal::encode(sent).into(),
            _ => sent.into(),
        };
        row.push(stored);
        if field.kind.is_text() {
            row.push(if sent.is_empty() { Argument::Null } else { fold(sent).into() });
            words.add(&fold(sent));
        }
    }
    (row, words)
}

fn insert_assignments(conn: &mut Conn, lines: &[Line]) -> Result<(), StoreError> {
    let rows: Vec<[BorrowedArgument<'_>; 5]> = lines
        .iter()
        .map(|line| {
            let principal = number(line, "person").unwrap_or_else(|| -id(line, "team"));
            // The invoices were created first, so the number of each is its id.
            let record = BorrowedArgument::Int(id(line, "invoice"));
            [
                record,
                record,
                BorrowedArgument::Int(id(line, "permission_set")),
                BorrowedArgument::Int(principal),
                BorrowedArgument::Int(0),
            ]
        })
        .collect();
    let columns = ["record", "n", "permission_set", "principal", "created_at"];
    conn.insert_rows("record_assignees", &columns, &rows, "").map(|_| ())
}

/// Sets the counters: users, records, and the visible records of each principal.
fn count(conn: &mut Conn) -> Result<(), StoreError> {
    for text in [
        "DELETE FROM counters WHERE name LIKE 'users_%'",
        "DELETE FROM counter_slots WHERE name LIKE 'users_%'",
        "INSERT INTO counters(name, n) SELECT 'users_' || account_type, count(*) FROM users GROUP BY account_type",
        "INSERT INTO limits(name, value) SELECT name, 1000000000 FROM counters WHERE name LIKE 'users_%'",
        "INSERT INTO limits(name, value) VALUES ('object_records_per_object_class', 1000000000)",
        "INSERT INTO record_counts(class_id, slot, n) SELECT class_id, 0, count(*) FROM records GROUP BY class_id",
        "INSERT INTO record_viewers(principal, class_id, slot, version, owned) \
         SELECT v.principal, 2, 0, 1, sum(v.owned) FROM (SELECT a.principal, 0 AS owned FROM record_assignees a \
         GROUP BY a.principal UNION ALL SELECT r.owner, count(*) FROM r2 r WHERE r.owner IS NOT NULL GROUP BY r.owner) v \
         GROUP BY v.principal",
    ] {
        conn.exec(&Sql::new(text))?;
    }
    Ok(())
}
