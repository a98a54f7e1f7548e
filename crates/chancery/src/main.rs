//! The command `chancery`: it reads the settings and runs a command, of which `serve` is one.

mod backup;
mod build_list;
mod cli;
mod command_history;
mod commands;
mod data_directory;
mod demo;
mod descriptors;
mod log;
mod open;
mod output;
mod passwords;
mod secrets_file;
mod serve;
mod settings;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    take_small_pages();
    let cli = cli::Cli::parse();
    let settings = match settings::Settings::load(&cli.flags, cli.config.as_deref()) {
        Ok(settings) => settings,
        Err(error) => return fail(&error.to_string()),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime does not start: {error}")),
    };
    match runtime.block_on(commands::run(cli.command, settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Keeps the system from giving memory in pages of 2 MiB, of which a few bytes in use hold the whole: behind many callers at
/// once they came to more than twice the memory, and saved no time (`bench/README.md`). Where it cannot be told, all goes on.
fn take_small_pages() {
    #[cfg(target_os = "linux")]
    rustix::thread::disable_transparent_huge_pages(true).ok();
}

fn fail(line: &str) -> ExitCode {
    output::remark(format_args!("chancery: {line}"));
    ExitCode::FAILURE
}
