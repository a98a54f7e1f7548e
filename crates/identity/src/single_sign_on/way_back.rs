//! Ways back from a provider to pages of other domains, which go on with the person who signed in instead of a session
//! (`docs/reference/single-sign-on.md`).

use kit::answer::Answer;
use kit::refusal::Refusal;
use kit::request::Request;
use store::Conn;

/// A way back. The sealed transaction of a sign-in carries its name, and the target that its page gave at the start.
pub struct ReturnTarget {
    pub name: &'static str,
    /// What the browser gets when a user has signed in by a configuration, in the transaction that decides so. The last
    /// argument is the target.
    pub signed_in: fn(&Request, &mut Conn, i64, i64, &str) -> Result<Answer, Refusal>,
    /// What the browser gets when nobody has.
    pub failed: fn(&Request, &Refusal, &str) -> Answer,
}

/// The ways back of all domains.
#[derive(Default)]
pub struct ReturnTargets(pub Vec<&'static ReturnTarget>);

impl ReturnTarget {
    /// The way of a name.
    pub(super) fn find_by_name(request: &Request, name: &str) -> Option<&'static ReturnTarget> {
        request.app.slot::<ReturnTargets>().0.iter().find(|way| way.name == name).copied()
    }
}
