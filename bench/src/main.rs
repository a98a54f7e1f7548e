//! The tools of the benchmark; `bench/run` combines them.
//!
//! | command | |
//! |---|---|
//! | `bench seed DIRECTORY USERS [URL]` | creates a build with this number of users, or with those in a CSV file, in the directory or in the PostgreSQL database; writes `token` and `key` |
//! | `bench records DIRECTORY DATA [URL]` | creates a build with the records of a folder of CSV files; writes `token-1` to `token-4` |
//! | `bench record ADDRESS DIRECTORY EXPECTED` | requests every answer from the floor and stores it |
//! | `bench load ADDRESS DIRECTORY EXPECTED OPERATION SECONDS PID…` | measures one operation, checking every answer |
//! | `bench first ADDRESS DIRECTORY PATH` | waits for the first 200 and prints the milliseconds |
//! | `bench builds DIRECTORY COUNT [URL]` | creates many builds, each with a super admin only; writes `tokens` |
//! | `bench visit ADDRESS DIRECTORY` | reads and writes in each of them |
//! | `bench sorted ADDRESS DIRECTORY` | prints the time of the first page of users in every order |
//! | `bench merge TEMPLATE VALUES OUT COUNT` | measures merges of a document template without a server |
//! | `bench contracts ADDRESS DIRECTORY TEMPLATE VALUES COUNT` | creates records and templates for this number of documents |
//! | `bench queue ADDRESS DIRECTORY COUNT PID CONNECTIONS PAUSE` | requests these documents while single records are read |
//! | `bench tasks DIRECTORY [URL]` | creates a build with 200,000 open tasks; writes `token-1` to `token-10` |
//! | `bench task-lists ADDRESS DIRECTORY` | prints the time of lists of them |
//! | `bench tasks-due DIRECTORY SECONDS [URL]` | adds 10,000 reminders and 10,000 expiries that are due in this number of seconds |
//! | `bench tasks-beside ADDRESS DIRECTORY [URL]` | reads and writes tasks at the same time |
//! | `bench webhooks ADDRESS DIRECTORY PORT` | creates 20 classes with a webhook each in each of the builds |
//! | `bench deliver ADDRESS DIRECTORY PORT RECORDS RATE PID` | creates records and receives the deliveries of the webhooks |
//! | `bench agents ADDRESS DIRECTORY` | creates a class with 2,000 records, and a connector for agents |
//! | `bench agent-tokens DIRECTORY [URL]` | permits 500 users, and an agent of each, to view them; writes `agents` |
//! | `bench agent-calls ADDRESS DIRECTORY CALL CONNECTIONS COUNT PID` | measures a call of the main API, or of a tool |
//! | `bench table FILE` | prints the table of the measurements |

mod agents;
mod documents;
mod expected;
mod failure;
mod footprint;
mod load;
mod process;
mod records;
mod request;
mod seed;
mod table;
mod tasks;
mod webhooks;

use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["seed", directory, users] => seed::run(directory, users, None),
        ["seed", directory, users, url] => seed::run(directory, users, Some(url)),
        ["records", directory, data] => records::run(directory, data, None),
        ["records", directory, data, url] => records::run(directory, data, Some(url)),
        ["record", address, directory, expected] => {
            expected::record(address, Path::new(directory), Path::new(expected))
        }
        ["load", address, directory, expected, operation, seconds, pids @ ..] => {
            load::run(address, Path::new(directory), Path::new(expected), operation, seconds, pids)
        }
        ["first", address, directory, path] => load::first(address, Path::new(directory), path),
        ["builds", directory, count] => footprint::builds(directory, count, None),
        ["builds", directory, count, url] => footprint::builds(directory, count, Some(url)),
        ["visit", address, directory] => footprint::visit(address, Path::new(directory)),
        ["sorted", address, directory] => footprint::sorted(address, Path::new(directory)),
        ["merge", template, values, out, count] => documents::merge_alone(template, values, out, count),
        ["contracts", address, directory, template, values, count] => {
            documents::set_up(address, Path::new(directory), template, values, count)
        }
        ["queue", address, directory, count, pid, connections, pause] => documents::Reading::new(connections, pause)
            .and_then(|reading| documents::queue(address, Path::new(directory), count, pid, &reading)),
        ["tasks", directory] => tasks::seed(directory, None),
        ["tasks", directory, url] => tasks::seed(directory, Some(url)),
        ["task-lists", address, directory] => tasks::lists(address, Path::new(directory)),
        ["tasks-due", directory, seconds] => tasks::due(directory, seconds, None),
        ["tasks-due", directory, seconds, url] => tasks::due(directory, seconds, Some(url)),
        ["tasks-beside", address, directory] => tasks::beside(address, directory, None),
        ["tasks-beside", address, directory, url] => tasks::beside(address, directory, Some(url)),
        ["webhooks", address, directory, port] => webhooks::set_up(address, Path::new(directory), port),
        ["deliver", address, directory, port, records, rate, pid] => {
            webhooks::deliver(address, Path::new(directory), port, records, rate, pid)
        }
        ["agents", address, directory] => agents::set_up(address, Path::new(directory)),
        ["agent-tokens", directory] => agents::tokens(directory, None),
        ["agent-tokens", directory, url] => agents::tokens(directory, Some(url)),
        ["agent-calls", address, directory, call, connections, count, pid] => {
            agents::calls(address, Path::new(directory), call, connections, count, pid)
        }
        ["table", file] => table::print(Path::new(file)),
        _ => Err("see the top of bench/src/main.rs".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
