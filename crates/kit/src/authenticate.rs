//! Authentication: modules read credentials and find the accounts behind them.

use crate::app::App;
use crate::build::Build;
use crate::caller::{Caller, CredentialClaims, Requirement};
use crate::refusal::Refusal;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use store::{Conn, StoreError};

/// A kind of credentials. It selects the [`Authenticate`] for a request's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Any token after `Authorization: JWT` or `Bearer`, which mean the same.
    Token,
    /// A token that begins with this text.
    Prefix(&'static str),
}

/// The boxed future of [`Authenticate::identify`].
pub type Identifying<'a> = Pin<Box<dyn Future<Output = Result<Option<Arc<Caller>>, StoreError>> + Send + 'a>>;

/// The functions that authenticate one kind of credentials. Their last argument is the time in microseconds since 1970.
pub struct Authenticate {
    /// Reads and checks a credential; `None` when it is not valid.
    pub read: fn(&App, &Build, &str, i64) -> Option<CredentialClaims>,
    /// Finds the account of a credential, in the cache or the database; `None` when it may no longer call.
    pub identify: for<'a> fn(&'a Arc<Build>, CredentialClaims, i64) -> Identifying<'a>,
    /// Reads the account of a credential in a transaction, never from the cache; `None` when it may no longer call.
    pub load: fn(&mut Conn, CredentialClaims, i64) -> Result<Option<Caller>, StoreError>,
}

/// Returns the functions for a token: those of its prefix if a module declares the prefix, otherwise those of any token.
pub fn functions_for_token(
    kinds: impl Iterator<Item = &'static (Credential, Authenticate)> + Clone,
    token: &str,
) -> Option<&'static Authenticate> {
    let mut prefixes = kinds.clone();
    let of_prefix = prefixes.find(|(kind, _)| matches!(kind, Credential::Prefix(prefix) if token.starts_with(prefix)));
    let mut remaining_kinds = kinds;
    of_prefix.or_else(|| remaining_kinds.find(|(kind, _)| *kind == Credential::Token)).map(|(_, functions)| functions)
}

/// The claims by which a caller was authenticated, and the functions that read them.
#[derive(Clone, Copy)]
pub struct Admission {
    pub claims: CredentialClaims,
    pub by: &'static Authenticate,
}

impl Admission {
    /// Returns the caller if the call is allowed from this address and meets the requirement; 401 or 403 otherwise.
    pub async fn caller(
        &self,
        app: &App,
        build: &Arc<Build>,
        address: IpAddr,
        requirement: Option<Requirement>,
    ) -> Result<Arc<Caller>, Refusal> {
        let now = app.clock.now();
        let caller = (self.by.identify)(build, self.claims, now).await?.ok_or_else(Refusal::bad_token)?;
        caller.check_address(address)?;
        if let Some(requirement) = requirement {
            caller.fulfils(requirement, now)?;
        }
        Ok(caller)
    }

    /// Returns the admission of a started upload: the token may expire, the session may not (`docs/reference/conventions.md`).
    pub fn admission_for_upload(mut self) -> Admission {
        self.claims.expires_at = i64::MAX;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Authenticate =
        Authenticate { read: |_, _, _, _| None, identify: |_, _, _| unreachable!(), load: |_, _, _| Ok(None) };

    static KINDS: [(Credential, Authenticate); 3] =
        [(Credential::Token, NOBODY), (Credential::Prefix("chk_"), NOBODY), (Credential::Prefix("chg_"), NOBODY)];

    #[test]
    fn a_token_is_read_by_its_prefix_and_as_any_token_without_a_known_one() {
        let chosen = |token| {
            let functions = functions_for_token(KINDS.iter(), token).unwrap();
            KINDS.iter().find(|(_, candidate)| std::ptr::eq(candidate, functions)).map(|(kind, _)| *kind).unwrap()
        };
        assert_eq!(chosen("chk_1234"), Credential::Prefix("chk_"));
        assert_eq!(chosen("chg_1234"), Credential::Prefix("chg_"));
        assert_eq!(chosen("eyJhbGciOi.e30.x"), Credential::Token);
        assert_eq!(chosen("xchk_1234"), Credential::Token);
        assert_eq!(chosen(""), Credential::Token);
        assert!(functions_for_token(KINDS[1..].iter(), "eyJhbGciOi.e30.x").is_none());
    }
}
