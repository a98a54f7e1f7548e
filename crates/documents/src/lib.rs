//! Documents made of a Word template and a record: `docx` reads and writes the archive, `merge` fills it.

pub mod docx;
pub mod merge;
