//! Rate limits of signed-in callers, and the headers that report them (`docs/reference/conventions.md`).
//!
//! The headers have the form of draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy` names the quota and its period,
//! `RateLimit` the remaining quota and the seconds until more of it is free.

use http::{HeaderName, HeaderValue};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// A maximum number of calls in a period.
#[derive(Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The name of the policy, in lower case.
    pub name: &'static str,
    /// The maximum number of calls.
    pub most: i64,
    /// The period, in seconds.
    pub seconds: i64,
}

/// The state of a rate limit after a call was counted or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitState {
    pub limit: &'static RateLimit,
    /// The number of calls that are still allowed.
    pub remaining: i64,
    /// The time until another call is free again, in seconds.
    pub seconds: i64,
}

impl RateLimit {
    /// Returns the state after this number of calls, with the microseconds until the earliest of them is no longer counted.
    pub fn state(&'static self, used: i64, wait: i64) -> RateLimitState {
        RateLimitState { limit: self, remaining: (self.most - used).max(0), seconds: (wait / 1_000_000).max(1) }
    }
}

impl RateLimitState {
    /// Returns `RateLimit-Policy` and `RateLimit`.
    pub fn headers(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let RateLimit { name, most, seconds } = self.limit;
        let policy = format!("\"{name}\";q={most};w={seconds}");
        let state = format!("\"{name}\";r={};t={}", self.remaining, self.seconds);
        [(POLICY, policy), (LIMIT, state)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static RUNS: RateLimit = RateLimit { name: "runs", most: 60, seconds: 3600 };

    #[test]
    fn the_headers_have_the_form_of_the_draft() {
        let headers = |used, wait| {
            let headers = RUNS.state(used, wait).headers();
            headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(
            headers(1, 3_600_000_000),
            [r#"ratelimit-policy: "runs";q=60;w=3600"#, r#"ratelimit: "runs";r=59;t=3600"#]
        );
        assert_eq!(headers(61, 999_999), [r#"ratelimit-policy: "runs";q=60;w=3600"#, r#"ratelimit: "runs";r=0;t=1"#]);
    }
}
