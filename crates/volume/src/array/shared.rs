//! State shared by the lanes of an array and its keeper: the legs that are in, in memory and on the
//! legs, and the map.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use block::{Nanos, Plant, planted};
use os::Waker;

use super::check::{CheckOrder, CheckReport};
use super::map::Map;
use super::start::Start;
use super::superblock::MEMBERS_MAX;
use crate::Hidden;
use crate::events::Events;
use crate::losses::Losses;
use crate::mirror::{Answers, Claims, Opened, Rules, Verdict};

/// Maximum read errors of a leg before it fails.
const READ_ERRORS_MAX: u64 = 64;

/// One total order: these values change only when a leg joins or leaves.
const ORDER: Ordering = Ordering::SeqCst;

pub(crate) struct Shared {
    pub(super) name: String,
    pub(super) map: Map,
    pub(super) start: Start,
    pub(super) claims: Arc<Claims>,
    legs: Vec<Leg>,
    /// Legs that are read: in, and without a fault since.
    readers: AtomicU32,
    /// Legs that get writes: those that are read, and those that are syncing.
    writers: AtomicU32,
    /// Legs that the superblocks record as in.
    recorded: AtomicU32,
    /// Legs that a superblock being written records as in: some legs may hold it already.
    entering: AtomicU32,
    /// Legs that are leaving, until the superblocks record it.
    leaving: AtomicU32,
    /// Number of changes of the recorded membership.
    events: AtomicU64,
    /// No leg accepts the new superblock.
    failed: AtomicBool,
    /// No leg accepts a page of the map.
    map_failed: AtomicBool,
    /// Superblocks and maps of this opening are durable: writes may begin.
    ready: AtomicBool,
    /// A keeper resyncs the legs: reads may wait for this.
    settles_first: AtomicBool,
    /// I/Os arrived since the keeper's last look.
    busy: AtomicBool,
    repaired: AtomicU64,
    /// Legs to which a client has lost its lane, though they are the last.
    lost: AtomicU32,
    /// Number of returns of the last leg.
    renewals: AtomicU32,
    /// Acknowledged changes that may have been lost with the last leg's cache.
    losses: Losses,
    /// Region after the one that a read waits for, which is resynced first; 0 for none.
    urged: AtomicUsize,
    /// Maximum time for which a leg may leave an I/O unanswered.
    patience: Nanos,
    check: Mutex<CheckState>,
    lines: Events,
    waker: OnceLock<Waker>,
}

/// Requested check, and the findings of the last one.
#[derive(Default)]
struct CheckState {
    order: Option<CheckOrder>,
    report: CheckReport,
}

struct Leg {
    name: String,
    /// Event number of the leg's last join or failure.
    changed_at: AtomicU64,
    joined: AtomicU32,
    read_errors: AtomicU64,
    /// I/Os of abandoned lanes that may still be executed.
    ghosts: AtomicI64,
    /// Changes since the keeper's last look, and their time in nanoseconds.
    changes: AtomicU64,
    spent: AtomicU64,
}

impl Shared {
    /// Creates the state: `recorded` legs are in by the superblocks; those that are `missing` fail
    /// now. `patience` is the maximum time for which a leg may leave an I/O unanswered.
    pub(super) fn new(
        name: String,
        names: Vec<String>,
        (map, start): (Map, Start),
        claims: Claims,
        (recorded, missing): (u32, u32),
        patience: Nanos,
    ) -> Shared {
        let leg = |name| Leg {
            name,
            changed_at: AtomicU64::new(0),
            joined: AtomicU32::new(0),
            read_errors: AtomicU64::new(0),
            ghosts: AtomicI64::new(0),
            changes: AtomicU64::new(0),
            spent: AtomicU64::new(0),
        };
        debug_assert!(names.len() <= MEMBERS_MAX && recorded & !missing != 0);
        Shared {
            name,
            map,
            start,
            claims: Arc::new(claims),
            legs: names.into_iter().map(leg).collect(),
            readers: AtomicU32::new(recorded & !missing),
            writers: AtomicU32::new(recorded & !missing),
            recorded: AtomicU32::new(recorded),
            entering: AtomicU32::new(0),
            leaving: AtomicU32::new(missing),
            events: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            map_failed: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            settles_first: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            repaired: AtomicU64::new(0),
            lost: AtomicU32::new(0),
            renewals: AtomicU32::new(0),
            losses: Losses::default(),
            urged: AtomicUsize::new(0),
            patience,
            check: Mutex::default(),
            lines: Events::default(),
            waker: OnceLock::new(),
        }
    }

    pub(super) fn wakes(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Legs that get writes.
    pub(super) fn writers_now(&self) -> u32 {
        self.writers.load(ORDER)
    }

    pub(super) fn leaving(&self) -> u32 {
        self.leaving.load(ORDER)
    }

    pub(super) fn recorded(&self) -> u32 {
        self.recorded.load(ORDER)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(ORDER)
    }

    pub(super) fn set_ready(&self) {
        self.ready.store(true, ORDER);
    }

    /// Notes that a keeper has started.
    pub(super) fn set_kept(&self) {
        self.settles_first.store(true, ORDER);
    }

    /// Whether I/Os arrived since the last call.
    pub(super) fn was_busy(&self) -> bool {
        self.busy.swap(false, Ordering::Relaxed)
    }

    /// Notes client I/O; stores only on a change, as all lanes share the line.
    fn note_busy(&self) {
        if !self.busy.load(Ordering::Relaxed) {
            self.busy.store(true, Ordering::Relaxed);
        }
    }

    /// Adds a message for the user.
    pub(super) fn say(&self, line: String) {
        self.lines.say(line);
    }

    /// Messages since the last call, with the name of the array.
    pub(super) fn news(&self) -> Vec<String> {
        let news = self.lines.news();
        news.into_iter().map(|line| format!("array {}: {line}", self.name)).collect()
    }

    fn check(&self) -> MutexGuard<'_, CheckState> {
        self.check.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the keeper compare the legs.
    pub(super) fn order_check(&self, order: CheckOrder) {
        {
            let mut check = self.check();
            (check.order, check.report.has_ended) = (Some(order), false);
        }
        self.wake();
    }

    /// Takes the requested check.
    pub(super) fn take_check(&self) -> Option<CheckOrder> {
        self.check().order.take()
    }

    /// Whether a check is requested that has not begun.
    pub(super) fn wants_check(&self) -> bool {
        self.check().order.is_some()
    }

    /// Changes the findings of the check.
    pub(super) fn report(&self, change: impl FnOnce(&mut CheckReport)) {
        change(&mut self.check().report);
    }

    /// Findings of the check so far.
    pub(super) fn checked(&self) -> CheckReport {
        self.check().report.clone()
    }

    /// Whether I/Os of abandoned lanes may still be executed on a leg.
    pub(super) fn is_haunted(&self, leg: usize) -> bool {
        self.legs[leg].ghosts.load(ORDER) > 0
    }

    /// Whether a client has lost its lane to the last leg.
    pub(super) fn is_lost(&self, leg: usize) -> bool {
        self.lost.load(ORDER) & 1 << leg != 0
    }

    /// Notes that the last leg has returned: all lanes reopen their connections.
    pub(super) fn renewed(&self, leg: usize) {
        self.lost.fetch_and(!(1 << leg), ORDER);
        self.renewals.fetch_add(1, ORDER);
        self.start.retry();
        self.renew(leg);
    }

    /// Number of returns of the last leg. A failed batch of I/Os from before a return says nothing
    /// about the leg now.
    pub(super) fn renewals(&self) -> u32 {
        self.renewals.load(ORDER)
    }

    /// Acknowledged changes may have been lost with the last leg's cache.
    pub(super) fn lose(&self) {
        self.losses.lose();
    }

    /// The region that a read waits for, if any.
    pub(super) fn take_urged(&self) -> Option<usize> {
        self.urged.swap(0, ORDER).checked_sub(1)
    }

    /// Returns each leg's changes since the last call, and the time that they took.
    pub(super) fn take_times(&self) -> Vec<(u64, Nanos)> {
        let take = |leg: &Leg| {
            let changes = leg.changes.swap(0, Ordering::Relaxed);
            (changes, Nanos(leg.spent.swap(0, Ordering::Relaxed)))
        };
        self.legs.iter().map(take).collect()
    }

    pub(super) fn leg_name(&self, leg: usize) -> String {
        format!("leg {} ({})", leg + 1, self.legs[leg].name)
    }

    /// Notes that a superblock that records this leg as in is about to be written. If the process
    /// dies then, the leg may count as in: no change that the leg lacks is acknowledged before the
    /// superblocks record its failure. Call this before [`leaving`](Self::leaving).
    pub(super) fn enter(&self, leg: usize) {
        if !planted(Plant::EnterUnseen) {
            self.entering.fetch_or(1 << leg, ORDER);
        }
    }

    /// Reads a leg that is recorded as in from now on, unless it has failed meanwhile.
    pub(super) fn admit(&self, leg: usize) {
        self.readers.fetch_or(1 << leg, ORDER);
        self.readers.fetch_and(!(1 << leg & self.leaving.load(ORDER)), ORDER);
    }

    /// Stops reading a leg for now, unless it is the last.
    pub(super) fn retract(&self, leg: usize) {
        let without = |legs: u32| (legs & !(1 << leg) != 0).then_some(legs & !(1 << leg));
        let _ = self.readers.fetch_update(ORDER, ORDER, without);
    }

    /// Publishes the membership that the superblocks now record. A new leg is read once it is
    /// [admitted](Self::admit).
    pub(super) fn publish(&self, recorded: u32, gone: u32) {
        let changed = self.recorded.load(ORDER) ^ recorded;
        let event = self.events.fetch_add(1, ORDER) + 1;
        for leg in (0..self.legs.len()).filter(|leg| changed & 1 << leg != 0) {
            self.legs[leg].changed_at.store(event, ORDER);
        }
        self.recorded.store(recorded, ORDER);
        self.entering.store(0, ORDER);
        self.leaving.fetch_and(!gone, ORDER);
        self.failed.store(false, ORDER);
    }

    /// Notes that no leg accepts a superblock.
    pub(super) fn fail(&self) {
        self.failed.store(true, ORDER);
        self.start.refuse();
    }

    /// Notes that a superblock is being written again: callers that need it wait.
    pub(super) fn tries_again(&self) {
        self.failed.store(false, ORDER);
    }

    /// Sets whether no leg accepts a page of the map.
    pub(super) fn set_map_failed(&self, failed: bool) {
        self.map_failed.store(failed, ORDER);
        if failed {
            self.start.refuse();
        }
    }

    /// Sends writes to a leg again, by new lanes; regions that the leg may have missed need a
    /// resync.
    pub(super) fn join(&self, leg: usize) {
        self.leaving.fetch_and(!(1 << leg), ORDER);
        self.legs[leg].read_errors.store(0, ORDER);
        self.renew(leg);
        self.writers.fetch_or(1 << leg, ORDER);
        if planted(Plant::JoinUnmapped) {
            return;
        }
        // After `writers`: later writes go to the leg, and earlier ones hold claims on their
        // granules.
        self.map.joined();
    }

    /// Makes all lanes reopen their connection to a leg.
    pub(super) fn renew(&self, leg: usize) {
        self.legs[leg].joined.fetch_add(1, ORDER);
    }

    /// Events so far, in a sentence; `None` without any.
    pub(super) fn words(&self) -> Option<String> {
        let mut said = self.lines.all();
        said.extend(self.made_good());
        let behind = self.map.behind();
        if behind > 0 {
            said.push(format!("resync: {behind} of {} regions left", self.map.len()));
        }
        (!said.is_empty()).then(|| format!("array {}: {}", self.name, said.join("; ")))
    }

    /// Failed legs, and reads that other legs served. Some of the `members` legs may still be out.
    pub(super) fn hidden(&self, members: usize) -> Vec<Hidden> {
        let of = |words: String| format!("array {}: {words}", self.name);
        let is_in = self.in_it().count_ones() as usize;
        let out = (is_in < members).then(|| format!("{is_in} of {members} legs are in"));
        let left = self.lines.all().into_iter().filter(|line| line.contains(" left: "));
        let over = left.chain(self.made_good()).map(|words| Hidden::over(of(words)));
        out.into_iter().map(|words| Hidden::lasting(of(words))).chain(over).collect()
    }

    /// Read errors that the array made good.
    fn made_good(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (number, leg) in self.legs.iter().enumerate() {
            let errors = leg.read_errors.load(Ordering::Relaxed);
            if errors > 0 {
                said.push(format!("{} had {errors} read errors", self.leg_name(number)));
            }
        }
        let repaired = self.repaired.load(Ordering::Relaxed);
        if repaired > 0 {
            said.push(format!("{repaired} reads were repaired from another leg"));
        }
        said
    }
}

impl Rules for Shared {
    /// Does not count as client I/O, because polls call this, too.
    fn writers(&self) -> u32 {
        self.writers.load(ORDER)
    }

    /// Legs that may serve a read; only the first leg if legs differ in the range: the resync
    /// copies from it.
    fn readers(&self, offset: u64, len: u64) -> u32 {
        self.note_busy();
        let all = self.readers.load(ORDER);
        if planted(Plant::ReadStale) {
            return self.writers.load(ORDER);
        }
        if self.map.is_behind(offset, len) { all & all.wrapping_neg() } else { all }
    }

    /// Whether a range may be read: legs that are in may differ after a crash or a failed write. No
    /// data are shown before this opening is recorded.
    fn settles(&self, offset: u64, len: u64) -> bool {
        if !self.start.shows() && self.settles_first.load(ORDER) {
            return false;
        }
        let Some(region) = self.map.first_unsettled(offset, len) else { return true };
        let several = self.readers.load(ORDER).count_ones() > 1;
        if !several || !self.settles_first.load(ORDER) || planted(Plant::ReadUnsettled) {
            return true;
        }
        self.urged.store(region + 1, ORDER);
        self.wake();
        false
    }

    fn in_it(&self) -> u32 {
        self.readers.load(ORDER)
    }

    fn events(&self) -> u64 {
        self.events.load(ORDER)
    }

    fn joined(&self, leg: usize) -> u32 {
        self.legs[leg].joined.load(ORDER)
    }

    fn opens(&self, offset: u64, len: u64) -> Opened {
        self.note_busy();
        let fails = self.map_failed.load(ORDER) || self.failed.load(ORDER);
        if !self.ready.load(ORDER) {
            return if fails { Opened::Fails } else { Opened::Wait };
        }
        let asked = self.map.opens(offset, len);
        if asked.asked {
            self.wake();
        }
        match () {
            () if asked.marked || planted(Plant::MapAfterData) => Opened::Yes,
            () if fails => Opened::Fails,
            () => Opened::Wait,
        }
    }

    fn leave(&self, leg: usize, why: &dyn Fn() -> String) {
        let bit = 1 << leg;
        let without = |legs: u32| (legs & bit != 0 && legs != bit).then_some(legs & !bit);
        let left = self.readers.fetch_update(ORDER, ORDER, without).is_ok();
        if !left && self.readers.load(ORDER) & bit != 0 {
            // The last leg stays: its answers are the array's.
            return;
        }
        let before = self.leaving.fetch_or(bit, ORDER);
        let wrote = self.writers.fetch_and(!bit, ORDER) & bit != 0;
        // The leg may have become a reader in between.
        let _ = self.readers.fetch_update(ORDER, ORDER, without);
        if before & bit == 0 && (left || wrote) {
            self.say(format!("{} left: {}", self.leg_name(leg), why()));
        }
        self.wake();
    }

    fn settled(&self, answers: Answers) -> Verdict {
        if planted(Plant::AckEarly) {
            return Verdict::Done;
        }
        if self.failed.load(ORDER) {
            return Verdict::Lost;
        }
        // In this order: a leg is recorded before it stops entering, and no longer recorded before
        // it stops leaving.
        let entering = self.entering.load(ORDER);
        let leaving = self.leaving.load(ORDER);
        let recorded = self.recorded.load(ORDER);
        // A leg that joined later was synced with all that was acknowledged before, and flushed.
        let later = |leg: &usize| self.legs[*leg].changed_at.load(ORDER) > answers.since;
        let later = (0..self.legs.len()).filter(later).fold(0, |all, leg| all | 1 << leg);
        let missing = recorded & !answers.good & !later;
        // A superblock begun before the leg failed may still record it as in.
        let seen = if planted(Plant::EnterUnseen) { 0 } else { recorded | entering };
        match () {
            () if missing & !leaving != 0 => Verdict::Lost,
            () if missing != 0 || seen & leaving & !answers.good != 0 => Verdict::Wait,
            () if answers.good & recorded != 0 => Verdict::Done,
            () => Verdict::Lost,
        }
    }

    fn differs(&self, offset: u64, len: u64) {
        self.map.differs(offset, len);
        self.wake();
    }

    fn read_failed(&self, leg: usize) {
        let before = self.legs[leg].read_errors.fetch_add(1, Ordering::Relaxed);
        if before >= READ_ERRORS_MAX {
            self.leave(leg, &|| format!("more than {READ_ERRORS_MAX} read errors"));
        }
    }

    fn repaired(&self) {
        self.repaired.fetch_add(1, Ordering::Relaxed);
    }

    fn patience(&self) -> Nanos {
        self.patience
    }

    fn waits_for(&self, leg: usize, words: &dyn Fn() -> String) {
        self.say(format!("{} {}", self.leg_name(leg), words()));
    }

    fn haunts(&self, leg: usize, count: i64) {
        self.legs[leg].ghosts.fetch_add(count, ORDER);
        self.wake();
    }

    fn lost(&self, leg: usize) {
        if self.lost.fetch_or(1 << leg, ORDER) & 1 << leg == 0 {
            self.wake();
        }
    }

    fn losses(&self) -> Option<&Losses> {
        Some(&self.losses)
    }

    fn took(&self, leg: usize, count: u32, spent: Nanos) {
        self.legs[leg].changes.fetch_add(count.into(), Ordering::Relaxed);
        self.legs[leg].spent.fetch_add(spent.0, Ordering::Relaxed);
    }
}
