//! Measurements beside the speed: many builds on one server, and lists sorted by every field.

use crate::expected::ask;
use crate::failure::Failure;
use crate::request::head;
use crate::seed::{ADMIN, config, token};
use platform::builds;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

/// The fields by which users are sorted.
const FIELDS: [&str; 8] =
    ["id", "username", "last_login", "activated_at", "password_set_at", "link_sent_at", "created_at", "modified_at"];
const TIMES: usize = 50;

/// Creates a number of builds. Writes their domains with a token of each to `tokens`.
pub fn builds(directory: &str, count: &str, url: Option<&str>) -> Result<(), Failure> {
    let count: usize = count.parse()?;
    fs::create_dir_all(directory)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let app = platform::open(config(directory, url)).await.map_err(|error| error.to_string())?;
        let mut lines = String::new();
        for n in 1..=count {
            let build = builds::create(&app, &format!("b{n}.example"), ADMIN.0, ADMIN.1).await?;
            writeln!(lines, "{} {}", build.domain, token(&app, &build).await?)?;
        }
        fs::write(Path::new(directory).join("tokens"), lines)?;
        app.store.close().await;
        Ok(())
    })
}

/// Reads and writes in every build.
pub fn visit(address: &str, directory: &Path) -> Result<(), Failure> {
    let mut stream = connect(address)?;
    for line in fs::read_to_string(directory.join("tokens"))?.lines() {
        let (domain, token) = line.split_once(' ').unwrap_or((line, ""));
        ask(&mut stream, format!("{}\r\n", head("GET /api/users/", domain, token)).as_bytes())?;
        let (body, patch) = (r#"{"job_title":"Visitor"}"#, head("PATCH /api/users/me/", domain, token));
        let request = format!("{patch}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        ask(&mut stream, request.as_bytes())?;
    }
    Ok(())
}

/// Prints the median milliseconds of the first page in every order, each on a line.
pub fn sorted(address: &str, directory: &Path) -> Result<(), Failure> {
    let token = fs::read_to_string(directory.join("token"))?;
    let mut stream = connect(address)?;
    for field in FIELDS {
        for direction in ["", "-"] {
            let order = format!("{direction}{field}");
            let request = format!("{}\r\n", head(&format!("GET /api/users/?ordering={order}"), "localhost", &token));
            let mut times = Vec::with_capacity(TIMES);
            for _ in 0..TIMES {
                let started = Instant::now();
                ask(&mut stream, request.as_bytes())?;
                times.push(started.elapsed().as_secs_f64() * 1e3);
            }
            times.sort_by(f64::total_cmp);
            println!("{order} {:.3}", times[TIMES / 2]);
        }
    }
    Ok(())
}

fn connect(address: &str) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
