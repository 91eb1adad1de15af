//! Cost of drive sets for drives, cards and software: parity, mirrors, bitmaps, expanders.

use model::Station;

use super::rated::LONG;
use super::{Builder, Level, Load, PlanError, Stop};
use crate::bill::{Group, Raid};
use catalogue::{Part, is_disk};

/// Pieces of an I/O, and the pieces of drives that are read before a write and written.
struct Stripe {
    pieces: f64,
    before: f64,
    after: f64,
}

/// Bytes of data on one drive that md handles at once: a stripe of its cache is a page wide.
const PAGE_BYTES: f64 = 4096.0;
/// Catalogue ID prefix of md software.
const MD: &str = "linux-md";
/// Ratio of md's sequential writes to HDDs with parity to the possible rate: some stripes of its
/// cache are incomplete when they are written, and the missing parts are read. Three published
/// runs: 0.27, 0.47 and 0.65; with a stripe cache that is 8 times as large 0.9.
const INCOMPLETE: f64 = 0.6;
/// Number of writes in flight from which on flash is written so often that the bits of md's bitmap
/// stay set.
const BITS_SET: u32 = 32;

impl Builder<'_> {
    /// Returns the reads and writes of drives for a random write: as multiples of its bytes on
    /// flash, and of its pieces on HDDs, which move a head for each.
    pub(super) fn at_random(&self, group: &Group) -> (f64, f64) {
        let Stripe { pieces, before, after } = self.stripe(group);
        match group.drive.as_deref().is_some_and(|id| is_disk(self.part(id))) {
            false => (before / pieces, after / pieces),
            // The head of each HDD moves to the bitmap before it moves to the data.
            true if self.has_bitmap(group) => (before, after + f64::from(self.set(group))),
            true => (before, after),
        }
    }

    /// Returns the pieces that a random I/O is split into, and the size of one in bytes, if that
    /// matters: on flash the time depends on the bytes.
    pub(super) fn pieces(&self, group: &Group, drive: &Part) -> (f64, f64) {
        let size = self.bill.work.size_bytes;
        if let Some(records) = self.records(group) {
            return (records.commands, records.bytes);
        }
        match is_disk(drive) && !self.bill.setup.sequential {
            true => (self.stripe(group).pieces, size / self.stripe(group).pieces),
            false => (1.0, size),
        }
    }

    /// Returns the effect of a random write on a stripe. If it is larger than a chunk, it covers a
    /// part of the stripe or all; either the rest is read, or the old data, whichever is less.
    fn stripe(&self, group: &Group) -> Stripe {
        let (first, copies) = group.raid.small_write();
        let parity = f64::from(group.raid.parity());
        let drives = f64::from(self.set(group));
        let chunks = (self.bill.work.size_bytes / group.chunk).max(1.0);
        match group.raid {
            // A bill does not say whether they are striped.
            Raid::None => Stripe { pieces: 1.0, before: first, after: copies },
            Raid::Mirror => {
                let pieces = chunks.min((drives / copies).max(1.0));
                Stripe { pieces, before: first, after: copies * pieces }
            }
            Raid::Single | Raid::Double => {
                let data = (drives - parity).max(1.0);
                let pieces = chunks.min(data);
                let before = (pieces + parity).min(data - pieces);
                Stripe { pieces, before, after: pieces + parity }
            }
        }
    }

    /// Returns the number of sequential accesses of drives that a write waits for.
    pub(super) fn phases(&self, group: &Group) -> f64 {
        let first = f64::from(u8::from(self.written(group).0 > 0.0));
        1.0 + first + f64::from(u8::from(self.has_bitmap(group)))
    }

    /// Returns whether md marks the regions to be written in a write-intent bitmap on each drive.
    /// With sequential I/O, and with many writes in flight on flash, the bits are already set.
    fn has_bitmap(&self, group: &Group) -> bool {
        let redundant = group.raid.tolerates() > 0;
        let md = || self.bill.software.as_deref().is_some_and(|id| id.starts_with(MD));
        let kept = group.bitmap.unwrap_or_else(md);
        redundant && kept && !self.bill.setup.sequential
    }

    /// Returns the ratio of sequential writes of HDDs under md's parity to the possible ones.
    pub(super) fn complete(&self, group: &Group, drive: &Part) -> f64 {
        let md = self.bill.software.as_deref().is_some_and(|id| id.starts_with(MD));
        let parity = group.raid.parity() > 0 && self.bill.setup.sequential;
        if md && parity && is_disk(drive) { INCOMPLETE } else { 1.0 }
    }

    /// Returns the time that a lone write to flash waits for the bitmap, in seconds: a write that
    /// is flushed. If the bill does not specify a bitmap, the flush is left out: a file of some
    /// gigabytes has few bits, which are set after the first second.
    pub(super) fn bitmap_seconds(
        &mut self,
        group: &Group,
        drive: &Part,
        write_s: f64,
    ) -> Result<f64, PlanError> {
        let all = f64::from(self.bill.work.outstanding) * f64::from(group.devices());
        let all = self.bill.setup.in_flight.map_or(all, f64::from);
        if !self.has_bitmap(group) || is_disk(drive) || all >= f64::from(BITS_SET) {
            return Ok(0.0);
        }
        self.remark(
            "md keeps a bitmap of what is written, which each write waits for: bitmap = false \
             leaves it out, bitmap = true flushes it, as where all of a set is written at random",
        );
        let flushes = group.bitmap == Some(true) && drive.value("plp").is_some();
        let flushed = match flushes {
            true => self.one_flush(drive)?.0.max(0.0),
            false => 0.0,
        };
        Ok(write_s + flushed)
    }

    /// Returns the software that computes parity itself, if the bill names it.
    fn parity_software(&self) -> Option<&'_ str> {
        let software = self.bill.software.as_deref()?;
        self.part(software).known("parity_iops").map(|_| software)
    }

    /// Returns whether the adapter implements the RAID set, not software of the host.
    fn is_card(&self, group: &Group) -> bool {
        let Some(adapter) = group.adapter.as_deref().map(|id| self.part(id)) else { return false };
        let makes = adapter.known("parity_iops").is_some() || group.write_cache;
        makes && self.parity_software().is_none()
    }

    /// Returns the thread that computes parity, one for all stripes of a host; `None` if its speed
    /// is unknown.
    pub(super) fn parity(&mut self) -> Option<Stop> {
        let id = self.parity_software()?.to_owned();
        let group = self.bill.groups.iter().find(|group| group.raid.parity() > 0)?;
        let writes = self.shares().1;
        if writes == 0.0 || !self.wanted(Level::Processor) {
            return None;
        }
        let rate = self.figure(self.part(&id), "parity_iops")?;
        let data = f64::from(self.set(group).saturating_sub(group.raid.parity()).max(1));
        let size = self.bill.work.size_bytes;
        let wide = match self.bill.setup.sequential {
            true => data,
            false => (size / group.chunk).clamp(1.0, data),
        };
        let stripes = match self.bill.setup.sequential {
            true => size / PAGE_BYTES / wide,
            false => (size / PAGE_BYTES / wide).max(1.0),
        };
        let name = format!("parity of {id}");
        let at = self.network.add_station(Station::servers(name.clone(), 1));
        let from: &[(&str, &[&str])] = &[(&id, &["parity_iops"])];
        self.resource(name, Level::Processor, from, Load::Stations(vec![at]));
        Some(Stop { at, seconds: self.at(Level::Processor, writes * stripes / rate) })
    }

    /// Returns how often the bytes of an I/O pass the adapter and its slot: once if the card makes
    /// the copies, as often as drives are read or written if software does.
    pub(super) fn passes(&self, group: &Group) -> f64 {
        if group.adapter.is_none() || self.is_card(group) {
            return 1.0;
        }
        let (reads, writes) = self.shares();
        let Stripe { pieces, before, after } = self.stripe(group);
        let written = match self.bill.setup.sequential {
            true => self.written(group).1,
            false => before.max(after) / pieces,
        };
        reads + writes * written
    }

    /// Returns the number of commands in flight on each drive, of the adapter's maximum.
    pub(super) fn commands_each(&mut self, group: &Group) -> u32 {
        let Some(adapter) = group.adapter.as_deref().map(|id| self.part(id)) else {
            return u32::MAX;
        };
        let taken = self.figure(adapter, "queue_depth");
        taken.map_or(u32::MAX, |taken| (taken as u32).div_ceil(group.drives.max(1)).max(1))
    }

    /// Returns the time of an adapter for an I/O; `None` if no figure is known.
    pub(super) fn adapter(
        &mut self,
        group: &Group,
        adapter: &Part,
        [index, card]: [u32; 2],
    ) -> Result<Option<Stop>, PlanError> {
        if !self.wanted(Level::Adapter) {
            return Ok(None);
        }
        let (by_rate, by_bytes) = self.adapter_times(group, adapter);
        let size = self.bill.work.size_bytes;
        let by_bytes = match by_bytes {
            None if size >= LONG && adapter.value("lanes").is_none() => {
                let bandwidth = self.adapter_like(adapter, "bandwidth");
                bandwidth.map(|bandwidth| size * self.passes(group) / bandwidth)
            }
            known => known,
        };
        let by_rate = match (by_rate, by_bytes) {
            (None, None) => {
                let iops = self.adapter_like(adapter, "iops");
                iops.map(|iops| self.commands(group) / iops)
            }
            (known, _) => known,
        };
        let seconds = [by_rate, by_bytes].into_iter().flatten().reduce(f64::max);
        let name = format!("adapter {index}.{card}");
        Ok(seconds.map(|seconds| self.server(name, Level::Adapter, seconds)))
    }

    /// Returns the figures that determine the time of an adapter.
    pub(super) fn adapter_decides(
        &mut self,
        group: &Group,
        adapter: &Part,
    ) -> &'static [&'static str] {
        match self.adapter_times(group, adapter) {
            (Some(by_rate), Some(by_bytes)) if by_bytes > by_rate => {
                &["bandwidth", "parity_bandwidth"]
            }
            (None, _) => &["bandwidth", "parity_bandwidth"],
            _ => &["iops", "parity_iops"],
        }
    }

    /// Returns the number of commands to drives for each I/O.
    fn commands(&self, group: &Group) -> f64 {
        let (reads, writes) = self.shares();
        let (before, after) = self.written(group);
        reads + writes * (before + after)
    }

    /// Returns the service times of an adapter by commands and by bytes. A card that computes
    /// parity has separate rates for that.
    fn adapter_times(&mut self, group: &Group, adapter: &Part) -> (Option<f64>, Option<f64>) {
        let size = self.bill.work.size_bytes;
        let (reads, writes) = self.shares();
        let parity = group.raid.parity() > 0 && writes > 0.0 && self.is_card(group);
        let command = self.figure(adapter, "iops").map(|iops| 1.0 / iops);
        let each = match (parity, self.bill.setup.sequential) {
            (false, _) => command.map(|command| self.commands(group) * command),
            // With sequential I/O the cache gathers whole stripes.
            (true, true) => command,
            (true, false) => {
                let made = self.figure(adapter, "parity_iops").map(|rate| 1.0 / rate);
                let least = command.map(|command| self.commands(group) * command);
                let made = made.map(|made| reads * command.unwrap_or(0.0) + writes * made);
                made.or(least)
            }
        };
        let byte =
            self.figure(adapter, "bandwidth").map(|bandwidth| self.passes(group) / bandwidth);
        let byte = match parity.then(|| self.figure(adapter, "parity_bandwidth")).flatten() {
            Some(made) => Some(reads * byte.unwrap_or(0.0) + writes / made),
            None => byte,
        };
        let wide = group.expander.then(|| self.bus(group)).flatten();
        let lanes = self.figure(adapter, "ports").filter(|_| wide.is_some());
        let wide = wide.zip(lanes).map(|(bus, lanes)| self.passes(group) / bus.bytes_per_s / lanes);
        let byte = [byte, wide].into_iter().flatten().reduce(f64::max);
        (each, byte.map(|byte| byte * size))
    }
}

#[cfg(test)]
mod test {
    use crate::bill::Bill;
    use crate::predict::{Prediction, predict};
    use crate::system::{Level, Tweak};
    use catalogue::Catalogue;

    /// Drives with round figures, a card and a host adapter, and md with its own thread.
    const PARTS: &str = "[source.s]\ntitle = 'made'\n\
        [[part]]\nid = 'ssd'\nname = 'SSD'\nclass = 'drive'\ninterface = 'sas'\nfigures = [\n\
        { is = 'read_iops', value = 200e3, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'write_iops', value = 100e3, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'read_latency', value = 100, unit = 'us', kind = 'spec', source = 's' },\n\
        { is = 'write_latency', value = 20, unit = 'us', kind = 'spec', source = 's' },\n\
        { is = 'read_bandwidth', value = 1e9, unit = 'B/s', kind = 'spec', source = 's' },\n\
        { is = 'write_bandwidth', value = 1e9, unit = 'B/s', kind = 'spec', source = 's' }]\n\
        [[part]]\nid = 'disk'\nname = 'Disk'\nclass = 'drive'\ninterface = 'sas'\nfigures = [\n\
        { is = 'read_iops', value = 100, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'write_iops', value = 100, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'read_latency', value = 10, unit = 'ms', kind = 'spec', source = 's' },\n\
        { is = 'write_latency', value = 10, unit = 'ms', kind = 'spec', source = 's' },\n\
        { is = 'read_bandwidth', value = 1e9, unit = 'B/s', kind = 'spec', source = 's' },\n\
        { is = 'write_bandwidth', value = 1e9, unit = 'B/s', kind = 'spec', source = 's' },\n\
        { is = 'rpm', value = 7200, kind = 'spec', source = 's' }]\n\
        [[part]]\nid = 'card'\nname = 'Card'\nclass = 'adapter'\nfigures = [\n\
        { is = 'iops', value = 400e3, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'parity_iops', value = 30e3, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'bandwidth', value = 4e9, unit = 'B/s', kind = 'spec', source = 's' },\n\
        { is = 'parity_bandwidth', value = 2e9, unit = 'B/s', kind = 'spec', source = 's' },\n\
        { is = 'ports', value = 8, kind = 'spec', source = 's' }]\n\
        [[part]]\nid = 'hba'\nname = 'HBA'\nclass = 'adapter'\nfigures = [\n\
        { is = 'iops', value = 400e3, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'bandwidth', value = 4e9, unit = 'B/s', kind = 'spec', source = 's' },\n\
        { is = 'ports', value = 8, kind = 'spec', source = 's' }]\n\
        [[part]]\nid = 'few'\nname = 'Few'\nclass = 'adapter'\nfigures = [\n\
        { is = 'iops', value = 10e6, unit = 'IOPS', kind = 'spec', source = 's' },\n\
        { is = 'queue_depth', value = 8, kind = 'spec', source = 's' }]\n\
        [[part]]\nid = 'linux-md-made'\nname = 'md'\nclass = 'software'\nfigures = [\n\
        { is = 'core_time', value = 0.1, unit = 'us', kind = 'spec', source = 's' },\n\
        { is = 'parity_iops', value = 50e3, unit = 'IOPS', kind = 'spec', source = 's' }]\n";

    fn found(head: &str, group: &str) -> Prediction {
        let text = format!("name = 'x'\n{head}\n[[group]]\n{group}\n{PARTS}");
        let bill = Bill::read("b.toml", &text, &Catalogue::shipped());
        predict(&bill.unwrap_or_else(|e| panic!("{e}")), &Tweak::default()).unwrap()
    }

    fn near(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 0.02, "{a} for {b}");
    }

    const WRITES: &str = "size = '4k'\nread = 0\noutstanding = 256";

    #[test]
    fn a_write_reads_what_it_replaces_or_what_it_leaves_whichever_is_less() {
        let iops = |drives: u32, raid: &str| {
            found(WRITES, &format!("drive = 'ssd'\ndrives = {drives}\nraid = '{raid}'")).iops
        };
        // Reads of 5 us, writes of 10 us.
        near(iops(3, "5"), 3.0 / 25e-6);
        near(iops(8, "5"), 8.0 / 30e-6);
        near(iops(4, "6"), 4.0 / 35e-6);
        near(iops(8, "6"), 8.0 / 45e-6);
        near(iops(4, "10"), 4.0 / 20e-6);
    }

    #[test]
    fn long_writes_at_random_cover_stripes() {
        let iops = |size: &str, chunk: &str| {
            let head = format!("size = '{size}'\nread = 0\noutstanding = 256");
            let group = format!("drive = 'ssd'\ndrives = 5\nraid = '5'\nchunk = '{chunk}'");
            found(&head, &group).iops
        };
        let bytes = |size: f64| size / 1e9;
        // All four chunks and the parity: five for four, and nothing is read.
        near(iops("1m", "256k"), 5.0 / (1.25 * bytes(1048576.0)));
        // Two of four chunks: two others are read, and three written for two.
        near(iops("512k", "256k"), 5.0 / (2.5 * bytes(524288.0)));
        let refused = Bill::read(
            "b.toml",
            "name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'x25-m'\nchunk = '1'\n",
            &Catalogue::shipped(),
        );
        assert!(refused.unwrap_err().reason.contains("chunk"));
    }

    #[test]
    fn disks_move_a_head_for_each_piece() {
        let head = "size = '1m'\nread = 0\noutstanding = 64";
        let group = "drive = 'disk'\ndrives = 5\nraid = '5'\nchunk = '256k'";
        // Five pieces, each with a seek; of 4 KiB two are read and two written.
        let piece = 10e-3 + (262144.0 - 4096.0) / 1e9;
        near(found(head, group).iops, 1.0 / piece);
        near(found("size = '4k'\nread = 0\noutstanding = 64", group).iops, 5.0 / 40e-3);
    }

    #[test]
    fn a_card_has_a_rate_of_its_own_for_parity() {
        let card =
            |raid: &str| format!("adapter = 'card'\ndrive = 'ssd'\ndrives = 8\nraid = '{raid}'");
        near(found(WRITES, &card("5")).iops, 30e3);
        near(found(WRITES, &card("6")).iops, 30e3);
        // Two commands for each write of a mirror, one for a read.
        near(found(WRITES, &card("10")).iops, 200e3);
        near(found("size = '4k'\noutstanding = 256", &card("5")).iops, 400e3);
        let stream = "size = '1m'\nread = 0\noutstanding = 256\nsequential = true";
        near(found(stream, &card("5")).bytes_per_s, 2e9);
        near(found(stream, &card("10")).bytes_per_s, 4e9);
        // Software makes the copies, and sends them all through a host adapter.
        let hba = "adapter = 'hba'\ndrive = 'ssd'\ndrives = 8\nraid = '10'";
        near(found(stream, hba).bytes_per_s, 2e9);
        let group = "adapter = 'hba'\ndrive = 'ssd'\ndrives = 8\nraid = '5'";
        near(found(WRITES, group).iops, 100e3);
    }

    #[test]
    fn software_makes_parity_with_one_thread() {
        let head =
            "size = '4k'\nread = 0\noutstanding = 256\nsoftware = 'linux-md-made'\njobs = 32";
        let limited = found(head, "drive = 'ssd'\ndrives = 8\nraid = '5'");
        near(limited.iops, 50e3);
        assert_eq!(limited.bottleneck().unwrap().level, Level::Processor);
        // For software RAID a card is only a host adapter.
        near(found(head, "adapter = 'card'\ndrive = 'ssd'\ndrives = 8\nraid = '5'").iops, 50e3);
        let mirror = found(head, "drive = 'ssd'\ndrives = 8\nraid = '10'\nbitmap = false");
        near(mirror.iops, 400e3);
        // A stripe of pages has a page of each data drive.
        let stream = head.replace("4k", "64k") + "\nsequential = true";
        near(found(&stream, "drive = 'ssd'\ndrives = 5\nraid = '5'").bytes_per_s, 50e3 * 16384.0);
    }

    #[test]
    fn md_marks_what_it_writes() {
        let alone = "size = '4k'\nread = 0\nin_flight = 1\nsoftware = 'linux-md-made'\njobs = 1";
        let mirror = "drive = 'ssd'\ndrives = 4\nraid = '10'";
        let with = found(alone, mirror).iops;
        let without = found(alone, &format!("{mirror}\nbitmap = false")).iops;
        // Setting the bit takes as long as the write.
        assert!((1.8..2.2).contains(&(without / with)), "{without} and {with}");
        // A bitmap named in the bill is flushed, too, if the drive has no protection.
        let plp = |plp: u8| {
            format!(
                "{mirror}\nbitmap = true\n[[figure]]\npart = 'ssd'\nis = 'plp'\nvalue = {plp}\n\
                 kind = 'spec'\nsource = 's'\n[[figure]]\npart = 'ssd'\n\
                 is = 'sync_write_latency'\nvalue = {}\nunit = 'us'\nkind = 'spec'\n\
                 source = 's'",
                if plp == 1 { 20 } else { 1000 }
            )
        };
        near(found(alone, &plp(1)).iops, with);
        assert!((900.0..1000.0).contains(&found(alone, &plp(0)).iops));
        // Regions that are written repeatedly are already marked.
        let many = alone.replace("in_flight = 1", "in_flight = 512");
        let marked = found(&many, mirror).iops;
        near(marked, found(&many, &format!("{mirror}\nbitmap = false")).iops);
        // HDDs seek to the bitmap: a write on each of them, in addition to the two of the data.
        let disks = "drive = 'disk'\ndrives = 4\nraid = '10'";
        let deep = "size = '4k'\nread = 0\noutstanding = 64\nsoftware = 'linux-md-made'\njobs = 1";
        near(found(deep, disks).iops, 4.0 / 60e-3);
        near(found(deep, &format!("{disks}\nbitmap = false")).iops, 4.0 / 20e-3);
    }

    #[test]
    fn a_write_cache_keeps_all_disks_busy_with_one_in_flight() {
        let alone = "size = '4k'\nread = 0\nin_flight = 1";
        let group = "adapter = 'card'\ndrive = 'disk'\ndrives = 8\nraid = '10'";
        let cached = found(alone, &format!("{group}\nwrite_cache = true")).iops;
        // Eight HDDs of 100 writes, two for each, less the time of the cache itself.
        near(cached, 400.0);
        let through = found(alone, group).iops;
        near(through, 100.0);
        // Reads wait for their HDD.
        let reads = found("size = '4k'\nin_flight = 1", &format!("{group}\nwrite_cache = true"));
        near(reads.iops, 100.0);
    }

    #[test]
    fn an_expander_shares_the_lanes_and_a_card_takes_so_many_commands() {
        let group = "adapter = 'hba'\ndrive = 'ssd'\ndrives = 24\nlink = 'sas-1'\n";
        let text = format!("name = 'x'\n{WRITES}\n[[group]]\n{group}{PARTS}");
        let refused = Bill::read("b.toml", &text, &Catalogue::shipped()).unwrap_err();
        assert!(refused.reason.contains("expander = true"), "{refused}");
        let stream = "size = '1m'\noutstanding = 8";
        let behind = found(stream, &format!("{group}expander = true"));
        // Eight lanes of 300 MB/s, less their frames.
        assert!((2.2e9..2.4e9).contains(&behind.bytes_per_s), "{}", behind.bytes_per_s);
        // One lane of generation 3 carries 985 MB/s with its headers, and a drive here 1 GB/s.
        let lanes = |more: &str| {
            let nvme = format!(
                "adapter = 'hba'\ndrive = 'nvme'\n[[part]]\nid = 'nvme'\nname = 'NVMe'\n\
                 class = 'drive'\ninterface = 'nvme'\nfigures = [\n\
                 {{ is = 'read_iops', value = 1e6, unit = 'IOPS', kind = 'spec', source = 's' }},\n\
                 {{ is = 'read_latency', value = 50, unit = 'us', kind = 'spec', source = 's' }},\n\
                 {{ is = 'read_bandwidth', value = 3, unit = 'GB/s', kind = 'spec', \
                 source = 's' }},\n\
                 {{ is = 'generation', value = 3, kind = 'spec', source = 's' }}]\n{more}"
            );
            found("size = '128k'\noutstanding = 64", &nvme).bytes_per_s
        };
        let one = "[[figure]]\npart = 'hba'\nis = 'drive_lanes'\nvalue = 1\nkind = 'spec'\n\
                   source = 's'\n";
        near(lanes(""), 3e9);
        assert!((0.85e9..0.95e9).contains(&lanes(one)), "{}", lanes(one));
        // Each of four drives has two of the eight commands.
        let few = "adapter = 'few'\ndrive = 'ssd'\ndrives = 4";
        let deep = found("size = '4k'\noutstanding = 32", few).iops;
        near(deep, found("size = '4k'\noutstanding = 2", few).iops);
    }
}
