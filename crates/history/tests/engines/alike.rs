//! The checks that both engines must pass.

use history::engine::{EngineError, HistoryEngine, MAX_FILES, Tenant};
use history::event::{EARLIEST, HistoryEvent, LATEST, SystemEvent};
use history::filter::{Condition, FilterColumn, PageRange, Test};
use std::collections::HashSet;
use uuid::Uuid;

/// 2026-11-21T00:00:00Z
pub const EARLY: i64 = 1_795_219_200_000_000;

/// Returns a new tenant with a name of its own.
pub fn tenant() -> Tenant {
    let client_id = Uuid::new_v4();
    let name = client_id.simple();
    Tenant {
        client_id,
        secret_hash: "0".repeat(64),
        database_name: format!("n{name}"),
        client_label: format!("It's \"{name}\" \\ ∑"),
    }
}

/// Returns a history event with a new id.
pub fn event(at: i64, event_type: u8, record_id: i64) -> HistoryEvent {
    HistoryEvent {
        id: Uuid::new_v4(),
        at,
        event_type,
        record_id,
        source_id: -7,
        source_type: 1,
        source_name: (record_id % 2 == 0).then(|| "Zoë '\\\0".to_owned()),
        source_info: String::new(),
        data: format!("[{{\"n\": {record_id}}}]"),
    }
}

/// Returns a system event with a new id.
pub fn system_event(at: i64) -> SystemEvent {
    SystemEvent {
        id: Uuid::new_v4(),
        at,
        category: 1,
        event_type: 1 + (at % 10).unsigned_abs() as u8,
        source_id: i64::MAX,
        source_type: 0,
        source_info: "a\tb\n".to_owned(),
        source_ip: "::1".to_owned(),
        data: "{}".to_owned(),
    }
}

/// Returns system events with new ids.
pub fn events(count: i64) -> Vec<SystemEvent> {
    (0..count).map(|n| system_event(EARLY + n)).collect()
}

/// Returns whether an event meets the conditions.
type Holds = &'static dyn Fn(&HistoryEvent) -> bool;

fn page(conditions: Vec<Condition>) -> PageRange {
    PageRange { conditions, limit: 1000, offset: 0 }
}

fn condition(column: FilterColumn, test: Test) -> Condition {
    Condition { column, test, is_excluded: false }
}

/// Runs all checks.
pub async fn check(engine: &HistoryEngine) {
    assert_eq!(engine.ready().await, Ok(()));
    tenants(engine).await;
    order_and_filters(engine).await;
    system_events(engine).await;
    named_files(engine).await;
    tenants_in_pages(engine).await;
}

async fn tenants(engine: &HistoryEngine) {
    let (first, second) = (tenant(), tenant());
    assert_eq!(engine.tenant(first.client_id).await, Ok(None));
    assert_eq!(engine.tenant_named(&first.database_name).await, Ok(None));
    assert_eq!(engine.begin_delete(first.client_id).await, Ok(None));
    assert_eq!(engine.initialize(&first).await, Ok(true));
    assert_eq!(engine.tenant(first.client_id).await, Ok(Some(first.clone())));
    assert_eq!(engine.tenant_named(&first.database_name).await, Ok(Some(first.clone())));
    let same_name = Tenant { database_name: first.database_name.clone(), ..second.clone() };
    assert_eq!(engine.initialize(&same_name).await, Ok(false));
    let same_label = Tenant { client_label: first.client_label.clone(), ..second.clone() };
    assert_eq!(engine.initialize(&same_label).await, Ok(false));
    assert_eq!(engine.initialize(&second).await, Ok(true), "what was refused before holds no name");
    assert_eq!(engine.begin_delete(first.client_id).await, Ok(Some(first.clone())));
    assert_eq!(engine.tenant(first.client_id).await, Ok(None));
    assert_eq!(engine.begin_delete(first.client_id).await, Ok(Some(first.clone())));
    assert_eq!(engine.delete(&first).await, Ok(()));
    assert_eq!(engine.begin_delete(first.client_id).await, Ok(None));
    assert_eq!(engine.add_history_event(&first, event(EARLY, 1, 1)).await, Err(EngineError::NoTenant));
    let anew = Tenant { client_id: Uuid::new_v4(), ..first };
    assert_eq!(engine.initialize(&anew).await, Ok(true));
    let listed = engine.history_events(&anew, page(Vec::new())).await.expect("it is listed");
    assert_eq!((listed.total, listed.filtered, listed.results), (0, 0, Vec::new()));
}

async fn order_and_filters(engine: &HistoryEngine) {
    let tenant = tenant();
    assert_eq!(engine.initialize(&tenant).await, Ok(true));
    let mut all: Vec<HistoryEvent> = Vec::new();
    // The events have all types at each time: the earliest and the latest accepted time, and times before 1970.
    for at in [EARLIEST, -1, 0, EARLY, EARLY + 1, LATEST] {
        all.extend((1..=10).map(|event_type| event(at, event_type, i64::from(event_type) - 2)));
    }
    for event in &all {
        assert_eq!(engine.add_history_event(&tenant, event.clone()).await, Ok(true));
    }
    assert_eq!(engine.add_history_event(&tenant, all[3].clone()).await, Ok(false));
    let changed = HistoryEvent { at: 5, event_type: 9, ..all[3].clone() };
    assert_eq!(engine.add_history_event(&tenant, changed).await, Ok(false), "the id decides, whatever else differs");
    all.sort_by_key(|event| std::cmp::Reverse((event.at, event.rank(), *event.id.as_bytes())));
    let listed = engine.history_events(&tenant, page(Vec::new())).await.expect("it is listed");
    assert_eq!((listed.total, listed.filtered), (60, 60));
    assert_eq!(listed.results, all);
    let part = PageRange { conditions: Vec::new(), limit: 7, offset: 20 };
    let listed = engine.history_events(&tenant, part).await.expect("it is listed");
    assert_eq!(listed.results, all[20..27]);
    assert_eq!(engine.history_event(&tenant, all[5].id).await, Ok(Some(all[5].clone())));
    assert_eq!(engine.history_event(&tenant, Uuid::new_v4()).await, Ok(None));

    use FilterColumn::{At, EventType, RecordId, SourceId, SourceType};
    let filters: [(Vec<Condition>, Holds); 10] = [
        (vec![condition(RecordId, Test::In(vec![-1]))], &|event| event.record_id == -1),
        (vec![condition(EventType, Test::In(vec![1, 3, 700, -1]))], &|event| [1, 3].contains(&event.event_type)),
        (vec![condition(SourceType, Test::In(vec![2]))], &|_| false),
        (vec![condition(SourceId, Test::In(vec![-7, i64::MIN]))], &|_| true),
        (vec![condition(At, Test::In(vec![-1, EARLY]))], &|event| [-1, EARLY].contains(&event.at)),
        (vec![condition(At, Test::Above(EARLY))], &|event| event.at > EARLY),
        (vec![condition(At, Test::From(EARLY))], &|event| event.at >= EARLY),
        (vec![condition(At, Test::Below(0)), condition(RecordId, Test::In(vec![2]))], &|event| {
            event.at < 0 && event.record_id == 2
        }),
        (vec![condition(At, Test::UpTo(i64::MAX))], &|_| true),
        (vec![condition(At, Test::Between(-1, EARLY))], &|event| (-1..=EARLY).contains(&event.at)),
    ];
    for (conditions, holds) in filters {
        for is_excluded in [false, true] {
            let mut conditions = conditions.clone();
            conditions[0].is_excluded = is_excluded;
            let expected: Vec<HistoryEvent> = if is_excluded && conditions.len() == 1 {
                all.iter().filter(|event| !holds(event)).cloned().collect()
            } else if is_excluded {
                all.iter().filter(|event| event.at >= 0 && event.record_id == 2).cloned().collect()
            } else {
                all.iter().filter(|event| holds(event)).cloned().collect()
            };
            let text = format!("{conditions:?}");
            let listed = engine.history_events(&tenant, page(conditions)).await.expect("it is listed");
            assert_eq!((listed.total, listed.filtered), (60, expected.len() as i64), "{text}");
            assert_eq!(listed.results, expected, "{text}");
        }
    }
}

async fn system_events(engine: &HistoryEngine) {
    let tenant = tenant();
    assert_eq!(engine.initialize(&tenant).await, Ok(true));
    assert_eq!(engine.add_system_events(&tenant, Vec::new()).await, Ok(0));
    let mut batch: Vec<SystemEvent> = [EARLIEST, 0, EARLY, EARLY, LATEST].map(system_event).into();
    assert_eq!(engine.add_system_events(&tenant, batch.clone()).await, Ok(5));
    let mut more = batch[2..].to_vec();
    more.push(system_event(EARLY));
    assert_eq!(engine.add_system_events(&tenant, more.clone()).await, Ok(1));
    batch.push(more[3].clone());
    batch.sort_by_key(|event| std::cmp::Reverse((event.at, *event.id.as_bytes())));
    let listed = engine.system_events(&tenant, page(Vec::new())).await.expect("it is listed");
    assert_eq!((listed.total, listed.filtered), (6, 6));
    assert_eq!(listed.results, batch);
    let conditions =
        vec![condition(FilterColumn::Category, Test::In(vec![1])), condition(FilterColumn::At, Test::Above(0))];
    let listed = engine.system_events(&tenant, page(conditions)).await.expect("it is listed");
    assert_eq!((listed.total, listed.filtered), (6, 4));
    assert_eq!(listed.results, batch[..4]);
}

async fn named_files(engine: &HistoryEngine) {
    let tenant = tenant();
    assert_eq!(engine.initialize(&tenant).await, Ok(true));
    let files: Vec<Uuid> = (0..MAX_FILES).map(|_| Uuid::new_v4()).collect();
    assert_eq!(engine.named_files(&tenant, &files).await, Ok(HashSet::new()));
    let early_event = |event_type, data: String| HistoryEvent { data, ..event(EARLY, event_type, 1) };
    let capital = files[3].to_string().to_uppercase();
    let events = [
        early_event(9, format!(r#"[{{"file_id": "{}"}}, 5, "{}", {{"file_id": "{}"}}]"#, files[0], files[9], files[1])),
        early_event(9, format!(r#"[{{"file_id": "urn:uuid:{}"}}, {{"file_id": "{{{capital}}}"}}]"#, files[2])),
        early_event(9, format!(r#"[{{"file_id": "{}", "n": "\u0000"}}]"#, files[4].simple())),
        early_event(9, format!(r#"[{{"n": {{"file_id": "{}"}}}}, {{"file_id": 5}}, {{"file_id": null}}]"#, files[8])),
        early_event(7, format!(r#"[{{"file_id": "{}"}}]"#, files[7])),
        early_event(9, format!(r#"[{{"file_id": "{}"}}]"#, files[0])),
        early_event(9, format!(r#"[{{"file_id": "{}"}}]"#, Uuid::new_v4())),
        early_event(9, "[]".to_owned()),
    ];
    for event in &events {
        assert_eq!(engine.add_history_event(&tenant, event.clone()).await, Ok(true));
    }
    let all: HashSet<Uuid> = files[..5].iter().copied().collect();
    assert_eq!(engine.named_files(&tenant, &files).await, Ok(all));
    assert_eq!(engine.named_files(&tenant, &files[5..6]).await, Ok(HashSet::new()));
    assert_eq!(engine.named_files(&self::tenant(), &files[..1]).await, Err(EngineError::NoTenant));
}

async fn tenants_in_pages(engine: &HistoryEngine) {
    let made = [tenant(), tenant(), tenant(), tenant()];
    for tenant in &made {
        assert_eq!(engine.initialize(tenant).await, Ok(true));
    }
    assert_eq!(engine.begin_delete(made[0].client_id).await, Ok(Some(made[0].clone())));
    let (mut listed, mut behind) = (Vec::new(), None);
    loop {
        let page = engine.tenants(behind, 7).await.expect("it is listed");
        assert!(page.len() <= 7);
        let Some(last) = page.last() else { break };
        behind = Some(last.client_id);
        listed.extend(page);
    }
    assert!(listed.is_sorted_by(|one, next| one.client_id < next.client_id));
    assert!(made[1..].iter().all(|tenant| listed.contains(tenant)) && !listed.contains(&made[0]));
    assert_eq!(engine.delete(&made[0]).await, Ok(()));
}
