//! Returns the actions of a user on a class and its records: `/api/object-classes/{id}/access/`
//! (`docs/reference/object-classes.md`).

use crate::access::{AccessSubject, ResourceActions, schema, user_parameter};
use crate::rights::{CLASS_EDIT_PERM_SET, CLASS_VIEW, CLASS_VOCABULARY, load_class_actions, rights_on_class};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::Errors;
use store::Conn;

pub fn routes() -> Vec<Route> {
    let path = "/api/object-classes/{class_id}/access/";
    vec![
        Route::new(Method::GET, path, "The actions that a user may perform", Handler::Read(view))
            .answers(200, Schema::Json(|| schema("ObjectClassAccess", &actions())))
            .parameters(|| vec![user_parameter()])
            .instance("object_class.view"),
    ]
}

fn actions() -> Vec<ResourceActions> {
    let of_key = |key: &kit::permission_set::PermissionKey| {
        (key.name, key.actions.iter().map(|action| (action.name, action.bit)).collect())
    };
    CLASS_VOCABULARY.0.iter().map(of_key).collect()
}

/// Answers callers who may view the class about themselves. Callers with `edit_perm_set` may ask about other users.
fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let class = request.id();
    let may_ask = rights_on_class(request, conn)?.allows(CLASS_EDIT_PERM_SET);
    let mut errors = Errors::new();
    let person = AccessSubject::subject_from_query(request, conn, may_ask, &mut errors)?.ok_or(errors)?;
    let (mut bits, mut grants) = (0, Vec::new());
    if person.is_usable {
        let rights = load_class_actions(conn, &person.caller, class)?.ok_or_else(Refusal::not_found)?;
        // The visibility of a record also makes the class visible.
        bits = rights.actions() | if rights.sees_class() { CLASS_VIEW } else { 0 };
        grants = person.grants_of_class(conn, class)?;
        person.hide(request, conn, class, &mut grants)?;
    }
    Ok(Answer::json(StatusCode::OK, person.answer(&actions(), bits, grants)))
}
