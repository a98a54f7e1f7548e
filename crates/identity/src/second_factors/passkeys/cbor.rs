//! A reader of CBOR values (RFC 8949) from anybody.

use ciborium_ll::{Decoder, Header};

/// The maximum number of CBOR items of a value.
const MAX_ITEMS: usize = 1_000;
/// The maximum length of a byte or text string, in bytes.
const MAX_STRING: usize = 64 * 1024;
/// Reads CBOR values (RFC 8949) of definite length, without recursion.
pub struct CborReader<'a> {
    decoder: Decoder<&'a [u8]>,
    items: usize,
}

impl<'a> CborReader<'a> {
    pub fn new(bytes: &'a [u8]) -> CborReader<'a> {
        CborReader { decoder: Decoder::from(bytes), items: 0 }
    }

    fn header(&mut self) -> Option<Header> {
        self.items += 1;
        if self.items > MAX_ITEMS { None } else { self.decoder.pull().ok() }
    }

    /// Reads the beginning of a map. Returns its number of pairs.
    pub fn map(&mut self) -> Option<usize> {
        match self.header()? {
            Header::Map(Some(pairs)) => Some(pairs),
            _ => None,
        }
    }

    /// Reads a byte or text string.
    pub fn string(&mut self) -> Option<Vec<u8>> {
        match self.header()? {
            Header::Bytes(Some(length)) | Header::Text(Some(length)) => self.string_of(length),
            _ => None,
        }
    }

    fn string_of(&mut self, length: usize) -> Option<Vec<u8>> {
        if length > MAX_STRING {
            return None;
        }
        let (mut bytes, mut buffer) = (Vec::new(), [0; 256]);
        let mut segments = self.decoder.bytes(Some(length));
        while let Some(mut segment) = segments.pull().ok()? {
            while let Some(piece) = segment.pull(&mut buffer).ok()? {
                bytes.extend_from_slice(piece);
            }
        }
        Some(bytes)
    }

    /// Reads an integer or a byte string.
    pub fn integer_or_bytes(&mut self) -> Option<IntegerOrBytes> {
        match self.header()? {
            Header::Bytes(Some(length)) => self.string_of(length).map(IntegerOrBytes::Bytes),
            header => integer(header).map(IntegerOrBytes::Integer),
        }
    }

    /// Reads an integer.
    pub fn integer(&mut self) -> Option<i64> {
        integer(self.header()?)
    }

    /// Skips a value.
    pub fn skip(&mut self) -> Option<()> {
        let mut items_left = 1_usize;
        while items_left > 0 {
            items_left -= 1;
            let more = match self.header()? {
                Header::Map(Some(pairs)) => pairs.checked_mul(2)?,
                Header::Array(Some(items)) => items,
                Header::Tag(_) => 1,
                Header::Bytes(Some(length)) | Header::Text(Some(length)) => {
                    self.string_of(length)?;
                    0
                }
                Header::Positive(_) | Header::Negative(_) | Header::Float(_) | Header::Simple(_) => 0,
                _ => return None,
            };
            items_left = items_left.checked_add(more).filter(|count| *count <= MAX_ITEMS)?;
        }
        Some(())
    }
}

fn integer(header: Header) -> Option<i64> {
    match header {
        Header::Positive(number) => i64::try_from(number).ok(),
        Header::Negative(number) => i64::try_from(number).ok().map(|number| -1 - number),
        _ => None,
    }
}

/// A value that may be an integer or a byte string.
pub enum IntegerOrBytes {
    Integer(i64),
    Bytes(Vec<u8>),
}
