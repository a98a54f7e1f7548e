//! The declaration kit over a resource that is declared while the server runs, as object classes will be: every field
//! type of document 5, section 2, through validation, filters, ordering, OPTIONS and OpenAPI, on a real database.

use platform::kit::refusal::Refusal;
use platform::kit::request::Request;
use platform::kit::rows::{self, Declaration, Scope, Shape};
use resource::{Body, Choice, Field, Kind, Resource, Target, openapi, options};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Error, Sql};
use testkit::Server;

/// A class with a field of every type; the columns are named by number, as a tenant's would be.
fn invoices() -> Resource {
    let choices = |values: &[&'static str]| {
        values.iter().map(|value| Choice::new(*value, value.to_uppercase())).collect::<Vec<_>>()
    };
    let references =
        |table: &'static str| Kind::Reference { target: Target { table: table.into(), autocomplete: None } };
    let fields = [
        Field::id(),
        Field::new("title".to_owned(), Kind::text(20)).column("f1").required().unique("invoices_f1").filter().sort(),
        Field::new("notes", Kind::text(65_000)).column("f2").nullable().filter().isnull(),
        Field::new("pages", Kind::Integer { min: 0, max: 500 }).column("f3").nullable().filter().sort().isnull(),
        Field::new("total", Kind::Decimal { precision: 8, scale: 2 }).column("f4").nullable().filter().sort(),
        Field::new("is_paid", Kind::Boolean).column("f5").default(false).filter().sort(),
        Field::new("due", Kind::Date).column("f6").nullable().filter().sort(),
        Field::new("sent_at", Kind::DateTime).column("f7").nullable().filter().sort(),
        Field::new("priority", Kind::Enum { choices: choices(&["low", "high"]) })
            .column("f8")
            .nullable()
            .filter()
            .sort()
            .isnull(),
        Field::new("tags", Kind::Set { choices: choices(&["red", "green", "blue"]), max_items: 3 })
            .column("f9")
            .nullable()
            .filter()
            .isnull(),
        Field::new("status", Kind::Enum { choices: choices(&["draft", "done"]) })
            .column("f10")
            .default("draft")
            .filter()
            .sort(),
        Field::new("clerk", references("users")).column("f11").nullable().filter().sort(),
        Field::new("site", Kind::Url { max: 200 }).column("f12").nullable().filter(),
        Field::new("contact", Kind::Email { max: 100 }).column("f13").nullable().filter(),
        Field::new("scans", Kind::Files { max_items: 2 }).column("f14").nullable().filter().isnull(),
        Field::new("parent", references("invoices")).column("f15").nullable().filter().sort(),
    ];
    // Texts keep their folded copies beside them, in columns that are named by number as well.
    let fields = fields.into_iter().map(|mut field| {
        if let (true, resource::Source::Column(column)) = (field.is_text(), &field.source) {
            field.folded = Some(format!("{column}_fold").into());
        }
        field
    });
    Resource::new("invoices", "Invoice", "invoices", fields.chain(Field::audit()))
}

/// The table of a declaration. Texts that sort do so by code points, whatever the server's own order is.
fn make_table(conn: &mut Conn, is_embedded: bool) -> Result<(), Error> {
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
    server: Server,
    resource: Arc<Resource>,
}

impl Invoices {
    async fn start() -> Invoices {
        let invoices = Invoices { server: Server::start().await, resource: Arc::new(invoices()) };
        let is_embedded = invoices.server.app.store.is_embedded();
        invoices.server.build.db.write(move |conn| make_table(conn, is_embedded)).await.unwrap();
        invoices
    }

    /// A request of nobody, since no route serves them yet.
    async fn request(&self, query: &str) -> Request {
        self.server.request(None, platform::table().routes().next().unwrap(), query).await
    }

    /// Checks a body and inserts what it makes.
    async fn create(&self, id: i64, body: Json) -> Result<(), Json> {
        let body = Body::of(&body);
        let (request, resource) = (self.request("").await, self.resource.clone());
        let script = move |conn: &mut Conn| -> Result<(), Refusal> {
            let accepted = rows::accepted(conn, &resource, &body.sent().as_object(|_| true).unwrap(), None)?;
            if !accepted.errors.is_empty() {
                return Err(accepted.errors.into());
            }
            rows::insert(&request, conn, &resource, &accepted.changes, &[("id", id.into())]).map(|_| ())
        };
        self.server.build.db.write(script).await.map_err(|refusal| refusal.body)
    }

    /// The list that a query selects.
    async fn list(&self, query: &str) -> Result<Json, Json> {
        let request = self.request(query).await;
        let shape = Shape::plain(Declaration::Owned(self.resource.clone()));
        let script = move |conn: &mut Conn| rows::list(&request, conn, &shape, Scope::of("1 = 1"));
        let answer = self.server.build.db.read(script).await.map_err(|refusal| refusal.body)?;
        Ok(serde_json::from_slice(&answer.body).unwrap())
    }

    /// The ids that a query selects, in order.
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
        openapi::response(&resource, resource::json::Form::List)["properties"]["tags"]["type"],
        json!(["array", "null"])
    );
    assert!(openapi::parameters(&resource).iter().any(|parameter| parameter["name"] == "total__range"));
}
