//! One command on many hosts. A launcher of MPI starts this program on all of them: rank 0 is the
//! program as always, the others do what it hands out, and their parts are merged into its result.

mod follow;
mod lead;
mod merged;
mod onlooker;
mod order;
mod probe;
mod read_back;
mod roles;
mod second;
mod served;
mod serving;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use fleet::{Event, Launched, Lead, Now};
use job::spec::{Group, JobSpec, SERVED, Serving};
use serde::{Deserialize, Serialize};

pub use self::lead::Together;
pub use self::onlooker::Onlooker;
pub use self::order::Order;
use self::roles::Roles;
pub use self::roles::{lines, serve};
use crate::args::Command;
use crate::bench::Allowed;
use crate::exit::{Exit, UsageError};
use crate::output;

/// The role of this process among those that a launcher started.
pub enum Role {
    /// The only one, or the one that leads: the program as always.
    Program,
    /// A follower that has finished, and ends.
    Followed(Exit),
}

/// A host with a rank on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Facts {
    host: String,
    machine: String,
    build: String,
}

/// The way to all other ranks.
#[derive(Debug)]
pub struct Ranks {
    lead: Mutex<Lead>,
    /// Name of each rank, once all are there.
    names: OnceLock<Vec<String>>,
    /// Servers of the ranks.
    roles: Mutex<Roles>,
}

static RANKS: OnceLock<Arc<Ranks>> = OnceLock::new();

impl Facts {
    fn of_this() -> Facts {
        Facts {
            host: crate::part::host_name(),
            machine: os::wall::machine().unwrap_or_default(),
            build: env!("DRUMFIRE_VERSION").to_owned(),
        }
    }
}

/// Takes this process's part among those that a launcher started.
pub fn take_part() -> Result<Role> {
    let Some(launched) = fleet::launched().filter(|of| of.size > 1 && fleet::HAS_MPI) else {
        return Ok(Role::Program);
    };
    join(launched)
}

fn join(launched: Launched) -> Result<Role> {
    let clock = os::Clock::get();
    let now: Now = Arc::new(move || clock.now());
    let join = move || fleet::join(launched);
    match launched.rank {
        0 => {
            let lead = fleet::lead(join, now)?;
            let ranks =
                Ranks { lead: Mutex::new(lead), names: OnceLock::new(), roles: Mutex::default() };
            let _ = RANKS.set(Arc::new(ranks));
            Ok(Role::Program)
        }
        _ => {
            let facts = serde_json::to_vec(&Facts::of_this())?;
            Ok(Role::Followed(follow::main(fleet::follow(join, now, facts)?)))
        }
    }
}

/// Refuses a command that each process of a launcher would do for itself: N results of one host.
pub fn refuse_alone(command: &Command) -> Result<(), UsageError> {
    let drives = match command {
        Command::Run(run) => !run.part.is_asked(),
        Command::Race(_) | Command::Sweep(_) | Command::Fio(_) | Command::Scenario(_) => true,
        _ => false,
    };
    match fleet::launched().filter(|launched| launched.size > 1 && drives) {
        Some(launched) if !fleet::HAS_MPI => Err(UsageError(format!(
            "{} started {} processes, and this build has no MPI, so each would measure on its own: \
             cargo build --release --features mpi, or run … --start-at TIME --part FILE",
            launched.by, launched.size
        ))),
        _ => Ok(()),
    }
}

/// Refuses a job that names hosts where there are no others.
pub fn refuse_hosts(job: &JobSpec) -> Result<(), UsageError> {
    let mut groups = job.steps.iter().flat_map(|step| &step.groups);
    let served = |group: &Group| group.volumes.iter().any(|volume| Serving::is_served(volume));
    let what = match () {
        () if is_following() => return Ok(()),
        () if !job.serve.is_empty() => "serve",
        () if groups.clone().any(|group| !group.hosts.is_empty()) => "hosts",
        () if groups.any(served) => SERVED,
        () => return Ok(()),
    };
    Err(UsageError(format!(
        "{what}: this is one host: start all with mpirun drumfire run …, or leave {what} out"
    )))
}

/// Whether this process is a rank that follows.
fn is_following() -> bool {
    fleet::launched().is_some_and(|launched| launched.rank > 0 && launched.size > 1)
}

/// A volume as rank 0 names it: with its own number and host in place of the words for them, and
/// what others serve in place of the words for that. Empty until others serve.
pub fn here(volume: &str) -> Result<Vec<String>> {
    match ranks() {
        Some(ranks) => ranks.here(volume),
        None => Ok(vec![volume.to_owned()]),
    }
}

/// A job with the files of this rank, as far as others have their own.
pub fn files_here(job: &JobSpec) -> Result<JobSpec> {
    match ranks() {
        Some(ranks) => {
            let names = ranks.names()?;
            Ok(Order::new(job, &Allowed::default(), names).files_of(0))
        }
        None => Ok(job.clone()),
    }
}

/// The other ranks, if there are any.
pub fn ranks() -> Option<Arc<Ranks>> {
    RANKS.get().cloned()
}

/// Sends all other ranks home.
pub fn leave() {
    if let Some(ranks) = RANKS.get() {
        ranks.lead().leave();
    }
}

impl Ranks {
    fn lead(&self) -> MutexGuard<'_, Lead> {
        self.lead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names of all ranks by number, of which the first is this one. Waits until all are there.
    pub fn names(&self) -> Result<&[String]> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let waits = output::Wait::says("waiting for all ranks");
        let lead = self.lead();
        let mut lost = None;
        let facts = loop {
            match lead.next(Duration::from_millis(100)) {
                Some(Event::Gathered { facts }) => break facts,
                Some(Event::Lost { rank, why }) => drop(lost.get_or_insert((rank, why))),
                Some(Event::Refused { why, .. }) => bail!("{why}"),
                _ if crate::signal::is_asked() => bail!("interrupted"),
                _ => {}
            }
        };
        drop(waits);
        if let Some((rank, why)) = lost {
            bail!("rank {rank} of {} did not come: {why}", lead.size());
        }
        let names = names_of(&facts)?;
        Ok(self.names.get_or_init(|| names))
    }

    /// A job of one step as an order for all ranks. Waits until all are there.
    pub fn order(&self, job: &JobSpec, allowed: &Allowed, cold_reads: bool) -> Result<Order> {
        let names = self.names()?;
        let served = self.served(&job.serve)?;
        Ok(Order { cold_reads, served, ..Order::new(job, allowed, names) })
    }
}

/// Names of ranks: their hosts', numbered where several are on one host.
fn names_of(others: &[Vec<u8>]) -> Result<Vec<String>> {
    let own = Facts::of_this();
    let mut all = vec![own.clone()];
    for (at, bytes) in others.iter().enumerate() {
        let rank = at + 1;
        let facts = serde_json::from_slice::<Facts>(bytes);
        let facts = facts.map_err(|_| UsageError(format!("rank {rank} is no rank of drumfire")))?;
        if facts.build != own.build {
            let (host, one, other) = (facts.host, own.build, facts.build);
            let why = format!("builds differ: {one} here, {other} on {host}: install one on all");
            return Err(UsageError(why).into());
        }
        let good = !facts.host.is_empty() && facts.host.len() <= 200;
        if !good || facts.host.chars().any(block::steers) {
            return Err(UsageError(format!("rank {rank} has no name of a host")).into());
        }
        all.push(facts);
    }
    let of_host = |name: &str| all.iter().filter(|facts| facts.host == name).count();
    let mut seen: Vec<&str> = Vec::new();
    let mut names = Vec::with_capacity(all.len());
    for facts in &all {
        seen.push(&facts.host);
        let number = seen.iter().filter(|name| **name == facts.host).count();
        names.push(match of_host(&facts.host) {
            1 => facts.host.clone(),
            _ => format!("{}/{number}", facts.host),
        });
    }
    Ok(names)
}

#[cfg(test)]
mod test {
    use super::*;

    fn facts(host: &str) -> Vec<u8> {
        let facts = Facts { host: host.to_owned(), ..Facts::of_this() };
        serde_json::to_vec(&facts).unwrap()
    }

    #[test]
    fn ranks_of_one_host_are_numbered() {
        let own = Facts::of_this().host;
        let names = names_of(&[facts("other-1"), facts("other-2"), facts("other-1")]).unwrap();
        assert_eq!(names, [&*own, "other-1/1", "other-2", "other-1/2"]);
        assert_eq!(names_of(&[facts(&own)]).unwrap(), [format!("{own}/1"), format!("{own}/2")]);
    }

    #[test]
    fn strangers_are_refused() {
        let refused = |bytes: &[u8]| names_of(&[bytes.to_vec()]).unwrap_err().to_string();
        assert!(refused(b"hello").contains("rank 1 is no rank of drumfire"));
        assert!(refused(&facts("")).contains("no name of a host"));
        assert!(refused(&facts("a\u{1b}[2J")).contains("no name of a host"));
        let other = Facts { build: "0.0.1".to_owned(), ..Facts::of_this() };
        let why = refused(&serde_json::to_vec(&other).unwrap());
        assert!(why.contains("builds differ") && why.contains("0.0.1"), "{why}");
    }
}
