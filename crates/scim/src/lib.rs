//! The module of SCIM 2.0 (RFC 7643, RFC 7644): directories of companies create, change and deactivate accounts, and maintain groups
//! (`docs/reference/scim.md`). The rules of accounts and groups are in `identity`; this module speaks the protocol.

mod callers;
mod discovery;
mod draft;
mod error;
mod filter;
mod groups;
mod patch;
mod query;
mod schema;
mod tokens;
mod users;

use kit::domain::Module;

/// The registration of the module.
pub static MODULE: Module = Module {
    name: "scim",
    routes: || {
        [tokens::routes(), users::routes(), groups::routes(), discovery::routes()].into_iter().flatten().collect()
    },
    tags: &[("scim", "Provisioning by a company's directory (SCIM 2.0), and the tokens of directories.")],
    reactions: &[
        tokens::ON_CONFIGURATION_LEAVING,
        tokens::ON_USER_LEAVING,
        tokens::ON_USER_CHANGED,
        tokens::ON_GROUP_LEAVING,
    ],
    ..Module::EMPTY
};
