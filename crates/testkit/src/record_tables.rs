//! The invariants of the tables of class 1 and its records between two writes.

use store::{Conn, Sql, StoreError};

/// The invariants, each with a statement that selects violations. Each is one statement, so that it reads one snapshot.
const RULES: [(&str, &str); 7] = [
    (
        "the count of a class is that of its rows",
        "SELECT 1 WHERE (SELECT COALESCE(sum(n), 0) FROM record_counts WHERE class_id = 1) <> (SELECT count(*) FROM r1)",
    ),
    (
        "each row is of a record of the class",
        "SELECT t.id FROM r1 t LEFT JOIN records r ON r.id = t.id AND r.class_id = 1 WHERE r.id IS NULL",
    ),
    (
        "each record of the class has a row",
        "SELECT r.id FROM records r LEFT JOIN r1 t ON t.id = r.id WHERE r.class_id = 1 AND t.id IS NULL",
    ),
    (
        "users own as many records as is counted",
        "SELECT x.principal FROM (SELECT v.principal, v.owned FROM record_viewers v WHERE v.class_id = 1 \
         UNION ALL SELECT t.owner, CAST(-1 AS BIGINT) FROM r1 t WHERE t.owner IS NOT NULL) x \
         GROUP BY x.principal HAVING sum(x.owned) <> 0",
    ),
    (
        "assignments are to records, by their numbers",
        "SELECT a.id FROM record_assignees a LEFT JOIN r1 t ON t.id = a.record WHERE t.n IS NULL OR t.n <> a.n",
    ),
    (
        "who is assigned has a version",
        "SELECT a.principal FROM record_assignees a WHERE NOT EXISTS \
         (SELECT 1 FROM record_viewers v WHERE v.principal = a.principal AND v.class_id = 1)",
    ),
    ("no record is there and deleted", "SELECT d.id FROM deleted_records d JOIN records r ON r.id = d.id"),
];

/// Returns the violated invariants of the tables of class 1, with the ids of the violations. The records have a text,
/// and so words.
pub fn broken_rules(conn: &mut Conn) -> Result<Vec<String>, StoreError> {
    let mut broken = Vec::new();
    for (rule, text) in RULES {
        let violations = conn.query_all(&Sql::new(text), |row| row.int(0))?;
        if !violations.is_empty() {
            broken.push(format!("{rule}: {violations:?}"));
        }
    }
    let words = if conn.is_embedded() { "SELECT rowid FROM r1_words" } else { "SELECT n FROM r1_words" };
    let [of_words, of_rows] = [words, "SELECT n FROM r1"].map(|text| conn.query_all(&Sql::new(text), |row| row.int(0)));
    let (mut of_words, mut of_rows) = (of_words?, of_rows?);
    of_words.sort_unstable();
    of_rows.sort_unstable();
    if of_words != of_rows {
        broken.push(format!("each row has its words: {of_words:?} of {of_rows:?}"));
    }
    Ok(broken)
}
