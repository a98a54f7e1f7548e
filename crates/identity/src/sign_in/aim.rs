//! The purpose of a sign-in on a page, and the path to which it redirects. A program is shown its tokens. A browser gets the cookie
//! of a session and is redirected to the console, if the console is served.

use super::form::form_field;
use crate::browser_sessions::Cookie;
use crate::single_sign_on::transaction::{BrowserSessionOptions, SignInStart};
use http::{HeaderValue, StatusCode, header};
use kit::answer::Answer;
use kit::domain::front_end;
use kit::html::{self, escape};
use kit::refusal::Refusal;
use kit::request::Request;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The maximum length of a path to which a sign-in redirects, in bytes. It is part of the cookie of a sign-in at a provider.
pub const MAX_RETURN_TO: usize = 512;
/// The value of `for` with which a page shows tokens.
const PROGRAM: &str = "program";

/// The purpose of a sign-in.
#[derive(Clone, Debug, PartialEq)]
pub enum Aim {
    /// A session of a browser.
    Browser {
        /// A path of the console.
        return_to: String,
        /// Is true if the browser retains the session when it is closed.
        is_kept: bool,
    },
    /// Tokens that a page shows.
    Tokens {
        /// A path of this server.
        return_to: String,
        /// Is true if the request asked for tokens.
        is_chosen: bool,
    },
}

impl Aim {
    /// Reads the purpose from the address of the page.
    pub fn from_query(request: &Request) -> Aim {
        let parameter = |name| request.query.last_value(name).unwrap_or("");
        Aim::new(request, parameter("for"), parameter("return_to"), false)
    }

    /// Reads the purpose from the form of the page.
    pub fn from_form(request: &Request) -> Result<Aim, Refusal> {
        let (chosen, return_to) = (form_field(request, "for")?, form_field(request, "return_to")?);
        let is_kept = !form_field(request, "keep")?.is_empty();
        Ok(Aim::new(request, &chosen, &return_to, is_kept))
    }

    fn new(request: &Request, chosen: &str, return_to: &str, is_kept: bool) -> Aim {
        let is_chosen = chosen == PROGRAM;
        match console_path(request, return_to) {
            Some(return_to) if !is_chosen && html::is_accepted(&request.headers) => Aim::Browser { return_to, is_kept },
            _ => Aim::Tokens { return_to: path_of_server(return_to).to_owned(), is_chosen },
        }
    }

    /// Returns the path to which the sign-in redirects.
    pub fn return_to(&self) -> &str {
        let (Aim::Browser { return_to, .. } | Aim::Tokens { return_to, .. }) = self;
        return_to
    }

    /// Returns the values that a sign-in at a provider carries.
    pub fn sign_in_start(&self) -> SignInStart<'_> {
        let browser = match self {
            Aim::Browser { is_kept, .. } => Some(BrowserSessionOptions { is_kept: *is_kept }),
            Aim::Tokens { .. } => None,
        };
        SignInStart { return_to: self.return_to(), way_back: "", browser }
    }

    /// Returns the address of the page to sign in for this purpose.
    pub fn address(&self) -> String {
        let purpose = match self {
            Aim::Tokens { is_chosen: true, .. } => Some(format!("for={PROGRAM}")),
            _ => None,
        };
        let path = match self.return_to() {
            "/" => None,
            path => Some(format!("return_to={}", utf8_percent_encode(path, NON_ALPHANUMERIC))),
        };
        let query: Vec<String> = purpose.into_iter().chain(path).collect();
        format!("/sign-in/{}{}", if query.is_empty() { "" } else { "?" }, query.join("&"))
    }

    /// Returns the hidden fields of a form that carry the purpose, as HTML.
    pub fn fields(&self) -> String {
        let field =
            |name: &str, value: &str| format!("<input name=\"{name}\" type=\"hidden\" value=\"{}\">", escape(value));
        let purpose = match self {
            Aim::Tokens { is_chosen: true, .. } => field("for", PROGRAM),
            _ => String::new(),
        };
        let path = match self.return_to() {
            "/" => String::new(),
            path => field("return_to", path),
        };
        purpose + &path
    }
}

/// Returns the path of the console to which a sign-in redirects. It is the path of the request if that is in the console, otherwise
/// the first page. Returns `None` if no console is served.
pub fn console_path(request: &Request, path: &str) -> Option<String> {
    let console = front_end(&request.app)?.path;
    Some(if is_below(console, path) { path } else { console }.to_owned())
}

/// Returns the answer that redirects a browser, with its cookie if it has a new one.
pub fn lead_on(return_to: &str, cookie: Option<Cookie>) -> Answer {
    let mut answer = Answer::empty();
    answer.status = StatusCode::SEE_OTHER;
    answer.headers.extend(HeaderValue::from_str(return_to).ok().map(|path| (header::LOCATION, path)));
    answer.headers.push((header::REFERRER_POLICY, HeaderValue::from_static("same-origin")));
    answer.headers.extend(cookie);
    answer
}

/// Returns whether a text is an address below a path. Browsers, proxies and servers cannot interpret it in another way.
fn is_below(base: &str, target: &str) -> bool {
    let is_plain = target.len() <= MAX_RETURN_TO && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let path = target.split(['?', '#']).next().unwrap_or("");
    let Some(below) = path.strip_prefix(base).filter(|_| is_plain) else { return false };
    let below = below.strip_suffix('/').unwrap_or(below);
    path == base || below.split('/').all(is_plain_segment)
}

/// Returns whether a segment of a path stays one segment after repeated decoding, and does not lead up.
fn is_plain_segment(segment: &str) -> bool {
    let Ok(plain) = percent_decode_str(segment).decode_utf8() else { return false };
    let is_other = |character: char| character.is_control() || matches!(character, '/' | '\\' | '%');
    !matches!(plain.as_ref(), "" | "." | "..") && !plain.contains(is_other)
}

/// Returns the path of this server in a request; `/` for other texts.
fn path_of_server(path: &str) -> &str {
    // Browsers treat a backslash as a slash, and skip tabs and line breaks.
    let is_path = path.starts_with('/') && !path[1..].starts_with(['/', '\\']) && !path.contains(char::is_control);
    if is_path && path.len() <= MAX_RETURN_TO { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_led_to_paths_of_the_console_alone() {
        for path in [
            "/console/",
            "/console/users",
            "/console/users/",
            "/console/records/order/12?sort=-a,b&name=x%2Fy//z&z=..#top",
            "/console/records/gr%C3%B6%C3%9Fe",
            "/console/?text=a%0Ab",
            "/console/x/..y/.z",
        ] {
            assert!(is_below("/console/", path), "{path}");
        }
        let long = format!("/console/{}", "x".repeat(MAX_RETURN_TO));
        for elsewhere in [
            "",
            "/",
            "/console",
            "/consoles/",
            "/api/docs/",
            "console/",
            "//console/",
            "//b.example/console/",
            "/\\b.example/console/",
            "https://b.example/console/",
            "javascript:x",
            "/console//b.example",
            "/console/x//y",
            "/console/x//",
            "/console//",
            "/console/\\b.example",
            "/console/?\\b.example",
            "/console/..",
            "/console/../",
            "/console/../api/docs/",
            "/console/./x",
            "/console/x/..",
            "/console/%2e%2e/api/",
            "/console/%2E./api/",
            "/console/.%2e/api/",
            "/console/%252e%252e/api/",
            "/console/%2f%2fb.example",
            "/console/x%5c..%5c",
            "/console/%00",
            "/console/%0d%0aset-cookie:x",
            "/console/%ff",
            "/console/x%",
            "/console/\tx",
            "/console/x\r\ny",
            "/console/x y",
            "/console/ä",
            "\t/console/",
            " /console/",
            "/Console/",
            &long,
        ] {
            assert!(!is_below("/console/", elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn the_address_of_the_page_carries_the_purpose() {
        let browser = Aim::Browser { return_to: "/console/users?a=b&c".to_owned(), is_kept: true };
        assert_eq!(browser.address(), "/sign-in/?return_to=%2Fconsole%2Fusers%3Fa%3Db%26c");
        let tokens = |return_to: &str, is_chosen| Aim::Tokens { return_to: return_to.to_owned(), is_chosen }.address();
        assert_eq!(tokens("/api/docs/", true), "/sign-in/?for=program&return_to=%2Fapi%2Fdocs%2F");
        assert_eq!(tokens("/", true), "/sign-in/?for=program");
        assert_eq!(tokens("/", false), "/sign-in/");
    }

    #[test]
    fn tokens_are_followed_by_paths_of_this_server_alone() {
        for path in ["/", "/api/docs/", "/a?b=c&d#e", "/a//b", "/ä"] {
            assert_eq!(path_of_server(path), path);
        }
        let long = format!("/{}", "x".repeat(MAX_RETURN_TO));
        for elsewhere in [
            "",
            "x",
            "//b.example",
            "/\\b.example",
            "/\t/b.example",
            "\\\\b.example",
            "https://b.example",
            "javascript:x",
            &long,
        ] {
            assert_eq!(path_of_server(elsewhere), "/", "{elsewhere}");
        }
    }
}
