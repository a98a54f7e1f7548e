//! Second factors of an account: generated codes, passkeys, and recovery codes (`docs/reference/second-factors.md`). Signing in with
//! them is in `sign_in/`.

pub mod challenges;
mod codes;
pub mod notices;
mod own;
mod owner;
pub mod passkeys;
pub mod proof;
mod recovery_codes;
mod removal;
mod reset;
pub mod rule_sql;
mod rules;

pub use removal::ON_USER_LEAVING;
pub use reset::reset_by_operator;

use kit::route::Route;
use kit::secret::SealedColumn;

pub fn routes() -> Vec<Route> {
    [own::routes(), recovery_codes::routes(), rules::routes(), reset::routes()].into_iter().flatten().collect()
}

/// The sealed columns of factors and recovery codes.
pub const SEALED_COLUMNS: [SealedColumn; 2] = [codes::SECRET, recovery_codes::CODE_HASH];
