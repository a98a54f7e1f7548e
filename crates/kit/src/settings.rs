//! The settings of the kit (`docs/operations.md`), together with those of the modules.

use crate::address::{Ranges, TrustedProxies};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use store::StoreEngine;
use web::clock::Clock;

/// The settings of the kit, named as in `docs/operations.md`, and those of the modules.
#[derive(Clone)]
pub struct KitSettings {
    pub engine: StoreEngine,
    /// The sizes and limits of the store. Operators cannot set them.
    pub store: store::Options,
    pub data: PathBuf,
    pub secret_key: String,
    /// The key of the deployment's routes; `None`: these routes refuse all callers.
    pub api_key: Option<String>,
    pub base_url: String,
    pub sign_in_url: Option<String>,
    pub fallback_build: Option<String>,
    pub outbound_allow: Ranges,
    pub trusted_proxies: TrustedProxies,
    pub cors_origins: Vec<String>,
    /// Is true if the front end that is part of the program is served.
    pub console: bool,
    pub clock: Clock,
    pub domains: ModuleSettings,
}

impl KitSettings {
    /// Settings with a secret key and the defaults of everything else, for tests and benchmarks.
    pub fn new(engine: StoreEngine, data: PathBuf, secret_key: impl Into<String>) -> KitSettings {
        KitSettings {
            engine,
            store: store::Options::default(),
            data,
            secret_key: secret_key.into(),
            api_key: None,
            base_url: "http://127.0.0.1:8000".to_owned(),
            sign_in_url: None,
            fallback_build: None,
            outbound_allow: Ranges::default(),
            trusted_proxies: TrustedProxies::default(),
            cors_origins: Vec::new(),
            console: true,
            clock: Clock::system(),
            domains: ModuleSettings::default(),
        }
    }
}

/// The settings of the modules, found by type. A module without an entry has its defaults.
#[derive(Clone, Default)]
pub struct ModuleSettings(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl ModuleSettings {
    /// Adds the settings of a module.
    pub fn with_settings<T: Send + Sync + 'static>(mut self, settings: T) -> ModuleSettings {
        self.0.insert(TypeId::of::<T>(), Arc::new(settings));
        self
    }

    /// Returns the settings of a module for changes.
    pub fn edit<T: Clone + Default + Send + Sync + 'static>(&mut self) -> &mut T {
        let entry = self.0.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        if Arc::get_mut(entry).is_none() {
            *entry = Arc::new(entry.downcast_ref::<T>().cloned().unwrap_or_default());
        }
        let settings = Arc::get_mut(entry).and_then(|settings| settings.downcast_mut());
        settings.expect("a new entry has one owner and the type of its key")
    }

    /// Returns the settings of a module.
    pub fn get<T: Clone + Default + 'static>(&self) -> T {
        self.0.get(&TypeId::of::<T>()).and_then(|settings| settings.downcast_ref::<T>()).cloned().unwrap_or_default()
    }
}
