//! The search over all classes, users and groups: `/api/search/` (`docs/reference/search.md`). Its cost does not depend on the
//! number of classes. Classes are searched in batches until a time limit, with a maximum number of records of each. Classes
//! without a visible record are not even read. Each batch is searched in its own transaction. PostgreSQL locks each table and
//! index of a statement until the end of the transaction, and has some thousand locks for all callers together.

use crate::object_records::list::advised;
use crate::object_records::read::{join_label, select_label};
use crate::object_records::words;
use crate::rights::visible_classes;
use crate::visible_records::{VisibleClass, seen_classes};
use http::Method;
use identity::visibility::{visible_groups, visible_users};
use kit::answer::Answer;
use kit::ids::ClassId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use kit::rows::sql::{OWN, fold_column};
use kit::snapshot;
use resource::select::bounded;
use resource::{Errors, fold, message, openapi, without_marks};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};

const TEXT: &str = "text";
const LIMIT: &str = "limit";
/// The maximum number of characters of a text.
const MAX_TEXT: usize = 200;
/// The maximum number of results, and the default number.
const MAX_LIMIT: i64 = 50;
const DEFAULT_LIMIT: i64 = 10;
/// The number of classes in one statement and in one transaction.
const CLASSES_AT_A_TIME: usize = 25;
/// The approximate number of records with the words that a search reads, of all classes together.
const MAX_LOOKED_AT: usize = 100_000;
/// The minimum and the maximum share of one class in these records. The newest records of a class are read.
const LOOKED_AT_OF_CLASS: [usize; 2] = [200, 20_000];
/// The time after which a search reads no further class. The search for a frequent word is slow in each class, even if few of its
/// records are visible.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/api/search/", "Search all classes, people and groups", Handler::Async(search))
            .parameters(parameters)
            .answers(200, Schema::Json(results_schema))
            .action("list"),
    ]
}

fn parameters() -> Vec<Json> {
    let text = json!({"type": "string", "minLength": 1, "maxLength": MAX_TEXT});
    let mut text = openapi::query(TEXT, "The words to find", text);
    text["required"] = true.into();
    let limit = json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
    vec![text, openapi::query(LIMIT, "Maximum number of results", limit)]
}

fn results_schema() -> Json {
    let result = openapi::object([
        (
            "type",
            json!({"type": "string", "enum": [ResultKind::Group.name(), ResultKind::Record.name(), ResultKind::User.name()]}),
        ),
        ("id", json!({"type": "integer"})),
        ("label", json!({"type": "string"})),
        ("object_class", json!({"type": ["integer", "null"], "description": "The class of a record"})),
    ]);
    let results = json!({"type": "array", "maxItems": MAX_LIMIT, "items": openapi::titled("SearchResult", result)});
    openapi::titled("SearchResults", openapi::object([("results", results)]))
}

fn search(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let began = Instant::now();
        let query = Arc::new(SearchQuery::from_request(&request)?);
        let mut best = BestResults::new(&query);
        let text = query.clone();
        let (named, classes) =
            snapshot::read(&request, move |request, conn| search_people(request, conn, &text)).await?;
        best.merge(named);
        let [least, most] = LOOKED_AT_OF_CLASS;
        let share = (MAX_LOOKED_AT / classes.len().max(1)).clamp(least, most) as i64;
        for chunk in classes.chunks(CLASSES_AT_A_TIME).take_while(|_| began.elapsed() < PATIENCE) {
            let (text, classes_of_chunk) = (query.clone(), chunk.to_vec());
            let records = snapshot::read(&request, move |request, conn| {
                records(request, conn, &text, classes_of_chunk.clone(), share)
            });
            best.merge(records.await.map_err(advised)?);
        }
        let results: Vec<Json> = best.results.iter().map(SearchResult::to_json).collect();
        Ok(Answer::value(&json!({"results": results})))
    })
}

/// Searches users and groups, and returns them with the classes that the caller may view.
fn search_people(
    request: &Request,
    conn: &mut Conn,
    query: &Arc<SearchQuery>,
) -> Result<(BestResults, Vec<ClassId>), Refusal> {
    let caller = request.caller()?;
    let mut results = BestResults::new(query);
    if caller.agent.is_none() {
        // An agent may not list users or groups.
        results.add_named(conn, ResultKind::User, "users", ["full_name", "username"], &visible_users(caller))?;
        results.add_named(conn, ResultKind::Group, "user_groups", ["name", "name"], &visible_groups(caller))?;
    }
    let mut sql = Sql::new("SELECT t.id FROM object_classes t WHERE ");
    sql.append(&visible_classes(caller)).push(" ORDER BY t.id");
    Ok((results, conn.query_all(&sql, |row| row.id(0))?))
}

/// Returns the best records of some classes.
fn records(
    request: &Request,
    conn: &mut Conn,
    query: &Arc<SearchQuery>,
    classes: Vec<ClassId>,
    share: i64,
) -> Result<BestResults, Refusal> {
    let mut results = BestResults::new(query);
    let mut visible_classes = Vec::with_capacity(classes.len());
    for visible_class in
        seen_classes(request, conn, classes)?.into_iter().filter(|visible_class| !visible_class.visible.is_none())
    {
        visible_classes.extend(visible_class.read(request, conn)?);
    }
    results.add_records(conn, &visible_classes, share)?;
    Ok(results)
}

/// The text and the limit of a search.
struct SearchQuery {
    /// The folded text.
    text: String,
    /// The folded text without marks.
    plain: String,
    /// The upper bound of all texts with this prefix.
    behind: String,
    limit: i64,
}

impl SearchQuery {
    fn from_request(request: &Request) -> Result<SearchQuery, Refusal> {
        let mut errors = Errors::new();
        let text = request.query.last_value(TEXT).unwrap_or_default().trim();
        if text.is_empty() {
            errors.add(TEXT, message::REQUIRED);
        } else if text.contains('\0') {
            errors.add(TEXT, message::NUL);
        } else if text.chars().count() > MAX_TEXT {
            errors.add(TEXT, message::too_long(MAX_TEXT));
        }
        let limit = bounded(&request.query, LIMIT, DEFAULT_LIMIT, 1, Some(MAX_LIMIT), &mut errors);
        errors.refuse()?;
        let text = fold(text);
        let end_of_prefix = format!("{text}{}", char::MAX);
        let plain = without_marks(&text).into_owned();
        Ok(SearchQuery { text, plain, behind: end_of_prefix, limit })
    }

    /// Appends the condition that the folded text in a column begins with the text.
    fn push_prefix_condition(&self, sql: &mut Sql, column: impl Fn(&mut Sql)) {
        column(sql);
        sql.push(" >= ").bind(self.text.as_str()).push(" AND ");
        column(sql);
        sql.push(" < ").bind(self.behind.as_str());
    }

    /// The id in a text such as `#12`, which is the label of a record without a label value.
    fn number(&self) -> Option<i64> {
        self.text.strip_prefix('#').and_then(|digits| digits.parse().ok())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ResultKind {
    User,
    Group,
    Record,
}

impl ResultKind {
    fn name(self) -> &'static str {
        match self {
            ResultKind::User => "user",
            ResultKind::Group => "user_group",
            ResultKind::Record => "object_record",
        }
    }
}

/// A result. The order is that of the answer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SearchResult {
    /// True if the label begins with another text.
    is_inside: bool,
    folded: String,
    kind: ResultKind,
    id: i64,
    label: String,
    object_class: Option<ClassId>,
}

impl SearchResult {
    fn to_json(&self) -> Json {
        json!({"type": self.kind.name(), "id": self.id, "label": self.label, "object_class": self.object_class})
    }
}

/// The best results so far.
struct BestResults {
    wanted: Arc<SearchQuery>,
    results: BTreeSet<SearchResult>,
}

impl BestResults {
    fn new(query: &Arc<SearchQuery>) -> BestResults {
        BestResults { wanted: query.clone(), results: BTreeSet::new() }
    }

    fn merge(&mut self, other: BestResults) {
        other.results.into_iter().for_each(|hit| self.insert(hit));
    }

    fn insert(&mut self, hit: SearchResult) {
        self.results.insert(hit);
        if self.results.len() as i64 > self.wanted.limit {
            self.results.pop_last();
        }
    }

    fn add(&mut self, kind: ResultKind, id: i64, label: &str, object_class: Option<ClassId>) {
        let folded = fold(label);
        let is_inside = !without_marks(&folded).starts_with(&self.wanted.plain);
        self.insert(SearchResult { is_inside, folded, kind, id, label: label.to_owned(), object_class });
    }

    /// Adds the rows of a table whose two names together contain all words of the text. The first name is the label.
    fn add_named(
        &mut self,
        conn: &mut Conn,
        kind: ResultKind,
        table: &'static str,
        names: [&'static str; 2],
        visible: &Sql,
    ) -> Result<(), Refusal> {
        let [shown, other_column] = names.map(|name| format!("{name}_fold"));
        let words = self.wanted.plain.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let mut needles: BTreeSet<&str> = words.collect();
        if needles.is_empty() {
            needles.insert(&self.wanted.plain);
        }
        let mut sql = Sql::new("SELECT t.id, t.");
        sql.name(names[0]).push(" FROM ").name(table).push(" t WHERE ").append(visible);
        for needle in needles {
            sql.push(" AND (strpos(without_marks(t.").name(&shown).push("), ").bind(needle).push(") > 0");
            sql.push(" OR strpos(without_marks(t.").name(&other_column).push("), ").bind(needle).push(") > 0)");
        }
        sql.push(" ORDER BY CASE WHEN strpos(without_marks(t.").name(&shown);
        sql.push("), ").bind(self.wanted.plain.as_str());
        sql.push(") = 1 THEN 0 ELSE 1 END, t.").name(&shown).push(", t.id").page(self.wanted.limit, 0);
        conn.for_each_row(&sql, |row| {
            self.add(kind, row.int(0)?, row.text(1)?, None);
            Ok(())
        })?;
        Ok(())
    }

    /// Adds the best records of these classes. At most `share` records of each class that contain the words are read.
    fn add_records(&mut self, conn: &mut Conn, classes: &[VisibleClass], share: i64) -> Result<(), StoreError> {
        let mut sql = Sql::new("");
        for class in classes {
            for condition in self.conditions(conn, class, share)? {
                if !sql.text().is_empty() {
                    sql.push(" UNION ALL ");
                }
                self.push_best(&mut sql, class, &condition);
            }
        }
        if sql.text().is_empty() {
            return Ok(());
        }
        conn.for_each_row(&sql, |row| {
            self.add(ResultKind::Record, row.int(1)?, row.text(2)?, Some(row.id(0)?));
            Ok(())
        })
    }

    /// The conditions that find records of a class, which may overlap: their words, the prefix of their labels if it is indexed,
    /// and their numbers.
    fn conditions(&self, conn: &mut Conn, visible_class: &VisibleClass, share: i64) -> Result<Vec<Sql>, StoreError> {
        let query = &self.wanted;
        let visible = |sql: &mut Sql, n: &'static str| visible_class.visible.condition(sql.push(" AND "), n);
        let by_words = match words::records_with_words(conn, &visible_class.class, &visible_class.visible, &query.text)?
        {
            Some(numbers) => {
                let mut sql = Sql::new("");
                visible_class.visible.restrict_to(numbers).condition(&mut sql, "t.n");
                Some(sql)
            }
            None => conn.search(&visible_class.class.table(), &query.text, Some(share), visible)?.map(|numbers| {
                let mut sql = Sql::new("t.n");
                sql.append(&numbers);
                sql
            }),
        };
        let by_label = visible_class.class.label().filter(|field| field.is_fold_indexed).map(|field| {
            let mut sql = Sql::new("");
            query.push_prefix_condition(&mut sql, |sql| fold_column(sql, OWN, field));
            visible(&mut sql, "t.n");
            sql
        });
        let by_number = query.number().map(|id| {
            let mut sql = Sql::new("t.id = ");
            visible(sql.bind(id), "t.n");
            if let Some(field) = visible_class.class.label() {
                fold_column(sql.push(" AND "), OWN, field);
                sql.push(" IS NULL");
            }
            sql
        });
        Ok([by_words, by_label, by_number].into_iter().flatten().collect())
    }

    /// Appends the statement for the best records that fulfil a condition: class, id, label.
    fn push_best(&self, sql: &mut Sql, visible_class: &VisibleClass, condition: &Sql) {
        let class = &visible_class.class;
        sql.push("SELECT h.class_id, h.id, h.label FROM (SELECT CAST(").bind(class.id);
        sql.push(" AS BIGINT) AS class_id, t.id, ");
        select_label(sql, class, OWN);
        sql.push(" AS label FROM ").name(&class.table()).push(" t");
        join_label(sql, class, OWN);
        sql.push(" WHERE ").append(condition).push(" ORDER BY ");
        if let Some(field) = class.label() {
            self.wanted.push_prefix_condition(sql.push("CASE WHEN "), |sql| fold_column(sql, OWN, field));
            fold_column(sql.push(" THEN 0 ELSE 1 END, "), OWN, field);
            sql.push(", ");
        }
        sql.push("t.id").page(self.wanted.limit, 0).push(") h");
    }
}
