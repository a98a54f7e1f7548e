//! What changed for stored data on the way from each version to this one.
