//! The records that a caller may view, as a set of their numbers within the class (`docs/reference/object-records.md`).
//! A caller with `view` on all records of a class needs no set. For others the sets of their principals are united: of the user,
//! with the records that they own, and of each of their groups. A process caches the sets by build, class and principal. Every
//! change of assignments and owners raises a version of the principal in its own transaction. Each request reads the version and
//! the permission sets. A cached set is used only if both are unchanged, so it is exact in every process.

use crate::bitmap::Bitmap;
use crate::classes::{Class, class_at, table};
use crate::rights::{CLASSES_OF_TASKS, ClassRights, TASKS_VIEW, VIEW, principal_tokens, select_held};
use identity::principals::push_principals;
use kit::bounded_cache::{BoundedCache, CacheBounds};
use kit::ids::{ClassId, ConnectorId, PrincipalId, RecordSetId, UserId};
use kit::limits::slot;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::tokens;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use store::{BorrowedArgument, Conn, Sql, StoreError};

/// The maximum memory for all cached sets of a process, in bytes.
const MAX_KEPT_BYTES: u64 = 128 * 1024 * 1024;
/// The number of shards of that memory, each with a lock. The largest sets, of 12 MB, must fit into one shard.
const SHARDS: usize = 4;
/// The approximate number of cached sets.
const USUAL_SETS: usize = 16 * 1024;
/// The maximum size of a set that a statement receives as a list of numbers. Larger sets are bits.
const MAX_LISTED: usize = 5_000;

/// The records of a class that a caller may view.
#[derive(Clone)]
pub enum VisibleRecords {
    All,
    Some(Arc<Bitmap>),
    /// The records of an agent. Queries must not reveal other records to it, also not by a timing side channel.
    OfAgent(Arc<Bitmap>),
}

impl VisibleRecords {
    /// The numbers of the records. `None` means all of the class.
    pub fn numbers(&self) -> Option<&Bitmap> {
        match self {
            VisibleRecords::All => None,
            VisibleRecords::Some(numbers) | VisibleRecords::OfAgent(numbers) => Some(numbers),
        }
    }

    /// The number of records. `None` means all of the class.
    pub fn count(&self) -> Option<i64> {
        self.numbers().map(|numbers| numbers.len() as i64)
    }

    /// Returns whether there are none, independent of the records of the class.
    pub fn is_none(&self) -> bool {
        self.numbers().is_some_and(Bitmap::is_empty)
    }

    pub fn contains(&self, number: i64) -> bool {
        let Some(numbers) = self.numbers() else { return true };
        u32::try_from(number).is_ok_and(|number| numbers.contains(number))
    }

    /// Restricts the set to these numbers, for the same caller.
    pub fn restrict_to(&self, numbers: Bitmap) -> VisibleRecords {
        match self {
            VisibleRecords::OfAgent(_) => VisibleRecords::OfAgent(Arc::new(numbers)),
            VisibleRecords::All | VisibleRecords::Some(_) => VisibleRecords::Some(Arc::new(numbers)),
        }
    }

    /// Returns whether the condition tests each row that is read, instead of listing the numbers.
    pub fn is_tested(&self) -> bool {
        self.numbers().is_some_and(|numbers| numbers.len() > MAX_LISTED)
    }

    /// Returns whether the records are read before other conditions apply. This is so for an agent, unless there are too many
    /// (see [`read_first`]).
    pub fn is_read_first(&self) -> bool {
        matches!(self, VisibleRecords::OfAgent(_)) && !self.is_tested()
    }

    /// Returns the table of a class under an alias, and the remaining condition on its rows. `column` contains the number.
    pub fn rows(&self, conn: &Conn, table: &str, alias: &'static str, column: &'static str) -> (Sql, Sql) {
        let mut condition = Sql::new("");
        self.condition(&mut condition, column);
        if self.is_read_first() && !conn.is_embedded() {
            return read_first(table, alias, &condition);
        }
        let mut rows = aliased(table, alias);
        // In SQLite the number is the row id, so that it reads the rows by number if it may not use an index. A subselect takes
        // 50% longer.
        rows.push(if self.is_read_first() { "/*sqlite  NOT INDEXED*/" } else { "" });
        (rows, condition)
    }

    /// Appends the condition on the number in this column.
    pub fn condition(&self, sql: &mut Sql, column: &'static str) {
        match self.numbers() {
            None => {
                sql.push("1 = 1");
            }
            Some(numbers) if numbers.is_empty() => {
                sql.push("1 = 0");
            }
            Some(numbers) if numbers.len() <= MAX_LISTED => {
                sql.push(column).push_any(numbers.numbers());
            }
            Some(numbers) => {
                let bits = numbers.to_bits();
                // PostgreSQL refuses a position after the last bit.
                sql.push("CASE WHEN ").push(column).push(" < ").bind(bits.len() as i64 * 8);
                sql.push(" THEN get_bit(").bind(bits).push(", ").push(column).push(") END = 1");
            }
        }
    }
}

/// A class with the caller's rights on it and its visible records.
pub struct VisibleClass {
    pub class: Arc<Class>,
    pub on_class: ClassRights,
    pub visible: VisibleRecords,
}

/// The cached sets of all builds.
pub struct KnownSets(BoundedCache<SetKey, CachedSet>);

/// The uid of a build, a class, a principal, the action that sets must grant, and the kind of the caller.
type SetKey = (String, ClassId, PrincipalId, i64, SetHolder);

/// The kind of callers whose sets are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SetHolder {
    Account,
    /// An account whose ownership grants the caller nothing.
    WithoutOwnership,
    /// Agents of a connector.
    Agent(ConnectorId),
}

#[derive(Clone)]
struct CachedSet {
    state: SetVersion,
    numbers: Arc<Bitmap>,
}

/// The state from which a set was computed: the version of its principal, and the permission sets that grant the action.
#[derive(Clone, PartialEq)]
struct SetVersion {
    version: i64,
    sets: Arc<[RecordSetId]>,
}

fn weight_of_set(key: &SetKey, entry: &CachedSet) -> usize {
    const OVERHEAD: usize = 200;
    key.0.len() + entry.numbers.bytes() + 8 * entry.state.sets.len() + OVERHEAD
}

impl Default for KnownSets {
    fn default() -> KnownSets {
        let bounds = CacheBounds { bytes: MAX_KEPT_BYTES, usual_entries: USUAL_SETS, shards: SHARDS };
        KnownSets(BoundedCache::new(bounds, weight_of_set))
    }
}

impl KnownSets {
    fn get(&self, key: &SetKey, state: &SetVersion) -> Option<Arc<Bitmap>> {
        self.0.get(key).filter(|entry| entry.state == *state).map(|entry| entry.numbers)
    }
}

/// Returns a table under an alias, and the remaining condition on its rows, for an agent. The rows that it may view are read
/// before other conditions apply. A filter by an index that applied first would take longer for a hidden row than for a missing
/// one.
pub fn read_first(table: &str, alias: &'static str, may_view: &Sql) -> (Sql, Sql) {
    let mut sql = Sql::new("(SELECT ");
    sql.push(alias).push(".* FROM ").append(&aliased(table, alias)).push(" WHERE ").append(may_view);
    // Neither engine merges a subselect with an offset into the statement around it.
    sql.push("/*sqlite  LIMIT -1*/ OFFSET 0) ").push(alias);
    (sql, Sql::new("1 = 1"))
}

fn aliased(table: &str, alias: &'static str) -> Sql {
    let mut sql = Sql::new("");
    sql.name(table).push(" ").push(alias);
    sql
}

/// Converts the stored number of a record within its class.
pub fn number(stored: i64) -> Result<u32, StoreError> {
    u32::try_from(stored).map_err(|_| StoreError::internal(format_args!("{stored} as the number of a record")))
}

/// The records of a class that the caller may view, with these rights on the class.
pub fn visible(
    request: &Request,
    conn: &mut Conn,
    class: ClassId,
    rights: ClassRights,
) -> Result<VisibleRecords, Refusal> {
    if rights.allows(VIEW) {
        return Ok(VisibleRecords::All);
    }
    Ok(visible_in(request, conn, &[class], VIEW)?
        .remove(&class)
        .unwrap_or_else(|| VisibleRecords::Some(Arc::new(empty_set()))))
}

fn empty_set() -> Bitmap {
    Bitmap::Numbers(Vec::new())
}

/// A class, a principal of the caller, the version of its set, and the number of records that it owns.
type PrincipalVersion = (ClassId, PrincipalId, i64, i64);

/// The permission sets of classes, each in the order of their ids.
type ClassSets = HashMap<ClassId, Arc<[RecordSetId]>>;

/// Loads the permission sets of each of these classes that grant an action, and the versions of the caller's principals.
fn load_versions(
    request: &Request,
    conn: &mut Conn,
    classes: &[ClassId],
    action: i64,
) -> Result<(ClassSets, Vec<PrincipalVersion>), Refusal> {
    let caller = request.caller()?;
    let mut sql =
        Sql::new("SELECT s.class_id, CAST(0 AS BIGINT), s.id, CAST(0 AS BIGINT) FROM record_permission_sets s");
    if let Some(agent) = &caller.agent {
        sql.push(" JOIN record_set_connectors x ON x.permission_set = s.id AND x.connector = ").bind(agent.connector);
        sql.push(" JOIN mcp_connector_classes k ON k.connector = x.connector AND k.object_class = s.class_id");
        sql.push(" AND (x.permissions & ").bind(action).push(") <> 0");
    }
    sql.push(" WHERE (s.permissions & ")
        .bind(action)
        .push(") <> 0 AND s.class_id")
        .push_any(classes.iter().copied())
        .push(
            " UNION ALL SELECT v.class_id, v.principal, CAST(sum(v.version) AS BIGINT), CAST(sum(v.owned) AS BIGINT) \
         FROM record_viewers v WHERE v.principal IN ",
        );
    push_principals(&mut sql, caller.user);
    sql.push(" AND v.class_id").push_any(classes.iter().copied()).push(" GROUP BY v.class_id, v.principal");
    let (mut sets, mut versions) = (BTreeMap::<ClassId, Vec<RecordSetId>>::new(), Vec::new());
    conn.for_each_row(&sql, |row| {
        match row.int(1)? {
            0 => sets.entry(row.id(0)?).or_default().push(row.id(2)?),
            principal => versions.push((row.id(0)?, PrincipalId::new(principal), row.int(2)?, row.int(3)?)),
        }
        Ok(())
    })?;
    let in_order = |(class, mut ids): (ClassId, Vec<RecordSetId>)| {
        ids.sort_unstable();
        (class, ids.into())
    };
    Ok((sets.into_iter().map(in_order).collect(), versions))
}

/// The records of each of these classes on which the caller may perform an action by sets and as an owner. The number of
/// statements does not depend on the number of classes.
fn visible_in(
    request: &Request,
    conn: &mut Conn,
    classes: &[ClassId],
    action: i64,
) -> Result<HashMap<ClassId, VisibleRecords>, Refusal> {
    if classes.is_empty() {
        return Ok(HashMap::new());
    }
    let caller = request.caller()?;
    let (user, agent) = (caller.user, caller.agent.as_ref());
    let owns = caller.ownership() == user;
    let cache: &KnownSets = request.app.slot();
    let holder = match agent {
        Some(agent) => SetHolder::Agent(agent.connector),
        None if owns => SetHolder::Account,
        None => SetHolder::WithoutOwnership,
    };
    let key = |class: ClassId, principal: PrincipalId| (request.build.uid.clone(), class, principal, action, holder);
    // Data that a write reads may be uncommitted, or differ from the snapshot of its next statement, so it is not cached.
    let is_kept = request.method == http::Method::GET;
    let (sets, versions) = load_versions(request, conn, classes, action)?;
    let (mut sets_by_class, mut missing) = (HashMap::<ClassId, Vec<Arc<Bitmap>>>::new(), Vec::new());
    for (class, principal, version, owned) in versions {
        let state = SetVersion { version, sets: sets.get(&class).cloned().unwrap_or_default() };
        // Ownership grants agents and narrowed keys nothing.
        let owned = if owns { owned } else { 0 };
        match cache.get(&key(class, principal), &state) {
            Some(numbers) => sets_by_class.entry(class).or_default().push(numbers),
            None => missing.push((class, principal, state, owned)),
        }
    }
    for ((class, principal), state, numbers) in load_sets(conn, user, &missing)? {
        let numbers = Arc::new(Bitmap::from_numbers(numbers));
        if is_kept {
            cache.0.insert(key(class, principal), CachedSet { state, numbers: numbers.clone() });
        }
        sets_by_class.entry(class).or_default().push(numbers);
    }
    let united = |numbers: Vec<Arc<Bitmap>>| match numbers.as_slice() {
        [set] => set.clone(),
        sets => Arc::new(Bitmap::union(sets.iter().map(Arc::as_ref))),
    };
    let to_visible = if agent.is_some() { VisibleRecords::OfAgent } else { VisibleRecords::Some };
    let mut visible: HashMap<ClassId, VisibleRecords> =
        sets_by_class.into_iter().map(|(class, numbers)| (class, to_visible(united(numbers)))).collect();
    for class in classes {
        visible.entry(*class).or_insert_with(|| to_visible(Arc::new(empty_set())));
    }
    Ok(visible)
}

/// The visible records of a class and the caller's rights on it, before the class is loaded.
pub struct ClassView {
    id: ClassId,
    version: i64,
    on_class: ClassRights,
    pub visible: VisibleRecords,
}

impl ClassView {
    /// Loads the class. `None` if it does not exist any more.
    pub fn read(self, request: &Request, conn: &mut Conn) -> Result<Option<VisibleClass>, StoreError> {
        let ClassView { id, version, on_class, visible } = self;
        let class = class_at(&request.app, &request.build, conn, id, version)?;
        Ok(class.map(|class| VisibleClass { class, on_class, visible }))
    }
}

/// Returns those of these classes that exist. The number of statements does not depend on the number of classes.
pub fn seen_classes(request: &Request, conn: &mut Conn, ids: Vec<ClassId>) -> Result<Vec<ClassView>, Refusal> {
    let caller = request.caller()?;
    let mut sql = Sql::new("SELECT t.id, t.version, ");
    select_held(&mut sql, caller);
    sql.push(" FROM object_classes t WHERE t.id").push_any(ids);
    let rows = conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)?, ClassRights::new(caller, row.int(2)?))))?;
    let by_sets: Vec<ClassId> = rows.iter().filter(|(_, _, on)| !on.allows(VIEW)).map(|(id, _, _)| *id).collect();
    let mut visible = visible_in(request, conn, &by_sets, VIEW)?;
    let to_visible_class = |(id, version, on_class)| {
        let visible = visible.remove(&id).unwrap_or(VisibleRecords::All);
        ClassView { id, version, on_class, visible }
    };
    Ok(rows.into_iter().map(to_visible_class).collect())
}

/// Loads those of these classes that exist, each with the caller's rights on it and its visible records.
pub fn classes_with_visible(
    request: &Request,
    conn: &mut Conn,
    ids: Vec<ClassId>,
) -> Result<Vec<VisibleClass>, Refusal> {
    let mut classes = Vec::with_capacity(ids.len());
    for visible_class in seen_classes(request, conn, ids)? {
        classes.extend(visible_class.read(request, conn)?);
    }
    Ok(classes)
}

/// The classes in which the caller may view tasks of records, each with these records. Not needed for a super admin.
pub fn visible_tasks(request: &Request, conn: &mut Conn) -> Result<Vec<(ClassId, VisibleRecords)>, Refusal> {
    let (caller, agent) = (principal_tokens(request.caller()?), request.caller()?.agent.as_ref());
    let mut sql = Sql::new("SELECT DISTINCT c.class_id FROM (");
    tokens(&mut sql, CLASSES_OF_TASKS, &caller);
    let whole = match agent {
        Some(_) => Vec::new(),
        None => conn.query_all(sql.push(") c ORDER BY c.class_id"), |row| row.id(0))?,
    };
    let mut sql = Sql::new("SELECT DISTINCT v.class_id FROM record_viewers v WHERE v.principal IN ");
    push_principals(&mut sql, request.caller()?.user);
    let mut some_classes = conn.query_all(sql.push(" ORDER BY v.class_id"), |row| row.id(0))?;
    some_classes.retain(|class| !whole.contains(class));
    let mut visible = visible_in(request, conn, &some_classes, TASKS_VIEW)?;
    let whole = whole.into_iter().map(|class| (class, VisibleRecords::All));
    let some_classes = some_classes.into_iter().filter_map(|class| Some((class, visible.remove(&class)?)));
    Ok(whole.chain(some_classes.filter(|(_, visible)| !visible.is_none())).collect())
}

/// A class, a principal whose set is not cached, the state for its computation, and the number of records that the user owns.
type MissingSet = (ClassId, PrincipalId, SetVersion, i64);
/// A class and a principal, the state of their set, and the numbers of the records.
type LoadedSet = ((ClassId, PrincipalId), SetVersion, Vec<u32>);

/// Loads the numbers of the records that each of these principals may view.
fn load_sets(conn: &mut Conn, user: UserId, missing: &[MissingSet]) -> Result<Vec<LoadedSet>, StoreError> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let class_of: HashMap<RecordSetId, ClassId> =
        missing.iter().flat_map(|(class, _, state, _)| state.sets.iter().map(|set| (*set, *class))).collect();
    let mut numbers: HashMap<(ClassId, PrincipalId), Vec<u32>> = HashMap::new();
    let mut add = |class: ClassId, principal: PrincipalId, n: i64| -> Result<(), StoreError> {
        numbers.entry((class, principal)).or_default().push(number(n)?);
        Ok(())
    };
    if !class_of.is_empty() {
        let mut sql =
            Sql::new("SELECT a.permission_set, a.principal, a.n FROM record_assignees a WHERE a.permission_set");
        sql.push_any(class_of.keys().copied().collect::<Vec<_>>()).push(" AND a.principal");
        sql.push_any(missing.iter().map(|(_, principal, _, _)| *principal).collect::<Vec<_>>());
        conn.for_each_row(&sql, |row| {
            let class = class_of.get(&row.id(0)?).copied().unwrap_or(ClassId::NONE);
            add(class, row.id(1)?, row.int(2)?)
        })?;
    }
    let mut sql = Sql::new("");
    for (class, _, _, _) in missing.iter().filter(|(_, principal, _, owned)| *principal == user.into() && *owned > 0) {
        if !sql.text().is_empty() {
            sql.push(" UNION ALL ");
        }
        sql.push("SELECT CAST(").bind(*class).push(" AS BIGINT), t.n FROM ").name(&table(*class));
        sql.push(" t WHERE t.owner = ").bind(user);
    }
    if !sql.text().is_empty() {
        conn.for_each_row(&sql, |row| add(row.id(0)?, user.into(), row.int(1)?))?;
    }
    let rows = missing.iter().map(|(class, principal, state, _)| {
        let key = (*class, *principal);
        (key, state.clone(), numbers.remove(&key).unwrap_or_default())
    });
    Ok(rows.collect())
}

/// The number of records of each of these classes that the caller may view.
pub fn counts(request: &Request, conn: &mut Conn, classes: &[ClassId]) -> Result<HashMap<ClassId, i64>, Refusal> {
    if classes.is_empty() {
        return Ok(HashMap::new());
    }
    let caller = request.caller()?;
    let mut sql = Sql::new(
        "SELECT t.id, CAST(COALESCE((SELECT sum(c.n) FROM record_counts c WHERE c.class_id = t.id), 0) AS BIGINT), ",
    );
    select_held(&mut sql, caller);
    sql.push(" FROM object_classes t WHERE t.id").push_any(classes.iter().copied());
    let rights = conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)?, ClassRights::new(caller, row.int(2)?))))?;
    let by_sets: Vec<ClassId> =
        rights.iter().filter(|(_, _, rights)| !rights.allows(VIEW)).map(|(class, _, _)| *class).collect();
    let visible = visible_in(request, conn, &by_sets, VIEW)?;
    let count = |(class, total, _): (ClassId, i64, ClassRights)| {
        (class, visible.get(&class).map_or(total, |visible| visible.count().unwrap_or(total)))
    };
    Ok(rights.into_iter().map(count).collect())
}

/// Changes of the visible records of principals in a class, written at the end of their transaction.
#[derive(Default)]
pub struct VersionChanges(BTreeMap<PrincipalId, i64>);

impl VersionChanges {
    /// Notes that the visible records of a principal have changed. The principal is a user, or a group as its negative id.
    pub fn principal(&mut self, principal: PrincipalId) {
        self.0.entry(principal).or_default();
    }

    /// Notes that a user owns `more` records more than before. The number may be negative.
    pub fn owner(&mut self, user: UserId, more: i64) {
        *self.0.entry(user.into()).or_default() += more;
    }

    /// Raises the versions in the order of the principals, to avoid deadlocks between transactions. This is the last write,
    /// because others wait for these rows until the commit.
    pub fn raise_versions(self, conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
        let slot = slot(conn);
        let row = |(principal, owned): (PrincipalId, i64)| {
            [principal.get(), class.get(), slot, 1, owned].map(BorrowedArgument::Int)
        };
        let rows: Vec<_> = self.0.into_iter().map(row).collect();
        let columns = ["principal", "class_id", "slot", "version", "owned"];
        let conflict = "ON CONFLICT (principal, class_id, slot) DO UPDATE SET version = record_viewers.version + 1, \
             owned = record_viewers.owned + excluded.owned";
        conn.insert_rows("record_viewers", &columns, &rows, conflict).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sets_stay_within_their_bytes_and_the_largest_finds_its_place() {
        let cache = KnownSets::default();
        let state = || SetVersion { version: 1, sets: Arc::default() };
        let set_key = |build: &str, principal: i64| {
            (build.to_owned(), ClassId::new(1), PrincipalId::new(principal), VIEW, SetHolder::Account)
        };
        let keep = |build: &str, principal: i64, bytes: usize| {
            let key = set_key(build, principal);
            cache.0.insert(key.clone(), CachedSet { state: state(), numbers: Arc::new(Bitmap::Bits(vec![0; bytes])) });
            cache.get(&key, &state()).is_some()
        };
        for build in ["a", "b", "c"] {
            for principal in 0..500 {
                keep(build, principal, 125_000);
            }
        }
        assert!((MAX_KEPT_BYTES / 2..=MAX_KEPT_BYTES).contains(&cache.0.weight()), "{}", cache.0.weight());
        assert!(keep("d", 1, 12_500_000));
        assert!(cache.0.weight() <= MAX_KEPT_BYTES);
        let key = set_key("d", 1);
        assert!(cache.get(&key, &SetVersion { version: 2, sets: Arc::default() }).is_none());
        assert!(cache.get(&key, &SetVersion { version: 1, sets: [RecordSetId::new(7)].into() }).is_none());
    }
}
