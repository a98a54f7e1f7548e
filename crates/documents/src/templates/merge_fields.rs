//! What the tags of a template mean to a class: which fields of which records they name, and which of them do not exist
//! (`docs/reference/document-templates.md`).

use crate::merge::{Kind, Tag};
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, ClassField};
use records::field_type::FieldType;
use records::record_values::{changing_class, class_of_id};
use records::rights;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use store::{Conn, Sql};

/// A tag as it is stored with its template.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeField {
    pub kind: Kind,
    pub path: Vec<String>,
    /// The path of the loop around it.
    pub within: Option<Vec<String>>,
}

impl From<&Tag> for MergeField {
    fn from(tag: &Tag) -> MergeField {
        MergeField { kind: tag.kind, path: tag.path.clone(), within: tag.within.clone() }
    }
}

const KINDS: [(Kind, &str); 3] = [(Kind::Value, "value"), (Kind::Loop, "loop"), (Kind::Condition, "condition")];

impl MergeField {
    /// What it is called in messages.
    pub fn name(&self) -> String {
        self.path.join(".")
    }

    /// The tags of a template without repetitions, as JSON.
    pub fn to_json(all: &[MergeField]) -> Json {
        let kind = |kind: Kind| KINDS.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
        all.iter().map(|field| json!([kind(field.kind), field.path, field.within])).collect()
    }

    /// Reads what [`MergeField::to_json`] wrote.
    pub fn from_json(text: &str) -> Vec<MergeField> {
        let stored: Vec<(String, Vec<String>, Option<Vec<String>>)> = serde_json::from_str(text).unwrap_or_default();
        let field = |(name, path, within): (String, Vec<String>, Option<Vec<String>>)| {
            let kind = KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)?;
            Some(MergeField { kind, path, within })
        };
        stored.into_iter().filter_map(field).collect()
    }

    /// The tags of a template, each once.
    pub fn of_tags(tags: &[Tag]) -> Vec<MergeField> {
        let mut all: Vec<MergeField> = Vec::new();
        for field in tags.iter().map(MergeField::from) {
            if !all.contains(&field) {
                all.push(field);
            }
        }
        all
    }
}

/// What a value is taken from, of the record or, in a loop, of the child.
#[derive(Clone, Debug, PartialEq)]
pub enum Of {
    Field(String),
    /// A field of the record that a relation names.
    Parent {
        relation: String,
        class: i64,
        field: String,
    },
    Owner,
}

/// What a tag means.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// A value of the record.
    Record(Of),
    /// A value of the child of the loop around it.
    Child(Of),
    /// The day on which the document is made.
    Today,
    /// The e-mail address of the company's administrator.
    CompanyAddress,
    /// The children of a class that name the record over a relation.
    Children { class: i64, relation: String },
}

/// Why a tag means nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaningless {
    /// Nothing has the name, or nothing that the caller may view.
    Unknown,
    /// It names a class that is not related to the template's.
    Unrelated(i64),
}

/// Looks up what tags mean to a class.
pub struct Meanings<'a> {
    request: &'a Request,
    class: Arc<Class>,
    /// Whether only classes count that the caller may view.
    as_caller: bool,
    /// A class and a field that are being deleted.
    leaving: [Option<i64>; 2],
    known: HashMap<i64, Option<Arc<Class>>>,
}

impl<'a> Meanings<'a> {
    /// Those for the caller, who may view only some classes.
    pub fn of_caller(request: &'a Request, class: Arc<Class>) -> Meanings<'a> {
        Meanings { request, class, as_caller: true, leaving: [None; 2], known: HashMap::new() }
    }

    /// Those for everybody, when this class or this field is about to be deleted.
    pub fn without(request: &'a Request, class: Arc<Class>, leaving: [Option<i64>; 2]) -> Meanings<'a> {
        Meanings { request, class, as_caller: false, leaving, known: HashMap::new() }
    }

    /// The other classes that these tags name.
    pub fn classes(&mut self, conn: &mut Conn, fields: &[MergeField]) -> Result<BTreeSet<i64>, Refusal> {
        let mut classes = BTreeSet::new();
        for field in fields {
            match self.meaning(conn, field)? {
                Ok(Meaning::Record(Of::Parent { class, .. }) | Meaning::Child(Of::Parent { class, .. })) => {
                    classes.insert(class);
                }
                Ok(Meaning::Children { class, .. }) => {
                    classes.insert(class);
                }
                _ => {}
            }
            // The label of a related record is shown, too.
            let related = self.related_by_label(conn, field)?;
            classes.extend(related);
        }
        classes.remove(&self.class.id);
        Ok(classes)
    }

    /// The class of the related record whose label a tag shows.
    pub fn related_by_label(&mut self, conn: &mut Conn, field: &MergeField) -> Result<Option<i64>, Refusal> {
        let (class, alias) = match self.meaning(conn, field)? {
            Ok(Meaning::Record(Of::Field(alias))) => (self.class.clone(), alias),
            Ok(Meaning::Child(Of::Field(alias))) => match self.children(conn, field.within.as_deref())? {
                Some((class, _)) => (class, alias),
                None => return Ok(None),
            },
            Ok(Meaning::Record(Of::Parent { class, field, .. }) | Meaning::Child(Of::Parent { class, field, .. })) => {
                match self.class(conn, class)? {
                    Some(class) => (class, field),
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        Ok(class.field(&alias).and_then(|field| field.related_object_class))
    }

    /// The class whose field a tag of this meaning names, or over whose records it loops; `None` where that is of no class, or
    /// unknown.
    pub fn class_named(
        &mut self,
        conn: &mut Conn,
        field: &MergeField,
        meaning: &Result<Meaning, Meaningless>,
    ) -> Result<Option<i64>, Refusal> {
        Ok(match meaning {
            Ok(Meaning::Record(Of::Field(_))) => Some(self.class.id),
            Ok(Meaning::Child(Of::Field(_))) => {
                self.children(conn, field.within.as_deref())?.map(|(class, _)| class.id)
            }
            Ok(
                Meaning::Record(Of::Parent { class, .. })
                | Meaning::Child(Of::Parent { class, .. })
                | Meaning::Children { class, .. },
            )
            | Err(Meaningless::Unrelated(class)) => Some(*class),
            Ok(Meaning::Record(Of::Owner) | Meaning::Child(Of::Owner) | Meaning::Today | Meaning::CompanyAddress)
            | Err(Meaningless::Unknown) => None,
        })
    }

    /// What a tag means.
    pub fn meaning(&mut self, conn: &mut Conn, field: &MergeField) -> Result<Result<Meaning, Meaningless>, Refusal> {
        if field.kind == Kind::Loop {
            return self.meaning_of_loop(conn, &field.path);
        }
        match field.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["today"] => return Ok(Ok(Meaning::Today)),
            ["company", "admin_email_address"] => return Ok(Ok(Meaning::CompanyAddress)),
            _ => {}
        }
        if let Some((child, _)) = self.children(conn, field.within.as_deref())?
            && let Some(of) = self.of(conn, &child, &field.path)?
        {
            return Ok(Ok(Meaning::Child(of)));
        }
        let class = self.class.clone();
        Ok(self.of(conn, &class, &field.path)?.map(Meaning::Record).ok_or(Meaningless::Unknown))
    }

    fn of(&mut self, conn: &mut Conn, class: &Class, path: &[String]) -> Result<Option<Of>, Refusal> {
        match path {
            [alias] => Ok(self.field(class, alias).map(|field| Of::Field(field.alias.clone()))),
            [owner, name] if owner == "owner" && name == "full_name" => Ok(Some(Of::Owner)),
            [relation, alias] => {
                let Some(related) = self.field(class, relation).and_then(|field| field.related_object_class) else {
                    return Ok(None);
                };
                let Some(parent) = self.class(conn, related)? else { return Ok(None) };
                let field = self.field(&parent, alias).map(|field| field.alias.clone());
                Ok(field.map(|field| Of::Parent { relation: relation.clone(), class: related, field }))
            }
            _ => Ok(None),
        }
    }

    /// A field that is there and stays.
    fn field<'c>(&self, class: &'c Class, alias: &str) -> Option<&'c ClassField> {
        class.field(alias).filter(|field| self.leaving[1] != Some(field.id))
    }

    fn meaning_of_loop(&mut self, conn: &mut Conn, path: &[String]) -> Result<Result<Meaning, Meaningless>, Refusal> {
        let Some(alias) = path.first() else { return Ok(Err(Meaningless::Unknown)) };
        let sql = Sql::new("SELECT id FROM object_classes WHERE alias = $1").arg(alias);
        let Some(id) = conn.opt(&sql, |row| row.int(0))? else { return Ok(Err(Meaningless::Unknown)) };
        let Some(class) = self.class(conn, id)? else { return Ok(Err(Meaningless::Unknown)) };
        let own = self.class.id;
        let points_here = |field: &&ClassField| {
            field.kind == FieldType::Relation
                && field.related_object_class == Some(own)
                && self.leaving[1] != Some(field.id)
        };
        let relations: Vec<&ClassField> = class.fields.iter().filter(points_here).collect();
        let relation = match (path, &relations[..]) {
            (_, []) => {
                // A parent is related, but has no children here.
                let is_parent = self.class.fields.iter().any(|field| field.related_object_class == Some(id));
                let why = if is_parent { Meaningless::Unknown } else { Meaningless::Unrelated(id) };
                return Ok(Err(why));
            }
            ([_], [relation]) => Some(relation),
            ([_, alias], _) => relations.iter().find(|relation| relation.alias == *alias),
            _ => None,
        };
        let meaning = relation.map(|relation| Meaning::Children { class: id, relation: relation.alias.clone() });
        Ok(meaning.ok_or(Meaningless::Unknown))
    }

    /// The class of the children of a loop, and the alias of the relation over which they are found.
    fn children(&mut self, conn: &mut Conn, path: Option<&[String]>) -> Result<Option<(Arc<Class>, String)>, Refusal> {
        let Some(path) = path else { return Ok(None) };
        match self.meaning_of_loop(conn, path)? {
            Ok(Meaning::Children { class, relation }) => Ok(self.class(conn, class)?.map(|class| (class, relation))),
            _ => Ok(None),
        }
    }

    fn class(&mut self, conn: &mut Conn, id: i64) -> Result<Option<Arc<Class>>, Refusal> {
        if id == self.class.id {
            return Ok(Some(self.class.clone()));
        }
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let may_view = self.leaving[0] != Some(id) && (!self.as_caller || may_view(self.request, conn, id)?);
        let class = match may_view {
            true if self.as_caller => class_of_id(self.request, conn, id)?,
            // One of them is being changed.
            true => changing_class(conn, id)?,
            false => None,
        };
        self.known.insert(id, class.clone());
        Ok(class)
    }
}

/// Whether the caller may view a class.
pub fn may_view(request: &Request, conn: &mut Conn, class: i64) -> Result<bool, Refusal> {
    Ok(rights::on_class(conn, request.caller()?, class)?.is_some_and(|rights| rights.sees_class()))
}

/// Whether the caller may view all other classes that the merge fields of a template name.
pub fn may_view_classes(request: &Request, conn: &mut Conn, template: i64) -> Result<bool, Refusal> {
    let named = Sql::new("SELECT c.class_id FROM document_template_classes c WHERE c.template = $1").arg(template);
    Ok(hidden_classes(request, conn, &named)?.is_empty())
}

/// Those of the classes whose ids a statement selects that the caller may not view.
pub fn hidden_classes(request: &Request, conn: &mut Conn, named: &Sql) -> Result<Vec<i64>, Refusal> {
    let mut sql = Sql::new("SELECT t.id FROM object_classes t WHERE t.id IN (");
    sql.append(named).push(") AND NOT (").append(&rights::visible_classes(request.caller()?)).push(")");
    Ok(conn.all(&sql, |row| row.int(0))?)
}
