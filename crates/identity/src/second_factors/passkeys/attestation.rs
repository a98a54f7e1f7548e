//! The binary data of authenticators: the attestation object of a creation and the authenticator data (WebAuthn, sections 6.1 and
//! 6.5). The statement of an attestation is skipped.

use super::cbor::CborReader;

/// The lengths of the parts of authenticator data, in bytes.
const HASH: usize = 32;
const AAGUID: usize = 16;
/// The maximum length of the id of a credential, in bytes.
const MAX_ID: usize = 1023;

const USER_PRESENT: u8 = 1;
const USER_VERIFIED: u8 = 4;
const HAS_CREDENTIAL: u8 = 64;

/// The data that an authenticator signs.
pub struct AuthenticatorData<'a> {
    pub relying_party_hash: &'a [u8],
    pub is_user_present: bool,
    pub is_user_verified: bool,
    pub sign_count: u32,
    /// The credential, in the answer to a creation.
    pub credential: Option<AttestedCredential<'a>>,
}

/// A new credential.
pub struct AttestedCredential<'a> {
    pub id: &'a [u8],
    /// The public key in the form of COSE. Extensions may follow it.
    pub cose_key: &'a [u8],
}

impl AuthenticatorData<'_> {
    /// Reads authenticator data; `None` if it is too short.
    pub fn parse(bytes: &[u8]) -> Option<AuthenticatorData<'_>> {
        let (relying_party_hash, rest) = bytes.split_at_checked(HASH)?;
        let (flags, rest) = rest.split_first()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let credential = if flags & HAS_CREDENTIAL != 0 { Some(AttestedCredential::parse(rest)?) } else { None };
        Some(AuthenticatorData {
            relying_party_hash,
            is_user_present: flags & USER_PRESENT != 0,
            is_user_verified: flags & USER_VERIFIED != 0,
            sign_count: u32::from_be_bytes(*count),
            credential,
        })
    }
}

impl AttestedCredential<'_> {
    fn parse(bytes: &[u8]) -> Option<AttestedCredential<'_>> {
        let (_, rest) = bytes.split_at_checked(AAGUID)?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (id, cose_key) = rest.split_at_checked(length).filter(|_| (1..=MAX_ID).contains(&length))?;
        Some(AttestedCredential { id, cose_key })
    }
}

/// Returns the authenticator data of an attestation object.
pub fn authenticator_data(object: &[u8]) -> Option<Vec<u8>> {
    let mut reader = CborReader::new(object);
    for _ in 0..reader.map()? {
        match reader.string()?.as_slice() {
            b"authData" => return reader.string(),
            _ => reader.skip()?,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_stands_beside_a_statement_of_any_form() {
        // {"fmt": "none", "attStmt": {"x5c": [h'00'], "alg": -7}, "authData": h'0102'}
        let object = b"\xa3\x63fmt\x64none\x67attStmt\xa2\x63x5c\x81\x41\x00\x63alg\x26\x68authData\x42\x01\x02";
        assert_eq!(authenticator_data(object), Some(vec![1, 2]));
    }

    #[test]
    fn hostile_objects_are_refused_without_recursion_or_memory() {
        let deep = [b"\xa2\x67attStmt".as_slice(), &[0x81; 100_000]].concat();
        for object in [
            b"".as_slice(),
            b"\x00",
            b"\xa1",
            b"\xa1\x68authData",
            // The lengths exceed the data.
            b"\xa1\x68authData\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa1\x68authData\x5a\x00\x00\x10\x00\x01",
            b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa1\x67attStmt\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa1\x67attStmt\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
            // The lengths are indefinite.
            b"\xbf\x68authData\x41\x00\xff",
            b"\xa1\x68authData\x5f\x41\x00\xff",
            &deep,
        ] {
            assert_eq!(authenticator_data(object), None, "{:?}", &object[..object.len().min(20)]);
        }
    }

    #[test]
    fn edited_objects_are_read_or_refused() {
        let object = b"\xa3\x63fmt\x64none\x67attStmt\xa1\x63x5c\x81\x41\x00\x68authData\x42\x01\x02";
        for at in 0..object.len() {
            for byte in 0..=u8::MAX {
                let mut edited = object.to_vec();
                edited[at] = byte;
                authenticator_data(&edited);
            }
            assert_eq!(authenticator_data(&object[..at]), None);
        }
    }

    #[test]
    fn short_data_is_refused() {
        let data = |flags: u8, credential: &[u8]| [&[7; HASH], [flags].as_slice(), &[0, 0, 1, 0], credential].concat();
        let plain = data(USER_PRESENT, &[]);
        let parsed = AuthenticatorData::parse(&plain).unwrap();
        assert_eq!((parsed.sign_count, parsed.is_user_present, parsed.is_user_verified), (256, true, false));
        assert!((0..plain.len()).all(|length| AuthenticatorData::parse(&plain[..length]).is_none()));
        let attested = data(HAS_CREDENTIAL, &[&[0; AAGUID], [0, 2].as_slice(), &[1, 2, 0xa0]].concat());
        assert_eq!(AuthenticatorData::parse(&attested).unwrap().credential.unwrap().id, [1, 2]);
        assert!((0..attested.len() - 1).all(|length| AuthenticatorData::parse(&attested[..length]).is_none()));
        let without_id = data(HAS_CREDENTIAL, &[&[0; AAGUID], [0, 0].as_slice(), &[0xa0]].concat());
        assert!(AuthenticatorData::parse(&without_id).is_none());
    }
}
