//! A mailbox on one thread; `tests/interleavings.rs` tests several threads.

use proto::{Notice, UnitId};

use crate::mailbox::{Mailbox, NOTICES_MAX};

#[test]
fn keeps_the_order_takes_nothing_twice_and_has_an_end() {
    let mailbox = Mailbox::default();
    assert!(mailbox.take().is_empty());
    let reset = |unit| Notice::UnitReset(UnitId(unit));
    for unit in [2, 1, 2] {
        assert!(mailbox.put(&reset(unit)));
    }
    assert_eq!(mailbox.take(), [reset(2), reset(1)]);
    assert!(mailbox.take().is_empty());
    let all = NOTICES_MAX as u32;
    assert!((0..all).all(|unit| mailbox.put(&reset(unit))));
    assert!(!mailbox.put(&reset(all)) && mailbox.put(&reset(0)));
    assert_eq!(mailbox.take().len(), NOTICES_MAX);
    assert!(mailbox.put(&reset(all)));
}
