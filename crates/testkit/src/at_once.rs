//! Calls that are sent at once, and checks of their answers.
//!
//! ```no_run
//! # async fn example<Api: testkit::Api>(server: &testkit::TestServer<Api>) {
//! # use {serde_json::json, testkit::{message, one_wins, send_concurrently}};
//! let api = server.admin().await;
//! server.set_limit("roles", 1).await;
//! let calls = (0..8).map(|n| api.call("POST", "/api/roles/").json(&json!({"name": format!("Role {n}")})));
//! let role = one_wins(&send_concurrently(calls).await, 201, &message::limit_exceeded("1 Roles"));
//! api.delete(&format!("/api/roles/{}/", role["id"])).await.expect_empty();
//! # }
//! ```

use crate::client::PreparedCall;
use crate::reply::Reply;
use serde_json::Value as Json;

/// Sends all calls at once. Returns the answers in the order of the calls.
pub async fn send_concurrently(calls: impl IntoIterator<Item = PreparedCall>) -> Vec<Reply> {
    let handles: Vec<_> = calls.into_iter().map(|call| tokio::spawn(call.send())).collect();
    let mut replies = Vec::new();
    for call in handles {
        replies.push(call.await.expect("it is answered"));
    }
    replies
}

/// Checks that one call succeeded with a status, and that all others got 400 with these messages. Returns the body of
/// the successful one.
#[track_caller]
pub fn one_wins(replies: &[Reply], status: u16, refused: &Json) -> Json {
    let (won, lost): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == status);
    for reply in &lost {
        assert_eq!(**reply, (400, refused.clone()));
    }
    assert_eq!(won.len(), 1, "{lost:?}");
    won[0].json.clone()
}

/// Returns the statuses of answers, in ascending order.
pub fn statuses(replies: &[Reply]) -> Vec<u16> {
    let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    statuses
}
