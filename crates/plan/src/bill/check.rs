//! Checks that a bill can be built: slots, lanes, bays, ports, RAID sets, hosts.

use super::{Bill, DEVICES_MAX, Group, Setup, Work};

/// Default number of lanes of a drive: those of U.2, U.3, M.2 and E3.S.
pub(crate) const LANES: f64 = 4.0;

/// Maximum I/O size, and maximum chunk of a stripe: 1 GiB.
pub(super) const LONGEST: f64 = 1_073_741_824.0;

/// Maximum number of unwritten files; the model has this many in parallel.
const FILES_MAX: u32 = 4096;

impl Work {
    /// Checks the workload; the error is the reason.
    pub(super) fn check(&self) -> Result<(), String> {
        let Work { size_bytes, read_share, outstanding, flush } = *self;
        if !(1.0..=LONGEST).contains(&size_bytes) {
            return Err(format!("I/Os of {size_bytes} bytes: 1 to 1g are possible"));
        }
        if !(0.0..=1.0).contains(&read_share) {
            return Err(format!("{} % of reads: 0 to 100 are possible", read_share * 100.0));
        }
        if !(1..=65536).contains(&outstanding) {
            return Err(format!("{outstanding} outstanding: 1 to 65536 are possible"));
        }
        if flush.is_some_and(|writes| !(1..=1_000_000).contains(&writes)) {
            return Err("flush: after 1 to 1000000 writes".to_owned());
        }
        Ok(())
    }
}

impl Bill {
    /// Checks that the bill can be built.
    ///
    /// # Errors
    ///
    /// Line of the group, 1 for the bill itself, and reason.
    pub fn check(&self) -> Result<(), (usize, String)> {
        self.work.check().map_err(|reason| (1, reason))?;
        let devices = self.groups.iter().fold(0u32, |sum, g| sum.saturating_add(g.devices()));
        if !(1..=DEVICES_MAX).contains(&devices) {
            let reason = format!("{devices} drives and ports: 1 to {DEVICES_MAX} are possible");
            return Err((1, reason));
        }
        for group in &self.groups {
            if group.devices() == 0 || !(1..=DEVICES_MAX).contains(&group.count) {
                let reason = format!("1 to {DEVICES_MAX} cards with drives or ports on each");
                return Err((group.line, reason));
            }
            self.check_ports(group).map_err(|reason| (group.line, reason))?;
        }
        if let Some((what, price)) =
            self.extras.iter().find(|(_, price)| !(0.0..=1e9).contains(price))
        {
            return Err((1, format!("extra '{what}': price {price}: 0 to 1e9 dollars")));
        }
        self.check_setup().map_err(|reason| (1, reason))?;
        self.check_slots()?;
        self.check_lanes()?;
        self.check_bays()
    }

    /// Checks spares, RAID sets and failures.
    fn check_setup(&self) -> Result<(), String> {
        let Setup { width, spares, down, hosts, rebuild, .. } = self.setup;
        let copies = self.setup.survives();
        let drives = self.drives();
        if self.setup.idle() > 0 && self.setup.idle() >= drives {
            let failed = down.drives;
            return Err(format!("{spares} spares and {failed} failed of {drives} drives"));
        }
        let levels = || self.groups.iter().filter(|g| g.drive.is_some()).map(|g| g.raid);
        if let Some(width) = width {
            let least = levels().filter_map(super::Raid::least).max().unwrap_or(1);
            if !(least..=drives.saturating_sub(spares).max(1)).contains(&width) {
                return Err(format!(
                    "a set of {width} drives: {least} to {} are possible",
                    drives.saturating_sub(spares)
                ));
            }
        }
        // Copies are on other hosts; parity and mirrors are within one.
        let survives = levels().map(|raid| raid.tolerates()).min().unwrap_or(0);
        if down.drives > survives && copies == 0 {
            return Err(format!(
                "{} drives down loses data: this survives {survives}; give raid, replicas or \
                 erasure",
                down.drives
            ));
        }
        if down.hosts > 0 && (down.hosts >= hosts || down.hosts > copies) {
            return Err(format!(
                "{} of {hosts} hosts down loses data: {copies} may fail; give replicas or erasure",
                down.hosts
            ));
        }
        if self.setup.journal && self.work.flush.is_none() {
            return Err("journal is written with each flush: give flush = 1".to_owned());
        }
        self.check_unwritten()?;
        if self.setup.clients.is_some() && hosts < 2 {
            return Err("clients are of a cluster: give hosts, or jobs for one host".to_owned());
        }
        if rebuild > 0.0 && survives == 0 && copies == 0 {
            let why = "rebuild: there is nothing to rebuild from; give raid, replicas or erasure";
            return Err(why.to_owned());
        }
        Ok(())
    }

    fn check_unwritten(&self) -> Result<(), String> {
        let files = self.setup.unwritten;
        if files == 0 {
            return Ok(());
        }
        if files > FILES_MAX {
            return Err(format!("unwritten {files}: 1 to {FILES_MAX} files"));
        }
        if self.work.read_share == 1.0 || self.setup.sequential {
            return Err(
                "unwritten is of random writes: give read = 0, or a mix without sequential"
                    .to_owned(),
            );
        }
        if self.is_buffered() {
            return Err("unwritten is of direct writes: leave buffered out".to_owned());
        }
        let known = |id: &str| self.catalogue.parts[id].known("extent_time").is_some();
        match self.software.as_deref() {
            Some(software) if known(software) => Ok(()),
            Some(software) => Err(format!(
                "unwritten: {software} has no extent_time: give it as a figure, or name \
                 linux-libaio-file, linux-psync or linux-md as software"
            )),
            None => {
                Err("unwritten is of files: give software, such as linux-libaio-file".to_owned())
            }
        }
    }

    fn check_ports(&self, group: &Group) -> Result<(), String> {
        let Some(adapter) = group.adapter.as_deref().and_then(|id| self.catalogue.parts.get(id))
        else {
            return Ok(());
        };
        let used = if group.drive.is_some() { group.drives } else { group.ports };
        match adapter.value("ports") {
            Some(ports) if f64::from(used) > ports && !group.expander => Err(format!(
                "{used} on each {} with {ports} ports: add cards, or say expander = true where a \
                 backplane or a box with an expander stands between",
                adapter.id
            )),
            _ => Ok(()),
        }
    }

    fn check_slots(&self) -> Result<(), (usize, String)> {
        let Some(server) = self.server.as_deref().and_then(|id| self.catalogue.parts.get(id))
        else {
            return Ok(());
        };
        let Some(slots) = server.value("slots") else { return Ok(()) };
        let mut cards = 0u32;
        for group in &self.groups {
            let each = if group.adapter.is_some() { 1 } else { group.drives.max(1) };
            cards = cards.saturating_add(group.count.saturating_mul(each));
            if f64::from(cards) > slots {
                let reason = format!("{cards} cards so far in the {slots} slots of {}", server.id);
                return Err((group.line, reason));
            }
        }
        Ok(())
    }

    /// Checks servers without known slots by their total number of lanes.
    fn check_lanes(&self) -> Result<(), (usize, String)> {
        let Some(server) = self.server.as_deref().and_then(|id| self.catalogue.parts.get(id))
        else {
            return Ok(());
        };
        let Some(lanes) = server.value("lanes").filter(|_| server.value("slots").is_none()) else {
            return Ok(());
        };
        let mut used = 0.0;
        for group in &self.groups {
            let card = group.adapter.as_ref().or(group.drive.as_ref());
            let width = card.and_then(|id| {
                let card = &self.catalogue.parts[id];
                let usual = (card.interface == "pcie").then_some(LANES);
                card.value("lanes").or(usual)
            });
            let each = if group.adapter.is_some() { 1 } else { group.drives };
            used += width.unwrap_or(0.0) * f64::from(group.count) * f64::from(each);
            if used > lanes {
                let reason = format!("{used} lanes so far of the {lanes} of {}", server.id);
                return Err((group.line, reason));
            }
        }
        Ok(())
    }

    fn check_bays(&self) -> Result<(), (usize, String)> {
        let server = self.server.as_deref().and_then(|id| self.catalogue.parts.get(id));
        let Some(bays) = server.and_then(|server| server.value("bays")) else { return Ok(()) };
        let mut drives = 0;
        for group in self.groups.iter().filter(|group| group.adapter.is_some()) {
            drives += if group.drive.is_some() { group.devices() } else { 0 };
            if f64::from(drives) > bays {
                return Err((group.line, format!("{drives} drives so far in {bays} bays")));
            }
        }
        Ok(())
    }
}
