use super::*;
use crate::Rng;

const STEP: u64 = Budget::STEP_BYTES;

#[test]
fn a_pool_keeps_its_limits_and_lends_the_warm_one() {
    let pool = Pool::new(3, 1);
    let [a, b, c] = [1, 512, 16 << 10].map(|len| pool.take(len).unwrap());
    assert!(pool.take(512).is_none());
    assert_eq!(pool.take(16 << 10 | 1).unwrap().len(), Pool::LARGE_BYTES);
    assert!(pool.take(Pool::LARGE_BYTES + 1).is_none());
    assert_eq!(pool.lent(), [3, 1]);
    let warm = b.as_ptr();
    pool.give(a);
    pool.give(b);
    assert_eq!(pool.take(512).unwrap().as_ptr(), warm);
    assert_eq!(pool.lent(), [2, 1]);
    drop(c);
}

#[test]
fn what_is_taken_beyond_is_freed_and_not_kept() {
    let pool = Pool::new(1, 1);
    let one = pool.take(512).unwrap();
    let beyond = [(); 3].map(|()| pool.take_beyond(512).unwrap());
    assert_eq!((pool.lent(), pool.mapped_bytes()), ([1, 0], Pool::SMALL_BYTES));
    beyond.into_iter().for_each(|buf| pool.give(buf));
    assert!(pool.take(512).is_none());
    pool.give(one);
    assert_eq!((pool.lent(), pool.mapped_bytes()), ([0, 0], Pool::SMALL_BYTES));
    // A longer buffer is none of the pool's.
    let long = pool.take_beyond(Pool::LARGE_BYTES + 1).unwrap();
    assert!(long.len() > Pool::LARGE_BYTES && pool.take(Pool::LARGE_BYTES + 1).is_none());
    pool.give(long);
    assert_eq!((pool.lent(), pool.mapped_bytes()), ([0, 0], Pool::SMALL_BYTES));
}

#[test]
fn an_exhausted_pool_asks_the_system_for_nothing() {
    let budget = Budget::new(0);
    let mut shelf = Shelf::new(Pool::SMALL_BYTES, 3);
    assert!(!shelf.grow(&budget, false) && shelf.map().is_none());
    // A shelf's own limit does not concern the budget: no other pool has to return memory.
    let mut shelf = Shelf { limit: 0, ..shelf };
    assert!(!shelf.grow(&Budget::unlimited(), true) && shelf.map().is_none());
    assert_eq!((budget.refusals(), shelf.made), (1, 0));
}

#[test]
fn a_share_leaves_as_much_for_others() {
    let pool = Pool::within(Budget::new(64 << 20));
    let take_all = |account: &Account| {
        let bufs: Vec<_> = std::iter::from_fn(|| account.take(Pool::LARGE_BYTES)).collect();
        bufs.len() * Pool::LARGE_BYTES
    };
    let accounts = [(); 8].map(|()| pool.fair_account(0).unwrap());
    let held: Vec<_> = accounts.iter().map(take_all).collect();
    let left = pool.0.borrow().free_bytes() as usize;
    // Eight accounts that take all they can get leave a third of the shared memory, and a share is
    // an eighth of the remaining memory.
    assert!((4 << 20..=6 << 20).contains(&held[0]), "{held:?}");
    assert!(held.is_sorted_by(|one, next| next <= one), "{held:?}");
    assert!(left > (48 << 20) / 4, "{held:?} {left}");
    assert!(held[7] * 8 > left - (8 << 20), "{held:?} {left}");
}

#[test]
fn however_many_take_all_they_can_each_has_what_is_promised() {
    let budget = Budget::new(48 << 20);
    let pool = Pool::within(budget.clone());
    let mut hogs = Vec::new();
    while let Some(hog) = pool.fair_account(32 << 10) {
        hogs.push(hog);
        if hogs.len() == 100 {
            break;
        }
    }
    let mut all = Vec::new();
    for len in [Pool::LARGE_BYTES, Pool::MEDIUM_BYTES, Pool::SMALL_BYTES].repeat(3) {
        for hog in &hogs {
            all.extend(std::iter::from_fn(|| hog.take_part(len)));
            all.extend(std::iter::from_fn(|| hog.take_row(len)));
        }
    }
    // The core itself takes the rest.
    all.extend(std::iter::from_fn(|| pool.take(512)));
    all.extend(std::iter::from_fn(|| pool.take(Pool::MEDIUM_BYTES)));
    all.extend(std::iter::from_fn(|| pool.take(Pool::LARGE_BYTES)));
    assert_eq!(budget.shared_left_bytes(), 0);
    // A new connection still has room.
    let good = pool.fair_account(32 << 10).unwrap();
    for _ in 0..10 {
        let mut mine = vec![good.take_part(Pool::LARGE_BYTES).unwrap()];
        assert_eq!(mine[0].len(), Pool::MEDIUM_BYTES);
        mine.push(good.take_part(1).unwrap());
        mine.extend((0..5).map(|_| good.take_row(512).unwrap()));
        assert_eq!(good.held_bytes(), Account::PROMISED_BYTES);
        mine.into_iter().for_each(|buf| pool.give(buf));
    }
    assert!(pool.mapped_bytes() as u64 <= budget.held_bytes());
}

#[test]
fn memory_goes_back_when_it_was_not_used_for_a_while() {
    let budget = Budget::new(2 << 30);
    let pool = Pool::within(budget.clone());
    let account = pool.fair_account(0).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| account.take(Pool::LARGE_BYTES)).collect();
    assert!(pool.mapped_bytes() > 100 << 20);
    all.into_iter().for_each(|buf| pool.give(buf));
    drop(account);
    let seconds = (1..20).map(Nanos::from_secs);
    let reviews = seconds.take_while(|now| pool.review(*now)).count();
    assert!(reviews < 8, "{reviews} reviews until nothing was to be given back");
    assert!(pool.mapped_bytes() <= 2 * STEP as usize && budget.held_bytes() <= 3 * STEP);
    // The pool is still usable.
    assert!(pool.take(Pool::LARGE_BYTES).is_some());
}

#[test]
fn memory_that_was_held_for_long_goes_back_too() {
    let pool = Pool::within(Budget::new(2 << 30));
    let all: Vec<_> = (0..100).map_while(|_| pool.take(Pool::LARGE_BYTES)).collect();
    // Buffers are idle, until no further review is requested.
    (0..40).for_each(|half| _ = pool.review(Nanos::from_millis(500 * half)));
    assert!(!pool.review(Nanos::from_secs(20)));
    all.into_iter().for_each(|buf| pool.give(buf));
    // The returning caller reviews once, and continues while the result is true.
    let times = (0..100).map(|half| Nanos::from_millis(20_500 + 500 * half));
    let reviews = times.take_while(|now| pool.review(*now)).count();
    assert!(reviews < 20, "{reviews} reviews until nothing was to be given back");
    assert!(pool.mapped_bytes() <= 2 * STEP as usize, "{} are kept", pool.mapped_bytes());
}

#[test]
fn what_one_core_does_not_use_another_gets_at_once() {
    let budget = Budget::new(64 << 20);
    let [rich, poor] = [(); 2].map(|()| Pool::within(budget.clone()));
    let all: Vec<_> = std::iter::from_fn(|| rich.take(Pool::LARGE_BYTES)).collect();
    all.into_iter().for_each(|buf| rich.give(buf));
    assert!(poor.take(Pool::LARGE_BYTES).is_none());
    rich.review(Nanos::from_secs(1));
    assert!(poor.take(Pool::LARGE_BYTES).is_some());
}

#[test]
fn what_the_kernel_knows_is_not_unmapped() {
    let budget = Budget::new(64 << 20);
    let pool = Pool::within(budget.clone());
    let all: Vec<_> = (0..32).map(|_| pool.take(Pool::LARGE_BYTES).unwrap()).collect();
    let known = all[9].arena();
    all.into_iter().for_each(|buf| pool.give(buf));
    (1..20).for_each(|second| _ = pool.review(Nanos::from_secs(second)));
    assert!(!pool.review(Nanos::from_secs(30)));
    let there: Vec<_> = std::iter::from_fn(|| pool.take(Pool::LARGE_BYTES)).take(16).collect();
    let inside = there.iter().filter(|buf| known.range().contains(&(buf.as_ptr() as usize)));
    assert_eq!(inside.count(), 8);
}

/// All operations on the accounts of a pool, in any order.
struct Chance {
    budget: Budget,
    pools: [Pool; 2],
    accounts: Vec<(usize, Account)>,
    held: Vec<(usize, Buf)>,
    rng: Rng,
}

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.rng.below(limit as u64) as usize
    }

    fn step(&mut self, now: Nanos) {
        let len = [1, 512, 16 << 10, 20 << 10, 64 << 10, 65 << 10, 256 << 10][self.below(7)];
        match self.below(16) {
            0 => {
                let at = self.below(2);
                let fixed = self.below(1 << 20) as u64;
                self.accounts.extend(self.pools[at].fair_account(fixed).map(|it| (at, it)));
            }
            1 if !self.accounts.is_empty() => {
                let at = self.below(self.accounts.len());
                self.accounts.swap_remove(at);
            }
            2 => _ = self.pools[self.rng.below(2) as usize].review(now),
            3 => {
                let at = self.below(2);
                self.held.extend(self.pools[at].take(len).map(|buf| (at, buf)));
            }
            4..=9 if !self.accounts.is_empty() => {
                let at = self.below(self.accounts.len());
                let way = self.below(4);
                let (pool, account) = &self.accounts[at];
                let taken = match way {
                    0 => account.take(len),
                    1 => account.take_part(len),
                    2 => account.take_row(len).or_else(|| account.take_to_send(len)),
                    _ => {
                        account.charge(len as u64);
                        account.promise_more(len as u32 % 9);
                        None
                    }
                };
                self.held.extend(taken.map(|buf| (*pool, buf)));
            }
            _ if !self.held.is_empty() => {
                let at = self.below(self.held.len());
                let (pool, buf) = self.held.swap_remove(at);
                self.pools[pool].give(buf);
            }
            _ => {}
        }
    }

    fn check(&self) {
        let mapped: usize = self.pools.iter().map(Pool::mapped_bytes).sum();
        assert!(mapped as u64 <= self.budget.held_bytes(), "all that is mapped is covered");
        assert!(self.budget.held_bytes() <= self.budget.limit_bytes());
        let lent: usize = self.held.iter().map(|(_, buf)| buf.len()).sum();
        let shelves = |pool: &Pool| {
            let stock = pool.0.borrow();
            stock.shelves.iter().map(|shelf| shelf.lent() * shelf.len_bytes).sum::<usize>()
        };
        assert_eq!(self.pools.iter().map(shelves).sum::<usize>(), lent);
        for pool in &self.pools {
            let stock = pool.0.borrow();
            for (at, shelf) in stock.shelves.iter().enumerate() {
                assert_eq!(shelf.promised, stock.ledger.unkept_in_all(at), "size {at}");
            }
        }
        for (_, account) in &self.accounts {
            // Available rows can be taken.
            for (large, small) in [(1, 0), (3, 0), (1, 5)] {
                if account.has_rows(large, small) {
                    let lens = [Pool::LARGE_BYTES].repeat(large).into_iter();
                    let lens = lens.chain([1].repeat(small));
                    let rows: Vec<_> = lens.map(|len| account.take_row(len).unwrap()).collect();
                    rows.into_iter().for_each(|buf| account.pool().give(buf));
                }
            }
            // Data in buffers has rows for its headers.
            let rows: Vec<_> =
                (0..account.promised_rows()).map(|_| account.take_row(9).unwrap()).collect();
            rows.into_iter().for_each(|buf| account.pool().give(buf));
            // Only an account's own buffers keep it from its promised ones.
            if account.held_bytes() == 0 {
                let taken = [
                    account.take_part(Pool::LARGE_BYTES).expect("data"),
                    account.take_part(Pool::SMALL_BYTES).expect("short data"),
                    account.take_row(9).expect("a row"),
                    account.take_row(9).expect("a second row"),
                    account.take_row(9).expect("a third row"),
                    account.take_row(9).expect("a fourth row"),
                    account.take_row(9).expect("a fifth row"),
                ];
                taken.into_iter().for_each(|buf| account.pool().give(buf));
            }
        }
    }
}

#[test]
fn sums_are_right_whatever_happens() {
    for seed in 0..60 {
        let budget = Budget::new((16 + seed % 7 * 8) << 20);
        let pools = [(); 2].map(|()| Pool::within(budget.clone()));
        let (accounts, held, rng) = (Vec::new(), Vec::new(), Rng::new(seed, 0));
        let mut chance = Chance { budget, pools, accounts, held, rng };
        for round in 0..600 {
            chance.step(Nanos::from_millis(round * 100));
            if round % 8 == 0 {
                chance.check();
            }
        }
        let Chance { budget, pools, accounts, held, .. } = chance;
        drop(accounts);
        held.into_iter().for_each(|(pool, buf)| pools[pool].give(buf));
        for second in 61..80 {
            pools.iter().for_each(|pool| _ = pool.review(Nanos::from_secs(second)));
        }
        assert!(budget.held_bytes() <= 2 * 3 * STEP, "seed {seed}: {}", budget.held_bytes());
        assert!(pools.iter().all(|pool| pool.lent() == [0, 0]));
    }
}
