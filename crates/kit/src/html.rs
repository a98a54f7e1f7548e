//! Plain pages for people, which work without scripts.

use crate::answer::Answer;
use crate::build::Build;
use crate::cookies;
use crate::refusal::Refusal;
use crate::request::Request;
use http::{HeaderMap, StatusCode, header};

/// The attribute that marks the message of a failure on a page.
const ALERT: &str = " role=\"alert\"";

/// The colours that a person has chosen. Front ends store the choice in a cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Theme {
    Light,
    Dark,
    /// The colours of the person's system.
    #[default]
    System,
}

impl Theme {
    /// Returns the theme that a browser sends.
    pub fn from_headers(headers: &HeaderMap) -> Theme {
        match cookies::value(headers, "chancery-theme") {
            Some("light") => Theme::Light,
            Some("dark") => Theme::Dark,
            _ => Theme::System,
        }
    }
    /// The value of `data-theme`.
    pub fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
            Theme::System => "system",
        }
    }
    /// Returns the colour schemes of the page, for a browser that has not loaded the style sheet yet.
    pub fn schemes(self) -> &'static str {
        if self == Theme::System { "light dark" } else { self.name() }
    }
}

/// Returns a refusal as a page, with its status and headers, for a route that answers pages.
pub fn refusal_page(build: &Build, theme: Theme, refusal: &Refusal) -> Answer {
    let title = match refusal.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => "Please wait",
        _ => "Not possible",
    };
    let body =
        format!("{}<p><a href=\"/sign-in/\">Back to sign-in</a></p>", alert(&refusal.reason.messages().join(" ")));
    let mut answer = full_page(&build.domain, theme, refusal.status, title, &body);
    answer.headers.extend(refusal.headers.iter().cloned());
    answer
}

/// The page of a host without a build. It explains the next steps to an operator, and does not reveal the existing builds.
pub fn unknown_host_page(host: &str, theme: Theme) -> Answer {
    let body = format!(
        "<p>No build (tenant) of this deployment has the host name <strong>{}</strong>. If you followed a link, check its \
         address.</p><p>If you operate this deployment:</p><ul>\
         <li><code>chancery build list</code> lists the builds, and <code>chancery build create DOMAIN</code> makes one, \
         which is served at once.</li>\
         <li><code>CHANCERY_FALLBACK_BUILD</code> names the build that serves all other hosts: its pages only at the host of \
         <code>CHANCERY_BASE_URL</code>, at <code>localhost</code> and at IP addresses.</li>\
         <li>A proxy must pass the host on for which it was asked: in <code>Host</code>, or, where \
         <code>CHANCERY_TRUSTED_PROXIES</code> names the proxy, in <code>X-Forwarded-Host</code>.</li></ul>",
        escape(host)
    );
    full_page(host, theme, StatusCode::NOT_FOUND, "No build here", &body)
}

/// Returns whether a request asks for a page, as a browser does when a person opens an address. Scripts
/// of pages and programs ask for any type or for JSON.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.to_ascii_lowercase().contains("text/html"))
}

/// Returns a text as an alert; an empty text if it is empty.
pub fn alert(error: &str) -> String {
    if error.is_empty() { String::new() } else { format!("<p{ALERT}>{}</p>", escape(error)) }
}

/// Returns several texts as one alert, a list below their common text; an empty text if there are none.
pub fn alert_list(common: &str, errors: &[String]) -> String {
    if errors.is_empty() {
        return String::new();
    }
    let items: String = errors.iter().map(|error| format!("<li>{}</li>", escape(error))).collect();
    format!("<div{ALERT}>{}<ul>{items}</ul></div>", escape(common))
}

/// Escapes text for HTML, attributes included.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// A page of a request's build, with a title and a body of HTML. The title reports a failure, shown by
/// the status or by an alert in the body, since a screen reader reads the title first.
pub fn page(request: &Request, status: StatusCode, title: &str, body: &str) -> Answer {
    full_page(&request.build.domain, Theme::from_headers(&request.headers), status, title, body)
}

/// A page of the host `owner`.
fn full_page(owner: &str, theme: Theme, status: StatusCode, title: &str, body: &str) -> Answer {
    let has_failed = status.is_client_error() || status.is_server_error() || body.contains(ALERT);
    let failed = if has_failed { "Failed: " } else { "" };
    let (owner, style) = (escape(owner), include_str!("html.css"));
    let html = format!(
        "<!doctype html><html lang=\"en-GB\" data-theme=\"{}\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"{}\"><title>{failed}{title} · {owner}</title>\
         <style>{style}</style></head><body><header>{owner}</header><main><h1>{title}</h1>{body}</main></body></html>",
        theme.name(),
        theme.schemes()
    );
    Answer::page(status, html)
}
