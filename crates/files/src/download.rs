//! Sends files: always as attachments, in ranges if the request asks for them (RFC 9110, section 14), and with a tag for
//! conditional requests (`docs/reference/files.md`).

use crate::storage::{Storage, key, to_store_error};
use crate::stored_files::StoredFile;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use kit::answer::{Answer, EntityTag, Outcome, attachment, etag};
use kit::download_place;
use kit::refusal::Refusal;
use kit::request::Request;
use std::ops::Range;
use store::blobs::BlobContent;

/// The media type of all files. Browsers do not display it.
const FORCE_DOWNLOAD: &str = "application/force-download";

/// Returns the answer with a file, or with the range of it that the request asks for.
pub async fn send(request: &Request, file: &StoredFile) -> Outcome {
    let (tag, size) = (tag(file), file.size as u64);
    let requested_range = match request.method {
        Method::GET => RequestedRange::from_headers(&request.headers, tag, size),
        _ => RequestedRange::Whole,
    };
    let is_unread = request.method == Method::HEAD || tag.is_named_by_if_none_match(&request.headers);
    let range = match &requested_range {
        RequestedRange::Whole => None,
        RequestedRange::Part(range) => Some(range.clone()),
        RequestedRange::Nothing => {
            let refusal = Refusal::detail(StatusCode::RANGE_NOT_SATISFIABLE, "The requested range is not satisfiable.");
            return Err(refusal.header(header::CONTENT_RANGE, &format!("bytes */{size}")));
        }
    };
    let length = range.as_ref().map_or(size, |range| range.end - range.start);
    let mut answer = match is_unread {
        true => Answer::pieces(FORCE_DOWNLOAD, Some(length), async |_| Ok(())),
        false => content(request, file, range.clone(), length).await?,
    };
    answer.tag = Some(tag);
    let policy = HeaderValue::from_static("sandbox");
    answer.headers = vec![attachment(&file.name), (header::CONTENT_SECURITY_POLICY, policy)];
    answer.headers.push((header::ACCEPT_RANGES, HeaderValue::from_static("bytes")));
    if is_unread && request.method != Method::HEAD {
        return Ok(answer.not_modified());
    }
    if let Some(Range { start, end }) = range {
        answer.status = StatusCode::PARTIAL_CONTENT;
        let shown = format!("bytes {start}-{}/{size}", end - 1);
        answer.headers.extend(HeaderValue::try_from(shown).ok().map(|shown| (header::CONTENT_RANGE, shown)));
    }
    Ok(answer)
}

/// Returns the tag of a file. The bytes of a file never change.
pub fn tag(file: &StoredFile) -> EntityTag {
    etag(file.uuid.as_bytes())
}

async fn content(request: &Request, file: &StoredFile, range: Option<Range<u64>>, length: u64) -> Outcome {
    let storage: &Storage = request.app.slot();
    let place = download_place(request).await?;
    let blob = storage.blobs.read(&key(&request.build, &file.uuid), range).await.map_err(to_store_error)?;
    Ok(match blob {
        BlobContent::File { file, .. } => Answer::file(FORCE_DOWNLOAD, file, length, Some(place)),
        BlobContent::Stream { mut stream, .. } => Answer::pieces(FORCE_DOWNLOAD, Some(length), async move |producer| {
            let _place = place;
            while let Some(bytes) = stream.next().await {
                // The bytes are a part of the connection's buffer.
                producer.send_copied(&bytes?).await?;
            }
            Ok(())
        }),
    })
}

/// The part of a file that a request asks for.
#[derive(Debug, PartialEq)]
enum RequestedRange {
    Whole,
    Part(Range<u64>),
    /// A range that begins behind the end of the file.
    Nothing,
}

impl RequestedRange {
    /// Reads the range in the headers of a request. An invalid range, other units, several parts, and another state in `If-Range`
    /// count as no range.
    fn from_headers(headers: &HeaderMap, tag: EntityTag, size: u64) -> RequestedRange {
        let Some(range) = headers.get(header::RANGE).and_then(|value| value.to_str().ok()) else {
            return RequestedRange::Whole;
        };
        let is_other =
            headers.get(header::IF_RANGE).is_some_and(|state| state.as_bytes() != tag.to_string().as_bytes());
        let range = range.trim().strip_prefix("bytes=").filter(|_| !is_other).and_then(|range| range.split_once('-'));
        let bounds = range.map(|(first, last)| (RangeBound::parse(first), RangeBound::parse(last)));
        let Some((Some(first), Some(last))) = bounds else { return RequestedRange::Whole };
        match (first, last) {
            (RangeBound::Open, RangeBound::Open) => RequestedRange::Whole,
            (RangeBound::Open, RangeBound::Number(0)) => RequestedRange::Nothing,
            (RangeBound::Open, RangeBound::Number(count)) => RequestedRange::Part(size.saturating_sub(count)..size),
            (RangeBound::Number(first), RangeBound::Number(last)) if first > last => RequestedRange::Whole,
            (RangeBound::Number(first), _) if first >= size => RequestedRange::Nothing,
            (RangeBound::Number(first), RangeBound::Open) => RequestedRange::Part(first..size),
            (RangeBound::Number(first), RangeBound::Number(last)) => {
                RequestedRange::Part(first..size.min(last.saturating_add(1)))
            }
        }
    }
}

/// The number before or behind the hyphen of a range.
enum RangeBound {
    /// There is no number.
    Open,
    Number(u64),
}

impl RangeBound {
    /// Parses it. `None` if it is not a number.
    fn parse(text: &str) -> Option<RangeBound> {
        let text = text.trim();
        if text.is_empty() {
            return Some(RangeBound::Open);
        }
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that is too long is behind the end of any file.
        is_number.then(|| RangeBound::Number(text.parse().unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_part_of_a_file() {
        let tag = etag(b"state");
        let requested_range = |range: &str, if_range: Option<String>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, range.parse().unwrap());
            headers.extend(if_range.map(|state| (header::IF_RANGE, state.parse().unwrap())));
            RequestedRange::from_headers(&headers, tag, 10)
        };
        for (range, expected) in [
            ("bytes=0-3", RequestedRange::Part(0..4)),
            ("bytes=3-", RequestedRange::Part(3..10)),
            ("bytes=9-9", RequestedRange::Part(9..10)),
            ("bytes=5-99999999999999999999999", RequestedRange::Part(5..10)),
            ("bytes=-4", RequestedRange::Part(6..10)),
            ("bytes=-40", RequestedRange::Part(0..10)),
            ("bytes=10-", RequestedRange::Nothing),
            ("bytes=99999999999999999999999-", RequestedRange::Nothing),
            ("bytes=-0", RequestedRange::Nothing),
            ("bytes=4-3", RequestedRange::Whole),
            ("bytes=-", RequestedRange::Whole),
            ("bytes=0-1,3-4", RequestedRange::Whole),
            ("bytes=a-b", RequestedRange::Whole),
            ("bytes=+1-2", RequestedRange::Whole),
            ("lines=0-1", RequestedRange::Whole),
        ] {
            assert_eq!(requested_range(range, None), expected, "{range}");
        }
        assert_eq!(requested_range("bytes=0-3", Some(tag.to_string())), RequestedRange::Part(0..4));
        assert_eq!(requested_range("bytes=0-3", Some(format!("W/{tag}"))), RequestedRange::Whole);
        assert_eq!(requested_range("bytes=0-3", Some("\"other\"".to_owned())), RequestedRange::Whole);
    }
}
