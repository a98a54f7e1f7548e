//! The answer to a request, and checks of it.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value as Json;
use std::fmt;
use std::ops::Index;

/// The answer to a request.
#[derive(Clone)]
pub struct Reply {
    /// The status of the answer.
    pub status: u16,
    /// The headers of the answer.
    pub headers: HeaderMap,
    /// The body as it was sent.
    pub bytes: Bytes,
    /// The body, if it is text.
    pub text: String,
    /// The body as JSON; null when it is not JSON.
    pub json: Json,
}

impl Reply {
    pub(crate) fn new(status: u16, headers: HeaderMap, bytes: Bytes) -> Reply {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = serde_json::from_str(&text).unwrap_or(Json::Null);
        Reply { status, headers, bytes, text, json }
    }

    /// Checks the status and the whole body.
    #[track_caller]
    pub fn expect_reply(&self, status: u16, body: Json) {
        assert!(self.status == status && self.json == body, "expected {status} {body:#}\n\nbut the answer is {self:?}");
    }

    /// Checks that the answer is 400 with exactly these messages.
    #[track_caller]
    pub fn refuses(&self, errors: Json) {
        self.expect_reply(400, errors);
    }

    /// Checks the status and returns the body.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Json {
        assert!(self.status == status, "expected {status}\n\nbut the answer is {self:?}");
        self.json.clone()
    }

    /// Checks that the status is 200 and returns the body.
    #[track_caller]
    pub fn ok(&self) -> Json {
        self.expect(200)
    }

    /// Checks that the status is 201 and returns the body.
    #[track_caller]
    pub fn expect_created(&self) -> Json {
        self.expect(201)
    }

    /// Checks that the answer is 204 without a body.
    #[track_caller]
    pub fn expect_empty(&self) {
        assert!(self.status == 204 && self.text.is_empty(), "expected 204\n\nbut the answer is {self:?}");
    }

    /// The `id` in the body.
    #[track_caller]
    pub fn id(&self) -> i64 {
        self.json["id"].as_i64().unwrap_or_else(|| panic!("expected an id\n\nbut the answer is {self:?}"))
    }

    /// Returns the value of a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// Returns a member of each result in a list, in order.
    #[track_caller]
    pub fn column(&self, name: &str) -> Vec<Json> {
        let results = self.json["results"].as_array();
        let results = results.unwrap_or_else(|| panic!("expected a list\n\nbut the answer is {self:?}"));
        results.iter().map(|result| result[name].clone()).collect()
    }

    /// Returns the ids of the results in a list, in order.
    #[track_caller]
    pub fn ids(&self) -> Vec<i64> {
        self.column("id").iter().filter_map(Json::as_i64).collect()
    }
}

impl Index<&str> for Reply {
    type Output = Json;
    fn index(&self, name: &str) -> &Json {
        &self.json[name]
    }
}

/// Answers are equal if their status, headers, text and JSON are equal. The encoding of the bytes does not matter.
impl PartialEq for Reply {
    fn eq(&self, other: &Reply) -> bool {
        (self.status, &self.headers, &self.text, &self.json) == (other.status, &other.headers, &other.text, &other.json)
    }
}

impl PartialEq<(u16, Json)> for Reply {
    fn eq(&self, (status, json): &(u16, Json)) -> bool {
        self.status == *status && self.json == *json
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.json {
            Json::Null => write!(f, "{} {}", self.status, self.text),
            json => write!(f, "{} {json:#}", self.status),
        }
    }
}

/// Returns an answer without the headers that differ in every answer: request id and date.
pub fn without_its_id(mut reply: Reply) -> Reply {
    reply.headers.remove("x-request-id");
    reply.headers.remove("date");
    reply
}
