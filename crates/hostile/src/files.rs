//! The names of uploaded files, as headers and values tell them.

use http::{HeaderMap, HeaderValue, header};
use platform::files::file_name::{MAX_NAME, clean, extension, file_name_from_headers, media_type, split};

/// The value of a `Content-Disposition`, and a name.
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
    // Whoever writes a header as RFC 6266 has it is understood.
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; size=1; filename=\"{quoted}\"")) {
        let headers = HeaderMap::from_iter([(header::CONTENT_DISPOSITION, value)]);
        assert_eq!(file_name_from_headers(&headers).unwrap_or_default(), name, "{text:?}");
    }
}

/// What is kept as a name leads nowhere, fits, and is a name again.
fn check_name(name: &str) {
    assert!(!name.is_empty() && name.chars().count() <= MAX_NAME, "{name:?}");
    assert!(!name.contains(['/', '\\']) && !name.chars().any(char::is_control), "{name:?}");
    assert!(name != "." && name != "..", "{name:?}");
    // One that was cut may end with a blank, which is a name's end no more.
    assert_eq!(clean(name), name.trim(), "{name:?}");
    let (stem, dotted) = split(name);
    assert_eq!(format!("{stem}{dotted}"), name);
    assert!(!stem.is_empty() && dotted.trim_start_matches('.') == extension(name), "{name:?}");
    assert_eq!(media_type(name), media_type(&name.to_uppercase()), "{name:?}");
}
