//! The items of a list as values beside the body of its answer. Callers in this process need not parse the body.

use resource::json::JsonWriter;

/// The numbers of objects in a whole list.
#[derive(Clone, Copy, Debug)]
pub struct ListCounts {
    /// The objects that the caller may list.
    pub total: i64,
    /// Those that match the filters.
    pub filtered: i64,
}

/// The JSON array of the items of a page, while it is written.
pub struct JsonItems {
    out: JsonWriter,
    /// The positions at which the items begin.
    starts: Vec<usize>,
}

impl JsonItems {
    /// Returns an empty array with capacity for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> JsonItems {
        let mut out = JsonWriter::with_capacity(bytes);
        out.raw("[");
        JsonItems { out, starts: Vec::new() }
    }

    /// Begins the next item. Write exactly one JSON value.
    pub fn next_item(&mut self) -> &mut JsonWriter {
        self.out.comma();
        self.starts.push(self.out.bytes().len());
        &mut self.out
    }

    /// Returns the number of items.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the number of bytes written so far.
    pub fn bytes(&self) -> usize {
        self.out.bytes().len()
    }

    /// Ends the array. Returns its bytes, and the positions at which the items begin.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<usize>) {
        self.out.raw("]");
        (self.out.into_bytes(), self.starts)
    }
}

/// The counts of a list, and the places of the items of its page in the body of the answer.
#[derive(Debug)]
pub struct ListedItems {
    pub counts: ListCounts,
    /// The positions at which the items begin.
    pub(crate) starts: Vec<usize>,
    /// The end of the last item.
    pub(crate) end: usize,
}

impl ListedItems {
    /// Returns the items, each as JSON, from the body of the answer.
    pub fn items<'a>(&'a self, body: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        // A comma separates an item from the next one.
        let ends = self.starts.iter().skip(1).map(|start| start - 1).chain([self.end]);
        self.starts.iter().zip(ends).map(|(start, end)| &body[*start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_in_the_body() {
        for expected in [vec![], vec!["{}"], vec!["{\"a\":1}", "[2,3]", "\"x\""]] {
            let mut items = JsonItems::with_capacity(16);
            for item in &expected {
                items.next_item().raw(item);
            }
            let (body, starts) = items.finish();
            let counts = ListCounts { total: 3, filtered: 3 };
            let listed = ListedItems { counts, starts, end: body.len() - 1 };
            let items: Vec<&[u8]> = listed.items(&body).collect();
            assert_eq!(items, expected.iter().map(|item| item.as_bytes()).collect::<Vec<_>>());
        }
    }
}
