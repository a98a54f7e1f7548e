//! Return targets of a sign-in at a provider: pages of other modules. They continue with the signed-in person instead of a session
//! (`docs/reference/single-sign-on.md`).

use kit::answer::Answer;
use kit::ids::{SingleSignOnId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use store::Conn;

/// A return target. The sealed transaction of a sign-in contains its name, and the path that its page set at the start.
pub struct ReturnTarget {
    pub name: &'static str,
    /// Returns the answer to the browser when a user has signed in, in the transaction of the decision. The arguments after the
    /// connection are the user, the configuration and the path.
    pub signed_in: fn(&Request, &mut Conn, UserId, SingleSignOnId, &str) -> Result<Answer, Refusal>,
    /// Returns the answer to the browser when the sign-in failed.
    pub failed: fn(&Request, &Refusal, &str) -> Answer,
}

/// The return targets of all modules.
#[derive(Default)]
pub struct ReturnTargets(pub Vec<&'static ReturnTarget>);

impl ReturnTarget {
    /// Returns the target with a name.
    pub(super) fn find_by_name(request: &Request, name: &str) -> Option<&'static ReturnTarget> {
        request.app.slot::<ReturnTargets>().0.iter().find(|way| way.name == name).copied()
    }
}
