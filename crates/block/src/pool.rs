//! One core's pool of buffers, with accounts of the buffers lent.

use std::cell::RefCell;
use std::rc::Rc;

use crate::account::{Account, Claim, Ledger, of_lender};
use crate::buf::NOBODY;
use crate::plant::{Plant, planted};
use crate::{Arena, Budget, Buf, Nanos};

/// One core's buffers in three sizes, last in first out, so that warm ones are lent first.
///
/// A handle: clones share the pool. All code on a core draws from one pool, each connection through
/// its [`Account`]. Memory is mapped by the huge page, as far as the [`Budget`] goes, and returned
/// when unused for a while.
#[derive(Clone, Debug)]
pub struct Pool(pub(crate) Rc<RefCell<Stock>>);

/// The state shared by a pool's handles.
#[derive(Debug)]
pub(crate) struct Stock {
    shelves: [Shelf; SIZES],
    pub(crate) ledger: Ledger,
    budget: Budget,
    /// Charged bytes other than our buffers, and the part that the budget covers.
    charged_bytes: u64,
    charge_covered_bytes: u64,
    next_review: Nanos,
    /// [`Budget::refusals`] at the last look.
    refusals: u32,
    /// Buffers lent and covered at the last review, and the number of reviews without a change.
    reviewed_buffers: usize,
    quiet_reviews: u32,
}

/// Buffers of one size.
#[derive(Debug)]
struct Shelf {
    free: Vec<Buf>,
    len_bytes: usize,
    /// The maximum number.
    limit: usize,
    /// Mapped buffers, and buffers covered by the budget: mapped or to be mapped.
    made: usize,
    covered: usize,
    /// Free buffers promised to accounts.
    promised: usize,
    /// The fewest free since the last review.
    least_free: usize,
}

/// Number of sizes.
pub(crate) const SIZES: usize = 3;
const STEP_BYTES: usize = Budget::STEP_BYTES as usize;

/// An account may hold this part of the free memory. Eight accounts that take all they can get
/// leave a third of the budget to others, sixteen leave an eighth.
const SHARE: u64 = 8;

/// Buffers free for this long are unmapped.
const QUIET: Nanos = Nanos::from_secs(2);

impl Pool {
    /// Length of a small buffer: a database page with its header.
    pub const SMALL_BYTES: usize = 16 << 10;
    /// Length of a medium buffer: unsolicited data of a write.
    pub const MEDIUM_BYTES: usize = 64 << 10;
    /// Length of a large buffer: the longest single I/O, or a batch of 64 responses of 4 KiB.
    pub const LARGE_BYTES: usize = 256 << 10;

    /// A pool of up to this many small and large buffers, without medium ones. Memory is mapped as
    /// needed.
    pub fn new(small_limit: usize, large_limit: usize) -> Pool {
        Pool::limited([small_limit, 0, large_limit], Budget::unlimited())
    }

    /// A pool that shares a budget with other pools.
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

    /// Takes a buffer of at least `len_bytes`; `None` if all are lent, if the budget or the kernel
    /// has no memory, or for more than [`LARGE_BYTES`](Self::LARGE_BYTES).
    ///
    /// The buffer's old content is not cleared.
    pub fn take(&self, len_bytes: usize) -> Option<Buf> {
        self.0.borrow_mut().take(Ledger::CORE, len_bytes, Claim::Receive)
    }

    /// Like [`take`](Self::take), but allocates a new buffer if all are lent, for callers that are
    /// limited elsewhere and cannot wait. Such a buffer, or one longer than
    /// [`LARGE_BYTES`](Self::LARGE_BYTES), is freed on return. `None` if the kernel has no memory.
    pub fn take_beyond(&self, len_bytes: usize) -> Option<Buf> {
        if len_bytes > Pool::LARGE_BYTES {
            return Buf::new(len_bytes).ok();
        }
        self.0.borrow_mut().take_beyond(Ledger::CORE, len_bytes, Claim::Receive)
    }

    /// Returns a buffer. One that is not of this pool is freed.
    pub fn give(&self, buf: Buf) {
        self.0.borrow_mut().give(buf);
    }

    /// Numbers of small and of larger buffers lent. Zero once all are back.
    pub fn lent(&self) -> [usize; 2] {
        let [small, medium, large] = self.0.borrow().shelves.each_ref().map(Shelf::lent);
        [small, medium + large]
    }

    /// Bytes mapped for buffers.
    pub fn mapped_bytes(&self) -> usize {
        self.0.borrow().shelves.iter().map(|shelf| shelf.made * shelf.len_bytes).sum()
    }

    /// An account that is limited elsewhere, such as by its commands.
    pub fn account(&self) -> Account {
        let index = self.0.borrow_mut().ledger.open(false, 0);
        Account::new(self.clone(), index)
    }

    /// Opens an account of a peer, with a fair share; it can always hold
    /// [`PROMISED_BYTES`](Account::PROMISED_BYTES). `fixed_bytes` is its cost without buffers.
    /// `None` if the budget has no room for it.
    pub fn fair_account(&self, fixed_bytes: u64) -> Option<Account> {
        let index = self.0.borrow_mut().open_fair(fixed_bytes)?;
        Some(Account::new(self.clone(), index))
    }

    /// Returns memory unused for a while, or at once if another pool was refused. To be called
    /// every second or so; returns whether to call again.
    pub fn review(&self, now: Nanos) -> bool {
        self.0.borrow_mut().review(now)
    }
}

impl Stock {
    /// The shelf of this length.
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

    /// Covers the row promised with a buffer of a shelf. False if that is impossible.
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

    /// Whether an account may hold one more buffer of `len_bytes`.
    pub(crate) fn has_share(&self, account: u32, len_bytes: usize) -> bool {
        let bytes = self.shelf_for(len_bytes).map_or(len_bytes, |at| self.shelves[at].len_bytes);
        !self.ledger.is_fair(account) || self.is_within_share(account, bytes, Claim::Receive)
    }

    /// Returns whether an account may hold this many more large and small rows, and they are
    /// available; takes the memory from the budget.
    pub(crate) fn has_rows(&mut self, account: u32, large: usize, small: usize) -> bool {
        if !self.ledger.is_fair(account) {
            return true;
        }
        // The share shrinks with each row. One more small row is for short responses.
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

    /// The share of a fair account: a part of the free memory.
    #[inline]
    pub(crate) fn share_bytes(&self) -> u64 {
        self.free_bytes() / SHARE
    }

    /// Returns the memory neither lent nor promised, plus the rest of the budget.
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

    /// Closes an account. Its buffers return later.
    pub(crate) fn close(&mut self, account: u32) {
        for (at, count) in self.ledger.unkept_promises(account) {
            self.shelves[at].promised = less(self.shelves[at].promised, count);
        }
        let charged = self.ledger.close(account);
        self.uncharge(charged);
    }

    /// Charges bytes that are no buffers of this pool. False if the budget has no room.
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
        // This also applies before the next review is due: after a false result the caller may
        // never call again.
        if std::mem::replace(&mut self.reviewed_buffers, buffers) != buffers {
            self.quiet_reviews = 0;
        }
        // Arenas that the kernel knows, or that are partly in use, stay.
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

    /// Buffers that may be lent beyond the promises.
    #[inline]
    fn room(&self) -> usize {
        less(self.covered, self.lent() + self.promised)
    }

    /// Buffers in one step of the budget.
    fn step(&self) -> usize {
        STEP_BYTES / self.len_bytes
    }

    /// Takes a step of the budget, for a new connection or to share. False if there is none.
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

    /// One of the covered buffers; `None` if the kernel has no memory.
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

    /// Returns whether more buffers are free than are reserved for the next connection.
    fn has_spare(&self) -> bool {
        self.free.len() >= 2 * self.step() || self.room() >= 2 * self.step()
    }

    /// Unmaps buffers unused since the last review, or all free ones if the budget is `wanted`
    /// elsewhere, except for one step, and returns them to the budget.
    #[cold]
    fn release(&mut self, wanted: bool, budget: &Budget) {
        let unused = if wanted { self.free.len() } else { self.least_free };
        let floor = if wanted { 0 } else { self.step() };
        self.unmap(unused.saturating_sub(floor));
        self.least_free = self.free.len();
        // Covered in steps; with a limit the last may be short.
        while self.covered > floor
            && let step = (self.covered - 1) % self.step() + 1
            && self.covered - step >= self.made.max(self.lent() + self.promised)
        {
            self.covered -= step;
            budget.give(Budget::STEP_BYTES);
        }
    }

    /// Unmaps free arenas without other references, such as the kernel's, of at most `most` buffers
    /// in all.
    fn unmap(&mut self, mut most: usize) {
        if most < self.step() {
            return;
        }
        // In this order low arenas become free, as the highest buffers are lent first.
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
        // The list is no longer than the number of buffers that may return to it.
        self.free.shrink_to(self.made.max(self.step()));
    }
}

#[cfg(test)]
mod test;
