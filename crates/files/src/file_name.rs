//! The names of files: the parsing of an upload's name (RFC 6266), its clean-up, and the media type of its extension.

use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;

/// The maximum length of a file's name, in characters.
pub const MAX_NAME: usize = 255;

/// Returns the name in the `Content-Disposition` of a request, without path parts and control characters; `None` if it does not
/// contain one.
pub fn file_name_from_headers(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_DISPOSITION)?.as_bytes();
    let raw_name = parameter(value, b"filename*").and_then(|value| extended(&value));
    let raw_name = raw_name.or_else(|| parameter(value, b"filename").map(|value| text(&value)))?;
    Some(clean(&raw_name)).filter(|name| !name.is_empty())
}

/// Returns the value of a parameter of a header, without quotation marks.
fn parameter(header: &[u8], parameter_name: &[u8]) -> Option<Vec<u8>> {
    let mut rest = bytes_after(header, b';')?;
    loop {
        let name_ends = rest.iter().position(|byte| matches!(byte, b'=' | b';'))?;
        let name = rest[..name_ends].trim_ascii();
        if rest[name_ends] == b';' {
            rest = &rest[name_ends + 1..];
            continue;
        }
        let (value, remainder) = value(rest[name_ends + 1..].trim_ascii_start());
        if name.eq_ignore_ascii_case(parameter_name) {
            return Some(value);
        }
        rest = bytes_after(remainder, b';')?;
    }
}

fn bytes_after(bytes: &[u8], separator: u8) -> Option<&[u8]> {
    bytes.iter().position(|byte| *byte == separator).map(|at| &bytes[at + 1..])
}

/// Reads a quoted string or a token. Returns it and the bytes after it.
fn value(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let Some(quoted) = bytes.strip_prefix(b"\"") else {
        let end = bytes.iter().position(|byte| *byte == b';').unwrap_or(bytes.len());
        return (bytes[..end].trim_ascii().to_vec(), &bytes[end..]);
    };
    let (mut value, mut at) = (Vec::new(), 0);
    while let Some(byte) = quoted.get(at) {
        match byte {
            b'"' => return (value, &quoted[at + 1..]),
            // A backslash before other characters belongs to the name, since browsers write Windows paths unescaped.
            b'\\' if matches!(quoted.get(at + 1), Some(b'"' | b'\\')) => {
                at += 1;
                value.push(quoted[at]);
            }
            byte => value.push(*byte),
        }
        at += 1;
    }
    (value, &[])
}

/// Returns the text of a value with a character set (RFC 8187); `None` for an invalid value.
fn extended(value: &[u8]) -> Option<String> {
    let value = str::from_utf8(value).ok()?;
    let (charset, language_and_value) = value.split_once('\'')?;
    let (_, encoded) = language_and_value.split_once('\'')?;
    let bytes: Vec<u8> = percent_decode_str(encoded).collect();
    match charset.to_ascii_lowercase().as_str() {
        "utf-8" => String::from_utf8(bytes).ok(),
        "iso-8859-1" => Some(latin(&bytes)),
        _ => None,
    }
}

/// Decodes bytes of a header as UTF-8, otherwise as ISO 8859-1.
fn text(bytes: &[u8]) -> String {
    str::from_utf8(bytes).map_or_else(|_| latin(bytes), str::to_owned)
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Returns a name without path parts and invisible characters, with at most [`MAX_NAME`] characters.
pub fn clean(raw_name: &str) -> String {
    let last = raw_name.rsplit(['/', '\\']).next().unwrap_or("");
    let name: String = last.chars().filter(|character| !is_hidden(*character)).collect();
    let name = name.trim();
    if name.chars().all(|character| character == '.') {
        return String::new();
    }
    let excess = name.chars().count().saturating_sub(MAX_NAME);
    if excess == 0 {
        return name.to_owned();
    }
    let (stem, extension) = split(name);
    let stem_length = stem.chars().count().saturating_sub(excess);
    let cut: String = stem.chars().take(stem_length).chain(extension.chars()).take(MAX_NAME).collect();
    cut
}

/// Returns whether a character is a control character or changes the direction of text, which can disguise the extension `exe` as
/// `pdf`.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Splits a name into its stem and its extension with the dot. The extension may be empty.
pub fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 => name.split_at(at),
        _ => (name, ""),
    }
}

/// Returns the extension of a name, without its dot.
pub fn extension(name: &str) -> &str {
    split(name).1.trim_start_matches('.')
}

/// Returns the media type of a file, by the extension of its name.
pub fn media_type(name: &str) -> &'static str {
    match extension(name).to_ascii_lowercase().as_str() {
        "csv" => "text/csv",
        "doc" | "dot" | "wiz" => "application/msword",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "gif" => "image/gif",
        "jfif" | "jpe" | "jpeg" | "jpg" => "image/jpeg",
        "json" => "application/json",
        "odf" => "application/vnd.oasis.opendocument.formula",
        "ods" => "application/vnd.oasis.opendocument.spreadsheet",
        "odt" => "application/vnd.oasis.opendocument.text",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "pot" | "ppa" | "pps" | "ppt" | "pwz" => "application/vnd.ms-powerpoint",
        "potx" => "application/vnd.openxmlformats-officedocument.presentationml.template",
        "ppsx" => "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "rdf" => "application/rdf+xml",
        "rtf" => "application/rtf",
        "rtx" => "text/richtext",
        "text" | "txt" => "text/plain",
        "wsdl" | "xml" | "xpdl" | "xsl" => "application/xml",
        "xla" | "xlb" | "xlc" | "xlm" | "xls" | "xlt" | "xlw" => "application/vnd.ms-excel",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn parse_disposition(disposition: &[u8]) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_bytes(disposition).unwrap());
        file_name_from_headers(&headers)
    }

    #[test]
    fn a_header_names_the_file() {
        for (disposition, name) in [
            (r#"attachment; filename=report.pdf"#, Some("report.pdf")),
            (r#"attachment; filename="my report; final.pdf""#, Some("my report; final.pdf")),
            (r#"ATTACHMENT;FileName = "a.pdf" ; size=3"#, Some("a.pdf")),
            (r#"attachment; filename="a \"b\".pdf""#, Some("a \"b\".pdf")),
            (r#"attachment; filename="C:\docs\a.pdf""#, Some("a.pdf")),
            ("attachment; filename=\"überblick.pdf\"", Some("überblick.pdf")),
            ("attachment; filename=\"plain.pdf\"; filename*=UTF-8''%C3%BCber%20blick.pdf", Some("über blick.pdf")),
            ("attachment; filename*=utf-8'de'%e2%82%ac.pdf; filename=x.pdf", Some("€.pdf")),
            ("attachment; filename*=iso-8859-1''%fc.pdf", Some("ü.pdf")),
            // An invalid value does not count.
            ("attachment; filename*=UTF-8''%ff.pdf; filename=x.pdf", Some("x.pdf")),
            ("attachment; filename*=koi8-r''%c1.pdf; filename=x.pdf", Some("x.pdf")),
            ("attachment; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd.txt", Some("passwd.txt")),
            ("attachment; filename*=UTF-8''a%0D%0Ab%00.pdf", Some("ab.pdf")),
            ("attachment; filename*=UTF-8''a%E2%80%AEfdp.exe", Some("afdp.exe")),
            ("attachment; filename=../../a.pdf", Some("a.pdf")),
            ("attachment; filename=\"a.pdf", Some("a.pdf")),
            ("attachment; filename=", None),
            ("attachment; filename=\"..\"", None),
            ("attachment; filename=\"a/\"", None),
            ("attachment", None),
            ("attachment; name=a.pdf", None),
            ("filename=a.pdf", None),
        ] {
            assert_eq!(parse_disposition(disposition.as_bytes()).as_deref(), name, "{disposition}");
        }
        assert_eq!(parse_disposition(b"attachment; filename=\"\xfcber.pdf\"").as_deref(), Some("über.pdf"));
    }

    #[test]
    fn a_long_name_is_cut_before_its_extension() {
        let long = format!("{}.final.docx", "ä".repeat(400));
        let cut = clean(&long);
        assert_eq!((cut.chars().count(), extension(&cut)), (255, "docx"));
        assert_eq!(clean(&format!(".{}", "x".repeat(400))).chars().count(), 255);
        assert_eq!(clean(&format!("a.{}", "x".repeat(400))).chars().count(), 255);
    }

    #[test]
    fn an_extension_is_what_follows_the_last_dot() {
        for (name, parts) in [
            ("a.tar.gz", ("a.tar", ".gz")),
            ("README", ("README", "")),
            (".htaccess", (".htaccess", "")),
            ("a.", ("a", ".")),
        ] {
            assert_eq!(split(name), parts, "{name}");
        }
        assert_eq!((extension("a."), extension("A.PDF")), ("", "PDF"));
        assert_eq!((media_type("A.PDF"), media_type("a.zzz")), ("application/pdf", "application/octet-stream"));
    }
}
