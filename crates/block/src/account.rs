//! Accounts of the buffers that each connection holds of its core's pool.

use crate::{Buf, Pool};

/// The buffers that one connection holds of a [`Pool`]. Each buffer remembers its account,
/// whichever path it returns by.
///
/// A fair account may hold a share of the free memory. Regardless of all others, each account gets
/// its [promised](Account::PROMISED_BYTES) buffers: one medium and one small buffer for data, and
/// small ones for rows of a chain.
#[derive(Debug)]
pub struct Account {
    pool: Pool,
    index: u32,
}

/// The purpose of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Received data.
    Receive,
    /// Data to be sent: its header will take a row.
    Send,
    /// A row of bytes to be sent; needs no further one.
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
    /// Buffers of data to be sent, and their bytes.
    send_count: u32,
    send_bytes: usize,
    /// Further small data buffers promised.
    more: u32,
    /// Buffers lent of each promised kind.
    counts: [u32; KINDS],
    open: bool,
    fair: bool,
    charged_bytes: u64,
}

/// Promised kinds of buffers: shelf and number.
const PROMISES: [(usize, u32); KINDS] = [(0, 1), (1, 1), (0, 3 + PREPAID_ROWS)];
const KINDS: usize = 3;
/// The kind of small rows. Data sent from its own buffer needs a row for its header: these are
/// promised for the promised data, and one more for each further data buffer.
const ROWS: usize = 2;
const PREPAID_ROWS: u32 = 2;

/// Flags of a lender, in addition to its account number.
const BEYOND: u32 = 1 << 31;
const ROW: u32 = 1 << 30;
const SEND: u32 = 1 << 29;

/// Account number, whether the buffer is beyond the stock, and its purpose.
#[inline]
pub(crate) fn of_lender(lender: u32) -> (u32, bool, Claim) {
    let claim = match (lender & ROW != 0, lender & SEND != 0) {
        (true, _) => Claim::Row,
        (false, true) => Claim::Send,
        (false, false) => Claim::Receive,
    };
    (lender & !(BEYOND | ROW | SEND), lender & BEYOND != 0, claim)
}

/// The promise that a buffer counts towards.
#[inline]
fn kind(at: usize, claim: Claim) -> Option<usize> {
    match (at, claim) {
        (0 | 1, Claim::Receive | Claim::Send) => Some(at),
        (0, Claim::Row) => Some(ROWS),
        _ => None,
    }
}

impl Account {
    /// Bytes that a fair account can always hold.
    pub const PROMISED_BYTES: usize = 6 * Pool::SMALL_BYTES + Pool::MEDIUM_BYTES;
    /// Rows of a chain may exceed the fair share, while there is memory, up to this plus the data
    /// that may have to be copied into them.
    pub const ROWS_BYTES: usize = 2 * Pool::LARGE_BYTES;

    pub(crate) fn new(pool: Pool, index: u32) -> Account {
        Account { pool, index }
    }

    /// Takes a buffer for at least `len_bytes` of received data; `None` if there is none now.
    #[inline]
    pub fn take(&self, len_bytes: usize) -> Option<Buf> {
        self.pool.0.borrow_mut().take(self.index, len_bytes, Claim::Receive)
    }

    /// Takes a buffer for data to send.
    #[inline]
    pub fn take_to_send(&self, len_bytes: usize) -> Option<Buf> {
        self.pool.0.borrow_mut().take(self.index, len_bytes, Claim::Send)
    }

    /// Takes a buffer for received data, of another size if none of this size is available and the
    /// account has no other buffer to continue with.
    #[inline]
    pub fn take_part(&self, len_bytes: usize) -> Option<Buf> {
        self.take(len_bytes).or_else(|| self.take_what_is_promised())
    }

    /// Takes a buffer for unsolicited data, which cannot wait. An account limited elsewhere gets a
    /// buffer beyond the stock if all are lent.
    #[inline]
    pub fn take_unsolicited(&self, len_bytes: usize) -> Option<Buf> {
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
        // If all small ones are lent, the promised medium one will do.
        let mut take = |len| stock.take(self.index, len, Claim::Receive);
        take(Pool::MEDIUM_BYTES).or_else(|| take(Pool::SMALL_BYTES))
    }

    /// Takes a row for bytes to be sent.
    #[inline]
    pub fn take_row(&self, len_bytes: usize) -> Option<Buf> {
        self.pool.0.borrow_mut().take_beyond(self.index, len_bytes, Claim::Row)
    }

    /// Whether `bytes` more are within the account's share.
    pub fn has_share(&self, bytes: usize) -> bool {
        self.pool.0.borrow().has_share(self.index, bytes)
    }

    /// Whether this many large and small rows are available within the account's share. The next
    /// rows taken are then available.
    pub fn has_rows(&self, large: usize, small: usize) -> bool {
        self.pool.0.borrow_mut().has_rows(self.index, large, small)
    }

    /// Returns whether the account holds less than promised, so that it has no buffer whose return
    /// it could wait for.
    pub fn is_in_need(&self) -> bool {
        let stock = self.pool.0.borrow();
        let held = stock.ledger.held_bytes(self.index);
        stock.ledger.is_fair(self.index) && held < Account::PROMISED_BYTES
    }

    /// Number of buffers for `len_bytes` of data available to it now.
    pub fn affordable(&self, len_bytes: usize) -> u32 {
        let stock = self.pool.0.borrow();
        let held = stock.ledger.held_bytes(self.index) as u64;
        let shared = stock.share_bytes().saturating_sub(held) / len_bytes.max(1) as u64;
        let promised = [0, 1].map(|kind| stock.ledger.promised(self.index, kind));
        let fitting = if len_bytes <= Pool::SMALL_BYTES { &promised[..] } else { &promised[1..] };
        let promised = fitting.iter().sum();
        u32::try_from(shared).unwrap_or(u32::MAX).saturating_add(promised)
    }

    /// Small rows still promised to it.
    pub fn promised_rows(&self) -> usize {
        let stock = self.pool.0.borrow();
        stock.ledger.promised(self.index, ROWS) as usize
    }

    /// Bytes of the buffers it holds.
    pub fn held_bytes(&self) -> usize {
        self.pool.0.borrow().ledger.held_bytes(self.index)
    }

    /// Promises the account up to `count` further small buffers for unsolicited data, as far as its
    /// share goes. Returns how many.
    pub fn promise_more(&self, count: u32) -> u32 {
        self.pool.0.borrow_mut().promise_more(self.index, count)
    }

    /// Charges bytes other than buffers, until the account is closed. False if they exceed its
    /// share or the budget.
    pub fn charge(&self, bytes: u64) -> bool {
        let mut stock = self.pool.0.borrow_mut();
        let fair = !stock.ledger.is_fair(self.index) || bytes <= stock.share_bytes();
        let charged = fair && stock.charge(bytes, false);
        if charged {
            stock.ledger.charge(self.index, bytes);
        }
        charged
    }

    /// The pool of the account.
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
    /// Number of this kind promised to it.
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

    /// The promises of a fair account: number and shelf.
    pub(crate) fn promises() -> [(usize, usize); 2] {
        [0, 1].map(|at| {
            let of_shelf = PROMISES.iter().filter(|(shelf, _)| *shelf == at);
            (at, of_shelf.map(|(_, count)| *count as usize).sum())
        })
    }

    /// Returns the bytes of rows beyond those for the account's data.
    pub(crate) fn excess_row_bytes(&self, account: u32) -> usize {
        let entry = &self.entries[account as usize];
        entry.held_bytes.saturating_sub(2 * entry.send_bytes)
    }

    /// Whether one more data buffer gets a row promised with it.
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

    /// Buffers of this kind still promised.
    pub(crate) fn promised(&self, account: u32, kind: usize) -> u32 {
        let entry = &self.entries[account as usize];
        if entry.fair { entry.promise(kind).saturating_sub(entry.counts[kind]) } else { 0 }
    }

    #[inline]
    pub(crate) fn is_promised(&self, account: u32, at: usize, claim: Claim) -> bool {
        kind(at, claim).is_some_and(|kind| self.promised(account, kind) != 0)
    }

    /// Notes a lent buffer of a shelf. Returns whether that fulfils a promise.
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

    /// Notes a lent buffer beyond the stock.
    pub(crate) fn lend_beyond(&mut self, account: u32, buf: &mut Buf) {
        self.entries[account as usize].held_bytes += buf.len();
        buf.lend(account | BEYOND);
    }

    /// Notes a returned buffer. Returns whether it is promised again, and whether a row promised
    /// with it is no longer.
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

    /// Promises further small buffers. Returns how many of them it does not hold already.
    pub(crate) fn promise_more(&mut self, account: u32, count: u32) -> usize {
        let before = self.promised(account, 0);
        self.entries[account as usize].more += count;
        (self.promised(account, 0) - before) as usize
    }

    pub(crate) fn charge(&mut self, account: u32, bytes: u64) {
        self.entries[account as usize].charged_bytes += bytes;
    }

    /// Promised buffers that an account does not hold: number and shelf.
    pub(crate) fn unkept_promises(&self, account: u32) -> [(usize, usize); KINDS] {
        let mut unkept = [(0, 0); KINDS];
        for (kind, (at, _)) in PROMISES.iter().enumerate() {
            unkept[kind] = (*at, self.promised(account, kind) as usize);
        }
        unkept
    }

    /// Closes an account and returns its charge. Its number is reused once it holds nothing.
    pub(crate) fn close(&mut self, account: u32) -> u64 {
        let entry = &mut self.entries[account as usize];
        (entry.open, entry.fair) = (false, false);
        if entry.held_bytes == 0 {
            self.unused.push(account);
        }
        std::mem::take(&mut entry.charged_bytes)
    }

    /// Promised buffers of a shelf that accounts do not hold.
    #[cfg(test)]
    pub(crate) fn unkept_in_all(&self, at: usize) -> usize {
        let accounts = 0..self.entries.len() as u32;
        let unkept = accounts.flat_map(|account| self.unkept_promises(account));
        unkept.filter(|(shelf, _)| *shelf == at).map(|(_, count)| count).sum()
    }
}
