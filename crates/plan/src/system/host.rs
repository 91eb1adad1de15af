//! What the host brings: cores, and what all its slots share.

use model::{Station, StationId};

use super::{Builder, Level, Load, PlanError, Stop};
use catalogue::Part;

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
        let software = self.part(software);
        if software.known("core_time").is_none() && daemon(software) {
            // Its cost is that of the daemons, which stand beside the drives.
            return Ok(None);
        }
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        let jobs = self.bill.setup.jobs.map(f64::from);
        let cores = match (server, jobs) {
            (Some(server), Some(jobs)) => self.need(server, "cores")?.min(jobs),
            (Some(server), None) => self.need(server, "cores")?,
            (None, Some(jobs)) => jobs,
            (None, None) => {
                let reason = "software without a server: name one, for its cores, or say how \
                              many jobs there are";
                return Err(PlanError::Part { line: 1, reason: reason.to_owned() });
            }
        };
        self.cores("processor", software, server, cores).map(Some)
    }

    /// Time that the daemon of a drive needs for an I/O of the work, where the software of the
    /// host, or of the far side, has one for each; 0 without.
    pub(super) fn daemon_seconds(&mut self) -> f64 {
        if !self.wanted(Level::Processor) {
            return 0.0;
        }
        let target = self.bill.setup.target.as_ref().map(|target| target.software.as_str());
        let (reads, writes) = self.shares();
        let (first, copies) = self.bill.setup.host_writes();
        let reads = reads * self.bill.setup.host_reads() + writes * first;
        let mut seconds = 0.0;
        for id in self.bill.software.as_deref().into_iter().chain(target) {
            let part = self.part(id);
            if reads > 0.0 {
                seconds += self.figure(part, "daemon_read_iops").map_or(0.0, |rate| reads / rate);
            }
            if writes > 0.0 {
                let each = self.figure(part, "daemon_write_iops");
                seconds += each.map_or(0.0, |rate| writes * copies / rate);
            }
        }
        self.at(Level::Processor, seconds)
    }

    /// The cores of the far side of a network, if there is one.
    pub(super) fn target(&mut self) -> Result<Option<Stop>, PlanError> {
        let Some(target) = &self.bill.setup.target else { return Ok(None) };
        if !self.wanted(Level::Processor) {
            return Ok(None);
        }
        let (software, given) = (self.part(&target.software), target.cores.map(f64::from));
        if software.known("core_time").is_none() && daemon(software) {
            return Ok(None);
        }
        let server = target.server.as_deref().map(|server| self.part(server));
        let theirs = server.map(|server| self.need(server, "cores")).transpose()?;
        let cores = given.unwrap_or(f64::INFINITY).min(theirs.unwrap_or(f64::INFINITY));
        self.cores("processor of the target", software, server, cores).map(Some)
    }

    /// What the software adds to each I/O that costs no core: wake-ups, interrupts, context
    /// switches.
    pub(super) fn added(&mut self) -> Option<Stop> {
        if !self.wanted(Level::Processor) {
            return None;
        }
        let mut seconds = 0.0;
        let target = self.bill.setup.target.as_ref().map(|target| target.software.as_str());
        for id in self.bill.software.as_deref().into_iter().chain(target) {
            seconds += self.figure(self.part(id), "added_latency").unwrap_or(0.0);
        }
        if seconds == 0.0 {
            return None;
        }
        let at = self.network.add_station(Station::delay("what the software adds"));
        Some(Stop { at, seconds: self.at(Level::Processor, seconds) })
    }

    fn cores(
        &mut self,
        what: &str,
        software: &Part,
        server: Option<&Part>,
        cores: f64,
    ) -> Result<Stop, PlanError> {
        let mut seconds = self.core_time(software)?;
        // A clock of another speed takes another time.
        let theirs = self.figure(software, "clock");
        match (theirs, server.and_then(|server| self.figure(server, "clock"))) {
            (Some(theirs), Some(ours)) => seconds *= theirs / ours,
            _ => self.remark("the processor time is not scaled: a clock is not known"),
        }
        let at = self.network.add_station(Station::servers(what, cores.max(1.0) as u32));
        let load = Load::Stations(vec![at]);
        let name = format!("{what}, {cores} cores with {}", software.id);
        let times: (&str, &[&str]) = (&software.id, &["core_time", "core_time_4k", "clock"]);
        let mut from = vec![times];
        from.extend(server.map(|server| (server.id.as_str(), &["cores", "clock"] as &[&str])));
        self.resource(name, Level::Processor, &from, load);
        Ok(Stop { at, seconds: self.at(Level::Processor, seconds) })
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

/// Whether software has a daemon for each drive, whose rate is known.
fn daemon(software: &Part) -> bool {
    software.known("daemon_read_iops").is_some() || software.known("daemon_write_iops").is_some()
}
