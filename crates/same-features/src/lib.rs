//! A crate with dependencies only: all external dependencies of the workspace, each with its features there. A package whose tests
//! need no `testkit` has it as a dependency of its tests. `cargo test -p` then compiles nothing that `./test` has already compiled.
//! `reliability/features` compares the features.
