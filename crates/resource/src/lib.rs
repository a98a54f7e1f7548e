//! Declarations of resources: their fields, the kinds and limits of fields, and the messages for violations.
//!
//! A [`Resource`] is plain data that is declared once. Five modules read it: [`accept`] (the contents of a
//! body), [`select`] (filters, ordering, paging), [`json`] (the contents of an answer), [`options`] (the
//! schema document) and [`openapi`]. This crate does not depend on HTTP or a database. Resources need not
//! be declared at compile time: object classes are resources that builds declare while the server runs.

pub mod accept;
pub mod account_type;
mod check;
pub mod decimal;
pub mod errors;
mod field;
pub mod fold;
mod id;
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

pub use accept::{CheckedBody, DatabaseChecks, WriteMode, accept, accept_group};
pub use check::{check as check_value, ids, is_email, parse_id};
pub use errors::{Checked, Errors, FieldErrors, message};
pub use field::{
    Charset, ColumnSource, EnumOption, Field, FieldAccess, FieldKind, LINE, ReferenceTarget, SealedColumns, SetTable,
    StaticText, TOKEN, UNDIRECTED,
};
pub use fold::{fold, nfc, without_marks};
pub use id::Id;
pub use key::{Changes, FieldKey, FromValue, RowAfterWrite};
pub use limit::{Limit, LimitSummary};
pub use query::Query;
pub use resource::{MAX_FILTERS, Resource};
pub use select::{CheckedFilter, OrderField, Predicate, RelatedRows, Select, SelectError, select, select_related};
pub use sent::{JsonBody, JsonValue, SentObject};
pub use value::{CheckedValue, type_name};
