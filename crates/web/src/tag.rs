//! Entity tags, and the headers that name them (RFC 9110, sections 8.8.3 and 13.1).

use http::{HeaderMap, HeaderName, header};
use std::fmt;

/// Identifies a state of the answer of an address. It is a strong tag, of the bytes before they are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag(u64);

/// Returns the tag of a body: a hash (FNV-1a, of words) of its bytes. It is not a secret, and cheap enough for every read.
pub fn etag(body: &[u8]) -> EntityTag {
    let mix = |hash: u64, word: &[u8; 8]| {
        let mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
        mixed ^ (mixed >> 32)
    };
    let (words, rest) = body.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    EntityTag(mix(words.iter().fold(0xcbf2_9ce4_8422_2325, mix), &last))
}

impl EntityTag {
    /// Returns whether `If-Match` names this state. The comparison is strong: a weak tag never matches.
    pub fn is_named_by_if_match(self, headers: &HeaderMap) -> bool {
        let tag = self.to_string();
        listed_tags(headers, &header::IF_MATCH).any(|named| named == b"*" || named == tag.as_bytes())
    }

    /// Returns whether `If-None-Match` names this state. The comparison is weak.
    pub fn is_named_by_if_none_match(self, headers: &HeaderMap) -> bool {
        if !headers.contains_key(header::IF_NONE_MATCH) {
            return false;
        }
        let tag = self.to_string();
        let strong = |named: &'_ [u8]| named.strip_prefix(b"W/").unwrap_or(named) == tag.as_bytes();
        listed_tags(headers, &header::IF_NONE_MATCH).any(|named| named == b"*" || strong(named))
    }
}

/// Returns the items of a header that lists tags, without checking them. Tags of this server have no commas.
fn listed_tags<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let values = headers.get_all(name).into_iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{:016x}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_header_names_a_state_by_its_tag() {
        let tag = etag(b"body");
        let named = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_bytes(value).unwrap());
                headers.append(header::IF_NONE_MATCH, HeaderValue::from_bytes(value).unwrap());
            }
            (tag.is_named_by_if_match(&headers), tag.is_named_by_if_none_match(&headers))
        };
        let (strong, weak) = (tag.to_string(), format!("W/{tag}"));
        let (listed, several_tags) = (format!("\"other\" ,{tag}"), [b"\"other\"".as_slice(), strong.as_bytes()]);
        for (values, expected) in [
            (vec![strong.as_bytes()], (true, true)),
            (vec![listed.as_bytes()], (true, true)),
            (several_tags.to_vec(), (true, true)),
            (vec![b"*".as_slice()], (true, true)),
            (vec![weak.as_bytes()], (false, true)),
            (vec![b"\"other\"".as_slice()], (false, false)),
            (vec![strong.trim_matches('"').as_bytes()], (false, false)),
            (vec![b"".as_slice()], (false, false)),
            (vec![b"\xff,\"".as_slice()], (false, false)),
            (vec![], (false, false)),
        ] {
            assert_eq!(named(&values), expected, "{values:?}");
        }
    }
}
