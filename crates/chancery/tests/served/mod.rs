//! The API that the tests of this crate serve: all modules of the binary.

/// The modules that the tests serve.
pub struct Api;

impl testkit::Api for Api {
    const DOMAINS: &'static [&'static platform::kit::domain::Domain] = &platform::DOMAINS;
}

pub type Server = testkit::Server<Api>;
