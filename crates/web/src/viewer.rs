//! The page that shows a service's OpenAPI document, with search and try-out: Swagger UI, whose files are in `viewer/`.
//!
//! Everything comes from the service itself, and the page may not connect to another server. Credentials that a person types
//! therefore go only to the service. Names of files have a hash of their content, so that browsers cache them permanently.

use std::io::Read;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use crate::clock::hex;
use crate::compress::takes_gzip;
use crate::tag::{EntityTag, etag};

/// The path of the page. The path of a file is this path and the file's name.
pub const PATH: &str = "/api/docs/";

/// The content security policy of the page. The icons of the style sheet are `data:` addresses.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

static FILES: LazyLock<[ViewerFile; 4]> = LazyLock::new(|| {
    [
        ViewerFile::compressed("swagger-ui-bundle", "js", SCRIPT, include_bytes!("../viewer/swagger-ui-bundle.js.gz")),
        ViewerFile::compressed("swagger-ui", "css", STYLE, include_bytes!("../viewer/swagger-ui.css.gz")),
        ViewerFile::uncompressed("page", "js", SCRIPT, include_bytes!("../viewer/page.js")),
        ViewerFile::uncompressed("page", "css", STYLE, include_bytes!("../viewer/page.css")),
    ]
});

struct ViewerFile {
    /// The name, which contains a hash of the content.
    name: String,
    content_type: &'static str,
    tag: EntityTag,
    /// The content. It is inflated when a client that does not accept gzip first requests it.
    plain: LazyLock<Bytes, Box<dyn FnOnce() -> Bytes + Send>>,
    compressed: Option<&'static [u8]>,
}

impl ViewerFile {
    fn uncompressed(name: &str, extension: &str, content_type: &'static str, content: &'static [u8]) -> ViewerFile {
        let hash = &hex(&Sha256::digest(content))[..16];
        ViewerFile {
            name: format!("{name}-{hash}.{extension}"),
            content_type,
            tag: etag(content),
            plain: LazyLock::new(Box::new(move || Bytes::from_static(content))),
            compressed: None,
        }
    }

    fn compressed(name: &str, extension: &str, content_type: &'static str, content: &'static [u8]) -> ViewerFile {
        let inflate = move || {
            let mut plain = Vec::new();
            // A file that is part of the program is always complete.
            let _ = GzDecoder::new(content).read_to_end(&mut plain);
            plain.into()
        };
        let file = ViewerFile::uncompressed(name, extension, content_type, content);
        ViewerFile { plain: LazyLock::new(Box::new(inflate)), compressed: Some(content), ..file }
    }
}

/// An answer: its headers in addition to those of all answers, and its body.
pub struct ViewerAnswer {
    pub content_type: &'static str,
    pub tag: Option<EntityTag>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

/// Returns the page with a title that shows the document of an address.
pub fn page(title: &str, document: &str) -> ViewerAnswer {
    let [bundle, style, own_script, own_style] = FILES.each_ref().map(|file| format!("{PATH}{}", file.name));
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title><link rel=\"icon\" href=\"data:,\">\
         <link rel=\"stylesheet\" href=\"{style}\"><link rel=\"stylesheet\" href=\"{own_style}\"></head>\
         <body><div id=\"viewer\" data-document=\"{document}\"></div>\
         <noscript>This page needs JavaScript. The document that it shows: <a href=\"{document}\">{document}</a></noscript>\
         <script src=\"{bundle}\"></script><script src=\"{own_script}\"></script></body></html>"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    ViewerAnswer { content_type: "text/html; charset=utf-8", tag: None, headers: headers.into(), body: html.into() }
}

/// Returns a file of the page, compressed for a client that accepts it; `None` if no file has the name.
/// It must not be compressed again: its only compressed form is part of the program.
pub fn file(name: &str, request: &HeaderMap) -> Option<ViewerAnswer> {
    let file = FILES.iter().find(|file| file.name == name)?;
    let mut headers = vec![
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::VARY, HeaderValue::from_static("Accept-Encoding")),
    ];
    let body = match file.compressed.filter(|_| takes_gzip(request)) {
        Some(compressed) => {
            headers.push((header::CONTENT_ENCODING, HeaderValue::from_static("gzip")));
            Bytes::from_static(compressed)
        }
        None => file.plain.clone(),
    };
    Some(ViewerAnswer { content_type: file.content_type, tag: Some(file.tag), headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(coding: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_str(coding).unwrap())])
    }

    fn header(served: &ViewerAnswer, name: HeaderName) -> &str {
        served
            .headers
            .iter()
            .find(|(header_name, _)| *header_name == name)
            .map_or("", |(_, value)| value.to_str().unwrap())
    }

    #[test]
    fn a_file_is_the_same_compressed_or_not() {
        for file in FILES.iter() {
            let plain = super::file(&file.name, &HeaderMap::new()).unwrap();
            let compressed = super::file(&file.name, &accepting("br, gzip")).unwrap();
            let mut inflated = Vec::new();
            if header(&compressed, header::CONTENT_ENCODING) == "gzip" {
                GzDecoder::new(&compressed.body[..]).read_to_end(&mut inflated).unwrap();
                assert_eq!(inflated, plain.body, "{}", file.name);
            } else {
                assert_eq!(compressed.body, plain.body, "{}", file.name);
            }
            assert_eq!(header(&plain, header::CONTENT_ENCODING), "");
            assert!(plain.tag.is_some() && plain.tag == compressed.tag);
            assert_eq!(header(&plain, header::VARY), "Accept-Encoding");
            assert!(header(&plain, header::CACHE_CONTROL).contains("immutable"));
        }
        assert!(file("page.js", &HeaderMap::new()).is_none());
    }

    #[test]
    fn the_page_names_its_files() {
        let page = page("API", "/api/openapi.json");
        let text = String::from_utf8(page.body.to_vec()).unwrap();
        for file in FILES.iter() {
            assert!(text.contains(&format!("\"/api/docs/{}\"", file.name)), "{} in {text}", file.name);
        }
        assert!(!text.contains("style=") && !text.contains("<script>") && !text.contains("<style"), "{text}");
        assert!(!header(&page, header::CONTENT_SECURITY_POLICY).contains("unsafe"));
    }

    #[test]
    fn compressed_is_for_whoever_takes_it() {
        for yes in ["gzip", "br, GZIP;q=0.5", "gzip; q=1", "identity;q=0, gzip"] {
            assert!(takes_gzip(&accepting(yes)), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip; q=0.000", "x-gzip", "gzip;q=x"] {
            assert!(!takes_gzip(&accepting(no)), "{no}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
