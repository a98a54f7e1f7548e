//! The answer to a request in the form of a page.
//!
//! The page decides which headers it shows and what it omits; everything else is the real answer.

use crate::pattern::{self, Placeholders};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value as Json};

/// The maximum width of a line of JSON.
const WIDTH: usize = 110;
/// The placeholder for omitted content.
const REST: &str = "…";

/// An answer.
pub struct DocumentedAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

/// Renders an answer with the choices of the text in the page. Returns the same text if it is still correct.
pub fn render_answer(before: &str, answer: &DocumentedAnswer, names: &mut Placeholders) -> String {
    let (head, body) = before.split_once("\n\n").unwrap_or((before.trim_end(), ""));
    let reason = StatusCode::from_u16(answer.status).ok().and_then(|status| status.canonical_reason()).unwrap_or("");
    let mut lines = vec![format!("HTTP/1.1 {} {reason}", answer.status).trim_end().to_owned()];
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        let real: Vec<&str> = answer.headers.get_all(name).iter().map(|value| value.to_str().unwrap_or(REST)).collect();
        let kept = real.iter().any(|real| pattern::matches(value, real, names));
        lines.extend(if kept { Some(line.to_owned()) } else { real.first().map(|real| format!("{name}: {real}")) });
    }
    let body = body.trim_end();
    let body = match serde_json::from_str::<Json>(&answer.text) {
        Ok(real) => {
            let now = merge_answer(serde_json::from_str(body).ok().as_ref(), &real, names);
            // The page's own text has the same content as a new one.
            let is_same = serde_json::from_str::<Json>(body).is_ok_and(|before| before == now);
            if is_same { body.to_owned() } else { pretty(&now, 0, 0) }
        }
        Err(_) if pattern::matches(body, answer.text.trim_end(), names) => body.to_owned(),
        Err(_) => answer.text.trim_end().to_owned(),
    };
    if !body.is_empty() {
        lines.extend([String::new(), body]);
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the real value, without the content that the page omits.
fn merge_answer(before: Option<&Json>, real: &Json, names: &mut Placeholders) -> Json {
    match (before, real) {
        (Some(Json::String(pattern)), Json::String(text)) if pattern::matches(pattern, text, names) => {
            Json::String(pattern.clone())
        }
        (Some(Json::String(rest)), Json::Number(_)) if rest == REST => Json::String(REST.to_owned()),
        (Some(Json::Object(before)), Json::Object(real)) => Json::Object(merged_object(before, real, names)),
        (Some(Json::Array(before)), Json::Array(real)) => Json::Array(merged_array(before, real, names)),
        (_, real) => real.clone(),
    }
}

fn merged_object(before: &Map<String, Json>, real: &Map<String, Json>, names: &mut Placeholders) -> Map<String, Json> {
    if !before.contains_key(REST) {
        return real.iter().map(|(name, real)| (name.clone(), merge_answer(before.get(name), real, names))).collect();
    }
    let mut now = Map::new();
    for (name, before) in before {
        if name == REST {
            now.insert(name.clone(), before.clone());
        } else if let Some(real) = real.get(name) {
            now.insert(name.clone(), merge_answer(Some(before), real, names));
        }
    }
    now
}

/// Merges a list. It can omit the items after the first ones (`[1, 2, "…"]`).
fn merged_array(before: &[Json], real: &[Json], names: &mut Placeholders) -> Vec<Json> {
    let rest = before.len().checked_sub(1).filter(|last| before[*last] == REST && real.len() > *last);
    let shown = &real[..rest.unwrap_or(real.len())];
    let mut now: Vec<Json> =
        shown.iter().enumerate().map(|(n, real)| merge_answer(before.get(n), real, names)).collect();
    now.extend(rest.map(|_| Json::from(REST)));
    now
}

/// Formats JSON for people: a value that fits is on one line. `used` is the number of characters before it on the first line.
fn pretty(value: &Json, indent: usize, used: usize) -> String {
    let line = one_line(value);
    if used + line.chars().count() < WIDTH {
        return line;
    }
    let inner = indent + 2;
    let (open, items, close) = match value {
        Json::Object(members) => {
            let member = |(name, value): (&String, &Json)| {
                let name = format!("{}: ", Json::from(name.as_str()));
                let value = pretty(value, inner, inner + name.chars().count());
                name + &value
            };
            ('{', members.iter().map(member).collect::<Vec<_>>(), '}')
        }
        Json::Array(items) => ('[', items.iter().map(|item| pretty(item, inner, inner)).collect(), ']'),
        _ => return line,
    };
    let (inner, outer) = (" ".repeat(inner), " ".repeat(indent));
    format!("{open}\n{inner}{}\n{outer}{close}", items.join(&format!(",\n{inner}")))
}

fn one_line(value: &Json) -> String {
    match value {
        Json::Object(members) => {
            let member =
                |(name, value): (&String, &Json)| format!("{}: {}", Json::from(name.as_str()), one_line(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Json::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}
