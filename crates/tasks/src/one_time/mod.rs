//! One-time accounts: the mailed links that open the tasks that are assigned to them, and the pages and sessions of these links
//! (`docs/reference/task-links.md`).

mod answers;
mod html;
mod inputs;
mod links;
mod page;
mod sign_in;

pub use links::{TASK_LINK, delete_all_of, delete_tokens_of, end, invite, may_open_task};

use kit::route::Route;

pub fn routes() -> Vec<Route> {
    [sign_in::routes(), page::routes()].into_iter().flatten().collect()
}
