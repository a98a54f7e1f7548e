//! Counts the tasks of records for a caller who may view many of them. A process caches the number of tasks of each record, in
//! blocks of records. The creation or deletion of a task raises the version of its block in the same transaction. A cached block
//! is used only if the database has the same version, so counts are exact in every process.

use kit::ids::ClassId;
use kit::limits::slot;
use kit::refusal::Refusal;
use kit::request::Request;
use quick_cache::sync::Cache;
use records::visible_records::VisibleRecords;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{BorrowedArgument, Conn, Sql, StoreError};

/// The number of records in a block.
const BLOCK: i64 = 4_096;
/// The maximum number of blocks that a process caches, of 16 KiB each.
const MAX_BLOCKS: usize = 2_000;

/// The uid of a build, a class, and a block of its records.
type BlockKey = (String, ClassId, i64);

/// The cached blocks of all builds, each with its version.
pub struct KnownBlocks(Cache<BlockKey, (i64, Arc<[u32]>)>);

impl Default for KnownBlocks {
    fn default() -> KnownBlocks {
        KnownBlocks(Cache::new(MAX_BLOCKS))
    }
}

/// Raises the versions of the blocks of records whose tasks change. Records are pairs of class and number. This is the last
/// write, because other transactions wait for these rows until the commit.
pub fn raise_block_versions(conn: &mut Conn, records: impl Iterator<Item = (ClassId, i64)>) -> Result<(), StoreError> {
    let blocks: BTreeSet<(ClassId, i64)> = records.map(|(class, n)| (class, n / BLOCK)).collect();
    let slot = slot(conn);
    let rows: Vec<_> =
        blocks.into_iter().map(|(class, block)| [class.get(), block, slot, 1].map(BorrowedArgument::Int)).collect();
    let conflict = "ON CONFLICT (class_id, block, slot) DO UPDATE SET version = task_blocks.version + 1";
    conn.insert_rows("task_blocks", &["class_id", "block", "slot", "version"], &rows, conflict).map(drop)
}

/// The total number of tasks of these records of classes.
pub fn count(request: &Request, conn: &mut Conn, classes: &[(ClassId, &VisibleRecords)]) -> Result<i64, Refusal> {
    let mut sql = Sql::new("SELECT class_id, block, CAST(sum(version) AS BIGINT) FROM task_blocks WHERE class_id");
    sql.push_any(classes.iter().map(|(class, _)| *class).collect::<Vec<_>>()).push(" GROUP BY class_id, block");
    let mut versions = BTreeMap::new();
    conn.for_each_row(&sql, |row| {
        versions.insert((row.id(0)?, row.int(1)?), row.int(2)?);
        Ok(())
    })?;
    let mut sum = 0;
    for (class, records) in classes {
        let Some(numbers) = records.numbers() else { continue };
        let numbers = numbers.numbers();
        let highest = numbers.last().map_or(0, |number| number / BLOCK);
        let of_class: Vec<i64> =
            (0..=highest).map(|block| versions.get(&(*class, block)).copied().unwrap_or(0)).collect();
        let blocks = blocks(request, conn, *class, &of_class)?;
        let tasks = |number: &i64| blocks.get((number / BLOCK) as usize)?.get((number % BLOCK) as usize).copied();
        sum += numbers.iter().filter_map(tasks).map(i64::from).sum::<i64>();
    }
    Ok(sum)
}

/// The number of tasks of each record of a class, in blocks of these versions.
fn blocks(request: &Request, conn: &mut Conn, class: ClassId, versions: &[i64]) -> Result<Vec<Arc<[u32]>>, Refusal> {
    let cache: &KnownBlocks = request.app.slot();
    let key = |block: usize| (request.build.uid.clone(), class, block as i64);
    let cached_block = |(block, version): (usize, &i64)| cache.0.get(&key(block)).filter(|cached| cached.0 == *version);
    let mut blocks: Vec<Option<Arc<[u32]>>> =
        versions.iter().enumerate().map(|at| cached_block(at).map(|(_, tasks)| tasks)).collect();
    let missing = |block: &Option<Arc<[u32]>>| block.is_none();
    if let (Some(first), Some(last)) = (blocks.iter().position(missing), blocks.iter().rposition(missing)) {
        let mut tasks_of_blocks = vec![vec![0_u32; BLOCK as usize]; last + 1 - first];
        let sql = Sql::new(
            "SELECT record_n, count(*) FROM tasks WHERE class_id = $1 AND record_n >= $2 AND record_n < $3 GROUP BY record_n",
        );
        conn.for_each_row(&sql.arg(class).arg(first as i64 * BLOCK).arg((last + 1) as i64 * BLOCK), |row| {
            let (number, tasks) = (row.int(0)?, row.int(1)?);
            let block = tasks_of_blocks.get_mut((number / BLOCK) as usize - first);
            if let Some(place) = block.and_then(|block| block.get_mut((number % BLOCK) as usize)) {
                *place = u32::try_from(tasks).unwrap_or(u32::MAX);
            }
            Ok(())
        })?;
        for (block, tasks) in (first..).zip(tasks_of_blocks) {
            let tasks: Arc<[u32]> = tasks.into();
            cache.0.insert(key(block), (versions[block], tasks.clone()));
            blocks[block] = Some(tasks);
        }
    }
    Ok(blocks.into_iter().flatten().collect())
}
