//! Counts of what is in flight.

/// A count of what is in flight, or of its bytes, that limits are held against.
///
/// Where one slips below zero, something was answered that was never asked for, or twice. Without a
/// check it would wrap around and read as a great many from then on, or as none against a limit:
/// a connection that is never served again, or one without any limit. So it is checked in every
/// build; a subtraction sets the flag anyway.
pub trait Count {
    /// Takes `by` off. Panics where that is more than there is.
    fn lower(&mut self, by: Self);
}

macro_rules! counts {
    ($($number:ty)*) => {
        $(impl Count for $number {
            #[inline(always)]
            #[track_caller]
            fn lower(&mut self, by: $number) {
                match self.checked_sub(by) {
                    Some(left) => *self = left,
                    None => slipped((*self).into(), by.into()),
                }
            }
        })*
    };
}

counts!(u16 u32 u64);

impl Count for usize {
    #[inline(always)]
    #[track_caller]
    fn lower(&mut self, by: usize) {
        match self.checked_sub(by) {
            Some(left) => *self = left,
            None => slipped(*self as u64, by as u64),
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn slipped(count: u64, by: u64) -> ! {
    panic!("{by} of {count} that are in flight came back: something was answered twice")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn goes_down_to_zero() {
        let (mut small, mut bytes) = (3_u16, 1_usize << 40);
        small.lower(2);
        small.lower(1);
        bytes.lower(1 << 40);
        assert_eq!((small, bytes), (0, 0));
    }

    #[test]
    #[should_panic(expected = "5 of 4 that are in flight came back")]
    fn goes_no_further() {
        let mut count = 4_u32;
        count.lower(5);
    }
}
