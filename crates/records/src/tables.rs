//! The tables of a class, which are created and changed while the server runs. They are `r12` for the class 12, `r12_1` and so on
//! for further fields, and the words of its texts.

use crate::classes::{ClassField, table, table_of};
use crate::field_type::FieldType;
use kit::ids::ClassId;
use kit::rows::sql::to_argument;
use resource::fold::normal_forms;
use resource::{Field, nfc};
use store::{Argument, BorrowedArgument, ColumnKind, Conn, Index, IndexKind, Sql, StoreError, TableColumn, TableLock};

/// Creates the tables of a new class.
pub fn create_class(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let name = table(class);
    let numbers =
        ["owner", "ownership", "owner_at", "owner_by", "created_at", "created_by", "modified_at", "modified_by"];
    conn.create_table(&name, &numbers.map(|name| TableColumn { name, kind: ColumnKind::Int }))?;
    let indexes = [("owner", "owner", IndexKind::Sorted), ("created", "created_at", IndexKind::SortedNotNull)];
    for (index, column, kind) in indexes {
        let index = format!("{name}_{index}");
        conn.create_index(&Index { name: &index, table: &name, columns: &[column], kind })?;
    }
    conn.create_word_index(&name)
}

/// Creates the tables of a class with its present fields, for rows of an archive. [`restore_indexes`] follows the rows.
///
/// # Errors
/// [`StoreError::Internal`] if a field cannot belong to these tables.
pub fn restore_class(conn: &mut Conn, class: ClassId, fields: &[ClassField]) -> Result<(), StoreError> {
    let is_sound = |field: &ClassField| field.id.get() > 0 && (0..MAX_TABLES).contains(&field.table_number);
    if class.get() < 1 || !fields.iter().all(is_sound) {
        return Err(StoreError::internal("a class or a field has a number that is not given"));
    }
    create_class(conn, class)?;
    let mut tables = vec![0];
    for field in fields {
        let is_first_in_table = !tables.contains(&field.table_number);
        tables.push(field.table_number);
        add_field(conn, class, field, is_first_in_table)?;
    }
    Ok(())
}

/// The maximum number of tables of a class. A class gets fewer, since its fields are limited.
const MAX_TABLES: i64 = 1_000;

/// Creates the indexes of a class's fields that exist according to the fields.
///
/// # Errors
/// [`StoreError::Unique`] if two records have the same value in a unique field.
pub fn restore_indexes(conn: &mut Conn, class: ClassId, fields: &[ClassField]) -> Result<(), StoreError> {
    for field in fields {
        if field.is_unique {
            let (name, column) = (field.unique_index(class), field.column());
            let kind =
                if field.is_unique_in_nfc && field.kind.is_text() { IndexKind::UniqueText } else { IndexKind::Unique };
            let table = table_of(class, field.table_number);
            conn.create_index(&Index { name: &name, table: &table, columns: &[&column], kind })?;
        }
        if field.is_indexed {
            with_index(class, field, |index| conn.create_index(index))?;
        }
    }
    Ok(())
}

/// Drops the tables of a class.
pub fn drop_class(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let sql = Sql::new("SELECT fields_made FROM object_classes WHERE id = $1").arg(class);
    let field_count = conn.query_one(&sql, |row| row.int(0))?;
    conn.drop_word_index(&table(class))?;
    for number in 1..=(field_count - 1).max(0) / crate::classes::FIELDS_IN_TABLE {
        conn.drop_table(&table_of(class, number))?;
    }
    conn.drop_table(&table(class))
}

/// Adds the columns of a new field, and its table if it is the first field in it. Existing records get the initial value of a
/// status, otherwise null.
pub fn add_field(
    conn: &mut Conn,
    class: ClassId,
    field: &ClassField,
    is_first_in_table: bool,
) -> Result<(), StoreError> {
    let (name, fold) = (field.column(), field.fold_column());
    let kind = match field.kind {
        FieldType::Integer | FieldType::Boolean | FieldType::Datetime | FieldType::User | FieldType::Relation => {
            ColumnKind::Int
        }
        FieldType::String | FieldType::Text | FieldType::Url | FieldType::Email | FieldType::Document => {
            ColumnKind::Text
        }
        FieldType::Decimal | FieldType::Date | FieldType::Enum | FieldType::Set | FieldType::Status => {
            ColumnKind::SortedText
        }
    };
    let mut columns = vec![TableColumn { name: &name, kind }];
    columns.extend(fold.as_deref().map(|name| TableColumn { name, kind: ColumnKind::SortedText }));
    let table = table_of(class, field.table_number);
    if let Some(initial) = field.initial.as_deref().filter(|_| field.kind == FieldType::Status) {
        return conn.add_filled_column(&table, &columns[0], initial);
    }
    match is_first_in_table && field.table_number > 0 {
        true => conn.create_extension_table(&table, &crate::classes::table(class), &columns)?,
        false => conn.add_columns(&table, &columns)?,
    }
    if field.kind == FieldType::Relation {
        // The index finds the children of a record.
        let index = format!("{}_children", field.index(class));
        conn.create_index(&Index { name: &index, table: &table, columns: &[&name], kind: IndexKind::Present })?;
    }
    Ok(())
}

/// Drops the columns of a field, with their indexes. Returns whether the database retains the columns with their values.
pub fn drop_field(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<bool, StoreError> {
    let columns = [Some(field.column()), field.fold_column()];
    let columns: Vec<&str> = columns.iter().flatten().map(String::as_str).collect();
    // The database does not know which column an index on an expression uses.
    drop_unique(conn, class, field)?;
    conn.drop_columns(&table_of(class, field.table_number), &columns)
}

/// Creates the index that makes a field unique.
///
/// # Errors
/// [`StoreError::Unique`] if two records have the same value.
pub fn make_unique(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    with_unique_index(class, field, |index| conn.create_index(index))?;
    set_unique_in_nfc(conn, field)
}

/// Makes a field of texts unique in form NFC that is unique by its stored texts, concurrently with other writes. For
/// [`store::Database::run_outside_transaction`]. [`replace_unique`] follows.
///
/// # Errors
/// [`StoreError::Unique`] if two records have the same text in different forms.
pub fn make_unique_in_nfc(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    let field = ClassField { is_unique_in_nfc: true, ..field.clone() };
    with_unique_index(class, &field, |index| conn.create_index_concurrently(index))
}

/// Drops the index on the stored texts of a field after its index on texts in form NFC exists.
pub fn replace_unique(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    conn.drop_index(&ClassField { is_unique_in_nfc: false, ..field.clone() }.unique_index(class))?;
    set_unique_in_nfc(conn, field)
}

fn with_unique_index<T>(class: ClassId, field: &ClassField, make: impl FnOnce(&Index<'_>) -> T) -> T {
    let (name, column, table) = (field.unique_index(class), field.column(), table_of(class, field.table_number));
    let kind = if field.kind.is_text() { IndexKind::UniqueText } else { IndexKind::Unique };
    make(&Index { name: &name, table: &table, columns: &[&column], kind })
}

fn set_unique_in_nfc(conn: &mut Conn, field: &ClassField) -> Result<(), StoreError> {
    if field.kind.is_text() {
        let sql = Sql::new("UPDATE object_class_fields SET unique_in_nfc = 1 WHERE id = $1").arg(field.id);
        conn.exec(&sql)?;
    }
    Ok(())
}

/// Removes the uniqueness of a field.
pub fn drop_unique(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    for is_unique_in_nfc in [false, true] {
        conn.drop_index(&ClassField { is_unique_in_nfc, ..field.clone() }.unique_index(class))?;
    }
    let sql = Sql::new("UPDATE object_class_fields SET unique_in_nfc = 0 WHERE id = $1").arg(field.id);
    conn.exec(&sql).map(|_| ())
}

/// The key by which values of a unique field are compared. The key of a text is its form NFC.
pub fn unique_key(declared: &Field, value: &resource::CheckedValue) -> Option<String> {
    match to_argument(declared, value) {
        Argument::Text(text) => Some(nfc(&text).into_owned()),
        Argument::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Appends the condition that the table `x` has one of these values in a unique field.
pub fn push_has_one_of(sql: &mut Sql, field: &ClassField, declared: &Field, values: &[&resource::CheckedValue]) {
    let is_text = field.kind.is_text();
    let mut args: Vec<Argument> = values.iter().map(|value| to_argument(declared, value)).collect();
    if is_text && field.is_unique_in_nfc {
        sql.push("nfc(x.").name(&field.column()).push(")");
    } else {
        sql.push("x.").name(&field.column());
    }
    if is_text {
        let forms = |arg: &Argument| match arg {
            Argument::Text(text) if field.is_unique_in_nfc => vec![nfc(text).into_owned()],
            // The index contains the stored texts. Nearly all of them are in one of the normal forms.
            Argument::Text(text) => normal_forms(text),
            _ => Vec::new(),
        };
        args = args.iter().flat_map(forms).map(Argument::from).collect();
    }
    sql.push(" IN (NULL");
    for arg in args {
        sql.push(", ").bind(arg);
    }
    sql.push(")");
}

/// Drops the index for filters and order of lists, if it exists.
pub fn drop_index(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    conn.drop_index(&field.index(class))
}

/// Creates the index for filters and order of lists, concurrently with other writes. For
/// [`store::Database::run_outside_transaction`].
pub fn make_index(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    with_index(class, field, |index| conn.create_index_concurrently(index))
}

fn with_index<T>(class: ClassId, field: &ClassField, make: impl FnOnce(&Index<'_>) -> T) -> T {
    let (name, table) = (field.index(class), table_of(class, field.table_number));
    let column = field.fold_column().unwrap_or_else(|| field.column());
    let kind = match field.table_number {
        0 if field.kind == FieldType::Status => IndexKind::SortedNotNull,
        0 => IndexKind::Sorted,
        _ => IndexKind::SortedExtension,
    };
    make(&Index { name: &name, table: &table, columns: &[&column], kind })
}

/// Returns whether a class has records. Its tables are locked, so that no record is created meanwhile.
pub fn has_records(conn: &mut Conn, class: ClassId) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM ");
    sql.name(&table(class)).push(" LIMIT 1");
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Returns whether a record has a value in a field.
pub fn has_values(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM ");
    sql.name(&table_of(class, field.table_number)).push(" x WHERE x.").name(&field.column());
    Ok(conn.query_optional(sql.push(" IS NOT NULL LIMIT 1"), |_| Ok(()))?.is_some())
}

/// Returns whether a record has a text of more than `most` characters in a field.
pub fn has_longer(conn: &mut Conn, class: ClassId, field: &ClassField, most: i64) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM ");
    sql.name(&table_of(class, field.table_number)).push(" x WHERE length(x.").name(&field.column());
    Ok(conn.query_optional(sql.push(") > ").bind(most).push(" LIMIT 1"), |_| Ok(()))?.is_some())
}

/// Prevents changes of a class's declaration until the end of a write to its records.
pub fn lock_for_write(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    conn.lock_table(&table(class), TableLock::Rows)
}

/// Blocks writers of records until the end of a change of their class.
pub fn lock_for_change(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    conn.lock_table(&table(class), TableLock::Declaration)
}

/// Inserts rows and returns the values that `suffix` selects, like [`Conn::insert_rows`].
pub fn insert(
    conn: &mut Conn,
    table: &str,
    columns: &[&str],
    rows: &[Vec<Argument>],
    suffix: &'static str,
) -> Result<Vec<i64>, StoreError> {
    let rows: Vec<Vec<BorrowedArgument<'_>>> =
        rows.iter().map(|row| row.iter().map(Argument::borrowed).collect()).collect();
    conn.insert_rows(table, columns, &rows, suffix)
}
