//! What each connection holds of its core's pool.

use crate::{Buf, Pool};

/// What one connection holds of a [`Pool`]. Buffers remember it, so it does not matter which way
/// they come back.
///
/// A fair account may hold a part of what is left for others. However many accounts take all that
/// they can get, each has what is [promised](Account::PROMISED_BYTES): one medium buffer and one
/// small one for data, and small ones for rows of a chain.
#[derive(Debug)]
pub struct Account {
    pool: Pool,
    index: u32,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Data that comes in.
    Receive,
    /// Data that will be sent: its header takes a row then.
    Send,
    /// A row of what is to be sent, which cannot.
    Row,
}

/// All accounts of a pool.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    unused: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    held_bytes: usize,
    /// Buffers for data to be sent, and their bytes.
    send_count: u32,
    send_bytes: usize,
    /// Small buffers for data that are promised beyond the usual.
    more: u32,
    /// How many are held of each kind of which some are promised.
    counts: [u32; KINDS],
    open: bool,
    fair: bool,
    charged_bytes: u64,
}

/// Kinds of buffers of which some are promised: the shelf and how many.
const PROMISES: [(usize, u32); KINDS] = [(0, 1), (1, 1), (0, 3 + PREPAID_ROWS)];
const KINDS: usize = 3;
/// The kind of small rows. When data is sent from its buffer, its header takes a row: so many are
/// promised for the data that is promised, and one more for each further buffer with data.
const ROWS: usize = 2;
const PREPAID_ROWS: u32 = 2;

/// Bits of a lender beside the number of its account.
const BEYOND: u32 = 1 << 31;
const ROW: u32 = 1 << 30;
const SEND: u32 = 1 << 29;

/// The number of the account, whether the buffer is none of the stock, and what it is for.
#[inline]
pub(crate) fn of_lender(lender: u32) -> (u32, bool, Claim) {
    let claim = match (lender & ROW != 0, lender & SEND != 0) {
        (true, _) => Claim::Row,
        (false, true) => Claim::Send,
        (false, false) => Claim::Receive,
    };
    (lender & !(BEYOND | ROW | SEND), lender & BEYOND != 0, claim)
}

/// Which kind of promise a buffer falls under.
#[inline]
fn kind(at: usize, claim: Claim) -> Option<usize> {
    match (at, claim) {
        (0 | 1, Claim::Receive | Claim::Send) => Some(at),
        (0, Claim::Row) => Some(ROWS),
        _ => None,
    }
}

impl Account {
    /// What a fair account can always hold.
    pub const PROMISED_BYTES: usize = 6 * Pool::SMALL_BYTES + Pool::MEDIUM_BYTES;
    /// Rows of a chain are to be had beyond the fair share, if there is any memory, as long as
    /// they are no more than this and the data that may have to be copied into them.
    pub const ROWS_BYTES: usize = 2 * Pool::LARGE_BYTES;

    pub(crate) fn new(pool: Pool, index: u32) -> Account {
        Account { pool, index }
    }

    /// Takes a buffer for data of at least `len_bytes` that come in; `None` when it is not to be
    /// had now.
    #[inline]
    pub fn take(&self, len_bytes: usize) -> Option<Buf> {
        self.pool.0.borrow_mut().take(self.index, len_bytes, Claim::Receive)
    }

    /// The same for data that will be sent.
    #[inline]
    pub fn take_to_send(&self, len_bytes: usize) -> Option<Buf> {
        self.pool.0.borrow_mut().take(self.index, len_bytes, Claim::Send)
    }

    /// The same, but one of another length where that is not to be had and the account would
    /// otherwise get nowhere.
    #[inline]
    pub fn take_part(&self, len_bytes: usize) -> Option<Buf> {
        self.take(len_bytes).or_else(|| self.take_what_is_promised())
    }

    /// The same for data that came unasked and so cannot wait. An account that is bounded elsewhere
    /// gets a buffer of its own where all are lent.
    #[inline]
    pub fn take_unasked(&self, len_bytes: usize) -> Option<Buf> {
        self.take_part(len_bytes).or_else(|| self.take_beyond(len_bytes))
    }

    #[cold]
    fn take_beyond(&self, len_bytes: usize) -> Option<Buf> {
        self.pool.0.borrow_mut().take_beyond(self.index, len_bytes, Claim::Receive)
    }

    #[cold]
    fn take_what_is_promised(&self) -> Option<Buf> {
        if !self.is_in_need() {
            return None;
        }
        let mut stock = self.pool.0.borrow_mut();
        // Where small ones are lent, the promised medium one serves as well.
        let mut take = |len| stock.take(self.index, len, Claim::Receive);
        take(Pool::MEDIUM_BYTES).or_else(|| take(Pool::SMALL_BYTES))
    }

    /// Takes a buffer for bytes to be sent.
    #[inline]
    pub fn take_row(&self, len_bytes: usize) -> Option<Buf> {
        self.pool.0.borrow_mut().take_beyond(self.index, len_bytes, Claim::Row)
    }

    /// Whether `bytes` more are within the account's share.
    pub fn has_share(&self, bytes: usize) -> bool {
        self.pool.0.borrow().has_share(self.index, bytes)
    }

    /// Whether so many large rows and so many small ones can be taken now, within the account's
    /// share. Rows that are taken next are there then.
    pub fn has_rows(&self, large: usize, small: usize) -> bool {
        self.pool.0.borrow_mut().has_rows(self.index, large, small)
    }

    /// Whether it holds less than it is promised, so that nothing of its own will come back that
    /// it could wait for.
    pub fn is_in_need(&self) -> bool {
        let stock = self.pool.0.borrow();
        let held = stock.ledger.held_bytes(self.index);
        stock.ledger.is_fair(self.index) && held < Account::PROMISED_BYTES
    }

    /// How many buffers for data of `len_bytes` it could have now.
    pub fn affordable(&self, len_bytes: usize) -> u32 {
        let stock = self.pool.0.borrow();
        let held = stock.ledger.held_bytes(self.index) as u64;
        let shared = stock.share_bytes().saturating_sub(held) / len_bytes.max(1) as u64;
        let promised = [0, 1].map(|kind| stock.ledger.promised(self.index, kind));
        let fitting = if len_bytes <= Pool::SMALL_BYTES { &promised[..] } else { &promised[1..] };
        let promised = fitting.iter().sum();
        u32::try_from(shared).unwrap_or(u32::MAX).saturating_add(promised)
    }

    /// How many small rows it is still promised.
    pub fn promised_rows(&self) -> usize {
        let stock = self.pool.0.borrow();
        stock.ledger.promised(self.index, ROWS) as usize
    }

    /// Bytes of buffers that are held.
    pub fn held_bytes(&self) -> usize {
        self.pool.0.borrow().ledger.held_bytes(self.index)
    }

    /// Promises the account so many small buffers more for data that come unasked, or as many of
    /// them as are within its share. Returns how many.
    pub fn promise_more(&self, count: u32) -> u32 {
        self.pool.0.borrow_mut().promise_more(self.index, count)
    }

    /// Counts bytes that the account holds beside buffers, until it ends. False where they are
    /// beyond its share or the budget.
    pub fn charge(&self, bytes: u64) -> bool {
        let mut stock = self.pool.0.borrow_mut();
        let fair = !stock.ledger.is_fair(self.index) || bytes <= stock.share_bytes();
        let charged = fair && stock.charge(bytes, false);
        if charged {
            stock.ledger.charge(self.index, bytes);
        }
        charged
    }

    /// The pool that it is an account of.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.pool.0.borrow_mut().close(self.index);
    }
}

impl Entry {
    /// How many of this kind are promised to it.
    #[inline]
    fn promise(&self, kind: usize) -> u32 {
        let more = match kind {
            0 => self.more,
            ROWS => self.send_count.saturating_sub(PREPAID_ROWS),
            _ => 0,
        };
        PROMISES[kind].1 + more
    }
}

impl Ledger {
    /// The account of the core itself.
    pub(crate) const CORE: u32 = 0;

    pub(crate) fn new() -> Ledger {
        let core = Entry { open: true, ..Entry::default() };
        Ledger { entries: vec![core], unused: Vec::new() }
    }

    /// What a fair account is promised: how many of which shelf.
    pub(crate) fn promises() -> [(usize, usize); 2] {
        [0, 1].map(|at| {
            let of_shelf = PROMISES.iter().filter(|(shelf, _)| *shelf == at);
            (at, of_shelf.map(|(_, count)| *count as usize).sum())
        })
    }

    /// Bytes of rows that an account holds beyond those of its data.
    pub(crate) fn excess_row_bytes(&self, account: u32) -> usize {
        let entry = &self.entries[account as usize];
        entry.held_bytes.saturating_sub(2 * entry.send_bytes)
    }

    /// Whether one more buffer with data has a row promised with it.
    #[inline]
    pub(crate) fn prepays(&self, account: u32, claim: Claim) -> bool {
        let entry = &self.entries[account as usize];
        let more = entry.send_count >= PREPAID_ROWS && entry.promise(ROWS) >= entry.counts[ROWS];
        entry.fair && claim == Claim::Send && more
    }

    pub(crate) fn open(&mut self, fair: bool, charged_bytes: u64) -> u32 {
        let entry = Entry { open: true, fair, charged_bytes, ..Entry::default() };
        if let Some(index) = self.unused.pop() {
            self.entries[index as usize] = entry;
            return index;
        }
        self.entries.push(entry);
        self.entries.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn is_fair(&self, account: u32) -> bool {
        self.entries[account as usize].fair
    }

    #[inline]
    pub(crate) fn held_bytes(&self, account: u32) -> usize {
        self.entries[account as usize].held_bytes
    }

    /// How many more of this kind are promised.
    pub(crate) fn promised(&self, account: u32, kind: usize) -> u32 {
        let entry = &self.entries[account as usize];
        if entry.fair { entry.promise(kind).saturating_sub(entry.counts[kind]) } else { 0 }
    }

    #[inline]
    pub(crate) fn is_promised(&self, account: u32, at: usize, claim: Claim) -> bool {
        kind(at, claim).is_some_and(|kind| self.promised(account, kind) != 0)
    }

    /// Notes that a buffer of a shelf is lent. Whether that keeps a promise.
    #[inline]
    pub(crate) fn lend(&mut self, account: u32, at: usize, buf: &mut Buf, claim: Claim) -> bool {
        let promised = self.is_promised(account, at, claim);
        let entry = &mut self.entries[account as usize];
        entry.held_bytes += buf.len();
        if let Some(kind) = kind(at, claim) {
            entry.counts[kind] += 1;
        }
        let claimed = match claim {
            Claim::Receive => 0,
            Claim::Send => {
                entry.send_count += 1;
                entry.send_bytes += buf.len();
                SEND
            }
            Claim::Row => ROW,
        };
        buf.lend(account | claimed);
        promised
    }

    /// Notes that a buffer is lent that is none of the stock.
    pub(crate) fn lend_beyond(&mut self, account: u32, buf: &mut Buf) {
        self.entries[account as usize].held_bytes += buf.len();
        buf.lend(account | BEYOND);
    }

    /// Notes that a buffer came back. Whether it is promised again, and whether a row that was
    /// promised with it is no longer.
    #[inline]
    pub(crate) fn give(&mut self, buf: &Buf, at: usize) -> (bool, bool) {
        let (account, beyond, claim) = of_lender(buf.lender());
        let entry = &mut self.entries[account as usize];
        let held = entry.held_bytes.checked_sub(buf.len());
        entry.held_bytes = held.expect("no account holds less than nothing");
        if !entry.open && entry.held_bytes == 0 {
            self.unused.push(account);
        }
        if beyond {
            return (false, false);
        }
        let mut fewer = false;
        if claim == Claim::Send {
            let unkept = self.promised(account, ROWS) != 0;
            let entry = &mut self.entries[account as usize];
            let count = entry.send_count.checked_sub(1);
            entry.send_count = count.expect("no account holds fewer than none");
            entry.send_bytes -= buf.len();
            fewer = unkept && entry.send_count >= PREPAID_ROWS;
        }
        let Some(kind) = kind(at, claim) else { return (false, fewer) };
        let entry = &mut self.entries[account as usize];
        let count = entry.counts[kind].checked_sub(1);
        entry.counts[kind] = count.expect("no account holds fewer than none");
        (self.is_promised(account, at, claim), fewer)
    }

    /// Promises this many more small buffers. Returns how many of them are not held already.
    pub(crate) fn promise_more(&mut self, account: u32, count: u32) -> usize {
        let before = self.promised(account, 0);
        self.entries[account as usize].more += count;
        (self.promised(account, 0) - before) as usize
    }

    pub(crate) fn charge(&mut self, account: u32, bytes: u64) {
        self.entries[account as usize].charged_bytes += bytes;
    }

    /// What an account was promised and does not hold: how many of which shelf.
    pub(crate) fn unkept_promises(&self, account: u32) -> [(usize, usize); KINDS] {
        let mut unkept = [(0, 0); KINDS];
        for (kind, (at, _)) in PROMISES.iter().enumerate() {
            unkept[kind] = (*at, self.promised(account, kind) as usize);
        }
        unkept
    }

    /// Ends an account, and returns what it was charged. Its number is free when it holds nothing.
    pub(crate) fn close(&mut self, account: u32) -> u64 {
        let entry = &mut self.entries[account as usize];
        (entry.open, entry.fair) = (false, false);
        if entry.held_bytes == 0 {
            self.unused.push(account);
        }
        std::mem::take(&mut entry.charged_bytes)
    }

    /// What all accounts are promised and do not hold, of a shelf.
    #[cfg(test)]
    pub(crate) fn unkept_in_all(&self, at: usize) -> usize {
        let accounts = 0..self.entries.len() as u32;
        let unkept = accounts.flat_map(|account| self.unkept_promises(account));
        unkept.filter(|(shelf, _)| *shelf == at).map(|(_, count)| count).sum()
    }
}
