//! The engine SQLite: one file for each database, and the threads that read and write them.
//!
//! The data directory contains `control.db`, `builds/{name}.db`, and two empty files that processes lock. `lock` is
//! locked while files are created or removed, `open` while a process has the databases open. Writes to a database run
//! on one thread ([`writer`]), reads on any of a few, and short reads on the caller's own ([`reader`]).

pub(crate) mod connection;
mod files;
mod open;
mod open_connections;
mod reader;
mod settings;
mod writer;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::conn::Conn;
use crate::error::StoreError;
use crate::migrate::{Migration, Migrations};
use crate::options::Options;
use crate::slot::Slot;
use crate::work::{ScriptMode, ScriptWork};
use web::lock;

pub use files::make_directory;
pub(crate) use files::private;
use files::{lock_directory, lock_for_process, make_empty, put_file, remove_file, remove_if_there, sync_directory_of};
use open::{ConnectionPurpose, open};
use open_connections::OpenConnections;
use reader::ReaderPool;
use settings::{OpenLimits, SqliteSettings};
use writer::{WriteTask, WriterThread};

/// The engine SQLite.
pub(crate) struct SqliteEngine {
    directory: PathBuf,
    settings: Arc<SqliteSettings>,
    writers: Vec<Arc<WriterThread>>,
    readers: Arc<ReaderPool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// See [`lock_for_process`].
    _held: File,
}

impl SqliteEngine {
    pub async fn open(
        directory: PathBuf,
        migrations: Migrations,
        options: Options,
        control: Arc<Slot>,
    ) -> Result<SqliteEngine, StoreError> {
        let open_limits = OpenLimits::from_options(&options);
        let settings = Arc::new(SqliteSettings { migrations, options, open_limits });
        let (root, shared_settings) = (directory.clone(), settings.clone());
        let opening = tokio::task::spawn_blocking(move || {
            make_directory(&root.join(shared_settings.options.folder))?;
            let lock = lock_for_process(&root, shared_settings.options.alone)?;
            let _lock = lock_directory(&root)?;
            make_empty(&control.file)?;
            open(&shared_settings, &control, ConnectionPurpose::Read).map(|_| lock)
        });
        let lock = opening.await.map_err(|error| StoreError::Db(error.to_string()))??;

        let mut threads = Vec::new();
        let mut writers = Vec::new();
        let readers = Arc::new(ReaderPool::new(settings.options.readers.max(1)));
        for at in 0..settings.options.writers.max(1) {
            let (writer, shared_settings) = (Arc::new(WriterThread::default()), settings.clone());
            writers.push(writer.clone());
            threads.push(spawn(format!("write-{at}"), move || writer.serve(&shared_settings))?);
        }
        for at in 0..settings.options.readers.max(1) {
            let (readers, shared_settings) = (readers.clone(), settings.clone());
            threads.push(spawn(format!("read-{at}"), move || readers.serve(at, &shared_settings))?);
        }
        let threads = Mutex::new(threads);
        Ok(SqliteEngine { directory, settings, writers, readers, threads, _held: lock })
    }

    /// The path of a build's file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(self.settings.options.folder).join(format!("{name}.db"))
    }

    /// The time for which a read may wait and a script may run.
    pub fn time_limit(&self) -> Duration {
        self.settings.options.time_limit
    }

    pub fn submit(&self, slot: &Arc<Slot>, mode: ScriptMode, work: ScriptWork) -> Result<(), StoreError> {
        match mode {
            ScriptMode::Write => self.writer(slot).submit(slot, WriteTask::Write(work)),
            ScriptMode::Read | ScriptMode::ShortRead => self.readers.submit(slot, mode, work),
            ScriptMode::Outside => {
                let (settings, file) = (self.settings.clone(), slot.clone());
                let task = move |open: &mut OpenConnections| writer::run_outside(open, &settings, &file, work);
                self.writer(slot).submit(slot, WriteTask::Alone(Box::new(task)))
            }
        }
    }

    pub fn read_short<T, E: From<StoreError>>(
        &self,
        slot: &Arc<Slot>,
        script: &impl Fn(&mut Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        reader::read_short(&self.settings, slot, script)
    }

    /// Returns the writer of a database. It is always the same: SQLite allows one at a time, and groups form in its
    /// queue.
    fn writer(&self, slot: &Slot) -> &WriterThread {
        &self.writers[slot.id as usize % self.writers.len()]
    }

    pub async fn create(&self, slot: Arc<Slot>) -> Result<(), StoreError> {
        let (directory, settings) = (self.directory.clone(), self.settings.clone());
        let file = slot.clone();
        self.files(&slot, move |open| {
            open.close(&file);
            let _lock = lock_directory(&directory)?;
            let template = template_of(&directory, &settings)?;
            put_file(&file.file, &template)?;
            file.renew();
            file.set_prepared(file.generation());
            open_connections::clear();
            Ok(())
        })
        .await
    }

    pub async fn drop_database(&self, slot: Arc<Slot>) -> Result<(), StoreError> {
        let (directory, readers, file) = (self.directory.clone(), self.readers.clone(), slot.clone());
        self.files(&slot, move |open| {
            let _lock = lock_directory(&directory)?;
            open.close(&file);
            let removed = remove_file(&file.file);
            // This must not run earlier, because a connection to the removed file must not count as new. Open
            // connections refer to the file until they are dropped. SQLite notices the removal, and does not touch a
            // new file of the same name.
            file.renew();
            open_connections::clear();
            readers.sweep();
            removed
        })
        .await
    }

    /// Runs a function on the writer thread of a database, in turn with its writes.
    async fn files(
        &self,
        slot: &Arc<Slot>,
        run: impl FnOnce(&mut OpenConnections) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let (reply, outcome) = oneshot::channel();
        // The work of a caller that disconnected is done nevertheless.
        let task = move |open: &mut OpenConnections| drop(reply.send(run(open)));
        self.writer(slot).submit(slot, WriteTask::Alone(Box::new(task)))?;
        outcome.await.unwrap_or_else(|_| Err(StoreError::Db("the work was given up".to_owned())))
    }

    pub async fn backup(&self, slot: Arc<Slot>, target: PathBuf) -> Result<(), StoreError> {
        let settings = self.settings.clone();
        let copying = tokio::task::spawn_blocking(move || {
            let mut partial = target.clone().into_os_string();
            partial.push(".partial");
            let partial = PathBuf::from(partial);
            let name = partial.to_str().ok_or_else(|| StoreError::Db("the target's name is not UTF-8".to_owned()))?;
            if target.try_exists()? {
                return Err(StoreError::Exists);
            }
            remove_if_there(&partial)?;
            open(&settings, &slot, ConnectionPurpose::Write)?.copy_into(name)?;
            #[cfg(unix)]
            fs::set_permissions(&partial, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            // VACUUM INTO does not sync what it wrote.
            File::open(&partial)?.sync_all()?;
            fs::rename(&partial, &target)?;
            Ok(sync_directory_of(&target)?)
        });
        copying.await.map_err(|error| StoreError::Db(error.to_string()))?
    }

    pub async fn close(&self) {
        self.stop();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let joining = tokio::task::spawn_blocking(move || {
            for thread in threads {
                // Panics of scripts are caught. A thread that panicked nevertheless has ended.
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

impl Drop for SqliteEngine {
    /// Stops the threads when their queues are empty. Only `close` waits for that.
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    Ok(std::thread::Builder::new().name(name).spawn(run)?)
}

/// The content of a build's file after all of its migrations.
type BuildFileTemplate = (&'static [Migration], Arc<[u8]>);

/// The templates of the process. A server has one.
static TEMPLATES: Mutex<Vec<BuildFileTemplate>> = Mutex::new(Vec::new());

fn is_same(first: &[Migration], second: &[Migration]) -> bool {
    first.iter().map(|step| (step.name, step.sql)).eq(second.iter().map(|step| (step.name, step.sql)))
}

/// Returns the content of a new build's file, from memory or by running the migrations. The migrations need 7 ms,
/// writing the content to a file 0.24 ms.
fn template_of(directory: &Path, settings: &SqliteSettings) -> Result<Arc<[u8]>, StoreError> {
    let migrations = settings.migrations.build;
    let mut templates = lock(&TEMPLATES);
    if let Some((_, template)) =
        templates.iter().find(|(template_migrations, _)| is_same(template_migrations, migrations))
    {
        return Ok(template.clone());
    }
    let file = directory.join(format!(".template-{}.db", std::process::id()));
    let slot = Slot::new("template".to_owned(), file, false);
    let result = (|| {
        remove_file(&slot.file)?;
        make_empty(&slot.file)?;
        // Closing the only connection writes everything into the file.
        drop(open(settings, &slot, ConnectionPurpose::Read)?);
        Ok::<_, StoreError>(Arc::<[u8]>::from(fs::read(&slot.file)?))
    })();
    remove_file(&slot.file)?;
    let template = result?;
    templates.push((migrations, template.clone()));
    Ok(template)
}
