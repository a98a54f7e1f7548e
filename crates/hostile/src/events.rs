//! Compressed and plain bodies of the history service.

use history::event::{CATEGORIES, EARLIEST, HISTORY_TYPES, LATEST, SOURCE_TYPES, SYSTEM_TYPES};
use history::readers::{self, HistoryRefusal};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value as Json;
use std::collections::HashSet;

/// The maximum number of events in a batch. It is small, so that small inputs reach it.
const MOST: usize = 3;

/// The first byte selects the compression of the rest, which is parsed as a batch and as a single event.
pub fn events(data: &[u8]) {
    let Some((packing, packed)) = data.split_first() else { return };
    let mut headers = HeaderMap::new();
    let named = match packing {
        b'g' => Some("gzip"),
        b'd' => Some("deflate"),
        b'?' => Some("br"),
        _ => None,
    };
    headers.extend(named.map(|name| (header::CONTENT_ENCODING, HeaderValue::from_static(name))));
    let body = match readers::unpack(&headers, packed) {
        Ok(body) => body,
        Err(refusal) => return check_refusal(&refusal, &[400, 413, 415]),
    };
    assert!(body.len() <= readers::LARGEST);
    batch(&body);
    check_single_event(&body);
}

fn batch(body: &[u8]) {
    match readers::batch(body, MOST) {
        Ok(events) => {
            let ids: HashSet<_> = events.iter().map(|event| event.id).collect();
            assert!(ids.len() == events.len() && events.len() <= MOST, "{events:?}");
            for event in &events {
                assert!((EARLIEST..=LATEST).contains(&event.at), "{event:?}");
                assert!((1..=CATEGORIES.len()).contains(&event.category.into()), "{event:?}");
                assert!((1..=SYSTEM_TYPES.len()).contains(&event.event_type.into()), "{event:?}");
                assert!(usize::from(event.source_type) <= SOURCE_TYPES.len(), "{event:?}");
            }
        }
        Err(refusal) => check_refusal(&refusal, &[400, 422]),
    }
}

fn check_single_event(body: &[u8]) {
    match readers::create_event(body) {
        Ok((_, event)) => {
            assert!((EARLIEST..=LATEST).contains(&event.at), "{event:?}");
            assert!((1..=HISTORY_TYPES.len()).contains(&event.event_type.into()), "{event:?}");
            assert!((1..=SOURCE_TYPES.len()).contains(&event.source_type.into()), "{event:?}");
            // Lists send it unchanged.
            assert!(serde_json::from_str::<Vec<Json>>(&event.data).is_ok(), "{event:?}");
        }
        Err(refusal) => check_refusal(&refusal, &[400, 422]),
    }
}

/// Checks that a refusal describes the error of the sender, and is not an internal error.
fn check_refusal(refusal: &HistoryRefusal, statuses: &[u16]) {
    let (status, body) = refusal.status_and_body();
    assert!(statuses.contains(&status.as_u16()) && refusal.cause.is_none(), "{refusal:?}");
    let body: Json = serde_json::from_slice(body).unwrap_or_default();
    let places = body["detail"].as_array();
    assert!(body["detail"].is_string() || places.is_some_and(|all| !all.is_empty()), "{body}");
}
