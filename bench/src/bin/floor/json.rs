//! The columns of a user, and their JSON.

use std::io::Write;

/// The columns of a row, independent of the driver.
pub trait Columns {
    /// Returns a number or null.
    fn int(&self, at: usize) -> Option<i64>;
    /// Returns a text or null.
    fn text(&self, at: usize) -> Option<&str>;
}

macro_rules! reference {
    ($alias:literal) => {
        concat!(
            $alias,
            ".id, ",
            $alias,
            ".first_name, ",
            $alias,
            ".last_name, ",
            $alias,
            ".username, ",
            $alias,
            ".company_name, ",
            $alias,
            ".is_deleted, ",
            $alias,
            ".account_type"
        )
    };
}

macro_rules! common {
    () => {
        concat!(
            "t.id, t.username, t.account_type,
             (SELECT string_agg(CAST(m.role_id AS TEXT), ',') FROM user_roles m WHERE m.user_id = t.id),
             CASE WHEN t.status = 'active' AND t.locked_until > $1 THEN 'locked' ELSE t.status END,
             t.activated_at, t.password_set_at,
             t.password_set_at + (SELECT nullif(x.password_rotation_interval, 0) FROM security x) * 86400000000,
             t.link_sent_at, t.created_at, t.modified_at, ",
            reference!("l"),
            ", ",
            reference!("c"),
            ", ",
            reference!("m")
        )
    };
}

macro_rules! joins {
    () => {
        " LEFT JOIN users l ON l.id = t.link_sent_by LEFT JOIN users c ON c.id = t.created_by
          LEFT JOIN users m ON m.id = t.modified_by"
    };
}

macro_rules! detail {
    () => {
        concat!(
            "SELECT ", common!(), ", t.first_name, t.last_name, t.job_title, t.company_name, t.phone, t.mobile,
                t.timezone, t.is_ip_restriction_enabled, t.allowed_ip_ranges,
                (SELECT string_agg(r.name, '\n') FROM user_roles m JOIN roles r ON r.id = m.role_id WHERE m.user_id = t.id)"
        )
    };
}

macro_rules! list {
    ($hits:literal, $part:literal) => {
        concat!(
            "SELECT ",
            common!(),
            ", t.full_name, t.last_login,
                (SELECT CAST(sum(n) AS BIGINT) FROM all_counters WHERE name LIKE 'users_%'), page.hits
             FROM (SELECT t.id, ",
            $hits,
            " AS hits FROM users t WHERE t.is_deleted = 0",
            $part,
            " ORDER BY t.id DESC LIMIT $2) page JOIN users t ON t.id = page.id",
            joins!(),
            " ORDER BY t.id DESC"
        )
    };
}

/// `$1` is the time, `$2` the number of rows.
pub const LIST: &str = list!("CAST(NULL AS BIGINT)", "");
/// The same as [`LIST`]; `$3` is the part of the name, folded.
pub const SEARCH: &str = list!("count(*) OVER ()", " AND strpos(t.full_name_fold, $3) > 0");
/// `$1` is the time, `$2` the id.
pub const VIEW: &str = concat!(detail!(), " FROM users t", joins!(), " WHERE t.id = $2 AND t.is_deleted = 0");
/// The same as [`VIEW`], for the row that a statement before it, named `t`, has changed.
pub const RETURNED: &str = concat!(detail!(), " FROM t", joins!());

const REFERENCES: usize = 11;
/// The index of the first column that only one form has.
const REST: usize = REFERENCES + 3 * 7;

/// A page of users.
#[derive(Default)]
pub struct Page {
    items: Vec<u8>,
    total: i64,
    hits: Option<i64>,
}

impl Page {
    /// Adds a row.
    pub fn add(&mut self, row: &impl Columns) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        list_item(&mut self.items, row);
        self.total = row.int(REST + 2).unwrap_or_default();
        self.hits = row.int(REST + 3);
    }

    /// Returns the answer to a list.
    pub fn envelope(&self, host: &str, limit: i64, part: Option<&str>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.items.len() + 512);
        let hits = self.hits.unwrap_or(if part.is_some() { 0 } else { self.total });
        let _ =
            write!(out, r#"{{"limit":{limit},"offset":0,"total_count":{},"filtered_count":{hits},"next":"#, self.total);
        if hits > limit {
            let _ = write!(out, "\"http://{host}/api/users/?limit={limit}&offset={limit}");
            // The order in which the benchmark sends the parameters. A part of a name in it needs no escape.
            out.extend_from_slice(b"&ordering=-id");
            if let Some(part) = part {
                let _ = write!(out, "&full_name__icontains={part}");
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(br#","previous":null,"results":["#);
        out.extend_from_slice(&self.items);
        out.extend_from_slice(b"]}");
        out
    }
}

fn list_item(out: &mut Vec<u8>, row: &impl Columns) {
    head(out, row);
    text(out, ",\"full_name\":", row.text(REST));
    roles(out, row);
    text(out, ",\"status\":", row.text(4));
    moment(out, ",\"last_login\":", row.int(REST + 1));
    tail(out, row);
    out.extend_from_slice(br#","_meta":{"#);
    out.extend_from_slice(PERMISSIONS);
    out.extend_from_slice(b"}}");
}

/// Returns the JSON of one user.
pub fn user(row: &impl Columns) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    let out = &mut bytes;
    head(out, row);
    let names =
        [",\"first_name\":", ",\"last_name\":", ",\"job_title\":", ",\"company_name\":", ",\"phone\":", ",\"mobile\":"];
    for (n, name) in names.into_iter().enumerate() {
        text(out, name, row.text(REST + n));
    }
    roles(out, row);
    text(out, ",\"timezone\":", row.text(REST + 6));
    let _ = write!(out, ",\"is_ip_restriction_enabled\":{}", row.int(REST + 7) == Some(1));
    let _ = write!(out, ",\"allowed_ip_ranges\":{}", row.text(REST + 8).unwrap_or("[]"));
    text(out, ",\"status\":", row.text(4));
    tail(out, row);
    out.extend_from_slice(br#","_meta":{"labels":{"roles":["#);
    for (n, name) in row.text(REST + 9).into_iter().flat_map(|names| names.split('\n')).enumerate() {
        text(out, if n > 0 { "," } else { "" }, Some(name));
    }
    out.extend_from_slice(b"]},");
    out.extend_from_slice(PERMISSIONS);
    out.extend_from_slice(b",\"allowed_account_type_changes\":[");
    let own = row.text(2).unwrap_or_default();
    if CHANGEABLE.contains(&own) {
        for (n, other) in CHANGEABLE.into_iter().filter(|other| *other != own).enumerate() {
            text(out, if n > 0 { "," } else { "" }, Some(other));
        }
    }
    out.extend_from_slice(b"]}}");
    bytes
}

const CHANGEABLE: [&str; 4] = ["internal", "external", "full", "super_admin"];
const PERMISSIONS: &[u8] = br#""permissions":{"list":true,"view":true,"create":true,"edit":true,"delete":true}"#;

fn head(out: &mut Vec<u8>, row: &impl Columns) {
    let _ = write!(out, "{{\"id\":{}", row.int(0).unwrap_or_default());
    text(out, ",\"username\":", row.text(1));
    text(out, ",\"account_type\":", row.text(2));
}

fn roles(out: &mut Vec<u8>, row: &impl Columns) {
    let _ = write!(out, ",\"roles\":[{}]", row.text(3).unwrap_or_default());
}

fn tail(out: &mut Vec<u8>, row: &impl Columns) {
    moment(out, ",\"activated_at\":", row.int(5));
    moment(out, ",\"password_set_at\":", row.int(6));
    moment(out, ",\"password_expires_at\":", row.int(7));
    moment(out, ",\"link_sent_at\":", row.int(8));
    reference(out, ",\"link_sent_by\":", row, REFERENCES);
    moment(out, ",\"created_at\":", row.int(9));
    reference(out, ",\"created_by\":", row, REFERENCES + 7);
    moment(out, ",\"modified_at\":", row.int(10));
    reference(out, ",\"modified_by\":", row, REFERENCES + 14);
    out.extend_from_slice(b",\"next_actions\":[");
    let invited = !matches!(row.text(2), Some("service_internal" | "service_external" | "one_time_completion"));
    out.extend_from_slice(match row.text(4) {
        Some("pending" | "invited") if invited => br#""send_activation_link","deactivate","anonymize""#,
        Some("pending" | "invited" | "active") => br#""deactivate","anonymize""#,
        Some("locked") => br#""deactivate","unlock","anonymize""#,
        Some("inactive") => br#""reactivate","anonymize""#,
        _ => b"",
    });
    out.push(b']');
}

fn reference(out: &mut Vec<u8>, name: &str, row: &impl Columns, at: usize) {
    out.extend_from_slice(name.as_bytes());
    let Some(id) = row.int(at) else { return out.extend_from_slice(b"null") };
    let _ = write!(out, "{{\"id\":{id}");
    text(out, ",\"first_name\":", row.text(at + 1));
    text(out, ",\"last_name\":", row.text(at + 2));
    text(out, ",\"username\":", row.text(at + 3));
    text(out, ",\"company_name\":", row.text(at + 4));
    let _ = write!(out, ",\"is_deleted\":{}", row.int(at + 5) == Some(1));
    text(out, ",\"account_type\":", row.text(at + 6));
    out.push(b'}');
}

fn text(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    out.extend_from_slice(name.as_bytes());
    let _ = serde_json::to_writer(out, &value);
}

fn moment(out: &mut Vec<u8>, name: &str, micros: Option<i64>) {
    out.extend_from_slice(name.as_bytes());
    match micros {
        Some(micros) => {
            out.push(b'"');
            resource::time::write(out, micros);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}
