//! The resource usage of processes, from Linux.

use std::collections::HashMap;
use std::fs;

/// The processor time of processes and all of their children.
pub struct Usage {
    /// The time until now.
    pub microseconds: f64,
}

impl Usage {
    /// Reads the time of the processes until now.
    pub fn of(pids: &[u32]) -> Usage {
        let stats = stats();
        let ticks: u64 = tree(&stats, pids).iter().map(|pid| stats[pid].ticks).sum();
        // All present Linux systems have a hundred ticks per second.
        Usage { microseconds: ticks as f64 * 10_000.0 }
    }
    /// Returns the time since then.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage { microseconds: self.microseconds - before.microseconds }
    }
}

struct Stat {
    parent: u32,
    ticks: u64,
}

fn stats() -> HashMap<u32, Stat> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(Stat { parent: fields[1].parse().ok()?, ticks })
}

fn tree(stats: &HashMap<u32, Stat>, roots: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = roots.iter().copied().filter(|pid| stats.contains_key(pid)).collect();
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(stats.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

/// Returns the peak memory of the first process, in MiB.
pub fn peak(pids: &[u32]) -> f64 {
    pids.first().map_or(0.0, |pid| memory(*pid, "VmHWM:"))
}

/// Returns the present memory of a process, in MiB.
pub fn resident(pid: u32) -> f64 {
    memory(pid, "VmRSS:")
}

fn memory(pid: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
