//! The rules for second factors: `/api/security/second-factors/` (`docs/reference/second-factors.md`).

use http::{Method, StatusCode};
use kit::answer::{Answer, Instance, Outcome, etag};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape};
use resource::{Field, FieldKind, Resource, options};
use std::sync::LazyLock;
use store::Conn;

const PATH: &str = "/api/security/second-factors/";
const SUPER_ADMIN: &str = "super_admin";
const RULES: &[(&str, &str)] = &[("off", "Off"), ("optional", "Optional"), ("required", "Required")];

/// The rule of each account type.
pub static SECOND_FACTOR_RULES: LazyLock<Resource> = LazyLock::new(|| {
    let rule = |name: &'static str| Field::new(name, FieldKind::choices(RULES)).column(format!("second_factor_{name}"));
    let fields = ["internal", "external", "full", SUPER_ADMIN].map(rule);
    Resource::new("second_factors", "SecondFactorRules", "security", fields)
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&SECOND_FACTOR_RULES));

pub fn routes() -> Vec<Route> {
    vec![
        Route::view(PATH, &SECOND_FACTOR_RULES, |request, conn| {
            Ok(Answer::instance(StatusCode::OK, load(request, conn)?))
        })
        .requires("standard_authentication", "list"),
        Route::new(Method::PATCH, PATH, "Change", Handler::Write(edit))
            .with_body(Schema::Body(&SECOND_FACTOR_RULES, false))
            .answers(200, Schema::One(&SECOND_FACTOR_RULES))
            .requires("standard_authentication", "edit"),
        Route::options(PATH, |_| Ok(Answer::value(&options::instance_document(&SECOND_FACTOR_RULES)))),
    ]
}

fn load(request: &Request, conn: &mut Conn) -> Result<Instance, Refusal> {
    rows::view_id(request, conn, &SHAPE, 1)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let before = rows::load(conn, &SHAPE, 1)?.ok_or_else(Refusal::not_found)?;
    let caller = request.caller()?;
    let body = request.object()?;
    if body.contains_key(SUPER_ADMIN) && !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    request.check_if_match(|| Ok(etag(&load(request, conn)?)))?;
    let accepted = rows::check_body(conn, &SECOND_FACTOR_RULES, &body, Some(1))?;
    accepted.errors.refuse()?;
    rows::update_row(conn, &SECOND_FACTOR_RULES, 1, &accepted.changes, &[], request.now, Some(caller.user))?;
    let changed = log::diff_of_edit(&SECOND_FACTOR_RULES, &before, &accepted.changes);
    if !changed.is_empty() {
        // An id would be that of a factor.
        log::write(request, conn, "edit", &SECOND_FACTOR_RULES, None, "", changed)?;
    }
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::instance(StatusCode::OK, load(request, conn)?))
}
