//! The module of accounts and their rights (`docs/reference/`): users, roles, groups and their permission sets, and the security
//! rules. It also contains sessions, and signing in with a password or at a provider.

pub mod access_tokens;
mod account;
pub mod agent_sessions;
mod api_keys;
pub mod assignees;
pub mod attempts;
mod authenticate;
pub mod bearer_secrets;
mod browser_sessions;
pub mod builds;
mod fair_queue;
pub mod hasher;
mod key_callers;
mod mailed_links;
pub mod passwords;
mod preferences;
pub mod principals;
pub mod provisioning;
mod roles;
pub mod second_factors;
pub mod security;
pub mod sessions;
mod settings;
pub mod sign_in;
mod sign_ins;
pub mod single_sign_on;
mod super_admin_access;
mod system_events;
pub mod timezones;
mod user_groups;
pub mod users;
pub mod visibility;

pub use account::{UserRole, as_caller, is_active, is_person, roles_of};
pub use authenticate::identify_by;
pub use key_callers::as_caller_by_key;
pub use settings::IdentitySettings;

use access_tokens::AccessTokens;
use administration::mail::queue::MailKinds;
use attempts::Attempts;
use hasher::Hasher;
use kit::account_type::AccountType;
use kit::domain::Module;
use kit::permissions::{CRUD, PermissionResource};
use kit::secret::SealedColumn;
use std::sync::Arc;

/// The registration of the identity module.
pub static MODULE: Module = Module {
    name: "identity",
    routes: || {
        let routes = [
            sign_in::routes(),
            browser_sessions::routes(),
            users::routes(),
            api_keys::routes(),
            preferences::routes(),
            roles::routes(),
            user_groups::routes(),
            security::routes(),
            second_factors::routes(),
            single_sign_on::routes(),
            sign_ins::routes(),
        ];
        routes.into_iter().flatten().collect()
    },
    tags: &[
        ("auth", "Signing in and out with a password, tokens, and choosing a new password."),
        ("users", "The accounts of a build, their states, and the account of the caller."),
        ("roles", "Sets of permissions that configuration admins are given."),
        ("user-groups", "Groups of users, their members and owners, and what their permission sets give to whom."),
        ("security", "The rules for passwords, activation links, and how each account type signs in."),
        ("single-sign-on", "Signing in at an OpenID provider, and its configuration."),
    ],
    permissions: &[
        PermissionResource {
            name: "users",
            actions: CRUD,
            assignable: CRUD,
            held_by: &[(AccountType::Internal, &["list", "view"]), (AccountType::Full, &["list", "view"])],
        },
        PermissionResource::crud("roles"),
        PermissionResource::crud("single_sign_on"),
        PermissionResource {
            name: "user_groups",
            actions: &["list", "view", "create", "edit", "delete", "edit_perm_set"],
            assignable: &["list", "view", "create"],
            held_by: &[(AccountType::Internal, &["list"]), (AccountType::Full, &["list"])],
        },
        PermissionResource::assignable("standard_authentication", &["list", "edit"]),
    ],
    limits: &[
        &roles::ROLES,
        &single_sign_on::configuration::SINGLE_SIGN_ON_LIMIT,
        &user_groups::group::USER_GROUPS,
        &user_groups::people::GROUP_MEMBERS,
        &user_groups::people::GROUP_OWNERS,
        &user_groups::permission_sets::GROUP_SETS,
        &user_groups::assignees::GROUP_SET_USERS,
        &user_groups::assignees::GROUP_SET_GROUPS,
        &users::user::USER_RANGES,
        &preferences::PREFERENCES,
        &users::rules::ACCOUNTS[0],
        &users::rules::ACCOUNTS[1],
        &users::rules::ACCOUNTS[2],
        &users::rules::ACCOUNTS[3],
        &users::rules::ACCOUNTS[4],
        &users::rules::ACCOUNTS[5],
        &users::rules::ACCOUNTS[6],
    ],
    reactions: &[
        users::actions::ON_LEAVING,
        preferences::ON_USER_LEAVING,
        api_keys::ON_USER_LEAVING,
        second_factors::ON_USER_LEAVING,
        user_groups::ON_USER_LEAVING,
        single_sign_on::ON_USER_LEAVING,
        user_groups::ON_LEAVING,
        user_groups::ON_SET_LEAVING,
        roles::ON_LEAVING,
        single_sign_on::ON_ROLE_LEAVING,
        agent_sessions::ON_RULES_CHANGED,
        agent_sessions::ON_CONFIGURATION_CHANGED,
        agent_sessions::ON_CONFIGURATION_LEAVING,
        agent_sessions::ON_USER_CHANGED,
    ],
    object_rights: &[user_groups::rights::holds_groups],
    sealed_columns: &[
        SealedColumn { table: "single_sign_on", column: "client_secret", row: "secret_key" },
        second_factors::SEALED_COLUMNS[0],
        second_factors::SEALED_COLUMNS[1],
    ],
    callers: &[authenticate::ACCESS_TOKEN, key_callers::API_KEY],
    slots: |settings, keys, slots| {
        slots.insert(single_sign_on::Providers::new(settings.outbound_allow.clone()));
        let settings: IdentitySettings = settings.domains.get();
        slots.insert(AccessTokens::new(&keys.tokens()));
        let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get()).min(4);
        slots.insert(Hasher::start(threads, settings.hash_cost));
        slots.insert(single_sign_on::way_back::ReturnTargets::default());
        slots.insert(sessions::TaskLinks::default());
        slots.insert(settings);
        let mails = &mut slots.entry::<MailKinds>().0;
        mails.extend([
            &mailed_links::ACTIVATION,
            &mailed_links::RESET,
            &users::RENAMED,
            &second_factors::notices::NOTICE,
        ]);
        Ok(())
    },
    build_slots: |slots| slots.insert(Arc::<Attempts>::default()),
    metrics: |app, out| app.slot::<Hasher>().write_metrics(out),
    start: single_sign_on::warn_at_start,
    ..Module::EMPTY
};
