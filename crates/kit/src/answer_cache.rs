//! Lists and instances that are shown again: most of what a read costs is done once as long as nothing is written.
//!
//! An answer is given again only while its build's database is known to be what it was: its stamp ([`store::StateTag`]) is
//! asked for in each request, and changes with every commit of any process. So nothing is ever shown that a new look
//! would not show, and nothing needs to be told of changes. Of what an answer depends on besides, the key holds
//! everything but time, and time is the answer's own ([`Answer::cacheable_until`]).

use crate::answer::{Answer, AnswerBody, AnswerSubject, EntityTag, Outcome};
use crate::request::Request;
use bytes::Bytes;
use http::StatusCode;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::RandomState;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use store::StateTag;

/// What all answers together may take, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// An answer that takes more is not kept.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// What one takes beside its key and its body, about.
const OVERHEAD_BYTES: usize = 350;
/// Parts of the memory with a lock each.
const SHARDS: usize = 8;
/// More stamps than this of one answer are not remembered: connections come and go.
const MAX_STATE_TAGS: usize = 64;
/// How long an answer that is ready waits to learn whether it may be kept.
const PATIENCE: Duration = Duration::from_millis(50);
/// The binary logarithm of how many requests an address is left alone for at most.
const LONGEST_PAUSE: u32 = 6;

/// All that an answer depends on, but for the database and the time, in one piece: there are many of them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct AnswerKey(Box<[u8]>);

/// What is known of an address that was asked for.
#[derive(Default)]
struct CachedAddress {
    shown: Option<CachedAnswer>,
    /// The writes of this process when it was asked for last: if there were more since, no stamp need be asked for.
    writes: AtomicU64,
    /// Looks in vain since the answer was last given again.
    in_vain: AtomicU32,
    /// Requests for which the address is left alone.
    rest: AtomicU32,
}

struct CachedAnswer {
    body: Bytes,
    tag: Option<EntityTag>,
    subject: Option<AnswerSubject>,
    /// The moments at which it is right.
    moments: Range<i64>,
    /// The state of the database, as each of its sources names it.
    stamps: Box<[StateTag]>,
}

/// The answers of a process that may be given again.
pub struct AnswerCache {
    kept: Cache<AnswerKey, Arc<CachedAddress>, AnswerWeighter, RandomState>,
    hits: AtomicU64,
}

/// Weighs what is kept in bytes, about.
#[derive(Clone)]
struct AnswerWeighter;

/// Answers a read: with what was shown before, if it is still what a new look would show.
pub async fn answer(request: Arc<Request>, look: impl AsyncFnOnce(Arc<Request>) -> Outcome) -> Outcome {
    let key = AnswerKey::for_request(&request);
    cached_or_run(request, key, look).await
}

/// Answers a read that is no request of its own, but said by these texts, of which the first does not begin as a path.
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
    let Some(known) = cache.entry(&key, db.writes()) else { return look(request).await };
    let before = db.state_tag().await?;
    if let Some(answer) = known.hit(before.as_ref(), now) {
        cache.hits.fetch_add(1, Ordering::Relaxed);
        return Ok(answer);
    }
    let answer = look(request).await?;
    let (Some(until), Some(stamp)) = (answer.cacheable_until, before) else {
        known.was_in_vain();
        return Ok(answer);
    };
    // Nothing was committed around it, so the answer shows the state that the stamp names.
    if let Ok(Ok(Some(after))) = tokio::time::timeout(PATIENCE, db.state_tag()).await
        && after == stamp
    {
        cache.store(key, &known, stamp, now..until, &answer);
    }
    Ok(answer)
}

impl AnswerKey {
    /// `None` for the calls that tools of agents make: what is kept of these is the answers of the tools.
    fn for_request(request: &Request) -> Option<AnswerKey> {
        if request.caller.as_ref()?.agent.is_some() {
            return None;
        }
        let query = request.query.pairs().flat_map(|(name, value)| [name, value]);
        AnswerKey::new(request, std::iter::once(request.path.as_str()).chain(query))
    }

    /// `None` where nothing is kept: for callers who are nobody.
    fn new<'a>(request: &'a Request, call: impl Iterator<Item = &'a str>) -> Option<AnswerKey> {
        let caller = request.caller.as_ref()?;
        let mut key = Vec::with_capacity(160);
        for number in [caller.session, caller.version] {
            key.extend(number.to_le_bytes());
        }
        for text in [request.build.uid.as_str(), &request.origin].into_iter().chain(call) {
            // The length comes first, so that no two lists of texts are alike.
            key.extend(text.len().to_le_bytes());
            key.extend(text.as_bytes());
        }
        Some(AnswerKey(key.into()))
    }
}

impl Weighter<AnswerKey, Arc<CachedAddress>> for AnswerWeighter {
    fn weight(&self, key: &AnswerKey, known: &Arc<CachedAddress>) -> u64 {
        (key.0.len() + known.shown.as_ref().map_or(0, |shown| shown.body.len()) + OVERHEAD_BYTES) as u64
    }
}

impl Default for AnswerCache {
    fn default() -> AnswerCache {
        let (bytes, items) = (MAX_BYTES as u64, MAX_BYTES / (4 * OVERHEAD_BYTES));
        let mut options = OptionsBuilder::new();
        let options = options.weight_capacity(bytes).estimated_items_capacity(items).shards(SHARDS).build();
        let options = options.expect("a size and a number are given");
        let kept = Cache::with_options(options, AnswerWeighter, RandomState::default(), DefaultLifecycle::default());
        AnswerCache { kept, hits: AtomicU64::new(0) }
    }
}

impl AnswerCache {
    /// How often an answer was given again.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// `None` for an address that was not asked for since the last write, or rests: who asks once pays nothing for the
    /// others.
    fn entry(&self, key: &AnswerKey, writes: u64) -> Option<Arc<CachedAddress>> {
        let Some(known) = self.kept.get(key) else {
            self.kept
                .insert(key.clone(), Arc::new(CachedAddress { writes: writes.into(), ..CachedAddress::default() }));
            return None;
        };
        if known.writes.swap(writes, Ordering::Relaxed) != writes {
            return None;
        }
        let less = known.rest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rest| rest.checked_sub(1));
        less.is_err().then_some(known)
    }

    fn store(&self, key: AnswerKey, known: &CachedAddress, stamp: StateTag, moments: Range<i64>, answer: &Answer) {
        // Headers of its own have no place in what is kept, nor has what is not in memory.
        let AnswerBody::Whole(body) = &answer.body else { return };
        if body.len() > MAX_ANSWER_BYTES || !answer.headers.is_empty() {
            return;
        }
        let shown = match &known.shown {
            Some(before) if before.shows(answer, body) && before.moments.end == moments.end => {
                before.also_at(stamp, moments.start)
            }
            // A copy, which is exactly as long as it is: the writer has taken more.
            _ => CachedAnswer {
                body: Bytes::copy_from_slice(body),
                tag: answer.tag,
                subject: answer.subject,
                moments,
                stamps: [stamp].into(),
            },
        };
        let writes = known.writes.load(Ordering::Relaxed).into();
        let (in_vain, rest) = (load(&known.in_vain).into(), load(&known.rest).into());
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
            return shown.moments.contains(&now).then(answer);
        }
        // A source that has not named the state yet is no change of it.
        if shown.stamps.iter().any(|known| known.is_of_same_source(stamp)) {
            self.was_in_vain();
        }
        None
    }

    /// The address changes faster than it is asked for, so it is left alone for a while, and longer each time.
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

    /// The same, which another source has named the state of, or the same source another state.
    fn also_at(&self, stamp: StateTag, since: i64) -> CachedAnswer {
        let others = self.stamps.iter().filter(|known| !known.is_of_same_source(&stamp)).take(MAX_STATE_TAGS).cloned();
        let stamps = std::iter::once(stamp.clone()).chain(others).collect();
        let moments = self.moments.start.max(since)..self.moments.end;
        CachedAnswer { body: self.body.clone(), tag: self.tag, subject: self.subject, moments, stamps }
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
                shown: Some(CachedAnswer { body, tag: None, subject: None, moments: 0..1, stamps }),
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
