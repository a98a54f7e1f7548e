//! Routes are data: the dispatcher, OpenAPI and the tests walk the same table, so that no endpoint lacks a
//! permission, a description or a proof.

use crate::answer::Outcome;
use crate::app::App;
use crate::build::Build;
use crate::caller::{Access, Requirement};
use crate::refusal::{self, Refusal};
use crate::request::Request;
use crate::upload::Upload;
use http::Method;
use resource::json::Form;
use resource::{Resource, openapi};
use serde_json::{Value as Json, json};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};
use store::Conn;

/// An answer that is still being worked on.
pub type Pending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How a request is handled.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Needs no database.
    NoDatabase(fn(&Request) -> Outcome),
    /// A read so short that it may run where the request was received.
    ShortRead(fn(&Request, &mut Conn) -> Outcome),
    /// Several statements that agree.
    Read(fn(&Request, &mut Conn) -> Outcome),
    /// One transaction.
    Write(fn(&Request, &mut Conn) -> Outcome),
    /// Several steps, with transactions of its own: hashing a password, for instance, is no work for a database thread.
    Async(fn(Arc<Request>) -> Pending),
    /// As [`Handler::Async`], with a body of at most so many bytes that the handler itself reads.
    Upload(u64, fn(Arc<Request>, Upload) -> Pending),
}

/// Refuses a request before its body is read.
pub type Guard = fn(&App, &Build, IpAddr) -> Result<(), Refusal>;

/// A resource's declaration.
pub type Declared = &'static LazyLock<Resource>;

/// What OpenAPI tells of a body or an answer.
#[derive(Clone)]
pub enum Schema {
    /// No body.
    Nothing,
    /// The body of a create or a PATCH.
    Body(Declared, bool),
    /// One instance.
    One(Declared),
    /// A page of them.
    Page(Declared),
    /// One instance of a resource that tenants declare.
    OneOf(fn() -> Json),
    /// A page of them, whatever their declaration.
    PageOf(fn() -> Json),
    /// The records of a collection that is changed by arrays of ids.
    Records(Declared),
    /// An array of ids.
    Ids,
    /// A schema of its own.
    Json(fn() -> Json),
    /// A page for people.
    Html,
    /// Bytes.
    Binary,
    /// Why not.
    Refusal,
    /// A form that a page sends.
    Form(&'static [&'static str]),
}

impl Schema {
    /// As OpenAPI has it.
    pub fn to_json(&self) -> Json {
        let list = |item: Json| json!({"type": "array", "items": item});
        match self {
            Schema::Nothing | Schema::Binary => json!({}),
            Schema::Html => json!({"type": "string"}),
            Schema::Refusal => refusal::schema(),
            Schema::Body(declared, is_create) => openapi::request(declared, *is_create),
            Schema::One(declared) => openapi::response(declared, Form::Detail),
            Schema::Page(declared) => page(&declared.title, openapi::response(declared, Form::List)),
            Schema::OneOf(item) => item(),
            Schema::PageOf(item) => {
                let item = item();
                let name = item["title"].as_str().unwrap_or_default().to_owned();
                page(&name, item)
            }
            Schema::Records(declared) => list(openapi::response(declared, Form::List)),
            Schema::Ids => list(json!({"type": "integer"})),
            Schema::Json(schema) => schema(),
            Schema::Form(fields) => {
                let properties: serde_json::Map<_, _> =
                    fields.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
                json!({"type": "object", "properties": properties})
            }
        }
    }
}

/// The list envelope (document 1, convention 3) around items of this name.
pub fn page(name: &str, item: Json) -> Json {
    let integer = |text: &str| json!({"type": "integer", "description": text});
    let address = |text: &str| json!({"type": ["string", "null"], "description": text});
    let envelope = openapi::object([
        ("limit", integer("How many the page has at most")),
        ("offset", integer("How many are left out before it")),
        ("total_count", integer("How many the caller may list")),
        ("filtered_count", integer("How many of these the filters leave")),
        ("next", address("The address of the next page")),
        ("previous", address("The address of the page before")),
    ]);
    let results = openapi::object([("results", json!({"type": "array", "items": item}))]);
    openapi::titled(format!("{name}Page"), json!({"allOf": [openapi::titled("Page", envelope), results]}))
}

/// One method of one path.
#[derive(Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path with `{…}` for each id, with its trailing slash.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// What it does.
    pub handler: Handler,
    /// A line for people.
    pub summary: &'static str,
    /// What is sent.
    pub body: Schema,
    /// The status of success.
    pub status: u16,
    /// What is answered.
    pub answer: Schema,
    /// What may be answered instead, beyond what follows from the rest.
    pub otherwise: Vec<(u16, Schema)>,
    /// The declaration whose filters and ordering a list has.
    pub selects: Option<Declared>,
    /// The parameters of the query, where they do not follow from the rest.
    pub parameters: Option<fn() -> Vec<Json>>,
    /// The last word of its name in OpenAPI; without one it is called as its path is.
    pub action: Option<&'static str>,
    /// See [`Route::declared_names`].
    names: OnceLock<Option<Vec<String>>>,
    /// Whether it may be called while the password must be changed (document 4, section 3, "forced rotation").
    pub while_expired: bool,
    /// Whether somebody who sends a credential is identified, though the route is public.
    pub optional_sign_in: bool,
    /// What refuses a request before anything of its body is read.
    pub guard: Option<Guard>,
}

impl Route {
    /// The names of what a body may have, as far as the route declares them; `None`: any.
    pub fn declared_names(&self) -> Option<&[String]> {
        let names = || match &self.body {
            Schema::Body(declared, _) => Some(declared.fields.iter().map(|field| field.name.to_string()).collect()),
            Schema::Form(fields) => Some(fields.iter().map(|name| (*name).to_owned()).collect()),
            Schema::Json(schema) => Some(schema().get("properties")?.as_object()?.keys().cloned().collect()),
            _ => None,
        };
        self.names.get_or_init(names).as_deref()
    }
    /// A route that needs sign-in and answers 200.
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
            access: Access::Authenticated,
            handler,
            summary,
            body: Schema::Nothing,
            status: 200,
            answer: Schema::Nothing,
            otherwise: Vec::new(),
            selects: None,
            parameters: None,
            action,
            names: OnceLock::new(),
            while_expired: false,
            optional_sign_in: false,
            guard: None,
        }
    }
    /// A list in the envelope.
    pub fn list(path: &'static str, of: Declared, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        let mut route = Route::new(Method::GET, path, "List", Handler::Read(handler)).answers(200, Schema::Page(of));
        route.selects = Some(of);
        route.action("list")
    }
    /// A list in the envelope of a resource that tenants declare, so that its filters and ordering are not known here.
    pub fn open_list(path: &'static str, item: fn() -> Json, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::GET, path, "List", Handler::Read(handler)).answers(200, Schema::PageOf(item)).action("list")
    }
    /// A POST whose body, of at most so many bytes, is not read before the handler is called.
    pub fn upload(path: &'static str, most: u64, handler: fn(Arc<Request>, Upload) -> Pending) -> Route {
        Route::new(Method::POST, path, "Upload", Handler::Upload(most, handler)).takes(Schema::Binary)
    }
    /// A create.
    pub fn create(path: &'static str, of: Declared, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::POST, path, "Create", Handler::Write(handler))
            .takes(Schema::Body(of, true))
            .answers(201, Schema::One(of))
            .action("create")
    }
    /// A single read.
    pub fn view(path: &'static str, of: Declared, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::GET, path, "Get", Handler::ShortRead(handler)).answers(200, Schema::One(of))
    }
    /// A PATCH.
    pub fn edit(path: &'static str, of: Declared, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::PATCH, path, "Change", Handler::Write(handler))
            .takes(Schema::Body(of, false))
            .answers(200, Schema::One(of))
    }
    /// A DELETE.
    pub fn delete(path: &'static str, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        Route::new(Method::DELETE, path, "Delete", Handler::Write(handler)).answers(204, Schema::Nothing)
    }
    /// A schema document.
    pub fn options(path: &'static str, handler: fn(&Request) -> Outcome) -> Route {
        Route::new(Method::OPTIONS, path, "Schema document", Handler::NoDatabase(handler))
            .answers(200, Schema::Json(openapi::schema_document))
    }
    /// A schema document below an instance, which may be unknown.
    pub fn options_below(path: &'static str, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        let handler = Handler::ShortRead(handler);
        Route::new(Method::OPTIONS, path, "Schema document", handler)
            .answers(200, Schema::Json(openapi::schema_document))
    }
    /// A path that has no method: 405 for each (document 1, "User group permission set assignees", rule 7).
    pub fn nothing(path: &'static str) -> Route {
        let refuse = Handler::NoDatabase(|request| Err(Refusal::method(&request.method, "")));
        Route::new(Method::OPTIONS, path, "", refuse).answers(405, Schema::Nothing)
    }
    /// A POST that is more than a create.
    pub fn post(path: &'static str, summary: &'static str, handler: Handler) -> Route {
        Route::new(Method::POST, path, summary, handler)
    }
    /// The last word of its name in OpenAPI, such as `list` in `users.list`.
    pub fn action(mut self, action: &'static str) -> Route {
        self.action = Some(action);
        self
    }
    /// Called in OpenAPI as its path is, since the path's last word says what is done.
    pub fn named_by_path(mut self) -> Route {
        self.action = None;
        self
    }
    /// The parameters of the query, where they do not follow from the rest.
    pub fn parameters(mut self, parameters: fn() -> Vec<Json>) -> Route {
        self.parameters = Some(parameters);
        self
    }
    /// Needs a global permission.
    pub fn needs(mut self, resource: &'static str, action: &'static str) -> Route {
        self.access = Access::Permission(resource, action);
        self
    }
    /// Decided by the instance.
    pub fn instance(mut self, permission: &'static str) -> Route {
        self.access = Access::Instance(permission);
        self
    }
    /// Open to anyone.
    pub fn public(mut self) -> Route {
        self.access = Access::Public;
        self
    }
    /// What is sent.
    pub fn takes(mut self, body: Schema) -> Route {
        self.body = body;
        self
    }
    /// What is answered.
    pub fn answers(mut self, status: u16, answer: Schema) -> Route {
        self.status = status;
        self.answer = answer;
        self
    }
    /// What may be answered instead.
    pub fn or(mut self, status: u16, answer: Schema) -> Route {
        self.otherwise.push((status, answer));
        self
    }
    /// Handled in several steps.
    pub fn steps(mut self, steps: fn(Arc<Request>) -> Pending) -> Route {
        self.handler = Handler::Async(steps);
        self
    }
    /// For operators with the deployment's key; the build is the one whose domain stands in the path.
    pub fn of_deployment(mut self) -> Route {
        self.access = Access::ApiKey;
        self
    }
    /// Open to anyone, and to somebody who signs in as that.
    pub fn optional_sign_in(mut self) -> Route {
        self.optional_sign_in = true;
        self.public()
    }
    /// What it asks of its caller.
    pub fn requirement(&self) -> Requirement {
        Requirement { access: self.access, while_expired: self.while_expired }
    }
    /// Whether its answers are lists or instances, which may be kept and given again (`answer_cache.rs`).
    pub fn is_cacheable(&self) -> bool {
        self.is_list() || self.is_instance()
    }
    /// Whether it answers a page of a list.
    pub fn is_list(&self) -> bool {
        matches!(self.answer, Schema::Page(_) | Schema::PageOf(_))
    }
    /// Whether it answers one instance, which has an `ETag`.
    pub fn is_instance(&self) -> bool {
        matches!(self.answer, Schema::One(_) | Schema::OneOf(_))
    }
    /// Handled in a snapshot of several statements.
    pub fn reads(mut self, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
        self.handler = Handler::Read(handler);
        self
    }
    /// May be called while the password must be changed.
    pub fn while_expired(mut self) -> Route {
        self.while_expired = true;
        self
    }
    /// Refused by a guard before its body is read.
    pub fn guarded(mut self, guard: Guard) -> Route {
        self.guard = Some(guard);
        self
    }
    /// A line for people.
    pub fn summary(mut self, summary: &'static str) -> Route {
        self.summary = summary;
        self
    }
}
