//! Functions of texts that statements may call on both engines: `nfc(text)`, `without_marks(text)` and
//! `natural_key(text)`. Each returns NULL for NULL. SQLite calls the functions of [`resource::fold`]; the schemas of
//! PostgreSQL contain equivalent functions.

use std::borrow::Cow;
use std::fmt::Write;

use resource::fold::{marks, natural_key, nfc, without_marks};

use crate::conn::{Conn, ConnectionKind};
use crate::error::StoreError;

/// A function of a text.
pub(crate) type TextFunction = fn(&str) -> Cow<'_, str>;

/// The functions with their names in SQL.
pub(crate) const ALL: [(&str, TextFunction); 3] =
    [("nfc", nfc), ("without_marks", without_marks), ("natural_key", natural_key)];

/// The functions in the dialect of PostgreSQL. A text with an equal number of bytes and characters needs no
/// normalization. This applies to ASCII texts, and to any text in a database of another encoding than UTF-8.
const OF_POSTGRESQL: &str = "
    CREATE OR REPLACE FUNCTION nfc(t TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        SELECT CASE WHEN octet_length(t) = length(t) THEN t ELSE normalize(t, NFC) END
    $$;
    CREATE OR REPLACE FUNCTION without_marks(t TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        SELECT CASE WHEN octet_length(t) = length(t) THEN t
            ELSE normalize(regexp_replace(normalize(t, NFD), '[{marks}]', '', 'g'), NFC) END
    $$;
    CREATE OR REPLACE FUNCTION natural_key(t TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        SELECT CASE WHEN t !~ '[0-9]' THEN t ELSE (
            SELECT string_agg(part[1] || CASE
                WHEN part[2] = '' THEN ''
                WHEN length(digits) <= 8 THEN length(digits)::TEXT || digits
                ELSE '9' || chr(length(digits)) || digits END, '' ORDER BY place)
            FROM (
                SELECT part, place, ltrim(part[2], '0') AS digits
                FROM regexp_matches(t, '([^0-9]*)([0-9]*)', 'g') WITH ORDINALITY AS matches(part, place)
            ) parts
        ) END
    $$;";

impl Conn {
    /// Creates the functions of texts in the schema of a build. Every connection to SQLite has them.
    pub fn create_text_functions(&mut self) -> Result<(), StoreError> {
        let ConnectionKind::Postgres(connection) = &mut self.connection else { return Ok(()) };
        let mut ranges = String::new();
        for (first, last) in marks() {
            // Writing to a string cannot fail.
            let _ = write!(ranges, "\\U{:08x}-\\U{:08x}", u32::from(first), u32::from(last));
        }
        connection.control(&OF_POSTGRESQL.replace("{marks}", &ranges))
    }
}
