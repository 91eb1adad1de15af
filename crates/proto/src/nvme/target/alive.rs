//! Time-outs: of Connect, of enabling, of Keep Alive, and of queues whose controller has ended.

use block::Nanos;

use crate::flow::later;
use crate::{Ending, Outbox};

use super::super::controllers::Membership;
use super::admin::KEEP_ALIVE_UNIT_MS;
use super::{NvmeTarget, NvmeTargetConfig, Stage};

/// Due times of a queue.
#[derive(Debug)]
pub(super) struct Alive {
    heard: Nanos,
    ticked: Nanos,
    connect_until: Nanos,
    /// Deadline for enabling a controller.
    enable_until: Nanos,
    /// Time of a queue's next check whether its controller still exists.
    look_at: Nanos,
}

/// Interval at which an idle queue checks whether its controller still exists.
const LOOK_INTERVAL: Nanos = Nanos::from_secs(1);

impl Alive {
    pub(super) fn new(config: &NvmeTargetConfig, now: Nanos) -> Alive {
        let connect_until = later(now, config.connect_timeout);
        let enable_until = later(connect_until, config.connect_timeout);
        Alive { heard: now, ticked: now, connect_until, enable_until, look_at: now }
    }

    /// Bytes were received.
    #[inline(always)]
    pub(super) fn heard(&mut self, now: Nanos) {
        self.heard = now;
    }

    /// The timer has expired.
    pub(super) fn ticked(&mut self, now: Nanos) {
        self.ticked = now;
    }

    /// Time at which bytes were last received.
    pub(super) fn last_heard(&self) -> Nanos {
        self.heard
    }
}

impl NvmeTarget {
    /// Restarts the Keep Alive timer.
    //= NVMe base §Keep Alive: without another one within the time-out the controller ends.
    pub(super) fn restart_keep_alive(&mut self, now: Nanos) {
        let Some(admin) = &mut self.admin else { return };
        let units = admin.keep_alive_ms.div_ceil(KEEP_ALIVE_UNIT_MS);
        let span = Nanos::from_millis(u64::from(units) * u64::from(KEEP_ALIVE_UNIT_MS));
        admin.deadline = (units != 0).then(|| later(now, span));
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        if self.finished {
            return None;
        }
        let due = match self.stage {
            Stage::Fresh | Stage::Unconnected => {
                self.held_deadline().into_iter().chain([self.alive.connect_until]).min()
            }
            Stage::Admin => self.admin_deadline().into_iter().chain([self.alive.look_at]).min(),
            Stage::Io | Stage::Fused => Some(self.alive.look_at),
        };
        let fed = self.alive.heard.max(self.alive.ticked);
        let starving = self.backlog.retry_at(fed);
        [due, starving].into_iter().flatten().min()
    }

    /// Ends the connection if that was requested and no command is in flight.
    #[cold]
    pub(super) fn end_between_commands(&mut self) {
        self.finished |= self.leaving && self.slots.are_free();
    }

    /// Ends the controller, and with it its I/O queues on all cores.
    fn end_controller(&mut self, why: &'static str) -> Ending {
        self.end_membership();
        self.finished = true;
        Ending::TimedOut(why)
    }

    fn is_given_up(&self) -> bool {
        self.member.as_ref().is_some_and(Membership::is_given_up)
    }

    fn was_enabled(&self) -> bool {
        self.member.as_ref().is_some_and(Membership::was_enabled)
    }

    fn admin_deadline(&self) -> Option<Nanos> {
        let admin = self.admin.as_ref()?;
        //= NVMe-oF §Discovery controller: without keep alive it ends after a time without commands.
        let silent = later(self.alive.heard, self.config.discovery_timeout);
        admin.deadline.or(admin.discovery.then_some(silent))
    }

    /// Checks the time-outs.
    pub(super) fn look(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        if self.finished {
            return Ok(());
        }
        match self.stage {
            Stage::Fresh | Stage::Unconnected if now >= self.alive.connect_until => {
                Err(self.give_up_connecting(out))
            }
            Stage::Unconnected if self.held.is_some() => {
                self.look_at_held(now);
                self.retry_held(now, out);
                Ok(())
            }
            Stage::Admin if self.is_given_up() => {
                let is_replaced = self.member.as_ref().is_some_and(Membership::is_replaced);
                Err(self.end_controller(match is_replaced {
                    true => "another controller of the host has reset this one",
                    false => "the controller did nothing, and its place was needed",
                }))
            }
            Stage::Admin if now >= self.alive.enable_until && !self.was_enabled() => {
                Err(self.end_controller("the host did not enable its controller in time"))
            }
            Stage::Admin if self.admin_deadline().is_some_and(|deadline| now >= deadline) => {
                Err(self.end_controller("the host did not keep its controller alive"))
            }
            Stage::Admin => {
                self.alive.look_at = later(now, LOOK_INTERVAL);
                Ok(())
            }
            Stage::Io | Stage::Fused => {
                self.alive.look_at = later(now, LOOK_INTERVAL);
                self.is_member();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
