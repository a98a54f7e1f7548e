//! What must hold for every text from outside, whoever wrote it. Each function takes any bytes, hands them to the real
//! readers, and panics when a promise is broken: none of them panics, what is accepted is accepted again as it was
//! understood, and a refusal names what it refuses.
//!
//! The fuzz targets in `fuzz/` call these and nothing else; `tests/seeds.rs` replays the kept seeds through them.

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

/// What takes any bytes, and panics when a promise is broken.
pub type FuzzTarget = fn(&[u8]);

/// All of them by name, which their seeds in `fuzz/seeds/` have too.
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
