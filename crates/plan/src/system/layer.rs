//! Layers that a bill adds to the path of I/Os.

use model::Station;

use super::{Builder, Level, Load, Stop};
use crate::bill::Of;

impl Builder<'_> {
    /// Adds the layers: one server if a layer limits I/Os or bytes per second, and a delay without
    /// a queue.
    pub(super) fn layers(&mut self) {
        if !self.wanted(Level::Layer) {
            return;
        }
        let (reads, writes) = self.shares();
        for layer in &self.bill.setup.layers {
            let share = match layer.of {
                Of::All => reads + writes,
                Of::Reads => reads,
                Of::Writes => writes,
            };
            if share > 0.0 {
                self.layer(&layer.part, share);
            }
        }
    }

    fn layer(&mut self, id: &str, share: f64) {
        let part = self.part(id);
        let each = self.figure(part, "iops").map_or(0.0, f64::recip);
        let bytes = self.figure(part, "bandwidth").map_or(0.0, |b| self.bill.work.size_bytes / b);
        let seconds = share * each.max(bytes);
        let mut load = Load::PerIo(0.0);
        if seconds > 0.0 {
            let stop = self.server(part.name.clone(), Level::Layer, seconds);
            load = Load::Stations(vec![stop.at]);
            self.client_stops.push(stop);
        }
        let from: &[(&str, &[&str])] = &[(id, &["iops", "bandwidth", "added_latency"])];
        self.resource(part.name.clone(), Level::Layer, from, load);
        let alone = self.figure(part, "added_latency").map_or(0.0, |seconds| share * seconds);
        if alone > 0.0 {
            let at = self.network.add_station(Station::delay(format!("time in {}", part.name)));
            let seconds = self.at(Level::Layer, alone);
            self.client_stops.push(Stop { at, seconds });
        }
    }
}
