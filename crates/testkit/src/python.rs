//! Installs packages of Python that tests need, each set once below the target directory.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// Returns the directory of the programs of an environment with this name and the required packages.
pub fn python_environment(name: &str, requirements: &str) -> PathBuf {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one = web::lock(&INSTALLING);
    let version = requirements.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let executable = std::env::current_exe().expect("a test is a program");
    // The path is `target/debug/deps/test`.
    let target = executable.ancestors().nth(3).expect("tests are below the target directory");
    let environment = target.join(format!("{name}-{version:08x}"));
    let complete = environment.join("complete");
    let programs = environment.join("bin");
    // It cannot be created elsewhere and moved, since its programs contain its path.
    if !complete.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
        run(Command::new(programs.join("python")).args(["-m", "pip", "install", "--quiet"]).args(requirements.lines()));
        std::fs::write(complete, "").expect("the target directory can be written");
    }
    programs
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{:?} does not start: {error}", command.get_program()));
    assert!(status.success(), "{command:?}: {status}");
}
