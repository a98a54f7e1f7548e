//! Ways back from a provider to pages of other domains, which go on with the person who signed in instead of a session
//! (`docs/reference/single-sign-on.md`).

use kit::answer::Answer;
use kit::refusal::Refusal;
use kit::request::Request;
use store::Conn;

/// A way back. The sealed transaction of a sign-in carries its name, and the target that its page gave at the start.
pub struct WayBack {
    pub name: &'static str,
    /// What the browser gets when a user has signed in by a configuration, in the transaction that decides so. The last
    /// argument is the target.
    pub signed_in: fn(&Request, &mut Conn, i64, i64, &str) -> Result<Answer, Refusal>,
    /// What the browser gets when nobody has.
    pub failed: fn(&Request, &Refusal, &str) -> Answer,
}

/// The ways back of all domains.
#[derive(Default)]
pub struct WaysBack(pub Vec<&'static WayBack>);

impl WayBack {
    /// The way of a name.
    pub(super) fn of(request: &Request, name: &str) -> Option<&'static WayBack> {
        request.app.slot::<WaysBack>().0.iter().find(|way| way.name == name).copied()
    }
}
