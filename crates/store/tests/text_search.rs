//! Tests the word index: both engines find the same rows.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[macro_use]
mod common;

use common::Fixture;
use store::{BorrowedArgument, Conn, Database, Options, Sql, StoreError, Words, each_word};

on_both! {
    all_words_and_the_beginning_of_the_last,
    words_are_set_and_deleted,
    a_beginning_of_few_and_of_many_words,
    a_text_without_words_is_no_condition,
    a_search_among_other_conditions,
    a_search_among_some_rows_and_for_the_newest,
    as_many_words_as_a_record_may_have,
    a_search_for_thousands_of_words,
}

/// The rows of `r12` and their texts, folded.
const TEXTS: [(i64, &str); 10] = [
    (1, "alice meets bob in the main strasse"),
    (2, "alicia's e-mail: zoë@example.com"),
    (3, "i\u{307}stanbul, as İ is folded"),
    (4, "cafe\u{301} and café are two texts"),
    (5, "東京都 渋谷区, 漢字"),
    (6, "👍🏽 emoji 👩\u{200d}👩\u{200d}👧 only between 🇩🇪 words"),
    (7, "zz z41 quoted \"words\" 'here' or and not near(x) a:b c* d^ e\\ f|g !h & (i)"),
    (8, "1234567890123456789012345678901234567890123456789012345678901234567890 is long"),
    (9, "𝒜𝒷 ａｂｃ ١٢٣ ②"),
    (10, ""),
];

fn words_of(text: &str) -> Words {
    Words::of_texts(&[text])
}

/// Returns a database with the texts, inserted in parts.
async fn with_texts(fixture: &mut Fixture) -> Database {
    let database = fixture.database().await;
    let make = |conn: &mut Conn| {
        conn.create_table("r12", &[])?;
        conn.create_word_index("r12")?;
        let ids: Vec<_> = TEXTS.iter().map(|(n, _)| [BorrowedArgument::Int(100 + n)]).collect();
        conn.insert_rows("r12", &["id"], &ids, "")?;
        for some in TEXTS.chunks(4) {
            conn.set_words("r12", &some.iter().map(|(n, text)| (*n, words_of(text))).collect::<Vec<_>>())?;
        }
        Ok::<_, StoreError>(())
    };
    database.alter(make).await.unwrap();
    database
}

/// Returns the rows that a search finds, in a long read and in a short one.
async fn search_rows(database: &Database, folded: &str) -> Vec<i64> {
    let folded = folded.to_owned();
    let find = move |conn: &mut Conn| {
        let mut sql = Sql::new("SELECT n FROM r12");
        if let Some(condition) = conn.search("r12", &folded, None, |_, _| {})? {
            sql.push(" WHERE n").append(&condition);
        }
        sql.push(" ORDER BY n");
        conn.query_all(&sql, |row| row.int(0))
    };
    let short = database.read_short::<_, StoreError>(find.clone()).await.unwrap();
    assert_eq!(database.read::<_, StoreError>(find).await.unwrap(), short);
    short
}

async fn all_words_and_the_beginning_of_the_last(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    let none: &[i64] = &[];
    for (text, rows) in [
        ("alice", &[1][..]),
        ("ali", &[1, 2]),
        ("ali bob", none),
        ("bob ali", &[1]),
        ("alice alice bob bo", &[1]),
        ("strass", &[1]),
        ("zoë", &[2]),
        ("zo", &[2]),
        ("zoe", &[2]),
        ("zöe", &[2]),
        ("mail@example", &[2]),
        ("bob, in 'the' street", none),
        ("i\u{307}stan", &[3]),
        ("istanbul", &[3]),
        ("café", &[4]),
        // Marks are ignored, in the text and in the search.
        ("cafe\u{301}", &[4]),
        ("cafe", &[4]),
        ("東京", &[5]),
        ("京都", &[5]),
        ("京 字", &[5]),
        ("都渋", none),
        ("渋谷区 漢", &[5]),
        ("漢字 東京", &[5]),
        ("漢 東京", &[5]),
        ("emoji 👍🏽 words", &[6]),
        ("zz", &[7]),
        ("z41", &[7]),
        ("\"words\" here", &[7]),
        ("words", &[6, 7]),
        ("here or", &[7]),
        ("or and not near", &[7]),
        ("x) a:b c* d^ e\\ f|g !h & (i", &[7]),
        ("12345678901234567890123456789012345678901234567890123456789012345678909999 is", &[8]),
        ("1234567890123456789012345678901234567890123456789012345678901234", &[8]),
        ("123456789012345678901234567890123456789012345678901234567890123x", none),
        ("is 1234567890", &[8]),
        ("𝒜", &[9]),
        ("ａｂ", &[9]),
        ("١٢", &[9]),
        ("②", &[9]),
        ("nowhere", none),
    ] {
        assert_eq!(search_rows(&database, text).await, rows, "{text}");
    }
}

async fn words_are_set_and_deleted(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    let set = |conn: &mut Conn| {
        let rows = [(1, "carol"), (5, "carol"), (1, "carol dave")];
        conn.set_words("r12", &rows.map(|(n, text)| (n, words_of(text))))?;
        conn.set_words("r12", &[(6, Words::default())])?;
        conn.set_words("r12", &[])
    };
    assert_eq!(database.write(set).await, Ok::<_, StoreError>(()));
    assert_eq!(search_rows(&database, "carol").await, [1, 5]);
    assert_eq!(search_rows(&database, "dave").await, [1]);
    assert_eq!(search_rows(&database, "alice").await, [0; 0]);
    assert_eq!(search_rows(&database, "emoji").await, [0; 0]);
    let delete = |conn: &mut Conn| conn.delete_words("r12", &[1, 99]).and_then(|()| conn.delete_words("r12", &[]));
    assert_eq!(database.write(delete).await, Ok::<_, StoreError>(()));
    assert_eq!(search_rows(&database, "carol").await, [5]);
    // Rolled-back words have no effect.
    let undone =
        |conn: &mut Conn| conn.set_words("r12", &[(2, words_of("erin"))]).and(Err::<(), _>(StoreError::NotFound));
    assert_eq!(database.write(undone).await, Err(StoreError::NotFound));
    assert_eq!(search_rows(&database, "erin").await, [0; 0]);
    assert_eq!(search_rows(&database, "zoë").await, [2]);

    let drop = |conn: &mut Conn| conn.drop_word_index("r12").and_then(|()| conn.drop_word_index("r12"));
    assert_eq!(database.alter(drop).await, Ok::<_, StoreError>(()));
    let gone = database.write(|conn| conn.delete_words("r12", &[5])).await;
    assert!(matches!(gone, Err(StoreError::SchemaChanged(_))), "{gone:?}");
}

async fn a_beginning_of_few_and_of_many_words(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    let first = TEXTS.len() as i64 + 1;
    let set = move |conn: &mut Conn| {
        let rows: Vec<(i64, Words)> = (0..40).map(|at| (first + at, words_of(&format!("even number{at}")))).collect();
        conn.insert_rows(
            "r12",
            &["id"],
            &rows.iter().map(|(n, _)| [BorrowedArgument::Int(100 + n)]).collect::<Vec<_>>(),
            "",
        )?;
        conn.set_words("r12", &rows)
    };
    database.write::<_, StoreError>(set).await.unwrap();
    assert_eq!(search_rows(&database, "number7").await, [first + 7]);
    assert_eq!(search_rows(&database, "number3").await.len(), 11);
    assert_eq!(search_rows(&database, "even number").await.len(), 40);
    assert_eq!(search_rows(&database, "number4").await, [first + 4]);
}

async fn a_text_without_words_is_no_condition(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    for text in ["", " ", "👍🏽", "'\"*&|!():\\", "\u{301}"] {
        assert_eq!(search_rows(&database, text).await.len(), TEXTS.len(), "{text:?}");
    }
}

async fn a_search_among_other_conditions(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    let find = |conn: &mut Conn| {
        let mut sql = Sql::new("SELECT r.id FROM r12 r WHERE r.id > $1").arg(101);
        sql.push(" AND r.n").append(&conn.search("r12", "ali", None, |_, _| {})?.ok_or(StoreError::NotFound)?);
        sql.push(" AND r.id").push_any([101, 102, 103]);
        conn.query_all(&sql, |row| row.int(0))
    };
    assert_eq!(database.read(find).await, Ok(vec![102]));
}

async fn a_search_among_some_rows_and_for_the_newest(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    let set = move |conn: &mut Conn| {
        let rows: Vec<(i64, Words)> = (11..=10_000).map(|n| (n, words_of(&format!("all row{n}")))).collect();
        conn.insert_rows(
            "r12",
            &["id"],
            &rows.iter().map(|(n, _)| [BorrowedArgument::Int(100 + n)]).collect::<Vec<_>>(),
            "",
        )?;
        conn.set_words("r12", &rows)
    };
    database.write::<_, StoreError>(set).await.unwrap();
    let find = |text: &'static str, newest, among: Vec<i64>| {
        database.read::<_, StoreError>(move |conn: &mut Conn| {
            let among = among.clone();
            let further = |sql: &mut Sql, n| {
                sql.push(" AND ").push(n).push_any(among);
            };
            let found = conn.search("r12", text, newest, further)?.ok_or(StoreError::NotFound)?;
            let mut sql = Sql::new("SELECT r.n FROM r12 r WHERE r.n");
            conn.query_all(sql.append(&found).push(" ORDER BY r.n"), |row| row.int(0))
        })
    };
    let began = std::time::Instant::now();
    let odd: Vec<i64> = (1..4_000).step_by(2).collect();
    assert_eq!(find("row", None, odd.clone()).await.unwrap(), odd[5..]);
    assert_eq!(find("all row", Some(3), odd.clone()).await.unwrap(), [3_995, 3_997, 3_999]);
    assert_eq!(find("row39", Some(2), odd.clone()).await.unwrap(), [3_997, 3_999]);
    assert_eq!(find("all", None, Vec::new()).await.unwrap(), [0; 0]);
    assert_eq!(find("all", None, vec![7_000]).await.unwrap(), [7_000]);
    // A separate search for each of the rows would be several times slower.
    assert!(began.elapsed() < std::time::Duration::from_secs(3), "{:?}", began.elapsed());
}

async fn as_many_words_as_a_record_may_have(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    // The words are short ones, and some of 256 bytes.
    let short: String = (0..30_000).map(|at| format!("w{at} ")).collect();
    let long: String = (0..9_000).map(|at| format!("{at:05}{} ", "𝒜".repeat(70))).collect();
    let (short, long) = (words_of(&short), words_of(&long));
    assert_eq!(short.iter().count(), 20_000);
    assert_eq!(long.iter().count(), 1_000_000 / (5 + 59 * 4));
    let set = move |conn: &mut Conn| {
        let rows: Vec<_> = (1..=6).map(|n| (n, if n < 4 { short.clone() } else { long.clone() })).collect();
        conn.set_words("r12", &rows)
    };
    assert_eq!(database.write(set).await, Ok::<_, StoreError>(()));
    assert_eq!(search_rows(&database, "w0 w19999").await, [1, 2, 3]);
    assert_eq!(search_rows(&database, "w20000").await, [0; 0]);
    assert_eq!(search_rows(&database, "00000𝒜 00001𝒜").await, [0; 0]);
    assert_eq!(search_rows(&database, &format!("{:05}{} 00007𝒜", 4148, "𝒜".repeat(70))).await, [4, 5, 6]);
}

async fn a_search_for_thousands_of_words(fixture: &mut Fixture) {
    let database = with_texts(fixture).await;
    let text: String = (0..5_000).map(|at| format!("w{at} ")).collect();
    assert_eq!(search_rows(&database, &text).await, [0; 0]);
    let words = words_of(&text);
    database.write(move |conn| conn.set_words("r12", &[(3, words.clone())])).await.map_err(|e: StoreError| e).unwrap();
    assert_eq!(search_rows(&database, &text).await, [3]);
    assert_eq!(search_rows(&database, &"w1 ".repeat(5_000)).await, [3]);
}

#[test]
fn texts_are_split_into_words() {
    let words = |text: &str| {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.to_owned()));
        words
    };
    assert_eq!(words("a1_b2,,c-3 ß ø e\u{301}e "), ["a1", "b2", "c", "3", "ß", "ø", "ee"]);
    assert_eq!(words(&"é".repeat(70)), ["e".repeat(64)]);
    assert_eq!(words(" - 👍🏽"), [""; 0]);
    assert_eq!(words("私は東京に"), ["私は", "は東", "東京", "京に", "に"]);
    assert_eq!(words("tシャツ2024年"), ["t", "シャ", "ャツ", "ツ", "2024", "年"]);
    // Thai, Lao and Khmer lose the marks above and below their letters.
    assert_eq!(words("สวัสดี"), ["สว", "วส", "สด", "ด"]);
    assert_eq!(words("ລາວ"), ["ລາ", "າວ", "ວ"]);
    assert_eq!(words("ភាសា"), ["ភស", "ស"]);
}
