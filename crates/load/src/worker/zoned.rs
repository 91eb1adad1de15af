//! A worker on a zoned device: zones are read once, and full ones are reset before rewriting.

use block::{Op, Rng, Zones};
use job::spec::{Part, Workload};

use super::{Trouble, Worker};
use crate::pattern::{Entry, Next, Pattern, Zoned};

impl Worker {
    /// Restricts the worker to the zones of its device, if its workload requests them.
    pub(crate) fn zoned(
        mut self,
        workload: &Workload,
        seed: u64,
        number: u64,
        part: Part,
    ) -> Result<Worker, String> {
        let Some(how) = workload.access.zoned else { return Ok(self) };
        let geometry = self.lane.geometry();
        let found = match (self.lane.zones(), how.zone_bytes) {
            (Some(found), _) => found,
            (None, 0) => {
                return Err(
                    "the volume has no zones: set zonesize=SIZE to emulate zones, or name \
                    a zoned block device (/sys/block/NAME/queue/zoned)"
                        .to_owned(),
                );
            }
            (None, bytes) => {
                let capacity = if how.capacity_bytes > 0 { how.capacity_bytes } else { bytes };
                self.zones_are_ours = true;
                Zones::emulated(geometry.bytes(), bytes, capacity)
            }
        };
        let range = workload.range.on(geometry);
        let zoned = Zoned::new(workload, found, range, Rng::new(seed, 2 * number), part)?;
        self.pattern = Pattern::Zoned(Box::new(zoned));
        self.plain = false;
        Ok(self)
    }

    /// Whether an I/O may start in its zone, which is reset first if full.
    pub(super) fn enter_zone(&mut self, next: &Next) -> bool {
        let idle = self.free.len() == self.slots.len();
        let Pattern::Zoned(zoned) = &mut self.pattern else { return true };
        if next.op != Op::Write {
            return true;
        }
        match zoned.enter(next.offset) {
            Entry::Now => return true,
            Entry::Wait => return false,
            Entry::Reset(_) if !idle => return false,
            Entry::Reset(zone) => {
                zoned.was_reset(&zone);
                if self.zones_are_ours {
                    return zoned.enter(next.offset) == Entry::Now;
                }
                if let Err((fault, cause)) = self.lane.reset_zone(&zone) {
                    let why = self.lane.words_of(cause).unwrap_or_else(|| format!("{fault:?}"));
                    let why = format!("cannot reset the zone at offset {}: {why}", zone.start);
                    self.trouble = Some(Trouble::Lost(why));
                }
            }
        }
        zoned.enter(next.offset) == Entry::Now
    }
}
