//! The API that the tests of this crate serve: all modules of the binary.

/// The modules that the tests serve.
pub struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static platform::kit::domain::Module] = &platform::MODULES;
}

pub type TestServer = testkit::TestServer<Api>;
