//! Flags for the surroundings of the drives: parity, caches, ports, targets, and arrivals of I/Os.

use ::catalogue::Class;
use clap::Args as Flags;
use plan::bill::{Bill, FlashState, Group, Target};

use super::sized::Wanted;
use crate::exit::UsageError;

/// Surroundings of the drives.
#[derive(Flags, Debug, Default)]
#[command(next_help_heading = "Around the drives, with --drive")]
pub struct Around {
    /// Threads that issue the I/Os; they limit the cores in use.
    #[arg(long, alias = "numjobs", value_name = "N", requires = "drive")]
    pub jobs: Option<u32>,
    /// Sequential I/O: disks do not seek.
    #[arg(long, requires = "drive")]
    pub sequential: bool,
    /// I/Os in flight on all drives together, in place of --outstanding on each.
    #[arg(long, value_name = "N", requires = "drive", conflicts_with = "outstanding")]
    pub in_flight: Option<u32>,
    /// A flush after every N writes, as fio's fsync: 1 flushes after each.
    #[arg(long, alias = "fsync", alias = "fdatasync", value_name = "N", requires = "drive")]
    pub flush: Option<u32>,
    /// State of the flash: worn (sustained, steady), or fresh (burst into an SLC cache).
    #[arg(long, value_name = "STATE", requires = "drive")]
    pub state: Option<String>,
    /// Records that a file system reads and writes whole, such as 16k of a ZFS volume.
    #[arg(long, alias = "recordsize", value_name = "SIZE", requires = "drive")]
    pub record: Option<String>,
    /// Buffered I/O: memory acknowledges writes before they are flushed, and reads ahead.
    #[arg(long, requires = "drive")]
    pub buffered: bool,
    /// The adapter has a non-volatile write cache.
    #[arg(long, requires_all = ["adapter", "drive"])]
    pub write_cache: bool,
    /// Target software at the far end of --link, such as nvmet, lio or spdk-iscsi.
    #[arg(long, value_name = "PART", requires_all = ["drive", "link", "target_cores"])]
    pub target: Option<String>,
    /// Cores of the target.
    #[arg(long, value_name = "N", requires = "target")]
    pub target_cores: Option<u32>,
    /// Open loop: I/Os that arrive per second (Poisson); predicts the response time.
    #[arg(long, value_name = "RATE", conflicts_with_all = ["goal", "compare", "outstanding"])]
    pub rate: Option<String>,
}

impl Around {
    /// First flag given for a property that a bill defines itself.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--jobs", self.jobs.is_some()),
            ("--sequential", self.sequential),
            ("--in-flight", self.in_flight.is_some()),
            ("--flush", self.flush.is_some()),
            ("--state", self.state.is_some()),
            ("--record", self.record.is_some()),
            ("--buffered", self.buffered),
            ("--write-cache", self.write_cache),
            ("--target", self.target.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    }

    /// Applies the flags to a bill.
    pub fn put(&self, bill: &mut Bill, wanted: &Wanted) -> Result<(), UsageError> {
        let usage = |flag: &str, why: String| UsageError(format!("{flag}: {why}"));
        let of = |flag: &str, name: &str, class: Class, bill: &Bill| {
            let part = bill.catalogue.part(name).map_err(|error| usage(flag, error.to_string()))?;
            match part.class == class {
                true => Ok(part.id.clone()),
                false => Err(usage(flag, format!("{} is a {}", part.id, part.class.word()))),
            }
        };
        if self.jobs.is_some_and(|jobs| !(1..=65_536).contains(&jobs)) {
            return Err(usage("--jobs", "1 to 65536".to_owned()));
        }
        if self.target_cores.is_some_and(|cores| !(1..=4096).contains(&cores)) {
            return Err(usage("--target-cores", "1 to 4096".to_owned()));
        }
        (bill.setup.jobs, bill.setup.sequential) = (self.jobs, self.sequential);
        bill.work.flush = self.flush;
        if let Some(all) = self.in_flight {
            bill.set_in_flight(None, Some(all)).map_err(|why| usage("--in-flight", why))?;
        }
        self.remember(bill)?;
        let drives: u32 = bill.groups.iter().map(Group::devices).sum();
        for group in &mut bill.groups {
            group.write_cache = self.write_cache;
            group.raid = wanted.raid.map_or(group.raid, super::sized::Level::raid);
            if let Some(least) = group.raid.least().filter(|least| *least > drives) {
                let level = group.raid.word();
                return Err(usage("--raid", format!("{level}: {least} drives at least")));
            }
        }
        let software = self.target.as_ref().map(|name| of("--target", name, Class::Software, bill));
        let software = software.transpose()?;
        if let Some(link) = &wanted.link {
            let link = of("--link", link, Class::Link, bill)?;
            let bus = bill.hang_on(&link).map_err(|reason| usage("--link", reason))?;
            if bus {
                return match (wanted.ports, &self.target) {
                    (None, None) => Ok(()),
                    _ => Err(usage("--link", format!("{link} is no network: no ports, no target"))),
                };
            }
            let protocol = match software.as_deref().unwrap_or_default() {
                id if id.contains("iscsi") => "iscsi",
                id if id.contains("rdma") => "nvme-rdma",
                _ => "nvme-tcp",
            };
            bill.groups.push(Group {
                adapter: None,
                drive: None,
                drives: 0,
                count: 1,
                ports: wanted.ports.unwrap_or(1),
                link: Some(link),
                protocol: Some(protocol.to_owned()),
                ..Group::of_drives(None, 1, "", 0)
            });
        }
        if let Some(software) = software {
            let target = Target { software, server: None, cores: self.target_cores, volume: None };
            bill.setup.target = Some(target);
        }
        Ok(())
    }

    /// Applies the flags for flash state, record size and write-back memory.
    fn remember(&self, bill: &mut Bill) -> Result<(), UsageError> {
        let usage = |flag: &str, why: String| UsageError(format!("{flag}: {why}"));
        if let Some(state) = &self.state {
            bill.setup.state = FlashState::named(state).map_err(|why| usage("--state", why))?;
        }
        if let Some(record) = &self.record {
            bill.setup.record =
                Some(plan::bill::record(record).map_err(|why| usage("--record", why))?);
        }
        bill.setup.buffered = self.buffered.then_some(true);
        bill.wait_for_memory();
        Ok(())
    }
}
