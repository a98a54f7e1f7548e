//! Tasks: `/api/tasks/` (`docs/reference/tasks.md`).

pub mod acting;
pub mod assignees;
pub mod counts;
pub mod create;
mod delete;
mod edit;
mod files;
mod form;
mod list;
pub mod log;
mod mine;
pub mod per_record;
pub mod response;
pub mod task;
pub mod task_access;
mod visible;

pub use delete::delete_tasks_of_records;

use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::request::Request;
use kit::route::{Handler, Route};
use store::Conn;
use task::{ShownTask, TASK};

pub fn routes() -> Vec<Route> {
    let collection = "/api/tasks/";
    let single = "/api/tasks/{task_id}/";
    let mut routes = vec![
        Route::list(collection, &TASK, list::list).parameters(task::parameters),
        Route::create(collection, &TASK, create::create)
            .instance("tasks.create, or task_templates.view without a record"),
        Route::options_below(collection, document),
        Route::view(single, &TASK, view).with_read(view).guards_replays().instance("tasks.view").for_narrowed(),
        Route::edit(single, &TASK, edit::edit).instance("tasks.edit, tasks.assign for assignees"),
        Route::delete(single, delete::delete).instance("tasks.delete"),
        Route::post("/api/tasks/{task_id}/send-link/", "Send new links", Handler::Write(edit::send_link))
            .answers(204, kit::route::Schema::Nothing)
            .named_by_path()
            .instance("tasks.assign")
            .without_keys(),
    ];
    routes.extend([acting::routes(), log::routes(), files::routes()].into_iter().flatten());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::value(&task::document(conn)?))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let task = task_access::load_from_path(request, conn)?;
    let shown = ShownTask::load(request, conn, &task)?;
    task::answer(request, conn, StatusCode::OK, shown)
}
