//! The classes of the demo: companies, their contracts, and the invoices of contracts. It creates fields, permission sets, a form
//! and a document template.

use super::calls::DemoCaller;
use super::organisation::Organisation;
use crate::open::CommandFailure;
use serde_json::{Value as Json, json};

/// A Word document with tags of the class of contracts.
const LETTER: &[u8] = include_bytes!("contract.docx");

/// A class and its two record permission sets.
#[derive(Clone, Copy)]
pub struct DemoClass {
    pub id: i64,
    /// Grants `view`.
    pub readers: i64,
    /// Grants `edit`, and the completion of tasks.
    pub editors: i64,
}

pub struct DemoClasses {
    pub company: DemoClass,
    pub contract: DemoClass,
    pub invoice: DemoClass,
}

impl DemoClasses {
    pub fn classes(&self) -> [DemoClass; 3] {
        [self.company, self.contract, self.invoice]
    }
}

/// Creates the classes.
pub async fn make(admin: &mut DemoCaller, people: &Organisation) -> Result<DemoClasses, CommandFailure> {
    let company = class(admin, "Company", "Whom we buy from", company_fields()).await?;
    let contract = class(admin, "Contract", "What was agreed with a company", contract_fields(company.id)).await?;
    let invoice = class(admin, "Invoice", "What a contract costs us", invoice_fields(contract.id)).await?;

    // All users may view the companies. Groups may view the other classes.
    let sets = format!("/api/object-classes/{}/permission-sets/", company.id);
    let listed = admin.get(&sets).await?;
    let results = listed["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let everyone = results.iter().find(|set| set["type"] == "everyone").and_then(|set| set["id"].as_i64());
    let everyone = everyone.ok_or_else(|| format!("GET {sets}: there is no set for everyone"))?;
    admin.patch(&format!("{sets}{everyone}/"), json!({"permissions": {"object_records": ["view"]}})).await?;
    staff(admin, company, "Company desk", &[people.contracts, people.accounts]).await?;
    staff(admin, contract, "Contract desk", &[people.contracts]).await?;
    staff(admin, invoice, "Accounts desk", &[people.accounts]).await?;

    let reading = json!({"name": "Contract readers", "permissions": {"object_records": ["view"]}});
    assign(admin, contract, reading, &[people.accounts]).await?;
    Ok(DemoClasses { company, contract, invoice })
}

async fn class(
    admin: &mut DemoCaller,
    name: &str,
    description: &str,
    fields: Vec<Json>,
) -> Result<DemoClass, CommandFailure> {
    let id = admin.make("/api/object-classes/", json!({"name": name, "description": description})).await?;
    for field in fields {
        admin.post(&format!("/api/object-classes/{id}/fields/"), field).await?;
    }
    let sets = format!("/api/object-classes/{id}/record-permission-sets/");
    let readers = json!({"name": "Readers", "permissions": {"object_records": ["view"], "tasks": ["view"]}});
    let editors =
        json!({"name": "Editors", "permissions": {"object_records": ["edit"], "tasks": ["complete", "create"]}});
    Ok(DemoClass { id, readers: admin.make(&sets, readers).await?, editors: admin.make(&sets, editors).await? })
}

/// Permits groups to work with all records of a class.
async fn staff(admin: &mut DemoCaller, class: DemoClass, name: &str, groups: &[i64]) -> Result<(), CommandFailure> {
    let permissions = json!({
        "object_classes": ["view"], "object_records": ["create", "edit"], "tasks": ["create", "edit", "complete", "assign"],
    });
    assign(admin, class, json!({"name": name, "permissions": permissions}), groups).await
}

async fn assign(admin: &mut DemoCaller, class: DemoClass, set: Json, groups: &[i64]) -> Result<(), CommandFailure> {
    let sets = format!("/api/object-classes/{}/permission-sets/", class.id);
    let set = admin.make(&sets, set).await?;
    admin.post(&format!("{sets}{set}/assignees/user-groups/"), json!(groups)).await?;
    Ok(())
}

fn options(values: &[&str]) -> Json {
    let text = |value: &str| {
        let text = value.replace('_', " ");
        if text == "it" {
            return "IT".to_owned();
        }
        text[..1].to_uppercase() + &text[1..]
    };
    Json::from_iter(values.iter().map(|value| json!({"value": value, "text": text(value)})))
}

pub const INDUSTRIES: [&str; 4] = ["logistics", "software", "food", "energy"];
pub const COMPANY_TAGS: [&str; 3] = ["strategic", "local", "new"];
pub const CONTRACT_KINDS: [&str; 4] = ["supply", "service", "lease", "licence"];
pub const COST_CENTRES: [&str; 4] = ["office", "warehouse", "it", "marketing"];

fn company_fields() -> Vec<Json> {
    vec![
        json!({"label": "Name", "type": "string", "is_required": true, "is_unique": true, "max_length": 100}),
        json!({"label": "Industry", "type": "enum", "options": options(&INDUSTRIES)}),
        json!({"label": "Website", "type": "url"}),
        json!({"label": "Email", "type": "email", "description": "Where invoices are asked about"}),
        json!({"label": "Phone", "type": "string", "max_length": 30}),
        json!({"label": "Employees", "type": "integer", "min_value": 0}),
        json!({"label": "Is active", "type": "boolean", "default": true}),
        json!({"label": "Account manager", "type": "user"}),
        json!({"label": "Tags", "type": "set", "options": options(&COMPANY_TAGS)}),
        json!({"label": "Notes", "type": "text"}),
    ]
}

fn contract_fields(company: i64) -> Vec<Json> {
    let states = options(&["draft", "signed", "ended"]);
    vec![
        json!({"label": "Number", "type": "string", "is_required": true, "is_unique": true, "max_length": 20}),
        json!({"label": "Title", "type": "string", "is_required": true}),
        json!({"label": "Supplier", "type": "relation", "is_required": true, "related_object_class": company, "on_delete": "refuse"}),
        json!({"label": "Status", "type": "status", "options": states, "initial": "draft"}),
        json!({"label": "Kind", "type": "enum", "options": options(&CONTRACT_KINDS)}),
        json!({"label": "Start on", "type": "date", "is_required": true}),
        json!({"label": "End on", "type": "date"}),
        json!({"label": "Value", "type": "decimal", "precision": 12, "scale": 2, "description": "In euros, a year"}),
        json!({"label": "Renews", "type": "boolean", "default": false, "description": "Goes on unless somebody ends it"}),
        json!({"label": "Responsible", "type": "user"}),
        json!({"label": "Signed copy", "type": "document", "max_num_of_files": 3}),
        json!({"label": "Remarks", "type": "text"}),
    ]
}

fn invoice_fields(contract: i64) -> Vec<Json> {
    let states = options(&["received", "checked", "booked", "disputed"]);
    vec![
        json!({"label": "Number", "type": "string", "is_required": true, "is_unique": true, "max_length": 20}),
        json!({"label": "Contract", "type": "relation", "is_required": true, "related_object_class": contract, "on_delete": "refuse"}),
        json!({"label": "Status", "type": "status", "options": states, "initial": "received"}),
        json!({"label": "Issued on", "type": "date", "is_required": true}),
        json!({"label": "Due on", "type": "date"}),
        json!({"label": "Amount", "type": "decimal", "is_required": true, "precision": 12, "scale": 2}),
        json!({"label": "Cost centre", "type": "enum", "options": options(&COST_CENTRES)}),
        json!({"label": "Is paid", "type": "boolean", "default": false}),
        json!({"label": "Paid on", "type": "date"}),
        json!({"label": "Received at", "type": "datetime"}),
        json!({"label": "Checked by", "type": "user"}),
        json!({"label": "Scan", "type": "document"}),
        json!({"label": "Remarks", "type": "text"}),
    ]
}

/// Creates the document template of contracts.
pub async fn document_template(admin: &mut DemoCaller, classes: &DemoClasses) -> Result<(), CommandFailure> {
    let token = admin.upload("contract.docx", LETTER).await?;
    let path = format!("/api/object-classes/{}/document-templates/", classes.contract.id);
    let body = json!({
        "name": "Contract summary", "description": "What was agreed, and the invoices so far", "template_file": token,
    });
    admin.post(&path, body).await.map(drop)
}

/// Creates the form for the input of invoices.
pub async fn form(admin: &mut DemoCaller, classes: &DemoClasses) -> Result<(), CommandFailure> {
    let item = |field: &str, is_required: bool| json!({"field": field, "required": is_required});
    let configuration = json!({"version": 1, "sections": [
        {
            "title": "The invoice", "text": "As it stands on the paper.",
            "items": [item("number", true), item("contract", true), item("issued_on", true), item("due_on", false),
                item("amount", true)],
        },
        {"title": "For the books", "items": [item("cost_centre", true), item("scan", false), item("remarks", false)]},
    ]});
    let body = json!({
        "name": "Enter an invoice", "object_class": classes.invoice.id, "type": "create", "is_enabled": true,
        "configuration": configuration,
    });
    admin.post("/api/object-class-forms/", body).await.map(drop)
}
