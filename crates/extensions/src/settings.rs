//! The settings of extensions, and the document store of the deployment.

use kit::app::App;
use store::blobs::{DocumentStore, process_environment};

/// The settings of this module.
#[derive(Clone)]
pub struct ExtensionSettings {
    /// `CHANCERY_DOCUMENT_STORE_URL`: the destination of copies of documents; `None` if documents are not copied.
    pub document_store_url: Option<String>,
    /// The environment variables with the endpoint and the keys of S3; `None` for those of the process.
    pub environment: Option<Vec<(String, String)>>,
    /// The maximum number of waiting deliveries of a webhook. Only tests change it.
    pub waiting_deliveries: i64,
}

impl Default for ExtensionSettings {
    fn default() -> ExtensionSettings {
        ExtensionSettings { document_store_url: None, environment: None, waiting_deliveries: 100_000 }
    }
}

/// The slot of [`store_of_documents`].
pub struct Documents(Option<DocumentStore>);

impl Documents {
    pub fn open(settings: &ExtensionSettings) -> Result<Documents, String> {
        let Some(url) = &settings.document_store_url else { return Ok(Documents(None)) };
        let environment = settings.environment.clone().unwrap_or_else(|| process_environment().collect());
        DocumentStore::open(url, environment).map(|store| Documents(Some(store)))
    }
}

/// Returns the store of copies of documents, if it is configured.
pub fn store_of_documents(app: &App) -> Option<&DocumentStore> {
    app.slot::<Documents>().0.as_ref()
}
