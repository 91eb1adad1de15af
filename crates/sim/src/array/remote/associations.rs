//! NVMe associations of a process. Their admin queues are driven here, as by a thread of the
//! process; a volume that needs one asks again until it exists.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Nanos, Pool};
use proto::nvme::{Association, NvmeAdmin};
use proto::{Initiator, Phase};
use volume::remote::Hold;
use volume::{NvmeUri, OpenError};

use super::hosts::Doors;
use super::wire::{ANSWERED, UNANSWERED};
use crate::core::Shared;
use crate::link::Link;
use crate::net::Side;

/// Time limit of a shutdown.
const LEAVING: Nanos = Nanos::from_secs(1);

/// Requests of a volume for its associations, one after the other.
#[derive(Clone, Default)]
pub(crate) struct Desk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: Nanos,
    wanted: Option<NvmeAdmin>,
    is_asked: bool,
    answer: Option<Result<(Association, Admin), String>>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, answer: Result<(Association, Admin), String>) {
        let mut state = self.lock();
        (state.is_asked, state.answer) = (false, Some(answer));
    }
}

/// Whether an association is being opened: the caller must retry.
pub(crate) fn is_under_way(why: &OpenError) -> bool {
    matches!(why, OpenError::Connect { error, .. } if error.kind() == ErrorKind::WouldBlock)
}

/// A held admin queue; dropping it shuts the controller down.
pub(crate) struct Admin(Arc<Mutex<Fate>>);

#[derive(Default)]
struct Fate {
    ended: Option<String>,
    is_dropped: bool,
}

fn fate(of: &Mutex<Fate>) -> MutexGuard<'_, Fate> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Admin {
    fn drop(&mut self) {
        fate(&self.0).is_dropped = true;
    }
}

impl Hold for Desk {
    type Kept = Admin;

    fn open(
        &self,
        uri: &NvmeUri,
        begin: &dyn Fn(Nanos) -> NvmeAdmin,
    ) -> Result<(Association, Admin), OpenError> {
        let mut state = self.lock();
        if let Some(answer) = state.answer.take() {
            let uri = uri.subsystem.clone();
            return answer.map_err(|ending| OpenError::Refused { uri, ending });
        }
        if !std::mem::replace(&mut state.is_asked, true) {
            state.wanted = Some(begin(state.now));
        }
        let (address, error) = (uri.address.clone(), ErrorKind::WouldBlock.into());
        Err(OpenError::Connect { address, error })
    }

    fn ended(kept: &Admin) -> Option<String> {
        fate(&kept.0).ended.clone()
    }
}

/// A connection attempt of an admin queue.
struct Attempt {
    desk: Desk,
    leg: usize,
    admin: NvmeAdmin,
    at: Nanos,
}

/// An admin queue.
struct Call {
    desk: Desk,
    link: Link<NvmeAdmin>,
    fate: Arc<Mutex<Fate>>,
    /// The desk waits for the association.
    is_asked: bool,
    /// Time limit of the shutdown.
    until: Option<Nanos>,
}

/// All associations of a process.
pub(crate) struct Associations {
    machine: Shared,
    doors: Doors,
    desks: Vec<(usize, Desk)>,
    attempts: Vec<Attempt>,
    calls: Vec<Call>,
}

impl Associations {
    pub(super) fn new(machine: &Shared, doors: &Doors) -> Associations {
        let (desks, attempts, calls) = (Vec::new(), Vec::new(), Vec::new());
        Associations { machine: machine.clone(), doors: doors.clone(), desks, attempts, calls }
    }

    /// A desk for the volume of a leg.
    pub(super) fn desk(&mut self, leg: usize) -> Desk {
        let desk = Desk::default();
        self.desks.push((leg, desk.clone()));
        desk
    }

    /// Does all work that is due.
    pub(super) fn step(&mut self, now: Nanos) {
        for (leg, desk) in &self.desks {
            let mut state = desk.lock();
            state.now = now;
            let Some(admin) = state.wanted.take() else { continue };
            let silent = self.doors.is_silent(&leg.to_string());
            let at = now + if silent { UNANSWERED } else { ANSWERED };
            self.attempts.push(Attempt { desk: desk.clone(), leg: *leg, admin, at });
        }
        let due: Vec<Attempt> = self.attempts.extract_if(.., |attempt| now >= attempt.at).collect();
        for Attempt { desk, leg, admin, .. } in due {
            match self.doors.knock(&self.machine, &leg.to_string()) {
                None => desk.answer(Err("connection refused".to_owned())),
                Some(conn) => self.calls.push(Call {
                    desk,
                    link: Link::new(admin, &Pool::new(16, 4), conn),
                    fate: Arc::default(),
                    is_asked: true,
                    until: None,
                }),
            }
        }
        let machine = &self.machine;
        self.calls.retain_mut(|call| call.step(machine, now));
    }

    /// Time at which the next step is due.
    pub(super) fn wake(&self) -> Option<Nanos> {
        let attempts = self.attempts.iter().map(|attempt| attempt.at);
        let calls = self.calls.iter().filter_map(|call| call.link.wake());
        attempts.chain(calls).min()
    }
}

impl Call {
    /// Does all work that is due; false when the association has ended.
    fn step(&mut self, machine: &Shared, now: Nanos) -> bool {
        let net = &mut machine.borrow_mut().net;
        let taken = self.link.take(net);
        if let Some(association) = self.link.end.ready().filter(|_| self.is_asked) {
            self.is_asked = false;
            self.desk.answer(Ok((association.clone(), Admin(Arc::clone(&self.fate)))));
        }
        if taken.is_ok() && self.until.is_none() && fate(&self.fate).is_dropped {
            self.until = Some(now + LEAVING);
            self.link.end.close(now, &mut self.link.out);
        }
        self.link.flush(net, |bytes| bytes);
        let closed = self.link.end.phase() == Phase::Closed;
        let ending = match taken {
            Err(why) => Some(why),
            Ok(()) if closed => Some("the peer ended the session".to_owned()),
            Ok(()) if self.until.is_some_and(|until| now >= until) => Some("it is over".to_owned()),
            Ok(()) => None,
        };
        let Some(why) = ending else { return true };
        net.close(self.link.conn, Side::Client);
        if self.is_asked {
            self.desk.answer(Err(why.clone()));
        }
        fate(&self.fate).ended.get_or_insert(why);
        false
    }
}

impl Drop for Associations {
    /// Closes the connections, as the kernel of a dead process does.
    fn drop(&mut self) {
        let net = &mut self.machine.borrow_mut().net;
        self.calls.iter().for_each(|call| net.close(call.link.conn, Side::Client));
    }
}
