//! The meaning of a template's tags for a class: the fields and records that they name, and the tags that do not exist
//! (`docs/reference/document-templates.md`).

use crate::merge::syntax::PASS_NUMBER;
use crate::merge::{TagKind, TemplateTag};
use kit::ids::{ClassId, DocumentTemplateId, FieldId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, ClassField};
use records::field_type::FieldType;
use records::record_values::{changing_class, class_of_id};
use records::rights;
use resource::Checked;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use store::{Conn, Row, Sql, StoreError};

/// A tag as it is stored with its template.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeField {
    pub kind: TagKind,
    pub path: Vec<String>,
    /// The paths of the loops around it, from the outside.
    pub within: Vec<Vec<String>>,
}

impl From<&TemplateTag> for MergeField {
    fn from(tag: &TemplateTag) -> MergeField {
        MergeField { kind: tag.kind, path: tag.path.clone(), within: tag.within.clone() }
    }
}

const KINDS: [(TagKind, &str); 4] = [
    (TagKind::Value, "value"),
    (TagKind::Loop, "loop"),
    (TagKind::Condition, "condition"),
    (TagKind::Absence, "absence"),
];
/// Separates the loops around a tag. Names are never empty. Versions that support only one loop read several loops as an unknown
/// one.
const BETWEEN_LOOPS: &str = "";
/// The values of each record beside its fields. Aliases of fields differ from these names.
const OF_EACH_RECORD: [&str; 3] = ["id", "created_at", "modified_at"];

impl MergeField {
    /// Returns the name in messages.
    pub fn name(&self) -> String {
        self.path.join(".")
    }

    /// Returns the tags of a template without repetitions, as JSON.
    pub fn to_json(fields: &[MergeField]) -> Json {
        let kind = |kind: TagKind| KINDS.iter().find(|(candidate, _)| *candidate == kind).map(|(_, name)| *name);
        let path_of_loops = |field: &MergeField| {
            let between = [BETWEEN_LOOPS.to_owned()];
            (!field.within.is_empty()).then(|| field.within.join(&between[..]))
        };
        fields.iter().map(|field| json!([kind(field.kind), field.path, path_of_loops(field)])).collect()
    }

    /// Reads a column with the output of [`MergeField::to_json`].
    pub fn read(row: &Row<'_>, column: usize) -> Result<Vec<MergeField>, StoreError> {
        let stored: Vec<(String, Vec<String>, Option<Vec<String>>)> = row.json(column)?;
        let field = |(name, path, within): (String, Vec<String>, Option<Vec<String>>)| {
            let kind = KINDS.iter().find(|(_, kind_name)| *kind_name == name).map(|(kind, _)| *kind)?;
            let within = within.unwrap_or_default();
            let within = within.split(|name| name == BETWEEN_LOOPS).filter(|path| !path.is_empty());
            let within = within.map(<[String]>::to_vec).collect();
            Some(MergeField { kind, path, within })
        };
        Ok(stored.into_iter().filter_map(field).collect())
    }

    /// Returns the tags of a template, each once.
    pub fn distinct_tags(tags: &[TemplateTag]) -> Vec<MergeField> {
        let mut before = HashSet::new();
        let first = tags.iter().filter(|tag| before.insert((tag.kind, &tag.path, &tag.within)));
        first.map(MergeField::from).collect()
    }
}

/// The origin of a value, in the record or, in a loop, in the child.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueOrigin {
    Field(String),
    /// A field of the record that a relation names.
    Parent {
        relation: String,
        class: ClassId,
        field: String,
    },
    Owner,
}

/// The meaning of a tag.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// A value of the record at `level`: 0 is the template's record, and the children of the loops around the tag count from 1 on
    /// the outside.
    Value { level: usize, of: ValueOrigin },
    /// The day of the generation.
    Today,
    /// The e-mail address of the company's administrator.
    CompanyAddress,
    /// The number of the pass of the loop around it.
    PassNumber,
    /// The children of a class that refer to the record, or to the child of the loop around it, by a relation.
    Children { class: ClassId, relation: String },
}

/// The reason for which a tag has no meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum InvalidTag {
    /// The name does not exist, or the caller may not view its target.
    Unknown,
    /// It names a class that is not related to the one around it.
    Unrelated { class: ClassId, around: ClassId },
}

/// A class or a field that is about to be deleted.
#[derive(Clone, Copy, Default)]
pub struct LeavingParts {
    pub class: Option<ClassId>,
    pub field: Option<FieldId>,
}

/// The meaning of a tag for a class, or the reason why it has none.
pub type TagMeaning = Checked<Meaning, InvalidTag>;

/// Finds the meaning of tags for a class.
pub struct Meanings<'a> {
    request: &'a Request,
    class: Arc<Class>,
    /// True if only classes count that the caller may view.
    as_caller: bool,
    leaving: LeavingParts,
    known: HashMap<ClassId, Option<Arc<Class>>>,
    /// The meanings of loops, by the class around them and their path.
    loops: HashMap<(ClassId, Vec<String>), TagMeaning>,
}

impl<'a> Meanings<'a> {
    /// Creates the meanings for the caller, who may view only some classes.
    pub fn for_caller(request: &'a Request, class: Arc<Class>) -> Meanings<'a> {
        let (known, loops) = (HashMap::new(), HashMap::new());
        Meanings { request, class, as_caller: true, leaving: LeavingParts::default(), known, loops }
    }

    /// Creates the meanings without regard to a caller, for the deletion of this class or this field.
    pub fn for_removal(request: &'a Request, class: Arc<Class>, leaving: LeavingParts) -> Meanings<'a> {
        Meanings { as_caller: false, leaving, ..Meanings::for_caller(request, class) }
    }

    /// Returns the other classes that these tags name.
    pub fn classes(&mut self, conn: &mut Conn, fields: &[MergeField]) -> Result<BTreeSet<ClassId>, Refusal> {
        let mut classes = BTreeSet::new();
        for field in fields {
            if let Checked::Valid(
                Meaning::Value { of: ValueOrigin::Parent { class, .. }, .. } | Meaning::Children { class, .. },
            ) = self.meaning(conn, field)?
            {
                classes.insert(class);
            }
            // The label of a related record is shown too.
            let related = self.related_by_label(conn, field)?;
            classes.extend(related);
        }
        classes.remove(&self.class.id);
        Ok(classes)
    }

    /// Returns the class of the related record whose label a tag shows.
    pub fn related_by_label(&mut self, conn: &mut Conn, field: &MergeField) -> Result<Option<ClassId>, Refusal> {
        let Checked::Valid(Meaning::Value { level, of: origin }) = self.meaning(conn, field)? else { return Ok(None) };
        let (class, alias) = match origin {
            ValueOrigin::Field(alias) => (self.enclosing_classes(conn, &field.within)?.get(level).cloned(), alias),
            ValueOrigin::Parent { class, field, .. } => (self.class(conn, class)?, field),
            ValueOrigin::Owner => return Ok(None),
        };
        Ok(class.and_then(|class| class.field(&alias).and_then(|field| field.related_object_class)))
    }

    /// Returns the class whose field a tag of this meaning names, or over whose records it loops. `None` if the meaning has no
    /// class or is unknown.
    pub fn class_named(
        &mut self,
        conn: &mut Conn,
        field: &MergeField,
        meaning: &TagMeaning,
    ) -> Result<Option<ClassId>, Refusal> {
        Ok(match meaning {
            Checked::Valid(Meaning::Value { level, of: ValueOrigin::Field(_) }) => {
                self.enclosing_classes(conn, &field.within)?.get(*level).map(|class| class.id)
            }
            Checked::Valid(
                Meaning::Value { of: ValueOrigin::Parent { class, .. }, .. } | Meaning::Children { class, .. },
            )
            | Checked::Invalid(InvalidTag::Unrelated { class, .. }) => Some(*class),
            Checked::Valid(
                Meaning::Value { of: ValueOrigin::Owner, .. }
                | Meaning::Today
                | Meaning::CompanyAddress
                | Meaning::PassNumber,
            )
            | Checked::Invalid(InvalidTag::Unknown) => None,
        })
    }

    /// Returns the meaning of a tag.
    pub fn meaning(&mut self, conn: &mut Conn, field: &MergeField) -> Result<TagMeaning, Refusal> {
        match field.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["today"] => return Ok(Checked::Valid(Meaning::Today)),
            ["company", "admin_email_address"] => return Ok(Checked::Valid(Meaning::CompanyAddress)),
            [PASS_NUMBER] => return Ok(Checked::Valid(Meaning::PassNumber)),
            _ => {}
        }
        let classes = self.enclosing_classes(conn, &field.within)?;
        if field.kind == TagKind::Loop {
            return match classes.get(field.within.len()) {
                Some(class) => self.meaning_of_loop(conn, class, &field.path),
                None => Ok(Checked::Invalid(InvalidTag::Unknown)),
            };
        }
        // The innermost class has precedence.
        for (level, class) in classes.iter().enumerate().rev() {
            if let Some(origin) = self.resolve_path(conn, class, &field.path)? {
                return Ok(Checked::Valid(Meaning::Value { level, of: origin }));
            }
        }
        Ok(Checked::Invalid(InvalidTag::Unknown))
    }

    /// Returns the classes whose records are available inside loops: the template's class, then those of the loops from the
    /// outside. Stops at the first loop without a meaning.
    fn enclosing_classes(&mut self, conn: &mut Conn, loop_paths: &[Vec<String>]) -> Result<Vec<Arc<Class>>, Refusal> {
        let mut classes = vec![self.class.clone()];
        for path in loop_paths {
            let Some(outer_class) = classes.last().cloned() else { break };
            let Checked::Valid(Meaning::Children { class, .. }) = self.meaning_of_loop(conn, &outer_class, path)?
            else {
                break;
            };
            let Some(class) = self.class(conn, class)? else { break };
            classes.push(class);
        }
        Ok(classes)
    }

    fn resolve_path(
        &mut self,
        conn: &mut Conn,
        class: &Class,
        path: &[String],
    ) -> Result<Option<ValueOrigin>, Refusal> {
        match path {
            [alias] => Ok(self.field(class, alias).map(ValueOrigin::Field)),
            [owner, name] if owner == "owner" && name == "full_name" => Ok(Some(ValueOrigin::Owner)),
            [relation, alias] => {
                let is_there = |field: &&ClassField| self.leaving.field != Some(field.id);
                let relation_field = class.field(relation).filter(is_there);
                let Some(related) = relation_field.and_then(|field| field.related_object_class) else {
                    return Ok(None);
                };
                let Some(parent) = self.class(conn, related)? else { return Ok(None) };
                let field = self.field(&parent, alias);
                Ok(field.map(|field| ValueOrigin::Parent { relation: relation.clone(), class: related, field }))
            }
            _ => Ok(None),
        }
    }

    /// Returns the alias of a field that exists and is not about to be deleted, or of a value of each record.
    fn field(&self, class: &Class, alias: &str) -> Option<String> {
        let field = class.field(alias).filter(|field| self.leaving.field != Some(field.id));
        field.map(|field| field.alias.clone()).or_else(|| OF_EACH_RECORD.contains(&alias).then(|| alias.to_owned()))
    }

    fn meaning_of_loop(
        &mut self,
        conn: &mut Conn,
        outer_class: &Class,
        path: &[String],
    ) -> Result<TagMeaning, Refusal> {
        let key = (outer_class.id, path.to_vec());
        if let Some(meaning) = self.loops.get(&key) {
            return Ok(meaning.clone());
        }
        let meaning = self.read_meaning_of_loop(conn, outer_class, path)?;
        self.loops.insert(key, meaning.clone());
        Ok(meaning)
    }

    fn read_meaning_of_loop(
        &mut self,
        conn: &mut Conn,
        outer_class: &Class,
        path: &[String],
    ) -> Result<TagMeaning, Refusal> {
        let unknown = Checked::Invalid(InvalidTag::Unknown);
        let Some(alias) = path.first() else { return Ok(unknown) };
        let sql = Sql::new("SELECT id FROM object_classes WHERE alias = $1").arg(alias);
        let Some(id) = conn.query_optional(&sql, |row| row.id(0))? else { return Ok(unknown) };
        let Some(class) = self.class(conn, id)? else { return Ok(unknown) };
        let points_here = |field: &&ClassField| {
            field.kind == FieldType::Relation
                && field.related_object_class == Some(outer_class.id)
                && self.leaving.field != Some(field.id)
        };
        let relations: Vec<&ClassField> = class.fields.iter().filter(points_here).collect();
        let relation = match (path, &relations[..]) {
            (_, []) => {
                // A parent is related, but does not have children here.
                let is_parent = outer_class.fields.iter().any(|field| field.related_object_class == Some(id));
                let unrelated = Checked::Invalid(InvalidTag::Unrelated { class: id, around: outer_class.id });
                return Ok(if is_parent { unknown } else { unrelated });
            }
            ([_], [relation]) => Some(relation),
            ([_, alias], _) => relations.iter().find(|relation| relation.alias == *alias),
            _ => None,
        };
        Ok(match relation {
            Some(relation) => Checked::Valid(Meaning::Children { class: id, relation: relation.alias.clone() }),
            None => unknown,
        })
    }

    fn class(&mut self, conn: &mut Conn, id: ClassId) -> Result<Option<Arc<Class>>, Refusal> {
        if id == self.class.id {
            return Ok(Some(self.class.clone()));
        }
        if let Some(class) = self.known.get(&id) {
            return Ok(class.clone());
        }
        let may_view = self.leaving.class != Some(id) && (!self.as_caller || may_view(self.request, conn, id)?);
        let class = match may_view {
            true if self.as_caller => class_of_id(self.request, conn, id)?,
            // A class of the template is about to change.
            true => changing_class(conn, id)?,
            false => None,
        };
        self.known.insert(id, class.clone());
        Ok(class)
    }
}

/// Returns whether the caller may view a class.
pub fn may_view(request: &Request, conn: &mut Conn, class: ClassId) -> Result<bool, Refusal> {
    Ok(rights::load_class_actions(conn, request.caller()?, class)?.is_some_and(|rights| rights.sees_class()))
}

/// Returns whether the caller may view all other classes that the merge fields of a template name.
pub fn may_view_classes(request: &Request, conn: &mut Conn, template: DocumentTemplateId) -> Result<bool, Refusal> {
    let named = Sql::new("SELECT c.class_id FROM document_template_classes c WHERE c.template = $1").arg(template);
    Ok(hidden_classes(request, conn, &named)?.is_empty())
}

/// Returns the classes that the caller may not view, of the classes whose ids a statement selects.
pub fn hidden_classes(request: &Request, conn: &mut Conn, named: &Sql) -> Result<Vec<ClassId>, Refusal> {
    let mut sql = Sql::new("SELECT t.id FROM object_classes t WHERE t.id IN (");
    sql.append(named).push(") AND NOT (").append(&rights::visible_classes(request.caller()?)).push(")");
    Ok(conn.query_all(&sql, |row| row.id(0))?)
}
