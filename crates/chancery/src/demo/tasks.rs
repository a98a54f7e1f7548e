//! Task templates of the demo, and tasks in most states.

use super::calls::DemoCaller;
use super::classes::DemoClasses;
use super::organisation::{ANNA, EMMA, JONAS, Organisation};
use super::records::DemoRecords;
use crate::open::CommandFailure;
use serde_json::{Value as Json, json};

/// The people who answer tasks, and the person who approves them.
pub struct TaskPeople<'a> {
    pub admin: &'a mut DemoCaller,
    pub anna: &'a mut DemoCaller,
    pub jonas: &'a mut DemoCaller,
}

/// The numbers of templates and tasks.
pub struct TaskCounts {
    pub templates: usize,
    pub tasks: usize,
}

/// Creates the templates and the tasks. Templates have no reminders, because reminders send mail.
pub async fn make(
    callers: TaskPeople<'_>,
    people: &Organisation,
    classes: &DemoClasses,
    records: &DemoRecords,
) -> Result<TaskCounts, CommandFailure> {
    let TaskPeople { admin, anna, jonas } = callers;
    let check = template(admin, invoice_check(classes)).await?;
    let review = template(admin, contract_review(classes)).await?;
    let survey = template(admin, survey()).await?;
    let checks = check_invoices(admin, jonas, people, records, check).await?;
    let reviews = review_contracts(admin, anna, people, records, review).await?;
    let surveys = ask_questions(admin, jonas, people, survey).await?;
    Ok(TaskCounts { templates: 3, tasks: checks + reviews + surveys })
}

/// Creates tasks for invoices. Returns their number.
async fn check_invoices(
    admin: &mut DemoCaller,
    jonas: &mut DemoCaller,
    people: &Organisation,
    records: &DemoRecords,
    template: i64,
) -> Result<usize, CommandFailure> {
    // Invoices: two to be checked, one to be approved, one approved, one rejected.
    let mut checks = Vec::new();
    for invoice in records.invoices.iter().rev().take(5) {
        let body = json!({
            "task_template": template, "object_record": invoice, "assignees": [people.users[JONAS]], "assignee_groups": [people.accounts],
        });
        checks.push(task(admin, body).await?);
    }
    for task in &checks[2..] {
        let response = json!({"fields": {"is_paid": true, "paid_on": "2026-11-20"}});
        call_action(jonas, *task, "complete", json!({"response": response, "comment": "Paid this morning."})).await?;
    }
    call_action(admin, checks[3], "approve", json!({"condition": "The amount is right", "comment": "Thank you."}))
        .await?;
    call_action(
        admin,
        checks[4],
        "reject",
        json!({"condition": "Something is missing", "comment": "Where is the second page?"}),
    )
    .await?;
    Ok(checks.len())
}

/// Creates tasks for contracts. Returns their number.
async fn review_contracts(
    admin: &mut DemoCaller,
    anna: &mut DemoCaller,
    people: &Organisation,
    records: &DemoRecords,
    template: i64,
) -> Result<usize, CommandFailure> {
    let user = |place: usize| people.users[place];
    // Contracts: two to be reviewed, one reviewed, one canceled.
    let mut reviews = Vec::new();
    let assigned = [json!([user(ANNA)]), json!([user(EMMA)]), json!([user(ANNA)]), json!([user(EMMA)])];
    for (contract, assignees) in records.contracts.iter().zip(assigned) {
        let body = json!({
            "task_template": template, "object_record": contract, "assignees": assignees, "assignee_groups": [people.contracts],
        });
        reviews.push(task(admin, body).await?);
    }
    let response = json!({"fields": {"renews": true, "remarks": "Renew it, but ask for a better price."}});
    call_action(anna, reviews[2], "complete", json!({"response": response})).await?;
    call_action(admin, reviews[3], "cancel", json!({})).await?;
    Ok(reviews.len())
}

/// Creates tasks without a record. Returns their number.
async fn ask_questions(
    admin: &mut DemoCaller,
    jonas: &mut DemoCaller,
    people: &Organisation,
    template: i64,
) -> Result<usize, CommandFailure> {
    let user = |place: usize| people.users[place];
    // Questions without a record: one to be answered, one answered, one opened again.
    let mut surveys = Vec::new();
    for name in ["The new canteen", "The move to the new office", "Working from home"] {
        let body = json!({
            "task_template": template, "name": name, "assignees": [user(JONAS), user(ANNA)], "assignee_groups": [people.accounts],
        });
        surveys.push(task(admin, body).await?);
    }
    let response = json!({"rating": "good", "reasons": "It is quiet.", "again": true});
    for task in &surveys[1..] {
        call_action(jonas, *task, "complete", json!({"response": response})).await?;
    }
    call_action(admin, surveys[2], "reopen", json!({})).await?;
    Ok(surveys.len())
}

async fn template(admin: &mut DemoCaller, body: Json) -> Result<i64, CommandFailure> {
    admin.make("/api/task-templates/", body).await
}

async fn task(admin: &mut DemoCaller, body: Json) -> Result<i64, CommandFailure> {
    admin.make("/api/tasks/", body).await
}

async fn call_action(caller: &mut DemoCaller, task: i64, action: &str, body: Json) -> Result<(), CommandFailure> {
    caller.post(&format!("/api/tasks/{task}/{action}/"), body).await.map(drop)
}

fn invoice_check(classes: &DemoClasses) -> Json {
    json!({
        "name": "Pay the invoice", "description": "Pay it, and say when",
        "complete_by": "time_frame", "complete_by_time_unit": "weeks", "complete_by_time_value": 2,
        "plugin_config": {
            "task_type": "tt_object_record_update", "prompt": "When was the invoice paid?", "approval_required": true,
            "approval_conditions": [{"name": "The amount is right"}, {"name": "Something is missing"}],
            "configuration": {
                "object_class": classes.invoice.id, "fields": ["is_paid", "paid_on", "remarks"],
                "instructions": "Compare the amount with the contract first.",
            },
        },
    })
}

fn contract_review(classes: &DemoClasses) -> Json {
    json!({
        "name": "Review the contract", "description": "Shall it go on?",
        "complete_by": "time_frame", "complete_by_time_unit": "months", "complete_by_time_value": 1,
        "plugin_config": {
            "task_type": "tt_object_record_update", "prompt": "Shall the contract be renewed?",
            "configuration": {
                "object_class": classes.contract.id, "fields": ["renews", "remarks"],
                "instructions": "Ask the people who work with the company.",
            },
        },
    })
}

/// Returns a task template. Its configuration has the format that the page of a mailed link supports
/// (`docs/reference/task-links.md`).
fn survey() -> Json {
    let ratings = ["good", "fair", "poor"].map(|value| json!({"value": value, "text": value}));
    json!({
        "name": "Ask for an opinion", "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 10,
        "plugin_config": {
            "task_type": "tt_form", "prompt": "What do you think?",
            "configuration": {
                "instructions": "There is no wrong answer.",
                "questions": [
                    {"name": "rating", "label": "How do you find it?", "type": "choice", "options": ratings, "required": true},
                    {"name": "reasons", "label": "Why?", "type": "longtext"},
                    {"name": "again", "label": "Shall we ask again?", "type": "boolean"},
                ],
            },
        },
    })
}
