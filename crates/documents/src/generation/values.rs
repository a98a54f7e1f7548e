//! Reads the values that a template shows of a record, its parents and its children, with the rights of the requester. This happens
//! before the document is written.

use super::runs::RelatedRecords;
use crate::merge::{TagValue, ValueSource};
use crate::templates::merge_fields::{Meaning, Meanings, MergeField, ValueOrigin};
use administration::company_details::admin_email_address;
use kit::ids::{ClassId, RecordId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::Class;
use records::record_values::{
    ChildOf, DisplayError, DisplayRecord, DisplayValue, children_of, class_of_id, shown_records, viewable_of,
};
use resource::Checked;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use store::Conn;

/// The maximum number of children that all loops repeat together.
pub const MAX_CHILDREN: usize = 5_000;
const TOO_MANY: &str = "The document has too many repetitions.";
/// The approximate maximum of bytes of a document's values.
const MAX_BYTES: usize = 50 * 1024 * 1024;

/// The reason for which no document was generated.
#[derive(Debug)]
pub enum ValuesFailure {
    /// A permanent failure. The requester sees the text.
    Failed(&'static str),
    Refused(Refusal),
}

impl From<Refusal> for ValuesFailure {
    fn from(refusal: Refusal) -> ValuesFailure {
        ValuesFailure::Refused(refusal)
    }
}

impl From<store::StoreError> for ValuesFailure {
    fn from(error: store::StoreError) -> ValuesFailure {
        ValuesFailure::Refused(error.into())
    }
}

impl From<DisplayError> for ValuesFailure {
    fn from(unshowable: DisplayError) -> ValuesFailure {
        match unshowable {
            DisplayError::Hidden => ValuesFailure::Failed("You do not have permission for a related record."),
            DisplayError::TooLarge => ValuesFailure::Failed("The document is too large."),
            DisplayError::Refused(refusal) => ValuesFailure::Refused(refusal),
        }
    }
}

/// The values of one document.
#[derive(Default)]
pub struct DocumentValues {
    /// The values of the record, and values that do not belong to a record.
    own: ValueNode,
    /// The other records that the document shows.
    pub related: RelatedRecords,
}

/// The values of one record that tags show, with the children of the loops inside it.
#[derive(Default)]
pub struct ValueNode {
    /// By the paths of the tags.
    values: HashMap<String, TagValue>,
    /// By the paths of the loops.
    loops: HashMap<String, Vec<Arc<ValueNode>>>,
}

/// The values to read of records of one class.
#[derive(Default)]
struct ValueRequest {
    aliases: HashSet<String>,
    /// The fields of parents, by class and by the relation.
    parents: BTreeMap<(ClassId, String), HashSet<String>>,
}

impl ValueRequest {
    fn add(&mut self, origin: &ValueOrigin) {
        match origin {
            ValueOrigin::Field(alias) => drop(self.aliases.insert(alias.clone())),
            ValueOrigin::Parent { relation, class, field } => {
                self.aliases.insert(relation.clone());
                self.parents.entry((*class, relation.clone())).or_default().insert(field.clone());
            }
            ValueOrigin::Owner => {}
        }
    }
}

/// A record with its parents.
struct WithParents {
    record: DisplayRecord,
    /// By relation.
    parents: HashMap<String, Arc<DisplayRecord>>,
}

impl WithParents {
    fn value(&self, origin: &ValueOrigin) -> TagValue {
        let shown = |record: &DisplayRecord, alias: &str| record.values.get(alias).map_or(TagValue::Empty, value);
        match origin {
            ValueOrigin::Field(alias) => shown(&self.record, alias),
            ValueOrigin::Parent { relation, field, .. } => {
                self.parents.get(relation).map_or(TagValue::Empty, |parent| shown(parent, field))
            }
            ValueOrigin::Owner => self.record.owner.clone().map_or(TagValue::Empty, TagValue::Text),
        }
    }
}

fn value(shown: &DisplayValue) -> TagValue {
    match shown {
        DisplayValue::Empty => TagValue::Empty,
        DisplayValue::Text(text) => TagValue::Text(text.clone()),
        DisplayValue::Number(number) => TagValue::Number(number.clone()),
        DisplayValue::Date(date) => date.parse().map_or_else(|_| TagValue::Text(date.clone()), TagValue::Date),
        DisplayValue::DateTime(at) => TagValue::DateTime(*at),
        DisplayValue::Bool(value) => TagValue::Bool(*value),
    }
}

/// The values that tags show of the records of one loop, or of the record.
#[derive(Default)]
struct Level {
    wanted: ValueRequest,
    all: Vec<(String, ValueOrigin)>,
}

impl Level {
    fn add(&mut self, name: String, origin: ValueOrigin) {
        self.wanted.add(&origin);
        self.all.push((name, origin));
    }

    fn node(&self, record: &WithParents) -> ValueNode {
        let values = self.all.iter().map(|(name, origin)| (name.clone(), record.value(origin))).collect();
        ValueNode { values, loops: HashMap::new() }
    }
}

/// A loop of a template.
struct TemplateLoop {
    /// The paths of the loops around it, from the outside, and its own path.
    paths: Vec<Vec<String>>,
    class: ClassId,
    relation: String,
}

/// The children of a loop by their ids, and the children of each parent in their order.
struct Children {
    nodes: HashMap<RecordId, ValueNode>,
    of: Vec<ChildOf>,
}

/// The values and loops that the merge fields of a template request.
#[derive(Default)]
struct RequestedFields<'a> {
    /// The levels by the paths of the loops around them. The level of the record has an empty key.
    levels: HashMap<&'a [Vec<String>], Level>,
    /// Outer loops come before inner loops.
    loops: Vec<TemplateLoop>,
    /// Values that do not belong to a record.
    others: HashMap<String, TagValue>,
}

impl<'a> RequestedFields<'a> {
    fn from_tags(
        request: &Request,
        conn: &mut Conn,
        class: &Arc<Class>,
        fields: &'a [MergeField],
    ) -> Result<RequestedFields<'a>, ValuesFailure> {
        let mut meanings = Meanings::for_caller(request, class.clone());
        let mut requested = RequestedFields::default();
        for field in fields {
            // A tag without a meaning shows nothing. The template has a warning.
            let Checked::Valid(meaning) = meanings.meaning(conn, field)? else { continue };
            match meaning {
                Meaning::Value { level, of: origin } => {
                    requested.levels.entry(&field.within[..level]).or_default().add(field.name(), origin);
                }
                Meaning::Children { class, relation } => {
                    let paths = field.within.iter().chain([&field.path]).cloned().collect();
                    requested.loops.push(TemplateLoop { paths, class, relation });
                }
                Meaning::Today => drop(requested.others.insert(field.name(), TagValue::Day(request.now))),
                Meaning::CompanyAddress => {
                    requested.others.insert(field.name(), TagValue::Text(admin_email_address(conn)?));
                }
                // The writer of the document counts the passes.
                Meaning::PassNumber => {}
            }
        }
        requested.loops.sort_by_key(|template_loop| template_loop.paths.len());
        Ok(requested)
    }

    fn level(&mut self, paths: &[Vec<String>]) -> Level {
        self.levels.remove(paths).unwrap_or_default()
    }
}

/// Reads the values of a template's merge fields for a record that the caller may view.
pub fn read_values(
    request: &Request,
    conn: &mut Conn,
    class: &Arc<Class>,
    record: RecordId,
    fields: &[MergeField],
) -> Result<DocumentValues, ValuesFailure> {
    let mut requested = RequestedFields::from_tags(request, conn, class, fields)?;
    let mut gather = ValueReader { request, related: RelatedRecords::new(), room: MAX_BYTES, left: MAX_CHILDREN };
    let level = requested.level(&[]);
    let records = gather.with_parents(conn, class, vec![record], &level.wanted)?;
    let mut own = level.node(records.get(&record).ok_or(ValuesFailure::Failed("The record no longer exists."))?);
    own.values.extend(std::mem::take(&mut requested.others));
    let loops = std::mem::take(&mut requested.loops);
    let mut gathered: Vec<Children> = Vec::with_capacity(loops.len());
    for template_loop in &loops {
        let parents = match outer(&loops, template_loop).and_then(|outer| gathered.get(outer)) {
            Some(outer) => outer.nodes.keys().copied().collect(),
            None => vec![record],
        };
        gathered.push(gather.children(conn, template_loop, parents, &requested.level(&template_loop.paths))?);
    }
    // The children of inner loops become part of the outer loops.
    for template_loop in loops.iter().rev() {
        let Some(children) = gathered.pop() else { break };
        let mut outer =
            outer(&loops, template_loop).and_then(|outer| gathered.get_mut(outer)).map(|outer| &mut outer.nodes);
        let name = template_loop.paths.last().map(|path| path.join(".")).unwrap_or_default();
        for (parent, children) in children.group_by_parent() {
            let outer_node = match &mut outer {
                Some(nodes) => nodes.get_mut(&parent),
                None => Some(&mut own),
            };
            if let Some(outer_node) = outer_node {
                outer_node.loops.insert(name.clone(), children);
            }
        }
    }
    Ok(DocumentValues { own, related: gather.related })
}

/// Returns the index of the loop around another. Its index is lower, because it has fewer loops around it.
fn outer(loops: &[TemplateLoop], inner: &TemplateLoop) -> Option<usize> {
    let [outer_paths @ .., _] = &inner.paths[..] else { return None };
    loops.iter().position(|candidate| candidate.paths == outer_paths)
}

impl Children {
    fn group_by_parent(self) -> HashMap<RecordId, Vec<Arc<ValueNode>>> {
        let mut nodes: HashMap<RecordId, Arc<ValueNode>> =
            self.nodes.into_iter().map(|(id, node)| (id, Arc::new(node))).collect();
        let mut by_parent: HashMap<RecordId, Vec<Arc<ValueNode>>> = HashMap::new();
        for child in self.of {
            by_parent.entry(child.parent).or_default().extend(nodes.remove(&child.id));
        }
        by_parent
    }
}

struct ValueReader<'a> {
    request: &'a Request,
    related: RelatedRecords,
    /// The number of bytes that may still be read.
    room: usize,
    /// The number of children that may still be read.
    left: usize,
}

impl ValueReader<'_> {
    /// Adds records to those that the document shows.
    fn mark_shown(&mut self, class: ClassId, ids: impl IntoIterator<Item = RecordId>) {
        let ids_of_class = self.related.entry(class).or_default();
        ids_of_class.extend(ids);
        ids_of_class.sort_unstable();
        ids_of_class.dedup();
    }

    /// Reads the children of a loop for all of the given parents. Omits children that the caller may not view.
    fn children(
        &mut self,
        conn: &mut Conn,
        template_loop: &TemplateLoop,
        parents: Vec<RecordId>,
        level: &Level,
    ) -> Result<Children, ValuesFailure> {
        let none = Children { nodes: HashMap::new(), of: Vec::new() };
        let Some(class) = class_of_id(self.request, conn, template_loop.class)? else { return Ok(none) };
        let Some(relation) = class.field(&template_loop.relation) else { return Ok(none) };
        let children = children_of(self.request, conn, class.id, relation, parents, self.left + 1)?;
        self.left = self.left.checked_sub(children.len()).ok_or(ValuesFailure::Failed(TOO_MANY))?;
        let ids: Vec<RecordId> = children.iter().map(|child| child.id).collect();
        let records = self.with_parents(conn, &class, ids.clone(), &level.wanted)?;
        self.mark_shown(class.id, ids);
        let nodes = records.iter().map(|(id, record)| (*id, level.node(record))).collect();
        Ok(Children { nodes, of: children })
    }

    /// Reads records with their parents. The caller must be able to view all parents.
    fn with_parents(
        &mut self,
        conn: &mut Conn,
        class: &Class,
        ids: Vec<RecordId>,
        value_request: &ValueRequest,
    ) -> Result<HashMap<RecordId, WithParents>, ValuesFailure> {
        let aliases: HashSet<&str> = value_request.aliases.iter().map(String::as_str).collect();
        let records = shown_records(self.request, conn, class, ids, &aliases, &mut self.room)?;
        for record in records.values() {
            for (relation, parent) in &record.related {
                if let Some(class) = class.field(relation).and_then(|field| field.related_object_class) {
                    self.mark_shown(class, [*parent]);
                }
            }
        }
        let mut records: HashMap<RecordId, WithParents> =
            records.into_iter().map(|(id, record)| (id, WithParents { record, parents: HashMap::new() })).collect();
        for ((class, relation), fields) in &value_request.parents {
            let parent_of = |child: &WithParents| child.record.related.get(relation).copied();
            let ids: Vec<RecordId> =
                records.values().filter_map(parent_of).collect::<HashSet<_>>().into_iter().collect();
            if viewable_of(self.request, conn, *class, &ids)?.len() < ids.len() {
                return Err(DisplayError::Hidden.into());
            }
            let Some(class) = class_of_id(self.request, conn, *class)? else { continue };
            let aliases: HashSet<&str> = fields.iter().map(String::as_str).collect();
            let parents = shown_records(self.request, conn, &class, ids, &aliases, &mut self.room)?;
            for parent in parents.values() {
                for (relation, id) in &parent.related {
                    if let Some(class) = class.field(relation).and_then(|field| field.related_object_class) {
                        self.mark_shown(class, [*id]);
                    }
                }
            }
            let parents: HashMap<RecordId, Arc<DisplayRecord>> =
                parents.into_iter().map(|(id, parent)| (id, Arc::new(parent))).collect();
            for child in records.values_mut() {
                if let Some(parent) = parent_of(child).and_then(|id| parents.get(&id)) {
                    child.parents.insert(relation.clone(), parent.clone());
                }
            }
        }
        Ok(records)
    }
}

impl ValueSource for DocumentValues {
    type Child = Arc<ValueNode>;
    type Error = Infallible;

    fn value(&self, path: &[String], children: &[Self::Child]) -> Result<TagValue, Infallible> {
        let name = path.join(".");
        let of_child = children.iter().rev().find_map(|child| child.values.get(&name));
        Ok(of_child.or_else(|| self.own.values.get(&name)).cloned().unwrap_or(TagValue::Empty))
    }

    fn children(&self, path: &[String], children: &[Self::Child]) -> Result<Vec<Self::Child>, Infallible> {
        let enclosing = children.last().map_or(&self.own, |child| &**child);
        Ok(enclosing.loops.get(&path.join(".")).cloned().unwrap_or_default())
    }
}
