//! Reads a commit of a git repository over HTTPS, without a git program: its latest commit alone, by version 2 of git's protocol
//! (`http.rs`), as a pack whose objects are read one by one (`pack.rs`), and of these the files (`tree.rs`).
//!
//! Whoever has a repository decides what comes, so everything is bounded before memory or disk is taken for it. Nothing of the
//! host is read or run: there is no configuration, no credential helper, no hook, and no checkout.

mod delta;
mod http;
mod pack;
mod shared;
mod tree;

pub use http::{Credentials, fetch};
pub use pack::Objects;
pub use shared::{GitError, Id};
pub use tree::{ServedFile, files_of};
