//! Second factors, API keys and directories in the console. Passkeys belong to a host name, so the pages are opened at `localhost`.

use crate::{BINARY, run_asking};
use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, Installation, MailFile, PASSWORD, eventually, test_database};

/// The widths of the windows. Each has accounts of its own, because the journeys run at all widths at once.
const WIDTHS: [&str; 2] = ["1280", "320"];
/// The accounts of people, by the beginning of their name.
const PEOPLE: [(&str, &str); 4] =
    [("app", "internal"), ("passkey", "internal"), ("recent", "internal"), ("due", "external")];

/// Creates the accounts of the journeys. Returns their ids by username.
async fn create_accounts(installation: &Installation, admin: &ApiClient) -> Value {
    let mut ids = json!({});
    for width in WIDTHS {
        for (name, account_type) in PEOPLE {
            let username = format!("{name}{width}@example.com");
            let person = json!({
                "username": username, "account_type": account_type, "first_name": name, "last_name": width,
            });
            ids[&username] = admin.post("/api/users/", person).await.id().into();
        }
        let username = format!("program{width}@example.com");
        let program = json!({
            "username": username, "account_type": "service_internal", "first_name": "Nightly", "last_name": "Import",
            "password": PASSWORD,
        });
        ids[&username] = admin.post("/api/users/", program).await.id().into();
    }
    let mails = || MailFile::read_all(&installation.data(), "localhost");
    eventually(async || mails().len() == WIDTHS.len() * PEOPLE.len()).await;
    for mail in mails() {
        let activation = json!({"token": mail.token(), "password": PASSWORD});
        admin.anonymous().post("/api/auth/activate/", activation).await.expect_empty();
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn organisations_protect_and_connect_their_accounts() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    installation.succeeds(&["build", "limits", "localhost", "users_service_internal", "2"]);
    // The address of the build is part of passkeys, so the port is chosen before.
    let free = installation.serve();
    let (listen, port) = (free.api().to_string(), free.api().port());
    free.stop();
    let address = format!("http://localhost:{port}");
    let installation = installation.listening_at(&listen).set("CHANCERY_BASE_URL", &address);
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let ids = create_accounts(&installation, &admin).await;
    let company = json!({
        "name": "Company", "provider": "provider_a", "client_id": "a", "client_secret": "b", "tenant_id": "c",
        "is_enabled": true,
    });
    admin.post("/api/single-sign-on/", company).await.expect_created();
    let settings = json!({"api": address, "username": ADMIN, "password": PASSWORD, "ids": ids});
    run_asking("console_accounts.mjs", settings, |asked| match asked {
        "let time pass" => {
            installation.sql("build_1", "UPDATE sessions SET created_at = created_at - 660000000");
        }
        _ => panic!("nobody knows how to {asked}"),
    });
}
