//! Assignment of CPUs to workers and targets.

use std::time::Duration;

use anyhow::Result;
use job::spec::WorkerSpec;
use os::sample::HostCpu;
use volume::Volume;

use crate::exit::UsageError;
use crate::output::note;

/// Processors of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// CPUs of the workers.
    pub workers: Vec<usize>,
    /// CPUs of the targets.
    pub targets: Vec<usize>,
}

/// Places both ends of a race on `cores`.
///
/// With work for all cores each gets one thread of both ends: they take turns, so the data of a
/// connection stay in one cache, and the load balances itself. With fewer workers than cores,
/// targets get the cores that have no worker, so that both ends of a lone connection may spin.
pub fn race(cores: &[usize], workers: usize) -> Placement {
    if workers >= cores.len() {
        return Placement { workers: cores.to_vec(), targets: cores.to_vec() };
    }
    let (targets, workers) = cores.split_at(cores.len() - workers);
    Placement { workers: workers.to_vec(), targets: targets.to_vec() }
}

/// The requested CPUs, or `default` many; refuses CPUs that this process may not use.
pub fn chosen(asked: &[usize], default: usize) -> Result<Vec<usize>> {
    let allowed = os::cpu::allowed();
    if let Some(wrong) = asked.iter().find(|cpu| !allowed.contains(cpu)) {
        let message = format!("--cores: CPU {wrong} is not available: one of {allowed:?}");
        return Err(UsageError(message).into());
    }
    match asked {
        [] => Ok(allowed.into_iter().take(default.max(1)).collect()),
        _ => Ok(asked.to_vec()),
    }
}

/// The cores that may write to volumes: one, with a note, if a flush on one lane of a volume does
/// not cover writes of other lanes.
pub fn of_lanes<'a>(
    mut cores: Vec<usize>,
    volumes: impl IntoIterator<Item = (&'a str, &'a dyn Volume)>,
) -> Vec<usize> {
    let mut volumes = volumes.into_iter();
    if cores.len() > 1
        && let Some((name, _)) = volumes.find(|(_, volume)| !volume.flushes_all())
    {
        cores.truncate(1);
        note(format_args!(
            "drumfire: {name}: served on one core, because the NBD server lacks MULTI_CONN: a \
            flush covers one connection only"
        ));
    }
    cores
}

/// CPUs of a run whose workers may request specific ones; CPUs from the command line override
/// those.
pub fn of_workers(asked: &[usize], workers: &mut [WorkerSpec]) -> Result<Vec<usize>> {
    if !asked.is_empty() {
        workers.iter_mut().for_each(|worker| worker.shift.cores.clear());
        return chosen(asked, workers.len());
    }
    let free = workers.iter().filter(|worker| worker.shift.cores.is_empty()).count();
    let mut cores = if free > 0 { idle(os::cpu::allowed(), free) } else { Vec::new() };
    cores.extend(workers.iter().flat_map(|worker| &worker.shift.cores));
    cores.sort_unstable();
    cores.dedup();
    chosen(&cores, workers.len())
}

/// Time over which CPU load is observed: ten ticks of the kernel's count.
const LOOK: Duration = Duration::from_millis(100);
/// CPUs whose utilisation differs by less than this share count as equal.
const ALIKE: f64 = 0.2;

/// `count` of these CPUs, the idlest first: a worker that is pinned to a CPU of another program
/// gets half of it, while the next CPU is idle.
fn idle(allowed: Vec<usize>, count: usize) -> Vec<usize> {
    if count >= allowed.len() {
        return allowed;
    }
    let before = HostCpu::by_number();
    std::thread::sleep(LOOK);
    let after = HostCpu::by_number();
    let busy = |cpu: usize| {
        let since = after.get(&cpu).zip(before.get(&cpu)).map(|(now, then)| now.since(then));
        since.map_or(0.0, |since| since.busy() / since.total().max(1e-9))
    };
    idlest(allowed.into_iter().map(|cpu| (cpu, busy(cpu))).collect(), count)
}

/// The least busy CPUs, in ascending order; of equals the first.
fn idlest(mut cpus: Vec<(usize, f64)>, count: usize) -> Vec<usize> {
    cpus.sort_by_key(|(cpu, busy)| ((busy / ALIKE) as u32, *cpu));
    let mut chosen: Vec<usize> = cpus.into_iter().take(count.max(1)).map(|(cpu, _)| cpu).collect();
    chosen.sort_unstable();
    chosen
}

/// CPUs in the syntax of taskset, `0-3` or `0-1,4`, with or without parentheses; all allowed ones
/// for an empty text.
pub fn parse(text: &str) -> Result<Vec<usize>> {
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    if inner.is_empty() {
        return Ok(os::cpu::allowed());
    }
    let wrong = || UsageError(format!("cores={text}: write 0, 0-3 or (0,2)"));
    let mut cores = Vec::new();
    for part in inner.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong().into());
        }
        cores.extend(
            (usize::from(first)..=usize::from(last))
                .filter(|cpu| !cores.contains(cpu))
                .collect::<Vec<_>>(),
        );
    }
    chosen(&cores, 0)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_processors_in_the_words_of_taskset() {
        let all = os::cpu::allowed();
        assert_eq!(parse("").unwrap(), all);
        let (first, last) = (all[0], all[all.len() - 1]);
        assert_eq!(parse(&first.to_string()).unwrap(), [first]);
        assert_eq!(parse(&format!("({first},{first}-{first})")).unwrap(), [first]);
        for wrong in ["x", "1-", "-", "2-1", ",", "65536", &format!("{}", last + 1)] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn busy_processors_are_left_to_others() {
        let cpus = |busy: [f64; 4]| (0..).zip(busy).collect::<Vec<_>>();
        assert_eq!(idlest(cpus([0.0; 4]), 2), [0, 1]);
        assert_eq!(idlest(cpus([0.1, 0.0, 0.0, 0.0]), 1), [0], "a tick is no program");
        assert_eq!(idlest(cpus([1.0, 0.9, 0.0, 0.3]), 2), [2, 3]);
        assert_eq!(idlest(cpus([1.0; 4]), 1), [0]);
    }

    #[test]
    fn shares_cores_only_when_there_is_work_for_all() {
        let both = race(&[0, 1], 50);
        assert_eq!((both.workers, both.targets), (vec![0, 1], vec![0, 1]));
        let apart = race(&[0, 1], 1);
        assert_eq!((apart.workers, apart.targets), (vec![1], vec![0]));
        let alone = race(&[3], 1);
        assert_eq!((alone.workers, alone.targets), (vec![3], vec![3]));
        let some = race(&[0, 1, 2, 3], 3);
        assert_eq!((some.workers, some.targets), (vec![1, 2, 3], vec![0]));
    }
}
