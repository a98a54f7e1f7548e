//! Key files: keys that are generated once and stored in the data directory (`docs/operations.md`,
//! "Keys").

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use web::clock::random_token;

/// The file of the key for tokens and secrets at rest.
pub const SECRET_KEY: &str = "secret-key";
/// The file of the main API's `X-API-Key`.
pub const API_KEY: &str = "api-key";
/// The file of the history service's `X-API-Key`.
pub const HISTORY_API_KEY: &str = "history-api-key";
/// The file of the key that signs receipts.
pub const SIGNING_KEY: &str = "signing-key";
/// All key files.
pub const ALL: [&str; 4] = [SECRET_KEY, API_KEY, HISTORY_API_KEY, SIGNING_KEY];

/// The message about an `X-API-Key` that is too short.
pub const API_KEY_TOO_SHORT: &str = "expected at least 20 characters";

/// Returns whether an `X-API-Key` is short enough to be guessed.
pub fn is_short_api_key(key: &str) -> bool {
    key.chars().count() < 20
}

/// Reads the key in a file of the data directory. The first call generates it; only the owner can read the file.
///
/// Two processes that start at the same time get the same key: the file is written under another name and then linked to its own
/// name, which succeeds for one of them only. An empty file is an error, because a new key could not decrypt what the lost one
/// encrypted.
pub fn read_or_create(data: &Path, name: &str) -> io::Result<String> {
    let path = data.join(name);
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    store::make_directory(data).map_err(|error| with_path(data, error))?;
    let temporary = data.join(format!(".{name}.{}", random_token()));
    let linked = write_durably(&temporary, &random_token()).and_then(|()| fs::hard_link(&temporary, &path));
    let _ = fs::remove_file(&temporary);
    match linked {
        // The file must be durable before anything is sealed with the key.
        Ok(()) => File::open(data)?.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(with_path(&path, error)),
    }
    read(&path)?.ok_or_else(|| with_path(&path, io::ErrorKind::NotFound.into()))
}

/// Reads the key in a file of the data directory, if the file exists.
pub fn read_kept(data: &Path, name: &str) -> io::Result<Option<String>> {
    read(&data.join(name))
}

/// Replaces the key in a file, atomically and durably.
pub fn replace(data: &Path, name: &str, key: &str) -> io::Result<()> {
    let (path, temporary) = (data.join(name), data.join(format!(".{name}.new")));
    let replaced = remove_if_there(&temporary)
        .and_then(|()| write_durably(&temporary, key))
        .and_then(|()| fs::rename(&temporary, &path))
        .and_then(|()| File::open(data)?.sync_all());
    replaced.map_err(|error| with_path(&path, error))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => {
            Err(with_path(path, io::Error::new(io::ErrorKind::InvalidData, "the key file is empty")))
        }
        Ok(text) => Ok(Some(text.trim().to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(with_path(path, error)),
    }
}

fn write_durably(path: &Path, key: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

/// Adds the name of the file before the error.
fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    struct TestDirectory(PathBuf);

    impl TestDirectory {
        fn new() -> TestDirectory {
            TestDirectory(std::env::temp_dir().join(random_token()))
        }
    }

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_key_is_made_once_and_private() {
        let data = TestDirectory::new();
        let key = read_or_create(&data.0, SECRET_KEY).unwrap();
        assert_eq!(key.len(), 43);
        assert_eq!(read_or_create(&data.0, SECRET_KEY).unwrap(), key);
        assert_ne!(read_or_create(&data.0, API_KEY).unwrap(), key);
        let mode = fs::metadata(data.0.join(SECRET_KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data.0).unwrap().count(), 2, "no temporary file stays");
    }

    #[test]
    fn a_key_is_replaced_and_stays_private() {
        let data = TestDirectory::new();
        read_or_create(&data.0, SECRET_KEY).unwrap();
        // A file that a killed process has left is ignored.
        fs::write(data.0.join(".secret-key.new"), "half").unwrap();
        replace(&data.0, SECRET_KEY, "the new one").unwrap();
        assert_eq!(read_kept(&data.0, SECRET_KEY).unwrap().as_deref(), Some("the new one"));
        let mode = fs::metadata(data.0.join(SECRET_KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data.0).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn processes_that_start_at_once_get_the_same_key() {
        let data = TestDirectory::new();
        let keys: Vec<String> = std::thread::scope(|scope| {
            let starts: Vec<_> =
                (0..16).map(|_| scope.spawn(|| read_or_create(&data.0, HISTORY_API_KEY).unwrap())).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn an_operators_key_is_taken_and_an_empty_file_refused() {
        let data = TestDirectory::new();
        fs::create_dir_all(&data.0).unwrap();
        fs::write(data.0.join(API_KEY), "chosen\n").unwrap();
        assert_eq!(read_or_create(&data.0, API_KEY).unwrap(), "chosen");
        fs::write(data.0.join(SECRET_KEY), "\n").unwrap();
        let error = read_or_create(&data.0, SECRET_KEY).unwrap_err().to_string();
        assert!(error.ends_with("secret-key: the key file is empty"), "{error}");
    }
}
