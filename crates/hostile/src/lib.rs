//! The rules for every text from outside. Each function passes any bytes to the real parsers, and panics if a rule is broken. The
//! parsers must not panic, accepted input must be accepted again with the same meaning, and a refusal must name the refused part.
//!
//! The fuzz targets in `fuzz/` call only these functions; `tests/seeds.rs` replays the stored seeds through them.

mod addresses;
mod agents;
mod bodies;
mod declared;
mod documents;
mod events;
mod files;
mod mails;
mod packs;
mod queries;
mod records;
mod tokens;

pub use addresses::addresses;
pub use agents::{messages, sign_ins};
pub use bodies::bodies;
pub use documents::documents;
pub use events::events;
pub use files::files;
pub use mails::mails;
pub use packs::packs;
pub use queries::queries;
pub use records::records;
pub use tokens::tokens;

/// A function that accepts any bytes, and panics if a rule is broken.
pub type FuzzTarget = fn(&[u8]);

/// All functions by name. Their seeds in `fuzz/seeds/` have the same names.
pub const TARGETS: [(&str, FuzzTarget); 12] = [
    ("addresses", addresses),
    ("bodies", bodies),
    ("documents", documents),
    ("events", events),
    ("files", files),
    ("mails", mails),
    ("messages", messages),
    ("packs", packs),
    ("queries", queries),
    ("records", records),
    ("sign_ins", sign_ins),
    ("tokens", tokens),
];
