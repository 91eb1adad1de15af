//! One core's stock of buffers, and who holds how many of them.

use std::cell::RefCell;
use std::rc::Rc;

use crate::account::{Account, Claim, Ledger, of_lender};
use crate::buf::NOBODY;
use crate::plant::{Plant, planted};
use crate::{Arena, Budget, Buf, Nanos};

/// One core's stock of buffers in three sizes, last in first out, so the warm one is lent next.
///
/// A handle: clones share the stock. Everything on one core draws from one pool, and each
/// connection from its [`Account`] with it. Memory is mapped by the huge page, as far as the
/// [`Budget`] goes, and goes back when it was not needed for a while.
#[derive(Clone, Debug)]
pub struct Pool(pub(crate) Rc<RefCell<Stock>>);

/// What the handles of a pool share.
#[derive(Debug)]
pub(crate) struct Stock {
    shelves: [Shelf; SIZES],
    pub(crate) ledger: Ledger,
    budget: Budget,
    /// Bytes that are no buffers of ours but count, and what the budget covers of them.
    charged_bytes: u64,
    charge_covered_bytes: u64,
    next_review: Nanos,
    /// Those of the budget when it was last looked at.
    refusals: u32,
    /// What was lent and covered when it was looked at last, and how many reviews that is so.
    reviewed_buffers: usize,
    quiet_reviews: u32,
}

/// Buffers of one size.
#[derive(Debug)]
struct Shelf {
    free: Vec<Buf>,
    len_bytes: usize,
    /// The maximum.
    limit: usize,
    /// Mapped buffers, and buffers covered by the budget: mapped or to be mapped.
    made: usize,
    covered: usize,
    /// Free buffers that are promised to accounts.
    promised: usize,
    /// So many were free all the time since the last review.
    least_free: usize,
}

/// How many sizes there are.
pub(crate) const SIZES: usize = 3;
const STEP_BYTES: usize = Budget::STEP_BYTES as usize;

/// An account holds at most this part of what is free. So many who take all that they can get and
/// keep it leave a third of the budget to the next, and twice as many an eighth.
const SHARE: u64 = 8;

/// Buffers free for this long are unmapped.
const QUIET: Nanos = Nanos::from_secs(2);

impl Pool {
    /// Length of a small buffer: a database page and its header fit.
    pub const SMALL_BYTES: usize = 16 << 10;
    /// Length of a medium buffer: what initiators send unasked with a write.
    pub const MEDIUM_BYTES: usize = 64 << 10;
    /// Length of a large buffer: the longest single I/O, and a batch of 64 answers of 4 KiB.
    pub const LARGE_BYTES: usize = 256 << 10;

    /// A pool of at most this many small and large buffers, and no medium ones. Memory is mapped as
    /// needed.
    pub fn new(small_limit: usize, large_limit: usize) -> Pool {
        Pool::limited([small_limit, 0, large_limit], Budget::unlimited())
    }

    /// A pool that draws on a budget which it shares with other pools.
    pub fn within(budget: Budget) -> Pool {
        Pool::limited([usize::MAX; SIZES], budget)
    }

    fn limited(limits: [usize; SIZES], budget: Budget) -> Pool {
        let lens = [Pool::SMALL_BYTES, Pool::MEDIUM_BYTES, Pool::LARGE_BYTES];
        let shelf = |at: usize| Shelf::new(lens[at], limits[at]);
        Pool(Rc::new(RefCell::new(Stock {
            shelves: [shelf(0), shelf(1), shelf(2)],
            ledger: Ledger::new(),
            refusals: budget.refusals(),
            budget,
            charged_bytes: 0,
            charge_covered_bytes: 0,
            next_review: Nanos(0),
            reviewed_buffers: 0,
            quiet_reviews: 0,
        })))
    }

    /// Takes a buffer of at least `len_bytes`; `None` when all are lent, when the budget or the
    /// system has no memory, or when more than [`LARGE_BYTES`](Self::LARGE_BYTES) are asked for.
    ///
    /// What a buffer held before is still in it.
    pub fn take(&self, len_bytes: usize) -> Option<Buf> {
        self.0.borrow_mut().take(Ledger::CORE, len_bytes, Claim::Receive)
    }

    /// Takes a buffer as [`take`](Self::take) does, but makes a new one where all are lent: for
    /// callers whose number is bounded elsewhere and who cannot wait. It is freed when it comes
    /// back, as is one that is longer than [`LARGE_BYTES`](Self::LARGE_BYTES). `None` when the
    /// system has no memory.
    pub fn take_beyond(&self, len_bytes: usize) -> Option<Buf> {
        if len_bytes > Pool::LARGE_BYTES {
            return Buf::new(len_bytes).ok();
        }
        self.0.borrow_mut().take_beyond(Ledger::CORE, len_bytes, Claim::Receive)
    }

    /// Gives a buffer back. One that is not of this pool's stock is freed.
    pub fn give(&self, buf: Buf) {
        self.0.borrow_mut().give(buf);
    }

    /// How many small and larger buffers are lent now. Zero when everything came back.
    pub fn lent(&self) -> [usize; 2] {
        let [small, medium, large] = self.0.borrow().shelves.each_ref().map(Shelf::lent);
        [small, medium + large]
    }

    /// Bytes of memory that are mapped for buffers.
    pub fn mapped_bytes(&self) -> usize {
        self.0.borrow().shelves.iter().map(|shelf| shelf.made * shelf.len_bytes).sum()
    }

    /// An account of somebody whose holdings are bounded elsewhere, such as by its own commands.
    pub fn account(&self) -> Account {
        let index = self.0.borrow_mut().ledger.open(false, 0);
        Account::new(self.clone(), index)
    }

    /// An account of a peer: it gets a fair share of what is there, and less than
    /// [`PROMISED_BYTES`](Account::PROMISED_BYTES) only by its own doing. `fixed_bytes` are what
    /// it costs besides. `None` when the budget has no room for another one.
    pub fn fair_account(&self, fixed_bytes: u64) -> Option<Account> {
        let index = self.0.borrow_mut().open_fair(fixed_bytes)?;
        Some(Account::new(self.clone(), index))
    }

    /// Gives memory back that was not needed for a while, or at once where another pool was
    /// refused. To be called every second or so; returns whether there is more to be given back
    /// in some time.
    pub fn review(&self, now: Nanos) -> bool {
        self.0.borrow_mut().review(now)
    }
}

impl Stock {
    /// The shelf for this length.
    #[inline]
    fn shelf_for(&self, len_bytes: usize) -> Option<usize> {
        if len_bytes <= Pool::SMALL_BYTES {
            Some(0)
        } else if len_bytes <= Pool::MEDIUM_BYTES && self.shelves[1].limit != 0 {
            Some(1)
        } else {
            (len_bytes <= Pool::LARGE_BYTES).then_some(2)
        }
    }

    pub(crate) fn take(&mut self, account: u32, len_bytes: usize, claim: Claim) -> Option<Buf> {
        let at = self.shelf_for(len_bytes)?;
        if !self.ledger.is_promised(account, at, claim) {
            let bytes = self.shelves[at].len_bytes;
            if self.ledger.is_fair(account) && !self.is_within_share(account, bytes, claim) {
                return None;
            }
            if self.shelves[at].room() == 0 && !self.shelves[at].grow(&self.budget, false) {
                return None;
            }
        }
        let prepays = self.ledger.prepays(account, claim);
        if prepays && !self.prepay(at, self.ledger.is_promised(account, at, claim)) {
            return None;
        }
        let shelf = &mut self.shelves[at];
        let mut buf = shelf.pop()?;
        if self.ledger.lend(account, at, &mut buf, claim) {
            shelf.promised = less(shelf.promised, 1);
        }
        self.shelves[0].promised += usize::from(prepays);
        Some(buf)
    }

    /// Sees to it that a row can be promised beside a buffer of a shelf. False where it cannot.
    #[inline]
    fn prepay(&mut self, at: usize, promised: bool) -> bool {
        let wanted = 1 + usize::from(at == 0 && !promised);
        self.shelves[0].room() >= wanted || self.shelves[0].grow(&self.budget, false)
    }

    pub(crate) fn take_beyond(
        &mut self,
        account: u32,
        len_bytes: usize,
        claim: Claim,
    ) -> Option<Buf> {
        let taken = self.take(account, len_bytes, claim);
        if taken.is_some() || self.ledger.is_fair(account) {
            return taken;
        }
        let at = self.shelf_for(len_bytes)?;
        let mut buf = Buf::new(self.shelves[at].len_bytes).ok()?;
        self.ledger.lend_beyond(account, &mut buf);
        Some(buf)
    }

    /// Whether an account may hold one more buffer for `len_bytes`.
    pub(crate) fn has_share(&self, account: u32, len_bytes: usize) -> bool {
        let bytes = self.shelf_for(len_bytes).map_or(len_bytes, |at| self.shelves[at].len_bytes);
        !self.ledger.is_fair(account) || self.is_within_share(account, bytes, Claim::Receive)
    }

    /// Whether an account may hold so many large rows and small ones more, and they are there: what
    /// they need of the budget is taken.
    pub(crate) fn has_rows(&mut self, account: u32, large: usize, small: usize) -> bool {
        if !self.ledger.is_fair(account) {
            return true;
        }
        // The share shrinks with each that is taken. One small row more is for short answers.
        let bytes = large * Pool::LARGE_BYTES + (small + 1) * Pool::SMALL_BYTES;
        let held = self.ledger.held_bytes(account) + bytes;
        let within = held as u64 <= self.free_bytes().saturating_sub(bytes as u64) / SHARE;
        within && self.cover(2, large) && self.cover(0, small)
    }

    /// Reserves this many buffers of a shelf. False if the budget has no room.
    #[inline]
    fn cover(&mut self, at: usize, count: usize) -> bool {
        let shelf = &mut self.shelves[at];
        while shelf.room() < count {
            if !shelf.grow(&self.budget, false) {
                return false;
            }
        }
        true
    }

    /// Whether an account may hold this many more bytes.
    fn is_within_share(&self, account: u32, bytes: usize, claim: Claim) -> bool {
        let held = self.ledger.held_bytes(account) + bytes;
        let rows = || self.ledger.excess_row_bytes(account) + bytes <= Account::ROWS_BYTES;
        held as u64 <= self.share_bytes()
            || claim == Claim::Row && rows()
            || planted(Plant::HoldAll)
    }

    /// What a fair account may hold: a part of what is free now.
    #[inline]
    pub(crate) fn share_bytes(&self) -> u64 {
        self.free_bytes() / SHARE
    }

    /// What is neither lent nor promised, and what the budget has left.
    fn free_bytes(&self) -> u64 {
        let shelves = self.shelves.iter().map(|shelf| (shelf.room() * shelf.len_bytes) as u64);
        self.budget.shared_left_bytes().saturating_add(shelves.sum())
    }

    pub(crate) fn give(&mut self, buf: Buf) {
        if buf.lender() == NOBODY {
            return;
        }
        let at = self.shelves.iter().position(|shelf| buf.len() == shelf.len_bytes);
        let shelf = &mut self.shelves[at.expect("a buffer returns to a pool of its size")];
        let (_, beyond, _) = of_lender(buf.lender());
        let (promised, fewer_rows) = self.ledger.give(&buf, at.unwrap_or(0));
        if !beyond {
            shelf.promised += usize::from(promised);
            shelf.free.push(buf);
        }
        let rows = &mut self.shelves[0];
        rows.promised = less(rows.promised, usize::from(fewer_rows));
    }

    fn open_fair(&mut self, fixed_bytes: u64) -> Option<u32> {
        for (at, count) in Ledger::promises() {
            let shelf = &mut self.shelves[at];
            while shelf.room() < count {
                if !shelf.grow(&self.budget, true) {
                    return None;
                }
            }
        }
        if !self.charge(fixed_bytes, true) {
            return None;
        }
        for (at, count) in Ledger::promises() {
            self.shelves[at].promised += count;
        }
        Some(self.ledger.open(true, fixed_bytes))
    }

    pub(crate) fn promise_more(&mut self, account: u32, count: u32) -> u32 {
        if !self.ledger.is_fair(account) {
            return count;
        }
        let affordable = self.share_bytes() / Pool::SMALL_BYTES as u64;
        let count = count.min(u32::try_from(affordable).unwrap_or(u32::MAX));
        let small = &mut self.shelves[0];
        while small.room() < count as usize && small.grow(&self.budget, false) {}
        let count = count.min(small.room() as u32);
        small.promised += self.ledger.promise_more(account, count);
        count
    }

    /// Ends an account. What it holds comes back later.
    pub(crate) fn close(&mut self, account: u32) {
        for (at, count) in self.ledger.unkept_promises(account) {
            self.shelves[at].promised = less(self.shelves[at].promised, count);
        }
        let charged = self.ledger.close(account);
        self.uncharge(charged);
    }

    /// Counts bytes that are no buffers of this pool. False where the budget has no room for them.
    pub(crate) fn charge(&mut self, bytes: u64, newcomer: bool) -> bool {
        let Some(sum) = self.charged_bytes.checked_add(bytes) else { return false };
        let more = sum.saturating_sub(self.charge_covered_bytes);
        let steps = more.div_ceil(Budget::STEP_BYTES).saturating_mul(Budget::STEP_BYTES);
        let budget = &self.budget;
        let take = || if newcomer { budget.take(steps) } else { budget.take_shared(steps) };
        if steps != 0 && !take() {
            return false;
        }
        self.charge_covered_bytes += steps;
        self.charged_bytes = sum;
        true
    }

    pub(crate) fn uncharge(&mut self, bytes: u64) {
        let left = self.charged_bytes.checked_sub(bytes);
        self.charged_bytes = left.expect("what was charged is uncharged once");
        let needed = self.charged_bytes.next_multiple_of(Budget::STEP_BYTES);
        self.budget.give(self.charge_covered_bytes - needed);
        self.charge_covered_bytes = needed;
    }

    fn review(&mut self, now: Nanos) -> bool {
        let refusals = self.budget.refusals();
        let wanted = std::mem::replace(&mut self.refusals, refusals) != refusals;
        if now >= self.next_review || wanted {
            self.next_review = now + QUIET;
            let budget = &self.budget;
            self.shelves.iter_mut().for_each(|shelf| shelf.release(wanted, budget));
            self.quiet_reviews += 1;
        }
        let count = |shelf: &Shelf| shelf.made + shelf.covered + shelf.lent();
        let buffers = self.shelves.iter().map(count).sum();
        // Also if it is not time to review yet: nobody may ask again who is told not to.
        if std::mem::replace(&mut self.reviewed_buffers, buffers) != buffers {
            self.quiet_reviews = 0;
        }
        // What the kernel knows, or is in use in part, stays.
        self.quiet_reviews < 2 && self.shelves.iter().any(Shelf::has_spare)
    }
}

/// A count less `by`.
fn less(count: usize, by: usize) -> usize {
    count.checked_sub(by).expect("a count of buffers is never below zero")
}

impl Shelf {
    fn new(len_bytes: usize, limit: usize) -> Shelf {
        let free = Vec::with_capacity(limit.min(STEP_BYTES / len_bytes));
        Shelf { free, len_bytes, limit, made: 0, covered: 0, promised: 0, least_free: 0 }
    }

    fn lent(&self) -> usize {
        self.made - self.free.len()
    }

    /// How many may be lent that are promised to nobody.
    #[inline]
    fn room(&self) -> usize {
        less(self.covered, self.lent() + self.promised)
    }

    /// Buffers in one step of the budget.
    fn step(&self) -> usize {
        STEP_BYTES / self.len_bytes
    }

    /// Takes a step of the budget, for a newcomer or to share. False where that is not to be had.
    #[cold]
    fn grow(&mut self, budget: &Budget, newcomer: bool) -> bool {
        let count = self.step().min(self.limit - self.covered);
        let grown = count != 0
            && match newcomer {
                true => budget.take(Budget::STEP_BYTES),
                false => budget.take_shared(Budget::STEP_BYTES),
            };
        self.covered += if grown { count } else { 0 };
        grown
    }

    /// A buffer, one of those that are covered; `None` where the system has no memory.
    #[inline]
    fn pop(&mut self) -> Option<Buf> {
        if self.free.is_empty() {
            self.map()?;
        }
        let buf = self.free.pop();
        self.least_free = self.least_free.min(self.free.len());
        buf
    }

    #[cold]
    fn map(&mut self) -> Option<()> {
        let count = self.step().min(self.covered - self.made);
        if count == 0 {
            return None;
        }
        self.free.append(&mut Arena::cut(count, self.len_bytes).ok()?);
        self.made += count;
        Some(())
    }

    /// Whether more is free than is kept for the next one who comes.
    fn has_spare(&self) -> bool {
        self.free.len() >= 2 * self.step() || self.room() >= 2 * self.step()
    }

    /// Unmaps what was not used since the last review, or is free now if it is `wanted` elsewhere,
    /// but for one step, and gives it back to the budget.
    #[cold]
    fn release(&mut self, wanted: bool, budget: &Budget) {
        let unused = if wanted { self.free.len() } else { self.least_free };
        let floor = if wanted { 0 } else { self.step() };
        self.unmap(unused.saturating_sub(floor));
        self.least_free = self.free.len();
        // Covered in steps; the last may be short where there is a limit.
        while self.covered > floor
            && let step = (self.covered - 1) % self.step() + 1
            && self.covered - step >= self.made.max(self.lent() + self.promised)
        {
            self.covered -= step;
            budget.give(Budget::STEP_BYTES);
        }
    }

    /// Unmaps arenas that are free as a whole and known to nobody else, such as the kernel, of at
    /// most `most` buffers in all.
    fn unmap(&mut self, mut most: usize) {
        if most < self.step() {
            return;
        }
        // In this order the lower ones fall free, as the highest are lent next.
        self.free.sort_unstable_by_key(|buf| buf.as_ptr() as usize);
        let (mut from, before) = (0, self.free.len());
        while from < self.free.len() {
            let (base, len, holds) = self.free[from].home();
            let count = len / self.len_bytes;
            let of_one = |buf: &Buf| buf.home().0 == base;
            let here = self.free[from..].iter().take_while(|buf| of_one(buf)).count();
            if here == count && holds == count && count <= most {
                self.free.drain(from..from + count);
                most -= count;
            } else {
                from += here;
            }
        }
        self.made -= before - self.free.len();
        // The list is no longer than what may come back to it.
        self.free.shrink_to(self.made.max(self.step()));
    }
}

#[cfg(test)]
mod test;
