//! A cache with a bound on the weight of its entries together. Entries that are used seldom are evicted first.

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::hash::{BuildHasher, Hash};

/// A function that returns the weight of an entry: its approximate size in bytes, with its key.
pub type EntryWeight<K, V> = fn(&K, &V) -> usize;

/// The size of a cache.
pub struct CacheBounds {
    /// The maximum weight of all entries together, in bytes.
    pub bytes: u64,
    /// The approximate number of entries.
    pub usual_entries: usize,
    /// The number of shards, each with its own lock and an equal part of the bytes. The largest entry must fit into one shard.
    pub shards: usize,
}

/// A cache that may be used concurrently. A value is cloned when it is read.
pub struct BoundedCache<K, V, S = DefaultHashBuilder>(Cache<K, V, NamedWeight<K, V>, S>);

struct NamedWeight<K, V>(EntryWeight<K, V>);

impl<K, V> Clone for NamedWeight<K, V> {
    fn clone(&self) -> Self {
        NamedWeight(self.0)
    }
}

impl<K, V> Weighter<K, V> for NamedWeight<K, V> {
    fn weight(&self, key: &K, value: &V) -> u64 {
        (self.0)(key, value) as u64
    }
}

impl<K: Eq + Hash, V: Clone, S: BuildHasher + Clone + Default> BoundedCache<K, V, S> {
    pub fn new(bounds: CacheBounds, weight: EntryWeight<K, V>) -> Self {
        let options = OptionsBuilder::new()
            .weight_capacity(bounds.bytes)
            .estimated_items_capacity(bounds.usual_entries)
            .shards(bounds.shards)
            .build()
            .expect("a size and a number are given");
        let lifecycle = DefaultLifecycle::default();
        BoundedCache(Cache::with_options(options, NamedWeight(weight), S::default(), lifecycle))
    }

    /// Returns a value and marks it as used.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }

    /// Returns a value without marking it as used.
    pub fn peek(&self, key: &K) -> Option<V> {
        self.0.peek(key)
    }

    pub fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }

    /// Returns the weight of all entries together.
    pub fn weight(&self) -> u64 {
        self.0.weight()
    }
}
