//! Replays the seeds of the fuzz targets, which include every finding of the fuzzing.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use hostile::TARGETS;
use std::path::PathBuf;

#[test]
fn every_seed_of_every_target_keeps_the_promises() {
    let seeds = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    assert_eq!(std::fs::read_dir(&seeds).unwrap().count(), TARGETS.len(), "each target has its seeds");
    for (name, target) in TARGETS {
        for seed in std::fs::read_dir(seeds.join(name)).unwrap() {
            let path = seed.unwrap().path();
            println!("{}", path.display());
            target(&std::fs::read(path).unwrap());
        }
    }
}
