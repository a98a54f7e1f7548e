//! Pages of lists that are shown again: most of what a list costs is done once as long as nothing is written.
//!
//! A page is shown again only while its build's database is known to be what it was: its stamp ([`store::Stamp`]) is
//! asked for in each request, and changes with every commit of any process. So nothing is ever shown that a new look
//! would not show, and nothing needs to be told of changes. Of what a page depends on besides, the key holds everything
//! but time, and time is the page's own ([`Answer::holds_until`]).

use crate::http::{Answer, Outcome, Request};
use bytes::Bytes;
use http::StatusCode;
use resource::Query;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Conn, Stamp};

/// What all pages together may take, in bytes; then all are forgotten.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// A page that takes more is not kept.
const LARGEST: usize = 256 * 1024;
/// More addresses than this are forgotten together.
const MOST: usize = 4096;
/// More stamps than this of one page are not remembered: connections come and go.
const MOST_STAMPS: usize = 64;
/// How long an answer that is ready waits to learn whether it may be kept.
const PATIENCE: Duration = Duration::from_millis(50);
/// From so many looks in vain on, a page is left alone for a while: it changes faster than it is asked for.
const IN_VAIN: u32 = 3;
/// The binary logarithm of how many requests it is left alone for at most.
const LONGEST_REST: u32 = 6;

/// All that a page depends on, but for the database and the time.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    build: String,
    session: i64,
    /// The rights under which the caller sees it.
    rights: i64,
    origin: String,
    path: String,
    query: Query,
}

/// What is known of an address that was asked for.
#[derive(Default)]
struct Known {
    page: Option<Page>,
    /// Looks since the last one that found the page.
    in_vain: u32,
    /// Requests for which it is left alone.
    rest: u32,
}

struct Page {
    body: Bytes,
    /// The moments at which it is right.
    moments: Range<i64>,
    /// The state of the database, as each of its sources names it.
    stamps: Vec<Stamp>,
}

/// The pages of a process.
#[derive(Default)]
pub struct Pages(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    known: HashMap<Key, Known>,
    bytes: usize,
    shown_again: u64,
}

/// Answers a list: with the page that was shown before, if it is still what a new look would show.
pub async fn answer(request: Arc<Request>, handler: fn(&Request, &mut Conn) -> Outcome) -> Outcome {
    let (db, app, now) = (request.build.db.clone(), request.app.clone(), request.now);
    let Some(key) = Key::of(&request).filter(|key| app.pages.is_worth_a_look(key)) else {
        return db.read(move |conn| handler(&request, conn)).await;
    };
    let before = db.stamp().await?;
    if let Some(body) = app.pages.find(&key, before.as_ref(), now) {
        return Ok(Answer::json(StatusCode::OK, body));
    }
    let answer = db.read(move |conn| handler(&request, conn)).await?;
    // Nothing was committed around it, so the page shows the state that the stamp names.
    if let (Some(until), Some(stamp)) = (answer.holds_until, before)
        && let Ok(Ok(Some(after))) = tokio::time::timeout(PATIENCE, db.stamp()).await
        && after == stamp
    {
        app.pages.keep(key, stamp, now..until, &answer.body);
    }
    Ok(answer)
}

impl Key {
    fn of(request: &Request) -> Option<Key> {
        let caller = request.caller.as_ref()?;
        Some(Key {
            build: request.build.uid.clone(),
            session: caller.session,
            rights: caller.version,
            origin: request.origin.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
        })
    }

    /// About what it takes, with its place.
    fn bytes(&self) -> usize {
        let pairs = self.query.pairs().map(|(name, value)| name.len() + value.len() + 48).sum::<usize>();
        size_of::<(Key, Known)>() + self.build.len() + self.origin.len() + self.path.len() + pairs
    }
}

impl Pages {
    /// How often a page was shown again.
    pub fn shown_again(&self) -> u64 {
        self.kept().shown_again
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the address was asked for before, and does not rest: who asks once pays nothing for the others.
    fn is_worth_a_look(&self, key: &Key) -> bool {
        let mut kept = self.kept();
        if let Some(known) = kept.known.get_mut(key) {
            let rests = known.rest > 0;
            known.rest = known.rest.saturating_sub(1);
            return !rests;
        }
        kept.add(key.bytes());
        kept.known.insert(key.clone(), Known::default());
        false
    }

    fn find(&self, key: &Key, stamp: Option<&Stamp>, now: i64) -> Option<Bytes> {
        let mut kept = self.kept();
        let known = kept.known.get_mut(key)?;
        if let (Some(page), Some(stamp)) = (&known.page, stamp)
            && page.stamps.contains(stamp)
            && page.moments.contains(&now)
        {
            let body = page.body.clone();
            known.in_vain = 0;
            kept.shown_again += 1;
            return Some(body);
        }
        known.in_vain = known.in_vain.saturating_add(1);
        if known.in_vain >= IN_VAIN {
            known.rest = 1 << known.in_vain.min(LONGEST_REST);
        }
        None
    }

    fn keep(&self, key: Key, stamp: Stamp, moments: Range<i64>, body: &Bytes) {
        if body.len() > LARGEST {
            return;
        }
        let mut kept = self.kept();
        kept.add(body.len());
        let known = kept.known.entry(key).or_default();
        let mut replaced = 0;
        match &mut known.page {
            // Another source names the state in which the page is the same.
            Some(page) if page.body == *body && page.moments.end == moments.end => {
                page.stamps.retain(|known| !known.is_of_same_source(&stamp));
                if page.stamps.len() >= MOST_STAMPS {
                    page.stamps.remove(0);
                }
                page.stamps.push(stamp);
                page.moments.start = page.moments.start.max(moments.start);
                replaced = body.len();
            }
            page => {
                let new = Page { body: body.clone(), moments, stamps: vec![stamp] };
                replaced = page.replace(new).map_or(replaced, |old| old.body.len());
            }
        }
        kept.bytes -= replaced.min(kept.bytes);
    }
}

impl Kept {
    /// Makes room for so many bytes more.
    fn add(&mut self, bytes: usize) {
        if self.bytes + bytes > MOST_BYTES || self.known.len() >= MOST {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
    }
}
