//! Gathers what a template shows of a record, its parents and its children, as its requester may see them, before the document
//! is written.

use super::runs::Related;
use crate::merge::{Source, Value};
use crate::templates::merge_fields::{Meaning, Meanings, MergeField, Of};
use administration::company_details::admin_email_address;
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::Class;
use records::record_values::{
    ChildOf, Shown, ShownRecord, Unshowable, children_of, class_of_id, shown_records, viewable_of,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use store::Conn;

/// The most children that loops repeat together.
pub const MAX_CHILDREN: usize = 5_000;
const TOO_MANY: &str = "The document has too many repetitions.";
/// The most bytes of the values of a document, about.
const MAX_BYTES: usize = 50 * 1024 * 1024;

/// Why there is no document.
#[derive(Debug)]
pub enum NoValues {
    /// For good; the text is shown to the requester.
    Failed(&'static str),
    Refused(Refusal),
}

impl From<Refusal> for NoValues {
    fn from(refusal: Refusal) -> NoValues {
        NoValues::Refused(refusal)
    }
}

impl From<store::Error> for NoValues {
    fn from(error: store::Error) -> NoValues {
        NoValues::Refused(error.into())
    }
}

impl From<Unshowable> for NoValues {
    fn from(unshowable: Unshowable) -> NoValues {
        match unshowable {
            Unshowable::Hidden => NoValues::Failed("You do not have permission for a related record."),
            Unshowable::TooLarge => NoValues::Failed("The document is too large."),
            Unshowable::Refused(refusal) => NoValues::Refused(refusal),
        }
    }
}

/// The values of one document.
#[derive(Default)]
pub struct Values {
    /// Those of the record and of no record.
    own: ShownNode,
    /// The other records that the document shows.
    pub related: Related,
}

/// What tags show of one record, with the children of the loops inside it.
#[derive(Default)]
pub struct ShownNode {
    /// By the paths of the tags.
    values: HashMap<String, Value>,
    /// By the paths of the loops.
    loops: HashMap<String, Vec<Arc<ShownNode>>>,
}

/// Values of records of one class that are to be read.
#[derive(Default)]
struct Wanted {
    aliases: HashSet<String>,
    /// The fields of parents, by class and by the relation.
    parents: BTreeMap<(i64, String), HashSet<String>>,
}

impl Wanted {
    fn add(&mut self, of: &Of) {
        match of {
            Of::Field(alias) => drop(self.aliases.insert(alias.clone())),
            Of::Parent { relation, class, field } => {
                self.aliases.insert(relation.clone());
                self.parents.entry((*class, relation.clone())).or_default().insert(field.clone());
            }
            Of::Owner => {}
        }
    }
}

/// A record with its parents.
struct WithParents {
    record: ShownRecord,
    /// By relation.
    parents: HashMap<String, Arc<ShownRecord>>,
}

impl WithParents {
    fn value(&self, of: &Of) -> Value {
        let shown = |record: &ShownRecord, alias: &str| record.values.get(alias).map_or(Value::Empty, value);
        match of {
            Of::Field(alias) => shown(&self.record, alias),
            Of::Parent { relation, field, .. } => {
                self.parents.get(relation).map_or(Value::Empty, |parent| shown(parent, field))
            }
            Of::Owner => self.record.owner.clone().map_or(Value::Empty, Value::Text),
        }
    }
}

fn value(shown: &Shown) -> Value {
    match shown {
        Shown::Empty => Value::Empty,
        Shown::Text(text) => Value::Text(text.clone()),
        Shown::Number(number) => Value::Number(number.clone()),
        Shown::Date(date) => date.parse().map_or_else(|_| Value::Text(date.clone()), Value::Date),
        Shown::DateTime(at) => Value::DateTime(*at),
        Shown::Bool(value) => Value::Bool(*value),
    }
}

/// What tags show of the records of one loop, or of the record itself.
#[derive(Default)]
struct Level {
    wanted: Wanted,
    all: Vec<(String, Of)>,
}

impl Level {
    fn add(&mut self, name: String, of: Of) {
        self.wanted.add(&of);
        self.all.push((name, of));
    }

    fn node(&self, record: &WithParents) -> ShownNode {
        let values = self.all.iter().map(|(name, of)| (name.clone(), record.value(of))).collect();
        ShownNode { values, loops: HashMap::new() }
    }
}

/// A loop of a template.
struct Loop {
    /// The paths of the loops around it, from the outside, and its own.
    paths: Vec<Vec<String>>,
    class: i64,
    relation: String,
}

/// The children of a loop: by their ids, and those of each parent in their order.
struct Children {
    nodes: HashMap<i64, ShownNode>,
    of: Vec<ChildOf>,
}

/// What the merge fields of a template ask for.
#[derive(Default)]
struct Asked<'a> {
    /// By the paths of the loops around; of the record itself there are none.
    levels: HashMap<&'a [Vec<String>], Level>,
    /// Those outside before those inside.
    loops: Vec<Loop>,
    /// Values of no record.
    others: HashMap<String, Value>,
}

impl<'a> Asked<'a> {
    fn of(
        request: &Request,
        conn: &mut Conn,
        class: &Arc<Class>,
        fields: &'a [MergeField],
    ) -> Result<Asked<'a>, NoValues> {
        let mut meanings = Meanings::of_caller(request, class.clone());
        let mut asked = Asked::default();
        for field in fields {
            // A tag that means nothing any more shows nothing; the template has a warning.
            let Ok(meaning) = meanings.meaning(conn, field)? else { continue };
            match meaning {
                Meaning::Value { level, of } => {
                    asked.levels.entry(&field.within[..level]).or_default().add(field.name(), of);
                }
                Meaning::Children { class, relation } => {
                    let paths = field.within.iter().chain([&field.path]).cloned().collect();
                    asked.loops.push(Loop { paths, class, relation });
                }
                Meaning::Today => drop(asked.others.insert(field.name(), Value::Day(request.now))),
                Meaning::CompanyAddress => {
                    asked.others.insert(field.name(), Value::Text(admin_email_address(conn)?));
                }
                // The writer counts.
                Meaning::PassNumber => {}
            }
        }
        asked.loops.sort_by_key(|one| one.paths.len());
        Ok(asked)
    }

    fn level(&mut self, paths: &[Vec<String>]) -> Level {
        self.levels.remove(paths).unwrap_or_default()
    }
}

/// Reads the values of a template's merge fields for a record that the caller may view.
pub fn gather(
    request: &Request,
    conn: &mut Conn,
    class: &Arc<Class>,
    record: i64,
    fields: &[MergeField],
) -> Result<Values, NoValues> {
    let mut asked = Asked::of(request, conn, class, fields)?;
    let mut gather = Gather { request, related: Related::new(), room: MAX_BYTES, left: MAX_CHILDREN };
    let level = asked.level(&[]);
    let found = gather.with_parents(conn, class, vec![record], &level.wanted)?;
    let mut own = level.node(found.get(&record).ok_or(NoValues::Failed("The record no longer exists."))?);
    own.values.extend(std::mem::take(&mut asked.others));
    let loops = std::mem::take(&mut asked.loops);
    let mut gathered: Vec<Children> = Vec::with_capacity(loops.len());
    for one in &loops {
        let parents = match outer(&loops, one).and_then(|outer| gathered.get(outer)) {
            Some(outer) => outer.nodes.keys().copied().collect(),
            None => vec![record],
        };
        gathered.push(gather.children(conn, one, parents, &asked.level(&one.paths))?);
    }
    // Those of inner loops go into those of the loops around them.
    for one in loops.iter().rev() {
        let Some(children) = gathered.pop() else { break };
        let mut outer = outer(&loops, one).and_then(|outer| gathered.get_mut(outer)).map(|outer| &mut outer.nodes);
        let name = one.paths.last().map(|path| path.join(".")).unwrap_or_default();
        for (parent, children) in children.by_parent() {
            let around = match &mut outer {
                Some(nodes) => nodes.get_mut(&parent),
                None => Some(&mut own),
            };
            if let Some(around) = around {
                around.loops.insert(name.clone(), children);
            }
        }
    }
    Ok(Values { own, related: gather.related })
}

/// The index of the loop around another. It stands before that, as fewer loops are around it.
fn outer(loops: &[Loop], inner: &Loop) -> Option<usize> {
    let [around @ .., _] = &inner.paths[..] else { return None };
    loops.iter().position(|other| other.paths == around)
}

impl Children {
    fn by_parent(self) -> HashMap<i64, Vec<Arc<ShownNode>>> {
        let mut nodes: HashMap<i64, Arc<ShownNode>> =
            self.nodes.into_iter().map(|(id, node)| (id, Arc::new(node))).collect();
        let mut by_parent: HashMap<i64, Vec<Arc<ShownNode>>> = HashMap::new();
        for child in self.of {
            by_parent.entry(child.parent).or_default().extend(nodes.remove(&child.id));
        }
        by_parent
    }
}

struct Gather<'a> {
    request: &'a Request,
    related: Related,
    /// How many bytes may still be read.
    room: usize,
    /// How many children may still be read.
    left: usize,
}

impl Gather<'_> {
    /// Notes that the document shows these records.
    fn shows(&mut self, class: i64, ids: impl IntoIterator<Item = i64>) {
        let all = self.related.entry(class).or_default();
        all.extend(ids);
        all.sort_unstable();
        all.dedup();
    }

    /// Reads the children of a loop that the caller may view, of all of these parents.
    fn children(&mut self, conn: &mut Conn, of: &Loop, parents: Vec<i64>, level: &Level) -> Result<Children, NoValues> {
        let none = Children { nodes: HashMap::new(), of: Vec::new() };
        let Some(class) = class_of_id(self.request, conn, of.class)? else { return Ok(none) };
        let Some(relation) = class.field(&of.relation) else { return Ok(none) };
        let children = children_of(self.request, conn, class.id, relation, parents, self.left + 1)?;
        self.left = self.left.checked_sub(children.len()).ok_or(NoValues::Failed(TOO_MANY))?;
        let ids: Vec<i64> = children.iter().map(|child| child.id).collect();
        let records = self.with_parents(conn, &class, ids.clone(), &level.wanted)?;
        self.shows(class.id, ids);
        let nodes = records.iter().map(|(id, record)| (*id, level.node(record))).collect();
        Ok(Children { nodes, of: children })
    }

    /// Reads records with their parents, all of which the caller must be able to view.
    fn with_parents(
        &mut self,
        conn: &mut Conn,
        class: &Class,
        ids: Vec<i64>,
        wanted: &Wanted,
    ) -> Result<HashMap<i64, WithParents>, NoValues> {
        let aliases: HashSet<&str> = wanted.aliases.iter().map(String::as_str).collect();
        let records = shown_records(self.request, conn, class, ids, &aliases, &mut self.room)?;
        for record in records.values() {
            for (relation, parent) in &record.related {
                if let Some(class) = class.field(relation).and_then(|field| field.related_object_class) {
                    self.shows(class, [*parent]);
                }
            }
        }
        let mut all: HashMap<i64, WithParents> =
            records.into_iter().map(|(id, record)| (id, WithParents { record, parents: HashMap::new() })).collect();
        for ((class, relation), fields) in &wanted.parents {
            let parent_of = |child: &WithParents| child.record.related.get(relation).copied();
            let ids: Vec<i64> = all.values().filter_map(parent_of).collect::<HashSet<_>>().into_iter().collect();
            if viewable_of(self.request, conn, *class, &ids)?.len() < ids.len() {
                return Err(Unshowable::Hidden.into());
            }
            let Some(class) = class_of_id(self.request, conn, *class)? else { continue };
            let aliases: HashSet<&str> = fields.iter().map(String::as_str).collect();
            let parents = shown_records(self.request, conn, &class, ids, &aliases, &mut self.room)?;
            for parent in parents.values() {
                for (relation, id) in &parent.related {
                    if let Some(class) = class.field(relation).and_then(|field| field.related_object_class) {
                        self.shows(class, [*id]);
                    }
                }
            }
            let parents: HashMap<i64, Arc<ShownRecord>> =
                parents.into_iter().map(|(id, parent)| (id, Arc::new(parent))).collect();
            for child in all.values_mut() {
                if let Some(parent) = parent_of(child).and_then(|id| parents.get(&id)) {
                    child.parents.insert(relation.clone(), parent.clone());
                }
            }
        }
        Ok(all)
    }
}

impl Source for Values {
    type Child = Arc<ShownNode>;
    type Error = Infallible;

    fn value(&self, path: &[String], within: &[Self::Child]) -> Result<Value, Infallible> {
        let name = path.join(".");
        let of_child = within.iter().rev().find_map(|child| child.values.get(&name));
        Ok(of_child.or_else(|| self.own.values.get(&name)).cloned().unwrap_or(Value::Empty))
    }

    fn children(&self, path: &[String], within: &[Self::Child]) -> Result<Vec<Self::Child>, Infallible> {
        let around = within.last().map_or(&self.own, |child| &**child);
        Ok(around.loops.get(&path.join(".")).cloned().unwrap_or_default())
    }
}
