//! The memory of a driver: regions of its address space that it shares with the device.

use block::Window;

use super::{Piece, Place, RingViolation, broken};

/// A region of the driver's memory.
#[derive(Clone, Debug)]
pub struct Area {
    /// First address in descriptors.
    pub guest: u64,
    /// First address in the driver's process, which ring addresses refer to.
    pub user: u64,
    /// The memory.
    pub window: Window,
}

impl Area {
    /// Offset of `len` bytes at a distance from the start, if they are inside.
    #[inline(always)]
    fn offset(&self, address: u64, start: u64, len: u64) -> Option<u64> {
        let at = address.checked_sub(start)?;
        (at <= self.window.len_bytes() && len <= self.window.len_bytes() - at).then_some(at)
    }
}

/// All regions of a driver.
#[derive(Clone, Debug, Default)]
pub struct GuestMemory {
    areas: Vec<Area>,
}

impl GuestMemory {
    /// Maximum number of regions.
    pub const AREAS_MOST: usize = 8;

    /// Checks the regions.
    ///
    /// # Errors
    ///
    /// There are more than [`AREAS_MOST`](Self::AREAS_MOST), or one wraps around.
    pub fn new(areas: Vec<Area>) -> Result<GuestMemory, RingViolation> {
        if areas.len() > Self::AREAS_MOST {
            let rule = "vhost-user §Memory regions description: more than 8 regions";
            return broken(rule, Place::Region(Self::AREAS_MOST as u16));
        }
        for (at, area) in (0..).zip(&areas) {
            let len = area.window.len_bytes();
            if area.guest.checked_add(len).is_none() || area.user.checked_add(len).is_none() {
                let rule = "vhost-user §Memory regions description: a region wraps around";
                return broken(rule, Place::Region(at));
            }
        }
        Ok(GuestMemory { areas })
    }

    /// The region and offset of a range that lies in one region.
    #[inline(always)]
    pub(super) fn find(&self, guest: u64, len: u64) -> Option<Piece> {
        (0..).zip(&self.areas).find_map(|(area, one)| {
            let offset = one.offset(guest, one.guest, len)?;
            Some(Piece { area, offset, len: u32::try_from(len).ok()? })
        })
    }

    /// Appends the pieces of a range that may cross from one region to the next; `None` if a part
    /// is in no region.
    #[inline(always)]
    pub(super) fn resolve(&self, guest: u64, len: u32, pieces: &mut Vec<Piece>) -> Option<()> {
        if let Some(piece) = self.find(guest, len.into()) {
            pieces.push(piece);
            return Some(());
        }
        self.resolve_across(guest, len, pieces)
    }

    #[cold]
    fn resolve_across(&self, mut guest: u64, mut len: u32, pieces: &mut Vec<Piece>) -> Option<()> {
        // Each round consumes at least a byte and ends at the end of a region.
        for _ in 0..=Self::AREAS_MOST {
            if len == 0 {
                return Some(());
            }
            let (area, offset, left) = (0..).zip(&self.areas).find_map(|(area, one)| {
                let offset = one.offset(guest, one.guest, 1)?;
                Some((area, offset, one.window.len_bytes() - offset))
            })?;
            let part = u32::try_from(left).unwrap_or(u32::MAX).min(len);
            pieces.push(Piece { area, offset, len: part });
            guest = guest.checked_add(part.into())?;
            len -= part;
        }
        None
    }

    /// The window onto a range of addresses of the driver's process.
    pub(super) fn user(&self, user: u64, len: u64) -> Option<Window> {
        self.areas.iter().find_map(|one| one.window.part(one.offset(user, one.user, len)?, len))
    }

    /// The window that a piece lies in.
    #[inline(always)]
    pub(super) fn window(&self, piece: &Piece) -> &Window {
        &self.areas[usize::from(piece.area)].window
    }

    /// Copies bytes of consecutive pieces out, from `skip` on; `None` if there are too few.
    pub(super) fn gather(&self, pieces: &[Piece], skip: u64, to: &mut [u8]) -> Option<()> {
        let mut at = 0;
        self.walk(pieces, skip, to.len(), |window, offset, len| {
            window.read(offset, &mut to[at..at + len])?;
            at += len;
            Some(())
        })
    }

    /// Copies bytes into consecutive pieces, from `skip` on; `None` if there is too little room.
    pub(super) fn scatter(&self, pieces: &[Piece], skip: u64, from: &[u8]) -> Option<()> {
        let mut at = 0;
        self.walk(pieces, skip, from.len(), |window, offset, len| {
            window.write(offset, &from[at..at + len])?;
            at += len;
            Some(())
        })
    }

    /// Calls `each` for the parts of `len` bytes of pieces, from `skip` on.
    #[inline(always)]
    pub(super) fn walk(
        &self,
        pieces: &[Piece],
        mut skip: u64,
        mut len: usize,
        mut each: impl FnMut(&Window, u64, usize) -> Option<()>,
    ) -> Option<()> {
        for piece in pieces {
            if len == 0 {
                break;
            }
            let piece_len = u64::from(piece.len);
            if skip >= piece_len {
                skip -= piece_len;
                continue;
            }
            let part = (piece_len - skip).min(len as u64) as usize;
            each(self.window(piece), piece.offset + skip, part)?;
            len -= part;
            skip = 0;
        }
        (len == 0).then_some(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn area(guest: u64, len: u64) -> Area {
        Area { guest, user: guest + (1 << 40), window: Window::anonymous(len).unwrap() }
    }

    #[test]
    fn ranges_are_found_only_where_there_is_memory() {
        let areas = vec![area(0x1000, 0x1000), area(0x2000, 0x800), area(0x10_0000, 64)];
        let memory = GuestMemory::new(areas).unwrap();
        let mut pieces = Vec::new();
        assert!(memory.resolve(0x1000, 0x1000, &mut pieces).is_some());
        assert!(memory.resolve(0x1ff0, 0x20, &mut pieces).is_some(), "adjacent regions");
        let piece = |area, offset, len| Piece { area, offset, len };
        assert_eq!(pieces, [piece(0, 0, 0x1000), piece(0, 0xff0, 0x10), piece(1, 0, 0x10)]);
        for (at, len) in [(0, 1), (0xfff, 2), (0x27ff, 2), (u64::MAX, 1), (u64::MAX - 1, u32::MAX)]
        {
            assert!(memory.resolve(at, len, &mut Vec::new()).is_none(), "{at:#x} {len}");
        }
        assert!(memory.user((1 << 40) + 0x2000, 0x800).is_some());
        assert!(memory.user((1 << 40) + 0x2000, 0x801).is_none());
        assert!(memory.user(u64::MAX, 1).is_none());
    }

    #[test]
    fn regions_that_wrap_or_are_too_many_are_refused() {
        assert!(GuestMemory::new(vec![area(u64::MAX - (1 << 41), 4096)]).is_ok());
        let wraps = Area { user: 0, ..area(u64::MAX - 4094 - (1 << 40), 4096) };
        assert!(GuestMemory::new(vec![Area { guest: u64::MAX - 4094, ..wraps }]).is_err());
        assert!(GuestMemory::new((0..9).map(|at| area(at << 20, 64)).collect()).is_err());
    }

    #[test]
    fn bytes_are_gathered_as_they_were_scattered() {
        let memory = GuestMemory::new(vec![area(0, 4096), area(8192, 4096)]).unwrap();
        let mut pieces = Vec::new();
        for (at, len) in [(100, 7), (8192, 1), (9000, 300)] {
            memory.resolve(at, len, &mut pieces).unwrap();
        }
        let bytes: Vec<u8> = (0..200).collect();
        memory.scatter(&pieces, 5, &bytes).unwrap();
        let mut back = vec![0; 198];
        memory.gather(&pieces, 7, &mut back).unwrap();
        assert_eq!(back, bytes[2..]);
        assert!(memory.gather(&pieces, 200, &mut [0; 109]).is_none());
    }
}
