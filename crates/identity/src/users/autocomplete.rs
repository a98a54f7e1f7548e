//! `GET /api/users/autocomplete/` (`docs/reference/users.md`).

use super::view::scope;
use kit::answer::Outcome;
use kit::autocomplete::{self, ACCOUNT_TYPE_EXCLUDE};
use kit::request::Request;
use kit::route::Route;
use store::Conn;

pub fn routes() -> Vec<Route> {
    vec![autocomplete::route("/api/users/autocomplete/", answer)]
}

/// Answers with labels of users. `account_type__exclude` omits the users of an account type. The schema documents of assignees name
/// an address with it, since some types cannot be assignees.
fn answer(request: &Request, conn: &mut Conn) -> Outcome {
    let mut scope = scope(request.caller()?, conn, request.now)?;
    for (_, account_type) in request.query.pairs().filter(|(name, _)| *name == ACCOUNT_TYPE_EXCLUDE) {
        scope.condition.push(" AND t.account_type <> ").bind(account_type);
        scope.total = None;
    }
    autocomplete::answer(
        request,
        conn,
        &autocomplete::LabelSource { table: "users", text: "full_name", fold: "full_name_fold" },
        scope,
    )
}
