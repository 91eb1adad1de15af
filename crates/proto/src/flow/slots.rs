//! Commands in flight: a slot each, taken from a free list, so that no command allocates.

use std::ops::{Index, IndexMut};

/// The slots of a connection. They are made as they are first needed, and used again.
#[derive(Debug)]
pub(crate) struct Slots<S> {
    slots: Vec<S>,
    free: Vec<u16>,
    max: u16,
}

impl<S: Default> Slots<S> {
    /// At most `max` slots. They grow as they are needed.
    pub(crate) fn new(max: u16) -> Slots<S> {
        Slots { slots: Vec::new(), free: Vec::new(), max }
    }

    /// Creates slots with memory for all from the beginning.
    pub(crate) fn preallocated(max: u16) -> Slots<S> {
        let count = usize::from(max);
        Slots { slots: Vec::with_capacity(count), free: Vec::with_capacity(count), max }
    }

    /// Number of slots, in use or not.
    #[inline(always)]
    pub(crate) fn max(&self) -> usize {
        usize::from(self.max)
    }

    /// Number of slots in use.
    #[inline(always)]
    pub(crate) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Number of free slots.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.max() - self.used()
    }

    /// Takes a slot, if one is free.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<u16> {
        self.free.pop().or_else(|| self.grow())
    }

    #[cold]
    fn grow(&mut self) -> Option<u16> {
        let slot = self.slots.len() as u16;
        (slot < self.max).then(|| self.slots.push(S::default()))?;
        Some(slot)
    }

    /// Gives a slot back.
    #[inline(always)]
    pub(crate) fn release(&mut self, slot: u16) {
        debug_assert!(!self.free.contains(&slot), "a slot is released once");
        self.free.push(slot);
    }

    /// The slot of that number, in use or not, if it was ever needed.
    #[inline(always)]
    pub(crate) fn get(&self, slot: u16) -> Option<&S> {
        self.slots.get(usize::from(slot))
    }

    /// The slot of that number, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut S> {
        self.slots.get_mut(usize::from(slot))
    }

    /// All slots that were ever needed, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &S)> {
        self.slots.iter().enumerate().map(|(slot, held)| (slot as u16, held))
    }

    /// All slots that were ever needed, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut S)> {
        self.slots.iter_mut().enumerate().map(|(slot, held)| (slot as u16, held))
    }
}

impl<S> Index<u16> for Slots<S> {
    type Output = S;
    #[inline(always)]
    fn index(&self, slot: u16) -> &S {
        &self.slots[usize::from(slot)]
    }
}

impl<S> IndexMut<u16> for Slots<S> {
    #[inline(always)]
    fn index_mut(&mut self, slot: u16) -> &mut S {
        &mut self.slots[usize::from(slot)]
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn slots_are_limited_and_used_again() {
        let mut slots = Slots::<u8>::preallocated(2);
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(0), Some(1), None]);
        assert_eq!((slots.used(), slots.room(), slots.max()), (2, 0, 2));
        slots[1] = 7;
        slots.release(1);
        assert_eq!((slots.used(), slots.take(), slots[1]), (1, Some(1), 7));
        assert!(slots.get(2).is_none());
    }
}
