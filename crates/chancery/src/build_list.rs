//! The output of `chancery build list`.

use platform::builds::BuildRow;
use resource::time::show;
use serde_json::{Value, json};

const HEADER: [&str; 5] = ["DOMAIN", "STATE", "CREATED", "HISTORY DATABASE", "CLIENT ID"];

/// Formats a table with a header, for people.
pub fn table(builds: &[BuildRow]) -> String {
    let rows: Vec<[String; 5]> = [HEADER.map(str::to_owned)].into_iter().chain(builds.iter().map(columns)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |row: &[String; 5]| {
        let padded = row.iter().zip(widths).map(|(text, width)| format!("{text:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Formats a line for each build with tabs between the columns, for scripts.
pub fn lines(builds: &[BuildRow]) -> String {
    builds.iter().map(|build| format!("{}\n", columns(build).join("\t"))).collect()
}

/// Formats a JSON array, for programs.
pub fn json(builds: &[BuildRow]) -> String {
    let object = |build: &BuildRow| {
        let history = build.history.as_ref();
        let history = history.map(|(name, client_id)| json!({"database_name": name, "client_id": client_id}));
        json!({
            "domain": build.domain, "state": build.state, "created_at": show(build.created_at), "history": history,
        })
    };
    format!("{:#}\n", Value::from_iter(builds.iter().map(object)))
}

fn columns(build: &BuildRow) -> [String; 5] {
    let (database, client_id) = build.history.clone().unwrap_or_default();
    [build.domain.clone(), build.state.clone(), show(build.created_at), database, client_id.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builds() -> Vec<BuildRow> {
        let build = |id, domain: &str, history: Option<(&str, Option<&str>)>| BuildRow {
            id,
            domain: domain.to_owned(),
            state: "active".to_owned(),
            created_at: 1_769_851_800_000_000,
            history: history.map(|(name, client_id)| (name.to_owned(), client_id.map(str::to_owned))),
        };
        vec![build(1, "acme.example", Some(("acme_1", Some("4c1d7a52")))), build(2, "b.example", None)]
    }

    #[test]
    fn people_get_a_table_with_a_header() {
        assert_eq!(
            table(&builds()),
            "DOMAIN        STATE   CREATED                      HISTORY DATABASE  CLIENT ID\n\
             acme.example  active  2026-01-31T09:30:00.000000Z  acme_1            4c1d7a52\n\
             b.example     active  2026-01-31T09:30:00.000000Z\n"
        );
    }

    #[test]
    fn scripts_get_lines_with_tabs_and_programs_get_json() {
        assert_eq!(
            lines(&builds()),
            "acme.example\tactive\t2026-01-31T09:30:00.000000Z\tacme_1\t4c1d7a52\nb.example\tactive\t2026-01-31T09:30:00.000000Z\t\t\n"
        );
        assert_eq!(
            serde_json::from_str::<Value>(&json(&builds())).unwrap(),
            json!([
                {
                    "domain": "acme.example", "state": "active", "created_at": "2026-01-31T09:30:00.000000Z",
                    "history": {"database_name": "acme_1", "client_id": "4c1d7a52"},
                },
                {"domain": "b.example", "state": "active", "created_at": "2026-01-31T09:30:00.000000Z", "history": null},
            ])
        );
        assert_eq!((table(&[]).lines().count(), lines(&[]), json(&[])), (1, String::new(), "[]\n".to_owned()));
    }
}
