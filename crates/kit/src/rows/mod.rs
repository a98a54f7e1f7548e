//! Reads and writes the rows of declared resources: lists, single rows, inserts, updates and deletes.
//! It implements the common parts: columns, user references, filters as SQL, counts, audit fields,
//! uniqueness, limits, secrets, `If-Match`, reactions and the administration log. Its ids are numbers, since they are ids
//! of any resource.

mod accept;
mod change;
mod list;
mod page;
mod sealed;
mod shape;
pub mod sql;
mod view;

pub use accept::{accepted_within, check_body, existing_ids};
pub use change::{
    check_if_match, delete, insert, insert_row, load, load_for_change, load_shared, stored_value, update, update_row,
};
pub use list::{Cacheable, ReadPage, Scope, envelope, list, list_answer, read_page};
pub use page::{MAX_PAGE_BYTES, PageSize, PageWriter, page_too_large};
pub use sealed::{has_secret, open as open_secret};
pub use shape::{CALLER, Declaration, NOW, OWNER, RowCells, RowShape, WriteMeta, write_permissions};
pub use sql::{RelatedResource, Relations, arg};
pub use view::{created_answer, document, edited_answer, items, records, view, view_id};
