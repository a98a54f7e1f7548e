//! The form of a template, which its tasks share: the texts for the completer, and the use of the answer. It never changes, and
//! exists as long as the template or one of its tasks.

use kit::ids::ClassId;
use serde_json::Value as Json;
use store::{Conn, Sql, StoreError};

/// The type of a task whose answer is stored with the task.
pub const TT_FORM: &str = "tt_form";
/// The type of a task whose answer changes a record.
pub const TT_UPDATE: &str = "tt_object_record_update";

pub struct TemplateForm {
    pub task_type: String,
    /// The class whose records are changed.
    pub class: Option<ClassId>,
    pub prompt: String,
    pub allow_comment: bool,
    pub approval_required: bool,
    pub approval_conditions: Vec<String>,
    /// JSON.
    pub configuration: String,
}

impl TemplateForm {
    pub fn load(conn: &mut Conn, id: i64) -> Result<TemplateForm, StoreError> {
        let sql = Sql::new(
            "SELECT task_type, class_id, prompt, allow_comment, approval_required, approval_conditions, configuration \
             FROM task_forms WHERE id = $1",
        );
        conn.query_one(&sql.arg(id), |row| {
            Ok(TemplateForm {
                task_type: row.text(0)?.to_owned(),
                class: row.opt_id(1)?,
                prompt: row.text(2)?.to_owned(),
                allow_comment: row.flag(3)?,
                approval_required: row.flag(4)?,
                approval_conditions: row.json(5)?,
                configuration: row.text(6)?.to_owned(),
            })
        })
    }

    /// Returns whether the answer changes a record.
    pub fn is_update(&self) -> bool {
        self.task_type == TT_UPDATE
    }

    /// The aliases of the fields that an update changes, in the order of the configuration.
    pub fn aliases(&self) -> Result<Vec<String>, StoreError> {
        let configuration: Json = serde_json::from_str(&self.configuration)
            .map_err(|_| StoreError::internal("a stored configuration cannot be parsed"))?;
        let aliases = configuration["fields"].as_array().into_iter().flatten();
        Ok(aliases.filter_map(|alias| alias.as_str().map(str::to_owned)).collect())
    }
}

/// Deletes those of these forms that neither a template nor a task uses.
pub fn remove_unused(conn: &mut Conn, forms: Vec<i64>) -> Result<(), StoreError> {
    // The lock serializes transactions that release the same form, so the second one sees the deletions of the first.
    let mut lock = Sql::new("SELECT 1 FROM task_forms WHERE id");
    conn.for_each_row(lock.push_any(forms.clone()).push(" ORDER BY id FOR UPDATE"), |_| Ok(()))?;
    let mut sql = Sql::new("DELETE FROM task_forms WHERE id");
    sql.push_any(forms).push(" AND NOT EXISTS (SELECT 1 FROM task_templates t WHERE t.form = task_forms.id)");
    sql.push(" AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.form = task_forms.id)");
    conn.exec(&sql).map(drop)
}
