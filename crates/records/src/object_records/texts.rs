//! Updates the words and folded copies of records' texts, some records at a time.

use crate::classes::{Class, ClassField, table_of};
use kit::rows::sql::{OWN, fold_column, push_joins, value};
use resource::fold;
use store::{Conn, Row, Sql, StoreError, Words};

/// Updates the words of some records in the text search, from the record after the number `after`. Returns the number of the last
/// record, or `None` if there was none.
pub fn words_of_page(conn: &mut Conn, class: &Class, after: i64, most: i64) -> Result<Option<i64>, StoreError> {
    let mut sql = Sql::new("SELECT t.n FROM ");
    sql.name(&class.table()).push(" t WHERE t.n > ").bind(after).push(" ORDER BY t.n LIMIT ").bind(most);
    let numbers = conn.query_all(&sql, |row| row.int(0))?;
    let Some(last) = numbers.last().copied() else { return Ok(None) };
    let mut sql = Sql::new("SELECT t.n FROM ");
    sql.name(&class.table()).push(" t WHERE t.n").push_any(numbers.clone()).push(" ORDER BY t.id FOR UPDATE");
    conn.for_each_row(&sql, |_| Ok(()))?;
    let mut words = Vec::with_capacity(numbers.len());
    each_text_of(conn, class, &numbers, |row, texts| {
        let mut folded = Vec::with_capacity(texts.len());
        for at in 0..texts.len() {
            folded.extend(row.opt_text(TEXT_COLUMNS + 2 * at)?.map(fold));
        }
        words.push((row.int(0)?, Words::of_texts(&folded)));
        Ok(())
    })?;
    conn.set_words(&class.table(), &words)?;
    Ok(Some(last))
}

/// The number of columns before the texts in the rows of [`each_text_of`]: number, id, and time of the last change.
const TEXT_COLUMNS: usize = 3;

/// Reads the texts of records with these numbers. The folded copy follows each text.
fn each_text_of(
    conn: &mut Conn,
    class: &Class,
    numbers: &[i64],
    mut on_row: impl FnMut(&Row<'_>, &[&ClassField]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let [_, declared, _] = class.record.parts();
    let texts = || class.fields.iter().zip(declared).filter(|(field, _)| field.kind.is_text());
    let fields: Vec<&ClassField> = texts().map(|(field, _)| field).collect();
    let mut sql = Sql::new("SELECT t.n, t.id, t.modified_at");
    for (_, field) in texts() {
        value(sql.push(", "), OWN, field, 0);
        fold_column(sql.push(", "), OWN, field);
    }
    sql.push(" FROM ").name(&class.table()).push(" t");
    push_joins(&mut sql, OWN, &class.record, texts().map(|(_, field)| field));
    conn.for_each_row(sql.push(" WHERE t.n").push_any(numbers.iter().copied()), |row| on_row(row, &fields))
}

/// Updates the folded copies and words of some records to the current folding, from the record after the number `after`. Records
/// whose last change is before `since` are skipped. Records of ASCII texts are skipped too, because all foldings of them are
/// equal. Returns the number of the last record, or `None` if there was none.
pub fn refold_page(
    conn: &mut Conn,
    class: &Class,
    after: i64,
    most: i64,
    changed_since: i64,
) -> Result<Option<i64>, StoreError> {
    let mut sql = Sql::new("SELECT t.n, t.modified_at FROM ");
    sql.name(&class.table()).push(" t WHERE t.n > ").bind(after).push(" ORDER BY t.n LIMIT ").bind(most);
    let page = conn.query_all(&sql, |row| Ok((row.int(0)?, row.int(1)?)))?;
    let Some((last, _)) = page.last().copied() else { return Ok(None) };
    let changed: Vec<i64> = page.into_iter().filter(|(_, at)| *at >= changed_since).map(|(n, _)| n).collect();
    let mut other_forms = Vec::new();
    each_text_of(conn, class, &changed, |row, texts| {
        let is_ascii = |at: usize| Ok(row.opt_text(TEXT_COLUMNS + 2 * at)?.is_none_or(str::is_ascii));
        let are_ascii: Result<Vec<bool>, StoreError> = (0..texts.len()).map(is_ascii).collect();
        if are_ascii?.contains(&false) {
            other_forms.push(row.int(0)?);
        }
        Ok(())
    })?;
    let mut sql = Sql::new("SELECT t.n FROM ");
    sql.name(&class.table()).push(" t WHERE t.n").push_any(other_forms.clone()).push(" ORDER BY t.id FOR UPDATE");
    conn.for_each_row(&sql, |_| Ok(()))?;
    let (mut words, mut copies) = (Vec::new(), Vec::new());
    each_text_of(conn, class, &other_forms, |row, texts| {
        let mut all_folded = Vec::with_capacity(texts.len());
        for (at, field) in texts.iter().enumerate() {
            let at = TEXT_COLUMNS + 2 * at;
            let (Some(text), Some(column)) = (row.opt_text(at)?, field.fold_column()) else { continue };
            let folded = fold(text);
            if row.opt_text(at + 1)? != Some(folded.as_str()) {
                copies.push((row.int(1)?, field.table_number, column, folded.clone()));
            }
            all_folded.push(folded);
        }
        words.push((row.int(0)?, Words::of_texts(&all_folded)));
        Ok(())
    })?;
    for (id, table, column, folded) in copies {
        let mut sql = Sql::new("UPDATE ");
        sql.name(&table_of(class.id, table)).push(" SET ").name(&column);
        conn.exec(sql.push(" = ").bind(folded).push(" WHERE id = ").bind(id))?;
    }
    conn.set_words(&class.table(), &words)?;
    Ok(Some(last))
}
