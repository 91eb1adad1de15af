//! Counters of I/Os in flight.

/// A count of I/Os in flight, or of their bytes, to check limits against.
///
/// A count below zero means that something completed twice, or was never submitted. Unchecked it
/// would wrap around to a huge number, and a connection would never be served again, or lose its
/// limit. So every build checks it; the subtraction sets the carry flag anyway.
pub trait Count {
    /// Subtracts `by`. Panics below zero.
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
