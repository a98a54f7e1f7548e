//! Nothing but dependencies: all that the workspace has from elsewhere, each with its features there. A package whose tests
//! need no `testkit` has it as a dependency of its tests, so that `cargo test -p` compiles nothing that `./test` has compiled
//! already. `reliability/features` compares.
