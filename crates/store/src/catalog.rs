//! The tables of a database as its engine lists them, for the move of a build into another database.

use crate::conn::Conn;
use crate::error::StoreError;
use crate::sql::Sql;

/// A table of the database. Indexes, views, virtual tables and their storage are not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    pub name: String,
    /// The columns in the order of their declaration.
    pub columns: Vec<ColumnInfo>,
    /// The columns of the primary key.
    pub key: Vec<String>,
    /// The tables to which its foreign keys refer.
    pub references: Vec<String>,
    /// The column whose values the database numbers without reuse.
    pub numbered: Option<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    pub name: String,
    pub kind: StoredKind,
    pub is_nullable: bool,
}

/// The type of the stored values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// BIGINT
    Int,
    /// TEXT
    Text,
    /// BLOB or BYTEA
    Blob,
    /// A type that only the engine itself uses.
    Other,
}

const SQLITE_TABLES: &str = "SELECT l.name, CASE WHEN s.sql LIKE '%AUTOINCREMENT%' THEN 1 ELSE 0 END \
    FROM pragma_table_list l JOIN sqlite_schema s ON s.name = l.name AND s.type = 'table' \
    WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY l.name";
const SQLITE_COLUMNS: &str = "SELECT name, lower(type), \"notnull\", pk FROM pragma_table_info($1) ORDER BY cid";
const SQLITE_REFERENCES: &str = "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list($1)";

const POSTGRES_TABLES: &str = "SELECT c.relname::text, \
    EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attidentity <> '' AND NOT a.attisdropped) \
    FROM pg_catalog.pg_class c WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = current_schema()) \
    AND c.relkind = 'r' AND c.relname <> 'schema_version' ORDER BY c.relname";
const POSTGRES_COLUMNS: &str = "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, NULL), a.attnotnull, \
    COALESCE((SELECT array_position(i.indkey::int2[], a.attnum) + 1 FROM pg_catalog.pg_index i \
    WHERE i.indrelid = a.attrelid AND i.indisprimary), 0), a.attidentity <> '' \
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped \
    ORDER BY a.attnum";
const POSTGRES_REFERENCES: &str = "SELECT DISTINCT r.relname::text FROM pg_catalog.pg_constraint k \
    JOIN pg_catalog.pg_class r ON r.oid = k.confrelid WHERE k.contype = 'f' AND k.conrelid = to_regclass($1)";

/// A column and the facts about it that [`TableInfo`] stores elsewhere.
struct ListedColumn {
    info: ColumnInfo,
    /// Its place in the primary key, from 1 on; 0 outside of the key.
    key_place: i64,
    is_numbered: bool,
}

/// Names of tables are checked as by [`Sql::name`], which panics.
impl Conn {
    /// Lists the tables of the database, ordered by name.
    pub fn tables(&mut self) -> Result<Vec<TableInfo>, StoreError> {
        let sql = Sql::new(if self.is_embedded() { SQLITE_TABLES } else { POSTGRES_TABLES });
        let names = self.query_all(&sql, |row| Ok((row.text(0)?.to_owned(), row.flag(1)?)))?;
        names.into_iter().map(|(name, is_numbered)| self.table_info(name, is_numbered)).collect()
    }

    fn table_info(&mut self, name: String, is_numbered: bool) -> Result<TableInfo, StoreError> {
        let is_sqlite = self.is_embedded();
        let columns = Sql::new(if is_sqlite { SQLITE_COLUMNS } else { POSTGRES_COLUMNS }).arg(&name);
        let listed = self.query_all(&columns, |row| {
            let kind = match row.text(1)? {
                "bigint" | "integer" => StoredKind::Int,
                "text" => StoredKind::Text,
                "blob" | "bytea" => StoredKind::Blob,
                _ => StoredKind::Other,
            };
            let info = ColumnInfo { name: row.text(0)?.to_owned(), kind, is_nullable: !row.flag(2)? };
            let key_place = row.int(3)?;
            // On SQLite the only numbered column is the primary key.
            let is_numbered = is_numbered && if is_sqlite { key_place == 1 } else { row.flag(4)? };
            Ok(ListedColumn { info, key_place, is_numbered })
        })?;
        let references = Sql::new(if is_sqlite { SQLITE_REFERENCES } else { POSTGRES_REFERENCES }).arg(&name);
        let references = self.query_all(&references, |row| Ok(row.text(0)?.to_owned()))?;
        let numbered = listed.iter().find(|column| column.is_numbered).map(|column| column.info.name.clone());
        let mut key: Vec<&ListedColumn> = listed.iter().filter(|column| column.key_place > 0).collect();
        key.sort_by_key(|column| column.key_place);
        let key = key.iter().map(|column| column.info.name.clone()).collect();
        let columns = listed.into_iter().map(|column| column.info).collect();
        Ok(TableInfo { name, columns, key, references, numbered })
    }

    /// Returns the last number that the database has given in a numbered column; 0 before the first one.
    pub fn last_number(&mut self, table: &str, column: &str) -> Result<i64, StoreError> {
        let sql = match self.is_embedded() {
            true => Sql::new("SELECT seq FROM sqlite_sequence WHERE name = $1").arg(table),
            false => Sql::new("SELECT pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass)")
                .arg(table)
                .arg(column),
        };
        Ok(self.query_optional(&sql, |row| row.opt_int(0))?.flatten().unwrap_or(0))
    }

    /// Continues the numbers of a column after `last`, and after the largest stored one.
    pub fn continue_numbers(&mut self, table: &str, column: &str, last: i64) -> Result<(), StoreError> {
        let mut largest = Sql::new("SELECT max(");
        largest.name(column).push(") FROM ").name(table);
        let stored = self.query_one(&largest, |row| row.opt_int(0))?.unwrap_or(0);
        let last = last.max(stored).max(self.last_number(table, column)?);
        if last < 1 {
            return Ok(());
        }
        if self.is_embedded() {
            let update = Sql::new("UPDATE sqlite_sequence SET seq = $1 WHERE name = $2").arg(last).arg(table);
            if self.exec(&update)? == 0 {
                let insert = Sql::new("INSERT INTO sqlite_sequence(name, seq) VALUES ($1, $2)");
                self.exec(&insert.arg(table).arg(last))?;
            }
            return Ok(());
        }
        let sql = Sql::new("SELECT setval(pg_get_serial_sequence($1, $2)::regclass, $3)");
        self.query_one(&sql.arg(table).arg(column).arg(last), |row| row.int(0)).map(drop)
    }

    /// Checks the structure of the database and its foreign keys. Returns a line for each damage, at most 100. PostgreSQL
    /// checks its foreign keys itself, and has tools for its files.
    pub fn damages(&mut self) -> Result<Vec<String>, StoreError> {
        if !self.is_embedded() {
            return Ok(Vec::new());
        }
        let structure = Sql::new("SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'");
        let mut lines = self.query_all(&structure, |row| Ok(row.text(0)?.to_owned()))?;
        let references = Sql::new("SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1 LIMIT 100");
        lines.extend(self.query_all(&references, |row| {
            Ok(format!("{}: {} rows refer to rows that do not exist", row.text(0)?, row.int(1)?))
        })?);
        Ok(lines)
    }
}
