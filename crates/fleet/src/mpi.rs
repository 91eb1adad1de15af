//! Messages by MPI: point to point, and never waiting in a call. A send owns its bytes until it is
//! done; a receive is posted for a message that was seen.

use std::collections::VecDeque;

use ferrompi::{Communicator, PersistentRequest, Source, ThreadLevel};

use crate::message::BODY_MAX_BYTES;
use crate::{Fleet, JoinError, Launched};

/// Tag of all messages.
const TAG: i32 = 1;

/// Ranks of MPI's world.
pub(crate) struct Mpi {
    // Before the library: requests end first.
    sends: VecDeque<PersistentRequest<u8>>,
    receives: VecDeque<(u32, PersistentRequest<u8>)>,
    world: Communicator,
    _library: ferrompi::Mpi,
}

impl Mpi {
    /// Joins the ranks that a launcher started. Only the calling thread may use the result.
    ///
    /// # Errors
    ///
    /// The library refuses, or it belongs to another launcher.
    pub fn join(launched: Launched) -> Result<Box<dyn Fleet>, JoinError> {
        let library = ferrompi::Mpi::init_thread(ThreadLevel::Funneled);
        let library = library.map_err(|error| JoinError::Mpi(error.to_string()))?;
        let world = library.world();
        let size = world.size();
        if u32::try_from(size) != Ok(launched.size) {
            return Err(JoinError::OtherMpi { size, launched });
        }
        Ok(Box::new(Mpi {
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            world,
            _library: library,
        }))
    }

    /// Posts receives for all messages that are there.
    fn look(&mut self) -> Result<(), ferrompi::Error> {
        while let Some(status) = self.world.iprobe::<u8>(Source::Any, TAG)? {
            let Source::Rank(from) = status.source else { break };
            let bytes = status.count.unwrap_or(0).min(BODY_MAX_BYTES + 64);
            let mut receive = self.world.recv_init(vec![0_u8; bytes], from, TAG)?;
            receive.start()?;
            self.receives.push_back((from.cast_unsigned(), receive));
        }
        Ok(())
    }
}

impl Fleet for Mpi {
    fn rank(&self) -> u32 {
        self.world.rank().cast_unsigned()
    }

    fn size(&self) -> u32 {
        self.world.size().cast_unsigned()
    }

    fn send(&mut self, to: u32, message: Vec<u8>) {
        // A rank that cannot be reached falls silent, and is lost by that.
        let Ok(mut send) = self.world.send_init(message, to.cast_signed(), TAG) else { return };
        if send.start().is_ok() && !matches!(send.test(), Ok(Some(_))) {
            self.sends.push_back(send);
        }
    }

    fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
        self.sends.retain_mut(|send| matches!(send.test(), Ok(None)));
        let _ = self.look();
        // In the order in which they were seen, so those of one rank stay in order.
        let mut held = Vec::new();
        for at in 0..self.receives.len() {
            let (from, receive) = &mut self.receives[at];
            if held.contains(from) {
                continue;
            }
            match receive.test() {
                Ok(None) => held.push(*from),
                done => {
                    let (from, receive) = self.receives.remove(at)?;
                    let bytes = receive.into_buffer().ok()?;
                    return done.is_ok().then_some((from, bytes));
                }
            }
        }
        None
    }

    fn is_sending(&self) -> bool {
        !self.sends.is_empty()
    }

    fn end(mut self: Box<Self>, whole: bool) {
        if whole {
            self.sends.clear();
            self.receives.clear();
            // Finalizes, which waits for all ranks.
            drop(self);
        } else {
            // A rank that is gone would be waited for without end.
            std::mem::forget(self);
        }
    }
}
