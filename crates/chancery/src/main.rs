//! The command `chancery`: it reads the settings and runs a command. `serve` is one of the commands.

mod backup;
mod build_list;
mod cli;
mod command_history;
mod commands;
mod config_check;
mod data_directory;
mod deletion;
mod demo;
mod descriptors;
mod health;
mod log;
mod metrics;
mod moved_history;
mod moving;
mod open;
mod output;
mod passed_sockets;
mod passwords;
mod restore;
mod secrets_file;
mod serve;
mod settings;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    take_small_pages();
    give_memory_back_soon();
    let cli = cli::Cli::parse();
    match cli.command {
        cli::Command::Completions { shell } => return completions(shell),
        cli::Command::Config(cli::ConfigCommand::Check { connect, json }) => {
            return config_check::run(&cli.flags, cli.config.as_deref(), connect, json);
        }
        _ => {}
    }
    let settings = match settings::ProgramSettings::load(&cli.flags, cli.config.as_deref()) {
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

/// Disables pages of 2 MiB, because a few used bytes occupy a whole page. With many concurrent callers they needed more than twice
/// the memory and saved no time (`bench/README.md`). A system without this option ignores the call.
fn take_small_pages() {
    #[cfg(target_os = "linux")]
    rustix::thread::disable_transparent_huge_pages(true).ok();
}

/// Makes the allocator return freed memory to the system after 10 ms instead of a second. With a second, 24 callers who each read a
/// page of 26 MiB left 150 MiB behind (`docs/reliability.md`). The variable `MIMALLOC_PURGE_DELAY` has precedence.
#[allow(unsafe_code, reason = "the allocator has no safe interface for its options")]
fn give_memory_back_soon() {
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: it sets a number that the allocator reads; any thread may do so at any time.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, 10) }
}

/// Prints the completions of a shell. They do not depend on the settings.
fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::Cli::command(), "chancery", &mut script);
    match output::say_lines(&String::from_utf8_lossy(&script)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(line: &str) -> ExitCode {
    output::print_error_line(format_args!("chancery: {line}"));
    ExitCode::FAILURE
}
