//! Who is next: work that waits for a number of threads, by the database that it is for.
//!
//! Databases take turns, so that whoever asks for much waits for himself. One rule says how much a database may have, of
//! the threads as of the places to wait: *one more only while more are free than it has*. Alone it gets half of them;
//! beside it a second one gets a quarter of all, and so on, so that there is one left for whoever comes next, whatever
//! many are at.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::error::Error;
use crate::work::Slot;

/// Places to wait, of all databases together.
const PLACES: usize = 4096;
/// How far to look for work that suits a thread better than what is next.
const SIGHT: usize = 64;

/// What waits, and how many threads each database has.
pub(crate) struct Turns<T> {
    threads: usize,
    /// Of the threads, those that are at work.
    busy: usize,
    /// Tasks that wait, of all lines.
    waiting: usize,
    /// The databases that have tasks waiting, each once.
    order: VecDeque<u64>,
    /// By the slot's id. They stay, as slots do.
    lines: HashMap<u64, Line<T>, RandomState>,
}

struct Line<T> {
    slot: Arc<Slot>,
    waiting: VecDeque<T>,
    /// Threads that are at work for it.
    busy: usize,
}

impl<T> Turns<T> {
    pub fn new(threads: usize) -> Turns<T> {
        Turns { threads, busy: 0, waiting: 0, order: VecDeque::new(), lines: HashMap::default() }
    }

    /// Puts a task at the end of its database's line.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is too long already.
    pub fn push(&mut self, slot: &Arc<Slot>, task: T) -> Result<(), Error> {
        let free = PLACES - self.waiting;
        let line = self.line(slot);
        if line.waiting.len() >= free {
            return Err(Error::Busy);
        }
        line.waiting.push_back(task);
        let is_first = line.waiting.len() == 1;
        self.waiting += 1;
        if is_first {
            self.order.push_back(slot.id);
        }
        Ok(())
    }

    /// The database whose turn it is, and what it waits with. It may be given a thread.
    pub fn first(&self) -> Option<(&Arc<Slot>, &T)> {
        let line = &self.lines[&self.order[self.place(|_| true)?]];
        Some((&line.slot, line.waiting.front()?))
    }

    /// Gives a thread to the database whose turn it is, or to one that is preferred and near.
    pub fn take(&mut self, preferred: Option<u64>) -> Option<(Arc<Slot>, T)> {
        let place = match preferred.and_then(|id| self.place(|at| at == id)) {
            Some(place) => place,
            None => self.place(|_| true)?,
        };
        let id = self.order.remove(place)?;
        let line = self.lines.get_mut(&id)?;
        let task = line.waiting.pop_front()?;
        line.busy += 1;
        if !line.waiting.is_empty() {
            self.order.push_back(id);
        }
        let slot = line.slot.clone();
        self.waiting -= 1;
        self.busy += 1;
        Some((slot, task))
    }

    /// Whether a database may have one thread more.
    pub fn may_have_more(&self, slot: &Slot) -> bool {
        self.lines.get(&slot.id).map_or(0, |line| line.busy) < self.threads - self.busy
    }

    /// Gives a thread to a database for a task that did not wait, if it may have one.
    pub fn start(&mut self, slot: &Arc<Slot>) -> bool {
        let may = self.may_have_more(slot);
        if may {
            self.line(slot).busy += 1;
            self.busy += 1;
        }
        may
    }

    /// Takes a thread back.
    pub fn done(&mut self, slot: &Slot) {
        self.busy -= 1;
        if let Some(line) = self.lines.get_mut(&slot.id) {
            line.busy -= 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Where in the order the first one stands that may have a thread.
    fn place(&self, is_wanted: impl Fn(u64) -> bool) -> Option<usize> {
        let free = self.threads - self.busy;
        if free == 0 {
            return None;
        }
        let may = |id: &u64| is_wanted(*id) && self.lines.get(id).is_some_and(|line| line.busy < free);
        // Those that have to wait have a thread each at least, so that there are not many of them.
        self.order.iter().take(self.threads + SIGHT).position(may)
    }

    fn line(&mut self, slot: &Arc<Slot>) -> &mut Line<T> {
        let line = || Line { slot: slot.clone(), waiting: VecDeque::new(), busy: 0 };
        self.lines.entry(slot.id).or_insert_with(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn slots<const N: usize>() -> [Arc<Slot>; N] {
        std::array::from_fn(|at| Arc::new(Slot::new(format!("build_{at}"), PathBuf::new(), false)))
    }

    fn taken(turns: &mut Turns<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| turns.take(None).map(|(_, task)| task)).collect()
    }

    #[test]
    fn databases_take_turns() {
        let [a, b, c] = slots();
        let mut turns = Turns::new(100);
        for (slot, task) in [(&a, "a1"), (&a, "a2"), (&a, "a3"), (&b, "b1"), (&c, "c1"), (&c, "c2")] {
            turns.push(slot, task).unwrap();
        }
        assert_eq!(taken(&mut turns), ["a1", "b1", "c1", "a2", "c2", "a3"]);
        assert!(turns.is_empty() && turns.first().is_none());
    }

    #[test]
    fn each_has_a_thread_more_only_while_more_are_free_than_it_has() {
        let [a, b, c, d] = slots();
        let mut turns = Turns::new(8);
        for slot in [&a, &b, &c, &d] {
            (0..8).for_each(|_| turns.push(slot, "").unwrap());
            while turns.take(Some(slot.id)).is_some_and(|(taken, _)| taken.id == slot.id) {}
        }
        assert_eq!([&a, &b, &c, &d].map(|slot| turns.lines[&slot.id].busy), [4, 2, 1, 1]);
        assert_eq!((turns.busy, turns.take(None).is_none(), turns.start(&a)), (8, true, false));
        // What is given back goes to whoever is next and has fewest.
        turns.done(&a);
        turns.done(&a);
        assert_eq!(turns.take(None).map(|(slot, _)| slot.id), Some(c.id));
    }

    #[test]
    fn one_thread_serves_all() {
        let [a, b] = slots();
        let mut turns = Turns::new(1);
        for (slot, task) in [(&a, "a1"), (&a, "a2"), (&b, "b1")] {
            turns.push(slot, task).unwrap();
        }
        let mut order = Vec::new();
        while let Some((slot, task)) = turns.take(None) {
            assert!(turns.take(None).is_none());
            order.push(task);
            turns.done(&slot);
        }
        assert_eq!(order, ["a1", "b1", "a2"]);
    }

    #[test]
    fn places_to_wait_are_shared_as_well() {
        let [a, b] = slots();
        let mut turns = Turns::new(1);
        let accepted = |turns: &mut Turns<()>, slot| (0..PLACES).take_while(|_| turns.push(slot, ()).is_ok()).count();
        assert_eq!(accepted(&mut turns, &a), PLACES / 2);
        assert_eq!(accepted(&mut turns, &b), PLACES / 4);
        assert_eq!(turns.push(&a, ()), Err(Error::Busy));
    }
}
