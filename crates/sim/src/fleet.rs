//! Fleets in virtual time: the real leader and followers, on hosts whose clocks are ahead, drift
//! and are set, over a network that delays, cuts and forgets.

mod host;
mod story;
mod truth;
mod world;

use block::Plant;

pub use self::story::{FleetStory, Mishap};
pub use self::world::FleetReport;
use crate::Case;

impl Case for FleetStory {
    type Held = FleetReport;
    const WORD: &'static str = "fleets";
    const FLAG: &'static str = "--fleet ";
    const PLANTS: &'static [Plant] = &Plant::FLEET;
    const PLANT_SEEDS: u64 = 1000;

    fn of_seed(seed: u64) -> FleetStory {
        FleetStory::of_seed(seed)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn smaller(&self) -> Vec<FleetStory> {
        FleetStory::smaller(self)
    }

    fn run(&self, plant: Option<Plant>, say: fn(&str)) -> Result<FleetReport, String> {
        block::plant(plant);
        let result = world::World::new(self).run(say);
        block::plant(None);
        result
    }

    fn ios(_: &FleetReport) -> u64 {
        0
    }

    fn counts(held: &FleetReport) -> Vec<(&'static str, u64)> {
        held.counts()
    }
}
