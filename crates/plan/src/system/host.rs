//! What the host brings: cores, and what all its slots share.

use model::{Station, StationId};

use super::{Builder, Level, Load, PlanError, Stop};
use crate::catalogue::Part;

impl Builder<'_> {
    /// The cores, if it is said what an I/O costs them.
    pub(super) fn processor(&mut self) -> Result<Option<Stop>, PlanError> {
        let Some(software) = &self.bill.software else {
            self.remark("no software is named, so that processors are taken as fast enough");
            return Ok(None);
        };
        if !self.wanted(Level::Processor) {
            return Ok(None);
        }
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        let Some(server) = server else {
            let reason = "software without a server: name one, for its cores".to_owned();
            return Err(PlanError::Part { line: 1, reason });
        };
        let software = self.part(software);
        let cores = self.need(server, "cores")?;
        let mut seconds = self.core_time(software)?;
        // A clock of another speed takes another time.
        match (self.figure(software, "clock"), self.figure(server, "clock")) {
            (Some(theirs), Some(ours)) => seconds *= theirs / ours,
            _ => self.remark("the processor time is not scaled: a clock is not known"),
        }
        let station = Station::servers("processor", cores as u32);
        let at = self.network.add_station(station);
        let load = Load::Stations(vec![at]);
        let name = format!("processor, {cores} cores with {}", software.id);
        let from: &[(&str, &[&str])] = &[
            (&software.id, &["core_time", "core_time_4k", "clock"]),
            (&server.id, &["cores", "clock"]),
        ];
        self.resource(name, Level::Processor, from, load);
        Ok(Some(Stop { at, seconds: self.at(Level::Processor, seconds) }))
    }

    /// Core time of an I/O: the same up to 1 KiB, and on a line through the figure of 4 KiB.
    fn core_time(&mut self, software: &Part) -> Result<f64, PlanError> {
        let small = self.need(software, "core_time")?;
        let Some(large) = self.figure(software, "core_time_4k") else { return Ok(small) };
        let slope = (large - small) / (4096.0 - 1024.0);
        Ok(small + slope * (self.bill.work.size_bytes - 1024.0).max(0.0))
    }

    /// What all slots share, if it is known.
    pub(super) fn fabric(&mut self) -> Result<Option<Stop>, PlanError> {
        let Some(server) = self.bill.server.as_deref().map(|id| self.part(id)) else {
            return Ok(None);
        };
        if !self.wanted(Level::Fabric) {
            return Ok(None);
        }
        let Some(bandwidth) = self.figure(server, "bandwidth") else { return Ok(None) };
        let seconds = self.bill.work.size_bytes / bandwidth;
        let holds = self.bill.groups.iter().any(|group| self.engine_of(group).is_some());
        if holds {
            // Then it stands in the network of the engines.
            let seconds = self.at(Level::Fabric, seconds);
            let load = Load::PerIo(seconds);
            self.resource(
                "fabric".to_owned(),
                Level::Fabric,
                &[(&server.id, &["bandwidth"])],
                load,
            );
            return Ok(Some(Stop { at: StationId(0), seconds }));
        }
        let stop = self.server("fabric".to_owned(), Level::Fabric, seconds);
        let load = Load::Stations(vec![stop.at]);
        self.resource("fabric".to_owned(), Level::Fabric, &[(&server.id, &["bandwidth"])], load);
        Ok(Some(stop))
    }
}
