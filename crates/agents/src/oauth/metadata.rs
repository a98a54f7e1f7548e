//! The metadata of a connector (RFC 9728) and of this server (RFC 8414), which agents read before they sign in.

use crate::connectors::{AddressForm, server_url};
use crate::grants::OFFLINE_ACCESS;
use http::Method;
use kit::answer::{Answer, Outcome};
use kit::app::App;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use store::{Conn, Sql};

const CONNECTOR_METADATA: &str = "/.well-known/oauth-protected-resource/mcp/{uuid}/";
const SERVER_METADATA: &str = "/.well-known/oauth-authorization-server/";

pub fn routes() -> Vec<Route> {
    let get = |path, summary, handler| Route::new(Method::GET, path, summary, handler).public().internal();
    vec![
        get(CONNECTOR_METADATA, "The authorization server of a connector", Handler::ShortRead(connector_metadata))
            .answers(200, Schema::Json(connector_schema)),
        get(
            SERVER_METADATA,
            "The metadata of the authorization server of agents",
            Handler::NoDatabase(server_metadata),
        )
        .answers(200, Schema::Json(server_schema)),
    ]
}

fn texts() -> Json {
    json!({"type": "array", "items": {"type": "string"}})
}

fn address() -> Json {
    json!({"type": "string", "format": "uri"})
}

fn connector_schema() -> Json {
    let fields = [("resource", address()), ("authorization_servers", texts()), ("bearer_methods_supported", texts())];
    titled("ProtectedResourceMetadata", object(fields))
}

fn server_schema() -> Json {
    let addresses = ["issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint"];
    let lists = [
        "response_types_supported",
        "response_modes_supported",
        "grant_types_supported",
        "token_endpoint_auth_methods_supported",
        "revocation_endpoint_auth_methods_supported",
        "code_challenge_methods_supported",
        "scopes_supported",
    ];
    let fields = addresses.map(|name| (name, address())).into_iter().chain(lists.map(|name| (name, texts())));
    let names_issuer = [("authorization_response_iss_parameter_supported", json!({"type": "boolean"}))];
    titled("AuthorizationServerMetadata", object(fields.chain(names_issuer)))
}

/// The address of the metadata of a connector whose address has a form. Refusals contain it.
pub fn resource_metadata(app: &App, build: &Build, uuid: &str, form: AddressForm) -> String {
    format!("{}/.well-known/oauth-protected-resource/mcp/{uuid}{}", app.address_of(build), form.end())
}

fn connector_metadata(request: &Request, conn: &mut Conn) -> Outcome {
    let uuid = request.uuid().to_string();
    let sql = Sql::new("SELECT 1 FROM mcp_connectors WHERE uuid = $1").arg(&uuid);
    conn.query_optional(&sql, |_| Ok(()))?.ok_or_else(Refusal::not_found)?;
    Ok(Answer::value(&json!({
        "resource": server_url(&request.app, &request.build, &uuid) + AddressForm::from_path(&request.path).end(),
        "authorization_servers": [request.app.address_of(&request.build)],
        "bearer_methods_supported": ["header"],
    })))
}

fn server_metadata(request: &Request) -> Outcome {
    let issuer = request.app.address_of(&request.build);
    let at = |name: &str| format!("{issuer}/oauth/{name}");
    let by_secret = json!(["client_secret_basic", "client_secret_post"]);
    Ok(Answer::value(&json!({
        "issuer": issuer,
        "authorization_endpoint": at("authorize"),
        "token_endpoint": at("token"),
        "revocation_endpoint": at("revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": by_secret,
        "revocation_endpoint_auth_methods_supported": by_secret,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "scopes_supported": [OFFLINE_ACCESS],
    })))
}
