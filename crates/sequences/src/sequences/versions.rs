//! The versions of a sequence: `/api/sequences/{id}/versions/` (`docs/reference/sequences.md`).

use super::access::SequenceAccess;
use super::sequence::ViewForm;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::{Field, FieldKind, Resource, options};
use std::sync::LazyLock;
use store::{Conn, Sql};

static VERSION: LazyLock<Resource> = LazyLock::new(|| {
    let count = FieldKind::Integer { min: 0, max: i64::MAX };
    let fields = [
        Field::new("version", count.clone()),
        Field::new("published_at", FieldKind::DateTime),
        Field::new("published_by", FieldKind::User).nullable(),
        Field::new("runs_as", FieldKind::User).nullable(),
        Field::new("comment", FieldKind::text(255)),
        Field::new("num_of_runs_in_progress", count).sql(
            "(SELECT count(*) FROM sequence_runs r WHERE r.sequence = t.sequence AND r.version = t.version AND r.ended_at IS NULL)",
        ),
        Field::new("definition", FieldKind::Json { max_bytes: 256 * 1024, max_depth: 32 }).detail_only(),
    ];
    Resource::new("sequence_versions", "SequenceVersion", "sequence_versions", fields.map(Field::read_only))
        .newest_first()
        .unselectable()
        .unlogged()
});
static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&VERSION));

pub fn routes() -> Vec<Route> {
    let all = "/api/sequences/{id}/versions/";
    let one = "/api/sequences/{sequence_id}/versions/{version_id}/";
    let who = "sequences.view, or ownership of the class of the trigger";
    vec![
        Route::list(all, &VERSION, list).instance(who),
        Route::options_below(all, document).with_read(document),
        Route::view(one, &VERSION, view).with_read(view).instance(who),
    ]
}

/// The condition on the versions that the caller may view: owners of the class view the published one alone.
fn visible(sequence: &SequenceAccess) -> Sql {
    let mut sql = Sql::new("t.sequence = ");
    sql.bind(sequence.id);
    if sequence.form == ViewForm::Published {
        sql.push(" AND t.version = ").bind(sequence.published_version);
    }
    sql
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load(request, conn)?;
    rows::list(request, conn, &SHAPE, Scope::matching(visible(&sequence)))
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    SequenceAccess::require_existing(conn, request.id())?;
    Ok(Answer::value(&options::document(&VERSION)))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load(request, conn)?;
    let mut condition = visible(&sequence);
    condition.push(" AND t.version = ").bind(request.second_id::<kit::ids::SequenceId>());
    let instance = rows::view(request, conn, &SHAPE, &condition)?.ok_or_else(Refusal::not_found)?;
    Ok(Answer::instance(StatusCode::OK, instance))
}
