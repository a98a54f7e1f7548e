//! Declarations of resources: their fields, the kinds and limits of these, and the messages for what breaks them.
//!
//! A [`Resource`] is plain data that is declared once and read by five modules: [`accept`] (what a body may contain),
//! [`select`] (filters, ordering, paging), [`json`] (what an answer shows), [`options`] (the schema document) and
//! [`openapi`]. Nothing here knows HTTP or a database, and nothing assumes that a resource is known at compile time:
//! object classes are resources that tenants declare while the server runs.

pub mod accept;
pub mod account_type;
mod check;
pub mod decimal;
pub mod errors;
mod field;
pub mod fold;
pub mod items;
pub mod json;
mod key;
mod limit;
pub mod openapi;
pub mod options;
mod query;
mod resource;
pub mod select;
pub mod sent;
pub mod time;
mod value;

pub use accept::{Accepted, Lookup, Mode, accept};
pub use check::{check as check_value, ids, is_email, pk};
pub use errors::{Errors, message};
pub use field::{Access, Charset, Choice, Field, Kind, LINE, Members, Name, Sealed, Source, TOKEN, Target, UNDIRECTED};
pub use fold::{fold, nfc, without_marks};
pub use key::{After, Changes, FromValue, Key};
pub use limit::{Limit, LimitSummary};
pub use query::Query;
pub use resource::{MAX_FILTERS, Resource};
pub use select::{Filter, Order, Predicate, RelatedRows, Select, SelectError, select, select_related};
pub use sent::{Body, Object, Sent};
pub use value::{Value, type_name};
