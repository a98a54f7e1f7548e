//! The form that a task shows to its completer: the form of its template, and for updates the current values of the record.

use crate::task_templates::form::TemplateForm;
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::Class;
use records::single_records::{RecordAccess, RecordValues, load_values};
use resource::json::JsonWriter;
use resource::options::{self, BriefEntries};
use std::sync::Arc;
use store::Conn;

/// The JSON of a form. Fields may have very many options, so their entries are written one at a time.
pub struct FormJson {
    /// The JSON before the entries of the fields. Without fields, the whole JSON.
    before: Vec<u8>,
    fields: Option<FormFields>,
}

struct FormFields {
    class: Arc<Class>,
    /// The existing fields that an update changes.
    aliases: Vec<String>,
    /// The JSON behind the entries.
    after: Vec<u8>,
    /// True for an agent, which gets only the first options of each field.
    is_brief: bool,
}

/// Reads the form of a task with a record. A caller who may view the task sees the values of the record in its form, whether
/// or not the caller may view the record.
pub fn read(
    request: &Request,
    conn: &mut Conn,
    form: TemplateForm,
    record: Option<RecordAccess>,
) -> Result<FormJson, Refusal> {
    let mut out = JsonWriter::with_capacity(512 + form.configuration.len());
    out.raw("{").name("task_type").text(&form.task_type).name("prompt").text(&form.prompt);
    out.name("allow_comment").bool(form.allow_comment).name("approval_required").bool(form.approval_required);
    out.name("approval_conditions").raw("[");
    for condition in &form.approval_conditions {
        out.comma().raw("{").name("name").text(condition).raw("}");
    }
    out.raw("]").name("configuration").raw(&form.configuration);
    let fields = match record.filter(|_| form.is_update()) {
        Some(record) => Some(FormFields::load(request, conn, &form, record)?),
        None => None,
    };
    match fields {
        Some(_) => out.name("fields").raw("["),
        None => out.raw("}"),
    };
    Ok(FormJson { before: out.into_bytes(), fields })
}

impl FormFields {
    /// Loads the fields that an update changes, and their values in the record. A field that was deleted is left out.
    fn load(
        request: &Request,
        conn: &mut Conn,
        form: &TemplateForm,
        record: RecordAccess,
    ) -> Result<FormFields, Refusal> {
        let mut aliases = form.aliases()?;
        aliases.retain(|alias| record.class.field(alias).is_some());
        let RecordValues { values, labels } = load_values(request, conn, &record, &aliases)?;
        let mut out = JsonWriter::default();
        out.raw("]").name("values").raw_bytes(&values).name("labels").raw("{").raw_bytes(&labels).raw("}}");
        let is_brief = request.caller()?.agent.is_some();
        Ok(FormFields { class: record.class, aliases, after: out.into_bytes(), is_brief })
    }
}

impl FormJson {
    /// Returns whether the JSON is too long for memory as a whole.
    pub fn is_long(&self) -> bool {
        self.fields.as_ref().is_some_and(|fields| fields.class.has_many_options() && !fields.is_brief)
    }

    /// Returns the pieces of the JSON in sequence.
    pub fn pieces(self) -> impl Iterator<Item = Vec<u8>> + Send {
        let FormJson { before, fields } = self;
        let (source, after) = match fields {
            Some(FormFields { class, aliases, after, is_brief }) => (Some((class, aliases, is_brief)), Some(after)),
            None => (None, None),
        };
        let entries = source.into_iter().flat_map(|(class, aliases, is_brief)| {
            let mut brief = is_brief.then(BriefEntries::default);
            aliases.into_iter().enumerate().filter_map(move |(n, alias)| {
                let field = class.resource_field(&alias)?;
                let entry = match &mut brief {
                    Some(brief) => brief.entry(field).to_string(),
                    None => options::declared_schema(field).to_string(),
                };
                Some(if n > 0 { format!(",{entry}") } else { entry }.into_bytes())
            })
        });
        std::iter::once(before).chain(entries).chain(after)
    }
}
