//! The records of the demo. Their values depend only on short lists and on the index of each record, so every run creates the same
//! values.

use super::calls::DemoCaller;
use super::classes::{COMPANY_TAGS, CONTRACT_KINDS, COST_CENTRES, DemoClass, DemoClasses, INDUSTRIES};
use super::organisation::{ANNA, CLARA, DAVID, EMMA, FARID, JONAS, Organisation};
use crate::open::CommandFailure;
use indicatif::ProgressBar;
use serde_json::{Value as Json, json};

const COMPANIES: usize = 80;
const CONTRACTS: usize = 220;
const INVOICES: usize = 700;
/// The number of records in the demo.
pub const RECORDS: usize = COMPANIES + CONTRACTS + INVOICES;

/// The maximum number of records in a request, so that progress is visible.
const AT_A_TIME: usize = 100;

const NAMES: [&str; 20] = [
    "Aster", "Beacon", "Cedar", "Delta", "Elm", "Falcon", "Granite", "Harbour", "Iris", "Juniper", "Kestrel", "Lumen",
    "Meadow", "North", "Orchid", "Pine", "Quartz", "River", "Summit", "Tidal",
];
const TRADES: [&str; 4] = ["Logistics", "Software", "Foods", "Energy"];
const SUBJECTS: [&str; 6] = ["Office supplies", "Maintenance", "Warehouse space", "Support", "Deliveries", "Training"];
const NOTES: [&str; 4] = [
    "They come to see us every spring.",
    "Invoices come by mail, never on paper.",
    "Ask for Ms Okoye; nobody else decides.",
    "Moved to a new warehouse last year.",
];
const REMARKS: [&str; 5] = [
    "The price was agreed on the telephone.",
    "Ask for a new offer before it is renewed.",
    "Delivered in two parts.",
    "Reminded once.",
    "Discount of two per cent when paid within ten days.",
];

/// Returns a pseudo-random number below `bound` for the index `place`. `salt` distinguishes several numbers for one index.
fn pseudo_random(place: usize, salt: u64, bound: usize) -> usize {
    let mut mixed = (place as u64).wrapping_mul(31).wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % bound as u64) as usize
}

fn choose<T: Copy>(items: &[T], place: usize, salt: u64) -> T {
    items[pseudo_random(place, salt, items.len())]
}

/// Returns a day of the month `months` after January 2024. Days up to 28 exist in every month.
fn day(months: usize, day: usize) -> String {
    format!("{}-{:02}-{:02}", 2024 + months / 12, months % 12 + 1, day + 1)
}

fn cents(amount: usize) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

/// The created records, in their order.
pub struct DemoRecords {
    pub companies: Vec<i64>,
    pub contracts: Vec<i64>,
    pub invoices: Vec<i64>,
}

/// Creates the records.
pub async fn make(
    admin: &mut DemoCaller,
    people: &Organisation,
    classes: &DemoClasses,
    bar: &ProgressBar,
) -> Result<DemoRecords, CommandFailure> {
    let items = (0..COMPANIES).map(|place| company(place, people)).collect();
    let companies = batches(admin, classes.company, items, bar).await?;

    let company_at = |place| companies[pseudo_random(place, 1, COMPANIES)];
    let mut items: Vec<Json> =
        (0..CONTRACTS).map(|place| contract(place, company_at(place), people, classes.contract)).collect();
    for signed in items.iter_mut().filter(|item| item["fields"]["status"] == "signed").take(3) {
        let copy = admin.upload("signed-copy.txt", b"Signed by both sides.\n").await?;
        signed["fields"]["signed_copy"] = json!([copy]);
    }
    let contracts = batches(admin, classes.contract, items, bar).await?;

    let contract_at = |place| contracts[pseudo_random(place, 2, CONTRACTS)];
    let items = (0..INVOICES).map(|place| invoice(place, contract_at(place), people, classes.invoice)).collect();
    let invoices = batches(admin, classes.invoice, items, bar).await?;
    Ok(DemoRecords { companies, contracts, invoices })
}

async fn batches(
    admin: &mut DemoCaller,
    class: DemoClass,
    items: Vec<Json>,
    bar: &ProgressBar,
) -> Result<Vec<i64>, CommandFailure> {
    let path = format!("/api/object-classes/{}/object-records/batch/", class.id);
    let mut ids = Vec::with_capacity(items.len());
    for items in items.chunks(AT_A_TIME) {
        let answer = admin.post(&path, json!({"items": items})).await?;
        ids.extend(answer["ids"].as_array().into_iter().flatten().filter_map(Json::as_i64));
        bar.inc(items.len() as u64);
    }
    match ids.len() == items.len() {
        true => Ok(ids),
        false => Err(format!("POST {path}: {} records were made instead of {}", ids.len(), items.len())),
    }
}

fn company(place: usize, people: &Organisation) -> Json {
    let (name, trade) = (NAMES[place % NAMES.len()], place / NAMES.len() % TRADES.len());
    // The first companies with a name have different trades.
    let trade = (trade + place) % TRADES.len();
    let domain = format!("{}-{}.example", name.to_lowercase(), TRADES[trade].to_lowercase());
    let tags: Vec<&str> =
        (0..).zip(COMPANY_TAGS).filter(|(n, _)| pseudo_random(place, 10 + n, 3) == 0).map(|(_, tag)| tag).collect();
    let notes = (pseudo_random(place, 3, 3) == 0).then(|| choose(&NOTES, place, 8));
    json!({
        "owner": people.users[ANNA],
        "fields": {
            "name": format!("{name} {}", TRADES[trade]), "industry": INDUSTRIES[trade],
            "website": format!("https://www.{domain}/"), "email": format!("accounts@{domain}"),
            "phone": format!("+49 40 555{:04}", pseudo_random(place, 4, 10_000)), "employees": 5 + pseudo_random(place, 5, 2_000),
            "is_active": pseudo_random(place, 6, 8) != 0,
            "account_manager": people.users[choose(&[ANNA, DAVID, EMMA], place, 7)], "tags": tags, "notes": notes,
        },
    })
}

fn contract(place: usize, company: i64, people: &Organisation, class: DemoClass) -> Json {
    let start = pseudo_random(place, 20, 30);
    let end = (pseudo_random(place, 21, 3) != 0).then(|| start + 12 * (1 + pseudo_random(place, 22, 3)));
    let status = match (end, pseudo_random(place, 23, 6)) {
        (_, 0) => "draft",
        (Some(end), _) if end < 34 => "ended",
        _ => "signed",
    };
    let (kind, subject) = (choose(&CONTRACT_KINDS, place, 24), choose(&SUBJECTS, place, 25));
    let responsible = people.users[choose(&[FARID, DAVID, EMMA], place, 26)];
    let mut item = json!({
        "owner": responsible,
        "fields": {
            "number": format!("C-{:04}", 1001 + place), "title": subject, "supplier": company, "status": status,
            "kind": kind, "start_on": day(start, 0), "end_on": end.map(|end| day(end, 27)),
            "value": cents(120_000 + pseudo_random(place, 27, 9_000) * 1_000), "renews": end.is_none() || pseudo_random(place, 28, 2) == 0,
            "responsible": responsible,
            "remarks": (pseudo_random(place, 29, 5) == 0).then(|| choose(&REMARKS, place, 30)),
        },
    });
    // Partners may view some contracts.
    if place.is_multiple_of(20) {
        item["permission_sets"] = json!([{"permission_set": class.readers, "user_groups": [people.partners]}]);
    }
    item
}

fn invoice(place: usize, contract: i64, people: &Organisation, class: DemoClass) -> Json {
    // Invoices are in the order of their numbers, over two and a half years.
    let (month, on) = (4 + place * 30 / INVOICES, pseudo_random(place, 40, 28));
    let is_paid = month < 32 && pseudo_random(place, 41, 12) != 0;
    let status = match pseudo_random(place, 42, 20) {
        0 => "disputed",
        _ if is_paid => "booked",
        1..8 => "checked",
        _ => "received",
    };
    let checked_by = (status != "received").then(|| people.users[choose(&[JONAS, CLARA], place, 43)]);
    let mut item = json!({
        "owner": people.users[choose(&[JONAS, CLARA], place, 44)],
        "fields": {
            "number": format!("I-{:05}", 10_001 + place), "contract": contract, "status": status,
            "issued_on": day(month, on), "due_on": day(month + 1, on), "amount": cents(5_000 + pseudo_random(place, 45, 800_000)),
            "cost_centre": choose(&COST_CENTRES, place, 46), "is_paid": is_paid,
            "paid_on": is_paid.then(|| day(month + 1, pseudo_random(place, 47, 28))),
            "received_at": format!("{}T{:02}:{:02}:00Z", day(month, on), 7 + pseudo_random(place, 48, 10), pseudo_random(place, 49, 60)),
            "checked_by": checked_by,
            "remarks": (pseudo_random(place, 50, 7) == 0).then(|| choose(&REMARKS, place, 51)),
        },
    });
    // The agents of one person may edit these.
    if place.is_multiple_of(50) {
        item["permission_sets"] = json!([{"permission_set": class.editors, "users": [people.users[JONAS]]}]);
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_companies_are_all_different() {
        let people = Organisation {
            users: vec![1; 12],
            accounts: 1,
            contracts: 2,
            partners: 3,
            num_of_roles: 2,
            num_of_groups: 3,
        };
        let name = |place| company(place, &people)["fields"]["name"].as_str().map(str::to_owned);
        assert_eq!((0..COMPANIES).map(name).collect::<BTreeSet<_>>().len(), COMPANIES);
    }

    #[test]
    fn days_are_counted_from_january_2024() {
        assert_eq!([day(0, 0), day(11, 27), day(12, 4)], ["2024-01-01", "2024-12-28", "2025-01-05"]);
        assert_eq!(cents(120_005), "1200.05");
    }
}
