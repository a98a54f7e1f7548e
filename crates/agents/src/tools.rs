//! The tools that connectors offer to agents (`docs/reference/mcp-connectors.md`).

use resource::{Choice, Value};
use std::sync::Arc;

/// A tool: its name, what people read it as, and whether it only reads.
pub struct Tool {
    pub name: &'static str,
    pub text: &'static str,
    pub is_read_only: bool,
}

const fn reads(name: &'static str, text: &'static str) -> Tool {
    Tool { name, text, is_read_only: true }
}

const fn writes(name: &'static str, text: &'static str) -> Tool {
    Tool { name, text, is_read_only: false }
}

/// All tools, in the order in which they are listed.
pub const TOOLS: [Tool; 15] = [
    reads("list_object_classes", "List object classes"),
    reads("describe_object_class", "Describe an object class"),
    reads("search_records", "Search records"),
    reads("get_record", "Read a record"),
    writes("create_record", "Create records"),
    writes("update_record", "Change records"),
    writes("delete_record", "Delete records"),
    reads("list_tasks", "List tasks"),
    reads("get_task", "Read a task"),
    writes("create_task", "Create tasks"),
    writes("update_task", "Change tasks"),
    writes("assign_task", "Assign tasks"),
    writes("complete_task", "Complete tasks"),
    writes("delete_task", "Delete tasks"),
    reads("get_record_history", "Read the history of a record"),
];

/// The tools as the values of a field.
pub fn choices() -> Arc<[Choice]> {
    TOOLS.iter().map(|tool| Choice::new(tool.name, tool.text)).collect()
}

/// The tools that only read: what a connector offers unless it is told otherwise.
pub fn read_only() -> Value {
    let all = TOOLS.iter().filter(|tool| tool.is_read_only);
    Value::List(all.map(|tool| tool.name.into()).collect())
}
