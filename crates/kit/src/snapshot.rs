//! Runs the read of a request: one snapshot of the build's database.

use crate::refusal::Refusal;
use crate::request::Request;
use std::sync::Arc;
use store::Conn;

/// Runs a script in one snapshot, and again if a declaration that it used was outdated.
pub async fn read<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Clone + Send + 'static,
) -> Result<T, Refusal> {
    let attempt = || {
        let (request, script, db) = (request.clone(), script.clone(), request.build.db.clone());
        async move { db.read(move |conn| script(&request, conn)).await }
    };
    match attempt().await {
        Err(refusal) if refusal.is_outdated() => attempt().await,
        outcome => outcome,
    }
}
