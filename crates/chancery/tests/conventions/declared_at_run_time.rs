//! The declaration kit with a resource that is declared at run time, as object classes are. The tests cover every type of field in
//! validation, filters, ordering, OPTIONS and OpenAPI, on a real database. They also cover routes that do not contain the
//! declaration, while it changes.

use crate::TestServer;
use crate::streams::serve_table;
use http::{Method, StatusCode};
use platform::kit::answer::{Answer, Outcome};
use platform::kit::answer_cache::AnswerCache;
use platform::kit::openapi as document;
use platform::kit::refusal::Refusal;
use platform::kit::request::Request;
use platform::kit::route::{Handler, Route, Schema};
use platform::kit::rows::{self, CALLER, Declaration, NOW, RowShape, Scope};
use platform::kit::table::Table;
use resource::json::{JsonWriter, RowForm};
use resource::{EnumOption, Field, FieldKind, JsonBody, ReferenceTarget, Resource, openapi, options};
use serde_json::{Value as Json, json};
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql, StoreError};
use testkit::NOW as START;

/// A class with a field of every type. The columns have numbers as names, like those of classes.
fn invoices() -> Resource {
    let choices =
        |values: &[&'static str]| values.iter().map(|value| EnumOption::new(*value, value.to_uppercase())).collect();
    let references = |table: &'static str| FieldKind::Reference {
        target: ReferenceTarget { table: table.into(), autocomplete: None },
    };
    let fields = [
        Field::id(),
        Field::new("title".to_owned(), FieldKind::text(20))
            .column("f1")
            .required()
            .unique("invoices_f1")
            .filter()
            .sort(),
        Field::new("notes", FieldKind::text(65_000)).column("f2").nullable().filter().isnull(),
        Field::new("pages", FieldKind::Integer { min: 0, max: 500 }).column("f3").nullable().filter().sort().isnull(),
        Field::new("total", FieldKind::Decimal { precision: 8, scale: 2 }).column("f4").nullable().filter().sort(),
        Field::new("is_paid", FieldKind::Boolean).column("f5").default(false).filter().sort(),
        Field::new("due", FieldKind::Date).column("f6").nullable().filter().sort(),
        Field::new("sent_at", FieldKind::DateTime).column("f7").nullable().filter().sort(),
        Field::new("priority", FieldKind::Enum { choices: choices(&["low", "high"]) })
            .column("f8")
            .nullable()
            .filter()
            .sort()
            .isnull(),
        Field::new("tags", FieldKind::Set { choices: choices(&["red", "green", "blue"]), max_items: 3 })
            .column("f9")
            .nullable()
            .filter()
            .isnull(),
        Field::new("status", FieldKind::Enum { choices: choices(&["draft", "done"]) })
            .column("f10")
            .default("draft")
            .filter()
            .sort(),
        Field::new("clerk", references("users")).column("f11").nullable().filter().sort(),
        Field::new("site", FieldKind::Url { max: 200 }).column("f12").nullable().filter(),
        Field::new("contact", FieldKind::Email { max: 100 }).column("f13").nullable().filter(),
        Field::new("scans", FieldKind::Files { max_items: 2 }).column("f14").nullable().filter().isnull(),
        Field::new("parent", references("invoices")).column("f15").nullable().filter().sort(),
    ];
    // Texts have folded copies in columns with numbers as names too.
    let fields = fields.into_iter().map(|mut field| {
        if let (true, resource::ColumnSource::Column(column)) = (field.is_text(), &field.source) {
            field.folded = Some(format!("{column}_fold").into());
        }
        field
    });
    Resource::new("invoices", "Invoice", "invoices", fields.chain(Field::audit()))
}

/// Creates the table of a declaration. Sorted texts are in the order of code points, independent of the server's own order.
fn make_table(conn: &mut Conn, is_embedded: bool) -> Result<(), StoreError> {
    conn.exec(&Sql::new(if is_embedded { table!("TEXT") } else { table!("TEXT COLLATE \"C\"") }))?;
    conn.exec(&Sql::new("CREATE UNIQUE INDEX invoices_f1 ON invoices(f1_fold)")).map(|_| ())
}

macro_rules! table {
    ($text:literal) => {
        concat!(
            "CREATE TABLE invoices (id BIGINT PRIMARY KEY, f1 TEXT, f1_fold ",
            $text,
            ", f2 TEXT, f2_fold TEXT, f3 BIGINT, f4 ",
            $text,
            ", f5 BIGINT, f6 ",
            $text,
            ", f7 BIGINT, f8 ",
            $text,
            ", f9 TEXT, f10 ",
            $text,
            ", f11 BIGINT, f12 TEXT, f12_fold TEXT, f13 TEXT, f13_fold TEXT, f14 TEXT, f15 BIGINT, created_at BIGINT, \
             created_by BIGINT, modified_at BIGINT, modified_by BIGINT)"
        )
    };
}
use table;

struct Invoices {
    server: TestServer,
    resource: Arc<Resource>,
}

impl Invoices {
    async fn start() -> Invoices {
        Invoices::start_with_resource(invoices()).await
    }

    async fn start_with_resource(resource: Resource) -> Invoices {
        let invoices = Invoices { server: TestServer::start().await, resource: Arc::new(resource) };
        let is_embedded = invoices.server.app.store.is_embedded();
        invoices.server.build.db.write(move |conn| make_table(conn, is_embedded)).await.unwrap();
        invoices
    }

    /// Returns a request without a caller, because no route of the API serves the class.
    async fn request(&self, query: &str) -> Request {
        self.server.request(None, platform::table().routes().next().unwrap(), query).await
    }

    /// Checks a body and inserts the row.
    async fn create(&self, id: i64, body: Json) -> Result<(), Json> {
        let body = JsonBody::from_json(&body);
        let (request, resource) = (self.request("").await, self.resource.clone());
        let script = move |conn: &mut Conn| -> Result<(), Refusal> {
            let accepted = rows::check_body(conn, &resource, &body.as_value().as_object(|_| true).unwrap(), None)?;
            if !accepted.errors.is_empty() {
                return Err(accepted.errors.into());
            }
            rows::insert(&request, conn, &resource, &accepted.changes, &[("id", id.into())]).map(|_| ())
        };
        self.server.build.db.write(script).await.map_err(|refusal| refusal.body())
    }

    /// Returns the list that a query selects.
    async fn list(&self, query: &str) -> Result<Json, Json> {
        let request = self.request(query).await;
        let shape = RowShape::from_declaration(Declaration::Owned(self.resource.clone()));
        let script = move |conn: &mut Conn| rows::list(&request, conn, &shape, Scope::matching("1 = 1"));
        let answer = self.server.build.db.read(script).await.map_err(|refusal| refusal.body())?;
        Ok(serde_json::from_slice(answer.body.in_memory_bytes()).unwrap())
    }

    /// Returns the ids that a query selects, in order.
    async fn ids(&self, query: &str) -> Vec<i64> {
        let page = self.list(query).await.unwrap_or_else(|errors| panic!("{query}: {errors}"));
        page["results"].as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect()
    }
}

#[tokio::test]
async fn every_type_is_checked_stored_and_shown() {
    let invoices = Invoices::start().await;
    let body = json!({
        "title": " Ärger ", "notes": "long", "pages": 12, "total": "-7.5", "is_paid": true, "due": "2026-02-28",
        "sent_at": "2026-01-31T10:00:00+01:00", "priority": "high", "tags": ["blue", "red", "blue"], "status": "done", "clerk": 1,
        "site": "https://a.example/x", "contact": "a@b.example", "scans": [3, "token"], "parent": null,
    });
    assert_eq!(invoices.create(1, body).await, Ok(()));
    let mut shown = invoices.list("").await.unwrap()["results"][0].take();
    shown.as_object_mut().unwrap().retain(|name, _| !name.starts_with("created") && !name.starts_with("modified"));
    assert_eq!(
        shown,
        json!({
            "id": 1, "title": "Ärger", "notes": "long", "pages": 12, "total": "-7.50", "is_paid": true, "due": "2026-02-28",
            "sent_at": "2026-01-31T09:00:00.000000Z", "priority": "high", "tags": ["red", "blue"], "status": "done", "clerk": 1,
            "site": "https://a.example/x", "contact": "a@b.example", "scans": [3, "token"], "parent": null,
        })
    );
}

#[tokio::test]
async fn every_wrong_field_is_told() {
    let invoices = Invoices::start().await;
    assert_eq!(invoices.create(1, json!({"title": "Straße"})).await, Ok(()));
    let body = json!({
        "title": "STRASSE", "notes": 5, "pages": 501, "total": "1234567.123", "is_paid": null, "due": "2026-02-30", "sent_at": "soon",
        "priority": "huge", "tags": ["red", "pink"], "status": "lost", "clerk": 99, "site": "nowhere", "contact": "nobody",
        "scans": [1, 2, 3], "parent": "1",
    });
    assert_eq!(
        invoices.create(2, body).await,
        Err(json!({
            "title": ["This field must be unique."],
            "notes": ["Not a valid string."],
            "pages": ["Ensure this value is less than or equal to 500."],
            "total": ["Ensure that there are no more than 8 digits in total.", "Ensure that there are no more than 2 decimal places."],
            "is_paid": ["This field may not be null."],
            "due": ["Enter a valid date."],
            "sent_at": ["Enter a valid date/time."],
            "priority": ["huge is not a valid choice."],
            "tags": ["pink is not a valid choice."],
            "status": ["lost is not a valid choice."],
            "clerk": ["Invalid pk 99 - object does not exist."],
            "site": ["Enter a valid URL."],
            "contact": ["Enter a valid email address."],
            "scans": ["Up to 2 items allowed."],
            "parent": ["Incorrect type. Expected pk value, received str."],
        }))
    );
}

#[tokio::test]
async fn every_predicate_of_every_type_selects() {
    let invoices = Invoices::start().await;
    let rows = [
        json!({"title": "alpha", "notes": "Größe", "pages": 1, "total": "-10", "due": "2026-01-01", "sent_at": "2026-01-01", "priority": "low", "tags": ["red"], "clerk": 1}),
        json!({"title": "Beta", "pages": 20, "total": "2", "is_paid": true, "due": "2026-02-01", "priority": "high", "tags": ["red", "blue"], "site": "https://Beta.example", "status": "done"}),
        json!({"title": "gamma", "notes": "grosse", "total": "10.5", "sent_at": "2026-03-01", "contact": "G@b.example", "scans": [7], "parent": 1}),
    ];
    for (n, row) in rows.into_iter().enumerate() {
        assert_eq!(invoices.create(n as i64 + 1, row).await, Ok(()));
    }
    for (query, ids) in [
        ("title=Beta", vec![2]),
        ("title__iexact=beta", vec![2]),
        ("title__contains=amm", vec![3]),
        ("title__icontains=A", vec![1, 2, 3]),
        ("title__startswith=b", vec![]),
        ("title__istartswith=b", vec![2]),
        ("title__endswith=ta", vec![2]),
        ("title__iendswith=HA", vec![1]),
        ("notes__icontains=%C3%96SS", vec![1]),
        ("notes__icontains=ss", vec![1, 3]),
        ("notes__isnull=true", vec![2]),
        ("pages__gt=1", vec![2]),
        ("pages__range=1,20", vec![1, 2]),
        ("pages__isnull=true", vec![3]),
        ("total=10.50", vec![3]),
        ("total__lt=2.01", vec![1, 2]),
        ("total__gte=-10.00", vec![1, 2, 3]),
        ("total__range=-9.99,10.49", vec![2]),
        ("is_paid=true", vec![2]),
        ("due__lte=2026-01-01", vec![1]),
        ("sent_at__gt=2026-01-01T00:00:00Z", vec![3]),
        ("priority=low", vec![1]),
        ("priority__in=low,high", vec![1, 2]),
        ("priority__isnull=true", vec![3]),
        ("tags=blue,red", vec![2]),
        ("tags=red", vec![1]),
        ("tags__in=blue,green", vec![2]),
        ("status=draft", vec![1, 3]),
        ("clerk=1", vec![1]),
        ("site__istartswith=HTTPS://beta", vec![2]),
        ("contact__iexact=g@B.example", vec![3]),
        ("scans__isnull=false", vec![3]),
        ("parent=1", vec![3]),
        ("created_by=1", vec![]),
        ("title__icontains=a&pages__isnull=false", vec![1, 2]),
    ] {
        assert_eq!(invoices.ids(query).await, ids, "{query}");
    }
}

#[tokio::test]
async fn every_order_has_nulls_first_and_texts_folded() {
    let invoices = Invoices::start().await;
    for (id, row) in [
        (1, json!({"title": "b", "pages": 2, "total": "-1.5", "priority": "low", "due": "2026-02-01"})),
        (2, json!({"title": "Ä", "pages": null, "total": "-20"})),
        (3, json!({"title": "C", "pages": 1, "total": "3", "is_paid": true, "priority": "high", "due": "2025-12-31"})),
    ] {
        assert_eq!(invoices.create(id, row).await, Ok(()));
    }
    for (query, ids) in [
        ("ordering=title", vec![1, 3, 2]),
        ("ordering=-title", vec![2, 3, 1]),
        ("ordering=pages", vec![2, 3, 1]),
        ("ordering=-pages", vec![1, 3, 2]),
        ("ordering=total", vec![2, 1, 3]),
        ("ordering=is_paid,-id", vec![2, 1, 3]),
        ("ordering=-priority", vec![1, 3, 2]),
        ("ordering=due", vec![2, 3, 1]),
        ("ordering=status", vec![1, 2, 3]),
        ("ordering=-status", vec![3, 2, 1]),
    ] {
        assert_eq!(invoices.ids(query).await, ids, "{query}");
    }
    let errors = invoices.list("ordering=tags&pages=x&priority__gt=low&due=x").await.unwrap_err();
    assert_eq!(
        errors,
        json!({
            "ordering": ["Select a valid choice. tags is not one of the available choices."],
            "pages": ["A valid integer is required."],
            "priority__gt": ["Select a valid choice. gt is not one of the available choices."],
            "due": ["Enter a valid date/time."],
        })
    );
}

#[test]
fn options_and_openapi_describe_it() {
    let resource = invoices();
    let document = options::document(&resource);
    let column = |alias: &str| {
        document["list"]["columns"].as_array().unwrap().iter().find(|column| column["alias"] == alias).cloned()
    };
    assert_eq!(
        column("priority"),
        Some(json!({
            "alias": "priority", "type": "enum", "predicates": ["exact", "in", "isnull"], "sort_ok": true,
            "values": [{"value": "low", "text": "LOW"}, {"value": "high", "text": "HIGH"}],
        }))
    );
    let field = |alias: &str| {
        document["details"]["schema"].as_array().unwrap().iter().find(|field| field["alias"] == alias).cloned()
    };
    assert_eq!(
        field("title"),
        Some(json!({
            "alias": "title", "type": "string", "required": true, "editable": true,
            "validators": [{"name": "min_length", "value": 1}, {"name": "max_length", "value": 20}],
        }))
    );
    assert_eq!(field("created_at").map(|field| field["editable"].clone()), Some(json!(false)));

    let body = openapi::request(&resource, true);
    assert_eq!(body["required"], json!(["title"]));
    assert_eq!(
        body["properties"]["pages"],
        json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 500}, {"type": "null"}]})
    );
    assert_eq!(
        openapi::response(&resource, resource::json::RowForm::List)["properties"]["tags"]["type"],
        json!(["array", "null"])
    );
    assert!(openapi::parameters(&resource).iter().any(|parameter| parameter["name"] == "total__range"));
}

/// Returns the resource in the form of a class's records: the fields that the build declares are in an object of their own.
fn grouped() -> Resource {
    invoices().group("fields", 1..16)
}

#[tokio::test]
async fn a_group_of_fields_is_sent_and_shown_as_an_object() {
    let invoices = Invoices::start_with_resource(grouped()).await;
    let body = json!({"fields": {"title": "a", "pages": 12}, "title": "ignored"});
    assert_eq!(invoices.create(1, body).await, Ok(()));
    let page = invoices.list("title=a&ordering=-pages").await.unwrap();
    let row = &page["results"][0];
    let names: Vec<&String> = row.as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "fields", "created_at", "created_by", "modified_at", "modified_by"]);
    assert_eq!(
        (&row["fields"]["title"], &row["fields"]["pages"], &row["fields"]["status"]),
        (&json!("a"), &json!(12), &json!("draft"))
    );
    assert_eq!(row["fields"].as_object().unwrap().len(), 15);

    for (body, errors) in [
        (json!({}), json!({"fields": {"title": ["This field is required."]}})),
        (
            json!({"fields": {"title": "A", "pages": "x", "colour": 1, "": null}}),
            json!({"fields": {
                "title": ["This field must be unique."], "pages": ["A valid integer is required."],
                "colour": ["This field does not exist."], "": ["This field does not exist."],
            }}),
        ),
        (json!({"fields": [1]}), json!({"fields": ["Invalid data. Expected a dictionary, but got list."]})),
        (json!({"fields": null}), json!({"fields": ["This field may not be null."]})),
    ] {
        assert_eq!(invoices.create(2, body).await, Err(errors));
    }
}

#[tokio::test]
async fn a_class_without_fields_shows_an_empty_group() {
    let fields = [Field::id()].into_iter().chain(Field::audit());
    let empty = Resource::new("invoices", "Invoice", "invoices", fields).group("fields", 1..1);
    let invoices = Invoices::start_with_resource(empty).await;
    assert_eq!(invoices.create(1, json!({"fields": {}})).await, Ok(()));
    assert_eq!(invoices.list("").await.unwrap()["results"][0]["fields"], json!({}));
}

#[test]
fn openapi_describes_a_group() {
    let (resource, flat) = (grouped(), invoices());
    let body = openapi::request(&resource, true);
    let fields = openapi::titled("InvoiceCreate", body["properties"]["fields"].clone());
    assert_eq!((&body["required"], fields), (&json!(["fields"]), openapi::request(&flat, true)));
    assert_eq!(body["properties"].as_object().unwrap().len(), 1);
    assert_eq!(openapi::request(&resource, false).get("required"), None);
    let answer = openapi::response(&resource, RowForm::Detail);
    assert_eq!(answer["required"], json!(["id", "fields", "created_at", "created_by", "modified_at", "modified_by"]));
    let pages = &openapi::response(&flat, RowForm::Detail)["properties"]["pages"];
    assert_eq!(&answer["properties"]["fields"]["properties"]["pages"], pages);
    assert_eq!(answer["properties"].as_object().unwrap().len(), 6);
    assert_eq!(openapi::parameters(&resource), openapi::parameters(&flat));
}

#[tokio::test]
async fn the_log_leaves_out_what_is_not_logged() {
    for (resource, entries) in [(invoices(), 1), (invoices().unlogged(), 0)] {
        let invoices = Invoices::start_with_resource(resource).await;
        let count = async || {
            let sql = Sql::new("SELECT count(*) FROM administration_log WHERE resource = 'invoices'");
            let read = move |conn: &mut Conn| -> Result<i64, StoreError> { conn.query_one(&sql, |row| row.int(0)) };
            invoices.server.build.db.read(read).await.unwrap()
        };
        assert_eq!(invoices.create(1, json!({"title": "a"})).await, Ok(()));
        assert_eq!(count().await, entries);
        let (request, resource) = (invoices.request("").await, invoices.resource.clone());
        let script = move |conn: &mut Conn| -> Result<(), Refusal> {
            let shape = RowShape::from_declaration(Declaration::Owned(resource.clone()));
            let before = rows::load(conn, &shape, 1)?.ok_or_else(Refusal::not_found)?;
            let mut changes = resource::Changes::new();
            changes.insert("title", "b".into());
            rows::update(&request, conn, &resource, 1, &before, &changes, &[])?;
            rows::delete(&request, conn, &resource, 1, "b")
        };
        invoices.server.build.db.write(script).await.unwrap();
        assert_eq!(count().await, 3 * entries);
    }
}

const LIST: &str = "/api/object-classes/{id}/object-records/";
const ONE: &str = "/api/object-records/{id}/";

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let item = || openapi::titled("Record", json!({"type": "object", "properties": {"fields": {"type": "object"}}}));
    let view = Handler::ShortRead(view_invoice);
    Table::new(vec![
        Route::open_list(LIST, item, list_invoices),
        Route::new(Method::GET, ONE, "Get", view).answers(200, Schema::OneOf(item)),
    ])
});

/// Returns the shape of the class according to the database, with its existing fields.
fn load_shape(conn: &mut Conn) -> Result<RowShape, StoreError> {
    let names = conn.query_all(&Sql::new("SELECT name FROM class_fields"), |row| Ok(row.text(0)?.to_owned()))?;
    let all = invoices().fields.into_iter();
    let fields: Vec<Field> =
        all.filter(|field| field.name == "id" || names.contains(&field.name.to_string())).collect();
    let (end, class) = (fields.len(), 7_i64);
    let resource = Arc::new(Resource::new("invoices", "Invoice", "invoices", fields).group("fields", 1..end));
    let mut extra = Sql::new("CAST(");
    extra.bind(class).push(" AS BIGINT), CAST(").bind(CALLER).push(" AS BIGINT), CAST(").bind(NOW).push(" AS BIGINT)");
    Ok(RowShape::with_declaration(resource, extra, move |out: &mut JsonWriter, _, cells, at, _| {
        out.name("_meta")
            .raw("{")
            .name("class")
            .int(cells.0.int(at)?)
            .name("is_of_class")
            .bool(cells.0.int(at)? == class);
        out.name("caller").int(cells.0.int(at + 1)?).name("now").int(cells.0.int(at + 2)?).raw("}");
        Ok(())
    }))
}

fn list_invoices(request: &Request, conn: &mut Conn) -> Outcome {
    let shape = load_shape(conn)?;
    let mut scope = Scope::matching("1 = 1");
    // The time in the extra columns belongs to the test and changes nothing.
    scope.cacheable = rows::Cacheable::Until(None);
    rows::list(request, conn, &shape, scope)
}

fn view_invoice(request: &Request, conn: &mut Conn) -> Outcome {
    let shape = load_shape(conn)?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &shape, request.id())?))
}

#[tokio::test]
async fn answers_follow_the_declaration_when_it_changes() {
    let invoices = Invoices::start().await;
    let server = &invoices.server;
    let declare = async |sql: &'static str| {
        let script = move |conn: &mut Conn| -> Result<u64, StoreError> { conn.exec(&Sql::new(sql)) };
        server.build.db.write(script).await.unwrap();
    };
    declare("CREATE TABLE class_fields (name TEXT PRIMARY KEY)").await;
    declare("INSERT INTO class_fields(name) VALUES ('title'), ('pages')").await;
    assert_eq!(invoices.create(1, json!({"title": "a", "pages": 3, "is_paid": true})).await, Ok(()));
    let admin = serve_table(server, &server.admin().await, &TABLE).await;
    let path = "/api/object-classes/7/object-records/?ordering=title";
    let meta = json!({"class": 7, "is_of_class": true, "caller": 1, "now": START});
    let first = json!({"id": 1, "fields": {"title": "a", "pages": 3}, "_meta": meta});

    let hits = server.app.slot::<AnswerCache>().hits();
    for _ in 0..20 {
        assert_eq!(admin.get(path).await.ok()["results"], json!([first]));
        let one = admin.get("/api/object-records/1/").await;
        assert_eq!((one.ok(), one.header("etag").len()), (first.clone(), 18));
    }
    let hits = server.app.slot::<AnswerCache>().hits() - hits;
    assert!(hits > 0, "none was kept");

    declare("DELETE FROM class_fields WHERE name = 'pages'").await;
    declare("INSERT INTO class_fields(name) VALUES ('is_paid')").await;
    let second = json!({"id": 1, "fields": {"title": "a", "is_paid": true}, "_meta": meta});
    assert_eq!(admin.get(path).await.ok()["results"], json!([second]));
    assert_eq!(admin.get("/api/object-records/1/").await.ok(), second);
    // A removed field is not a filter any more.
    assert_eq!(admin.get("/api/object-classes/7/object-records/?is_paid=true").await.ok()["filtered_count"], 1);
    admin.get("/api/object-classes/7/object-records/?ordering=pages").await.expect(400);
}

#[test]
fn openapi_knows_lists_whose_declaration_it_does_not() {
    let document = document::document(&TABLE, document::Audience::All);
    let list = &document["paths"][LIST]["get"];
    let parameters = list["parameters"].as_array().unwrap().iter();
    let names: Vec<&Json> = parameters
        .map(|parameter| parameter["$ref"].as_str().map_or(parameter, |at| document.pointer(&at[1..]).unwrap()))
        .map(|parameter| &parameter["name"])
        .collect();
    assert_eq!(names, ["id", "limit", "offset", "ordering", "filters", "If-None-Match"]);
    let schema = &list["responses"]["200"]["content"]["application/json"]["schema"];
    let schemas = &document["components"]["schemas"];
    assert_eq!(schema, &json!({"$ref": "#/components/schemas/RecordPage"}));
    assert_eq!(
        schemas["RecordPage"]["allOf"][1]["properties"]["results"]["items"],
        json!({"$ref": "#/components/schemas/Record"})
    );
    assert_eq!(schemas["Record"]["properties"], json!({"fields": {"type": "object"}}));
    assert!(list["responses"].get("400").is_some());
    let one = &document["paths"][ONE]["get"]["responses"]["200"];
    let tag = json!({"required": true, "description": "The state that the answer shows", "schema": {"type": "string"}});
    assert_eq!(one["headers"], json!({"ETag": tag}));
}
