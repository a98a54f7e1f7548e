//! The console: the front end in the binary (`docs/reference/console.md`). Its bundle is in `dist/`, which is checked in and built
//! from `web/`; `build.rs` embeds it.
//!
//! Below [`ASSETS`] are the files of the bundle, each under the version of all of them, so that browsers cache them permanently.
//! Every other path is the shell: a page with only the names of the first files. It requests its content from the API.

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use kit::answer::{Answer, AnswerBody, Outcome};
use kit::build::Build;
use kit::domain::{FrontEnd, Module};
use kit::html::{self, Theme, escape};
use kit::refusal::Refusal;
use std::io::Read;
use std::sync::OnceLock;
use web::clock::random_token;
use web::compress::takes_gzip;

/// The exports of this module for `platform`.
pub static MODULE: Module =
    Module { name: "console", front_end: Some(FrontEnd { path: PATH, version: VERSION, answer }), ..Module::EMPTY };

/// The path of the console.
const PATH: &str = "/console/";
/// The path of its files, each as `{version}/{name}`.
const ASSETS: &str = "/console/assets/";

/// A file of the bundle.
struct File {
    name: &'static str,
    is_compressed: bool,
    content: &'static [u8],
    /// The uncompressed content, for the few clients that do not accept compression.
    plain: OnceLock<Bytes>,
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The browser's permissions for the console. The nonce of the answer is between the two parts, because the components' library
/// adds styles that carry it.
const POLICY: [&str; 2] = [
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-",
    "'; img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
];

fn answer(build: &Build, parts: &Parts) -> Option<Outcome> {
    let path = parts.uri.path();
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if path == "/" {
        // Programs get the same answer as before the console existed.
        return (is_read && html::is_accepted(&parts.headers)).then(|| Ok(redirect()));
    }
    if path != PATH.trim_end_matches('/') && !path.starts_with(PATH) {
        return None;
    }
    if !is_read {
        return Some(Err(Refusal::method(&parts.method, "GET, HEAD")));
    }
    Some(match path.strip_prefix(ASSETS) {
        Some(name) => asset(name, parts),
        None if path.len() < PATH.len() => Ok(redirect()),
        None => Ok(shell(build, parts)),
    })
}

fn redirect() -> Answer {
    let mut answer = Answer::redirect(StatusCode::FOUND, PATH);
    answer.headers.push((header::VARY, HeaderValue::from_static("Accept")));
    answer
}

/// Answers with a file of the bundle. A file of another version does not exist: a tab that requests it is older or newer than this
/// server.
fn asset(path: &str, parts: &Parts) -> Outcome {
    let file = path.split_once('/').filter(|(version, _)| *version == VERSION);
    let file = file.and_then(|(_, name)| FILES.iter().find(|file| file.name == name)).ok_or_else(Refusal::not_found)?;
    let mut headers = vec![
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::VARY, HeaderValue::from_static("Accept-Encoding")),
    ];
    let body = match file.is_compressed {
        true if takes_gzip(&parts.headers) => {
            headers.push((header::CONTENT_ENCODING, HeaderValue::from_static("gzip")));
            Bytes::from_static(file.content)
        }
        _ => file.decompress(),
    };
    Ok(full_answer(content_type(file.name), body, headers))
}

impl File {
    fn decompress(&self) -> Bytes {
        let inflate = || {
            let mut plain = Vec::new();
            // The embedded file is complete.
            let _ = GzDecoder::new(self.content).read_to_end(&mut plain);
            plain.into()
        };
        match self.is_compressed {
            true => self.plain.get_or_init(inflate).clone(),
            false => Bytes::from_static(self.content),
        }
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "text/plain; charset=utf-8",
    }
}

fn full_answer(content_type: &'static str, body: impl Into<Bytes>, headers: Vec<(HeaderName, HeaderValue)>) -> Answer {
    let body = AnswerBody::Whole(body.into());
    Answer { status: StatusCode::OK, body, content_type: Some(content_type), headers, ..Answer::empty() }
}

/// Answers with the page that loads the bundle, with a nonce of its own.
fn shell(build: &Build, parts: &Parts) -> Answer {
    let (nonce, theme, owner) = (random_token(), Theme::from_headers(&parts.headers), escape(&build.domain));
    let (data_theme, schemes) = (theme.name(), theme.schemes());
    let file = |name: &str| format!("{ASSETS}{VERSION}/{name}");
    let (style, vendor, main, script) = (file("app.css"), file("vendor.js"), file("main.js"), file("app.js"));
    let html = format!(
        "<!doctype html><html lang=\"en-GB\" data-theme=\"{data_theme}\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"{schemes}\"><meta property=\"csp-nonce\" nonce=\"{nonce}\">\
         <title>{owner}</title><link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"{style}\">\
         <link rel=\"modulepreload\" href=\"{vendor}\"><link rel=\"modulepreload\" href=\"{main}\"><script type=\"module\" src=\"{script}\"></script></head>\
         <body><div id=\"root\"></div><noscript><p>This page needs JavaScript.</p></noscript></body></html>"
    );
    let [before, after] = POLICY;
    let policy = HeaderValue::try_from(format!("{before}{nonce}{after}"));
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy.unwrap_or(HeaderValue::from_static("default-src 'none'"))),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    full_answer("text/html; charset=utf-8", html, headers.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_has_what_the_shell_names() {
        for name in ["app.js", "app.css", "main.js", "vendor.js"] {
            assert!(FILES.iter().any(|file| file.name == name), "{name} is not in dist/");
        }
        assert!(FILES.iter().all(|file| file.name != "source.sha256"));
        assert!(VERSION.len() == 16 && VERSION.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn all_scripts_and_styles_take_at_most_600_kb_on_their_way() {
        let is_code = |file: &&File| file.name.ends_with(".js") || file.name.ends_with(".css");
        let sum: usize = FILES.iter().filter(is_code).map(|file| file.content.len()).sum();
        assert!(sum <= 600 * 1024, "{sum} bytes");
    }

    /// The licences that `deny.toml` allows for crates, without those that no package of the console needs.
    const LICENCES: [&str; 5] = ["0BSD", "Apache-2.0", "BSD-3-Clause", "ISC", "MIT"];

    #[test]
    fn packages_of_the_bundle_have_a_permitted_licence() {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/dist/licences.md"));
        let text = text.expect("the bundle's list of licences");
        let packages: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert!(packages.iter().any(|package| package.starts_with("react-aria-components - ")), "{packages:?}");
        for package in packages {
            let licence = package.rsplit_once(" (").and_then(|(_, licence)| licence.strip_suffix(')'));
            // A package may offer several licences to choose from.
            let choices = licence.unwrap_or("").trim_matches(['(', ')']).split(" OR ");
            assert!(choices.into_iter().any(|choice| LICENCES.contains(&choice)), "{package}");
        }
    }

    #[test]
    fn embedded_files_decompress_to_the_stored_files() {
        for file in &FILES {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/").to_owned() + file.name;
            let stored = std::fs::read(path).expect("the file that was embedded");
            assert!(file.decompress() == stored, "{}", file.name);
        }
    }
}
