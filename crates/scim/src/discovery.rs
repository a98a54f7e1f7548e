//! The description of the server for directories: `ServiceProviderConfig`, `Schemas` and `ResourceTypes` (RFC 7643, sections 5 to 7),
//! and the parts of SCIM that the server lacks.

use crate::callers::ADMISSION;
use crate::draft::{CORE, ENTERPRISE};
use crate::error::{MEDIA_TYPE, not_implemented, scim_answer};
use crate::groups::GROUP;
use crate::schema;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use serde_json::{Value as Json, json};

const BASE: &str = "/api/scim/v2/";
const LIST_RESPONSE: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

pub fn routes() -> Vec<Route> {
    let get = |path, summary, handler| {
        Route::new(Method::GET, path, summary, Handler::NoDatabase(handler))
            .answers(200, Schema::Json(schema::resource))
    };
    let missing = |method, path, handler| {
        Route::new(method, path, "Not supported", Handler::NoDatabase(handler)).answers(501, Schema::Refusal)
    };
    let (bulk, me) = ("/api/scim/v2/Bulk/", "/api/scim/v2/Me/");
    let no_me: fn(&Request) -> Outcome = |_| Err(not_implemented("/Me"));
    let any_path = "/api/scim/v2/{*rest}/";
    let unknown = |method, action| {
        Route::new(method, any_path, "Not found", Handler::NoDatabase(|_| Err(Refusal::not_found())))
            .answers(404, Schema::Refusal)
            .action(action)
    };
    let routes = vec![
        get("/api/scim/v2/ServiceProviderConfig/", "The parts of SCIM that the server has", |request| {
            Ok(answer(&service_provider_config(request)))
        }),
        get("/api/scim/v2/ResourceTypes/", "The kinds of resources", |request| Ok(list(resource_types(request))))
            .action("list"),
        get("/api/scim/v2/ResourceTypes/{name}/", "A kind of resources", |request| {
            find(request, resource_types(request), |kind| kind["id"] == request.name())
        }),
        get("/api/scim/v2/Schemas/", "The schemas of the resources", |request| Ok(list(schemas(request))))
            .action("list"),
        get("/api/scim/v2/Schemas/{name}/", "A schema", |request| {
            find(request, schemas(request), |schema| schema["id"] == request.name())
        }),
        missing(Method::POST, bulk, |_| Err(not_implemented("Bulk"))),
        missing(Method::POST, "/api/scim/v2/.search/", |_| Err(not_implemented("A search by POST"))).action("search"),
        missing(Method::GET, me, no_me),
        missing(Method::POST, me, no_me).action("create"),
        missing(Method::PUT, me, no_me).action("replace"),
        missing(Method::PATCH, me, no_me),
        missing(Method::DELETE, me, no_me),
        unknown(Method::GET, "retrieve"),
        unknown(Method::POST, "create"),
        unknown(Method::PUT, "replace"),
        unknown(Method::PATCH, "update"),
        unknown(Method::DELETE, "delete"),
    ];
    routes.into_iter().map(|route| route.admits(ADMISSION).also_accepts(MEDIA_TYPE).internal()).collect()
}

fn answer(body: &Json) -> Answer {
    scim_answer(StatusCode::OK, body)
}

fn list(resources: Vec<Json>) -> Answer {
    answer(&json!({
        "schemas": [LIST_RESPONSE], "totalResults": resources.len(), "itemsPerPage": resources.len(), "startIndex": 1,
        "Resources": resources,
    }))
}

fn find(_: &Request, resources: Vec<Json>, is_it: impl Fn(&Json) -> bool) -> Outcome {
    resources.iter().find(|resource| is_it(resource)).map(answer).ok_or_else(Refusal::not_found)
}

fn meta(request: &Request, kind: &str, path: &str) -> Json {
    json!({"resourceType": kind, "location": format!("{}{BASE}{path}", request.origin)})
}

fn service_provider_config(request: &Request) -> Json {
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "documentationUri": "https://datatracker.ietf.org/doc/html/rfc7644",
        "patch": {"supported": true},
        "bulk": {"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": true, "maxResults": 200},
        "changePassword": {"supported": false},
        "sort": {"supported": false},
        "etag": {"supported": true},
        "authenticationSchemes": [{
            "type": "oauthbearertoken", "name": "Bearer token", "description": "The token of a directory", "primary": true,
        }],
        "meta": meta(request, "ServiceProviderConfig", "ServiceProviderConfig"),
    })
}

fn resource_types(request: &Request) -> Vec<Json> {
    let kind = |name: &str, endpoint: &str, schema: &str, extensions: Json| {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"], "id": name, "name": name,
            "endpoint": endpoint, "description": name, "schema": schema, "schemaExtensions": extensions,
            "meta": meta(request, "ResourceType", &format!("ResourceTypes/{name}")),
        })
    };
    let enterprise = json!([{"schema": ENTERPRISE, "required": false}]);
    vec![kind("User", "/Users", CORE, enterprise), kind("Group", "/Groups", GROUP, json!([]))]
}

/// An attribute in a schema.
struct Declared {
    name: &'static str,
    kind: &'static str,
    /// `readOnly`, `readWrite` or `immutable`.
    mutability: &'static str,
    is_required: bool,
    is_exact: bool,
    uniqueness: &'static str,
    parts: Vec<Declared>,
    is_many: bool,
    /// The usual values; empty: any.
    values: &'static [&'static str],
}

impl Declared {
    fn text(name: &'static str) -> Declared {
        Declared {
            name,
            kind: "string",
            mutability: "readWrite",
            is_required: false,
            is_exact: false,
            uniqueness: "none",
            parts: Vec::new(),
            is_many: false,
            values: &[],
        }
    }

    fn to_json(&self) -> Json {
        let mut attribute = json!({
            "name": self.name, "type": self.kind, "multiValued": self.is_many, "description": self.name,
            "required": self.is_required, "mutability": self.mutability, "returned": "default",
        });
        if !self.values.is_empty() {
            attribute["canonicalValues"] = json!(self.values);
        }
        match self.kind {
            "string" => {
                attribute["caseExact"] = self.is_exact.into();
                attribute["uniqueness"] = self.uniqueness.into();
            }
            "reference" => {
                attribute["caseExact"] = true.into();
                attribute["uniqueness"] = "none".into();
                attribute["referenceTypes"] = json!(["User"]);
            }
            "complex" => attribute["subAttributes"] = self.parts.iter().map(Declared::to_json).collect(),
            _ => {}
        }
        attribute
    }
}

fn schemas(request: &Request) -> Vec<Json> {
    let schema = |id: &str, name: &str, attributes: Vec<Declared>| {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"], "id": id, "name": name, "description": name,
            "attributes": attributes.iter().map(Declared::to_json).collect::<Vec<_>>(),
            "meta": meta(request, "Schema", &format!("Schemas/{id}")),
        })
    };
    let read_only = |name| Declared { mutability: "readOnly", ..Declared::text(name) };
    let complex = |name, parts| Declared { kind: "complex", parts, ..Declared::text(name) };
    let name = vec![Declared::text("givenName"), Declared::text("familyName")];
    let kind = Declared { values: &["work", "mobile"], ..Declared::text("type") };
    let numbers = vec![Declared::text("value"), kind];
    let member = |name| Declared { mutability: "immutable", ..Declared::text(name) };
    let kind = Declared { values: &["User"], ..member("type") };
    let reference = Declared { kind: "reference", ..member("$ref") };
    let members = vec![member("value"), kind, reference];
    let unique = |name| Declared { is_required: true, uniqueness: "server", ..Declared::text(name) };
    vec![
        schema(
            CORE,
            "User",
            vec![
                unique("userName"),
                complex("name", name),
                read_only("displayName"),
                Declared::text("title"),
                Declared { is_many: true, ..complex("phoneNumbers", numbers) },
                Declared::text("timezone"),
                Declared { mutability: "immutable", values: &["internal", "external"], ..Declared::text("userType") },
                Declared { kind: "boolean", ..Declared::text("active") },
            ],
        ),
        schema(ENTERPRISE, "EnterpriseUser", vec![Declared::text("organization")]),
        schema(GROUP, "Group", vec![unique("displayName"), Declared { is_many: true, ..complex("members", members) }]),
    ]
}
