//! The limits of a build on the command line (`docs/reference/limits.md`). Operators may set higher
//! values than the API accepts.

use crate::builds::{BuildFailure, error_line, refusal_line};
use administration::limits::{BUILD_LIMITS, find, is_extension, limits_in_order, store};
use kit::app::App;
use kit::build::Build;
use kit::limits::{BuildLimits, FILE_EXTENSIONS};
use kit::log;
use resource::{Changes, CheckedValue};
use store::{Conn, StoreError};

/// A row of `chancery build limits`.
pub struct LimitRow {
    pub key: &'static str,
    /// The value; file extensions are separated by commas.
    pub value: String,
    pub is_default: bool,
    /// The number of existing instances, if the limit counts those of the whole build.
    pub count: Option<i64>,
}

/// Lists the limits of a build, ordered by key; with `key` only that one.
pub async fn list(build: &Build, key: Option<&str>) -> Result<Vec<LimitRow>, BuildFailure> {
    let limits = build.db.read::<_, StoreError>(|conn: &mut Conn| BuildLimits::read(conn)).await.map_err(error_line)?;
    let mut listed: Vec<LimitRow> = limits_in_order()
        .map(|limit| LimitRow {
            key: limit.key(),
            value: limits.value(limit).to_string(),
            is_default: limits.is_default(limit),
            count: limit.is_counted.then(|| limits.used(limit)),
        })
        .collect();
    listed.push(LimitRow {
        key: FILE_EXTENSIONS,
        value: limits.file_extensions().join(","),
        is_default: limits.has_default_file_extensions(),
        count: None,
    });
    listed.sort_by_key(|listed| listed.key);
    if let Some(key) = key {
        listed.retain(|listed| listed.key == key);
        if listed.is_empty() {
            return Err(unknown(key));
        }
    }
    Ok(listed)
}

/// Sets a limit of a build; the value `default` resets it.
pub async fn set(app: &App, build: &Build, key: &str, value: &str) -> Result<(), BuildFailure> {
    let mut changes = Changes::new();
    changes.insert(key.to_owned(), read(key, value)?);
    let now = app.clock.now();
    let write = move |conn: &mut Conn| {
        let before = BuildLimits::read_for_change(conn)?;
        for (key, change) in store(conn, &before, &changes)? {
            log::write_by_operator(conn, now, "edit", &BUILD_LIMITS, None::<i64>, &key, change)?;
        }
        Ok(())
    };
    build.db.write(write).await.map_err(refusal_line)
}

/// Parses the value of a limit. Null means the default.
fn read(key: &str, text: &str) -> Result<CheckedValue, BuildFailure> {
    let is_number = find(key).is_some();
    if !is_number && key != FILE_EXTENSIONS {
        return Err(unknown(key));
    }
    if text == "default" {
        return Ok(CheckedValue::Null);
    }
    if is_number {
        let number = text.parse().ok().filter(|number| *number >= 1);
        return number
            .map(CheckedValue::Int)
            .ok_or_else(|| format!("{key}: expected an integer from 1 on, or default"));
    }
    let extensions: Vec<&str> = text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
    match extensions.iter().find(|extension| !is_extension(extension)) {
        Some(invalid) => {
            Err(format!("{key}: {invalid}: expected lower-case letters and digits, at most 10, without a dot"))
        }
        None => Ok(CheckedValue::List(extensions.into_iter().map(CheckedValue::from).collect())),
    }
}

fn unknown(key: &str) -> BuildFailure {
    format!("{key}: there is no such limit")
}
