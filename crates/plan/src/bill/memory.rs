//! File systems between the application and the drives: threads that wait for a drive, and the
//! sizes of the drive's I/Os.

use super::Bill;

/// Queue depth of each drive during write-back or read-ahead: enough to keep flash busy, and as
/// many as an HDD sorts.
const BY_MEMORY: u32 = 32;
/// Number of commands of a stream on an HDD at once: the requested one, and the next.
const AHEAD: u32 = 2;
/// Maximum record size: ZFS allows 16 MiB.
const RECORD_MAX: u64 = 16 << 20;
/// Minimum span of random I/Os: less is in the cache of an HDD.
const SPAN_MIN: u64 = 1 << 20;
/// Minimum record size: a sector.
const RECORD_MIN: u64 = 512;

/// Reads the bytes of a record, such as "16k".
///
/// # Errors
///
/// The reason: not a size, or below 512 bytes or above 16 MiB.
pub fn record(text: &str) -> Result<u32, String> {
    let bytes = block::parse_size(text).map_err(|error| error.to_string())?;
    match (RECORD_MIN..=RECORD_MAX).contains(&bytes) {
        true => Ok(bytes as u32),
        false => Err(format!("record {text}: 512 bytes to 16m")),
    }
}

/// Reads the bytes over which random I/Os are spread, such as "10g".
///
/// # Errors
///
/// The reason: not a size, or too small.
pub fn span(text: &str) -> Result<f64, String> {
    let bytes = block::parse_size(text).map_err(|error| error.to_string())?;
    match bytes >= SPAN_MIN {
        true => Ok(bytes as f64),
        false => Err(format!("span {text}: at least 1m")),
    }
}

impl Bill {
    /// Returns the bytes of the records that a file system reads and writes whole; `None` if it has
    /// none.
    pub(crate) fn record_bytes(&self) -> Option<f64> {
        self.setup.record.map(f64::from).or_else(|| self.file_system_value("record"))
    }

    /// Returns whether memory answers for the drives, so that they have as much in flight as they
    /// accept.
    pub(crate) fn is_buffered(&self) -> bool {
        let usual = self.file_system_value("buffered") == Some(1.0);
        let buffered = self.setup.buffered.unwrap_or(usual);
        let ahead = self.work.read_share == 0.0 || self.setup.sequential;
        buffered && ahead && self.work.flush.is_none()
    }

    /// Sets the queue depth of drives to that of write-back or read-ahead, or to that of threads
    /// that wait for each I/O.
    pub fn wait_for_memory(&mut self) {
        // Streams define their own queue depth.
        if !self.setup.streams.is_empty() {
            return;
        }
        if self.is_buffered() {
            self.work.outstanding = self.work.outstanding.max(BY_MEMORY);
            self.setup.in_flight = None;
            return;
        }
        if self.stream_on_disks() {
            self.work.outstanding = self.work.outstanding.max(AHEAD);
            self.setup.in_flight = self.setup.in_flight.map(|all| all.max(AHEAD));
        }
        // Without read-ahead, sequential records are located one by one, like random ones.
        let recorded = self.file_system_value("record").is_some();
        if recorded && self.work.read_share > 0.0 {
            self.setup.sequential = false;
        }
        // A thread waits in its system call for each I/O through the page cache.
        let waits = self.setup.buffered == Some(true);
        let each = self.software_value("queue_depth").or(waits.then_some(1.0));
        let (Some(each), Some(jobs)) = (each, self.setup.jobs) else { return };
        let most = (f64::from(jobs) * each * f64::from(self.setup.up())).max(1.0) as u32;
        let drives = self.drives().saturating_mul(self.setup.up()).max(1);
        let asked =
            self.setup.in_flight.unwrap_or_else(|| self.work.outstanding.saturating_mul(drives));
        if most < asked {
            self.setup.in_flight = Some(most);
            self.work.outstanding = most.div_ceil(drives);
        }
    }

    /// Returns whether HDDs of this host read ahead and write behind: one command is pending while
    /// the heads are at the next. A network hides that, and so does a cluster.
    fn stream_on_disks(&self) -> bool {
        let mut drives = self.groups.iter().filter_map(|group| group.drive.as_deref());
        let disk = |id: &str| self.catalogue.parts[id].known("rpm").is_some();
        let linked = self.groups.iter().any(|group| group.link.is_some());
        let near = !linked && self.setup.hosts == 1;
        near && self.setup.sequential && self.work.flush.is_none() && drives.all(disk)
    }

    /// Returns the file system of the data: the volume of a target, or the software of the host.
    pub(crate) fn file_system(&self) -> Option<&str> {
        let volume = self.setup.target.as_ref().and_then(|target| target.volume.as_deref());
        volume.or(self.software.as_deref())
    }

    fn file_system_value(&self, quantity: &str) -> Option<f64> {
        self.catalogue.parts[self.file_system()?].value(quantity)
    }

    fn software_value(&self, quantity: &str) -> Option<f64> {
        self.catalogue.parts[self.software.as_deref()?].value(quantity)
    }
}
