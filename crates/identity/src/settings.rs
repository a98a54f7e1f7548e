use crate::hasher::HashCost;

/// The settings of the operator, named as in `docs/operations.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentitySettings {
    pub lock_attempts: i64,
    pub lock_seconds: i64,
    pub address_attempts: i64,
    pub access_token_seconds: i64,
    pub refresh_token_seconds: i64,
    /// The issuer, which contains `{tenant_id}`. With `None`, sign-in at the provider is not available.
    pub sso_provider_a_issuer: Option<String>,
    pub sso_provider_b_issuer: Option<String>,
    /// Is set only by tests.
    pub hash_cost: HashCost,
}

impl Default for IdentitySettings {
    fn default() -> IdentitySettings {
        IdentitySettings {
            lock_attempts: 5,
            lock_seconds: 900,
            address_attempts: 100,
            access_token_seconds: 900,
            refresh_token_seconds: 604_800,
            sso_provider_a_issuer: None,
            sso_provider_b_issuer: None,
            hash_cost: HashCost::default(),
        }
    }
}
