//! Caches lists and instances until something is written to the database of their build.
//!
//! A cached answer is served only if the state tag of the build's database ([`store::StateTag`]) is
//! unchanged. Each request reads the tag, and every commit of any process changes it. A cached answer
//! therefore equals a new one, and invalidation is not needed. The key contains all other inputs of an
//! answer except the time. For the time the answer has a validity ([`Answer::cacheable_until`]).

use crate::answer::{Answer, AnswerBody, AnswerSubject, EntityTag, Outcome};
use crate::bounded_cache::{BoundedCache, CacheBounds};
use crate::request::Request;
use bytes::Bytes;
use http::StatusCode;
use std::hash::RandomState;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use store::StateTag;

/// The maximum size of all answers together, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of a cached answer, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// The approximate size of an entry without its key and its body, in bytes.
const OVERHEAD_BYTES: usize = 350;
/// The number of shards of the cache, each with its own lock.
const SHARDS: usize = 8;
/// The maximum number of earlier state tags that an answer stores, since connections come and go.
const MAX_STATE_TAGS: usize = 64;
/// The maximum time for which a complete answer waits for the state tag that decides whether it is cached.
const PATIENCE: Duration = Duration::from_millis(50);
/// The binary logarithm of the bound on the number of requests for which an address bypasses the cache.
const LONGEST_PAUSE: u32 = 6;

/// All inputs of an answer, except the database and the time. They are in one allocation, since there are many keys.
#[derive(Clone, PartialEq, Eq, Hash)]
struct AnswerKey(Box<[u8]>);

/// The cached state of a requested address.
#[derive(Default)]
struct CachedAddress {
    shown: Option<CachedAnswer>,
    /// The number of writes of this process at the last request. If it has grown since, the state tag is not read.
    writes: AtomicU64,
    /// The number of failed lookups since the last hit.
    in_vain: AtomicU32,
    /// The number of requests for which the address bypasses the cache.
    rest: AtomicU32,
}

struct CachedAnswer {
    body: Bytes,
    tag: Option<EntityTag>,
    subject: Option<AnswerSubject>,
    /// The validity of the answer, in microseconds since 1970.
    validity: Range<i64>,
    /// The state of the database: one tag per source.
    stamps: Box<[StateTag]>,
}

/// The cached answers of a process.
pub struct AnswerCache {
    kept: BoundedCache<AnswerKey, Arc<CachedAddress>, RandomState>,
    hits: AtomicU64,
}

/// Answers a read from the cache if the cached answer is still valid; otherwise runs the read and caches its answer.
pub async fn answer(request: Arc<Request>, look: impl AsyncFnOnce(Arc<Request>) -> Outcome) -> Outcome {
    let key = AnswerKey::for_request(&request);
    cached_or_run(request, key, look).await
}

/// Answers a read that is not a request. The texts of `call` identify it; the first text does not begin like a path.
pub async fn answer_call(
    request: Arc<Request>,
    call: [&str; 3],
    look: impl AsyncFnOnce(Arc<Request>) -> Outcome,
) -> Outcome {
    let key = AnswerKey::new(&request, call.into_iter());
    cached_or_run(request, key, look).await
}

async fn cached_or_run(
    request: Arc<Request>,
    key: Option<AnswerKey>,
    look: impl AsyncFnOnce(Arc<Request>) -> Outcome,
) -> Outcome {
    let Some(key) = key else { return look(request).await };
    let (db, app, now) = (request.build.db.clone(), request.app.clone(), request.now);
    let cache: &AnswerCache = app.slot();
    let Some(cached_address) = cache.entry(&key, db.writes()) else { return look(request).await };
    let before = db.state_tag().await?;
    if let Some(answer) = cached_address.hit(before.as_ref(), now) {
        cache.hits.fetch_add(1, Ordering::Relaxed);
        return Ok(answer);
    }
    let answer = look(request).await?;
    let (Some(end), Some(stamp)) = (answer.cacheable_until, before) else {
        cached_address.was_in_vain();
        return Ok(answer);
    };
    // The state tag is equal before and after the read, so the answer shows the state that the tag identifies.
    if let Ok(Ok(Some(after))) = tokio::time::timeout(PATIENCE, db.state_tag()).await
        && after == stamp
    {
        cache.store(key, &cached_address, stamp, now..end, &answer);
    }
    Ok(answer)
}

impl AnswerKey {
    /// Returns `None` for the calls that tools of agents make, since the answers of the tools are cached instead.
    fn for_request(request: &Request) -> Option<AnswerKey> {
        if request.caller.as_ref()?.agent.is_some() {
            return None;
        }
        let query = request.query.pairs().flat_map(|(name, value)| [name, value]);
        AnswerKey::new(request, std::iter::once(request.path.as_str()).chain(query))
    }

    /// Returns `None` for a request without a caller. Such an answer is not cached.
    fn new<'a>(request: &'a Request, call: impl Iterator<Item = &'a str>) -> Option<AnswerKey> {
        let caller = request.caller.as_ref()?;
        let mut key = Vec::with_capacity(160);
        let api_key = caller.key.map_or(0, |used| used.id.get());
        for number in [caller.session.get(), api_key, caller.version] {
            key.extend(number.to_le_bytes());
        }
        for text in [request.build.uid.as_str(), &request.origin].into_iter().chain(call) {
            // The length comes first, so that different lists of texts have different keys.
            key.extend(text.len().to_le_bytes());
            key.extend(text.as_bytes());
        }
        Some(AnswerKey(key.into()))
    }
}

fn weight_of_answer(key: &AnswerKey, cached_address: &Arc<CachedAddress>) -> usize {
    key.0.len() + cached_address.shown.as_ref().map_or(0, |shown| shown.body.len()) + OVERHEAD_BYTES
}

impl Default for AnswerCache {
    fn default() -> AnswerCache {
        let usual_entries = MAX_BYTES / (4 * OVERHEAD_BYTES);
        let bounds = CacheBounds { bytes: MAX_BYTES as u64, usual_entries, shards: SHARDS };
        AnswerCache { kept: BoundedCache::new(bounds, weight_of_answer), hits: AtomicU64::new(0) }
    }
}

impl AnswerCache {
    /// Returns the number of answers that were served from the cache.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Returns the cached state of an address; `None` if the address was not requested since the last
    /// write, or bypasses the cache. A single request of an address therefore does not read a state tag.
    fn entry(&self, key: &AnswerKey, writes: u64) -> Option<Arc<CachedAddress>> {
        let Some(cached_address) = self.kept.get(key) else {
            self.kept
                .insert(key.clone(), Arc::new(CachedAddress { writes: writes.into(), ..CachedAddress::default() }));
            return None;
        };
        if cached_address.writes.swap(writes, Ordering::Relaxed) != writes {
            return None;
        }
        let countdown =
            cached_address.rest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        countdown.is_err().then_some(cached_address)
    }

    fn store(
        &self,
        key: AnswerKey,
        cached_address: &CachedAddress,
        stamp: StateTag,
        validity: Range<i64>,
        answer: &Answer,
    ) {
        // An answer with headers of its own, or with a body that is not in memory, is not cached.
        let AnswerBody::Whole(body) = &answer.body else { return };
        if body.len() > MAX_ANSWER_BYTES || !answer.headers.is_empty() {
            return;
        }
        let shown = match &cached_address.shown {
            Some(before) if before.shows(answer, body) && before.validity.end == validity.end => {
                before.also_at(stamp, validity.start)
            }
            // The copy has exactly the length of the body; the buffer of the writer is larger.
            _ => CachedAnswer {
                body: Bytes::copy_from_slice(body),
                tag: answer.tag,
                subject: answer.subject,
                validity,
                stamps: [stamp].into(),
            },
        };
        let writes = cached_address.writes.load(Ordering::Relaxed).into();
        let (in_vain, rest) = (load(&cached_address.in_vain).into(), load(&cached_address.rest).into());
        self.kept.insert(key, Arc::new(CachedAddress { shown: Some(shown), writes, in_vain, rest }));
    }
}

impl CachedAddress {
    fn hit(&self, stamp: Option<&StateTag>, now: i64) -> Option<Answer> {
        let (shown, stamp) = (self.shown.as_ref()?, stamp?);
        if shown.stamps.contains(stamp) {
            self.in_vain.store(0, Ordering::Relaxed);
            let answer = || Answer {
                tag: shown.tag,
                subject: shown.subject,
                ..Answer::json(StatusCode::OK, shown.body.clone())
            };
            return shown.validity.contains(&now).then(answer);
        }
        // A source without a tag here does not indicate a change of the database.
        if shown.stamps.iter().any(|tag| tag.is_of_same_source(stamp)) {
            self.was_in_vain();
        }
        None
    }

    /// Counts a failed lookup. The address changes faster than it is read, so it bypasses the cache, longer each time.
    fn was_in_vain(&self) {
        let times = load(&self.in_vain).saturating_add(1);
        self.in_vain.store(times, Ordering::Relaxed);
        self.rest.store((1 << times.min(LONGEST_PAUSE)) - 2, Ordering::Relaxed);
    }
}

impl CachedAnswer {
    /// Returns whether the cached answer has the body and the subject of another one.
    fn shows(&self, answer: &Answer, body: &Bytes) -> bool {
        self.body == body && self.subject == answer.subject
    }

    /// Returns the same answer with the tag of another source, or with another tag of the same source.
    fn also_at(&self, stamp: StateTag, start: i64) -> CachedAnswer {
        let other_tags = self.stamps.iter().filter(|tag| !tag.is_of_same_source(&stamp)).take(MAX_STATE_TAGS).cloned();
        let stamps = std::iter::once(stamp.clone()).chain(other_tags).collect();
        let validity = self.validity.start.max(start)..self.validity.end;
        CachedAnswer { body: self.body.clone(), tag: self.tag, subject: self.subject, validity, stamps }
    }
}

fn load(number: &AtomicU32) -> u32 {
    number.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_answers_stay_within_their_bytes_and_a_large_one_finds_its_place() {
        let cache = AnswerCache::default();
        let shown = |bytes: usize| {
            let (body, stamps) = (Bytes::from(vec![b' '; bytes]), [].into());
            Arc::new(CachedAddress {
                shown: Some(CachedAnswer { body, tag: None, subject: None, validity: 0..1, stamps }),
                ..CachedAddress::default()
            })
        };
        for n in 0..50_000_u64 {
            cache.kept.insert(AnswerKey(n.to_le_bytes().into()), shown(1000));
        }
        assert!((MAX_BYTES as u64 / 2..=MAX_BYTES as u64).contains(&cache.kept.weight()), "{}", cache.kept.weight());
        let large = AnswerKey([1].into());
        cache.kept.insert(large.clone(), shown(MAX_ANSWER_BYTES));
        assert!(cache.kept.get(&large).is_some());
    }
}
