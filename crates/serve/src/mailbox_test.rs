//! A mailbox on one thread; `tests/interleavings.rs` tests several threads.

use proto::{Notice, UnitId};

use crate::mailbox::{Mail, Mailbox, NOTICES_MAX};

#[test]
fn keeps_the_order_takes_nothing_twice_and_has_an_end() {
    let mailbox = Mailbox::<u8>::default();
    assert_eq!(mailbox.take(), Mail::default());
    let reset = |unit| Notice::UnitReset(UnitId(unit));
    for unit in [2, 1, 2] {
        assert!(mailbox.put(&reset(unit)));
    }
    mailbox.order(7);
    mailbox.order(7);
    let mail = Mail { notices: vec![reset(2), reset(1)], orders: vec![7, 7] };
    assert_eq!(mailbox.take(), mail);
    assert_eq!(mailbox.take(), Mail::default());
    let all = NOTICES_MAX as u32;
    assert!((0..all).all(|unit| mailbox.put(&reset(unit))));
    assert!(!mailbox.put(&reset(all)) && mailbox.put(&reset(0)));
    assert_eq!(mailbox.take().notices.len(), NOTICES_MAX);
    assert!(mailbox.put(&reset(all)));
}
