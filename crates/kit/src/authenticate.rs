//! How a credential is read, and which account stands behind it: a domain says so.

use crate::app::App;
use crate::build::Build;
use crate::caller::{Caller, Claims, Requirement};
use crate::refusal::Refusal;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use store::{Conn, Error};

/// Where a credential stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Any token behind `Authorization: JWT` or `Bearer`, which mean the same.
    Token,
    /// One that begins with this.
    Prefix(&'static str),
}

/// The account behind a credential, still being looked for.
pub type Identifying<'a> = Pin<Box<dyn Future<Output = Result<Option<Arc<Caller>>, Error>> + Send + 'a>>;

/// How one kind of credentials is read.
pub struct Authenticate {
    /// What a credential says at a moment; `None` for one that does not hold.
    pub read: fn(&App, &Build, &str, i64) -> Option<Claims>,
    /// The account behind it as it is now; `None` when it may no longer call.
    pub identify: for<'a> fn(&'a Arc<Build>, Claims, i64) -> Identifying<'a>,
    /// The same in a transaction, never from memory.
    pub load: fn(&mut Conn, Claims, i64) -> Result<Option<Caller>, Error>,
}

/// By what a caller was admitted.
#[derive(Clone, Copy)]
pub struct Admission {
    pub claims: Claims,
    pub by: &'static Authenticate,
}

impl Admission {
    /// Who calls, if he may call from where he is, and may call a route that asks this of him.
    pub async fn caller(
        &self,
        app: &App,
        build: &Arc<Build>,
        address: IpAddr,
        requirement: Option<Requirement>,
    ) -> Result<Arc<Caller>, Refusal> {
        let now = app.clock.now();
        let caller = (self.by.identify)(build, self.claims, now).await?.ok_or_else(Refusal::bad_token)?;
        caller.is_called_from(address)?;
        if let Some(requirement) = requirement {
            caller.fulfils(requirement, now)?;
        }
        Ok(caller)
    }

    /// The admission of an upload that has begun: the token counts no more, the session does
    /// (`docs/reference/conventions.md`).
    pub fn of_upload(mut self) -> Admission {
        self.claims.expires_at = i64::MAX;
        self
    }
}
