//! SQL statements: their text and their arguments.
//!
//! The text consists of `&'static str` and checked names only, so that the input of users never becomes SQL. Their
//! input is bound as arguments. The dialect is PostgreSQL's with `$1` placeholders; [`sqlite_text`] translates it for
//! SQLite.

use resource::Id;
use std::borrow::Cow;

/// An argument of a statement. These are all types that are stored: times are integers, flags are 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// NULL
    Null,
    /// BIGINT
    Int(i64),
    /// TEXT
    Text(String),
    /// BLOB or BYTEA
    Blob(Vec<u8>),
    /// BIGINT[] on PostgreSQL, an array of the extension `rarray` on SQLite; see [`Sql::push_any`]
    Ints(Vec<i64>),
}

/// A borrowed [`Argument`], for statements that run thousands of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorrowedArgument<'a> {
    /// NULL
    Null,
    /// BIGINT
    Int(i64),
    /// TEXT
    Text(&'a str),
    /// BLOB or BYTEA
    Blob(&'a [u8]),
    /// BIGINT[] on PostgreSQL, an array of the extension `rarray` on SQLite; see [`Sql::push_any`]
    Ints(&'a [i64]),
}

impl Argument {
    /// Borrows it.
    pub fn borrowed(&self) -> BorrowedArgument<'_> {
        match self {
            Argument::Null => BorrowedArgument::Null,
            Argument::Int(number) => BorrowedArgument::Int(*number),
            Argument::Text(text) => BorrowedArgument::Text(text),
            Argument::Blob(bytes) => BorrowedArgument::Blob(bytes),
            Argument::Ints(numbers) => BorrowedArgument::Ints(numbers),
        }
    }
}

impl From<BorrowedArgument<'_>> for Argument {
    fn from(value: BorrowedArgument<'_>) -> Argument {
        match value {
            BorrowedArgument::Null => Argument::Null,
            BorrowedArgument::Int(number) => Argument::Int(number),
            BorrowedArgument::Text(text) => Argument::Text(text.to_owned()),
            BorrowedArgument::Blob(bytes) => Argument::Blob(bytes.to_vec()),
            BorrowedArgument::Ints(numbers) => Argument::Ints(numbers.to_vec()),
        }
    }
}

impl From<i64> for Argument {
    fn from(value: i64) -> Argument {
        Argument::Int(value)
    }
}

impl From<bool> for Argument {
    fn from(value: bool) -> Argument {
        Argument::Int(i64::from(value))
    }
}

impl From<&str> for Argument {
    fn from(value: &str) -> Argument {
        Argument::Text(value.to_owned())
    }
}

impl From<String> for Argument {
    fn from(value: String) -> Argument {
        Argument::Text(value)
    }
}

impl From<&String> for Argument {
    fn from(value: &String) -> Argument {
        Argument::Text(value.clone())
    }
}

impl From<Vec<u8>> for Argument {
    fn from(value: Vec<u8>) -> Argument {
        Argument::Blob(value)
    }
}

impl<T: Into<Argument>> From<Option<T>> for Argument {
    fn from(value: Option<T>) -> Argument {
        value.map_or(Argument::Null, Into::into)
    }
}

/// The initial capacity of a text that is appended to, in bytes.
const USUAL_BYTES: usize = 512;

/// The length of the longest statement that connections cache as prepared, in bytes. The program's own statements are
/// much shorter.
const MAX_KEPT_BYTES: usize = 8 * 1024;

/// One statement and its arguments.
///
/// ```
/// # use store::Sql;
/// let mut sql = Sql::new("SELECT id FROM users WHERE age > $1").arg(17);
/// sql.push(" AND name = ").bind("Ada");
/// assert_eq!(sql.text(), "SELECT id FROM users WHERE age > $1 AND name = $2");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sql {
    text: Cow<'static, str>,
    args: Vec<Argument>,
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Sql {
        Sql::new(text)
    }
}

impl Sql {
    /// Starts a statement. The text may contain `$1`, `$2`…, to be filled by [`Sql::arg`].
    pub fn new(text: &'static str) -> Sql {
        Sql { text: Cow::Borrowed(text), args: Vec::new() }
    }

    /// Adds the next argument of the text so far.
    #[must_use]
    pub fn arg(mut self, value: impl Into<Argument>) -> Sql {
        self.args.push(value.into());
        self
    }

    /// Appends text.
    pub fn push(&mut self, text: &'static str) -> &mut Sql {
        if self.text.is_empty() {
            self.text = Cow::Borrowed(text);
        } else {
            self.text_mut().push_str(text);
        }
        self
    }

    /// Returns the text as an owned string, with capacity for most statements.
    fn text_mut(&mut self) -> &mut String {
        if let Cow::Borrowed(text) = self.text {
            let mut owned = String::with_capacity(text.len() + USUAL_BYTES);
            owned.push_str(text);
            self.text = Cow::Owned(owned);
        }
        self.text.to_mut()
    }

    /// Appends a placeholder and its argument.
    pub fn bind(&mut self, value: impl Into<Argument>) -> &mut Sql {
        self.args.push(value.into());
        let number = self.args.len();
        let text = self.text_mut();
        text.push('$');
        push_number(text, number);
        self
    }

    /// Appends the condition that the preceding expression is one of some integers or ids: ` = ANY($1)`. From two on,
    /// the statement does not depend on their number, so that connections cache it as prepared. On SQLite it becomes
    /// `IN` with [`Argument::Ints`] as an array.
    ///
    /// A single integer is compared with `=`. PostgreSQL assumes ten elements in every array. For fewer it would plan
    /// the statement each time, which takes longer than the execution.
    ///
    /// ```
    /// # use store::Sql;
    /// let mut sql = Sql::new("SELECT name FROM users WHERE id");
    /// sql.push_any([3, 1, 4]).push(" ORDER BY id");
    /// assert_eq!(sql.text(), "SELECT name FROM users WHERE id = ANY($1) ORDER BY id");
    ///
    /// let mut sql = Sql::new("SELECT name FROM users WHERE id");
    /// assert_eq!(sql.push_any([3]).text(), "SELECT name FROM users WHERE id = $1");
    /// ```
    // A copy at each of a hundred calls would make the binary larger.
    #[inline(never)]
    pub fn push_any<I: Id>(&mut self, ids: impl IntoIterator<Item = I>) -> &mut Sql {
        // A vector of ids is converted in place.
        let numbers: Vec<i64> = ids.into_iter().map(I::to_number).collect();
        match numbers.as_slice() {
            [value] => self.push(" = ").bind(*value),
            _ => self.push(" = ANY(").bind(Argument::Ints(numbers)).push(")"),
        }
    }

    /// Appends the clauses of a page of a list: ` LIMIT 25`, and ` OFFSET $1` if it is not the first. Usual limits are
    /// literals in the text: PostgreSQL assumes a tenth of all rows for an unknown limit, and would plan a page each
    /// time.
    pub fn page(&mut self, limit: i64, offset: i64) -> &mut Sql {
        const USUAL: [usize; 4] = [1, 25, 50, 100];
        self.push(" LIMIT ");
        match usize::try_from(limit).ok().filter(|limit| USUAL.contains(limit)) {
            Some(limit) => push_number(self.text_mut(), limit),
            None => drop(self.bind(limit)),
        }
        if offset == 0 { self } else { self.push(" OFFSET ").bind(offset) }
    }

    /// Appends a condition that is true for about one in `rows` rows. SQLite samples its statistics, so this tells it
    /// that an index of few values is a poor one. PostgreSQL has better statistics and ignores it.
    pub fn one_in(&mut self, rows: usize, condition: impl FnOnce(&mut Sql)) -> &mut Sql {
        condition(self.push("/*sqlite likelihood*/("));
        let share = 1.0 / rows.max(1) as f64;
        self.text_mut().push_str(&format!("/*sqlite , {share:.6}*/)"));
        self
    }

    /// Appends the name of a table or column that is only available at run time.
    ///
    /// # Panics
    /// Unless it is `[a-z_][a-z0-9_]*`. The program chooses such names, never a user.
    pub fn name(&mut self, identifier: &str) -> &mut Sql {
        let mut bytes = identifier.bytes();
        let sound = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        assert!(sound, "not an identifier: {identifier:?}");
        self.text_mut().push_str(identifier);
        self
    }

    /// Appends a text as a literal, for statements that accept no arguments.
    pub(crate) fn literal(&mut self, text: &str, is_sqlite: bool) -> &mut Sql {
        let quoted = text.replace('\'', "''");
        // PostgreSQL's settings decide whether a backslash is an escape in a plain literal; after E it always is.
        let literal = if is_sqlite { format!("'{quoted}'") } else { format!("E'{}'", quoted.replace('\\', "\\\\")) };
        self.text_mut().push_str(&literal);
        self
    }

    /// Appends another statement with its arguments; its placeholders are renumbered.
    pub fn append(&mut self, other: &Sql) -> &mut Sql {
        self.append_with(other, other.args.iter().cloned())
    }

    /// Appends another statement with `args` in place of its arguments, so that it can be built once and used often.
    pub fn append_with(&mut self, other: &Sql, args: impl IntoIterator<Item = Argument>) -> &mut Sql {
        let offset = self.args.len();
        self.args.extend(args);
        let text = self.text.to_mut();
        // Later text is appended, too.
        text.reserve(other.text.len() + 256);
        if offset == 0 || self.args.len() == offset {
            text.push_str(&other.text);
            return self;
        }
        scan(&other.text, |piece| match piece {
            SqlPiece::Placeholder(digits) => push_renumbered(text, digits, offset),
            SqlPiece::Any(digits) => {
                text.push_str(ANY);
                push_renumbered(text, digits, offset);
                text.push(')');
            }
            SqlPiece::Text(part) | SqlPiece::Function(part, _) | SqlPiece::Lock(part) => text.push_str(part),
            SqlPiece::Sqlite(part) => text.extend([SQLITE, part, COMMENT_END]),
        });
        self
    }

    /// The text so far, in the dialect of PostgreSQL.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether connections cache the prepared statement. Long statements contain lists of values and rarely run
    /// again with a list of the same length.
    pub(crate) fn is_kept(&self) -> bool {
        self.text.len() <= MAX_KEPT_BYTES
    }

    /// The arguments so far; `$1` is the first.
    pub fn args(&self) -> &[Argument] {
        &self.args
    }
}

/// The parts of a statement that inserts rows into a table whose name is only available at run time.
pub(crate) struct Insert {
    /// `INSERT INTO table (column, …)`
    head: Sql,
    columns: usize,
    /// The end of the statement, behind a blank; or empty.
    then: String,
}

impl Insert {
    /// # Panics
    /// As [`Sql::name`].
    pub fn new(table: &str, columns: &[&str], suffix: &'static str) -> Insert {
        let mut head = Sql::new("INSERT INTO ");
        head.name(table);
        for (at, column) in columns.iter().enumerate() {
            head.push(if at == 0 { " (" } else { ", " }).name(column);
        }
        head.push(")");
        let suffix = if suffix.is_empty() { String::new() } else { format!(" {suffix}") };
        Insert { head, columns: columns.len(), then: suffix }
    }

    /// Returns whether the statement returns no rows.
    pub fn is_silent(&self) -> bool {
        !self.then.contains("RETURNING")
    }

    /// Returns the statement for one row, without arguments.
    pub fn single_row(&self) -> Sql {
        let mut sql = self.head.clone();
        let text = sql.text.to_mut();
        for at in 1..=self.columns {
            text.push_str(if at == 1 { " VALUES ($" } else { ", $" });
            push_number(text, at);
        }
        text.push(')');
        text.push_str(&self.then);
        sql
    }

    /// Returns the text for many rows. PostgreSQL receives each column as an array.
    pub fn rows_text(&self, arrays: &str) -> String {
        format!("{} SELECT * FROM UNNEST({arrays}){}", self.head.text(), self.then)
    }
}

/// Appends a placeholder whose number is increased by an offset.
fn push_renumbered(text: &mut String, digits: &str, offset: usize) {
    text.push('$');
    // The engine refuses a number that is too long to parse.
    match digits.parse::<usize>() {
        Ok(number) => push_number(text, number + offset),
        Err(_) => text.push_str(digits),
    }
}

/// Appends a number. Statements have dozens of them, for which the formatting of texts is too slow.
fn push_number(text: &mut String, number: usize) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// Translates a text for SQLite.
///
/// `$1` becomes `?1`: `$1` is a name in SQLite, so that binding by position would swap the values of `$2, $1`. Some
/// functions get another name, and `= ANY($1)` becomes `IN (SELECT value FROM rarray(?1))`. The content of a comment
/// `/*sqlite …*/` is for SQLite only. Row locks are dropped: SQLite has none and needs none, since it has one writer.
pub(crate) fn sqlite_text(canonical: &str) -> String {
    let mut out = String::with_capacity(canonical.len());
    scan(canonical, |piece| match piece {
        SqlPiece::Text(part) => out.push_str(part),
        SqlPiece::Placeholder(digits) => {
            out.push('?');
            out.push_str(digits);
        }
        SqlPiece::Function(_, name) => out.push_str(name),
        SqlPiece::Any(digits) => {
            out.push_str(" IN (SELECT value FROM rarray(?");
            out.push_str(digits);
            out.push_str("))");
        }
        SqlPiece::Lock(_) => {}
        SqlPiece::Sqlite(part) => out.push_str(part),
    });
    out
}

/// A part of a text.
enum SqlPiece<'a> {
    Text(&'a str),
    /// The digits after `$`.
    Placeholder(&'a str),
    /// One of [`FUNCTIONS`], and its name on SQLite.
    Function(&'a str, &'static str),
    /// One of [`LOCKS`]
    Lock(&'a str),
    /// The digits of ` = ANY($1)`
    Any(&'a str),
    /// The text between [`SQLITE`] and [`COMMENT_END`].
    Sqlite(&'a str),
}

/// The start of a comment whose content is for SQLite alone.
const SQLITE: &str = "/*sqlite ";
const COMMENT_END: &str = "*/";

/// Functions that have another name on SQLite: both names, with the bracket.
const FUNCTIONS: [(&str, &str); 2] = [("strpos(", "instr("), ("json_build_array(", "json_array(")];

/// Row locks. A lock stands before its prefixes. `UPDATE` is for a row that may be deleted. `NO KEY UPDATE` is for a
/// row that is only changed, so that other rows may refer to it meanwhile. `SHARE` is for a row that must not change.
const LOCKS: [&str; 4] = [" FOR UPDATE SKIP LOCKED", " FOR UPDATE", " FOR NO KEY UPDATE", " FOR SHARE"];

/// Returns the length of the row lock at the beginning of a text, or 0 without one.
fn lock(text: &[u8]) -> usize {
    let begins =
        |lock: &&&str| text.starts_with(lock.as_bytes()) && !text.get(lock.len()).is_some_and(|&byte| is_word(byte));
    LOCKS.iter().find(begins).map_or(0, |lock| lock.len())
}

/// The text before the placeholder of [`Sql::push_any`].
const ANY: &str = " = ANY(";

/// Returns the length of the ` = ANY($1)` at the beginning of a text, or 0 without one.
fn any_clause_len(text: &[u8]) -> usize {
    let Some(placeholder) = text.strip_prefix(ANY.as_bytes()) else { return 0 };
    let digits = placeholder.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
    let is_any = placeholder.first() == Some(&b'$') && digits > 0 && placeholder.get(1 + digits) == Some(&b')');
    if is_any { ANY.len() + 1 + digits + 1 } else { 0 }
}

/// Returns the function whose name is at the beginning of a text.
fn function(text: &[u8]) -> Option<&'static (&'static str, &'static str)> {
    FUNCTIONS.iter().find(|(name, _)| text.starts_with(name.as_bytes()))
}

/// Splits a text into pieces in one pass. Strings, quoted names and comments are not split.
fn scan<'a>(text: &'a str, mut piece: impl FnMut(SqlPiece<'a>)) {
    let bytes = text.as_bytes();
    let (mut text_start, mut at) = (0, 0);
    while at < bytes.len() {
        let tail = &bytes[at..];
        let length = match bytes[at] {
            quote @ (b'\'' | b'"') => {
                at += 2 + tail[1..].iter().position(|&b| b == quote).unwrap_or(tail.len());
                continue;
            }
            b'-' if tail.starts_with(b"--") => {
                at += tail.iter().position(|&b| b == b'\n').unwrap_or(tail.len());
                continue;
            }
            b'$' => 1 + tail[1..].iter().take_while(|b| b.is_ascii_digit()).count(),
            b's' | b'j' if at == 0 || !is_word(bytes[at - 1]) => function(tail).map_or(0, |(name, _)| name.len()),
            b' ' if tail.starts_with(b" FOR ") => lock(tail),
            b' ' if tail.starts_with(b" = ") => any_clause_len(tail),
            b'/' if tail.starts_with(SQLITE.as_bytes()) => {
                text[at..].find(COMMENT_END).map_or(0, |end| end + COMMENT_END.len())
            }
            _ => 0,
        };
        if length < 2 {
            at += 1;
            continue;
        }
        if text_start < at {
            piece(SqlPiece::Text(&text[text_start..at]));
        }
        let part = &text[at..at + length];
        piece(match bytes[at] {
            b'$' => SqlPiece::Placeholder(&part[1..]),
            b' ' if part.starts_with(ANY) => SqlPiece::Any(&part[ANY.len() + 1..length - 1]),
            b' ' => SqlPiece::Lock(part),
            b'/' => SqlPiece::Sqlite(&part[SQLITE.len()..length - COMMENT_END.len()]),
            _ => SqlPiece::Function(part, function(tail).map_or("", |(_, name)| name)),
        });
        at += length;
        text_start = at;
    }
    if text_start < text.len() {
        piece(SqlPiece::Text(&text[text_start..]));
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_usual_pages_are_written_out() {
        let page = |limit, offset| Sql::new("SELECT 1").page(limit, offset).clone();
        for (limit, offset, text, args) in [
            (25, 0, "SELECT 1 LIMIT 25", vec![]),
            (25, 50, "SELECT 1 LIMIT 25 OFFSET $1", vec![Argument::Int(50)]),
            (17, 34, "SELECT 1 LIMIT $1 OFFSET $2", vec![Argument::Int(17), Argument::Int(34)]),
        ] {
            assert_eq!((page(limit, offset).text(), page(limit, offset).args()), (text, args.as_slice()));
        }
    }

    #[test]
    fn append_renumbers_placeholders() {
        let mut sql = Sql::new("SELECT 1 FROM t WHERE a = $1").arg(1);
        let part = Sql::new(" AND (b = $2 OR c = $1 OR d = '$1')").arg("x").arg(true);
        sql.append(&part).push(" AND e = ").bind(None::<i64>).append(&Sql::new(" LIMIT $1").arg(25));
        assert_eq!(sql.text(), "SELECT 1 FROM t WHERE a = $1 AND (b = $3 OR c = $2 OR d = '$1') AND e = $4 LIMIT $5");
        assert_eq!(
            sql.args(),
            [Argument::Int(1), Argument::Text("x".into()), Argument::Int(1), Argument::Null, Argument::Int(25)]
        );

        let mut clause = Sql::new(" AND b");
        clause.push_any([4, 2]);
        let mut sql = Sql::new("SELECT 1 FROM t WHERE a = $1").arg(1);
        sql.append(&clause);
        assert_eq!(sql.text(), "SELECT 1 FROM t WHERE a = $1 AND b = ANY($2)");
        assert_eq!(sql.args(), [Argument::Int(1), Argument::Ints(vec![4, 2])]);
    }

    #[test]
    fn names_are_checked() {
        let mut sql = Sql::new("SELECT ");
        sql.name("f17").push(" FROM ").name("class_4");
        assert_eq!(sql.text(), "SELECT f17 FROM class_4");
        for bad in ["", "1a", "A", "a-b", "a b", "a\"", "é"] {
            let bad = bad.to_owned();
            let result = std::panic::catch_unwind(move || Sql::new("").name(&bad).text().len());
            assert!(result.is_err());
        }
    }

    #[test]
    fn texts_are_translated_for_sqlite() {
        assert_eq!(sqlite_text("SELECT $2, $10 FROM t"), "SELECT ?2, ?10 FROM t");
        assert_eq!(sqlite_text("SELECT 1 WHERE strpos(a, $1) > 0"), "SELECT 1 WHERE instr(a, ?1) > 0");
        assert_eq!(sqlite_text("SELECT my_strpos(a)"), "SELECT my_strpos(a)");
        assert_eq!(sqlite_text("SELECT json_build_array(a, $1)"), "SELECT json_array(a, ?1)");
        assert_eq!(sqlite_text("SELECT n FROM t FOR UPDATE"), "SELECT n FROM t");
        assert_eq!(sqlite_text("SELECT n FROM t FOR UPDATE SKIP LOCKED"), "SELECT n FROM t");
        assert_eq!(sqlite_text("SELECT n FROM t FOR NO KEY UPDATE"), "SELECT n FROM t");
        assert_eq!(sqlite_text("(SELECT n FROM t FOR SHARE)"), "(SELECT n FROM t)");
        assert_eq!(sqlite_text("SELECT n FROM t FOR SHARED"), "SELECT n FROM t FOR SHARED");
        assert_eq!(
            sqlite_text("SELECT 'it''s $1 FOR UPDATE', \"$2\" -- $3\n, $4"),
            "SELECT 'it''s $1 FOR UPDATE', \"$2\" -- $3\n, ?4"
        );
        assert_eq!(sqlite_text("SELECT 'é', $1, '"), "SELECT 'é', ?1, '");
        assert_eq!(
            sqlite_text("SELECT n FROM t WHERE a = ANY($2) AND b = $1"),
            "SELECT n FROM t WHERE a IN (SELECT value FROM rarray(?2)) AND b = ?1"
        );
        let mut selection = Sql::new("SELECT 1 FROM t WHERE ");
        selection.one_in(5, |sql| {
            sql.push("a = ").bind(3);
        });
        let mut statement = Sql::new("SELECT $1, ").arg(1);
        statement.append(&selection);
        assert_eq!(
            statement.text(),
            "SELECT $1, SELECT 1 FROM t WHERE /*sqlite likelihood*/(a = $2/*sqlite , 0.200000*/)"
        );
        assert_eq!(sqlite_text(statement.text()), "SELECT ?1, SELECT 1 FROM t WHERE likelihood(a = ?2, 0.200000)");
        assert_eq!(sqlite_text("SELECT 1 /*sqlite "), "SELECT 1 /*sqlite ");
        assert_eq!(sqlite_text("SELECT a = ANY(SELECT 1), a = ANY($"), "SELECT a = ANY(SELECT 1), a = ANY($");
        assert_eq!(sqlite_text(""), "");
        assert_eq!(sqlite_text("$"), "$");
    }
}
