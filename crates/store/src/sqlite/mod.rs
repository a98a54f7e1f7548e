//! The embedded engine: one file per database, on threads of its own.
//!
//! Under the data directory: `control.db`, `builds/{name}.db`, and `lock`, which processes hold while they create or
//! remove files, and `open`, which they hold as long as they have the databases open. Writes go to a writer thread per database ([`writer`]), reads to a few reader threads, and short
//! reads stay on the caller's thread ([`reader`]).

mod connection;
mod open_connections;
mod reader;
mod writer;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::conn::Conn;
use crate::error::Error;
use crate::work::{Slot, Work, lock};
use crate::{Migrations, Mode, Options};

pub(crate) use connection::Connection;
use connection::Purpose;
use open_connections::OpenConnections;
use reader::Readers;
use writer::{Task, Writer};

/// What connections are opened with.
pub(crate) struct Settings {
    migrations: Migrations,
    options: Options,
    open_limits: OpenLimits,
}

/// How many files one thread keeps open, by what it does.
struct OpenLimits {
    reader: usize,
    writer: usize,
    /// A thread of callers, which peek.
    caller: usize,
}

impl OpenLimits {
    fn of(options: &Options) -> OpenLimits {
        let callers = std::thread::available_parallelism().map_or(1, usize::from);
        let each = options.open_files / (options.readers.max(1) + options.writers.max(1) + callers);
        OpenLimits { reader: each.clamp(1, 16), writer: each.clamp(1, 32), caller: each.clamp(1, 16) }
    }
}

/// The engine.
pub(crate) struct Sqlite {
    directory: PathBuf,
    settings: Arc<Settings>,
    writers: Vec<Arc<Writer>>,
    readers: Arc<Readers>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// A build's file as it is after all migrations; made at the first creation.
    template: Arc<Mutex<Option<Arc<[u8]>>>>,
    /// See [`hold`].
    _held: File,
}

/// File descriptors that the process may have.
pub(crate) fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

fn is_closed() -> Error {
    Error::Unavailable("the store is closed".to_owned())
}

impl Sqlite {
    pub async fn open(
        directory: PathBuf,
        migrations: Migrations,
        options: Options,
        control: Arc<Slot>,
    ) -> Result<Sqlite, Error> {
        let open_limits = OpenLimits::of(&options);
        let settings = Arc::new(Settings { migrations, options, open_limits });
        let (here, with) = (directory.clone(), settings.clone());
        let opening = tokio::task::spawn_blocking(move || {
            make_directory(&here.join(with.options.folder))?;
            let held = hold(&here, with.options.alone)?;
            let _lock = lock_directory(&here)?;
            make_empty(&control.file)?;
            Connection::open(&with, &control, Purpose::Read).map(|_| held)
        });
        let held = opening.await.map_err(|error| Error::Db(error.to_string()))??;

        let mut threads = Vec::new();
        let mut writers = Vec::new();
        let readers = Arc::new(Readers::new(settings.options.readers.max(1)));
        for at in 0..settings.options.writers.max(1) {
            let (writer, with) = (Arc::new(Writer::default()), settings.clone());
            writers.push(writer.clone());
            threads.push(spawn(format!("write-{at}"), move || writer.serve(&with))?);
        }
        for at in 0..settings.options.readers.max(1) {
            let (readers, with) = (readers.clone(), settings.clone());
            threads.push(spawn(format!("read-{at}"), move || readers.serve(at, &with))?);
        }
        let threads = Mutex::new(threads);
        Ok(Sqlite { directory, settings, writers, readers, threads, template: Arc::default(), _held: held })
    }

    /// Where a build's file lies.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(self.settings.options.folder).join(format!("{name}.db"))
    }

    pub fn submit(&self, slot: &Arc<Slot>, mode: Mode, work: Box<dyn Work>) -> Result<(), Error> {
        match mode {
            Mode::Write => self.writer(slot).submit(slot, Task::Write(work)),
            Mode::Read | Mode::ShortRead => self.readers.submit(slot, mode, work),
        }
    }

    pub fn read_short<T, E: From<Error>>(
        &self,
        slot: &Arc<Slot>,
        script: &impl Fn(&mut Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        reader::read_short(&self.settings, slot, script)
    }

    /// A database always has the same writer: SQLite allows one at a time, and groups form in its queue.
    fn writer(&self, slot: &Slot) -> &Writer {
        &self.writers[slot.id as usize % self.writers.len()]
    }

    pub async fn create(&self, slot: Arc<Slot>) -> Result<(), Error> {
        let (directory, settings, template) = (self.directory.clone(), self.settings.clone(), self.template.clone());
        let file = slot.clone();
        self.files(&slot, move |open| {
            open.close(&file);
            let _lock = lock_directory(&directory)?;
            let template = template_of(&template, &directory, &settings)?;
            put_file(&file.file, &template)?;
            file.renew();
            file.set_prepared(file.generation());
            open_connections::clear();
            Ok(())
        })
        .await
    }

    pub async fn drop(&self, slot: Arc<Slot>) -> Result<(), Error> {
        let (directory, readers, file) = (self.directory.clone(), self.readers.clone(), slot.clone());
        self.files(&slot, move |open| {
            let _lock = lock_directory(&directory)?;
            open.close(&file);
            let removed = remove_file(&file.file);
            // Only now, so that no connection to the removed file counts as new. Those that are still open keep it
            // until they are dropped; SQLite sees that it was removed, and leaves alone what may by then have its name.
            file.renew();
            open_connections::clear();
            readers.sweep();
            removed
        })
        .await
    }

    /// Runs something on the database's writer thread.
    async fn files(
        &self,
        slot: &Arc<Slot>,
        run: impl FnOnce(&mut OpenConnections) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let (reply, outcome) = oneshot::channel();
        // The caller may have gone; the work is done all the same.
        let task = move |open: &mut OpenConnections| drop(reply.send(run(open)));
        self.writer(slot).submit(slot, Task::Files(Box::new(task)))?;
        outcome.await.unwrap_or_else(|_| Err(Error::Db("the work was given up".to_owned())))
    }

    pub async fn backup(&self, slot: Arc<Slot>, target: PathBuf) -> Result<(), Error> {
        let settings = self.settings.clone();
        let copying = tokio::task::spawn_blocking(move || {
            let mut partial = target.clone().into_os_string();
            partial.push(".partial");
            let partial = PathBuf::from(partial);
            let name = partial.to_str().ok_or_else(|| Error::Db("the target's name is not UTF-8".to_owned()))?;
            if target.try_exists()? {
                return Err(Error::Exists);
            }
            remove_if_there(&partial)?;
            Connection::open(&settings, &slot, Purpose::Write)?.copy_into(name)?;
            #[cfg(unix)]
            fs::set_permissions(&partial, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            // VACUUM INTO does not sync what it wrote.
            File::open(&partial)?.sync_all()?;
            fs::rename(&partial, &target)?;
            Ok(sync_directory_of(&target)?)
        });
        copying.await.map_err(|error| Error::Db(error.to_string()))?
    }

    pub async fn close(&self) {
        self.stop();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let joining = tokio::task::spawn_blocking(move || {
            for thread in threads {
                // Its scripts' panics are caught; if it died all the same, there is nothing left to wait for.
                drop(thread.join());
            }
        });
        if let Err(error) = joining.await {
            tracing::error!(%error, "the database threads did not end well");
        }
        open_connections::clear();
    }

    fn stop(&self) {
        self.readers.close();
        self.writers.iter().for_each(|writer| writer.close());
    }
}

impl Drop for Sqlite {
    /// The threads end when their queues are empty; only `close` waits for that.
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    Ok(std::thread::Builder::new().name(name).spawn(run)?)
}

/// The template, from memory or made with the migrations (7 ms, against 0.24 ms for writing it to a file).
fn template_of(known: &Mutex<Option<Arc<[u8]>>>, directory: &Path, settings: &Settings) -> Result<Arc<[u8]>, Error> {
    let mut known = lock(known);
    if let Some(template) = &*known {
        return Ok(template.clone());
    }
    let file = directory.join(format!(".template-{}.db", std::process::id()));
    let slot = Slot::new("template".to_owned(), file, false);
    let made = (|| {
        remove_file(&slot.file)?;
        make_empty(&slot.file)?;
        // Closing the only connection writes everything into the file.
        drop(Connection::open(settings, &slot, Purpose::Read)?);
        Ok::<_, Error>(Arc::<[u8]>::from(fs::read(&slot.file)?))
    })();
    remove_file(&slot.file)?;
    let template = made?;
    *known = Some(template.clone());
    Ok(template)
}

/// Taken by every process that creates or removes files here; released when it is dropped, or its process dies.
fn lock_directory(directory: &Path) -> Result<File, Error> {
    let file = private().write(true).create(true).truncate(false).open(directory.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Says that this process has the databases open, to those who want to be alone with them, or that it is alone; until
/// what is returned is dropped, or the process dies.
fn hold(directory: &Path, alone: bool) -> Result<File, Error> {
    let file = private().write(true).create(true).truncate(false).open(directory.join("open"))?;
    let held = if alone { file.try_lock() } else { file.try_lock_shared() };
    match held {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Files hold people's data: nobody but the server's own user may read them.
fn private() -> OpenOptions {
    #[allow(unused_mut, reason = "changed only where files have modes")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a directory that only the server's own user may enter, with what is missing above it. It outlasts a power cut.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        make_directory(above)?;
    }
    #[allow(unused_mut, reason = "changed only where directories have modes")]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync_directory_of(path)
}

/// Makes an empty file, which is an empty database, unless it is there.
fn make_empty(path: &Path) -> Result<(), Error> {
    match private().write(true).create_new(true).open(path) {
        Ok(_) => Ok(sync_directory_of(path)?),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts a database file in its place, whole or not at all, and durably. The directory must be locked.
fn put_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    if path.try_exists()? {
        return Err(Error::Exists);
    }
    // A log that an interrupted drop left would be taken for the new file's.
    remove_if_there(&beside(path, "-wal"))?;
    remove_if_there(&beside(path, "-shm"))?;
    let partial = beside(path, ".new");
    let written = (|| {
        let mut file = private().write(true).create(true).truncate(true).open(&partial)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    })();
    if let Err(error) = written {
        remove_if_there(&partial)?;
        return Err(error.into());
    }
    Ok(sync_directory_of(path)?)
}

/// Removes a database file and what belongs to it. The file itself goes first, so that nobody opens it any more.
fn remove_file(path: &Path) -> Result<(), Error> {
    for suffix in ["", "-wal", "-shm", ".new"] {
        remove_if_there(&beside(path, suffix))?;
    }
    Ok(sync_directory_of(path)?)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// A new, renamed or removed name is durable only when its directory is.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
