//! Builds multipart forms as browsers send them.

use testkit::{ApiClient, Reply};

pub const BOUNDARY: &str = "----WebKitFormBoundaryx7Q2kE0pYlZ3mC1d";
pub const CONTENT_TYPE: &str = "multipart/form-data; boundary=----WebKitFormBoundaryx7Q2kE0pYlZ3mC1d";

/// A part of a form.
#[derive(Clone, Debug)]
pub struct TestPart {
    name: String,
    file: Option<String>,
    content: Vec<u8>,
}

impl TestPart {
    pub fn has_name(&self, name: &str) -> bool {
        self.name == name
    }
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }
}

pub fn text(name: &str, content: &str) -> TestPart {
    TestPart { name: name.to_owned(), file: None, content: content.as_bytes().to_vec() }
}

pub fn file(name: &str, file: &str, content: impl Into<Vec<u8>>) -> TestPart {
    TestPart { name: name.to_owned(), file: Some(file.to_owned()), content: content.into() }
}

/// The bytes of a form.
pub fn body(parts: &[TestPart]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"", part.name).as_bytes(),
        );
        if let Some(file) = &part.file {
            let kind = "application/octet-stream";
            body.extend_from_slice(format!("; filename=\"{file}\"\r\nContent-Type: {kind}").as_bytes());
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// Sends a form to the page of a link.
pub async fn send(client: &ApiClient, parts: &[TestPart]) -> Reply {
    client.call("POST", "/task/").body(CONTENT_TYPE, body(parts)).send().await
}
