//! Time and randomness.
//!
//! Tests must be able to set the time. Other code therefore never reads it from the system (`clippy.toml` bans it): a handler
//! gets its `now` from the [`Clock`] of its context. All instants are microseconds since 1970-01-01T00:00:00Z as `i64`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The source of time. Clones of a fixed clock share its time.
#[derive(Clone, Debug)]
pub struct Clock(TimeSource);

#[derive(Clone, Debug)]
enum TimeSource {
    System,
    Fixed(Arc<AtomicI64>),
}

impl Clock {
    /// Returns the clock of the machine.
    pub fn system() -> Clock {
        Clock(TimeSource::System)
    }

    /// Returns a clock for tests, which stands still until it is advanced.
    pub fn fixed(micros: i64) -> Clock {
        Clock(TimeSource::Fixed(Arc::new(AtomicI64::new(micros))))
    }

    /// Advances a fixed clock, and all its clones, by `micros` microseconds. Does not change the system's clock.
    pub fn advance(&self, micros: i64) {
        if let TimeSource::Fixed(at) = &self.0 {
            at.fetch_add(micros, Ordering::SeqCst);
        }
    }

    /// Returns the microseconds since 1970, UTC.
    #[expect(clippy::disallowed_methods, reason = "the one place that may ask the system")]
    pub fn now(&self) -> i64 {
        match &self.0 {
            TimeSource::Fixed(at) => at.load(Ordering::SeqCst),
            // If the clock of the machine is set to a time before 1970, the result is 1970.
            TimeSource::System => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_micros() as i64)
            }
        }
    }
}

/// Returns random bytes from the operating system.
///
/// # Panics
/// If the system has none, since no secret would then be safe.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Returns a new secret of 256 bits for links, refresh tokens and keys: 43 characters of base64url.
/// Only its [`sha256_hex`] may be stored.
pub fn random_token() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<32>())
}

/// Returns a new id that is unique across processes: 32 hexadecimal digits. It is cheaper than a secret, and can be guessed.
pub fn unique_id() -> String {
    static START: LazyLock<u128> = LazyLock::new(|| u128::from_le_bytes(random_bytes()));
    static COUNT: AtomicU64 = AtomicU64::new(0);
    /// Spreads consecutive numbers. It is odd, so that different numbers stay different.
    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let number = START.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed).into());
    hex(&number.wrapping_mul(SPREAD).to_be_bytes())
}

/// Returns the SHA-256 of a text in hexadecimal digits, which is the stored form of random secrets.
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Returns the SHA-256 of all bytes of a reader, in hexadecimal digits.
pub fn sha256_hex_of(mut reader: impl std::io::Read) -> std::io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(hex(&hash.finalize())),
            byte_count => hash.update(&piece[..byte_count]),
        }
    }
}

/// Returns bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_clock_moves_only_when_advanced() {
        let clock = Clock::fixed(1_000);
        let second_clock = clock.clone();
        second_clock.advance(500);
        assert_eq!(clock.now(), 1_500);
        assert!(Clock::system().now() > 1_700_000_000_000_000);
    }

    #[test]
    fn tokens_are_43_characters_and_never_the_same() {
        let token = random_token();
        assert_eq!(token.len(), 43);
        assert_ne!(token, random_token());
    }

    #[test]
    fn ids_are_32_digits_and_never_the_same() {
        let ids: std::collections::HashSet<String> = (0..1000).map(|_| unique_id()).collect();
        assert!(ids.len() == 1000 && ids.iter().all(|id| id.len() == 32));
    }

    #[test]
    fn digests_are_hexadecimal() {
        assert_eq!(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
