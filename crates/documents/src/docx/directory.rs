//! Checks the directory of an archive before anything is read through it. Some readers use the number of entries, others the bytes
//! of the directory. If the two disagree, other readers see other parts than the checked ones.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::package::unreadable;
use super::{PARTS, TemplateError};

/// The bytes of the record that ends an archive, without its comment.
const END_RECORD: usize = 22;
/// The bytes of an entry of the directory, without its name, its extra fields and its comment.
const ENTRY: usize = 46;
/// The maximum length of a part's name in bytes.
const LONGEST_NAME: usize = 1_000;

/// The position of an archive's directory and the number of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveDirectory {
    pub start: u64,
    pub entries: usize,
}

impl ArchiveDirectory {
    /// Reads the end of an archive and walks its directory. Allocates no memory for the entries.
    pub fn read<R: Read + Seek>(file: &mut R) -> Result<ArchiveDirectory, TemplateError> {
        let length = file.seek(SeekFrom::End(0)).map_err(read_error)?;
        let start = length.saturating_sub((END_RECORD + usize::from(u16::MAX)) as u64);
        file.seek(SeekFrom::Start(start)).map_err(read_error)?;
        let mut tail = Vec::new();
        file.by_ref().take(length - start).read_to_end(&mut tail).map_err(read_error)?;
        let at = tail.windows(END_RECORD).rposition(|bytes| bytes.starts_with(b"PK\x05\x06"));
        let at = at.ok_or_else(|| TemplateError::unreadable("no archive: it has no end"))?;
        let record = EndRecord::parse(&tail[at..]);
        if record.entries.max(record.entries_here) > PARTS {
            return Err(TemplateError::too_large(format!("more than {PARTS} parts")));
        }
        if record.entries != record.entries_here || record.start + record.bytes != start + at as u64 {
            return Err(inconsistent_directory());
        }
        file.seek(SeekFrom::Start(record.start)).map_err(read_error)?;
        walk(&mut BufReader::new(file.by_ref().take(record.bytes)), record.entries, record.bytes)?;
        file.seek(SeekFrom::Start(0)).map_err(read_error)?;
        Ok(ArchiveDirectory { start: record.start, entries: record.entries })
    }
}

fn read_error(error: io::Error) -> TemplateError {
    unreadable(error.into())
}

/// The fields of the end record that describe the directory.
struct EndRecord {
    entries_here: usize,
    entries: usize,
    bytes: u64,
    start: u64,
}

impl EndRecord {
    fn parse(record: &[u8]) -> EndRecord {
        let two = |at: usize| usize::from(u16::from_le_bytes([record[at], record[at + 1]]));
        let four =
            |at: usize| u64::from(u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]));
        EndRecord { entries_here: two(8), entries: two(10), bytes: four(12), start: four(16) }
    }
}

/// Skips the entries of a directory. Their number must be that of the end record, and they must use all bytes of the directory.
fn walk(directory: &mut impl Read, entries: usize, bytes: u64) -> Result<(), TemplateError> {
    let mut bytes_left = bytes;
    for _ in 0..entries {
        let mut entry = [0; ENTRY];
        bytes_left = bytes_left.checked_sub(ENTRY as u64).ok_or_else(inconsistent_directory)?;
        directory.read_exact(&mut entry).map_err(read_error)?;
        if !entry.starts_with(b"PK\x01\x02") {
            return Err(inconsistent_directory());
        }
        let length = |at: usize| usize::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
        let (name, extra, comment) = (length(28), length(30), length(32));
        if name > LONGEST_NAME {
            return Err(TemplateError::unreadable("a name that no part may have"));
        }
        let variable_bytes = (name + extra + comment) as u64;
        bytes_left = bytes_left.checked_sub(variable_bytes).ok_or_else(inconsistent_directory)?;
        io::copy(&mut directory.by_ref().take(variable_bytes), &mut io::sink()).map_err(read_error)?;
    }
    if bytes_left == 0 { Ok(()) } else { Err(inconsistent_directory()) }
}

fn inconsistent_directory() -> TemplateError {
    TemplateError::unreadable("no archive: its directory and its end disagree")
}
