//! Faults of legs, and the losses they may cause.

use super::*;

impl Run {
    /// Counts the event of a step.
    pub(super) fn count(&mut self, step: Step) {
        let process = self.process.as_ref().expect("it is open");
        let resync = process.array.behind() > 0;
        let happens = match step {
            Step::Fail(leg) | Step::Lose(leg) if leg < self.legs => {
                if resync {
                    self.kept.add(Happened::FailedInResync);
                }
                match step {
                    Step::Lose(_) => Happened::LostCache,
                    _ => Happened::Failed,
                }
            }
            Step::Sicken(leg) if leg < self.legs => Happened::Sick,
            Step::Spoil(leg) if leg < self.legs => Happened::Unreadable,
            Step::Fill(leg) if leg < self.legs => Happened::Full,
            Step::Refuse(leg) if leg < self.legs => Happened::Refusing,
            Step::Hang(leg) if leg < self.legs => Happened::Hung,
            Step::Slow(leg) if leg < self.legs => Happened::Slow,
            Step::Return(leg) if leg < self.legs => Happened::Returned,
            Step::Read(_) if resync => Happened::ReadInResync,
            _ => return,
        };
        self.kept.add(happens);
    }

    /// Something befalls a leg.
    pub(super) fn harm(&mut self, leg: usize, step: Step) {
        // Another leg may get all data ever written.
        self.touched = self.ever;
        let power = matches!(step, Step::Lose(_));
        let blocks = self.blocks() as u64;
        let mut world = self.world.borrow_mut();
        match step {
            Step::Sicken(_) => {
                (world.legs[leg].sick, world.legs[leg].blamed) = (true, true);
            }
            Step::Spoil(_) => {
                let place = PLACES[world.rng.below(blocks) as usize];
                world.legs[leg].spoil((DATA_OFFSET + place) / PAGE);
            }
            Step::Fill(_) => {
                (world.legs[leg].full, world.legs[leg].blamed) = (true, true);
            }
            Step::Refuse(_) => {
                let fault = REFUSALS[world.rng.below(REFUSALS.len() as u64) as usize];
                (world.legs[leg].refuses, world.legs[leg].blamed) = (Some(fault), true);
                // Protocols have fewer error codes: a refused read may count as a bad page.
                world.legs[leg].spoiled |= self.away.is_some();
            }
            Step::Hang(_) => {
                (world.legs[leg].hung, world.legs[leg].blamed) = (true, true);
                // The server finally fails such a read like one of a bad page, which is repaired.
                world.legs[leg].spoiled |= self.away.is_some();
            }
            Step::Slow(_) => {
                (world.legs[leg].slow, world.legs[leg].blamed) = (true, true);
            }
            _ if self.away.is_none() => world.fail(leg, power),
            _ => {
                drop(world);
                self.part(leg, power);
                return self.lose(power);
            }
        }
        drop(world);
        self.lose(power);
    }

    /// Updates the model for data that no leg has any more.
    fn lose(&mut self, power: bool) {
        let world = self.world.borrow();
        // Without a leg that has everything, a leg that lost data may become the authority:
        // that data is lost.
        let keeper = &self.process.as_ref().expect("it is open").keeper;
        let (truth, recorded) = (self.truth, keeper.recorded());
        let good = |leg: usize| truth & 1 << leg != 0 && !world.legs[leg].blamed;
        let lost = |leg: usize| recorded & 1 << leg != 0 && world.legs[leg].lost;
        let rolled = |leg: usize| recorded & 1 << leg != 0 && world.legs[leg].rolled;
        if (0..self.legs).any(good) {
            return;
        }
        // The loss is reported once, also if other legs are in by then, which were copied from that
        // leg. Over a network nobody can know whether anything is lost.
        self.untold += usize::from(power || self.away.is_some());
        if (0..self.legs).any(rolled) {
            self.model.iter_mut().for_each(|block| block.lost_all(world.time));
        } else if power || (0..self.legs).any(lost) {
            self.model.iter_mut().for_each(|block| block.lost(world.time));
        }
    }

    /// The host of the last leg finds an older image where its data were, and later the data.
    fn show_older(&mut self, leg: usize) {
        let has_older = {
            let of = &self.world.borrow().legs[leg];
            of.image_is_before(of) && !of.is_older_image()
        };
        if has_older {
            self.stop_server(leg);
            self.world.borrow_mut().show_older(leg);
            self.kept.add(Happened::RolledBack);
            self.lose(true);
        }
    }

    /// Replaces older images on legs with their own data.
    pub(super) fn own_again(&mut self) {
        let older = |leg: &usize| self.world.borrow().legs[*leg].is_older_image();
        for leg in (0..self.legs).filter(older).collect::<Vec<_>>() {
            self.stop_server(leg);
            self.world.borrow_mut().legs[leg].own_again();
            self.bring_back(leg);
        }
    }

    pub(super) fn bring_back(&mut self, leg: usize) {
        {
            // An older image may be seen before its own data are back.
            let is_own = self.rng.below(2) == 0;
            let of = &mut self.world.borrow_mut().legs[leg];
            (of.dead, of.away, of.sick, of.full, of.bad) = (false, false, false, false, None);
            (of.refuses, of.hung, of.slow) = (None, false, false);
            if of.is_older_image() && is_own {
                of.own_again();
            }
        }
        if let Some(away) = &mut self.away {
            away.start(leg);
            self.unseen.heals();
        }
    }

    /// Reverts a leg to its snapshot, if another one has all data: an array could not detect the
    /// loss of the only copy, unless the leg is open.
    pub(super) fn roll_back(&mut self, leg: usize) {
        let process = self.process.as_ref().expect("it is open");
        if process.array.in_it() == 1 << leg && process.keeper.recorded() == 1 << leg {
            return self.show_older(leg);
        }
        let may = {
            let world = self.world.borrow();
            let good = |other: usize| {
                let of = &world.legs[other];
                let knows = self.truth & 1 << other != 0 && !of.blamed && !of.is_gone();
                other != leg && knows && world.legs[leg].image_is_before(of)
            };
            (0..self.legs).any(good)
        };
        if !may {
            return;
        }
        self.stop_server(leg);
        if self.world.borrow_mut().roll_back(leg) {
            self.truth &= !(1 << leg);
            if self.bytes > BYTES {
                // The leg may need the grown part, although no data were written there.
                self.ever = [true; REGIONS];
            }
            self.touched = self.ever;
            self.kept.add(Happened::RolledBack);
        }
    }
}
