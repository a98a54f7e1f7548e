//! Deltas of a pack: an object that is described by its differences from another one (`gitformat-pack`, deltified representation).

use super::shared::GitError;

/// Builds an object of at most `most` bytes from a delta and its base.
pub fn apply(delta: &[u8], base: &[u8], most: u64) -> Result<Vec<u8>, GitError> {
    let mut delta = Bytes(delta);
    if delta.size()? != base.len() as u64 {
        return Err(GitError::Unreadable);
    }
    let size = delta.size()?;
    if size > most {
        return Err(GitError::TooLarge);
    }
    let size = size as usize;
    let mut bytes_of_object = Vec::with_capacity(size);
    while let Some(op) = delta.next() {
        let bytes = match op {
            0 => return Err(GitError::Unreadable),
            insert if insert < 0x80 => delta.read(usize::from(insert))?,
            copy => {
                let (start, length) = (delta.number(copy, 4)?, delta.number(copy >> 4, 3)?);
                let length = if length == 0 { 0x10000 } else { length };
                base.get(start..start + length).ok_or(GitError::Unreadable)?
            }
        };
        if bytes.len() > size - bytes_of_object.len() {
            return Err(GitError::Unreadable);
        }
        bytes_of_object.extend_from_slice(bytes);
    }
    if bytes_of_object.len() == size { Ok(bytes_of_object) } else { Err(GitError::Unreadable) }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn read(&mut self, count: usize) -> Result<&'a [u8], GitError> {
        let (part, rest) = self.0.split_at_checked(count).ok_or(GitError::Unreadable)?;
        self.0 = rest;
        Ok(part)
    }

    /// Reads a size: seven bits per byte, the lowest first. The eighth bit is set if more bytes follow.
    fn size(&mut self) -> Result<u64, GitError> {
        let mut size = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.next().ok_or(GitError::Unreadable)?;
            size |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(size);
            }
        }
        Err(GitError::Unreadable)
    }

    /// Reads a number that contains only the bytes whose bits in `present` are set.
    fn number(&mut self, present: u8, bytes: u32) -> Result<usize, GitError> {
        let mut number = 0;
        for at in 0..bytes {
            if present & (1 << at) != 0 {
                number |= usize::from(self.next().ok_or(GitError::Unreadable)?) << (8 * at);
            }
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &[u8] = b"0123456789";

    #[test]
    fn an_object_is_made_of_copies_and_new_bytes() {
        // Ten bytes become eight: four of the base from its second one, `ab`, two from its first one.
        let delta = [10, 8, 0x91, 1, 4, 2, b'a', b'b', 0x90, 2];
        assert_eq!(apply(&delta, BASE, 100).unwrap(), b"1234ab01");
    }

    #[test]
    fn invalid_deltas_are_refused() {
        for delta in [
            &[][..],
            &[9, 1, 1, b'a'],                                  // another base
            &[10, 1, 0],                                       // an operation that is reserved
            &[10, 2, 1, b'a'],                                 // too few bytes
            &[10, 1, 2, b'a', b'b'],                           // too many
            &[10, 1, 5, b'a'],                                 // cut off
            &[10, 5, 0x91, 9, 5],                              // behind the end of the base
            &[10, 5, 0xff, 255, 255, 255, 255, 255, 255, 255], // far behind
            &[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(apply(delta, BASE, 100), Err(GitError::Unreadable), "{delta:?}");
        }
        // Memory is not allocated for a declared size alone.
        assert_eq!(apply(&[10, 0xff, 0xff, 0xff, 0xff, 0x7f], BASE, 100), Err(GitError::TooLarge));
    }
}
