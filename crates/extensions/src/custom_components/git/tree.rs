//! The files of a commit. Entries that are not plain files are omitted, and so are names that could be interpreted as anything
//! other than a path below the repository.

use super::pack::{GitObject, ObjectKind, Objects};
use super::shared::{GitError, Id, MAX_ALL_FILES, MAX_FILES, check_deadline};
use std::collections::HashSet;
use std::time::Instant;

/// The maximum length of a path, in bytes.
const MAX_PATH: usize = 1000;
/// The maximum number of tree entries that are read. A tree may occur in many places, so the number can exceed that of objects.
const MAX_ENTRIES: usize = 20_000;
/// The maximum size of all trees that are read, in bytes.
const MAX_TREES: u64 = 16 * 1024 * 1024;

/// A file of a commit.
#[derive(Clone, Debug)]
pub struct ServedFile {
    pub path: String,
    pub id: Id,
    pub object: GitObject,
}

/// Returns the files of a commit.
pub fn files_of(objects: &Objects<'_>, commit: Id, deadline: Instant) -> Result<Vec<ServedFile>, GitError> {
    let mut waiting = vec![(String::new(), root_of(objects, commit)?)];
    let (mut files, mut entries, mut read_bytes, mut size) = (Vec::new(), 0, 0, 0);
    let mut paths = HashSet::new();
    while let Some((directory, id)) = waiting.pop() {
        check_deadline(deadline)?;
        let tree = object(objects, id, ObjectKind::Tree)?;
        read_bytes += tree.size;
        if read_bytes > MAX_TREES {
            return Err(GitError::TooLarge);
        }
        let bytes = objects.bytes(tree)?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(GitError::TooLarge);
            }
            let (mode, name, id) = next_entry(&mut rest)?;
            let Some(path) = path_of(&directory, name) else { continue };
            match mode {
                b"40000" => waiting.push((path + "/", id)),
                b"100644" | b"100755" | b"100664" => {
                    let object = object(objects, id, ObjectKind::Blob)?;
                    size += object.size;
                    if files.len() == MAX_FILES || size > MAX_ALL_FILES {
                        return Err(GitError::TooLarge);
                    }
                    if !paths.insert(path.clone()) {
                        return Err(GitError::Unreadable);
                    }
                    files.push(ServedFile { path, id, object });
                }
                // The entry is a symbolic link or a submodule.
                _ => {}
            }
        }
    }
    Ok(files)
}

fn object(objects: &Objects<'_>, id: Id, kind: ObjectKind) -> Result<GitObject, GitError> {
    objects.get(&id).filter(|object| object.kind == kind).ok_or(GitError::Unreadable)
}

/// Returns the tree of a commit.
fn root_of(objects: &Objects<'_>, commit: Id) -> Result<Id, GitError> {
    let bytes = objects.bytes(object(objects, commit, ObjectKind::Commit)?)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let id = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("tree "));
    id.and_then(Id::parse).ok_or(GitError::Unreadable)
}

/// Reads the mode, name and id of the next entry.
fn next_entry<'a>(rest: &mut &'a [u8]) -> Result<(&'a [u8], &'a [u8], Id), GitError> {
    let split_at_byte = |bytes: &'a [u8], end: u8| {
        let at = bytes.iter().position(|byte| *byte == end).ok_or(GitError::Unreadable)?;
        Ok((&bytes[..at], &bytes[at + 1..]))
    };
    let (mode, after) = split_at_byte(rest, b' ')?;
    let (name, after) = split_at_byte(after, 0)?;
    let (id, after) = after.split_first_chunk::<20>().ok_or(GitError::Unreadable)?;
    *rest = after;
    Ok((mode, name, Id(*id)))
}

/// Returns the path of an entry; `None` for an entry that is not served.
fn path_of(directory: &str, name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let is_plain = !name.is_empty() && !matches!(name, "." | "..") && !name.contains(['/', '\\']);
    let is_git = name.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(".git");
    let fits = directory.len() + name.len() <= MAX_PATH;
    (is_plain && !is_git && fits && !name.chars().any(char::is_control)).then(|| format!("{directory}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha1::{Digest, Sha1};
    use std::io::Write;
    use std::time::Duration;

    /// Returns the paths of a commit's files from a pack with these objects.
    fn files(entries: &[(u8, Vec<u8>)], commit: Id) -> Result<Vec<String>, GitError> {
        let mut pack = [&b"PACK\0\0\0\x02"[..], &(entries.len() as u32).to_be_bytes()].concat();
        for (kind, bytes) in entries {
            let size = bytes.len();
            pack.extend([kind << 4 | 0x80 | (size & 0xf) as u8, (size >> 4 & 0x7f) as u8 | 0x80, (size >> 11) as u8]);
            let mut encoder = flate2::write::ZlibEncoder::new(&mut pack, flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        let (mut file, scratch) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.write_all(&pack).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let objects = Objects::read(&file, &scratch, deadline)?;
        Ok(files_of(&objects, commit, deadline)?.into_iter().map(|file| file.path).collect())
    }

    fn id_of(kind: &str, bytes: &[u8]) -> Id {
        Id(Sha1::digest([format!("{kind} {}\0", bytes.len()).as_bytes(), bytes].concat()).into())
    }

    fn entry(mode: &str, name: &str, id: Id) -> Vec<u8> {
        [format!("{mode} {name}\0").as_bytes(), &id.0].concat()
    }

    fn commit(tree: &[u8]) -> Vec<u8> {
        format!("tree {}\nauthor Ann\n\nChange\n", id_of("tree", tree)).into_bytes()
    }

    #[test]
    fn a_tree_that_repeats_itself_is_refused() {
        // Ten levels with ten equal entries each: more files than a disk can store.
        let mut objects = vec![(3, b"x".to_vec())];
        let mut tree = entry("100644", "x", id_of("blob", b"x"));
        for _ in 0..10 {
            objects.push((2, tree.clone()));
            let id = id_of("tree", &tree);
            tree = (0..10).flat_map(|n| entry("40000", &n.to_string(), id)).collect();
        }
        objects.push((2, tree.clone()));
        let last = commit(&tree);
        objects.push((1, last.clone()));
        assert_eq!(files(&objects, id_of("commit", &last)), Err(GitError::TooLarge));
    }

    #[test]
    fn trees_that_are_none_are_refused() {
        let read_tree = |tree: &[u8]| {
            let commit = commit(tree);
            let objects = [(3, b"x".to_vec()), (2, tree.to_vec()), (1, commit.clone())];
            files(&objects, id_of("commit", &commit))
        };
        let blob = id_of("blob", b"x");
        let good = [
            entry("100644", "a", blob),
            entry("100755", "b", blob),
            entry("120000", "link", blob),
            entry("160000", "sub", blob),
        ];
        assert_eq!(read_tree(&good.concat()), Ok(vec!["a".to_owned(), "b".to_owned()]));
        let unknown = id_of("blob", b"unknown");
        for wrong in [
            entry("100644", "a", unknown),
            entry("40000", "a", blob),
            [entry("100644", "a", blob), entry("100644", "a", blob)].concat(),
            b"100644 a".to_vec(),
            b"100644 a\0short".to_vec(),
            b"garbage".to_vec(),
        ] {
            assert_eq!(read_tree(&wrong), Err(GitError::Unreadable), "{wrong:?}");
        }
        assert_eq!(files(&[(3, b"x".to_vec())], blob), Err(GitError::Unreadable));
        assert_eq!(files(&[(1, b"no tree".to_vec())], id_of("commit", b"no tree")), Err(GitError::Unreadable));
    }

    #[test]
    fn paths_stay_below_the_repository() {
        for name in ["a", ".gitignore", "..a", "a b", "ä.js", "git"] {
            assert_eq!(path_of("b/", name.as_bytes()), Some(format!("b/{name}")));
        }
        for name in ["", ".", "..", ".git", ".GIT", ".git.", "a/b", "../a", "a\\b", "a\nb", "a\u{7f}"] {
            assert_eq!(path_of("b/", name.as_bytes()), None, "{name}");
        }
        assert_eq!(path_of("", &[0xff]), None);
        assert_eq!(path_of(&"d/".repeat(500), b"a"), None);
    }
}
