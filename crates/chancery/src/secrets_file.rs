//! Keys that are generated once and kept in the data directory (document 4, section 1, rows `CHANCERY_SECRET_KEY` and
//! `CHANCERY_API_KEY`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use platform::clock::random_token;

/// File of the key for tokens and secrets at rest.
pub const SECRET_KEY: &str = "secret-key";
/// File of the main API's `X-API-Key`.
pub const API_KEY: &str = "api-key";
/// File of the history service's `X-API-Key`.
pub const HISTORY_API_KEY: &str = "history-api-key";

/// The key kept under this name in the data directory; the first call makes both, the file readable by its owner only.
///
/// Two processes that start at once agree: the whole file is written under another name and then linked to its own, which
/// one of them does first and the other finds done. An empty file is an error, since making a new key in its place would
/// silently lock away what the lost one sealed.
pub fn read_or_create(data: &Path, name: &str) -> io::Result<String> {
    let path = data.join(name);
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    store::make_directory(data).map_err(|error| about(data, error))?;
    let temporary = data.join(format!(".{name}.{}", random_token()));
    let linked = write_durably(&temporary, &random_token()).and_then(|()| fs::hard_link(&temporary, &path));
    let _ = fs::remove_file(&temporary);
    match linked {
        // The key must outlast a crash before anything is sealed with it.
        Ok(()) => File::open(data)?.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(about(&path, error)),
    }
    read(&path)?.ok_or_else(|| about(&path, io::ErrorKind::NotFound.into()))
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => {
            Err(about(path, io::Error::new(io::ErrorKind::InvalidData, "the key file is empty")))
        }
        Ok(text) => Ok(Some(text.trim().to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(about(path, error)),
    }
}

fn write_durably(path: &Path, key: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

/// The error with the file's name in front, for the one line that stops a start.
fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    struct Data(PathBuf);

    impl Data {
        fn new() -> Data {
            Data(std::env::temp_dir().join(random_token()))
        }
    }

    impl Drop for Data {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_key_is_made_once_and_private() {
        let data = Data::new();
        let key = read_or_create(&data.0, SECRET_KEY).unwrap();
        assert_eq!(key.len(), 43);
        assert_eq!(read_or_create(&data.0, SECRET_KEY).unwrap(), key);
        assert_ne!(read_or_create(&data.0, API_KEY).unwrap(), key);
        let mode = fs::metadata(data.0.join(SECRET_KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data.0).unwrap().count(), 2, "no temporary file stays");
    }

    #[test]
    fn those_who_start_at_once_agree() {
        let data = Data::new();
        let keys: Vec<String> = std::thread::scope(|scope| {
            let starts: Vec<_> =
                (0..16).map(|_| scope.spawn(|| read_or_create(&data.0, HISTORY_API_KEY).unwrap())).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn an_operators_key_is_taken_and_an_empty_file_refused() {
        let data = Data::new();
        fs::create_dir_all(&data.0).unwrap();
        fs::write(data.0.join(API_KEY), "chosen\n").unwrap();
        assert_eq!(read_or_create(&data.0, API_KEY).unwrap(), "chosen");
        fs::write(data.0.join(SECRET_KEY), "\n").unwrap();
        let error = read_or_create(&data.0, SECRET_KEY).unwrap_err().to_string();
        assert!(error.ends_with("secret-key: the key file is empty"), "{error}");
    }
}
