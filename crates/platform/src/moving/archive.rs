//! The format of an archive (`docs/moving.md`, "The archive"): a tar of regular files alone, uncompressed, in a fixed order.
//!
//! After each [`ENTRIES_IN_SUMS`] entries, and before the last one, an entry `sums/…` has the SHA-256 of each entry since the one
//! before, as `sha256sum` prints it. The last entry, [`MANIFEST`], has the SHA-256 of all these lines and of itself. The reader accepts exactly
//! what the writer writes: no links, directories, further headers, repeated sums or bytes behind the end. Nothing in it grows when
//! it is read, and no name of an entry becomes a path.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use web::clock::hex;

/// The name of the first entry.
pub const HEADER: &str = "header.json";
/// The name of the last entry.
pub const MANIFEST: &str = "manifest.json";
/// The member of the manifest with the SHA-256 of all lines of sums and of its other members as compact JSON.
pub const SUMS_DIGEST: &str = "sums_sha256";
/// The number of entries whose sums are in one entry.
const ENTRIES_IN_SUMS: usize = 1000;
/// The size of a tar block in bytes.
const BLOCK: usize = 512;
/// The maximum length of the name of an entry.
const MAX_NAME: usize = 100;
/// The maximum size of an entry that is read as a whole, in bytes.
pub const MAX_WHOLE_ENTRY: u64 = 32 * 1024 * 1024;
/// The maximum size of an entry in the octal digits of tar, in bytes.
const MAX_ENTRY: u64 = 0o77_777_777_777;
/// The size of the pieces in which files are copied, in bytes.
const PIECE: usize = 256 * 1024;

/// Lines of `sha256sum` over the entries of an archive, and the digest of all of them.
#[derive(Default)]
struct Sums {
    lines: String,
    count: usize,
    number: u64,
    all: Sha256,
}

impl Sums {
    fn add(&mut self, name: &str, digest: &str) {
        let _ = writeln!(self.lines, "{digest}  {name}");
        self.count += 1;
    }

    /// Returns the name of the next entry with sums.
    fn next_name(&self) -> String {
        format!("sums/{:06}", self.number + 1)
    }

    /// Returns the lines since the last call.
    fn take_lines(&mut self) -> String {
        self.all.update(self.lines.as_bytes());
        self.count = 0;
        self.number += 1;
        std::mem::take(&mut self.lines)
    }

    /// Returns the digest of all lines and of the other members of the manifest.
    fn digest(&self, manifest: &Json) -> String {
        let mut all = self.all.clone();
        all.update(manifest.to_string().as_bytes());
        hex(&all.finalize())
    }
}

/// Writes an archive.
pub struct ArchiveWriter<W> {
    out: W,
    sums: Sums,
    /// The number of bytes so far.
    pub written: u64,
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins an archive.
    pub fn new(out: W) -> ArchiveWriter<W> {
        ArchiveWriter { out, sums: Sums::default(), written: 0 }
    }

    /// Writes an entry that is in memory.
    pub fn entry(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes)?;
        self.note(name, &hex(&Sha256::digest(bytes)))
    }

    /// Writes an entry of this size from a reader. Returns the SHA-256 of its bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the reader has fewer bytes. The archive is then unusable.
    pub fn copy(&mut self, name: &str, size: u64, mut from: impl Read) -> io::Result<String> {
        self.head(name, size)?;
        let (mut hash, mut piece, mut left) = (Sha256::new(), vec![0; PIECE], size);
        while left > 0 {
            let most = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            from.read_exact(&mut piece[..most])?;
            hash.update(&piece[..most]);
            self.write(&piece[..most])?;
            left -= most as u64;
        }
        self.pad(size)?;
        let digest = hex(&hash.finalize());
        self.note(name, &digest)?;
        Ok(digest)
    }

    /// Writes the last entry and the end of the archive. Returns the output.
    pub fn finish(mut self, mut manifest: Json) -> io::Result<W> {
        self.put_sums()?;
        if let Some(members) = manifest.as_object_mut() {
            members.shift_remove(SUMS_DIGEST);
        }
        manifest[SUMS_DIGEST] = self.sums.digest(&manifest).into();
        self.put(MANIFEST, format!("{manifest:#}\n").as_bytes())?;
        self.write(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn note(&mut self, name: &str, digest: &str) -> io::Result<()> {
        self.sums.add(name, digest);
        if self.sums.count >= ENTRIES_IN_SUMS { self.put_sums() } else { Ok(()) }
    }

    fn put_sums(&mut self) -> io::Result<()> {
        if self.sums.count == 0 {
            return Ok(());
        }
        let name = self.sums.next_name();
        let lines = self.sums.take_lines();
        self.put(&name, lines.as_bytes())
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.head(name, bytes.len() as u64)?;
        self.write(bytes)?;
        self.pad(bytes.len() as u64)
    }

    fn head(&mut self, name: &str, size: u64) -> io::Result<()> {
        let head = head(name, size).ok_or_else(|| io::Error::other(format!("{name}: too large for an archive")))?;
        self.write(&head)
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let padding = padding(size);
        self.write(&[0; BLOCK][..padding])
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

/// Returns the header block of a regular file (ustar); `None` if the name or the size does not fit.
fn head(name: &str, size: u64) -> Option<[u8; BLOCK]> {
    if name.len() > MAX_NAME || size > MAX_ENTRY {
        return None;
    }
    let mut head = [0; BLOCK];
    head[..name.len()].copy_from_slice(name.as_bytes());
    for (at, text) in [
        (100, "0000600\0".to_owned()),
        (108, "0000000\0".to_owned()),
        (116, "0000000\0".to_owned()),
        (124, format!("{size:011o}\0")),
        (136, "00000000000\0".to_owned()),
        // The checksum is computed with blanks in its place.
        (148, "        ".to_owned()),
        (156, "0".to_owned()),
        (257, "ustar\x0000".to_owned()),
    ] {
        head[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Some(head)
}

/// An entry of an archive whose content is to be read next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub size: u64,
}

/// Reads an archive, which may be hostile. Errors of the kind [`io::ErrorKind::InvalidData`] say what is wrong with it.
pub struct ArchiveReader<R> {
    from: R,
    sums: Sums,
    /// The number of bytes so far.
    pub read: u64,
}

impl<R: Read> ArchiveReader<R> {
    /// Begins to read an archive.
    pub fn new(from: R) -> ArchiveReader<R> {
        ArchiveReader { from, sums: Sums::default(), read: 0 }
    }

    /// Returns the next entry. Entries with sums are compared and left out.
    pub fn next_entry(&mut self) -> io::Result<Entry> {
        loop {
            let entry = self.read_head()?;
            if !entry.name.starts_with("sums/") {
                if self.sums.count >= ENTRIES_IN_SUMS {
                    return Err(invalid(format!("{}: {} is missing before it", entry.name, self.sums.next_name())));
                }
                return Ok(entry);
            }
            self.compare_sums(&entry)?;
        }
    }

    /// Returns the content of an entry.
    ///
    /// # Errors
    /// An entry of more than [`MAX_WHOLE_ENTRY`] is refused before it is read.
    pub fn read_whole(&mut self, entry: &Entry) -> io::Result<Vec<u8>> {
        let bytes = self.content(entry)?;
        self.sums.add(&entry.name, &hex(&Sha256::digest(&bytes)));
        Ok(bytes)
    }

    /// Copies the content of an entry.
    pub fn copy(&mut self, entry: &Entry, mut to: impl Write) -> io::Result<()> {
        let (mut hash, mut piece, mut left) = (Sha256::new(), vec![0; PIECE], entry.size);
        while left > 0 {
            let most = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            self.fill(&mut piece[..most])?;
            hash.update(&piece[..most]);
            to.write_all(&piece[..most])?;
            left -= most as u64;
        }
        self.skip_padding(entry.size)?;
        self.sums.add(&entry.name, &hex(&hash.finalize()));
        Ok(())
    }

    /// Reads the manifest, which must be this entry, and checks that the archive is complete and unchanged.
    pub fn finish(mut self, entry: &Entry) -> io::Result<Json> {
        if entry.name != MANIFEST {
            return Err(invalid(format!("{}: expected {MANIFEST}", entry.name)));
        }
        if self.sums.count > 0 {
            return Err(invalid(format!("{} is missing", self.sums.next_name())));
        }
        let bytes = self.content(entry)?;
        let no_json = || invalid(format!("{MANIFEST}: no JSON"));
        let mut manifest: Json = serde_json::from_slice(&bytes).map_err(|_| no_json())?;
        let digest = manifest.as_object_mut().ok_or_else(no_json)?.shift_remove(SUMS_DIGEST);
        if digest.as_ref().and_then(Json::as_str) != Some(&self.sums.digest(&manifest)) {
            return Err(invalid(format!("{MANIFEST}: {SUMS_DIGEST} does not match")));
        }
        let mut end = [0; 2 * BLOCK];
        self.fill(&mut end)?;
        let mut behind = [0; 1];
        if end.iter().any(|byte| *byte != 0) || self.from.read(&mut behind)? != 0 {
            return Err(invalid("there are bytes behind the end"));
        }
        Ok(manifest)
    }

    fn compare_sums(&mut self, entry: &Entry) -> io::Result<()> {
        let is_expected = self.sums.count > 0 && entry.name == self.sums.next_name();
        if !is_expected || entry.size != self.sums.lines.len() as u64 {
            return Err(invalid(format!("{}: it is not expected here", entry.name)));
        }
        let bytes = self.content(entry)?;
        if bytes != self.sums.take_lines().as_bytes() {
            return Err(invalid(format!("{}: an entry before it was changed", entry.name)));
        }
        Ok(())
    }

    fn content(&mut self, entry: &Entry) -> io::Result<Vec<u8>> {
        if entry.size > MAX_WHOLE_ENTRY {
            return Err(invalid(format!("{}: larger than {MAX_WHOLE_ENTRY} bytes", entry.name)));
        }
        // The memory grows with the bytes that arrive, not with the size that the archive claims.
        let mut bytes = Vec::new();
        (&mut self.from).take(entry.size).read_to_end(&mut bytes)?;
        self.read += bytes.len() as u64;
        if bytes.len() as u64 != entry.size {
            return Err(cut_off());
        }
        self.skip_padding(entry.size)?;
        Ok(bytes)
    }

    fn read_head(&mut self) -> io::Result<Entry> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        let end = block[..MAX_NAME].iter().position(|byte| *byte == 0).unwrap_or(MAX_NAME);
        let name = std::str::from_utf8(&block[..end]).ok().filter(|name| is_entry_name(name));
        let name = name.ok_or_else(|| invalid("it is not an archive of a build, or a part is damaged"))?.to_owned();
        let octal = std::str::from_utf8(&block[124..135]).ok().and_then(|text| u64::from_str_radix(text, 8).ok());
        // Only the blocks that the writer writes are accepted, so links, owners and extensions do not exist.
        match octal.filter(|size| head(&name, *size).is_some_and(|head| head == block)) {
            Some(size) => Ok(Entry { name, size }),
            None => Err(invalid(format!("{name}: its header is not one of an archive of a build"))),
        }
    }

    fn skip_padding(&mut self, size: u64) -> io::Result<()> {
        let (mut block, padding) = ([0; BLOCK], padding(size));
        self.fill(&mut block[..padding])?;
        if block.iter().any(|byte| *byte != 0) { Err(invalid("the padding is not empty")) } else { Ok(()) }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => cut_off(),
            _ => error,
        })?;
        self.read += bytes.len() as u64;
        Ok(())
    }
}

fn is_entry_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    !name.is_empty()
        && name.bytes().all(is_plain)
        && name.split('/').all(|part| !part.is_empty() && part != ".." && part != ".")
}

/// Returns an error about the content of an archive.
pub fn invalid(line: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, line.into())
}

fn cut_off() -> io::Error {
    invalid("the archive is cut off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn archive(files: usize) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Vec::new());
        writer.entry(HEADER, b"{}").unwrap();
        for n in 0..files {
            writer.copy(&format!("files/{n}"), 3, &b"abc"[..]).unwrap();
        }
        writer.finish(json!({"files": files})).unwrap()
    }

    fn read(bytes: &[u8]) -> io::Result<(usize, Json)> {
        let mut reader = ArchiveReader::new(bytes);
        let mut entries = 0;
        loop {
            let entry = reader.next_entry()?;
            if entry.name == MANIFEST {
                return Ok((entries, reader.finish(&entry)?));
            }
            reader.copy(&entry, io::sink())?;
            entries += 1;
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for files in [0, 1, 998, 999, 1000, 2500] {
            let (entries, manifest) = read(&archive(files)).unwrap();
            assert_eq!((entries, manifest["files"].as_u64()), (files + 1, Some(files as u64)));
        }
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let good = archive(2);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            assert!(read(&bad).is_err(), "byte {at}");
        }
        for length in (0..good.len()).step_by(100) {
            assert!(read(&good[..length]).is_err(), "cut at {length}");
        }
        assert!(read(&[good.clone(), vec![0]].concat()).is_err());
        assert!(read(&[&good[..], &good[..]].concat()).is_err());
    }

    #[test]
    fn names_that_lead_elsewhere_and_other_kinds_of_entries_are_refused() {
        for name in ["../x", "/etc/passwd", "files/../../x", "files//x", "files/.", "x\\y", "ü"] {
            let mut writer = ArchiveWriter::new(Vec::new());
            writer.entry(name, b"x").unwrap();
            assert!(read(&writer.finish(json!({})).unwrap()).is_err(), "{name}");
        }
        let mut link = archive(0);
        link[156] = b'2';
        let error = read(&link).unwrap_err().to_string();
        assert_eq!(error, "header.json: its header is not one of an archive of a build");
    }

    #[test]
    fn a_claimed_size_reserves_no_memory() {
        let mut claims = head("tables/users/000001.ndjson", MAX_WHOLE_ENTRY).unwrap().to_vec();
        claims.extend([b'x'; 100]);
        let mut reader = ArchiveReader::new(&claims[..]);
        let entry = reader.next_entry().unwrap();
        assert_eq!(reader.read_whole(&entry).unwrap_err().to_string(), "the archive is cut off");
        let claims = head("header.json", MAX_WHOLE_ENTRY + 1).unwrap();
        let mut reader = ArchiveReader::new(&claims[..]);
        let entry = reader.next_entry().unwrap();
        assert_eq!(reader.read_whole(&entry).unwrap_err().to_string(), "header.json: larger than 33554432 bytes");
    }
}
