//! A fair queue of tasks for a number of threads, shared by all databases.
//!
//! Databases take turns, so that one with many tasks delays only its own tasks. One rule limits the threads and the
//! queue places of a database: *one more only while more are free than it has*. A single busy database gets half of
//! them, a second one beside it a quarter of all, and each further one half of the remainder. So the next database
//! always finds a free place.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::error::StoreError;
use crate::slot::Slot;

/// The maximum number of waiting tasks of all databases.
const MAX_WAITING: usize = 4096;
/// The maximum number of waiting databases that are searched for the one that a thread prefers.
const MAX_SEARCHED: usize = 64;

/// The waiting tasks, and the number of threads of each database.
pub(crate) struct TaskQueue<T> {
    threads: usize,
    /// The number of busy threads.
    busy: usize,
    /// The number of waiting tasks of all databases.
    waiting: usize,
    /// The ids of the databases that have waiting tasks, each once, the next first.
    order: VecDeque<u64>,
    /// By the id of the slot. Entries are never removed; neither are slots.
    queues: HashMap<u64, DatabaseQueue<T>, RandomState>,
}

struct DatabaseQueue<T> {
    slot: Arc<Slot>,
    waiting: VecDeque<T>,
    /// The number of threads that work for it.
    busy: usize,
}

impl<T> TaskQueue<T> {
    pub fn new(threads: usize) -> TaskQueue<T> {
        TaskQueue { threads, busy: 0, waiting: 0, order: VecDeque::new(), queues: HashMap::default() }
    }

    /// Appends a task to the tasks of its database.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if the database has its share of the queue already.
    pub fn push(&mut self, slot: &Arc<Slot>, task: T) -> Result<(), StoreError> {
        let free = MAX_WAITING - self.waiting;
        let queue = self.queue_of(slot);
        if queue.waiting.len() >= free {
            return Err(StoreError::Busy);
        }
        queue.waiting.push_back(task);
        let is_first = queue.waiting.len() == 1;
        self.waiting += 1;
        if is_first {
            self.order.push_back(slot.id);
        }
        Ok(())
    }

    /// Returns the database whose turn it is, and its first task. `None` if every waiting database must wait for a
    /// thread.
    pub fn first_task(&self) -> Option<(&Arc<Slot>, &T)> {
        let queue = &self.queues[&self.order[self.position(|_| true)?]];
        Some((&queue.slot, queue.waiting.front()?))
    }

    /// Removes the next task and counts a thread for its database. This is the database whose turn it is, or the
    /// preferred one if it is near the front.
    pub fn take_task(&mut self, preferred: Option<u64>) -> Option<(Arc<Slot>, T)> {
        let place = match preferred.and_then(|id| self.position(|at| at == id)) {
            Some(place) => place,
            None => self.position(|_| true)?,
        };
        let id = self.order.remove(place)?;
        let queue = self.queues.get_mut(&id)?;
        let task = queue.waiting.pop_front()?;
        queue.busy += 1;
        if !queue.waiting.is_empty() {
            self.order.push_back(id);
        }
        let slot = queue.slot.clone();
        self.waiting -= 1;
        self.busy += 1;
        Some((slot, task))
    }

    /// Returns whether a database may have one more thread.
    pub fn may_have_more(&self, slot: &Slot) -> bool {
        self.queues.get(&slot.id).map_or(0, |queue| queue.busy) < self.threads - self.busy
    }

    /// Counts a thread for a database whose task did not have to wait. Returns `false` if the database may not have
    /// one.
    pub fn start(&mut self, slot: &Arc<Slot>) -> bool {
        let may = self.may_have_more(slot);
        if may {
            self.queue_of(slot).busy += 1;
            self.busy += 1;
        }
        may
    }

    /// Returns a thread of a database to the free ones.
    pub fn release_thread(&mut self, slot: &Slot) {
        self.busy -= 1;
        if let Some(queue) = self.queues.get_mut(&slot.id) {
            queue.busy -= 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the position in the order of the first wanted database that may have a thread.
    fn position(&self, is_wanted: impl Fn(u64) -> bool) -> Option<usize> {
        let free = self.threads - self.busy;
        if free == 0 {
            return None;
        }
        let may = |id: &u64| is_wanted(*id) && self.queues.get(id).is_some_and(|queue| queue.busy < free);
        // A database that must wait has at least one thread, so few of those are passed over.
        self.order.iter().take(self.threads + MAX_SEARCHED).position(may)
    }

    fn queue_of(&mut self, slot: &Arc<Slot>) -> &mut DatabaseQueue<T> {
        let queue = || DatabaseQueue { slot: slot.clone(), waiting: VecDeque::new(), busy: 0 };
        self.queues.entry(slot.id).or_insert_with(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn slots<const N: usize>() -> [Arc<Slot>; N] {
        std::array::from_fn(|at| Arc::new(Slot::new(format!("build_{at}"), PathBuf::new(), false)))
    }

    fn take_all(tasks: &mut TaskQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| tasks.take_task(None).map(|(_, task)| task)).collect()
    }

    #[test]
    fn databases_take_turns() {
        let [a, b, c] = slots();
        let mut tasks = TaskQueue::new(100);
        for (slot, task) in [(&a, "a1"), (&a, "a2"), (&a, "a3"), (&b, "b1"), (&c, "c1"), (&c, "c2")] {
            tasks.push(slot, task).unwrap();
        }
        assert_eq!(take_all(&mut tasks), ["a1", "b1", "c1", "a2", "c2", "a3"]);
        assert!(tasks.is_empty() && tasks.first_task().is_none());
    }

    #[test]
    fn a_database_gets_one_more_thread_only_while_more_are_free_than_it_has() {
        let [a, b, c, d] = slots();
        let mut tasks = TaskQueue::new(8);
        for slot in [&a, &b, &c, &d] {
            (0..8).for_each(|_| tasks.push(slot, "").unwrap());
            while tasks.take_task(Some(slot.id)).is_some_and(|(next_slot, _)| next_slot.id == slot.id) {}
        }
        assert_eq!([&a, &b, &c, &d].map(|slot| tasks.queues[&slot.id].busy), [4, 2, 1, 1]);
        assert_eq!((tasks.busy, tasks.take_task(None).is_none(), tasks.start(&a)), (8, true, false));
        // A released thread goes to the next database that has few.
        tasks.release_thread(&a);
        tasks.release_thread(&a);
        assert_eq!(tasks.take_task(None).map(|(slot, _)| slot.id), Some(c.id));
    }

    #[test]
    fn one_thread_serves_all_databases() {
        let [a, b] = slots();
        let mut tasks = TaskQueue::new(1);
        for (slot, task) in [(&a, "a1"), (&a, "a2"), (&b, "b1")] {
            tasks.push(slot, task).unwrap();
        }
        let mut order = Vec::new();
        while let Some((slot, task)) = tasks.take_task(None) {
            assert!(tasks.take_task(None).is_none());
            order.push(task);
            tasks.release_thread(&slot);
        }
        assert_eq!(order, ["a1", "b1", "a2"]);
    }

    #[test]
    fn places_in_the_queue_are_shared_by_the_same_rule() {
        let [a, b] = slots();
        let mut tasks = TaskQueue::new(1);
        let accepted =
            |tasks: &mut TaskQueue<()>, slot| (0..MAX_WAITING).take_while(|_| tasks.push(slot, ()).is_ok()).count();
        assert_eq!(accepted(&mut tasks, &a), MAX_WAITING / 2);
        assert_eq!(accepted(&mut tasks, &b), MAX_WAITING / 4);
        assert_eq!(tasks.push(&a, ()), Err(StoreError::Busy));
    }
}
