//! Writes a page of a list: within [`MAX_PAGE_BYTES`], and within the memory that is reserved for its answer.

use crate::answer::Answer;
use crate::listed::{JsonItems, ListCounts};
use crate::refusal::Refusal;
use crate::request::Request;
use resource::json::JsonWriter;
use std::ops::ControlFlow;
use store::{Row, StoreError};

/// The maximum size of a page in bytes. A larger one is refused, unless it has a single item.
pub const MAX_PAGE_BYTES: usize = 32 * 1024 * 1024;

/// The refusal of a page of more than [`MAX_PAGE_BYTES`].
pub fn page_too_large() -> Refusal {
    Refusal::field("limit", "Ensure that the page has at most 32 MiB.")
}

/// The current size of a page: its number of items and of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageSize {
    pub items: usize,
    pub bytes: usize,
}

impl PageSize {
    /// Refuses a page that is too large, or that has no memory for its answer.
    pub fn check(self, request: &Request) -> Result<(), Refusal> {
        if self.items > 1 && self.bytes > MAX_PAGE_BYTES {
            return Err(page_too_large());
        }
        request.reserve_answer(self.bytes)
    }

    /// Ends a loop over rows with the refusal of [`PageSize::check`].
    pub fn check_in_loop(self, request: &Request) -> ControlFlow<Refusal> {
        match self.check(request) {
            Ok(()) => ControlFlow::Continue(()),
            Err(refusal) => ControlFlow::Break(refusal),
        }
    }
}

/// A page whose items are written one by one.
pub struct PageWriter<'a> {
    request: &'a Request,
    items: JsonItems,
}

impl<'a> PageWriter<'a> {
    /// Returns an empty page with capacity for `bytes` bytes.
    pub fn with_capacity(request: &'a Request, bytes: usize) -> PageWriter<'a> {
        PageWriter { request, items: JsonItems::with_capacity(bytes) }
    }

    /// Writes the item of a row. The refusal of a page that is too large ends the reading of rows.
    pub fn item(
        &mut self,
        row: &Row<'_>,
        write: impl FnOnce(&mut JsonWriter, &Row<'_>) -> Result<(), StoreError>,
    ) -> Result<ControlFlow<Refusal>, StoreError> {
        // Memory is reserved for the driver's copy of the row before the row is copied.
        if let Err(refusal) = self.request.reserve_answer(self.items.bytes() + row.size_in_bytes()) {
            return Ok(ControlFlow::Break(refusal));
        }
        write(self.items.next_item(), row)?;
        Ok(PageSize { items: self.items.count(), bytes: self.items.bytes() }.check_in_loop(self.request))
    }

    /// Answers the page in its envelope.
    pub fn answer(self, limit: i64, offset: i64, counts: ListCounts) -> Answer {
        super::list_answer(self.request, limit, offset, counts, self.items)
    }
}
