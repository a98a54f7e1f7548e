//! The names of uploaded files, in headers and values.

use http::{HeaderMap, HeaderValue, header};
use platform::files::file_name::{MAX_NAME, clean, extension, file_name_from_headers, media_type, split};

/// Uses the input as the value of a `Content-Disposition`, and as a name.
pub fn files(data: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(data) {
        let headers = HeaderMap::from_iter([(header::CONTENT_DISPOSITION, value)]);
        if let Some(name) = file_name_from_headers(&headers) {
            check_name(&name);
        }
    }
    let Ok(text) = str::from_utf8(data) else { return };
    let name = clean(text);
    if !name.is_empty() {
        check_name(&name);
    }
    // A header in the form of RFC 6266 is parsed correctly.
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; size=1; filename=\"{quoted}\"")) {
        let headers = HeaderMap::from_iter([(header::CONTENT_DISPOSITION, value)]);
        assert_eq!(file_name_from_headers(&headers).unwrap_or_default(), name, "{text:?}");
    }
}

/// Checks that a stored name contains no path, is not too long, and is a valid name again.
fn check_name(name: &str) {
    assert!(!name.is_empty() && name.chars().count() <= MAX_NAME, "{name:?}");
    assert!(!name.contains(['/', '\\']) && !name.chars().any(char::is_control), "{name:?}");
    assert!(name != "." && name != "..", "{name:?}");
    // A shortened name can end with a blank, which the end of a name does not allow.
    assert_eq!(clean(name), name.trim(), "{name:?}");
    let (stem, dotted) = split(name);
    assert_eq!(format!("{stem}{dotted}"), name);
    assert!(!stem.is_empty() && dotted.trim_start_matches('.') == extension(name), "{name:?}");
    assert_eq!(media_type(name), media_type(&name.to_uppercase()), "{name:?}");
}
