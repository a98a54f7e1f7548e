//! Numbers about the process for Prometheus (`docs/operations.md`): counters that cost a few atomic additions, and the text format.
//!
//! Labels contain names of the program only, such as routes and kinds of jobs, never data of builds.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The media type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The upper bounds of the buckets of durations, in microseconds, with their labels in seconds.
const BUCKETS: [(u64, &str); 12] = [
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
];

/// The statuses that are counted separately. All others count as the last one.
const STATUSES: [u16; 26] = [
    200, 201, 202, 204, 206, 302, 303, 304, 308, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 416, 422, 429, 431,
    501, 503, 500,
];

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }
    /// Adds one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Adds one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    /// Subtracts one.
    pub fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The answered requests of a route, by status, and a histogram of their durations.
#[derive(Debug, Default)]
pub struct RequestCounts {
    statuses: [Counter; STATUSES.len()],
    /// The requests of each bucket, and those above all buckets.
    buckets: [Counter; BUCKETS.len() + 1],
    micros: AtomicU64,
}

impl RequestCounts {
    /// Returns counts of zero.
    pub const fn new() -> RequestCounts {
        RequestCounts {
            statuses: [const { Counter::new() }; STATUSES.len()],
            buckets: [const { Counter::new() }; BUCKETS.len() + 1],
            micros: AtomicU64::new(0),
        }
    }

    /// Counts an answered request: three atomic additions.
    pub fn count(&self, status: u16, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|(bound, _)| micros <= *bound).unwrap_or(BUCKETS.len());
        let status = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len() - 1);
        self.statuses[status].increment();
        self.buckets[bucket].increment();
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn has_any(&self) -> bool {
        self.buckets.iter().any(|bucket| bucket.get() > 0)
    }
}

/// The requests of a route, with its method and its pattern.
pub struct MeasuredRoute<'a> {
    pub method: &'a str,
    pub route: &'a str,
    pub counts: &'a RequestCounts,
}

/// The metrics as text.
#[derive(Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Begins a metric. Its samples follow. `kind` is `counter`, `gauge` or `histogram`.
    pub fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a sample. Labels are pairs of names and values; the values must not contain quotes or backslashes.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{text}\"", if n == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Writes a metric with one sample.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Writes the requests of routes that were called at least once: `{prefix}_requests_total` and
    /// `{prefix}_request_duration_seconds`.
    pub fn requests(&mut self, prefix: &str, service: &str, routes: &[MeasuredRoute<'_>]) {
        let total = format!("{prefix}_requests_total");
        self.metric(&total, "counter", &format!("Answered requests of {service}."));
        for MeasuredRoute { method, route, counts } in routes {
            for (status, count) in STATUSES.iter().zip(&counts.statuses).filter(|(_, count)| count.get() > 0) {
                let labels = [("method", *method), ("route", *route), ("status", &*status.to_string())];
                self.sample(&total, &labels, count.get());
            }
        }
        let duration = format!("{prefix}_request_duration_seconds");
        self.metric(&duration, "histogram", &format!("Time until the answer of {service} begins, in seconds."));
        for MeasuredRoute { method, route, counts } in routes.iter().filter(|measured| measured.counts.has_any()) {
            let mut sum = 0;
            let bounds = BUCKETS.iter().map(|(_, label)| *label).chain(["+Inf"]);
            for (bound, count) in bounds.zip(&counts.buckets) {
                sum += count.get();
                let labels = [("method", *method), ("route", *route), ("le", bound)];
                self.sample(&format!("{duration}_bucket"), &labels, sum);
            }
            let labels = [("method", *method), ("route", *route)];
            let seconds = counts.micros.load(Ordering::Relaxed) as f64 / 1e6;
            self.sample(&format!("{duration}_sum"), &labels, seconds);
            self.sample(&format!("{duration}_count"), &labels, sum);
        }
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Writes the numbers that clients of Prometheus usually report about a process. Only Linux has them.
pub fn write_process(out: &mut MetricsText) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    if let (Some(virtual_bytes), Some(resident)) = (bytes("VmSize:"), bytes("VmRSS:")) {
        out.single("process_virtual_memory_bytes", "gauge", "Virtual memory, in bytes.", virtual_bytes);
        out.single("process_resident_memory_bytes", "gauge", "Resident memory, in bytes.", resident);
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    out.single("process_cpu_seconds_total", "counter", "Processor time, in seconds.", seconds);
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        out.single("process_open_fds", "gauge", "Open file descriptors.", open.count());
    }
    out.single("process_max_fds", "gauge", "Maximum number of file descriptors.", crate::shares::descriptors());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_by_status_and_duration() {
        let counts = RequestCounts::default();
        for (status, micros) in [(200, 900), (200, 1_000), (404, 3_000), (418, 99_000_000)] {
            counts.count(status, Duration::from_micros(micros));
        }
        let mut out = MetricsText::default();
        let unused = RequestCounts::default();
        let routes = [
            MeasuredRoute { method: "GET", route: "/api/users/{id}/", counts: &counts },
            MeasuredRoute { method: "PUT", route: "/api/users/{id}/", counts: &unused },
        ];
        out.requests("chancery_http", "the main API", &routes);
        let text = out.into_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..6],
            [
                "# HELP chancery_http_requests_total Answered requests of the main API.",
                "# TYPE chancery_http_requests_total counter",
                r#"chancery_http_requests_total{method="GET",route="/api/users/{id}/",status="200"} 2"#,
                r#"chancery_http_requests_total{method="GET",route="/api/users/{id}/",status="404"} 1"#,
                r#"chancery_http_requests_total{method="GET",route="/api/users/{id}/",status="500"} 1"#,
                "# HELP chancery_http_request_duration_seconds Time until the answer of the main API begins, in seconds.",
            ]
        );
        for line in [
            r#"chancery_http_request_duration_seconds_bucket{method="GET",route="/api/users/{id}/",le="0.001"} 2"#,
            r#"chancery_http_request_duration_seconds_bucket{method="GET",route="/api/users/{id}/",le="10"} 3"#,
            r#"chancery_http_request_duration_seconds_bucket{method="GET",route="/api/users/{id}/",le="+Inf"} 4"#,
            r#"chancery_http_request_duration_seconds_sum{method="GET",route="/api/users/{id}/"} 99.0049"#,
            r#"chancery_http_request_duration_seconds_count{method="GET",route="/api/users/{id}/"} 4"#,
        ] {
            assert!(lines.contains(&line), "{line} is missing in {text}");
        }
        assert!(!text.contains("PUT"));
    }
}
