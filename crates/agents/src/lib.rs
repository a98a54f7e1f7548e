//! The module of agents: connectors, by which agents reach a build, and grants, by which they work for people
//! (`docs/reference/mcp-connectors.md`, `docs/reference/agent-sign-in.md`).

pub mod activity;
mod associations;
pub mod calls;
pub mod connectors;
pub mod grants;
pub mod mcp;
pub mod oauth;

pub use activity::notes::finish;

use identity::single_sign_on::way_back::ReturnTargets;
use kit::domain::Module;

/// The declaration of the module for `platform`.
pub static MODULE: Module = Module {
    name: "agents",
    routes: || {
        [connectors::routes(), activity::routes(), oauth::routes(), mcp::routes()].into_iter().flatten().collect()
    },
    tags: &[("mcp", "Connectors: what agents sign in to, and which tools they find there.")],
    permissions: &[connectors::PERMISSIONS],
    reactions: &[
        associations::ON_INTEGRATION_CHANGED,
        associations::ON_INTEGRATION_LEAVING,
        associations::ON_CONNECTOR_LEAVING,
    ],
    slots: |_, _, slots| {
        slots.entry::<ReturnTargets>().0.push(&oauth::WAY_BACK);
        Ok(())
    },
    standing_jobs: &[&activity::notes::ACTIVITY],
    build_slots: |slots| {
        slots.insert(grants::KnownAgents::default());
        slots.insert(activity::notes::WaitingLines::default());
        slots.insert(calls::CallCounts::default());
    },
    remove_build: |app, uid| Box::pin(async move { activity::notes::remove_build(&app, &uid).await }),
    ..Module::EMPTY
};
