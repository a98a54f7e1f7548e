//! The people of the demo, their roles and groups, and the company's details.

use super::calls::DemoCaller;
use crate::open::CommandFailure;
use platform::builds;
use platform::kit::app::App;
use platform::kit::build::Build;
use serde_json::{Value as Json, json};
use web::clock::random_token;

/// A person of the demo.
struct DemoPerson {
    first_name: &'static str,
    last_name: &'static str,
    account_type: &'static str,
    job_title: &'static str,
    company_name: &'static str,
    state: AccountProgress,
}

/// The state of an account.
#[derive(Clone, Copy, PartialEq)]
enum AccountProgress {
    /// The account never signed in, because no link was mailed.
    Pending,
    Active,
    Deactivated,
}

const OURS: &str = "Tidewater Trading";

const fn demo_person(
    first_name: &'static str,
    last_name: &'static str,
    account_type: &'static str,
    job_title: &'static str,
    company_name: &'static str,
    state: AccountProgress,
) -> DemoPerson {
    DemoPerson { first_name, last_name, account_type, job_title, company_name, state }
}

/// The indices of some people in [`PEOPLE`].
pub const ANNA: usize = 0;
pub const FARID: usize = 1;
pub const JONAS: usize = 2;
pub const CLARA: usize = 3;
pub const DAVID: usize = 4;
pub const EMMA: usize = 5;
const INES: usize = 8;

const PEOPLE: [DemoPerson; 12] = [
    demo_person("Anna", "Berg", "full", "Head of office", OURS, AccountProgress::Active),
    demo_person("Farid", "Rahimi", "full", "Records manager", OURS, AccountProgress::Active),
    demo_person("Jonas", "Weber", "internal", "Accounts clerk", OURS, AccountProgress::Active),
    demo_person("Clara", "Novak", "internal", "Accountant", OURS, AccountProgress::Active),
    demo_person("David", "Okafor", "internal", "Contract manager", OURS, AccountProgress::Active),
    demo_person("Emma", "Lindqvist", "internal", "Lawyer", OURS, AccountProgress::Active),
    demo_person("Grace", "Murphy", "internal", "Contract manager", OURS, AccountProgress::Deactivated),
    demo_person("Hugo", "Martin", "internal", "Trainee", OURS, AccountProgress::Pending),
    demo_person("Ines", "Costa", "external", "Key account manager", "Aster Logistics", AccountProgress::Active),
    demo_person("Karl", "Schmidt", "external", "Sales manager", "Beacon Software", AccountProgress::Pending),
    demo_person("Report", "Service", "service_internal", "", OURS, AccountProgress::Active),
    demo_person("Import", "Service", "service_external", "", "Cedar Foods", AccountProgress::Active),
];

/// The ids of the organisation's people and groups.
pub struct Organisation {
    /// The ids in the order of [`PEOPLE`].
    pub users: Vec<i64>,
    pub accounts: i64,
    pub contracts: i64,
    pub partners: i64,
    pub num_of_roles: usize,
    pub num_of_groups: usize,
}

/// Returns the address of a person. Addresses of `.example` do not exist.
pub fn username(place: usize) -> String {
    let DemoPerson { first_name, last_name, .. } = &PEOPLE[place];
    format!("{}.{}@demo.example", first_name.to_lowercase(), last_name.to_lowercase())
}

pub fn account_type(place: usize) -> &'static str {
    PEOPLE[place].account_type
}

/// Creates the organisation. The people whose indices are in `passwords` get these passwords, other active people random ones.
pub async fn make(
    app: &App,
    build: &Build,
    admin: &mut DemoCaller,
    passwords: &[(usize, String)],
) -> Result<Organisation, CommandFailure> {
    let details = json!({
        "admin_first_name": "Anna", "admin_last_name": "Berg", "admin_email_address": username(ANNA),
        "admin_job_title": "Head of office", "admin_phone_number": "+49 30 5550100",
        "admin_email_signature": "Yours\nTidewater Trading",
    });
    admin.patch("/api/administration/company-details/", details).await?;
    let roles = roles(admin).await?;
    let users = create_people(app, build, admin, passwords, &roles).await?;
    let groups = groups(admin, &users).await?;
    let [accounts, contracts, partners] = groups;
    Ok(Organisation { users, accounts, contracts, partners, num_of_roles: roles.len(), num_of_groups: groups.len() })
}

async fn roles(admin: &mut DemoCaller) -> Result<[i64; 2], CommandFailure> {
    let office = json!({
        "name": "Office",
        "description": "Looks after people, groups and the company's details",
        "permissions": {
            "users": ["create", "edit"], "user_groups": ["create", "view"], "roles": ["view"],
            "company_details": ["edit"], "administration_log": ["list"],
        },
    });
    let records = json!({
        "name": "Records",
        "description": "Looks after classes, their records and templates of tasks",
        "permissions": {
            "object_classes": ["create", "edit"], "object_records": ["create", "edit"], "task_templates": ["create", "edit"],
        },
    });
    Ok([admin.make("/api/roles/", office).await?, admin.make("/api/roles/", records).await?])
}

async fn create_people(
    app: &App,
    build: &Build,
    admin: &mut DemoCaller,
    passwords: &[(usize, String)],
    roles: &[i64; 2],
) -> Result<Vec<i64>, CommandFailure> {
    let mut users = Vec::with_capacity(PEOPLE.len());
    for (place, person) in PEOPLE.iter().enumerate() {
        let username = username(place);
        let mut body = json!({
            "username": username, "account_type": person.account_type, "first_name": person.first_name,
            "last_name": person.last_name, "job_title": person.job_title, "company_name": person.company_name,
            "timezone": "Europe/Berlin", "phone": format!("+49 30 55501{place:02}"),
        });
        let is_service = person.account_type.starts_with("service");
        if is_service {
            body["password"] = json!(random_token());
        } else {
            // No link is mailed.
            body["delay_activation"] = json!(true);
        }
        match place {
            ANNA => body["roles"] = json!(roles),
            FARID => body["roles"] = json!([roles[1]]),
            _ => {}
        }
        let user = admin.make("/api/users/", body).await?;
        if !is_service && person.state != AccountProgress::Pending {
            let password =
                passwords.iter().find(|(account, _)| *account == place).map(|(_, password)| password.clone());
            builds::set_password(app, build, &username, &password.unwrap_or_else(random_token)).await?;
        }
        if person.state == AccountProgress::Deactivated {
            admin.post(&format!("/api/users/{user}/deactivate/"), json!({})).await?;
        }
        users.push(user);
    }
    Ok(users)
}

async fn groups(admin: &mut DemoCaller, users: &[i64]) -> Result<[i64; 3], CommandFailure> {
    let users_at = |places: &[usize]| Json::from_iter(places.iter().map(|place| users[*place]));
    let mut ids = [0; 3];
    let groups = [
        ("Accounts", "Pays and books invoices", users_at(&[JONAS, CLARA])),
        ("Contracts", "Negotiates contracts and keeps them", users_at(&[FARID, DAVID, EMMA])),
        ("Partners", "People of other companies", users_at(&[INES])),
    ];
    for (id, (name, description, members)) in ids.iter_mut().zip(groups) {
        *id = admin.make("/api/user-groups/", json!({"name": name, "description": description})).await?;
        admin.post(&format!("/api/user-groups/{id}/members/users/"), members).await?;
        admin.post(&format!("/api/user-groups/{id}/owners/users/"), users_at(&[ANNA])).await?;
        let sets = format!("/api/user-groups/{id}/permission-sets/");
        let coordinators = json!({"name": "Coordinators", "permissions": {"user_groups": ["edit"]}});
        let set = admin.make(&sets, coordinators).await?;
        admin.post(&format!("{sets}{set}/assignees/users/"), users_at(&[FARID])).await?;
    }
    Ok(ids)
}
