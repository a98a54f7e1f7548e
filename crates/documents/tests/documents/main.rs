//! Tests that merge whole templates: files in, files out.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod files;
mod format;
mod hostile;
mod merge;
mod notes;
mod random;
mod support;
mod word;
