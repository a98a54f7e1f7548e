//! A bounded queue whose callers take turns: what waits has a path (whose, and of whom there), and at each step of it
//! the names that have something waiting are served one after the other. So a burst of one waits behind itself.
//!
//! When there is no room, whoever has most waiting loses what he sent last, so that a full queue is full for him alone.

use std::collections::VecDeque;

/// What waits below one name of a path: items where the path ends, else further lanes.
struct Lane<T> {
    name: String,
    len: usize,
    items: VecDeque<T>,
    lanes: VecDeque<Lane<T>>,
}

/// See the module.
pub struct FairQueue<T> {
    root: Lane<T>,
    most: usize,
    most_of_one: usize,
}

impl<T> FairQueue<T> {
    /// An empty queue for at most so many items, and so many of one first name.
    pub fn new(most: usize, most_of_one: usize) -> FairQueue<T> {
        FairQueue { root: Lane::new(""), most, most_of_one }
    }

    /// Puts an item at the end of its path; what had to go for it, the item itself perhaps.
    pub fn push<const N: usize>(&mut self, path: &[String; N], item: T) -> Option<T> {
        self.root.push(path, item);
        let first = path.first().and_then(|name| self.root.lane(name));
        if first.is_some_and(|at| self.root.lanes[at].len > self.most_of_one) {
            return self.root.take_newest(first);
        }
        if self.root.len > self.most { self.root.take_newest(self.root.longest()) } else { None }
    }

    /// The item whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        self.root.pop()
    }
}

impl<T> Lane<T> {
    fn new(name: &str) -> Lane<T> {
        Lane { name: name.to_owned(), len: 0, items: VecDeque::new(), lanes: VecDeque::new() }
    }

    /// Where a lane is. Few are in a bounded queue, and looking for one is nothing beside what the items cost.
    fn lane(&self, name: &str) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.name == name)
    }

    fn push(&mut self, path: &[String], item: T) {
        self.len += 1;
        let Some((name, rest)) = path.split_first() else { return self.items.push_back(item) };
        let at = self.lane(name).unwrap_or_else(|| {
            self.lanes.push_back(Lane::new(name));
            self.lanes.len() - 1
        });
        self.lanes[at].push(rest, item);
    }

    fn pop(&mut self) -> Option<T> {
        let item = match self.lanes.pop_front() {
            None => self.items.pop_front()?,
            Some(mut lane) => {
                let item = lane.pop();
                if lane.len > 0 {
                    self.lanes.push_back(lane);
                }
                item?
            }
        };
        self.len -= 1;
        Some(item)
    }

    /// The lane with most in it; of several the one that came last.
    fn longest(&self) -> Option<usize> {
        (0..self.lanes.len()).max_by_key(|at| self.lanes[*at].len)
    }

    /// Takes the last item of the longest lane of the longest lane, and so on, below this lane.
    fn take_newest(&mut self, lane: Option<usize>) -> Option<T> {
        let item = match lane {
            None => self.items.pop_back()?,
            Some(at) => {
                let longest = self.lanes[at].longest();
                let item = self.lanes[at].take_newest(longest)?;
                if self.lanes[at].len == 0 {
                    self.lanes.remove(at);
                }
                item
            }
        };
        self.len -= 1;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> [String; 2] {
        let (first, second) = path.split_once('/').unwrap();
        [first.to_owned(), second.to_owned()]
    }

    fn served(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn names_take_turns_and_so_do_those_below_them() {
        let mut queue = FairQueue::new(100, 100);
        for (whose, item) in [
            ("a/x", "a/x 1"),
            ("a/x", "a/x 2"),
            ("a/x", "a/x 3"),
            ("a/y", "a/y 1"),
            ("b/x", "b/x 1"),
            ("b/x", "b/x 2"),
            ("c/z", "c/z 1"),
        ] {
            assert_eq!(queue.push(&path(whose), item), None);
        }
        assert_eq!(served(&mut queue), ["a/x 1", "b/x 1", "c/z 1", "a/y 1", "b/x 2", "a/x 2", "a/x 3"]);
        assert_eq!((queue.root.len, queue.pop()), (0, None));
    }

    #[test]
    fn who_comes_behind_a_burst_of_another_waits_for_one_of_it() {
        let mut queue = FairQueue::new(512, 256);
        (0..256).for_each(|n| assert_eq!(queue.push(&path(&format!("burst/{n}")), "burst"), None));
        assert_eq!(queue.pop(), Some("burst"));
        queue.push(&path("other/1"), "other");
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some("burst"), Some("other"), Some("burst")]);
    }

    #[test]
    fn a_full_queue_is_full_for_who_fills_it() {
        let mut queue = FairQueue::new(4, 3);
        assert_eq!(queue.push(&path("a/x"), "a/x 1"), None);
        assert_eq!(queue.push(&path("a/x"), "a/x 2"), None);
        assert_eq!(queue.push(&path("a/x"), "a/x 3"), None);
        // Of a name's own share the longest lane loses its last: another one's, or the item itself.
        assert_eq!(queue.push(&path("a/y"), "a/y 1"), Some("a/x 3"));
        assert_eq!(queue.push(&path("a/x"), "a/x 4"), Some("a/x 4"));
        assert_eq!(queue.push(&path("b/x"), "b/x 1"), None);
        // Of the whole the longest name does.
        assert_eq!(queue.push(&path("c/x"), "c/x 1"), Some("a/x 2"));
        assert_eq!(queue.root.len, 4);
        assert_eq!(served(&mut queue), ["a/x 1", "b/x 1", "c/x 1", "a/y 1"]);
    }
}
