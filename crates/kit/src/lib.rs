//! The kit: the framework of all endpoints and jobs of the main API. It contains no resource. Each module, a part of
//! the specification, describes itself as a [`domain::Module`]. `docs/architecture.md` draws the path of a request.

pub mod address;
pub mod answer;
pub mod answer_cache;
mod answer_room;
pub mod app;
pub mod authenticate;
pub mod autocomplete;
mod bodies;
mod body;
pub mod bounded_cache;
pub mod build;
pub mod caller;
pub mod callers;
pub mod commit;
pub mod cookies;
mod description;
pub mod domain;
pub mod html;
pub mod ids;
pub mod inner_call;
pub mod jobs;
pub mod limits;
pub mod listed;
pub mod log;
pub mod multipart;
pub mod openapi;
pub mod origin;
#[doc(hidden)]
pub mod outbound;
pub mod path;
pub mod permission_set;
pub mod permissions;
mod places;
pub mod reactions;
pub mod refusal;
pub mod request;
pub mod rights;
pub mod route;
pub mod rows;
pub mod secret;
pub mod secret_key;
pub mod serve;
pub mod settings;
pub mod signing;
pub mod slots;
pub mod snapshot;
pub mod table;
pub mod unnamed_proxy;
pub mod upload;

pub use answer_room::{AnswerRoom, with_room};
pub use body::work_on;
pub use places::download_place;
pub use resource::account_type;
