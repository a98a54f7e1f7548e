//! The API of this crate's tests: all modules of the binary.

/// The modules that the tests serve.
pub struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static platform::kit::domain::Module] = &platform::MODULES;
}

pub type TestServer = testkit::TestServer<Api>;
