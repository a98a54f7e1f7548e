//! Follows changes of classes. A template gets a warning if its merge fields do not exist any more. The warning is removed when
//! they exist again.

use super::merge_fields::{LeavingParts, Meanings, MergeField};
use kit::ids::{ClassId, DocumentTemplateId, FieldId};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use records::record_values::changing_class;
use resource::{Checked, fold};
use store::{Conn, Sql};

pub const ON_FIELD_CREATED: Reaction = Reaction {
    resource: "object_class_fields",
    when: ReactionTime::Created,
    run: |request, conn, field| {
        let classes = classes_of_field(conn, FieldId::new(field))?;
        look_again(request, conn, &classes, LeavingParts::default())
    },
};

pub const ON_FIELD_LEAVING: Reaction = Reaction {
    resource: "object_class_fields",
    when: ReactionTime::Leaving,
    run: |request, conn, field| {
        let field = FieldId::new(field);
        let classes = classes_of_field(conn, field)?;
        look_again(request, conn, &classes, LeavingParts { class: None, field: Some(field) })
    },
};

/// Returns the classes whose templates can name a field: its own class, and the class to which it relates.
fn classes_of_field(conn: &mut Conn, field: FieldId) -> Result<Vec<ClassId>, Refusal> {
    let sql = Sql::new("SELECT class_id, related_object_class FROM object_class_fields WHERE id = $1").arg(field);
    let classes = conn.query_optional(&sql, |row| Ok([Some(row.id(0)?), row.opt_id(1)?]))?;
    Ok(classes.into_iter().flatten().flatten().collect())
}

/// Writes the warnings of templates that can name one of these classes again. `leaving` is what is about to be deleted.
pub fn look_again(
    request: &Request,
    conn: &mut Conn,
    classes: &[ClassId],
    leaving: LeavingParts,
) -> Result<(), Refusal> {
    let mut sql =
        Sql::new("SELECT t.id, t.class_id, t.merge_fields, t.warning FROM document_templates t WHERE (t.class_id");
    sql.push_any(classes.iter().copied())
        .push(" OR t.id IN (SELECT c.template FROM document_template_classes c WHERE c.class_id");
    sql.push_any(classes.iter().copied()).push(")) ORDER BY t.id FOR UPDATE");
    let templates =
        conn.query_all(&sql, |row| Ok((row.id(0)?, row.id(1)?, MergeField::read(row, 2)?, row.text(3)?.to_owned())))?;
    for (template, class, fields, before) in
        templates.into_iter().filter(|(_, class, ..)| leaving.class != Some(*class))
    {
        let Some(class) = changing_class(conn, class)? else { continue };
        let mut meanings = Meanings::for_removal(request, class, leaving);
        let warning = warning(conn, &mut meanings, &fields)?;
        let named = meanings.classes(conn, &fields)?;
        if warning != before {
            let sql = Sql::new("UPDATE document_templates SET warning = $1, warning_fold = $2 WHERE id = $3");
            conn.exec(&sql.arg(&warning).arg(fold(&warning)).arg(template))?;
        }
        set_classes(conn, template, named)?;
    }
    Ok(())
}

/// Returns the warning for merge fields. Empty if all of them exist.
pub fn warning(conn: &mut Conn, meanings: &mut Meanings<'_>, fields: &[MergeField]) -> Result<String, Refusal> {
    let mut broken: Vec<String> = Vec::new();
    for field in fields {
        let name = field.name();
        if matches!(meanings.meaning(conn, field)?, Checked::Invalid(_)) && !broken.contains(&name) {
            broken.push(name);
        }
    }
    Ok(if broken.is_empty() { String::new() } else { format!("Merge fields {} do not exist.", broken.join(", ")) })
}

/// Stores the other classes that the merge fields of a template name.
pub fn set_classes(
    conn: &mut Conn,
    template: DocumentTemplateId,
    classes: impl IntoIterator<Item = ClassId>,
) -> Result<(), store::StoreError> {
    conn.exec(&Sql::new("DELETE FROM document_template_classes WHERE template = $1").arg(template))?;
    for class in classes {
        let sql = Sql::new("INSERT INTO document_template_classes(template, class_id) VALUES ($1, $2)");
        conn.exec(&sql.arg(template).arg(class))?;
    }
    Ok(())
}
