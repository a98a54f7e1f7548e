//! Reads a commit of a git repository over HTTPS, without a git program. Only the latest commit is fetched, by version 2 of git's
//! protocol (`http.rs`). The objects of its pack are read one by one (`pack.rs`), and from them the files (`tree.rs`).
//!
//! The owner of a repository controls the received data, so everything is bounded before memory or disk is allocated. Nothing of
//! the host is read or run: this code has no configuration, credential helper, hook or checkout.

mod delta;
mod http;
mod pack;
mod shared;
mod tree;

pub use http::{Credentials, fetch};
pub use pack::Objects;
pub use shared::{GitError, Id};
pub use tree::{ServedFile, files_of};
