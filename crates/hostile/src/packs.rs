//! The packs of a git server, and the files of the commits in them.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use platform::extensions::git::{GitError, Id, Objects, files_of};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// The maximum number of objects in a generated pack. It is sufficient for nested trees, and such a pack is read quickly.
const MAX_OBJECTS: usize = 64;
/// The time exceeds the maximum of any pack.
const DEADLINE: Duration = Duration::from_secs(30);

/// Parses the input as a whole pack, and as the objects of one, separated by `\x1e`. An object begins with its kind: `c`, `t`, `b`
/// or `g` for a commit, a tree, a blob or a tag; `o` or `r` and a digit for a delta to an earlier object, by its position or by its
/// id. In its bytes, `\x1f` and a digit are replaced by the id of an earlier object. `\x1d` and a digit are replaced by the digits
/// of this id.
pub fn packs(data: &[u8]) {
    let _ = files_of_pack(data, &[]);

    let mut entries = Vec::new();
    let mut is_whole = true;
    for object in data.split(|byte| *byte == 0x1e).take(MAX_OBJECTS) {
        let Some((kind, rest)) = object.split_first() else { continue };
        match kind {
            b'c' | b't' | b'b' | b'g' => entries.push(HostilePackEntry::full_entry(*kind, with_ids(rest, &entries))),
            b'o' | b'r' => {
                let Some((digit, delta)) = rest.split_first() else { continue };
                if let Some(base) = entry_for_digit(*digit, &entries) {
                    let id = base.id;
                    entries.push(HostilePackEntry::delta(*kind, usize::from(*digit - b'0'), id, delta.to_vec()));
                    is_whole = false;
                }
            }
            _ => {}
        }
    }
    let read = files_of_pack(&pack(&entries), &entries);
    if is_whole {
        assert_eq!(read.err(), None, "objects that need no others are read");
    }
}

/// An entry of a generated pack.
struct HostilePackEntry {
    /// The number of the kind in a pack.
    number: u8,
    bytes: Vec<u8>,
    /// The id of a whole object. The id of a delta is not available.
    id: Option<Id>,
    /// The index of the entry that a delta changes.
    base: usize,
}

impl HostilePackEntry {
    fn full_entry(kind: u8, bytes: Vec<u8>) -> HostilePackEntry {
        let (number, name) = match kind {
            b'c' => (1, "commit"),
            b't' => (2, "tree"),
            b'b' => (3, "blob"),
            _ => (4, "tag"),
        };
        let named = [format!("{name} {}\0", bytes.len()).as_bytes(), &bytes].concat();
        let id = digest(&SHA1_FOR_LEGACY_USE_ONLY, &named).as_ref().try_into().map(Id).ok();
        HostilePackEntry { number, bytes, id, base: 0 }
    }

    fn delta(kind: u8, base: usize, id: Option<Id>, bytes: Vec<u8>) -> HostilePackEntry {
        // A delta to a delta can only be named by its position.
        HostilePackEntry { number: if kind == b'r' && id.is_some() { 7 } else { 6 }, bytes, id: None, base }
    }
}

/// Returns the entry for a digit.
fn entry_for_digit(digit: u8, entries: &[HostilePackEntry]) -> Option<&HostilePackEntry> {
    entries.get(usize::from(digit.checked_sub(b'0')?))
}

fn with_ids(bytes: &[u8], entries: &[HostilePackEntry]) -> Vec<u8> {
    let mut made = Vec::new();
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        if !matches!(byte, 0x1d | 0x1f) {
            made.push(*byte);
            continue;
        }
        let Some(id) = rest.next().and_then(|digit| entry_for_digit(*digit, entries)?.id) else { continue };
        if *byte == 0x1f { made.extend(id.0) } else { made.extend(id.to_string().into_bytes()) }
    }
    made
}

fn pack(entries: &[HostilePackEntry]) -> Vec<u8> {
    let mut pack = [&b"PACK\0\0\0\x02"[..], &(entries.len() as u32).to_be_bytes()].concat();
    let mut places = Vec::new();
    for entry in entries {
        let place = pack.len();
        let mut size = entry.bytes.len() >> 4;
        pack.push(entry.number << 4 | (entry.bytes.len() & 0xf) as u8 | if size > 0 { 0x80 } else { 0 });
        while size > 0 {
            pack.push((size & 0x7f) as u8 | if size > 0x7f { 0x80 } else { 0 });
            size >>= 7;
        }
        match entry.number {
            6 => pack.extend(encode_distance(place - places[entry.base])),
            7 => pack.extend(entries[entry.base].id.iter().flat_map(|id| id.0)),
            _ => {}
        }
        places.push(place);
        let mut encoder = ZlibEncoder::new(&mut pack, Compression::none());
        encoder.write_all(&entry.bytes).and_then(|()| encoder.finish()).unwrap_or_else(|error| panic!("{error}"));
    }
    pack
}

/// Encodes a distance in the format of a pack: seven bits per byte, the highest first, less one for each byte that follows.
fn encode_distance(mut distance: usize) -> Vec<u8> {
    let mut bytes = vec![(distance & 0x7f) as u8];
    while distance > 0x7f {
        distance = (distance >> 7) - 1;
        bytes.insert(0, 0x80 | (distance & 0x7f) as u8);
    }
    bytes
}

/// Checks that a pack is refused with a reason, or is read correctly. Whole objects equal the sent ones, and the files of every
/// commit have plain paths, each once.
fn files_of_pack(pack: &[u8], sent: &[HostilePackEntry]) -> Result<(), GitError> {
    let deadline = Instant::now() + DEADLINE;
    let (packed, unpacked) = (file(pack), file(&[]));
    let objects = Objects::read(&packed, &unpacked, deadline)?;
    for entry in sent {
        let Some(id) = entry.id else { continue };
        let bytes = objects.get(&id).map(|object| objects.bytes(object));
        assert_eq!(bytes, Some(Ok(entry.bytes.clone())), "an object is what was sent");
        let Ok(files) = files_of(&objects, id, deadline) else { continue };
        assert_eq!(entry.number, 1, "only a commit has files");
        let mut paths = HashSet::new();
        for served in files {
            let path = served.path;
            assert!(path.split('/').all(|name| !matches!(name, "" | "." | ".." | ".git")), "{path:?}");
            assert!(!path.contains('\\') && !path.chars().any(char::is_control), "{path:?}");
            assert!(objects.bytes(served.object).is_ok(), "{path:?}");
            assert!(paths.insert(path), "a path stands for one file");
        }
    }
    Ok(())
}

fn file(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().and_then(|mut file| file.write_all(bytes).map(|()| file));
    file.unwrap_or_else(|error| panic!("{error}"))
}
