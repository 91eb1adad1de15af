//! Opening of the array by a restarted process.

use super::*;

impl Run {
    /// The legs that can be read.
    pub(super) fn found(&mut self) -> Result<Vec<(usize, Found)>, String> {
        let reached = self.reach()?;
        let world = self.world.borrow();
        let alive = (0..self.legs).filter(|leg| reached & 1 << leg != 0);
        let look = |leg: usize| {
            let read = |place| Some(world.legs[leg].bytes_at(place));
            let bytes = world.legs[leg].bytes;
            let (name, copies) = (format!("leg {leg}"), copies_of(bytes).map(read));
            (leg, Found { name, bytes, block_bytes: 512, copies })
        };
        // Legs are listed in any order.
        let mut found: Vec<_> = alive.map(look).collect();
        if self.next.is_multiple_of(2) {
            found.reverse();
        }
        Ok(found)
    }

    /// Returns the assembly without legs that hold an older image, and the maps of the remaining
    /// legs.
    pub(super) fn with_maps(
        &self,
        mut assembly: Assembly,
        alive: u32,
    ) -> Result<(Assembly, Maps), String> {
        let maps = self.maps(assembly.newest.in_state(LegState::In) & alive);
        let maps = leave_older_images("a", &mut assembly, maps).map_err(|why| why.to_string())?;
        Ok((assembly, maps))
    }

    /// Assembles the array like a careful user: lost legs are left out only if a remaining leg has
    /// everything and no other leg was used without it; otherwise all are brought back.
    pub(super) fn assemble(&mut self) -> Result<(Assembly, Vec<(usize, Found)>), String> {
        for tries in 0.. {
            let found = self.found()?;
            let legs: Vec<Found> = found.iter().map(|(_, leg)| leg.clone()).collect();
            match assemble("a", &legs, &[], false) {
                Ok(assembly) => return Ok((assembly, found)),
                Err(why) if tries == TRIES || found.len() == self.legs => {
                    return Err(why.to_string());
                }
                Err(_) => {}
            }
            if let Ok(assembly) = assemble("a", &legs, &[], true) {
                // The user makes sure that an excluded leg is not used elsewhere.
                let there = |leg: &usize| found.iter().any(|(here, _)| here == leg);
                (0..self.legs).filter(|leg| !there(leg)).for_each(|leg| self.stop_server(leg));
                let here = assembly.newest.in_state(LegState::In) & !assembly.missing;
                let known = assembly.newest.generation == self.newest();
                if known && here & !self.truth == 0 && self.rng.below(2) == 0 {
                    self.kept.add(Happened::GivenUp);
                    return Ok((assembly, found));
                }
            }
            (0..self.legs).for_each(|leg| self.bring_back(leg));
        }
        unreachable!("the last try ends it")
    }

    /// Newest generation on any leg, including lost ones.
    pub(super) fn newest(&self) -> Generation {
        let world = self.world.borrow();
        let copies =
            world.legs.iter().flat_map(|leg| copies_of(leg.bytes).map(|at| leg.bytes_at(at)));
        let blocks = copies.filter_map(|bytes| Superblock::decode(&bytes).ok());
        blocks.map(|block| block.generation).max_by_key(|one| one.number).unwrap_or_default()
    }

    /// Starts a process that opens the array.
    pub(super) fn open(&mut self) -> Result<(), String> {
        let (assembly, found) = self.assemble()?;
        let number = |leg: usize| assembly.newest.number_of(100 + leg as u128);
        let alive: u32 =
            found.iter().filter_map(|(leg, _)| number(*leg)).fold(0, |a, n| a | 1 << n);
        self.sized(assembly.newest.bytes)?;
        let (assembly, maps) = self.with_maps(assembly, alive)?;
        let names = (0..self.legs).map(|leg| format!("leg {leg}")).collect();
        let trim_zeroes = self.world.borrow().legs.iter().all(|leg| !leg.careless);
        let geometry = Geometry { volatile: true, trim_zeroes, ..Geometry::new(self.bytes, 512) };
        let array = Array::new(&assembly, names, &maps, geometry, PATIENCE);
        let pool = Pool::new(64, 16);
        let lanes = self.leg_lanes();
        let ways = || (0..self.legs).map(|leg| lanes(leg)).collect::<Vec<_>>();
        let source = || -> Ways {
            let lanes = Rc::clone(&lanes);
            Box::new(move |leg| {
                lanes(leg).ok_or("it was missing when the array was opened".to_owned())
            })
        };
        let places = self.world.borrow().legs.iter().map(|leg| copies_of(leg.bytes)).collect();
        let rng = Rng::new(self.rng.next_u64(), 33);
        let keeper =
            array.keeper(&assembly, places, pool.clone(), rng, (ways(), source()), Nanos(0));
        let lane = |_| array.lane(ways(), source(), pool.clone());
        let lanes: Result<Vec<_>, _> = (0..self.lanes).map(lane).collect();
        let lanes = lanes.map_err(|why| why.to_string())?;
        let behind_at_most = self.touched.iter().filter(|touched| **touched).count();
        if array.behind() > behind_at_most {
            let behind = array.behind();
            return Err(format!("{behind} regions are behind, {behind_at_most} were written"));
        }
        (self.opened, self.unseen) = (Some(assembly.newest.generation.number), Unseen::default());
        self.process = Some(Process { array, keeper, lanes, pool });
        Ok(())
    }
}
