//! Reads every list, every instance and every file of a build that a super admin can read by GET.

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use testkit::ApiClient;

/// The number of instances of a list whose own addresses are read.
const INSTANCES: usize = 12;
/// Answers that differ without a difference of the build: the time, the caller's own session, and sign-ins of the crawl.
const LEFT_OUT: [&str; 8] = [
    "/api/administration/system/",
    "/api/administration/sign-ins/",
    "/api/openapi.json",
    "/api/docs",
    "/readyz",
    "/api/users/me/sessions/",
    "/api/users/me/second-factors/",
    "/api/timezones/",
];
/// Members that a sign-in of the crawl changes, and signatures of addresses.
const CHANGING: [&str; 3] = ["last_login", "last_used_at", "failed_attempts"];

/// The answers of a build by their addresses: the status, and the JSON or the bytes.
pub type Answers = BTreeMap<String, (u16, String)>;

/// Reads all answers of a build.
pub async fn crawl(client: &ApiClient) -> Answers {
    let description = client.get("/api/openapi.json").await.ok();
    let paths: Vec<String> = description["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, item)| item.get("get").is_some() && !LEFT_OUT.iter().any(|left_out| path.starts_with(left_out)))
        .map(|(path, _)| path.clone())
        .collect();
    let (mut answers, mut ids) = (Answers::new(), BTreeMap::new());
    for path in &paths {
        for address in addresses(client, path, &mut ids).await {
            read(client, &address, &mut answers).await;
        }
    }
    answers
}

/// Returns the addresses of a path: each parameter stands for the instances of the list before it.
async fn addresses(client: &ApiClient, path: &str, ids: &mut BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut found = vec![String::new()];
    for segment in path.split('/').skip(1) {
        let mut next = Vec::new();
        for before in found {
            if !segment.starts_with('{') {
                next.push(format!("{before}/{segment}"));
                continue;
            }
            for id in ids_of(client, &format!("{before}/"), ids).await {
                next.push(format!("{before}/{id}"));
            }
        }
        found = next;
    }
    found
}

/// Returns the ids of the first instances of a list. Instances of all classes together have no list of their own.
async fn ids_of(client: &ApiClient, list: &str, ids: &mut BTreeMap<String, Vec<String>>) -> Vec<String> {
    if let Some(known) = ids.get(list) {
        return known.clone();
    }
    let list_of = match list {
        "/api/object-records/" => "/api/object-classes/2/object-records/",
        list => list,
    };
    let reply = client.get(&format!("{list_of}?limit=1000")).await;
    let id = |item: &Json| match (&item["id"], &item["uuid"]) {
        (Json::Number(id), _) => Some(id.to_string()),
        (_, Json::String(uuid)) | (Json::String(uuid), _) => Some(uuid.clone()),
        _ => None,
    };
    let results = reply.json["results"].as_array().cloned().unwrap_or_default();
    let found: Vec<String> = results.iter().filter_map(id).take(INSTANCES).collect();
    ids.insert(list.to_owned(), found.clone());
    found
}

async fn read(client: &ApiClient, address: &str, answers: &mut Answers) {
    let reply = client.get(address).await;
    let mut json = reply.json.clone();
    without_changing(&mut json);
    let text = if json.is_null() { format!("{:?}", reply.bytes) } else { json.to_string() };
    answers.insert(address.to_owned(), (reply.status, text));
    let mut files = Vec::new();
    links(&json, &mut files);
    for file in files {
        if let Entry::Vacant(answer) = answers.entry(file) {
            let reply = client.get(answer.key()).await;
            answer.insert((reply.status, format!("{:?}", reply.bytes)));
        }
    }
}

fn without_changing(json: &mut Json) {
    match json {
        Json::Object(members) => {
            CHANGING.iter().for_each(|name| drop(members.remove(*name)));
            members.values_mut().for_each(without_changing);
        }
        Json::Array(items) => items.iter_mut().for_each(without_changing),
        _ => {}
    }
}

/// Collects the addresses of files in an answer.
fn links(json: &Json, found: &mut Vec<String>) {
    match json {
        Json::Object(members) => {
            if let (Some(Json::String(url)), Some(_)) = (members.get("url"), members.get("size")) {
                let path = url.split_once("://").map_or(url.as_str(), |(_, rest)| &rest[rest.find('/').unwrap_or(0)..]);
                found.push(path.to_owned());
            }
            members.values().for_each(|value| links(value, found));
        }
        Json::Array(items) => items.iter().for_each(|item| links(item, found)),
        _ => {}
    }
}

/// Compares the answers of two builds, and names each difference.
#[track_caller]
pub fn assert_same(before: &Answers, after: &Answers) {
    let mut differences = Vec::new();
    for (address, answer) in before {
        match after.get(address) {
            Some(same) if same == answer => {}
            Some((status, text)) => {
                differences.push(format!("{address}\n  {} {}\n  {status} {text}", answer.0, answer.1))
            }
            None => differences.push(format!("{address} is missing")),
        }
    }
    differences
        .extend(after.keys().filter(|address| !before.contains_key(*address)).map(|added| format!("{added} is new")));
    assert!(differences.is_empty(), "{} answers differ:\n{}", differences.len(), differences.join("\n"));
}
