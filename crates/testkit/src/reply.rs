//! What a server answered, and how tests compare it.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value as Json;
use std::fmt;
use std::ops::Index;

/// An answer.
#[derive(Clone)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, as it was sent.
    pub bytes: Bytes,
    /// Its body, if it is text.
    pub text: String,
    /// Its body as JSON; null when it is none.
    pub json: Json,
}

impl Reply {
    pub(crate) fn new(status: u16, headers: HeaderMap, bytes: Bytes) -> Reply {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = serde_json::from_str(&text).unwrap_or(Json::Null);
        Reply { status, headers, bytes, text, json }
    }

    /// The answer is exactly this.
    #[track_caller]
    pub fn is(&self, status: u16, body: Json) {
        assert!(self.status == status && self.json == body, "expected {status} {body:#}\n\nbut the answer is {self:?}");
    }

    /// The answer is 400 with exactly these messages.
    #[track_caller]
    pub fn refuses(&self, errors: Json) {
        self.is(400, errors);
    }

    /// The answer has this status; its body.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Json {
        assert!(self.status == status, "expected {status}\n\nbut the answer is {self:?}");
        self.json.clone()
    }

    /// 200, and what was answered.
    #[track_caller]
    pub fn ok(&self) -> Json {
        self.expect(200)
    }

    /// 201, and what was created.
    #[track_caller]
    pub fn created(&self) -> Json {
        self.expect(201)
    }

    /// 204 without a body.
    #[track_caller]
    pub fn is_empty(&self) {
        assert!(self.status == 204 && self.text.is_empty(), "expected 204\n\nbut the answer is {self:?}");
    }

    /// The id of what was answered.
    #[track_caller]
    pub fn id(&self) -> i64 {
        self.json["id"].as_i64().unwrap_or_else(|| panic!("expected an id\n\nbut the answer is {self:?}"))
    }

    /// A header's value; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// One member of each result of a list, in order.
    #[track_caller]
    pub fn column(&self, name: &str) -> Vec<Json> {
        let results = self.json["results"].as_array();
        let results = results.unwrap_or_else(|| panic!("expected a list\n\nbut the answer is {self:?}"));
        results.iter().map(|result| result[name].clone()).collect()
    }

    /// The ids of a list, in order.
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

/// Answers are equal when what they say is, whatever bytes that was sent in.
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

/// An answer without what differs from answer to answer.
pub fn without_its_id(mut reply: Reply) -> Reply {
    reply.headers.remove("x-request-id");
    reply.headers.remove("date");
    reply
}
