//! Two classes in the form of classes of builds, with a relation from the first to the second. Their fields are in an object of
//! their own and in two tables, and a caller may not view every related row.

use crate::TestServer;
use http::StatusCode;
use platform::kit::refusal::Refusal;
use platform::kit::request::Request;
use platform::kit::rows::{self, Declaration, RelatedResource, RowShape, Scope};
use resource::{
    Changes, CheckedValue, EnumOption, Field, FieldKind, JsonBody, ReferenceTarget, Resource, StaticText, openapi,
    options,
};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// A field of a class. Every row may have null in it, and lists can filter and sort by it.
fn field(name: &'static str, kind: FieldKind, column: &'static str) -> Field {
    let mut field = Field::new(name, kind).column(column).filter().sort().isnull().blank_is_null();
    if field.is_text() {
        field.folded = Some(format!("{column}_fold").into());
    }
    field
}

fn class(title: &'static str, table: &'static str, fields: Vec<Field>) -> Resource {
    let end = fields.len() + 1;
    let fields = [Field::id().also_in()].into_iter().chain(fields).chain(Field::audit());
    let further = [StaticText::from(format!("{table}_1"))];
    Resource::new("records", title, table, fields).group("fields", 1..end).further_tables(further).unlogged()
}

fn customers() -> Resource {
    let fields = vec![
        field("name", FieldKind::text(50), "f7").required(),
        field("city", FieldKind::text(50), "f8").nullable().in_further_table(1),
    ];
    class("Customer", "r13", fields)
}

fn orders() -> Resource {
    let target =
        ReferenceTarget { table: "r13".into(), autocomplete: Some("/api/object-classes/13/autocomplete/".into()) };
    let states = [("new", "New"), ("done", "Done")].map(|(value, text)| EnumOption::new(value, text)).into();
    let fields = vec![
        field("number", FieldKind::text(50), "f1").required().unique_exactly("r12_f1").fold_indexed().label("No."),
        field("customer", FieldKind::Reference { target }, "f2").nullable().also_in(),
        field("clerk", FieldKind::UserId, "f3").nullable().description("Who packs it"),
        field("state", FieldKind::Enum { choices: states }, "f4").required().default("new"),
        field("note", FieldKind::text(50), "f5").nullable().in_further_table(1),
        field("code", FieldKind::text(50), "f6").nullable().in_further_table(1).unique_exactly("r12_1_f6"),
        field("sent_at", FieldKind::DateTime, "f9").nullable().in_further_table(1).default(0),
        Field::new("scans", FieldKind::Files { max_items: 2 })
            .column("f10")
            .nullable()
            .in_further_table(1)
            .filter()
            .isnull(),
    ];
    class("Order", "r12", fields)
}

/// Creates the tables of both classes. Sorted texts are in the order of code points, independent of the server's own order.
fn make_tables(conn: &mut Conn, text: &'static str) -> Result<(), StoreError> {
    let audit = "created_at BIGINT, created_by BIGINT, modified_at BIGINT, modified_by BIGINT";
    let tables: [(&str, &[&str], &[&str], &'static str); 4] = [
        ("r12", &["f1", "f1_fold", "f4"], &["f2", "f3"], audit),
        ("r12_1", &["f5", "f5_fold", "f6", "f6_fold", "f10"], &["f9"], "spare BIGINT"),
        ("r13", &["f7", "f7_fold"], &[], audit),
        ("r13_1", &["f8", "f8_fold"], &[], "spare BIGINT"),
    ];
    for (table, texts, numbers, further_columns) in tables {
        let mut sql = Sql::new("CREATE TABLE ");
        sql.name(table).push("(id BIGINT PRIMARY KEY, ");
        texts.iter().for_each(|column| {
            sql.name(column).push(text).push(", ");
        });
        numbers.iter().for_each(|column| {
            sql.name(column).push(" BIGINT, ");
        });
        conn.exec(sql.push(further_columns).push(")"))?;
    }
    conn.exec(&Sql::new("CREATE UNIQUE INDEX r12_f1 ON r12(f1)"))?;
    conn.exec(&Sql::new("CREATE UNIQUE INDEX r12_1_f6 ON r12_1(f6)"))?;
    Ok(())
}

struct TestClasses {
    server: TestServer,
    orders: Arc<Resource>,
    customers: Arc<Resource>,
}

impl TestClasses {
    async fn start() -> TestClasses {
        let classes = TestClasses {
            server: TestServer::start().await,
            orders: Arc::new(orders()),
            customers: Arc::new(customers()),
        };
        let text = if classes.server.app.store.is_embedded() { " TEXT" } else { " TEXT COLLATE \"C\"" };
        classes.server.build.db.write(move |conn| make_tables(conn, text)).await.unwrap();
        classes
    }

    async fn request(&self, query: &str) -> Request {
        self.server.request(None, platform::table().routes().next().unwrap(), query).await
    }

    async fn write<T: Send + 'static>(
        &self,
        script: impl Fn(&mut Conn) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Json> {
        self.server.build.db.write(script).await.map_err(|refusal| refusal.body())
    }

    /// Checks the fields of a new record and inserts it.
    async fn create(&self, class: &Arc<Resource>, id: i64, fields: Json) -> Result<(), Json> {
        let body = JsonBody::from_json(&json!({"fields": fields}));
        let (request, class) = (self.request("").await, class.clone());
        self.write(move |conn| {
            let accepted = rows::check_body(conn, &class, &body.as_value().as_object(|_| true).unwrap(), None)?;
            accepted.errors.refuse()?;
            rows::insert(&request, conn, &class, &accepted.changes, &[("id", id.into())]).map(|_| ())
        })
        .await
    }

    /// Checks the changed fields of a record and updates it. Returns the former values.
    async fn edit(&self, class: &Arc<Resource>, id: i64, fields: Json) -> Result<Changes, Json> {
        let body = JsonBody::from_json(&json!({"fields": fields}));
        let class = class.clone();
        self.write(move |conn| {
            let shape = RowShape::from_declaration(Declaration::Owned(class.clone()));
            let before = rows::load(conn, &shape, id)?.ok_or_else(Refusal::not_found)?;
            let accepted = rows::check_body(conn, &class, &body.as_value().as_object(|_| true).unwrap(), Some(id))?;
            accepted.errors.refuse()?;
            rows::update_row(conn, &class, id, &accepted.changes, &[], 5, None)?;
            Ok(before)
        })
        .await
    }

    /// Returns the orders that a query selects, for a caller who may not view the customers from 100 on.
    async fn list(&self, query: &str) -> Result<Vec<Json>, Json> {
        let request = self.request(query).await;
        let shape = RowShape::from_declaration(Declaration::Owned(self.orders.clone()));
        let customers = self.customers.clone();
        let script = move |conn: &mut Conn| {
            let visible = Sql::new("u.id < $1").arg(100);
            let mut scope = Scope::matching("1 = 1");
            let mut table = Sql::new("");
            table.name(&customers.table).push(" u");
            let related =
                RelatedResource { resource: customers.clone(), rows: (table, visible.clone()), visible, ids: None };
            scope.relations.insert("customer".into(), related);
            rows::list(&request, conn, &shape, scope)
        };
        let answer = self.server.build.db.read(script).await.map_err(|refusal| refusal.body())?;
        assert_eq!(answer.status, StatusCode::OK);
        let mut page: Json = serde_json::from_slice(answer.body.in_memory_bytes()).unwrap();
        let rows = page["results"].as_array().unwrap().len();
        assert_eq!(page["filtered_count"], rows, "{query}");
        let Json::Array(rows) = page["results"].take() else { return Ok(Vec::new()) };
        Ok(rows)
    }

    async fn ids(&self, query: &str) -> Vec<i64> {
        let rows = self.list(query).await.unwrap_or_else(|errors| panic!("{query}: {errors}"));
        rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
    }
}

#[tokio::test]
async fn fields_stand_in_two_tables() {
    let classes = TestClasses::start().await;
    let orders = &classes.orders;
    let body = json!({"number": "A1", "clerk": 1, "note": "b", "code": "x", "scans": [3]});
    assert_eq!(classes.create(orders, 1, body).await, Ok(()));
    assert_eq!(classes.create(orders, 2, json!({"number": "A2", "note": "Ä", "state": "done"})).await, Ok(()));
    // A record from a time before the second table has no row there.
    let old = "INSERT INTO r12(id, f1, f1_fold, f4, created_at, modified_at) VALUES (3, 'A3', 'a3', 'new', 0, 0)";
    classes.write(move |conn| Ok(conn.exec(&Sql::new(old))?)).await.unwrap();

    let fields: Vec<Json> = classes.list("").await.unwrap().iter_mut().map(|row| row["fields"].take()).collect();
    let start = "1970-01-01T00:00:00.000000Z";
    assert_eq!(
        fields,
        [
            json!({"number": "A1", "customer": null, "clerk": 1, "state": "new", "note": "b", "code": "x", "sent_at": start, "scans": [3]}),
            json!({"number": "A2", "customer": null, "clerk": null, "state": "done", "note": "Ä", "code": null, "sent_at": start, "scans": null}),
            json!({"number": "A3", "customer": null, "clerk": null, "state": "new", "note": null, "code": null, "sent_at": null, "scans": null}),
        ]
    );
    for (query, ids) in [
        ("note__icontains=%C3%A4", vec![2]),
        ("note__isnull=true", vec![3]),
        ("number=A1&code=x", vec![1]),
        ("number=a1", vec![]),
        ("number__iexact=a1", vec![1]),
        ("clerk__in=1,2", vec![1]),
        ("clerk__isnull=true&id__in=2,3,9", vec![2, 3]),
        ("ordering=note", vec![3, 1, 2]),
        ("ordering=-note", vec![2, 1, 3]),
        ("ordering=code,-number", vec![3, 2, 1]),
        ("ordering=-clerk", vec![1, 3, 2]),
        ("ordering=sent_at&note__isnull=false", vec![1, 2]),
    ] {
        assert_eq!(classes.ids(query).await, ids, "{query}");
    }

    let before = classes.edit(orders, 3, json!({"note": "z", "code": "y", "clerk": 1})).await.unwrap();
    assert_eq!((before.value("note"), before.value("number")), (Some(&CheckedValue::Null), Some(&"A3".into())));
    assert_eq!(classes.edit(orders, 1, json!({"note": "q"})).await.unwrap().value("note"), Some(&"b".into()));
    assert_eq!(classes.ids("ordering=-note").await, [2, 3, 1]);
    assert_eq!(classes.edit(orders, 9, json!({})).await, Err(json!({"detail": "Not found."})));

    let (request, class) = (classes.request("").await, orders.clone());
    classes.write(move |conn| rows::delete(&request, conn, &class, 1, "")).await.unwrap();
    let count = |conn: &mut Conn| Ok(conn.query_one(&Sql::new("SELECT count(*) FROM r12_1"), |row| row.int(0))?);
    assert_eq!((classes.write(count).await, classes.ids("").await), (Ok(2), vec![2, 3]));
}

#[tokio::test]
async fn values_of_case_sensitive_unique_fields_may_differ_in_case() {
    let classes = TestClasses::start().await;
    let orders = &classes.orders;
    assert_eq!(classes.create(orders, 1, json!({"number": "a", "code": "x"})).await, Ok(()));
    assert_eq!(classes.create(orders, 2, json!({"number": "A", "code": "X"})).await, Ok(()));
    let not_unique = json!(["This field must be unique."]);
    assert_eq!(
        classes.create(orders, 3, json!({"number": "a", "code": "x"})).await,
        Err(json!({"fields": {"number": not_unique, "code": not_unique}}))
    );
    // A concurrent write of another request is reported at the same place.
    for (name, id) in [("number", 3), ("code", 4)] {
        let mut changes = Changes::new();
        changes.insert("number", format!("n{id}").into());
        changes.insert(name, if name == "code" { "X".into() } else { "A".into() });
        let class = orders.clone();
        let refused =
            classes.write(move |conn| rows::insert_row(conn, &class, &changes, &[("id", id.into())], 0, None)).await;
        assert_eq!(refused, Err(json!({"fields": {name: not_unique}})));
    }
    assert_eq!(classes.ids("").await, [1, 2]);
}

#[tokio::test]
async fn empty_texts_are_null() {
    let classes = TestClasses::start().await;
    let orders = &classes.orders;
    assert_eq!(classes.create(orders, 1, json!({"number": "1", "note": " ", "code": ""})).await, Ok(()));
    assert_eq!(classes.create(orders, 2, json!({"number": "2", "note": "B", "code": ""})).await, Ok(()));
    assert_eq!(classes.ids("note__isnull=true").await, [1]);
    classes.edit(orders, 2, json!({"note": ""})).await.unwrap();
    assert_eq!(classes.ids("note__isnull=true&code__isnull=true").await, [1, 2]);
    // The folded copy is removed too.
    assert_eq!(classes.ids("note__icontains=b").await, Vec::<i64>::new());
    assert_eq!(
        classes.create(orders, 3, json!({"number": " "})).await,
        Err(json!({"fields": {"number": ["This field may not be blank."]}}))
    );
}

#[tokio::test]
async fn users_and_defaults_are_checked() {
    let classes = TestClasses::start().await;
    assert_eq!(
        classes.create(&classes.orders, 1, json!({"clerk": 99, "state": null, "customer": 5})).await,
        Err(json!({"fields": {
            "number": ["This field is required."],
            "customer": ["Invalid pk 5 - object does not exist."],
            "clerk": ["Invalid pk 99 - object does not exist."],
            "state": ["This field may not be null."],
        }}))
    );
    // A default must be unique like a sent value.
    let mut fields = orders().fields;
    fields.iter_mut().filter(|field| field.name == "code").for_each(|field| field.default = Some("x".into()));
    let defaulted = Arc::new(class("Order", "r12", fields.drain(1..9).collect()));
    assert_eq!(classes.create(&defaulted, 1, json!({"number": "1"})).await, Ok(()));
    assert_eq!(
        classes.create(&defaulted, 2, json!({"number": "2"})).await,
        Err(json!({"fields": {"code": ["This field must be unique."]}}))
    );
}

#[tokio::test]
async fn filters_look_into_related_rows_that_the_caller_may_view() {
    let classes = TestClasses::start().await;
    for (id, customer) in [
        (1, json!({"name": "Ärger", "city": "Bern"})),
        (2, json!({"name": "Beta"})),
        (100, json!({"name": "Beta", "city": "Bern"})),
    ] {
        assert_eq!(classes.create(&classes.customers, id, customer).await, Ok(()));
    }
    for (id, customer) in [(1, Some(1)), (2, Some(2)), (3, Some(100)), (4, None), (5, Some(1))] {
        let body = json!({"number": id.to_string(), "customer": customer});
        assert_eq!(classes.create(&classes.orders, id, body).await, Ok(()));
    }
    for (query, ids) in [
        ("customer.name=Beta", vec![2]),
        ("customer.name__icontains=%C3%84R&ordering=-number", vec![5, 1]),
        ("customer.city=Bern", vec![1, 5]),
        ("customer.city__isnull=false", vec![1, 5]),
        ("customer.city__isnull=true", vec![2, 3, 4]),
        ("customer.name__isnull=true", vec![3, 4]),
        ("customer.id__gt=0", vec![1, 2, 5]),
        ("customer.name__isnull=false&customer.city__isnull=true", vec![2]),
        ("customer.name__isnull=true&customer.city__isnull=true", vec![3, 4]),
        ("customer.id__in=2,100", vec![2]),
        ("customer.id__range=1,1&customer.city=Bern&number=5", vec![5]),
        ("customer__in=1,100", vec![1, 3, 5]),
        ("customer=100", vec![3]),
        ("customer.name.x=1&clerk.name=1&customer.colour=red", vec![1, 2, 3, 4, 5]),
    ] {
        assert_eq!(classes.ids(query).await, ids, "{query}");
    }
    assert_eq!(
        classes.list("customer.name__gt=1&customer.id=x&customer.city=%00").await,
        Err(json!({
            "customer.name__gt": ["Select a valid choice. gt is not one of the available choices."],
            "customer.id": ["A valid integer is required."],
            "customer.city": ["Null characters are not allowed."],
        }))
    );
    let many = vec!["customer.name=Beta"; 51].join("&");
    assert_eq!(classes.list(&many).await, Err(json!({"detail": "Limit of 50 filters has been exceeded."})));
}

#[test]
fn options_describe_the_fields_of_a_class() {
    let document = options::document(&orders());
    let entries = document["details"]["schema"].as_array().unwrap();
    let aliases: Vec<&Json> = entries.iter().map(|entry| &entry["alias"]).collect();
    assert_eq!(aliases, ["id", "fields", "created_at", "created_by", "modified_at", "modified_by"]);
    let mut group = entries[1].clone();
    let fields = group["schema"].take();
    assert_eq!(
        group,
        json!({"alias": "fields", "type": "object", "required": true, "editable": true, "validators": [], "schema": null})
    );
    let length = |max: i64| json!({"name": "max_length", "value": max});
    let states = json!([{"value": "new", "text": "New"}, {"value": "done", "text": "Done"}]);
    assert_eq!(
        fields,
        json!([
            {"alias": "number", "type": "string", "required": true, "editable": true, "label": "No.",
                "validators": [{"name": "min_length", "value": 1}, length(50)]},
            {"alias": "customer", "type": "integer", "required": false, "editable": true, "validators": [],
                "autocomplete": "/api/object-classes/13/autocomplete/"},
            {"alias": "clerk", "type": "user", "required": false, "editable": true, "validators": [],
                "autocomplete": "/api/users/autocomplete/?text__icontains=", "description": "Who packs it"},
            {"alias": "state", "type": "enum", "required": false, "editable": true, "validators": [], "values": states, "default": "new"},
            {"alias": "note", "type": "string", "required": false, "editable": true, "validators": [length(50)]},
            {"alias": "code", "type": "string", "required": false, "editable": true, "validators": [length(50)]},
            {"alias": "sent_at", "type": "datetime", "required": false, "editable": true, "validators": [],
                "default": "1970-01-01T00:00:00.000000Z"},
            {"alias": "scans", "type": "file", "required": false, "editable": true, "max_num_of_files": 2,
                "validators": [{"name": "max_items", "value": 2}]},
        ])
    );
    let columns = document["list"]["columns"].as_array().unwrap();
    assert_eq!(columns.len(), 13);
    let ordered = ["exact", "gt", "gte", "lt", "lte", "range", "in"];
    assert_eq!(columns[0], json!({"alias": "id", "type": "integer", "predicates": ordered, "sort_ok": true}));
    assert_eq!(
        columns[3],
        json!({
            "alias": "clerk", "type": "user", "predicates": ["exact", "in", "isnull"], "sort_ok": true,
            "autocomplete": "/api/users/autocomplete/?text__icontains=", "description": "Who packs it",
        })
    );
    assert_eq!(
        columns[8],
        json!({"alias": "scans", "type": "file", "predicates": ["isnull"], "sort_ok": false, "max_num_of_files": 2})
    );
}

#[test]
fn openapi_asks_only_for_what_must_be_sent() {
    let fields = &openapi::request(&orders(), true)["properties"]["fields"];
    assert_eq!(fields["required"], json!(["number"]));
    let shown = &openapi::response(&orders(), resource::json::RowForm::List)["properties"]["fields"]["properties"];
    assert_eq!(shown["clerk"], json!({"type": ["integer", "null"]}));
    // Records that are older than a required field have null in it.
    assert_eq!(shown["number"], json!({"type": ["string", "null"]}));
}
