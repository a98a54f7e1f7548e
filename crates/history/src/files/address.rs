//! Signed addresses of files at this service:
//! `/api/files/content/{database_name}/{file_id}?client=…&expires=…&signature=…`.
//!
//! The signature covers the method and all bytes of the address, so that no other spelling of an address is valid.
//! Every process with the same key accepts it.

use crate::engine::Tenant;
use hmac::{Hmac, KeyInit, Mac};
use http::Method;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use uuid::Uuid;
use web::clock::{Clock, hex};

/// The prefix of the paths of this service's addresses of files.
pub const CONTENT_PATH: &str = "/api/files/content/";
/// The validity of an address in seconds.
pub const ADDRESS_VALID_SECONDS: u64 = 15 * 60;

/// Separates the key of addresses from other keys that are derived from the same secret.
const PURPOSE: &[u8] = b"chancery history: addresses of files";
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Creates and verifies addresses.
pub struct Addresses {
    mac: Hmac<Sha256>,
    clock: Clock,
}

impl Addresses {
    /// Creates addresses that are signed with a key derived from a secret.
    pub fn new(secret: &[u8], clock: Clock) -> Addresses {
        let key = signing_mac(secret).chain_update(PURPOSE).finalize().into_bytes();
        Addresses { mac: signing_mac(&key), clock }
    }

    /// Creates an address without its host, for one method, valid for [`ADDRESS_VALID_SECONDS`].
    pub fn make(&self, method: &Method, tenant: &Tenant, file_id: Uuid) -> String {
        let path = format!("{CONTENT_PATH}{}/{file_id}", tenant.database_name);
        let client = tenant.client_id.to_string();
        let expires = (self.clock.now().div_euclid(MICROS_PER_SECOND) + ADDRESS_VALID_SECONDS as i64).to_string();
        let signature = self.signature(method, &path, &client, &expires);
        format!("{path}?client={client}&expires={expires}&signature={signature}")
    }

    /// Returns the client and the file of an address. `None` if [`Addresses::make`] did not create it, it is for
    /// another method, or it has expired.
    pub fn verify(&self, method: &Method, path: &str, query: &str) -> Option<(Uuid, Uuid)> {
        let (client, rest) = query.strip_prefix("client=")?.split_once("&expires=")?;
        let (expires, signature) = rest.split_once("&signature=")?;
        let expected = self.signature(method, path, client, expires);
        if !bool::from(expected.as_bytes().ct_eq(signature.as_bytes())) {
            return None;
        }
        if self.clock.now() >= expires.parse::<i64>().ok()?.checked_mul(MICROS_PER_SECOND)? {
            return None;
        }
        let (_, file_id) = path.rsplit_once('/')?;
        Some((client.parse().ok()?, file_id.parse().ok()?))
    }

    /// Returns the signature of an address. No part can contain a line feed, so different addresses have different
    /// messages.
    fn signature(&self, method: &Method, path: &str, client: &str, expires: &str) -> String {
        let message = format!("{method}\n{path}\n{client}\n{expires}");
        hex(&self.mac.clone().chain_update(message).finalize().into_bytes())
    }
}

fn signing_mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of any length will do")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_769_851_800_500_000;

    fn tenant() -> Tenant {
        Tenant {
            client_id: Uuid::new_v4(),
            secret_hash: String::new(),
            database_name: "acme".into(),
            client_label: "Acme".into(),
        }
    }

    fn verify(addresses: &Addresses, method: &Method, address: &str) -> Option<(Uuid, Uuid)> {
        let (path, query) = address.split_once('?').unwrap();
        addresses.verify(method, path, query)
    }

    #[test]
    fn an_address_is_good_for_its_method_and_its_time_in_every_process_with_the_key() {
        let clock = Clock::fixed(NOW);
        let (first, second) = (Addresses::new(b"secret", clock.clone()), Addresses::new(b"secret", clock.clone()));
        let (tenant, file_id) = (tenant(), Uuid::new_v4());
        let address = first.make(&Method::PUT, &tenant, file_id);
        assert_eq!(verify(&second, &Method::PUT, &address), Some((tenant.client_id, file_id)));
        assert_eq!(verify(&second, &Method::GET, &address), None);
        assert_eq!(verify(&Addresses::new(b"Secret", clock.clone()), &Method::PUT, &address), None);
        // The validity is at most 15 minutes, and up to a second less.
        clock.advance(899 * MICROS_PER_SECOND);
        assert!(verify(&first, &Method::PUT, &address).is_some());
        clock.advance(MICROS_PER_SECOND);
        assert_eq!(verify(&first, &Method::PUT, &address), None);
    }

    #[test]
    fn an_edited_address_is_refused_whatever_was_edited() {
        let addresses = Addresses::new(b"secret", Clock::fixed(NOW));
        let address = addresses.make(&Method::PUT, &tenant(), Uuid::new_v4());
        let start = CONTENT_PATH.len();
        for at in start..address.len() {
            let mut edited = address.clone().into_bytes();
            edited[at] = if edited[at] == b'0' { b'1' } else { b'0' };
            let edited = String::from_utf8(edited).unwrap();
            if edited.contains('?') {
                assert_eq!(verify(&addresses, &Method::PUT, &edited), None, "{edited}");
            }
        }
        let longer = address.replace("expires=1", "expires=2");
        assert_ne!(longer, address);
        for edited in [longer, address.to_uppercase(), format!("{address}&x=1"), format!("{address}0")] {
            assert_eq!(verify(&addresses, &Method::PUT, &edited), None, "{edited}");
        }
        assert_eq!(addresses.verify(&Method::PUT, address.split('?').next().unwrap(), ""), None);
    }
}
