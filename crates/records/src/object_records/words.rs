//! Searches words in the records of callers who may view few records of a class. The duration of an index search depends on all
//! records with the words, which is a timing side channel. So the texts of the visible records are read instead.

use crate::bitmap::Bitmap;
use crate::classes::Class;
use crate::visible_records::{VisibleRecords, number};
use kit::rows::sql::{OWN, fold_column, push_joins};
use memchr::memmem::Finder;
use resource::Field;
use std::ops::ControlFlow;
use store::{Conn, SearchWord, Sql, StoreError, Words, each_word, search_words};

/// The number of records that one statement reads.
const AT_A_TIME: usize = 1_000;
/// The maximum size in bytes of the texts to read. Larger searches use the index.
const MAX_READ: usize = 16 * 1024 * 1024;
/// The maximum number of words of such a search.
const MAX_SOUGHT: usize = 32;
/// Below this size in bytes, all words of a record count. A word takes at least two bytes, so there are fewer words than the
/// maximum.
const ALL_COUNT: usize = 40_000;

/// Returns the visible records that contain all words of a folded text, like [`Conn::search`]. Returns `None` if there are no
/// words, the caller may view many records, or the texts are too large. Then the index is used.
pub fn records_with_words(
    conn: &mut Conn,
    class: &Class,
    visible: &VisibleRecords,
    folded: &str,
) -> Result<Option<Bitmap>, StoreError> {
    let Some(numbers) = visible.numbers().filter(|_| !visible.is_tested()) else { return Ok(None) };
    let sought_words: Vec<Sought> = search_words(folded).into_iter().map(Sought::from).collect();
    if sought_words.is_empty() || sought_words.len() > MAX_SOUGHT {
        return Ok(None);
    }
    let texts: Vec<&Field> = class.record.fields.iter().filter(|field| field.is_text()).collect();
    let (mut matches, mut read_bytes, mut row_texts) = (Vec::new(), 0, RowTexts::default());
    for chunk in numbers.numbers().chunks(AT_A_TIME) {
        let mut sql = Sql::new("SELECT t.n");
        texts.iter().for_each(|field| fold_column(sql.push(", "), OWN, field));
        sql.push(" FROM ").name(&class.table()).push(" t");
        push_joins(&mut sql, OWN, &class.record, texts.iter().copied());
        let ended = conn.for_each_row_until(sql.push(" WHERE t.n").push_any(chunk.iter().copied()), |row| {
            row_texts.clear();
            for column in 1..=texts.len() {
                row_texts.add(row.opt_text_bytes(column)?.unwrap_or_default());
            }
            read_bytes += row_texts.joined.len();
            if row_texts.has_all(&sought_words)? {
                matches.push(number(row.int(0)?)?);
            }
            Ok(if read_bytes > MAX_READ { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if ended.is_break() {
            return Ok(None);
        }
    }
    Ok(Some(Bitmap::from_numbers(matches)))
}

/// A word of the search, with a finder for its characters. The finder excludes most texts before they are split into words.
struct Sought {
    word: SearchWord,
    characters: Finder<'static>,
}

impl From<SearchWord> for Sought {
    fn from(word: SearchWord) -> Self {
        let characters = Finder::new(&word.word).into_owned();
        Self { word, characters }
    }
}

impl Sought {
    fn is(&self, word: &str) -> bool {
        if self.word.is_beginning { word.starts_with(&self.word.word) } else { word == self.word.word }
    }
}

/// The texts of a record, joined with line feeds, which no word contains.
#[derive(Default)]
struct RowTexts {
    joined: Vec<u8>,
}

impl RowTexts {
    fn clear(&mut self) {
        self.joined.clear();
    }

    /// Adds the bytes of a text in UTF-8.
    fn add(&mut self, text: &[u8]) {
        self.joined.extend_from_slice(text);
        self.joined.push(b'\n');
    }

    /// Returns whether the texts contain all of these words.
    fn has_all(&self, sought_words: &[Sought]) -> Result<bool, StoreError> {
        // Texts that are not ASCII can contain words in another form.
        let has_characters = |word: &Sought| word.characters.find(&self.joined).is_some();
        if !sought_words.iter().all(has_characters) && self.joined.is_ascii() {
            return Ok(false);
        }
        let texts = str::from_utf8(&self.joined).map_err(|_| StoreError::internal("a stored text is not UTF-8"))?;
        let mut missing: Vec<&Sought> = sought_words.iter().collect();
        let mut look_at = |word: &str| missing.retain(|sought_word| !sought_word.is(word));
        if texts.len() < ALL_COUNT {
            texts.split('\n').for_each(|text| each_word(text, &mut look_at));
        } else {
            Words::of_texts(&texts.split('\n').collect::<Vec<_>>()).iter().for_each(&mut look_at);
        }
        Ok(missing.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(text: &str) -> Vec<Sought> {
        search_words(text).into_iter().map(Sought::from).collect()
    }

    fn has_all(texts: &[&str], sought: &[Sought]) -> bool {
        let mut row_texts = RowTexts::default();
        texts.iter().for_each(|text| row_texts.add(text.as_bytes()));
        row_texts.has_all(sought).unwrap()
    }

    #[test]
    fn all_words_must_be_there_the_last_one_as_a_beginning() {
        let texts = ["repair of a pump", "acme, inc. garcía", "東京都"];
        let matches = |text: &str| has_all(&texts, &sought(text));
        assert!(
            matches("acme")
                && matches("acme repair")
                && matches("pump pump rep")
                && matches("garcia inc")
                && matches("garcí")
        );
        assert!(!matches("rep acme") && !matches("acme other") && !matches("epair"));
        assert!(matches("京都") && matches("京 acme") && matches("都") && !matches("都京"));
        let long = "word ".repeat(20_000);
        let matches = |text: &str| has_all(&[&long, "acme"], &sought(text));
        assert!(matches("word acm") && !matches("word other"));
    }

    #[test]
    fn of_a_long_text_as_many_words_count_as_in_the_index() {
        let long_text: String = (0..20_000).map(|n| format!("w{n} ")).collect();
        let matches = |text: &str| has_all(&[&long_text, "last"], &sought(text));
        assert!(matches("w19999") && !matches("last"));
    }
}
