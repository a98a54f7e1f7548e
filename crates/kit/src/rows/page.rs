//! Writes a page of a list: within [`MAX_PAGE_BYTES`], and within the memory that is reserved for its answer.

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
    out: JsonWriter,
    items: usize,
}

impl<'a> PageWriter<'a> {
    /// Returns an empty page with capacity for `bytes` bytes.
    pub fn with_capacity(request: &'a Request, bytes: usize) -> PageWriter<'a> {
        let mut out = JsonWriter::with_capacity(bytes);
        out.raw("[");
        PageWriter { request, out, items: 0 }
    }

    /// Writes the item of a row. The refusal of a page that is too large ends the reading of rows.
    pub fn item(
        &mut self,
        row: &Row<'_>,
        write: impl FnOnce(&mut JsonWriter, &Row<'_>) -> Result<(), StoreError>,
    ) -> Result<ControlFlow<Refusal>, StoreError> {
        // Memory is reserved for the driver's copy of the row before the row is copied.
        if let Err(refusal) = self.request.reserve_answer(self.out.bytes().len() + row.size_in_bytes()) {
            return Ok(ControlFlow::Break(refusal));
        }
        write(self.out.comma(), row)?;
        self.items += 1;
        Ok(PageSize { items: self.items, bytes: self.out.bytes().len() }.check_in_loop(self.request))
    }

    /// Returns the page in its envelope.
    pub fn envelope(mut self, limit: i64, offset: i64, total: i64, filtered: i64) -> Vec<u8> {
        self.out.raw("]");
        super::envelope(self.request, limit, offset, total, filtered, self.out.into_bytes())
    }
}
