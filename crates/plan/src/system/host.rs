//! The host as stations: cores, and the fabric that all slots share.

use model::{Station, StationId};

use super::{Builder, Level, Load, PlanError, Stop};
use catalogue::{Known, Part};

/// Core speed of a host with an unknown CPU: between desktops and servers of ten years.
const UNTOLD: f64 = 1.3;
/// Bytes per second that a core of a Xeon Scalable of 2017 moves through a page cache: it finds a
/// page, copies it and releases it.
const COPIED: f64 = 2.0e9;

impl<'a> Builder<'a> {
    /// Returns the cores, if the bill names software.
    pub(super) fn processor(&mut self) -> Result<Option<Stop>, PlanError> {
        if self.bill.setup.daemons > 1 && !self.has_daemons() {
            let reason = "daemons are those of a cluster on its drives: give its software, such \
                          as \"ceph-rbd\", or hosts and replicas";
            return Err(PlanError::Part { line: 1, reason: reason.to_owned() });
        }
        self.guest()?;
        let Some(software) = &self.bill.software else {
            self.remark("no software given: core time is not modelled");
            return Ok(None);
        };
        if !self.wanted(Level::Processor) {
            return Ok(None);
        }
        let software = self.part(software);
        if software.known("core_time").is_none() && daemon(software) {
            // Each daemon has its own rate, and is a station of its drive.
            return self.daemon_cores(software);
        }
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        let jobs = self.bill.setup.jobs.map(f64::from);
        let cores = match (self.host_cores()?, jobs) {
            (Some(cores), Some(jobs)) => cores.min(jobs),
            (Some(cores), None) => cores,
            (None, Some(jobs)) => jobs,
            (None, None) => {
                let reason = "software without cores: name a server, or give cores or jobs";
                return Err(PlanError::Part { line: 1, reason: reason.to_owned() });
            }
        };
        self.cores("processor", software, server, cores).map(Some)
    }

    /// Adds the threads that serve the virtual disks of guests, in addition to the software of
    /// their hosts.
    fn guest(&mut self) -> Result<(), PlanError> {
        let Some(guest) = &self.bill.setup.guest else { return Ok(()) };
        if !self.wanted(Level::Processor) {
            return Ok(());
        }
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        let disk = self.part(&guest.disk);
        let seconds = self.core_time(disk)? * self.slower(disk, server).unwrap_or(1.0);
        // With a cluster each client is a guest.
        let guests = self.bill.setup.clients.unwrap_or(1);
        let threads = guests.saturating_mul(guest.threads);
        let name = format!("disks of {guests} guests, {threads} threads of {}", disk.id);
        let from: &[(&str, &[&str])] = &[(&disk.id, &["core_time", "core_speed", "clock"])];
        self.clients(name, Level::Processor, from, (threads, seconds));
        Ok(())
    }

    /// Returns the number of cores of the host, from the bill or its server.
    fn host_cores(&mut self) -> Result<Option<f64>, PlanError> {
        if let Some(cores) = self.bill.setup.cores {
            return Ok(Some(f64::from(cores)));
        }
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        // A part for a CPU of any number of cores has none.
        let counted = |server: &&Part| server.known("core_speed").is_none();
        match server.filter(|server| counted(server) || server.known("cores").is_some()) {
            Some(server) => self.need(server, "cores").map(Some),
            None => Ok(None),
        }
    }

    /// Returns the cores that all daemons of a host share, if their number is known.
    fn daemon_cores(&mut self, software: &Part) -> Result<Option<Stop>, PlanError> {
        let seconds = self.daemon_core_seconds(software);
        let Some(cores) = self.host_cores()?.filter(|_| seconds > 0.0) else { return Ok(None) };
        let name = format!("processor, {cores} cores with the daemons of {}", software.id);
        let at = self.network.add_station(Station::servers(name.clone(), cores.max(1.0) as u32));
        let from: &[(&str, &[&str])] =
            &[(&software.id, &["daemon_read_time", "daemon_write_time"])];
        self.resource(name, Level::Processor, from, Load::Stations(vec![at]));
        Ok(Some(Stop { at, seconds: self.at(Level::Processor, seconds) }))
    }

    /// Returns the CPU time of all daemons for an I/O.
    fn daemon_core_seconds(&mut self, software: &Part) -> f64 {
        let (reads, writes) = self.shares();
        let (first, copies) = self.bill.setup.host_writes();
        let reads = reads * self.bill.setup.host_reads() + writes * first;
        let read = self.told_of(software, "daemon_read_time").unwrap_or(0.0);
        let write = self.told_of(software, "daemon_write_time").unwrap_or(0.0);
        reads * read + writes * copies * write
    }

    /// Returns the time of an I/O at daemons, their cores and clients, one after the other.
    fn daemons_alone(&mut self) -> f64 {
        let Some(software) = self.bill.software.as_deref().map(|id| self.part(id)) else {
            return 0.0;
        };
        let cores = match self.bill.setup.cores.is_some() || self.bill.server.is_some() {
            true => self.daemon_core_seconds(software),
            false => 0.0,
        };
        let client = self.bill.setup.clients.and_then(|_| self.client_seconds(software));
        self.daemon_seconds() + self.at(Level::Processor, cores + client.unwrap_or(0.0))
    }

    /// Returns the service time of a drive's daemon for an I/O, if the software has a daemon per
    /// drive; 0 otherwise.
    pub(super) fn daemon_seconds(&mut self) -> f64 {
        if !self.wanted(Level::Processor) {
            return 0.0;
        }
        let target = self.bill.setup.target.as_ref().map(|target| target.software.as_str());
        let (reads, writes) = self.shares();
        let (first, copies) = self.bill.setup.host_writes();
        let reads = reads * self.bill.setup.host_reads() + writes * first;
        let mut seconds = 0.0;
        let more = (self.bill.work.size_bytes - 4096.0).max(0.0);
        for id in self.bill.software.as_deref().into_iter().chain(target) {
            let part = self.part(id);
            let (read, write) = ("daemon_read_bandwidth", "daemon_write_bandwidth");
            for (rate, bandwidth, ios) in
                [("daemon_read_iops", read, reads), ("daemon_write_iops", write, writes * copies)]
            {
                if ios > 0.0 {
                    let command = self.told_of(part, rate).map_or(0.0, |rate| 1.0 / rate);
                    let bytes = match more > 0.0 {
                        true => self.told_of(part, bandwidth).map_or(0.0, |b| more / b),
                        false => 0.0,
                    };
                    seconds += ios * (command + bytes);
                }
            }
        }
        self.at(Level::Processor, seconds)
    }

    /// Returns whether the software of the hosts, or of the target, has a daemon for each drive.
    pub(super) fn has_daemons(&self) -> bool {
        let target = self.bill.setup.target.as_ref().map(|target| target.software.as_str());
        let mut named = self.bill.software.as_deref().into_iter().chain(target);
        named.any(|id| daemon(self.part(id)))
    }

    /// Returns a figure of software. An unknown figure of a cluster is that of others.
    pub(super) fn told_of(&mut self, software: &Part, quantity: &'static str) -> Option<f64> {
        let other = cluster(software).then(|| self.part(crate::bill::ANY_CLUSTER));
        let known = self.figure(software, quantity);
        known.or_else(|| other.and_then(|other| self.figure(other, quantity)))
    }

    /// Returns the cores of the target, if there is one.
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
        let theirs = server.and_then(|server| self.figure(server, "cores"));
        if given.or(theirs).is_none() {
            let reason =
                "target without cores: give target_cores, or a target_server that has them";
            return Err(PlanError::Part { line: 1, reason: reason.to_owned() });
        }
        let cores = given.unwrap_or(f64::INFINITY).min(theirs.unwrap_or(f64::INFINITY));
        let mut stop = self.cores("processor of the target", software, server, cores)?;
        if let Some(volume) = target.volume.as_deref().map(|id| self.part(id)) {
            // The same cores look up, checksum and copy the data that they serve.
            let slower = self.slower(volume, server).unwrap_or(1.0);
            let seconds = self.core_time(volume)? * slower;
            stop.seconds += self.at(Level::Processor, seconds);
        }
        Ok(Some(stop))
    }

    /// Adds the log of a file system, which does flushed writes one after the other.
    pub(super) fn log(&mut self) {
        let Some(id) = self.bill.file_system() else { return };
        let (part, writes) = (self.part(id), self.shares().1);
        let Some(every) = self.bill.work.flush.filter(|_| writes > 0.0) else { return };
        if !self.wanted(Level::Layer) {
            return;
        }
        let Some(seconds) = self.figure(part, "log_time") else { return };
        let name = format!("log of {id}");
        let stop = self.server(name.clone(), Level::Layer, seconds * writes / f64::from(every));
        let load = Load::Stations(vec![stop.at]);
        self.resource(name, Level::Layer, &[(id, &["log_time"])], load);
        self.client_stops.push(stop);
    }

    /// Adds the conversion of unwritten extents at the first write of each block, one at a time per
    /// file.
    pub(super) fn extents(&mut self) {
        let (files, writes) = (self.bill.setup.unwritten, self.shares().1);
        let Some(id) = self.bill.software.as_deref().filter(|_| files > 0 && writes > 0.0) else {
            return;
        };
        if !self.wanted(Level::Layer) {
            return;
        }
        let Some(seconds) = self.figure(self.part(id), "extent_time") else { return };
        let name = match files {
            1 => "unwritten extents of the file".to_owned(),
            _ => format!("unwritten extents of {files} files"),
        };
        let at = self.network.add_station(Station::servers(name.clone(), files));
        let load = Load::Stations(vec![at]);
        self.resource(name, Level::Layer, &[(id, &["extent_time"])], load);
        let seconds = self.at(Level::Layer, seconds * writes);
        self.client_stops.push(Stop { at, seconds });
    }

    /// Returns the latency of the software beyond its CPU time: wake-ups, interrupts, context
    /// switches. That of daemons covers the whole latency of a lone I/O beyond its drive, including
    /// their service.
    pub(super) fn added(&mut self) -> Option<Stop> {
        if !self.wanted(Level::Processor) {
            return None;
        }
        let (bill, target) = (self.bill, self.bill.setup.target.as_ref());
        let host = bill.software.as_deref().map(|software| (software, bill.server.as_deref()));
        let theirs = target.and_then(|target| target.server.as_deref());
        let far = target.map(|target| (target.software.as_str(), theirs));
        let volume = target.and_then(|target| Some((target.volume.as_deref()?, theirs)));
        let guest = bill.setup.guest.as_ref();
        let guest = guest.map(|guest| (guest.disk.as_str(), bill.server.as_deref()));
        let mut seconds = 0.0;
        for (software, server) in guest.into_iter().chain(host).chain(far).chain(volume) {
            seconds += self.added_by(self.part(software), server.map(|id| self.part(id)));
        }
        if seconds == 0.0 {
            let (reads, writes) = self.shares();
            seconds = self.link_latency() * (reads + writes * self.round_trips());
        }
        if seconds == 0.0 {
            return None;
        }
        let served = if self.has_daemons() { self.daemons_alone() } else { 0.0 };
        let seconds = (self.at(Level::Processor, seconds) - served).max(0.0);
        let at = self.network.add_station(Station::delay("what the software adds"));
        (seconds > 0.0).then_some(Stop { at, seconds })
    }

    /// Returns the mean number of sequential round trips over a network per write: a flush is an
    /// additional round trip.
    fn round_trips(&self) -> f64 {
        let linked = self.bill.groups.iter().any(|group| group.link.is_some());
        match self.bill.work.flush {
            Some(every) if self.bill.setup.target.is_some() || linked => {
                1.0 + 1.0 / f64::from(every)
            }
            _ => 1.0,
        }
    }

    /// Returns the latency that software adds on a host, at the speed of its cores.
    fn added_by(&mut self, part: &Part, server: Option<&Part>) -> f64 {
        let (reads, writes) = self.shares();
        let writes = writes * self.round_trips();
        let added = self.told_of(part, "added_latency").unwrap_or(0.0);
        let write = match writes > 0.0 {
            true => self.told_of(part, "added_write_latency").unwrap_or(added),
            false => added,
        };
        let mut seconds = reads * added + writes * write;
        // A record is checksummed, and decompressed, before any of it is returned.
        let whole = self.bill.record_bytes().filter(|_| !self.bill.setup.sequential);
        if let Some(record) = whole.filter(|_| reads > 0.0) {
            let passed = self.figure(part, "record_bandwidth");
            let bytes = record.max(self.bill.work.size_bytes);
            seconds += passed.map_or(0.0, |bandwidth| reads * bytes / bandwidth);
        }
        match seconds > 0.0 {
            true => seconds * self.slower(part, server).unwrap_or(1.0),
            false => 0.0,
        }
    }

    fn cores(
        &mut self,
        what: &str,
        software: &Part,
        server: Option<&Part>,
        cores: f64,
    ) -> Result<Stop, PlanError> {
        let slower = self.slower(software, server);
        if slower.is_none() {
            self.remark(
                "core time is not scaled: the processor of the host or of the source is unknown; \
                 name the host's as server, such as \"epyc-7003\"",
            );
        }
        // Each core waits for locks that the others have.
        let contended =
            1.0 + self.figure(software, "contention").unwrap_or(0.0) * (cores - 1.0).max(0.0);
        let seconds = self.core_time(software)? * slower.unwrap_or(1.0) * contended;
        let at = self.network.add_station(Station::servers(what, cores.max(1.0) as u32));
        let load = Load::Stations(vec![at]);
        let name = format!("{what}, {cores} cores with {}", software.id);
        let times: &[&str] = &["core_time", "core_time_4k", "contention", "clock", "core_speed"];
        let mut from = vec![(software.id.as_str(), times)];
        let theirs: &[&str] = &["cores", "clock", "core_speed"];
        from.extend(server.map(|server| (server.id.as_str(), theirs)));
        self.resource(name, Level::Processor, &from, load);
        Ok(Stop { at, seconds: self.at(Level::Processor, seconds) })
    }

    /// Returns the ratio of the time on a core of the host to that on the software's source: by the
    /// single-thread speeds of the two, or else by their clocks; `None` if neither is known of
    /// both.
    fn slower(&mut self, software: &Part, server: Option<&Part>) -> Option<f64> {
        let Some(server) = server else {
            let theirs = self.figure(software, "core_speed")?;
            self.remark(
                "host processor unknown: assumed 1.3 times as fast as a Xeon Scalable of 2017; \
                 name it as server, such as \"core-i-12\"",
            );
            return Some(theirs / UNTOLD);
        };
        if let Some(ours) = self.figure(server, "core_speed") {
            let theirs = match self.figure(software, "core_speed") {
                Some(theirs) => theirs,
                None => self.supposed(software, "core_speed", usual_speed()),
            };
            return Some(theirs / ours);
        }
        Some(self.figure(software, "clock")? / self.figure(server, "clock")?)
    }

    /// Returns the CPU time of an I/O: constant up to 1 KiB, and linear through the figure of 4
    /// KiB; or that of 4 KiB and the rest of its bytes, if the software copies them.
    fn core_time(&mut self, software: &Part) -> Result<f64, PlanError> {
        let small = self.need(software, "core_time")?;
        let Some(large) = self.figure(software, "core_time_4k") else {
            let more = (self.bill.work.size_bytes - 4096.0).max(0.0);
            let copied = (more > 0.0).then(|| self.figure(software, "core_bandwidth")).flatten();
            // Through the page cache of the application's host each byte is copied.
            let asks = self.bill.software.as_deref() == Some(software.id.as_str());
            let cached = asks && self.bill.setup.buffered == Some(true);
            let copied = copied.or(cached.then_some(COPIED));
            return Ok(small + copied.map_or(0.0, |bandwidth| more / bandwidth));
        };
        let slope = (large - small) / (4096.0 - 1024.0);
        Ok(small + slope * (self.bill.work.size_bytes - 1024.0).max(0.0))
    }

    /// Returns the fabric that all slots share, if it is known.
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
            // The fabric is in the network of the engines then.
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

/// Returns the core speed of published results with an unknown CPU: servers of ten years.
fn usual_speed() -> Known {
    let source = "servers of 2014 to 2024".to_owned();
    Known::assumed(1.0, (0.8, 1.4), source)
}

/// Returns whether software has a daemon for each drive, whose rate is known.
fn daemon(software: &Part) -> bool {
    let rated = |quantity| software.known(quantity).is_some();
    cluster(software) || rated("daemon_read_iops") || rated("daemon_write_iops")
}

/// Returns whether software stores copies on hosts, as `any-cluster` does.
fn cluster(software: &Part) -> bool {
    software.value("cluster") == Some(1.0)
}
