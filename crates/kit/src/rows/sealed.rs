//! Secret fields of rows. They are encrypted and bound to their place by a random key of the row.

use crate::build::Build;
use crate::request::Request;
use crate::secret::{Context, Keys};
use resource::{Changes, CheckedValue, ColumnSource, FieldKey, Resource, SealedColumns};
use store::{Argument, Row, StoreError};
use web::clock::random_token;

/// Returns the columns of the secrets that changes set; for a new row, the columns of all its secrets.
pub(super) fn columns(
    request: &Request,
    resource: &Resource,
    changes: &Changes,
    is_new: bool,
) -> Vec<(&'static str, Argument)> {
    let mut columns = Vec::new();
    for field in &resource.fields {
        let ColumnSource::Sealed(sealed) = &field.source else { continue };
        match changes.value(&field.name) {
            Some(CheckedValue::Text(secret)) => {
                let row = random_token();
                let place = sealing_context(&request.build, resource, sealed, &row);
                columns.push((sealed.column, request.app.keys.seal(&place, secret.as_bytes()).into()));
                columns.push((sealed.row_key, row.into()));
            }
            Some(_) => columns.push((sealed.column, Argument::Null)),
            None if is_new => columns.push((sealed.row_key, "".into())),
            None => {}
        }
    }
    columns
}

/// Decrypts the secret of a row; `None` if there is none. The column of the row's key is at `at`, and
/// the column of the secret follows it.
pub fn open(
    keys: &Keys,
    build: &Build,
    resource: &Resource,
    secret: &FieldKey<String>,
    row: &Row,
    at: usize,
) -> Result<Option<String>, StoreError> {
    let Some(ColumnSource::Sealed(sealed)) = resource.field(secret.name()).map(|field| &field.source) else {
        return Err(StoreError::internal(format_args!("{} is not sealed", secret.name())));
    };
    let Some(stored) = row.opt_text(at + 1)? else { return Ok(None) };
    let plain = keys.open(&sealing_context(build, resource, sealed, row.text(at)?), stored);
    Ok(plain.and_then(|plain| String::from_utf8(plain).ok()))
}

/// Returns whether a stored row has a secret.
pub fn has_secret(stored: &Changes, secret: &FieldKey<String>) -> bool {
    matches!(stored.value(secret.name()), Some(CheckedValue::Text(_)))
}

fn sealing_context<'a>(build: &'a Build, resource: &'a Resource, sealed: &SealedColumns, row: &'a str) -> Context<'a> {
    Context { build: &build.uid, table: &resource.table, column: sealed.column, row }
}
