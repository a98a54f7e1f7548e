//! Gathers what a template shows of a record, its parents and its children, as its requester may see them, before the document
//! is written.

use super::runs::Related;
use crate::merge::{Source, Value};
use crate::templates::merge_fields::{Meaning, Meanings, MergeField, Of};
use administration::company_details::admin_email_address;
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::Class;
use records::record_values::{Shown, ShownRecord, Unshowable, children_of, class_of_id, shown_records, viewable_of};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use store::Conn;

/// The most children that loops repeat together.
pub const MAX_CHILDREN: usize = 5_000;
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
    /// Those of the record and of no record, by the paths of the tags.
    own: HashMap<String, Value>,
    /// The children of each loop, by its path.
    loops: HashMap<String, Vec<Arc<HashMap<String, Value>>>>,
    /// The other records that the document shows.
    pub related: Related,
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

/// Reads the values of a template's merge fields for a record that the caller may view.
pub fn gather(
    request: &Request,
    conn: &mut Conn,
    class: &Arc<Class>,
    record: i64,
    fields: &[MergeField],
) -> Result<Values, NoValues> {
    let mut meanings = Meanings::of_caller(request, class.clone());
    let mut gather = Gather { request, values: Values::default(), room: MAX_BYTES };
    let (mut own, mut all_own) = (Wanted::default(), Vec::new());
    let mut loops: Vec<(String, i64, String)> = Vec::new();
    let mut in_loops: HashMap<String, (Wanted, Vec<(String, Of)>)> = HashMap::new();
    for field in fields {
        // A tag that means nothing any more shows nothing; the template has a warning.
        let Ok(meaning) = meanings.meaning(conn, field)? else { continue };
        let name = field.name();
        match meaning {
            Meaning::Record(of) => {
                own.add(&of);
                all_own.push((name, of));
            }
            Meaning::Child(of) => {
                let (wanted, all) = in_loops.entry(field.within.as_deref().unwrap_or_default().join(".")).or_default();
                wanted.add(&of);
                all.push((name, of));
            }
            Meaning::Children { class, relation } => loops.push((name, class, relation)),
            Meaning::Today => drop(gather.values.own.insert(name, today(request))),
            Meaning::CompanyAddress => {
                gather.values.own.insert(name, Value::Text(admin_email_address(conn)?));
            }
        }
    }
    let mut found = gather.with_parents(conn, class, vec![record], &own)?;
    let found = found.remove(&record).ok_or(NoValues::Failed("The record no longer exists."))?;
    for (name, of) in all_own {
        gather.values.own.insert(name, found.value(&of));
    }
    let mut count = 0;
    for (name, child_class, relation) in loops {
        let (wanted, all) = in_loops.remove(&name).unwrap_or_default();
        let Some(child_class) = class_of_id(request, conn, child_class)? else { continue };
        let Some(relation) = child_class.field(&relation) else { continue };
        let left = MAX_CHILDREN - count;
        let ids = children_of(request, conn, child_class.id, relation, record, left + 1)?;
        if ids.len() > left {
            return Err(NoValues::Failed("The document has too many repetitions."));
        }
        count += ids.len();
        let mut children = gather.with_parents(conn, &child_class, ids.clone(), &wanted)?;
        let of_child = |id: &i64| {
            let child = children.remove(id)?;
            Some(Arc::new(all.iter().map(|(name, of)| (name.clone(), child.value(of))).collect()))
        };
        let shown = ids.iter().filter_map(of_child).collect();
        gather.values.loops.insert(name, shown);
        gather.shows(child_class.id, ids);
    }
    Ok(gather.values)
}

fn today(request: &Request) -> Value {
    let now = jiff::Timestamp::from_microsecond(request.now).unwrap_or_default();
    Value::Date(jiff::tz::TimeZone::UTC.to_datetime(now).date())
}

struct Gather<'a> {
    request: &'a Request,
    values: Values,
    /// How many bytes may still be read.
    room: usize,
}

impl Gather<'_> {
    /// Notes that the document shows these records.
    fn shows(&mut self, class: i64, ids: impl IntoIterator<Item = i64>) {
        let all = self.values.related.entry(class).or_default();
        all.extend(ids);
        all.sort_unstable();
        all.dedup();
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
    type Child = Arc<HashMap<String, Value>>;
    type Error = Infallible;

    fn value(&self, path: &[String], child: Option<&Self::Child>) -> Result<Value, Infallible> {
        let name = path.join(".");
        let of_child = child.and_then(|child| child.get(&name));
        Ok(of_child.or_else(|| self.own.get(&name)).cloned().unwrap_or(Value::Empty))
    }

    fn children(&self, path: &[String]) -> impl Iterator<Item = Result<Self::Child, Infallible>> {
        self.loops.get(&path.join(".")).into_iter().flatten().cloned().map(Ok)
    }
}
