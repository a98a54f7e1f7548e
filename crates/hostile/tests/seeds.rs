//! The seeds of the fuzz targets, and with them everything that fuzzing ever found.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::PathBuf;

#[test]
fn every_seed_of_every_target_keeps_the_promises() {
    let targets: [(&str, fn(&[u8])); 6] = [
        ("addresses", hostile::addresses),
        ("bodies", hostile::bodies),
        ("events", hostile::events),
        ("mails", hostile::mails),
        ("queries", hostile::queries),
        ("tokens", hostile::tokens),
    ];
    let seeds = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    assert_eq!(std::fs::read_dir(&seeds).unwrap().count(), targets.len(), "each target has its seeds");
    for (name, target) in targets {
        for seed in std::fs::read_dir(seeds.join(name)).unwrap() {
            let path = seed.unwrap().path();
            println!("{}", path.display());
            target(&std::fs::read(path).unwrap());
        }
    }
}
