//! Sockets that systemd opens for a server (`sd_listen_fds(3)`). They stay open while the server restarts, so the kernel queues
//! connections, and a restart refuses nobody (`docs/installing.md`, "systemd").
//!
//! systemd sets three variables: `LISTEN_PID` is the process that gets the sockets, `LISTEN_FDS` their number, and
//! `LISTEN_FDNAMES` their names, separated by colons. The descriptors begin at 3.

use crate::open::CommandFailure;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;
use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use tokio::net::TcpListener;

/// The name of the main API's socket: `FileDescriptorName=api`.
pub const API: &str = "api";
/// The name of the history service's socket.
pub const HISTORY: &str = "history";

/// The first descriptor that systemd passes.
const FIRST: RawFd = 3;

/// The passed sockets by their names.
pub struct PassedSockets(BTreeMap<String, TcpListener>);

impl PassedSockets {
    /// Takes the sockets that were passed to this process, once. `api` and `history` are true for the served services.
    ///
    /// # Errors
    /// A line that names the variable, if a socket has no name of a served service, or if it does not listen for TCP.
    pub fn take(api: bool, history: bool) -> Result<PassedSockets, CommandFailure> {
        let served: Vec<&str> =
            [(api, API), (history, HISTORY)].into_iter().filter(|part| part.0).map(|part| part.1).collect();
        let names = names(|name| std::env::var(name).ok(), std::process::id(), &served)?;
        let mut sockets = BTreeMap::new();
        for (descriptor, name) in (FIRST..).zip(names) {
            let socket = listener(owned(descriptor)).map_err(|error| format!("LISTEN_FDS: {name}: {error}"))?;
            if sockets.insert(name.clone(), socket).is_some() {
                return Err(format!("LISTEN_FDNAMES: there are two sockets {name}"));
            }
        }
        Ok(PassedSockets(sockets))
    }

    /// Removes and returns a socket.
    pub fn remove(&mut self, name: &str) -> Option<TcpListener> {
        self.0.remove(name)
    }
}

/// The names of the sockets that the variables pass to the process `id`, in the order of their descriptors.
fn names(variable: impl Fn(&str) -> Option<String>, id: u32, served: &[&str]) -> Result<Vec<String>, CommandFailure> {
    // A parent that was started by systemd leaves its variables behind. They have its id.
    if variable("LISTEN_PID").as_deref() != Some(&id.to_string()) {
        return Ok(Vec::new());
    }
    let count = variable("LISTEN_FDS").unwrap_or_default();
    let count: usize = count.parse().map_err(|_| format!("LISTEN_FDS: {count:?} is not a number"))?;
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<String> = names.split(':').map(str::to_owned).collect();
    let expected = served.join(" or ");
    if names.len() != count && count > 0 {
        return Err(format!("LISTEN_FDNAMES: expected {count} names ({expected}), as FileDescriptorName= gives them"));
    }
    match names.iter().take(count).find(|name| !served.contains(&name.as_str())) {
        Some(name) => Err(format!("LISTEN_FDNAMES: {name:?} is not {expected}")),
        None => Ok(names.into_iter().take(count).collect()),
    }
}

#[allow(unsafe_code, reason = "a descriptor of another process has only a number")]
fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: systemd passes this open descriptor to this process, and nothing else in it uses the number.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Makes a listener from a socket. Child processes do not inherit it.
fn listener(socket: OwnedFd) -> std::io::Result<TcpListener> {
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    if !socket_acceptconn(&socket)? {
        return Err(std::io::Error::other("not a listening socket"));
    }
    let listener = std::net::TcpListener::from(socket);
    listener.local_addr().map_err(|_| std::io::Error::other("not a TCP socket"))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], served: &[&str]) -> Result<Vec<String>, CommandFailure> {
        let value = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        names(value, 7, served)
    }

    #[test]
    fn sockets_have_the_names_of_the_served_services() {
        let passed = |count, names| [("LISTEN_PID", "7"), ("LISTEN_FDS", count), ("LISTEN_FDNAMES", names)];
        let both = [API, HISTORY];
        assert_eq!(read(&[], &both), Ok(vec![]));
        assert_eq!(read(&[("LISTEN_PID", "8"), ("LISTEN_FDS", "1")], &both), Ok(vec![]), "they are of a parent");
        assert_eq!(read(&passed("2", "history:api"), &both), Ok(vec!["history".into(), "api".into()]));
        assert_eq!(read(&passed("0", ""), &both), Ok(vec![]));
        for (count, names, served, line) in [
            ("two", "api", &both[..], "LISTEN_FDS: \"two\" is not a number"),
            ("2", "api", &both, "LISTEN_FDNAMES: expected 2 names (api or history), as FileDescriptorName= gives them"),
            ("1", "chancery.socket", &both, "LISTEN_FDNAMES: \"chancery.socket\" is not api or history"),
            ("1", "history", &[API], "LISTEN_FDNAMES: \"history\" is not api"),
        ] {
            assert_eq!(read(&passed(count, names), served), Err(line.to_owned()));
        }
    }
}
