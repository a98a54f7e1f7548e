//! The words of records, and the search for them.
//!
//! This module splits texts into words, not the engines, so that both find the same records. Callers fold the case of
//! all texts before they pass them. Words are compared without marks. Scripts without blanks between words are indexed
//! by pairs of characters.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use resource::without_marks;

use crate::conn::Conn;
use crate::error::StoreError;
use crate::sql::{Argument, BorrowedArgument, Sql};

/// The number of characters to which words are cut. PostgreSQL stores words of up to 2,046 bytes.
const MAX_CHARACTERS: usize = 64;
/// The maximum number of different words of a record.
const MAX_WORDS: usize = 20_000;
/// The maximum size of the words of a record in bytes. A `tsvector` stores up to 1 MiB.
const MAX_BYTES: usize = 1_000_000;
/// The maximum number of words with the same beginning that a query of FTS5 names.
const MAX_NAMED_WORDS: usize = 16;
/// The number of bytes from which on words are sent to the database, so that the words of many records do not fill the
/// memory.
const MAX_BYTES_AT_ONCE: usize = 4_000_000;

/// Calls `word` for each word of a folded text, without marks. A word is a run of letters and digits, cut to 64
/// characters. A run in a script without blanks yields its pairs of characters and its last character.
pub fn each_word(folded: &str, word: impl FnMut(&str)) {
    each_plain_word(&without_marks(folded), word);
}

/// Calls `word` for each word of a text without marks, like [`each_word`].
fn each_plain_word<'a>(plain: &'a str, mut word: impl FnMut(&'a str)) {
    if plain.is_ascii() {
        // In an ASCII text a byte is a character, and words are separated.
        let runs = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|run| !run.is_empty());
        return runs.for_each(|run| word(&run[..run.len().min(MAX_CHARACTERS)]));
    }
    for (run, is_unspaced) in word_runs(plain) {
        if !is_unspaced {
            word(run);
            continue;
        }
        let mut last = run;
        for pair in pairs(run) {
            word(pair);
            last = &pair[first_character(pair).len()..];
        }
        word(last);
    }
}

/// A word that a search looks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SearchWord {
    /// The word.
    pub word: String,
    /// Is true if words that begin with it match, too.
    pub is_beginning: bool,
}

/// Returns the different words that a search for a folded text looks for. The last word may be the beginning of a word,
/// and so is a single character of a script without blanks.
///
/// ```
/// # use store::search_words;
/// let words = |text| search_words(text).into_iter().map(|word| (word.word, word.is_beginning)).collect::<Vec<_>>();
/// assert_eq!(words("zoë@ex"), [("ex".to_owned(), true), ("zoe".to_owned(), false)]);
/// assert_eq!(words("東京都"), [("京都".to_owned(), false), ("東京".to_owned(), false)]);
/// ```
pub fn search_words(folded: &str) -> Vec<SearchWord> {
    let (plain, mut words) = (without_marks(folded), Vec::new());
    let mut ends_with_word = false;
    for (run, is_unspaced) in word_runs(&plain) {
        ends_with_word = !is_unspaced;
        match is_unspaced && first_character(run).len() < run.len() {
            true => words.extend(pairs(run).map(|pair| SearchWord { word: pair.to_owned(), is_beginning: false })),
            false => words.push(SearchWord { word: run.to_owned(), is_beginning: is_unspaced }),
        }
    }
    if let Some(last) = words.last_mut().filter(|_| ends_with_word) {
        last.is_beginning = true;
    }
    words.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the runs of letters and digits of a text, each with the flag that its script has no blanks between words.
/// Such a run is not cut; other runs are cut to 64 characters.
fn word_runs(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let between = text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty());
    between.flat_map(|run| {
        let mut rest = run;
        std::iter::from_fn(move || {
            let is_unspaced = is_unspaced(rest.chars().next()?);
            let end = rest.find(|c: char| self::is_unspaced(c) != is_unspaced).unwrap_or(rest.len());
            let (run, remainder) = rest.split_at(end);
            rest = remainder;
            let most = if is_unspaced { usize::MAX } else { MAX_CHARACTERS };
            Some((run.char_indices().nth(most).map_or(run, |(end, _)| &run[..end]), is_unspaced))
        })
    })
}

/// The pairs of neighbouring characters of a run.
fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let ends = run.char_indices().skip(1).map(|(at, second)| at + second.len_utf8());
    run.char_indices().zip(ends).map(|((begin, _), end)| &run[begin..end])
}

fn first_character(run: &str) -> &str {
    &run[..run.chars().next().map_or(0, char::len_utf8)]
}

/// Returns whether a character belongs to the Thai, Lao, Khmer, Chinese or Japanese script, which have no blanks
/// between words.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1780..=0x17ff | 0x19e0..=0x19ff
        | 0x3005..=0x3007 | 0x3040..=0x312f | 0x31a0..=0x31bf | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0xff66..=0xff9f
        | 0x1aff0..=0x1b16f | 0x20000..=0x3347f)
}

/// The different words of one record, at most 20,000 with 1,000,000 bytes. Words beyond these limits are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The sorted words with spaces between them. No word contains a space.
    joined: String,
}

impl Words {
    /// Collects the words of the folded texts of a record.
    pub fn of_texts<T: AsRef<str>>(folded: &[T]) -> Words {
        let plain: Vec<Cow<'_, str>> = folded.iter().map(|text| without_marks(text.as_ref())).collect();
        // A word has at least one byte, and each character begins at most one word. Few records come near the limits.
        let is_within_limits = plain.iter().map(|text| text.len()).sum::<usize>() <= MAX_WORDS;
        let words = if is_within_limits { sorted_words(&plain) } else { limited_words(&plain) };
        Words { joined: words.join(" ") }
    }

    /// The words in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.joined.split(' ').filter(|word| !word.is_empty())
    }
}

/// The different words of texts without marks, sorted.
fn sorted_words<'a>(plain: &'a [Cow<'_, str>]) -> Vec<&'a str> {
    let mut words = Vec::new();
    plain.iter().for_each(|text| each_plain_word(text, |word| words.push(word)));
    words.sort_unstable();
    words.dedup();
    words
}

/// The different words of texts without marks, sorted, up to the limits of [`Words`].
fn limited_words<'a>(plain: &'a [Cow<'_, str>]) -> Vec<&'a str> {
    let (mut words, mut bytes) = (BTreeSet::new(), 0);
    for text in plain {
        each_plain_word(text, |word| {
            let has_room = words.len() < MAX_WORDS && bytes + word.len() <= MAX_BYTES;
            if has_room && words.insert(word) {
                bytes += word.len();
            }
        });
    }
    words.into_iter().collect()
}

/// The word index of a table of [`Conn::create_table`]. It refers to rows by `n`. Writes to the table do not update it:
/// code that writes or deletes a row also sets or deletes its words. Names are checked as by [`Sql::name`], which
/// panics.
impl Conn {
    /// Creates the word index of a table, `{table}_words`.
    pub fn create_word_index(&mut self, table: &str) -> Result<(), StoreError> {
        let index = index_of(table);
        let mut sql = Sql::new("");
        if self.is_embedded() {
            // This tokenizer splits at certain ASCII characters only, and words do not contain those.
            sql.push("CREATE VIRTUAL TABLE ")
                .name(&index)
                .push(" USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii')")
                .push("; CREATE VIRTUAL TABLE ")
                .name(&terms_of(table))
                .push(" USING fts5vocab(")
                .name(&index)
                .push(", instance)");
        } else {
            sql.push("CREATE TABLE ").name(&index).push(" (n BIGINT PRIMARY KEY, words TSVECTOR); CREATE INDEX ");
            sql.name(&format!("{index}_gin")).push(" ON ").name(&index).push(" USING GIN (words)");
        }
        self.define(&sql)
    }

    /// Removes the word index of a table, if it exists.
    pub fn drop_word_index(&mut self, table: &str) -> Result<(), StoreError> {
        if self.is_embedded() {
            self.drop_table(&terms_of(table))?;
        }
        self.drop_table(&index_of(table))
    }

    /// Sets the words of rows, and replaces existing ones. If a row occurs several times, its last words count.
    pub fn set_words(&mut self, table: &str, rows: &[(i64, Words)]) -> Result<(), StoreError> {
        // Two transactions that do this at once do not deadlock, because the rows are sorted.
        let rows: BTreeMap<i64, &Words> = rows.iter().map(|(n, words)| (*n, words)).collect();
        let (mut part, mut bytes) = (Vec::new(), 0);
        for (n, words) in rows {
            part.push((n, words.joined.as_str()));
            bytes += words.joined.len();
            if bytes >= MAX_BYTES_AT_ONCE {
                self.set_texts(table, &std::mem::take(&mut part))?;
                bytes = 0;
            }
        }
        self.set_texts(table, &part)
    }

    /// Sets the words of rows, which are texts with spaces between the words.
    fn set_texts(&mut self, table: &str, rows: &[(i64, &str)]) -> Result<(), StoreError> {
        let mut sql = Sql::new("");
        if self.is_embedded() {
            sql.push("INSERT OR REPLACE INTO ").name(&index_of(table)).push(" (rowid, words) VALUES ($1, $2)");
            let rows = rows.iter().map(|(n, text)| [BorrowedArgument::Int(*n), BorrowedArgument::Text(text)]);
            return self.exec_each(sql, rows, |_| ());
        }
        // An array needs a fifth of the time of a cast to TSVECTOR.
        sql.push("INSERT INTO ").name(&index_of(table)).push(
            " (n, words) SELECT n, array_to_tsvector(string_to_array(line, ' ')) \
             FROM UNNEST(CAST($1 AS BIGINT[]), string_to_array($2, chr(10))) AS line (n, line) \
             ON CONFLICT (n) DO UPDATE SET words = excluded.words",
        );
        let lines: Vec<&str> = rows.iter().map(|(_, text)| *text).collect();
        let numbers = Argument::Ints(rows.iter().map(|(n, _)| *n).collect());
        if rows.is_empty() { Ok(()) } else { self.exec_later(&sql.arg(numbers).arg(lines.join("\n"))) }
    }

    /// Removes the words of rows, if they have any.
    pub fn delete_words(&mut self, table: &str, rows: &[i64]) -> Result<(), StoreError> {
        let mut sql = Sql::new("DELETE FROM ");
        sql.name(&index_of(table))
            .push(if self.is_embedded() { " WHERE rowid" } else { " WHERE n" })
            .push_any(rows.iter().copied());
        self.exec(&sql).map(|_| ())
    }

    /// Returns the condition that a row has all words of a folded text, and a word that begins with the last one. It
    /// follows the row's `n`: ` IN (SELECT …)`. `None` if the text has no words, so that nothing can be searched for.
    /// `further` may append conditions on the column that it receives, which contains the `n` of a row. `newest` limits
    /// the number of rows to those with the largest `n`.
    ///
    /// ```ignore
    /// if let Some(found) = conn.search("r12", &fold(text), None, |_, _| {})? {
    ///     sql.push(" AND r.n").append(&found);
    /// }
    /// ```
    pub fn search(
        &mut self,
        table: &str,
        folded: &str,
        newest: Option<i64>,
        further: impl FnOnce(&mut Sql, &'static str),
    ) -> Result<Option<Sql>, StoreError> {
        let index = index_of(table);
        let words = search_words(folded);
        if words.is_empty() {
            return Ok(None);
        }
        let mut sql = Sql::new(" IN (SELECT ");
        if self.is_embedded() {
            let mut parts = Vec::with_capacity(words.len());
            for SearchWord { word, is_beginning } in &words {
                parts.push(if *is_beginning { self.beginning_with(table, word)? } else { format!("\"{word}\"") });
            }
            let query = parts.join(" AND ");
            sql.push("rowid FROM ").name(&index).push(" WHERE ").name(&index).push(" MATCH ").bind(query);
            // The sign makes SQLite compare a list of numbers with the rows found. Otherwise FTS5 would repeat its
            // search for each number: a minute for a thousand numbers and a frequent word.
            further(&mut sql, "+rowid");
        } else {
            let part = |search_word: &SearchWord| {
                format!("'{}'{}", search_word.word, if search_word.is_beginning { ":*" } else { "" })
            };
            let query = words.iter().map(part).collect::<Vec<_>>().join(" & ");
            sql.push("n FROM ").name(&index).push(" WHERE words @@ CAST(CAST(").bind(query);
            sql.push(" AS TEXT) AS TSQUERY)");
            further(&mut sql, "n");
        }
        if let Some(most) = newest {
            sql.push(if self.is_embedded() { " ORDER BY rowid DESC" } else { " ORDER BY n DESC" }).page(most, 0);
        }
        sql.push(")");
        Ok(Some(sql))
    }

    /// Returns the part of a query of FTS5 for words with this beginning. FTS5 needs several times as long for a
    /// beginning as for the words themselves, so few words are named.
    fn beginning_with(&mut self, table: &str, beginning: &str) -> Result<String, StoreError> {
        let mut sql = Sql::new("SELECT v.term FROM ");
        sql.name(&terms_of(table)).push(" v WHERE v.term >= $1 AND v.term < $2 LIMIT 1");
        let mut named = vec![format!("\"{beginning}\"")];
        let mut last = beginning.to_owned();
        let end = format!("{beginning}\u{10ffff}");
        while named.len() <= MAX_NAMED_WORDS {
            // The smallest text after all words equal to `last`.
            let next = sql.clone().arg(format!("{last}\u{1}")).arg(end.clone());
            match self.query_optional(&next, |row| Ok(row.text(0)?.to_owned()))? {
                Some(word) => last = word,
                None => return Ok(format!("({})", named.join(" OR "))),
            }
            named.push(format!("\"{last}\""));
        }
        Ok(format!("\"{beginning}\"*"))
    }
}

/// The name of the table of all words of a word index, on SQLite.
fn terms_of(table: &str) -> String {
    format!("{table}_terms")
}

fn index_of(table: &str) -> String {
    format!("{table}_words")
}
