//! Routes as data: the dispatcher, OpenAPI and the tests read the same table, so that every endpoint has a permission,
//! a description and tests.

use crate::answer::{Answer, Outcome};
use crate::app::App;
use crate::authenticate::Admission;
use crate::build::Build;
use crate::caller::{Requirement, RouteAccess};
use crate::path::PathValue;
use crate::refusal::{self, Refusal};
use crate::request::Request;
use crate::upload::Upload;
use http::{HeaderMap, Method};
use resource::json::RowForm;
use resource::{Resource, openapi};
use serde_json::{Value as Json, json};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};
use store::Conn;
use web::metrics::RequestCounts;

/// The boxed future of an asynchronous handler.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The handler of a route, by its use of the database.
#[derive(Clone, Copy)]
pub enum Handler {
    /// A handler without access to the database.
    NoDatabase(fn(&Request) -> Outcome),
    /// A read so short that it may run on the thread that received the request.
    ShortRead(fn(&Request, &mut Conn) -> Outcome),
    /// A read of several statements in one snapshot.
    Read(fn(&Request, &mut Conn) -> Outcome),
    /// A read that usually answers, with the limits of [`Handler::ShortRead`], and the full read for all other cases.
    ReadInOneStatement(fn(&Request, &mut Conn) -> Result<Option<Answer>, Refusal>, fn(&Request, &mut Conn) -> Outcome),
    /// A write in one transaction.
    Write(fn(&Request, &mut Conn) -> Outcome),
    /// An asynchronous handler with transactions of its own, for slow work that must not occupy a database
    /// thread, such as the hashing of a password.
    Async(fn(Arc<Request>) -> HandlerFuture),
    /// An asynchronous handler that reads its body itself, up to a number of bytes.
    Upload(u64, fn(Arc<Request>, Upload) -> HandlerFuture),
}

/// The admission of a route's callers by other credentials than those of this API.
#[derive(Clone, Copy)]
pub struct OwnAdmission {
    /// Reads and checks the credential of a request, whose path has these values.
    pub admit: fn(&App, &Build, &HeaderMap, &[PathValue]) -> Result<Admission, Refusal>,
    /// Creates the refusal of a caller who is not admitted to a path, which has these values.
    pub refuse: fn(Refusal, &App, &Build, &str, &[PathValue]) -> Refusal,
    /// Renders every refusal of the route in the form of its protocol; `None`: as all refusals.
    pub render: Option<fn(&Refusal) -> Answer>,
    /// The name of the credential in OpenAPI, and its description.
    pub scheme: (&'static str, &'static str),
}

/// A function that may refuse a request before its body is read.
pub type RouteGuard = fn(&App, &Build, IpAddr) -> Result<(), Refusal>;

/// The static declaration of a resource.
pub type StaticResource = &'static LazyLock<Resource>;

/// The schema of a body or an answer in OpenAPI.
#[derive(Clone)]
pub enum Schema {
    /// No body.
    Nothing,
    /// The body of a create (`true`) or of a PATCH (`false`).
    Body(StaticResource, bool),
    /// One instance.
    One(StaticResource),
    /// A page of a list.
    Page(StaticResource),
    /// One instance of a resource that builds declare.
    OneOf(fn() -> Json),
    /// A page of a list of a resource that builds declare.
    PageOf(fn() -> Json),
    /// The entries of a collection that is changed by arrays of ids.
    Records(StaticResource),
    /// An array of ids.
    Ids,
    /// Any other JSON schema.
    Json(fn() -> Json),
    /// An HTML page.
    Html,
    /// A binary body.
    Binary,
    /// A file. Browsers save it and do not show it.
    File,
    /// A text of one of these media types. The first one is the default.
    Text(&'static [&'static str]),
    /// The body of a refusal.
    Refusal,
    /// The names of the fields of an HTML form.
    Form(&'static [&'static str]),
    /// An HTML form of several parts. Only these names of its fields are declared.
    Multipart(&'static [&'static str]),
}

impl Schema {
    /// Returns the JSON schema for OpenAPI.
    pub fn to_json(&self) -> Json {
        let list = |item: Json| json!({"type": "array", "items": item});
        match self {
            // Bytes have no schema in OpenAPI 3.1. Files have one, since generators require it.
            Schema::Nothing | Schema::Binary => json!({}),
            Schema::File => json!({"type": "string", "format": "binary"}),
            Schema::Html | Schema::Text(_) => json!({"type": "string"}),
            Schema::Refusal => refusal::schema(),
            Schema::Body(declared, is_create) => openapi::request(declared, *is_create),
            Schema::One(declared) => openapi::response(declared, RowForm::Detail),
            Schema::Page(declared) => page(&declared.title, openapi::response(declared, RowForm::List)),
            Schema::OneOf(item) => item(),
            Schema::PageOf(item) => {
                let item = item();
                let name = item["title"].as_str().unwrap_or_default().to_owned();
                page(&name, item)
            }
            Schema::Records(declared) => list(openapi::response(declared, RowForm::List)),
            Schema::Ids => json!({"type": "array", "minItems": 1, "items": {"type": "integer"}}),
            Schema::Json(schema) => schema(),
            Schema::Form(fields) | Schema::Multipart(fields) => {
                let properties: serde_json::Map<_, _> =
                    fields.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
                json!({"type": "object", "properties": properties})
            }
        }
    }
}

/// Returns the list envelope (`docs/reference/conventions.md`) around items of this name.
pub fn page(name: &str, item: Json) -> Json {
    let integer = |text: &str| json!({"type": "integer", "description": text});
    let address = |text: &str| json!({"type": ["string", "null"], "description": text});
    let envelope = openapi::object([
        ("limit", integer("Maximum number of results of the page")),
        ("offset", integer("Number of results before the page")),
        ("total_count", integer("Number of all entries that the caller may list")),
        ("filtered_count", integer("Number of these entries that match the filters")),
        ("next", address("The address of the next page")),
        ("previous", address("The address of the page before")),
    ]);
    let results = openapi::object([("results", json!({"type": "array", "items": item}))]);
    openapi::titled(format!("{name}Page"), json!({"allOf": [openapi::titled("Page", envelope), results]}))
}

/// Returns the headers that request a part of a file.
fn range_parameters() -> Vec<Json> {
    let header = |name: &str, text: &str| {
        let schema = json!({"type": "string"});
        json!({"name": name, "in": "header", "schema": schema, "description": text})
    };
    vec![
        header(
            "Range",
            "A part of the file, such as `bytes=0-1023`; one that is wrong, or of several parts, is ignored",
        ),
        header("If-Range", "The `ETag` of the file of which a part is wanted; the whole of another one is sent"),
    ]
}

/// A route: one method of one path.
#[derive(Clone)]
pub struct Route {
    pub method: Method,
    /// The path with its trailing slash and a placeholder (`{…}`) for each value (see `path.rs`).
    pub path: &'static str,
    /// The callers that the route accepts.
    pub access: RouteAccess,
    pub handler: Handler,
    /// The summary in OpenAPI.
    pub summary: &'static str,
    /// The body of the request.
    pub body: Schema,
    /// The status of a successful answer.
    pub status: u16,
    /// The body of a successful answer.
    pub answer: Schema,
    /// Other answers, in addition to those that OpenAPI derives from the other fields.
    pub otherwise: Vec<(u16, Schema)>,
    /// The declaration whose filters and ordering a list accepts.
    pub selects: Option<StaticResource>,
    /// The parameters of the query, if they do not follow from the other fields.
    pub parameters: Option<fn() -> Vec<Json>>,
    /// The last word of its name in OpenAPI. Without one, its path is its name.
    pub action: Option<&'static str>,
    /// Is true if OpenAPI marks it as `x-internal`, in addition to pages and schema documents: clients do not call it.
    pub is_internal: bool,
    /// The answered requests. Clones count together.
    pub requests: Arc<RequestCounts>,
    /// The cache of [`Route::declared_names`].
    names: OnceLock<Option<Vec<String>>>,
    /// Is true if the route may be called while the password must be changed (`docs/reference/sign-in.md`).
    pub while_expired: bool,
    /// Is true if the route may be called while the account lacks a second factor (`docs/reference/second-factors.md`).
    pub while_lacking_factor: bool,
    /// Is true if sessions that are narrowed to one object may call the route; its handler compares the object.
    pub for_narrowed: bool,
    /// Is true if API keys may not call the route.
    pub refuses_keys: bool,
    /// Is true if a caller who sends a credential is authenticated although the route is public.
    pub optional_sign_in: bool,
    /// See [`OwnAdmission`].
    pub own_admission: Option<OwnAdmission>,
    /// A media type of JSON bodies in addition to `application/json`, which its answers have.
    pub media_type: Option<&'static str>,
    /// Is true if pages of other sites may call the route although it is public, since it uses no credential of a visitor.
    pub from_any_site: bool,
    /// See [`Route::from_own_pages_alone`].
    pub is_for_own_pages: bool,
    /// See [`Route::is_compressed`].
    stays_as_it_is: bool,
    /// See [`Route::answers_secret`].
    pub answers_secret: bool,
    /// See [`Route::guards_replays`].
    pub guards_replays: bool,
    /// See [`Route::is_tagged`].
    tags_itself: bool,
    /// A check that may refuse a request before its body is read.
    pub guard: Option<RouteGuard>,
    /// Is true if its write creates, changes or drops tables. It may have to wait for transactions that use these tables.
    pub alters_tables: bool,
}

impl Route {
    /// Returns the names of the members that a body may have; `None` if the route does not declare them.
    pub fn declared_names(&self) -> Option<&[String]> {
        let names = || match &self.body {
            Schema::Body(declared, _) => Some(declared.fields.iter().map(|field| field.name.to_string()).collect()),
            Schema::Form(fields) => Some(fields.iter().map(|name| (*name).to_owned()).collect()),
            Schema::Json(schema) => Some(schema().get("properties")?.as_object()?.keys().cloned().collect()),
            _ => None,
        };
        self.names.get_or_init(names).as_deref()
    }
    /// Returns a route that requires sign-in and answers 200.
    pub fn new(method: Method, path: &'static str, summary: &'static str, handler: Handler) -> Route {
        let action = match method {
            Method::GET => Some("retrieve"),
            Method::PATCH => Some("update"),
            Method::DELETE => Some("delete"),
            Method::OPTIONS => Some("options"),
            _ => None,
        };
        Route {
            method,
            path,
            access: RouteAccess::Authenticated,
            handler,
            summary,
            body: Schema::Nothing,
            status: 200,
            answer: Schema::Nothing,
            otherwise: Vec::new(),
            selects: None,
            parameters: None,
            is_internal: false,
            action,
            requests: Arc::default(),
            names: OnceLock::new(),
            while_expired: false,
            while_lacking_factor: false,
            for_narrowed: false,
            refuses_keys: false,
            optional_sign_in: false,
            own_admission: None,
            media_type: None,
            from_any_site: false,
            is_for_own_pages: false,
            stays_as_it_is: false,
            answers_secret: false,
            guards_replays: false,
            tags_itself: false,
            guard: None,
            alters_tables: false,
        }
    }
    /// A GET of a list in the envelope.
    pub fn list(path: &'static str, resource: StaticResource, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        let mut route =
            Route::new(Method::GET, path, "List", Handler::Read(handler)).answers(200, Schema::Page(resource));
        route.selects = Some(resource);
        route.action("list")
    }
    /// A GET of a list of a resource that builds declare. Its filters and ordering are not declared here.
    pub fn open_list(path: &'static str, item: fn() -> Json, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::GET, path, "List", Handler::Read(handler)).answers(200, Schema::PageOf(item)).action("list")
    }
    /// A POST whose handler reads the body itself, up to `most` bytes.
    pub fn upload(path: &'static str, most: u64, handler: fn(Arc<Request>, Upload) -> HandlerFuture) -> Route {
        Route::new(Method::POST, path, "Upload", Handler::Upload(most, handler)).with_body(Schema::Binary)
    }
    /// A GET of a file, whole or in ranges. A client that names the file's tag does not get the file again.
    /// It is not compressed, since ranges refer to the stored bytes.
    pub fn download(path: &'static str, handler: fn(Arc<Request>) -> HandlerFuture) -> Route {
        let route = Route::new(Method::GET, path, "Download", Handler::Async(handler)).answers(200, Schema::File);
        route
            .also_answers(206, Schema::File)
            .also_answers(416, Schema::Refusal)
            .parameters(range_parameters)
            .comes_compressed()
            .tags_itself()
    }
    /// A POST that creates an instance.
    pub fn create(path: &'static str, resource: StaticResource, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::create_by(path, resource, Handler::Write(handler))
    }
    /// A POST that creates an instance, with work before its transaction.
    pub fn create_async(
        path: &'static str,
        resource: StaticResource,
        handler: fn(Arc<Request>) -> HandlerFuture,
    ) -> Route {
        Route::create_by(path, resource, Handler::Async(handler))
    }
    fn create_by(path: &'static str, resource: StaticResource, handler: Handler) -> Route {
        Route::new(Method::POST, path, "Create", handler)
            .with_body(Schema::Body(resource, true))
            .answers(201, Schema::One(resource))
            .action("create")
    }
    /// A GET of one instance.
    pub fn view(path: &'static str, resource: StaticResource, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::GET, path, "Get", Handler::ShortRead(handler)).answers(200, Schema::One(resource))
    }
    /// A PATCH of one instance.
    pub fn edit(path: &'static str, resource: StaticResource, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::edit_by(path, resource, Handler::Write(handler))
    }
    /// A PATCH of one instance, with work before its transaction.
    pub fn edit_async(
        path: &'static str,
        resource: StaticResource,
        handler: fn(Arc<Request>) -> HandlerFuture,
    ) -> Route {
        Route::edit_by(path, resource, Handler::Async(handler))
    }
    fn edit_by(path: &'static str, resource: StaticResource, handler: Handler) -> Route {
        Route::new(Method::PATCH, path, "Change", handler)
            .with_body(Schema::Body(resource, false))
            .answers(200, Schema::One(resource))
    }
    /// A DELETE of one instance.
    pub fn delete(path: &'static str, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::DELETE, path, "Delete", Handler::Write(handler)).answers(204, Schema::Nothing)
    }
    /// An OPTIONS that answers a schema document.
    pub fn options(path: &'static str, handler: fn(&Request) -> Outcome) -> Route {
        Route::new(Method::OPTIONS, path, "Schema document", Handler::NoDatabase(handler))
            .answers(200, Schema::Json(openapi::schema_document))
    }
    /// An OPTIONS below an instance, which is read first and may not exist.
    pub fn options_below(path: &'static str, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        let handler = Handler::ShortRead(handler);
        Route::new(Method::OPTIONS, path, "Schema document", handler)
            .answers(200, Schema::Json(openapi::schema_document))
    }
    /// A path that answers 405 to every method.
    pub fn without_methods(path: &'static str) -> Route {
        let refuse = Handler::NoDatabase(|request| Err(Refusal::method(&request.method, "")));
        Route::new(Method::OPTIONS, path, "", refuse).answers(405, Schema::Nothing)
    }
    /// A POST other than a plain create.
    pub fn post(path: &'static str, summary: &'static str, handler: Handler) -> Route {
        Route::new(Method::POST, path, summary, handler)
    }
    /// Sets the last word of its name in OpenAPI, such as `list` in `users.list`.
    pub fn action(mut self, action: &'static str) -> Route {
        self.action = Some(action);
        self
    }
    /// Names it in OpenAPI by its path. The last word of the path is the action.
    pub fn named_by_path(mut self) -> Route {
        self.action = None;
        self
    }
    /// Marks it in OpenAPI as a route that clients do not call.
    pub fn internal(mut self) -> Route {
        self.is_internal = true;
        self
    }
    /// Sets the parameters of the query, if they do not follow from the other fields.
    pub fn parameters(mut self, parameters: fn() -> Vec<Json>) -> Route {
        self.parameters = Some(parameters);
        self
    }
    /// Requires a global permission.
    pub fn requires(mut self, resource: &'static str, action: &'static str) -> Route {
        self.access = RouteAccess::Permission(resource, action);
        self
    }
    /// Leaves the check of the caller's rights to the handler, which reads the instance.
    pub fn instance(mut self, permission: &'static str) -> Route {
        self.access = RouteAccess::Instance(permission);
        self
    }
    /// Allows calls without sign-in.
    pub fn public(mut self) -> Route {
        self.access = RouteAccess::Public;
        self
    }
    /// Admits callers by its own functions.
    pub fn admits(mut self, own: OwnAdmission) -> Route {
        self.own_admission = Some(own);
        self
    }
    /// Accepts JSON bodies of another media type, too. Its answers have this type.
    pub fn also_accepts(mut self, media_type: &'static str) -> Route {
        self.media_type = Some(media_type);
        self
    }
    /// Allows calls by pages of other sites.
    pub fn from_any_site(mut self) -> Route {
        self.from_any_site = true;
        self
    }
    /// Refuses pages of all other origins, including the configured ones, since it sets or reads the cookie
    /// of a session. Its path has no CORS headers.
    pub fn from_own_pages_alone(mut self) -> Route {
        self.is_for_own_pages = true;
        self
    }
    /// Sets the schema of the request's body.
    pub fn with_body(mut self, body: Schema) -> Route {
        self.body = body;
        self
    }
    /// Sets the status and the schema of a successful answer.
    pub fn answers(mut self, status: u16, answer: Schema) -> Route {
        self.status = status;
        self.answer = answer;
        self
    }
    /// Adds another possible answer.
    pub fn also_answers(mut self, status: u16, answer: Schema) -> Route {
        self.otherwise.push((status, answer));
        self
    }
    /// Restricts it to operators with the deployment's API key. The path names the build, if any.
    pub fn for_operators(mut self) -> Route {
        self.access = RouteAccess::ApiKey;
        self
    }
    /// Allows calls without sign-in, and authenticates a caller who sends a credential.
    pub fn optional_sign_in(mut self) -> Route {
        self.optional_sign_in = true;
        self.public()
    }
    /// Returns the requirement that its caller must meet.
    pub fn requirement(&self) -> Requirement {
        Requirement {
            access: self.access,
            while_expired: self.while_expired,
            while_lacking_factor: self.while_lacking_factor,
            for_narrowed: self.for_narrowed,
            for_keys: !self.refuses_keys,
        }
    }
    /// Returns whether its answers are lists or instances, which may be cached (`answer_cache.rs`).
    pub fn is_cacheable(&self) -> bool {
        self.is_list() || self.is_instance()
    }
    /// Returns whether it answers a page of a list.
    pub fn is_list(&self) -> bool {
        matches!(self.answer, Schema::Page(_) | Schema::PageOf(_))
    }
    /// Returns whether it answers one instance, which has an `ETag`.
    pub fn is_instance(&self) -> bool {
        matches!(self.answer, Schema::One(_) | Schema::OneOf(_))
    }
    /// Returns whether its successful answers have an `ETag`: those of every read without a secret, and instances.
    pub fn is_tagged(&self) -> bool {
        let is_read = self.method == Method::GET && self.status == 200 && !matches!(self.answer, Schema::Binary);
        let is_at_hand = !matches!(self.handler, Handler::Write(_) | Handler::Async(_) | Handler::Upload(..));
        (is_read && is_at_hand && self.is_compressed()) || self.is_instance() || self.tags_itself
    }
    /// Answers with an `ETag` although its answer is not an instance.
    pub fn tags_itself(mut self) -> Route {
        self.tags_itself = true;
        self
    }
    /// Returns whether it may refuse with 429: public writes, public pages, and routes that declare it (`also_answers(429, …)`).
    pub fn may_throttle(&self) -> bool {
        let is_open = self.access == RouteAccess::Public && (self.method != Method::GET || self.answers_pages());
        is_open || self.otherwise.iter().any(|(status, _)| *status == 429)
    }
    /// Returns whether its answers, including refusals, are pages for people.
    pub fn answers_pages(&self) -> bool {
        matches!(self.answer, Schema::Html)
    }
    /// Returns whether its answers may be compressed. If an answer contains a secret beside data of the caller, its
    /// length reveals how much they have in common. This is also true for a page, which contains the token of a link.
    pub fn is_compressed(&self) -> bool {
        let is_page = |answer: &Schema| matches!(answer, Schema::Html);
        !self.stays_as_it_is && !is_page(&self.answer) && !self.otherwise.iter().any(|(_, answer)| is_page(answer))
    }

    /// Answers a token or another secret, once. An `Idempotency-Key` is refused, since the answer is not stored.
    pub fn answers_secret(mut self) -> Route {
        self.stays_as_it_is = true;
        self.answers_secret = true;
        self
    }
    /// Answers bytes that are already compressed for clients that accept it, or are never compressed.
    pub fn comes_compressed(mut self) -> Route {
        self.stays_as_it_is = true;
        self
    }

    /// Decides about replays of answers about its object: a caller who is refused here gets the id alone
    /// (`docs/reference/conventions.md`).
    pub fn guards_replays(mut self) -> Route {
        self.guards_replays = true;
        self
    }
    /// Sets a handler that reads in one snapshot.
    pub fn with_read(mut self, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        self.handler = Handler::Read(handler);
        self
    }
    /// Allows calls while the password must be changed.
    pub fn while_expired(mut self) -> Route {
        self.while_expired = true;
        self
    }
    /// Allows calls while the account lacks a second factor.
    pub fn while_lacking_factor(mut self) -> Route {
        self.while_lacking_factor = true;
        self
    }
    /// Allows calls of sessions that are narrowed to one object. The handler refuses other objects ([`Caller::reaches`]).
    ///
    /// [`Caller::reaches`]: crate::caller::Caller::reaches
    pub fn for_narrowed(mut self) -> Route {
        self.for_narrowed = true;
        self
    }
    /// Refuses API keys with 403: the route shows a secret once, or it creates or changes a credential
    /// (`docs/reference/api-keys.md`).
    pub fn without_keys(mut self) -> Route {
        self.refuses_keys = true;
        self
    }
    /// Sets the guard that may refuse a request before its body is read.
    pub fn with_guard(mut self, guard: RouteGuard) -> Route {
        self.guard = Some(guard);
        self
    }
    /// Creates, changes or drops tables.
    pub fn alters_tables(mut self) -> Route {
        self.alters_tables = true;
        self
    }
    /// Sets the summary in OpenAPI.
    pub fn summary(mut self, summary: &'static str) -> Route {
        self.summary = summary;
        self
    }
}
