//! Headers and short messages, which are needed whole, from a stream that is split anywhere.

/// Bytes of a message that came in parts.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    bytes: Vec<u8>,
}

impl Collector {
    /// Room for messages of up to `most` bytes without another allocation.
    pub(crate) fn new(most: usize) -> Collector {
        Collector { bytes: Vec::with_capacity(most) }
    }

    /// Takes the missing part of `want` bytes off `from`; returns whether all are present. `want`
    /// is at most our own limit.
    pub(crate) fn fill(&mut self, from: &mut &[u8], want: usize) -> bool {
        let missing = want.saturating_sub(self.bytes.len()).min(from.len());
        let (part, rest) = from.split_at(missing);
        self.bytes.extend_from_slice(part);
        *from = rest;
        self.bytes.len() >= want
    }

    /// Takes the next `N` bytes off `from`, if they are there by now.
    #[inline(always)]
    pub(crate) fn take<const N: usize>(&mut self, from: &mut &[u8]) -> Option<[u8; N]> {
        if self.bytes.is_empty()
            && let Some((whole, rest)) = from.split_first_chunk()
        {
            *from = rest;
            return Some(*whole);
        }
        self.take_parts(from)
    }

    #[cold]
    fn take_parts<const N: usize>(&mut self, from: &mut &[u8]) -> Option<[u8; N]> {
        if !self.fill(from, N) {
            return None;
        }
        let whole = self.bytes.first_chunk().copied();
        self.bytes.clear();
        whole
    }

    /// Whether nothing was collected yet.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the collected bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the collector.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}
