//! The settings of extensions, and the store of copies of documents that they name.

use kit::app::App;
use store::blobs::{DocumentStore, process_environment};

/// The settings of this domain.
#[derive(Clone)]
pub struct ExtensionSettings {
    /// `CHANCERY_DOCUMENT_STORE_URL`: where documents are copied to; `None`: nowhere.
    pub document_store_url: Option<String>,
    /// The environment that names the endpoint and the keys of S3; `None`: that of the process.
    pub environment: Option<Vec<(String, String)>>,
    /// How many deliveries of a webhook may wait, which tests change.
    pub waiting_deliveries: i64,
}

impl Default for ExtensionSettings {
    fn default() -> ExtensionSettings {
        ExtensionSettings { document_store_url: None, environment: None, waiting_deliveries: 100_000 }
    }
}

/// What the process keeps of [`store_of_documents`].
pub struct Documents(Option<DocumentStore>);

impl Documents {
    pub fn open(settings: &ExtensionSettings) -> Result<Documents, String> {
        let Some(url) = &settings.document_store_url else { return Ok(Documents(None)) };
        let environment = settings.environment.clone().unwrap_or_else(|| process_environment().collect());
        DocumentStore::open(url, environment).map(|store| Documents(Some(store)))
    }
}

/// The store of copies of documents, if there is one.
pub fn store_of_documents(app: &App) -> Option<&DocumentStore> {
    app.slot::<Documents>().0.as_ref()
}
