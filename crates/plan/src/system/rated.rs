//! Service time of a drive from its ratings, at the size, mix and state of the workload.

use super::{Builder, PlanError};
use crate::bill::{FlashState, Group, Raid};
use catalogue::{Part, is_disk};

/// Number of writes in an HDD's own cache to choose from: in caches of 16 to 64 MB, and in the 128
/// MB and more of large ones (two of 8 and 10 TB: 315 and 405 writes a second at queue depth 1 and
/// up).
const OWN_CACHE: f64 = 32.0;
const LARGE_OWN_CACHE: f64 = 128.0;
/// Minimum capacity of an HDD with such a cache, in bytes.
const LARGE: f64 = 6e12;
/// Maximum number of commands that an HDD chooses from.
const CHOICE_MAX: f64 = 64.0;
/// I/O size in bytes from which on the bandwidth determines the rate of a drive, and its rating for
/// small I/Os need not be known.
pub(super) const LONG: f64 = 65_536.0;
/// Size of the objects into which clusters split sequential data, each at a separate offset, in
/// bytes.
const OBJECT: f64 = 4_194_304.0;
/// I/O sizes at which ratings and bandwidths of writes are measured, in bytes.
const RATED: f64 = 4096.0;
/// Default capacity in bytes, rotational speed in rpm, and track-to-track seek time in seconds of
/// an HDD.
const CAPACITY: f64 = 2e12;
const RPM: f64 = 7200.0;
const TRACK_S: f64 = 1e-3;
/// Minimum size of a record on a drive, a sector, in bytes.
const SECTOR: f64 = 4096.0;
/// Size in bytes up to which ZFS aggregates adjacent records into one write.
const GATHERED: f64 = 1_048_576.0;
const FULL_WRITE: f64 = 131_072.0;

/// Drive I/Os per I/O of a file system that rewrites records as a whole at new offsets.
#[derive(Clone, Copy)]
pub(super) struct Records {
    /// Number of drive reads for a read.
    pub(super) commands: f64,
    /// Size of each in bytes.
    pub(super) bytes: f64,
    /// Bytes written for a write, before copies and parity.
    written: f64,
    /// Share of writes that first read the record that they modify.
    read_first: f64,
}

impl Builder<'_> {
    /// Returns the time of an I/O by rating and bandwidth; in a mix, writes weigh more among reads.
    pub(super) fn rated(&mut self, group: &Group, drive: &Part) -> Result<f64, PlanError> {
        let work = self.bill.work;
        let (reads, writes) = self.shares();
        let (before, after) = self.written(group);
        let (first, copies) = self.bill.setup.host_writes();
        // Parity across hosts applies to the data of each host: both read before they write.
        let (before, after) = (first + before * copies, after * copies * self.journalled());
        let mut seconds = 0.0;
        let records = self.records(group);
        let (pieces, length) = self.pieces(group, drive);
        let reads = reads * pieces * self.degraded(group) * self.bill.setup.host_reads();
        if reads > 0.0 || (writes > 0.0 && before > 0.0) {
            let bandwidth = self.bandwidth(drive, "read_bandwidth");
            let rate = match LONG <= length && bandwidth.is_finite() {
                _ if self.in_sequence(drive, bandwidth) => self.objects(drive, "read_iops"),
                true => self.figure(drive, "read_iops").unwrap_or(f64::INFINITY),
                false => self.read_rate(drive)?,
            };
            let rate = self.within(drive, rate) * self.chosen(group, drive);
            let read = moved(drive, 1.0 / rate, (length, bandwidth));
            // An HDD's head also passes over the parity, which a sequential read skips.
            let passed = match self.in_sequence(drive, bandwidth) {
                true if group.raid.parity() > 0 => group.raid.per_data(self.set(group)),
                // One stream is read from one side.
                _ if self.streams_from_one_side(group) => 2.0,
                _ => 1.0,
            };
            seconds += (reads * passed + writes * before) * read;
        }
        if let Some(records) = records.filter(|_| writes > 0.0) {
            seconds += writes * after * self.record_written(drive, &records)?;
        } else if writes > 0.0 {
            let bandwidth = self.bandwidth(drive, "write_bandwidth");
            let state = self.state(drive);
            // Data spread over hosts are sequential on none of their drives.
            let streams = self.bill.setup.sequential && self.bill.setup.hosts == 1;
            let rate = match state {
                _ if self.in_sequence(drive, bandwidth) => self.objects(drive, "write_iops"),
                // Sequential writes leave nothing of a block to copy when it is erased.
                FlashState::Worn if streams && bandwidth.is_finite() => {
                    self.streamed(drive, bandwidth)
                }
                FlashState::Worn if LONG <= work.size_bytes && bandwidth.is_finite() => {
                    self.figure(drive, "write_iops").unwrap_or(f64::INFINITY)
                }
                FlashState::Worn => self.worn(drive)?,
                FlashState::Fresh => match self.figure(drive, "fresh_write_iops") {
                    Some(rate) => rate,
                    // Fresh flash does random writes as fast as sequential ones.
                    None => self.unrated_fresh(drive)?,
                },
            };
            let rate = self.within(drive, rate) * self.gathered(group, drive);
            let among = work.read_share > 0.0 || self.bill.setup.among_reads;
            let weight = if among { self.mix_factor(drive)? } else { 1.0 };
            let write = match state {
                _ if is_disk(drive) => {
                    moved(drive, 1.0 / rate, (length, bandwidth)) / self.complete(group, drive)
                }
                FlashState::Worn if !streams => between(work.size_bytes, rate, bandwidth),
                _ => (1.0 / rate).max(work.size_bytes / bandwidth),
            };
            seconds += writes * weight * write * after;
        }
        Ok(seconds)
    }

    /// Returns the sequential writes per second: by bandwidth, and no more than its controller does
    /// of any kind, as far as rated.
    fn streamed(&mut self, drive: &Part, bandwidth: f64) -> f64 {
        let rated = ["read_iops", "write_iops", "fresh_write_iops"];
        let most =
            rated.into_iter().filter_map(|rating| self.figure(drive, rating)).reduce(f64::max);
        let bytes = bandwidth / self.bill.work.size_bytes.max(RATED);
        bytes.min(most.unwrap_or(f64::INFINITY))
    }

    /// Returns the writes per second of fresh flash without a rating for it: over PCIe as fast as
    /// sequential ones and no faster than its reads; elsewhere, and with a flush after each, half
    /// way (by ratio) from the rating of worn flash.
    fn unrated_fresh(&mut self, drive: &Part) -> Result<f64, PlanError> {
        let Some(bandwidth) = self.bandwidth_like(drive, "write_bandwidth") else {
            return self.need(drive, "write_bandwidth");
        };
        let stream = bandwidth / self.bill.work.size_bytes.max(RATED);
        let Some(worn) = self.figure(drive, "write_iops").filter(|worn| *worn < stream) else {
            return Ok(stream);
        };
        let (rate, what) = match drive.interface.as_str() {
            "pcie" if !self.is_flushed(drive) => {
                let reads = self.figure(drive, "read_iops").unwrap_or(f64::INFINITY);
                (stream.min(reads), "as fast as in sequence, or as its reads")
            }
            _ => ((worn * stream).sqrt(), "half way between the worn rating and the bandwidth"),
        };
        self.remark(&format!("{}: no rating of fresh flash; assumed {what}", drive.id));
        Ok(rate)
    }

    /// Returns the state of the flash. Writes with a flush after each are so slow that a drive
    /// without a rating of worn flash is as fast as a fresh one.
    fn state(&self, drive: &Part) -> FlashState {
        let unknown = drive.value("write_iops").is_none() && !is_disk(drive);
        match unknown && self.is_flushed(drive) {
            true => FlashState::Fresh,
            false => self.bill.setup.state,
        }
    }

    /// Returns the writes per second of full flash: rated, or as of rated drives, or at queue depth
    /// 1 from the latency. If none is known, the error says how to select fresh flash.
    fn worn(&mut self, drive: &Part) -> Result<f64, PlanError> {
        let unrated = drive.value("write_iops").is_none();
        let assumed = if unrated { self.worn_like(drive) } else { None };
        let known = assumed.or_else(|| self.alone(drive, "write_iops", "write_latency"));
        if let Some(rate) = known {
            return Ok(rate);
        }
        let fresh = ["fresh_write_iops", "write_bandwidth"];
        let known = fresh.into_iter().find(|quantity| drive.value(quantity).is_some());
        self.need(drive, "write_iops").map_err(|error| match (error, known) {
            (PlanError::Part { line, reason }, Some(known)) if !is_disk(drive) => PlanError::Part {
                line,
                reason: format!(
                    "{reason}; or say state = \"fresh\", which takes its {known}: write_iops \
                         are those of flash that has been written over many times"
                ),
            },
            (error, _) => error,
        })
    }

    /// Returns the reads and writes of drives for a write. Sequential stripes are written whole, so
    /// parity is computed from the new data, and nothing is read before.
    pub(super) fn written(&self, group: &Group) -> (f64, f64) {
        let stripes = group.raid.per_data(self.set(group));
        match self.records(group) {
            // Log of synchronous writes: the data, and a mirror or parities of it.
            Some(_) if self.bill.work.flush.is_some() => (0.0, group.raid.copies()),
            Some(records) => (records.read_first * records.commands, stripes),
            None if self.bill.setup.sequential => (0.0, stripes),
            None => self.at_random(group),
        }
    }

    /// Returns the drive I/Os of a file system with whole records for each random I/O; `None`
    /// without one, or for sequential I/O, where it does the same as others.
    pub(super) fn records(&self, group: &Group) -> Option<Records> {
        let record = self.bill.record_bytes().filter(|_| !self.bill.setup.sequential)?;
        let size = self.bill.work.size_bytes;
        let moved = record.max(size);
        // With parity a record is spread over the drives of its set, otherwise it is on one.
        let (commands, bytes) = match group.raid.parity() {
            0 => (moved / record, record),
            parity => {
                let data = f64::from(self.set(group).saturating_sub(parity).max(1));
                let over = data.min((moved / SECTOR).ceil());
                (over, moved / over)
            }
        };
        // Rewritten data were read a short time ago, unless a bill defines the misses of a cache.
        let missed = self.bill.setup.cache.map_or(0.0, |cache| 1.0 - cache.hit);
        let read_first = if size < record { missed } else { 0.0 };
        // Synchronous writes wait for a log; records follow when many of them were changed.
        let written = if self.bill.work.flush.is_some() { size } else { moved };
        Some(Records { commands, bytes, written, read_first })
    }

    /// Returns the time of a drive for its writes of an I/O, one copy: records of all I/Os go to
    /// free space next to each other, and adjacent ones are written together.
    fn record_written(&mut self, drive: &Part, records: &Records) -> Result<f64, PlanError> {
        let bandwidth = self.need(drive, "write_bandwidth")?;
        let streamed = records.written / bandwidth;
        if !is_disk(drive) {
            return Ok(streamed);
        }
        let seek = 1.0 / self.need(drive, "write_iops")?;
        Ok(streamed + seek * records.written / GATHERED)
    }

    /// Returns the number of drives of a set.
    pub(super) fn set(&self, group: &Group) -> u32 {
        let spares = self.bill.setup.spares;
        self.bill.setup.width.unwrap_or(group.devices().saturating_sub(spares).max(1))
    }

    /// Returns whether an HDD does not seek: then its rating, for random I/Os, does not apply.
    fn in_sequence(&self, drive: &Part, bandwidth: f64) -> bool {
        self.bill.setup.sequential && bandwidth.is_finite() && is_disk(drive)
    }

    /// Returns the sequential I/Os per second by the seeks of an HDD: none, or one for each object
    /// of a cluster.
    fn objects(&mut self, drive: &Part, rating: &'static str) -> f64 {
        match self.has_daemons().then(|| self.figure(drive, rating)).flatten() {
            Some(rate) => rate * (OBJECT / self.bill.work.size_bytes).max(1.0),
            None => f64::INFINITY,
        }
    }

    /// Returns whether one thread reads a mirror sequentially: from one of its drives.
    fn streams_from_one_side(&self, group: &Group) -> bool {
        let setup = &self.bill.setup;
        setup.sequential && setup.jobs == Some(1) && group.raid == Raid::Mirror
    }

    /// Returns the IOPS of an HDD whose head moves over a part of it only: the seek time grows with
    /// the square root of the distance, from one track to all of them.
    pub(super) fn within(&mut self, drive: &Part, rate: f64) -> f64 {
        let Some(span) = self.bill.setup.span.filter(|_| is_disk(drive) && rate.is_finite()) else {
            return rate;
        };
        let drives = f64::from(self.bill.drives().saturating_mul(self.bill.setup.up()).max(1));
        let bytes = drive.value("capacity").unwrap_or(CAPACITY) * drives;
        let half_turn = 30.0 / self.figure(drive, "rpm").unwrap_or(RPM);
        let track = self.figure(drive, "track_seek").unwrap_or(TRACK_S);
        let seek = (1.0 / rate - half_turn).max(track);
        let near = track + (seek - track) * (span / bytes).min(1.0).sqrt();
        1.0 / (half_turn + near)
    }

    /// Returns the speed-up of an HDD by reordering its command queue.
    fn chosen(&mut self, group: &Group, drive: &Part) -> f64 {
        let depth = self.figure(drive, "queue_depth").unwrap_or(CHOICE_MAX).min(CHOICE_MAX);
        let taken = self.bill.work.outstanding.min(self.commands_each(group));
        let depth = f64::from(taken).min(depth);
        self.figure(drive, "reorder").map_or(1.0, |power| depth.powf(power))
    }

    /// Returns whether an HDD stores writes in its own cache and sorts them. That of a SATA disk is
    /// on by default; behind an adapter that of a SAS disk is assumed to be off.
    fn sorts(&self, group: &Group, drive: &Part) -> bool {
        let kept = group.adapter.is_none() || drive.interface == "sata";
        let kept = kept && group.raid.parity() == 0;
        is_disk(drive) && kept && self.bill.work.flush.is_none() && !self.has_daemons()
    }

    /// Returns the speed-up of writes, which a write-back cache may sort first.
    fn gathered(&mut self, group: &Group, drive: &Part) -> f64 {
        let sorted = group.write_cache || self.deferred(drive);
        let cached = sorted.then(|| self.figure(drive, "cached_write_gain")).flatten();
        cached.unwrap_or_else(|| {
            let own = self.sorts(group, drive).then(|| self.figure(drive, "reorder")).flatten();
            let large = drive.value("capacity").is_some_and(|bytes| bytes >= LARGE);
            let held = if large { LARGE_OWN_CACHE } else { OWN_CACHE };
            self.chosen(group, drive).max(own.map_or(1.0, |power| held.powf(power)))
        })
    }

    /// Returns the writes of a drive for each copy that the software of a cluster writes.
    fn journalled(&mut self) -> f64 {
        let software = self.bill.software.as_deref().map(|id| self.part(id));
        software.and_then(|software| self.figure(software, "drive_writes")).unwrap_or(1.0)
    }

    /// Returns whether small writes to an HDD go to a log first, sequentially, and to their final
    /// offsets later, sorted: daemons that store copies do so (BlueStore up to 64 KiB).
    fn deferred(&self, drive: &Part) -> bool {
        is_disk(drive) && self.bill.work.size_bytes < LONG && self.has_daemons()
    }

    /// Returns the drive reads for each read while drives have failed: their data are reconstructed
    /// from the others of their set.
    fn degraded(&self, group: &Group) -> f64 {
        let setup = &self.bill.setup;
        let drives = self.bill.drives();
        let holding = drives.saturating_sub(setup.spares).max(1);
        let lost = f64::from(setup.down.drives) / f64::from(holding);
        let width = setup.width.unwrap_or(holding);
        1.0 - lost + lost * group.raid.degraded_reads(width)
    }

    /// Returns the IOPS at queue depth 1 from the latency, if no rating is known.
    fn alone(&mut self, drive: &Part, rating: &str, latency: &'static str) -> Option<f64> {
        if drive.value(rating).is_some() || self.bill.work.outstanding > 1 {
            return None;
        }
        self.figure(drive, latency).map(|seconds| 1.0 / seconds)
    }

    /// Returns the rated reads per second at the I/O size: between the ratings at 512 B and 4 KiB,
    /// linear in the logarithm of the size.
    fn read_rate(&mut self, drive: &Part) -> Result<f64, PlanError> {
        let size = self.bill.work.size_bytes;
        if let Some(alone) = self.alone(drive, "read_iops", "read_latency") {
            return Ok(alone);
        }
        let rate = self.need(drive, "read_iops")?;
        if size >= 4096.0 {
            return Ok(rate);
        }
        let Some(small) = self.figure(drive, "small_read_iops") else {
            self.remark(&format!(
                "{}: extrapolated: the rating is for 4 KiB, there is none for shorter reads",
                drive.id
            ));
            return Ok(rate);
        };
        let share = (4096.0 / size.max(512.0)).log2() / 3.0;
        Ok(rate * (small / rate).powf(share))
    }

    /// Returns the weight of a write among reads: from the catalogue, or from the rating of a mix.
    fn mix_factor(&mut self, drive: &Part) -> Result<f64, PlanError> {
        if let Some(factor) = self.figure(drive, "mix_factor") {
            return Ok(factor);
        }
        let Some(mixed) = self.figure(drive, "mix_iops") else {
            self.remark(&format!(
                "{}: no rating of a mix: computed as if reads and writes did not interfere; on \
                 flash expect down to half of it",
                drive.id
            ));
            return Ok(1.0);
        };
        let (reads, writes) = (self.need(drive, "read_iops")?, self.need(drive, "write_iops")?);
        Ok(((1.0 / mixed - 0.7 / reads) / (0.3 / writes)).max(0.1))
    }
}

/// Returns the time of an I/O from that of a random one of 4 KiB, zero for sequential ones, and
/// from its bytes. An HDD moves its head first; flash does both at once, on different dies.
fn moved(drive: &Part, command_s: f64, (size_bytes, bandwidth): (f64, f64)) -> f64 {
    let bytes_s = size_bytes / bandwidth;
    match is_disk(drive) && command_s > 0.0 {
        true => command_s + (bytes_s - RATED / bandwidth).max(0.0),
        false => command_s.max(bytes_s),
    }
}

/// Returns the time of a write between the sizes of rating and bandwidth: bytes per second grow
/// from one to the other with the logarithm of the size. Worn flash rewrites bytes repeatedly, so
/// it does little more than half as many writes of 8 KiB as of 4 KiB.
fn between(size_bytes: f64, rate: f64, bandwidth: f64) -> f64 {
    let short = RATED * rate;
    let share = ((size_bytes / RATED).ln() / (FULL_WRITE / RATED).ln()).clamp(0.0, 1.0);
    let bytes_per_s = short * (bandwidth / short).max(1.0).powf(share);
    (1.0 / rate).max(size_bytes / bytes_per_s.min(bandwidth))
}
