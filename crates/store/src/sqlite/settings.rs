//! The settings with which connections are opened.

use crate::migrate::Migrations;
use crate::options::Options;

/// The settings with which connections are opened.
pub(crate) struct SqliteSettings {
    pub migrations: Migrations,
    pub options: Options,
    pub open_limits: OpenLimits,
}

/// The maximum number of open files of one thread, by its purpose.
pub(crate) struct OpenLimits {
    pub reader: usize,
    pub writer: usize,
    /// A thread of callers, for short reads.
    pub caller: usize,
}

impl OpenLimits {
    pub fn from_options(options: &Options) -> OpenLimits {
        let callers = std::thread::available_parallelism().map_or(1, usize::from);
        let share = options.open_files / (options.readers.max(1) + options.writers.max(1) + callers);
        OpenLimits { reader: share.clamp(1, 16), writer: share.clamp(1, 32), caller: share.clamp(1, 16) }
    }
}
