//! The declaration of a single sign-on configuration, and the part that a sign-in reads (`docs/reference/single-sign-on.md`).

use crate::account::columns;
use crate::settings::IdentitySettings;
use kit::app::App;
use kit::build::Build;
use kit::ids::SingleSignOnId;
use kit::limits::{Limit, LimitSummary};
use kit::request::Request;
use kit::rows;
use resource::{Field, FieldKey, FieldKind, ReferenceTarget, Resource, TOKEN, UNDIRECTED, openapi};
use serde_json::json;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of single sign-on configurations of a build.
pub static SINGLE_SIGN_ON_LIMIT: Limit = Limit {
    name: "single_sign_on",
    default: 25,
    many: "SSO configurations",
    is_counted: true,
    summary: LimitSummary::Counter("single_sign_on_configurations"),
    ..Limit::EMPTY
};

pub const PATH: &str = "/api/single-sign-on/";
const PROVIDERS: &[(&str, &str)] = &[("provider_a", "Provider A"), ("provider_b", "Provider B")];
const MAX_ROLES: usize = 10;

pub static NAME: FieldKey<String> = FieldKey::new("name");
pub static CLIENT_ID: FieldKey<String> = FieldKey::new("client_id");
pub static CLIENT_SECRET: FieldKey<String> = FieldKey::new("client_secret");
pub static TENANT_ID: FieldKey<String> = FieldKey::new("tenant_id");
pub static PROVIDER: FieldKey<String> = FieldKey::new("provider");
pub static IS_ENABLED: FieldKey<bool> = FieldKey::new("is_enabled");
pub static AUTO_CREATE_USER: FieldKey<bool> = FieldKey::new("auto_create_user");
pub static ROLES: FieldKey<Vec<i64>> = FieldKey::new("roles");
pub static DOCS_ADDIN: FieldKey<bool> = FieldKey::new("is_docs_addin_enabled");

/// A single sign-on configuration.
pub static SINGLE_SIGN_ON: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    let credential = |key: &FieldKey<String>| key.text(255).required().charset(TOKEN).advertise(256);
    Resource::new(
        "single_sign_on",
        "SingleSignOn",
        "single_sign_on",
        [
            Field::id(),
            NAME.text(100).charset(UNDIRECTED).required().unique("single_sign_on_name").folded().filter().sort(),
            credential(&CLIENT_ID),
            CLIENT_SECRET
                .declare(FieldKind::Secret { min: 0, max: 255 })
                .required()
                .charset(TOKEN)
                .advertise(256)
                .encrypted("client_secret", "secret_key"),
            credential(&TENANT_ID),
            PROVIDER.declare(FieldKind::choices(PROVIDERS)).required().create_only().filter(),
            IS_ENABLED.boolean().default(false).filter(),
            AUTO_CREATE_USER.boolean().default(false).filter(),
            ROLES
                .declare(FieldKind::References {
                    target: ReferenceTarget {
                        table: "roles".into(),
                        autocomplete: Some("/api/roles/autocomplete/?text__icontains=".into()),
                    },
                    max_items: MAX_ROLES,
                })
                .members("single_sign_on_roles", "single_sign_on_id", "role_id"),
            DOCS_ADDIN.boolean().default(false).filter(),
            Field::new("redirect_uri", FieldKind::Url { max: 2048 }).read_only().stored_by_resource(),
            Field::new("logout_url", FieldKind::Url { max: 2048 }).read_only().stored_by_resource().detail_only(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit(&SINGLE_SIGN_ON_LIMIT)
    .with_extra_schemas(|_| {
        let roles = json!({"type": "array", "items": {"type": "string"}});
        let vouched_by = json!({"type": ["string", "null"], "description": "The person who answers for the provider"});
        let mut meta = openapi::meta(ACTIONS);
        openapi::require(&mut meta, "labels", openapi::object([("roles", roles), ("vouched_by", vouched_by)]));
        vec![("_meta", meta)]
    })
});

/// The actions in `_meta`.
pub const ACTIONS: [&str; 5] = ["list", "view", "edit", "create", "delete"];

/// Returns the address of a configuration's endpoint, `callback` or `logout`.
pub fn endpoint_address(app: &App, build: &Build, id: SingleSignOnId, part: &str) -> String {
    format!("{}{PATH}{id}/{part}/", app.address_of(build))
}

/// Returns the issuer of a provider for a tenant of the provider; `None` if the operator has not set it.
fn issuer(app: &App, provider: &str, tenant_id: &str) -> Option<String> {
    let template = match provider {
        "provider_a" => app.slot::<IdentitySettings>().sso_provider_a_issuer.as_ref(),
        _ => app.slot::<IdentitySettings>().sso_provider_b_issuer.as_ref(),
    };
    template.map(|template| template.replace("{tenant_id}", tenant_id))
}

/// The part of a configuration that a sign-in needs.
#[derive(Clone)]
pub struct SignInConfiguration {
    pub id: SingleSignOnId,
    pub provider: String,
    pub client_id: String,
    pub client_secret: String,
    pub issuer: Option<String>,
    pub is_enabled: bool,
    pub auto_create_user: bool,
    pub redirect_uri: String,
}

impl SignInConfiguration {
    /// Loads the configuration with an id.
    pub fn load(
        request: &Request,
        conn: &mut Conn,
        id: SingleSignOnId,
    ) -> Result<Option<SignInConfiguration>, StoreError> {
        SignInConfiguration::find(request, conn, id, "")
    }

    /// Reloads the configuration and locks its row. Returns `None` if it is disabled by now, or has another client or issuer.
    pub fn reload_unchanged(
        &self,
        request: &Request,
        conn: &mut Conn,
    ) -> Result<Option<SignInConfiguration>, StoreError> {
        Ok(self.reload(request, conn)?.filter(|now| now.is_enabled))
    }

    /// Reloads the configuration like [`Self::reload_unchanged`], whether or not it is enabled.
    pub fn reload(&self, request: &Request, conn: &mut Conn) -> Result<Option<SignInConfiguration>, StoreError> {
        let now = SignInConfiguration::find(request, conn, self.id, " FOR SHARE")?;
        Ok(now.filter(|now| now.client_id == self.client_id && now.issuer == self.issuer))
    }

    fn find(
        request: &Request,
        conn: &mut Conn,
        id: SingleSignOnId,
        lock: &'static str,
    ) -> Result<Option<SignInConfiguration>, StoreError> {
        let mut sql = Sql::new(
            "SELECT provider, client_id, tenant_id, secret_key, client_secret, is_enabled, auto_create_user \
             FROM single_sign_on WHERE id = $1",
        )
        .arg(id);
        let [provider, client_id, tenant_id, secret_key, _client_secret, is_enabled, auto_create_user] = columns();
        let (app, build) = (&request.app, &*request.build);
        conn.query_optional(sql.push(lock), |row| {
            let secret = rows::open_secret(&app.keys, build, &SINGLE_SIGN_ON, &CLIENT_SECRET, row, secret_key)?;
            Ok(SignInConfiguration {
                id,
                provider: row.text(provider)?.to_owned(),
                client_id: row.text(client_id)?.to_owned(),
                client_secret: secret.ok_or_else(|| StoreError::internal("a client secret does not open"))?,
                issuer: issuer(app, row.text(provider)?, row.text(tenant_id)?),
                is_enabled: row.flag(is_enabled)?,
                auto_create_user: row.flag(auto_create_user)?,
                redirect_uri: endpoint_address(app, build, id, "callback"),
            })
        })
    }
}

/// Returns the issuers of the enabled configurations.
pub fn enabled_issuers(request: &Request, conn: &mut Conn) -> Result<Vec<String>, StoreError> {
    let sql = Sql::new("SELECT provider, tenant_id FROM single_sign_on WHERE is_enabled = 1");
    let issuers = conn.query_all(&sql, |row| Ok(issuer(&request.app, row.text(0)?, row.text(1)?)))?;
    Ok(issuers.into_iter().flatten().collect())
}

/// The name of a configuration, with its issuer.
pub struct ConfigurationName {
    pub id: SingleSignOnId,
    pub name: String,
    pub issuer: Option<String>,
}

/// Loads all configurations, enabled ones first.
pub fn load_names(request: &Request, conn: &mut Conn) -> Result<Vec<ConfigurationName>, StoreError> {
    let sql = Sql::new("SELECT id, name, provider, tenant_id FROM single_sign_on ORDER BY is_enabled DESC, id");
    conn.query_all(&sql, |row| {
        let issuer = issuer(&request.app, row.text(2)?, row.text(3)?);
        Ok(ConfigurationName { id: row.id(0)?, name: row.text(1)?.to_owned(), issuer })
    })
}

/// Returns whether a configuration exists and is enabled.
pub fn is_enabled(conn: &mut Conn, id: SingleSignOnId) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM single_sign_on WHERE id = $1 AND is_enabled = 1").arg(id);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}
