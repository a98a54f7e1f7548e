//! A bounded queue that serves its users in turn. Each item is queued under a path of names (such as a build and a network in it).
//! At each step of the path the names with waiting items are served one after the other. A burst under one name therefore delays
//! the others by one item only.
//!
//! In a full queue the name with the most items loses its newest one, so that a burst displaces only itself.

use std::collections::VecDeque;

/// The items that wait under one name of a path: items at the end of the path, otherwise a lane for each next name.
struct Lane<T> {
    name: String,
    len: usize,
    items: VecDeque<T>,
    lanes: VecDeque<Lane<T>>,
}

/// A bounded queue whose first names, and the names below each of them, are served in turn.
pub struct FairQueue<T> {
    root: Lane<T>,
    max_len: usize,
    max_len_of_name: usize,
}

impl<T> FairQueue<T> {
    /// Creates an empty queue for at most `max_len` items, and at most `max_len_of_name` under the same first name.
    pub fn new(max_len: usize, max_len_of_name: usize) -> FairQueue<T> {
        FairQueue { root: Lane::new(""), max_len, max_len_of_name }
    }

    /// Queues an item. Returns the item that was dropped to make room, which may be the new one.
    pub fn push<const N: usize>(&mut self, path: &[String; N], item: T) -> Option<T> {
        self.root.push(path, item);
        let first = path.first().and_then(|name| self.root.lane_position(name));
        if first.is_some_and(|at| self.root.lanes[at].len > self.max_len_of_name) {
            return self.root.take_newest(first);
        }
        if self.root.len > self.max_len { self.root.take_newest(self.root.longest_lane()) } else { None }
    }

    /// The number of queued items.
    pub fn len(&self) -> usize {
        self.root.len
    }

    /// Removes and returns the next item.
    pub fn pop(&mut self) -> Option<T> {
        self.root.pop()
    }
}

impl<T> Lane<T> {
    fn new(name: &str) -> Lane<T> {
        Lane { name: name.to_owned(), len: 0, items: VecDeque::new(), lanes: VecDeque::new() }
    }

    /// Returns the position of a name's lane. A linear search is sufficient: a bounded queue has few lanes, and items are
    /// expensive.
    fn lane_position(&self, name: &str) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.name == name)
    }

    fn push(&mut self, path: &[String], item: T) {
        self.len += 1;
        let Some((name, names_below)) = path.split_first() else { return self.items.push_back(item) };
        let at = self.lane_position(name).unwrap_or_else(|| {
            self.lanes.push_back(Lane::new(name));
            self.lanes.len() - 1
        });
        self.lanes[at].push(names_below, item);
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

    /// Returns the position of the lane with the most items; the last one of several.
    fn longest_lane(&self) -> Option<usize> {
        (0..self.lanes.len()).max_by_key(|at| self.lanes[*at].len)
    }

    /// Removes and returns the newest item below a lane, or of this one. Follows the longest lane at each step.
    fn take_newest(&mut self, lane: Option<usize>) -> Option<T> {
        let item = match lane {
            None => self.items.pop_back()?,
            Some(at) => {
                let longest = self.lanes[at].longest_lane();
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
    fn names_are_served_in_turn_and_so_are_the_names_below_them() {
        let mut queue = FairQueue::new(100, 100);
        for (path_text, item) in [
            ("a/x", "a/x 1"),
            ("a/x", "a/x 2"),
            ("a/x", "a/x 3"),
            ("a/y", "a/y 1"),
            ("b/x", "b/x 1"),
            ("b/x", "b/x 2"),
            ("c/z", "c/z 1"),
        ] {
            assert_eq!(queue.push(&path(path_text), item), None);
        }
        assert_eq!(served(&mut queue), ["a/x 1", "b/x 1", "c/z 1", "a/y 1", "b/x 2", "a/x 2", "a/x 3"]);
        assert_eq!((queue.root.len, queue.pop()), (0, None));
    }

    #[test]
    fn an_item_behind_a_burst_of_another_name_waits_for_one_item() {
        let mut queue = FairQueue::new(512, 256);
        (0..256).for_each(|n| assert_eq!(queue.push(&path(&format!("burst/{n}")), "burst"), None));
        assert_eq!(queue.pop(), Some("burst"));
        queue.push(&path("other/1"), "other");
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some("burst"), Some("other"), Some("burst")]);
    }

    #[test]
    fn a_full_queue_drops_items_of_the_name_that_fills_it() {
        let mut queue = FairQueue::new(4, 3);
        assert_eq!(queue.push(&path("a/x"), "a/x 1"), None);
        assert_eq!(queue.push(&path("a/x"), "a/x 2"), None);
        assert_eq!(queue.push(&path("a/x"), "a/x 3"), None);
        // When a name has reached its share, its longest lane loses the newest item, which may be the new one.
        assert_eq!(queue.push(&path("a/y"), "a/y 1"), Some("a/x 3"));
        assert_eq!(queue.push(&path("a/x"), "a/x 4"), Some("a/x 4"));
        assert_eq!(queue.push(&path("b/x"), "b/x 1"), None);
        // When the whole queue is full, the name with the most items loses its newest one.
        assert_eq!(queue.push(&path("c/x"), "c/x 1"), Some("a/x 2"));
        assert_eq!(queue.root.len, 4);
        assert_eq!(served(&mut queue), ["a/x 1", "b/x 1", "c/x 1", "a/y 1"]);
    }
}
