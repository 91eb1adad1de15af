//! Splits a stream into receives.

/// Pieces of a stream, of random lengths.
#[derive(Clone, Debug)]
pub struct Cut<'a> {
    rest: &'a [u8],
    state: u8,
}

impl<'a> Cut<'a> {
    /// A seed of zero brings everything at once; others bring 1 to about 256 bytes at a time.
    pub fn new(bytes: &'a [u8], seed: u8) -> Cut<'a> {
        Cut { rest: bytes, state: seed }
    }
}

impl<'a> Iterator for Cut<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let len = match self.state {
            0 => self.rest.len(),
            state => {
                self.state = state.wrapping_mul(109).wrapping_add(89) | 1;
                self.rest.len().min(usize::from(state))
            }
        };
        let (part, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(part)
    }
}
