//! The objects of a pack (`gitformat-pack`). Each object is read, checked against its size, and written to a file, where deltas
//! find it. At most one object, its base and its delta are in memory, and a chain of deltas builds each of its objects once.

use super::delta;
use super::shared::{GitError, Id, MAX_ALL_OBJECTS, MAX_OBJECT, MAX_OBJECTS, check_deadline};
use flate2::bufread::ZlibDecoder;
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// The maximum number of bytes of bases and deltas that are read to build objects. Many small deltas of a large object therefore
/// cost no more than an honest repository.
const MAX_WORK: u64 = 512 * 1024 * 1024;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl ObjectKind {
    fn name(self) -> &'static str {
        match self {
            ObjectKind::Commit => "commit",
            ObjectKind::Tree => "tree",
            ObjectKind::Blob => "blob",
            ObjectKind::Tag => "tag",
        }
    }
}

/// An object, and the position of its bytes in the file.
#[derive(Clone, Copy, Debug)]
pub struct GitObject {
    pub kind: ObjectKind,
    pub start: u64,
    pub size: u64,
}

/// The objects of a pack.
pub struct Objects<'a> {
    file: &'a File,
    by_id: HashMap<Id, GitObject>,
    /// The objects by their position in the pack.
    by_place: HashMap<u64, GitObject>,
    end: u64,
    work: u64,
}

/// The base of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Base {
    Place(u64),
    Object(Id),
}

/// A delta whose base has not been read yet.
struct PendingDelta {
    /// The position of the entry in the pack, and the position of its data.
    place: u64,
    data: u64,
    size: u64,
}

impl<'a> Objects<'a> {
    /// Reads the objects of a pack into an empty file.
    pub fn read(pack: &File, file: &'a File, deadline: Instant) -> Result<Objects<'a>, GitError> {
        let mut objects = Objects { file, by_id: HashMap::new(), by_place: HashMap::new(), end: 0, work: 0 };
        let mut waiting: HashMap<Base, Vec<PendingDelta>> = HashMap::new();
        let mut input = BufReader::new(FileReader { file: pack, place: 0 });
        let count = count(&mut input)?;
        for _ in 0..count {
            check_deadline(deadline)?;
            let place = place_of(&input);
            let entry = PackEntry::read(&mut input, place)?;
            if entry.size > MAX_OBJECT {
                return Err(GitError::TooLarge);
            }
            match entry.what {
                EntryBase::Whole(kind) => {
                    let bytes = objects.inflate(&mut input, entry.size)?;
                    let id = objects.add(kind, &bytes, place)?;
                    objects.resolve(pack, &mut waiting, id, place, deadline)?;
                }
                EntryBase::Delta(base) => {
                    let (data, size) = (place_of(&input), entry.size);
                    let delta = objects.inflate(&mut input, size)?;
                    match objects.base(base) {
                        Some(object) => {
                            let id = objects.add_delta(&delta, object, place)?;
                            objects.resolve(pack, &mut waiting, id, place, deadline)?;
                        }
                        None => waiting.entry(base).or_default().push(PendingDelta { place, data, size }),
                    }
                }
            }
        }
        // The remaining deltas have a base that is not in the pack. A file that needs them fails later.
        Ok(objects)
    }

    pub fn get(&self, id: &Id) -> Option<GitObject> {
        self.by_id.get(id).copied()
    }

    /// Returns the bytes of an object.
    pub fn bytes(&self, object: GitObject) -> Result<Vec<u8>, GitError> {
        let mut bytes = vec![0; object.size as usize];
        self.file.read_exact_at(&mut bytes, object.start).map_err(|_| GitError::Disk)?;
        Ok(bytes)
    }

    fn base(&self, base: Base) -> Option<GitObject> {
        match base {
            Base::Place(place) => self.by_place.get(&place).copied(),
            Base::Object(id) => self.get(&id),
        }
    }

    /// Builds the deltas that waited for an object, and the deltas that waited for these.
    fn resolve(
        &mut self,
        pack: &File,
        waiting: &mut HashMap<Base, Vec<PendingDelta>>,
        id: Id,
        place: u64,
        deadline: Instant,
    ) -> Result<(), GitError> {
        let mut queue = vec![(id, place)];
        while let Some((id, place)) = queue.pop() {
            if waiting.is_empty() {
                return Ok(());
            }
            for base in [Base::Object(id), Base::Place(place)] {
                for delta in waiting.remove(&base).into_iter().flatten() {
                    check_deadline(deadline)?;
                    let object = self.base(base).ok_or(GitError::Unreadable)?;
                    let mut input = BufReader::new(FileReader { file: pack, place: delta.data });
                    let bytes = self.inflate(&mut input, delta.size)?;
                    queue.push((self.add_delta(&bytes, object, delta.place)?, delta.place));
                }
            }
        }
        Ok(())
    }

    /// Inflates bytes of a declared size.
    fn inflate(&mut self, input: &mut impl BufRead, size: u64) -> Result<Vec<u8>, GitError> {
        self.count_work(size)?;
        let mut bytes = Vec::new();
        // One more byte detects data beyond the size, and makes the decoder read the end of the stream.
        let result = ZlibDecoder::new(input).take(size + 1).read_to_end(&mut bytes);
        match result {
            Ok(length) if length as u64 == size => Ok(bytes),
            _ => Err(GitError::Unreadable),
        }
    }

    fn add_delta(&mut self, delta: &[u8], base: GitObject, place: u64) -> Result<Id, GitError> {
        self.count_work(base.size)?;
        let object = delta::apply(delta, &self.bytes(base)?, MAX_OBJECT)?;
        self.add(base.kind, &object, place)
    }

    /// Counts bytes that are read to build objects.
    fn count_work(&mut self, bytes: u64) -> Result<(), GitError> {
        self.work += bytes;
        if self.work > MAX_WORK { Err(GitError::TooLarge) } else { Ok(()) }
    }

    fn add(&mut self, kind: ObjectKind, bytes: &[u8], place: u64) -> Result<Id, GitError> {
        let size = bytes.len() as u64;
        if self.end + size > MAX_ALL_OBJECTS {
            return Err(GitError::TooLarge);
        }
        let mut hash = Sha1::new();
        hash.update(format!("{} {size}\0", kind.name()));
        hash.update(bytes);
        let id = Id(hash.finalize().into());
        self.file.write_all_at(bytes, self.end).map_err(|_| GitError::Disk)?;
        let object = GitObject { kind, start: self.end, size };
        self.end += size;
        self.by_id.insert(id, object);
        self.by_place.insert(place, object);
        Ok(id)
    }
}

/// A reader of a file that begins at a position.
struct FileReader<'a> {
    file: &'a File,
    place: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.place)?;
        self.place += count as u64;
        Ok(count)
    }
}

/// Returns the position of the next byte of a buffered file.
fn place_of(input: &BufReader<FileReader<'_>>) -> u64 {
    input.get_ref().place - input.buffer().len() as u64
}

/// The header of an entry.
struct PackEntry {
    what: EntryBase,
    /// The size of its inflated data, in bytes.
    size: u64,
}

enum EntryBase {
    Whole(ObjectKind),
    Delta(Base),
}

impl PackEntry {
    fn read(input: &mut impl Read, place: u64) -> Result<PackEntry, GitError> {
        let mut byte = read_byte(input)?;
        let kind = (byte >> 4) & 7;
        let (mut size, mut shift) = (u64::from(byte & 0xf), 4);
        while byte & 0x80 != 0 {
            byte = read_byte(input)?;
            if shift > 56 {
                return Err(GitError::Unreadable);
            }
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        let kind_of_entry = match kind {
            1 => EntryBase::Whole(ObjectKind::Commit),
            2 => EntryBase::Whole(ObjectKind::Tree),
            3 => EntryBase::Whole(ObjectKind::Blob),
            4 => EntryBase::Whole(ObjectKind::Tag),
            6 => EntryBase::Delta(Base::Place(place.checked_sub(read_distance(input)?).ok_or(GitError::Unreadable)?)),
            7 => {
                let mut id = [0; 20];
                input.read_exact(&mut id).map_err(|_| GitError::Unreadable)?;
                EntryBase::Delta(Base::Object(Id(id)))
            }
            _ => return Err(GitError::Unreadable),
        };
        Ok(PackEntry { what: kind_of_entry, size })
    }
}

/// Reads the distance between an entry and its base before it.
fn read_distance(input: &mut impl Read) -> Result<u64, GitError> {
    let mut byte = read_byte(input)?;
    let mut distance = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = read_byte(input)?;
        if distance >= 1 << 48 {
            return Err(GitError::Unreadable);
        }
        distance = ((distance + 1) << 7) | u64::from(byte & 0x7f);
    }
    Ok(distance)
}

fn read_byte(input: &mut impl Read) -> Result<u8, GitError> {
    let mut byte = [0];
    input.read_exact(&mut byte).map_err(|_| GitError::Unreadable)?;
    Ok(byte[0])
}

/// Reads the header of a pack. Returns its number of objects.
fn count(input: &mut impl Read) -> Result<u32, GitError> {
    let mut header = [0; 12];
    input.read_exact(&mut header).map_err(|_| GitError::Unreadable)?;
    if !header.starts_with(b"PACK\0\0\0\x02") {
        return Err(GitError::Unreadable);
    }
    let count = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if count > MAX_OBJECTS { Err(GitError::TooLarge) } else { Ok(count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use std::io::Write;
    use std::time::Duration;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Returns the header of an entry.
    fn header(kind: u8, mut size: u64) -> Vec<u8> {
        let mut header = vec![(kind << 4) | (size & 0xf) as u8];
        size >>= 4;
        while size > 0 {
            *header.last_mut().unwrap() |= 0x80;
            header.push((size & 0x7f) as u8);
            size >>= 7;
        }
        header
    }

    fn full_entry(kind: u8, bytes: &[u8]) -> Vec<u8> {
        [header(kind, bytes.len() as u64), deflated(bytes)].concat()
    }

    /// Returns a delta on an object.
    fn ref_delta(base: Id, delta: &[u8]) -> Vec<u8> {
        [header(7, delta.len() as u64), base.0.to_vec(), deflated(delta)].concat()
    }

    /// Returns a delta on the entry `distance` bytes before.
    fn offset_delta(distance: u8, delta: &[u8]) -> Vec<u8> {
        assert!(distance < 0x80);
        [header(6, delta.len() as u64), vec![distance], deflated(delta)].concat()
    }

    fn pack(entries: &[Vec<u8>]) -> Vec<u8> {
        let count = (entries.len() as u32).to_be_bytes();
        [&b"PACK\0\0\0\x02"[..], &count, &entries.concat()].concat()
    }

    fn id_of(kind: &str, bytes: &[u8]) -> Id {
        Id(Sha1::digest([format!("{kind} {}\0", bytes.len()).as_bytes(), bytes].concat()).into())
    }

    /// Reads a pack. Returns the bytes of an object of it.
    fn read(pack: &[u8], id: Id) -> Result<Option<Vec<u8>>, GitError> {
        let (mut file, scratch) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.write_all(pack).unwrap();
        let objects = Objects::read(&file, &scratch, Instant::now() + Duration::from_secs(30))?;
        objects.get(&id).map(|object| objects.bytes(object)).transpose()
    }

    /// Returns a delta that copies the first `size` bytes of the base and adds one.
    fn copy_and(size: u8, added: u8) -> Vec<u8> {
        vec![size, size + 1, 0x90, size, 1, added]
    }

    #[test]
    fn objects_and_deltas_are_found_by_their_ids_in_any_order() {
        let blob = id_of("blob", b"abc");
        let entry = full_entry(3, b"abc");
        assert_eq!(read(&pack(std::slice::from_ref(&entry)), blob), Ok(Some(b"abc".to_vec())));
        assert_eq!(blob.to_string(), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
        let [second, third] = [&b"abcd"[..], b"abcde"].map(|bytes| id_of("blob", bytes));
        let distance = entry.len() as u8;
        let entries =
            [entry.clone(), offset_delta(distance, &copy_and(3, b'd')), ref_delta(second, &copy_and(4, b'e'))];
        assert_eq!(read(&pack(&entries), third), Ok(Some(b"abcde".to_vec())));
        // Both deltas wait: for an object that comes last, and for the entry of a waiting one.
        let first = ref_delta(blob, &copy_and(3, b'd'));
        let before = [first.clone(), offset_delta(first.len() as u8, &copy_and(4, b'e')), entry];
        assert_eq!(read(&pack(&before), third), Ok(Some(b"abcde".to_vec())));
        // The base is missing.
        assert_eq!(read(&pack(&[first]), second), Ok(None));
    }

    #[test]
    fn invalid_packs_are_refused() {
        let none = id_of("blob", b"");
        let good = pack(&[full_entry(3, b"abc")]);
        for end in 0..good.len() - 1 {
            assert_eq!(read(&good[..end], none), Err(GitError::Unreadable), "{end}");
        }
        let read_entry = |entry: Vec<u8>| read(&pack(&[entry]), none);
        for entry in [
            [header(3, 4), deflated(b"abc")].concat(),
            [header(3, 2), deflated(b"abc")].concat(),
            [header(3, 3), b"abc".to_vec()].concat(),
            [header(0, 3), deflated(b"abc")].concat(),
            [header(5, 3), deflated(b"abc")].concat(),
            vec![0xbf; 40],
            offset_delta(100, b"abc"),
            [header(6, 3), vec![0xff; 40]].concat(),
        ] {
            assert_eq!(read_entry(entry.clone()), Err(GitError::Unreadable), "{entry:?}");
        }
        assert_eq!(read(b"PACK\0\0\0\x03\0\0\0\0", none), Err(GitError::Unreadable));
        // A delta on its own entry is never built.
        assert_eq!(read_entry(offset_delta(0, &copy_and(3, b'd'))), Ok(None));
    }

    #[test]
    fn bombs_are_refused_before_they_are_unpacked() {
        let none = id_of("blob", b"");
        let started = Instant::now();
        // The maximum number of objects that the header can declare.
        assert_eq!(read(b"PACK\0\0\0\x02\xff\xff\xff\xff", none), Err(GitError::TooLarge));
        // A large object with its true size, and one with a small declared size.
        let zeros = vec![0; MAX_OBJECT as usize + 1];
        assert_eq!(read(&pack(&[full_entry(3, &zeros)]), none), Err(GitError::TooLarge));
        assert_eq!(read(&pack(&[[header(3, 9), deflated(&zeros)].concat()]), none), Err(GitError::Unreadable));
        // Many objects that are not too large.
        let entries: Vec<_> =
            (0..=MAX_ALL_OBJECTS / MAX_OBJECT).map(|n| full_entry(3, &vec![n as u8; MAX_OBJECT as usize])).collect();
        assert_eq!(read(&pack(&entries), none), Err(GitError::TooLarge));
        // A delta that repeats a small base.
        let base = vec![7; 0x10000];
        let repeats = |count: usize| {
            let size = (count * 0x10000) as u64;
            let mut delta = vec![0x80, 0x80, 0x04];
            delta.extend([
                (size & 0x7f) as u8 | 0x80,
                (size >> 7 & 0x7f) as u8 | 0x80,
                (size >> 14 & 0x7f) as u8 | 0x80,
            ]);
            delta.push((size >> 21) as u8);
            delta.extend(vec![0x80; count]);
            delta
        };
        let of_base = |count| pack(&[full_entry(3, &base), ref_delta(id_of("blob", &base), &repeats(count))]);
        let zeros = vec![7; 160 * 0x10000];
        assert_eq!(read(&of_base(160), id_of("blob", &zeros)), Ok(Some(zeros)));
        assert_eq!(read(&of_base(161), none), Err(GitError::TooLarge));
        // Thousands of small deltas on a large base.
        let large = vec![1; MAX_OBJECT as usize];
        let small = [&[0x80, 0x80, 0x80, 0x05, 1, 1][..], b"x"].concat();
        let id = id_of("blob", &large);
        let deltas = (0..5000).map(|_| ref_delta(id, &small));
        let deltas: Vec<_> = [full_entry(3, &large)].into_iter().chain(deltas).collect();
        assert_eq!(read(&pack(&deltas), none), Err(GitError::TooLarge));
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn a_deadline_ends_it() {
        let (mut file, scratch) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.write_all(&pack(&[full_entry(3, b"abc")])).unwrap();
        assert!(matches!(Objects::read(&file, &scratch, Instant::now()), Err(GitError::Unreachable)));
    }
}
