//! Evidence of one volume from before a run.

use std::sync::Arc;

use block::{Allocation, Backing};
use stats::verdict::{Asked, Beneath, Existence, Kept, Reducible, Writes};
use volume::{FileGround, Ground, Leaf, Looked, SAMPLES, Volume};

use super::{rest, sectors};
use crate::run::Prepared;
use job::spec::{Access, Content, Line, Workload};

/// A volume, or a part of a composite one.
pub(super) struct Seen {
    pub(super) name: String,
    /// Number of the volume that it is, or is a part of.
    pub(super) whole: usize,
    /// The part's share of the volume's reads and writes, 0 to 1.
    shares: [f64; 2],
    /// The part's workers, as indices into the spec's.
    pub(super) workers: Vec<usize>,
    pub(super) volume: Arc<dyn Volume>,
    pub(super) ground: Ground,
    pub(super) existence: Existence,
    /// Storage of the data read in a file.
    pub(super) kept: Option<Kept>,
    /// Possible reduction of written data, if anything is written.
    pub(super) written: Option<Reducible>,
    pub(super) reads: bool,
    /// Workers trim or zero blocks that workers read.
    pub(super) clears: bool,
    pub(super) asked: Asked,
    /// Common divisor of offsets and sizes of writes; `None` if unknown.
    pub(super) unit_bytes: Option<u64>,
    /// Pattern of writes to the volume; `None` if a trace decides, or nothing is written.
    pub(super) writes: Option<Writes>,
    /// A job leaves its disks idle for long enough to nap.
    pub(super) pauses: bool,
    /// Bytes that may be in flight.
    pub(super) slack: u64,
    /// Total bytes.
    pub(super) bytes: u64,
    /// Bytes that may be used.
    pub(super) used_bytes: u64,
    /// Bytes of them that get nine of ten I/Os.
    pub(super) hot_bytes: u64,
    /// A target of this process keeps it in memory.
    pub(super) in_target: bool,
    /// The disk at its bottom is rotational, as far as known.
    pub(super) turns: Option<bool>,
}

/// Blocks sampled of files in a whole run: a slow disk with a thousand files is not kept busy for
/// minutes.
const LOOKED: u32 = 1024;

/// The part of a range that gets nine of ten I/Os.
pub(super) fn hot_part(workload: &Workload, bytes: u64) -> f64 {
    let access = &workload.access;
    // A trace may go anywhere, and sequential workers reach everything.
    match access.trace.is_some() || access.random_percent() < 100.0 {
        true => 1.0,
        false => access.random.hot_part(bytes, bytes / access.mean_bytes().max(1.0) as u64),
    }
}

/// Samples per file; too few prove nothing, and become none.
pub(super) fn looked(volumes: usize) -> u32 {
    let each = (LOOKED / volumes.clamp(1, 1 << 20) as u32).min(SAMPLES);
    if each < 16 { 0 } else { each }
}

impl Seen {
    /// One of the volumes, or all its parts.
    pub(super) fn all(
        run: &Prepared,
        whole: usize,
        workers: Vec<usize>,
        volumes: usize,
    ) -> Vec<Seen> {
        let workers_of = &run.spec.workers;
        let first = run.volume(&workers_of[workers[0]]);
        let all = workers.iter().map(|index| &workers_of[*index]);
        let ranges = united(all.map(|worker| worker.workload.range.on(first.geometry())));
        let leaves = first.ground().leaves(first.geometry().bytes(), ranges);
        let volumes = volumes.saturating_mul(leaves.len());
        let parts = bottoms(&**first, leaves.len());
        let one = |(leaf, part)| Seen::of(run, (whole, workers.clone()), (leaf, part), volumes);
        leaves.into_iter().zip(parts).map(one).collect()
    }

    fn of(
        run: &Prepared,
        (whole, workers): (usize, Vec<usize>),
        (leaf, part): (Leaf, Option<&dyn Volume>),
        volumes: usize,
    ) -> Seen {
        let spec = &run.spec;
        let all = || workers.iter().map(|index| &spec.workers[*index]);
        let first = &spec.workers[workers[0]];
        let volume = run.volume(first).clone();
        let name = name(&leaf, &first.uri);
        let Leaf { ground, bytes, ranges, shares, .. } = leaf;
        let workloads = || all().map(|worker| &*worker.workload);
        let reads = workloads().any(|workload| workload.access.reads());
        let longest = workloads().map(|workload| u64::from(workload.access.longest_bytes()));
        let in_flight = |workload: &Workload| {
            u64::from(workload.outstanding) * u64::from(workload.access.longest_bytes())
        };
        let (existence, kept) =
            existence(&ground, ranges.iter().copied(), (reads, looked(volumes)));
        // A target in this process does not serve yet.
        let far = part.filter(|_| reads && run.targets.is_none() && volume.emulates().is_none());
        let far = far.and_then(|part| existence_far(part, &ranges, looked(volumes)));
        let (existence, kept) = far.unwrap_or((existence, kept));
        let used_bytes: u64 = ranges.iter().map(|(_, length)| length).sum();
        // The widest worker's: others may use what it leaves cold.
        let hot_part =
            workloads().map(|workload| hot_part(workload, used_bytes)).fold(0.0, f64::max);
        let written = workloads().filter(|workload| workload.writes());
        let of = |does: fn(&Access) -> bool| {
            let all = workloads().filter(|workload| does(&workload.access));
            united(all.map(|workload| workload.range.on(volume.geometry())))
        };
        let clears = overlap(&of(Access::reads), &of(Access::clears));
        Seen {
            name,
            whole,
            shares,
            reads,
            clears,
            existence,
            kept,
            written: written.map(|workload| reducible(&workload.content)).reduce(more),
            asked: Asked {
                reads,
                writes: workloads().any(|workload| workload.access.writes()),
                buffered: matches!(&ground, Ground::File(file) if !file.direct),
                most_bytes: longest.max().unwrap_or(0),
                flushes: workloads().filter(|it| it.access.writes()).all(flushes),
            },
            unit_bytes: sectors::unit(workloads(), volume.geometry()),
            writes: writes(workloads()),
            pauses: workloads().any(rest::pauses),
            slack: workloads().map(in_flight).sum(),
            bytes,
            used_bytes,
            hot_bytes: (used_bytes as f64 * hot_part) as u64,
            in_target: run.targets.is_some() && spec.job.storage == "RAM",
            turns: turns(&ground),
            volume,
            ground,
            workers,
        }
    }

    /// Facts of a volume without workers, or of all its parts.
    pub(super) fn unasked(whole: usize, name: &str, volume: &Arc<dyn Volume>) -> Vec<Seen> {
        let bytes = volume.geometry().bytes();
        let leaves = volume.ground().leaves(bytes, vec![(0, bytes)]);
        let parts = bottoms(&**volume, leaves.len());
        let one = |part| Seen::part_unasked(whole, name, volume, part);
        leaves.into_iter().zip(parts).map(one).collect()
    }

    fn part_unasked(
        whole: usize,
        uri: &str,
        volume: &Arc<dyn Volume>,
        (leaf, part): (Leaf, Option<&dyn Volume>),
    ) -> Seen {
        let name = name(&leaf, uri);
        let Leaf { ground, bytes, ranges, shares, .. } = leaf;
        let far = part.filter(|_| volume.emulates().is_none());
        let far = far.and_then(|part| existence_far(part, &ranges, SAMPLES));
        let (existence, kept) = far.unwrap_or_else(|| existence(&ground, ranges, (true, SAMPLES)));
        let buffered = matches!(&ground, Ground::File(file) if !file.direct);
        Seen {
            name,
            whole,
            shares,
            bytes,
            workers: Vec::new(),
            volume: volume.clone(),
            existence,
            kept,
            written: None,
            reads: true,
            clears: false,
            asked: Asked { buffered, ..Asked::default() },
            unit_bytes: Some(0),
            writes: None,
            pauses: false,
            slack: 0,
            used_bytes: bytes,
            hot_bytes: bytes,
            in_target: false,
            turns: turns(&ground),
            ground,
        }
    }

    /// Returns the share of the whole's reads and writes.
    pub(super) fn part_of(&self, whole: [u64; 2]) -> [u64; 2] {
        [0, 1].map(|way| (whole[way] as f64 * self.shares[way]).round() as u64)
    }

    pub(super) fn file(&self) -> Option<&FileGround> {
        match &self.ground {
            Ground::File(file) => Some(file),
            _ => None,
        }
    }
}

/// The volumes of the parts of a volume, in the order of [`Ground::leaves`]; `None` for each of
/// `count` parts where they are not the same ones.
fn bottoms(volume: &dyn Volume, count: usize) -> Vec<Option<&dyn Volume>> {
    fn add<'a>(volume: &'a dyn Volume, into: &mut Vec<&'a dyn Volume>) {
        match volume.ground() {
            Ground::Several(_) => volume.below().into_iter().for_each(|part| add(part, into)),
            _ => into.push(volume),
        }
    }
    if count == 1 && !matches!(volume.ground(), Ground::Several(_)) {
        return vec![Some(volume)];
    }
    let mut all = Vec::new();
    add(volume, &mut all);
    match all.len() == count {
        true => all.into_iter().map(Some).collect(),
        false => vec![None; count],
    }
}

/// Name of a volume or a part of it: a file's path.
fn name(leaf: &Leaf, uri: &str) -> String {
    match &leaf.ground {
        Ground::File(file) if leaf.is_part => {
            let cached = if file.asked_direct { "" } else { "?direct=0" };
            format!("file:{}{cached}", file.path.display())
        }
        _ => uri.to_owned(),
    }
}

fn turns(ground: &Ground) -> Option<bool> {
    match ground {
        Ground::File(file) => file.stack.turns(),
        _ => None,
    }
}

/// Merged ranges of start and length in ascending order.
pub(super) fn united(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut sorted: Vec<(u64, u64)> = ranges.filter(|(_, length)| *length > 0).collect();
    sorted.sort_unstable();
    let mut united: Vec<(u64, u64)> = Vec::new();
    for (start, length) in sorted {
        match united.last_mut() {
            Some((first, all)) if start <= *first + *all => {
                *all = (start + length - *first).max(*all);
            }
            _ => united.push((start, length)),
        }
    }
    united
}

/// Whether ranges of one list overlap with those of another; both are in ascending order.
fn overlap(one: &[(u64, u64)], other: &[(u64, u64)]) -> bool {
    let meets = |(start, length): &(u64, u64)| {
        other.iter().any(|(at, len)| *at < start + length && *start < at + len)
    };
    one.iter().any(meets)
}

/// Whether a worker's writes are flushed, at times or at its end.
fn flushes(workload: &Workload) -> bool {
    let access = &workload.access;
    let lines = access.lines.iter().any(|line| line.flush_percent > 0.0);
    lines || access.flush_every > 0 || workload.end_flush
}

/// Pattern of the workloads' writes: the shortest mean length, and whether a tenth of any go to
/// random places.
fn writes<'a>(workloads: impl Iterator<Item = &'a Workload>) -> Option<Writes> {
    let writing = workloads.filter(|workload| workload.access.writes());
    let of_one = |workload: &Workload| {
        let share = |line: &Line| line.share_percent * line.write_percent();
        let lines = || workload.access.lines.iter().filter(|line| share(line) > 0.0);
        let all: f64 = lines().map(share).sum();
        let mean =
            |of: &dyn Fn(&Line) -> f64| lines().map(|it| share(it) * of(it)).sum::<f64>() / all;
        (all > 0.0).then(|| Writes {
            mean_bytes: mean(&|line| f64::from(line.size_bytes)),
            random: mean(&|line| line.random_percent) >= 10.0,
        })
    };
    let each: Option<Vec<Writes>> = writing.map(of_one).collect();
    each?.into_iter().reduce(|one, other| Writes {
        mean_bytes: one.mean_bytes.min(other.mean_bytes),
        random: one.random || other.random,
    })
}

fn reducible(content: &Content) -> Reducible {
    Reducible {
        compress_percent: content.compress_percent,
        dedupe_percent: content.dedupe_percent,
        patterned: content.pattern.is_some(),
        repeats: content.repeats,
    }
}

/// Combined writes can be reduced as far as any part can.
fn more(one: Reducible, other: Reducible) -> Reducible {
    Reducible {
        compress_percent: one.compress_percent.max(other.compress_percent),
        dedupe_percent: one.dedupe_percent.max(other.dedupe_percent),
        patterned: one.patterned || other.patterned,
        repeats: one.repeats || other.repeats,
    }
}

/// The memory below a file, or what hides whether there is any.
pub(super) fn beneath(file: &FileGround) -> Option<Beneath> {
    let stack = &file.stack;
    let memory = stack.memory().map(|name| Beneath::Memory(name.to_owned()));
    let cached = || stack.cached_disk().map(|disk| Beneath::Cached(disk.to_owned()));
    let hidden = || stack.hidden().map(|layer| Beneath::Hidden(layer.to_owned()));
    memory.or_else(cached).or_else(hidden)
}

/// Whether ranges of start and length hold data, and how a file stores it. For reads this many
/// blocks are sampled.
fn existence(
    ground: &Ground,
    ranges: impl IntoIterator<Item = (u64, u64)>,
    (reads, most): (bool, u32),
) -> (Existence, Option<Kept>) {
    let file = match ground {
        Ground::Nothing => return (Existence::Nothing, None),
        Ground::Memory => return (Existence::Memory, None),
        Ground::Target(_) | Ground::Several(_) | Ground::Elsewhere => {
            return (Existence::Elsewhere, None);
        }
        Ground::File(file) => file,
    };
    let mut found = None;
    let mut kept = Kept::default();
    for (start, length) in ranges {
        let next = if file.is_device {
            file.sample(start, length, SAMPLES).map(|looked| {
                note(&mut kept, looked);
                Existence::Sampled { blocks: looked.blocks, zero: looked.zero }
            })
        } else {
            mapped(file, (start, length), if reads { most } else { 0 }, &mut kept)
        };
        found = Some(match (found, next) {
            (_, Err(error)) => return (Existence::Unknown(error.to_string()), None),
            (None, Ok(next)) => next,
            (Some(sum), Ok(next)) => add(sum, next),
        });
    }
    let mapped = matches!(found, Some(Existence::Mapped { exact: true, .. }));
    let known = reads && (mapped || kept.looked > 0);
    let nothing = || Existence::Unknown("the job does not access it".to_owned());
    (found.unwrap_or_else(nothing), known.then_some(kept))
}

/// Existence of data of a target's volume, read over the network; `None` of other volumes. I/Os
/// of an emulated or faulty drive would count among those of its profile.
fn existence_far(
    volume: &dyn Volume,
    ranges: &[(u64, u64)],
    most: u32,
) -> Option<(Existence, Option<Kept>)> {
    let is_far = matches!(volume.ground(), Ground::Target(_) | Ground::Elsewhere)
        && volume.transport() != "local"
        && volume.emulates().is_none();
    if !is_far || most == 0 {
        return None;
    }
    Some(match volume::sample(volume, ranges, most) {
        Ok(looked) => {
            let mut kept = Kept::default();
            note(&mut kept, looked);
            (reported(volume, ranges, looked), Some(kept))
        }
        Err(error) => (Existence::Unknown(format!("sample reads failed: {error}")), None),
    })
}

/// Sampled blocks, with the holes that the target reports. Holes of memory are memory, too; and a
/// target that does not answer reports none.
fn reported(volume: &dyn Volume, ranges: &[(u64, u64)], looked: Looked) -> Existence {
    let is_memory = matches!(volume.backing(), Backing::Memory | Backing::Nothing);
    let asked = if is_memory { None } else { volume.allocation(ranges).ok().flatten() };
    match asked {
        Some(Allocation { bytes, holes, zeroes }) => {
            Existence::Reported { bytes, holes, zeroes, looked: [looked.blocks, looked.zero] }
        }
        None => Existence::Sampled { blocks: looked.blocks, zero: looked.zero },
    }
}

fn mapped(
    file: &FileGround,
    (start, length): (u64, u64),
    most: u32,
    kept: &mut Kept,
) -> std::io::Result<Existence> {
    let extents = file.extents(start, length)?;
    kept.bytes += extents.written;
    kept.compressed += extents.compressed;
    kept.repeated += extents.repeated;
    // In a file with holes the origin of zeroes is known.
    let look = most > 0 && extents.missing() == 0;
    let looked = if look { file.sample(start, length, most)? } else { Looked::default() };
    note(kept, looked);
    Ok(Existence::Mapped {
        bytes: length,
        unwritten: extents.unwritten,
        holes: extents.holes,
        exact: extents.exact,
        looked: [looked.blocks, looked.zero],
    })
}

fn note(kept: &mut Kept, looked: Looked) {
    kept.looked += looked.blocks;
    kept.alike += looked.alike;
}

/// Two ranges of the same volume.
fn add(one: Existence, other: Existence) -> Existence {
    match (one, other) {
        (
            Existence::Mapped { bytes, unwritten, holes, exact, looked },
            Existence::Mapped { bytes: b, unwritten: u, holes: h, exact: e, looked: l },
        ) => Existence::Mapped {
            bytes: bytes + b,
            unwritten: unwritten + u,
            holes: holes + h,
            exact: exact && e,
            looked: [looked[0] + l[0], looked[1] + l[1]],
        },
        (Existence::Sampled { blocks, zero }, Existence::Sampled { blocks: b, zero: z }) => {
            Existence::Sampled { blocks: blocks + b, zero: zero + z }
        }
        (one, _) => one,
    }
}

#[cfg(test)]
mod test {
    use block::Rng;

    use super::*;

    #[test]
    fn ranges_add_up() {
        let mapped = |holes, zero| {
            let (bytes, looked) = (10, [64, zero]);
            Existence::Mapped { bytes, unwritten: 1, holes, exact: true, looked }
        };
        let looked = [128, 3];
        let sum = Existence::Mapped { bytes: 20, unwritten: 2, holes: 7, exact: true, looked };
        assert_eq!(add(mapped(3, 1), mapped(4, 2)), sum);
        let ground = Ground::Elsewhere;
        assert_eq!(existence(&ground, [(0, 1)], (true, 1)), (Existence::Elsewhere, None));
    }

    #[test]
    fn many_files_are_looked_at_less() {
        assert_eq!([0, 1, 16, 64, 65, 5000].map(looked), [64, 64, 64, 16, 0, 0]);
    }

    #[test]
    fn ranges_overlap_or_touch() {
        assert!(overlap(&[(0, 4), (8, 4)], &[(4, 4), (11, 9)]));
        assert!(overlap(&[(4, 1)], &[(0, 9)]) && overlap(&[(0, 9)], &[(4, 1)]));
        assert!(!overlap(&[(0, 4), (8, 4)], &[(4, 4), (12, 9)]));
        assert!(!overlap(&[], &[(0, 9)]) && !overlap(&[(0, 9)], &[]));
    }

    #[test]
    fn each_byte_is_used_once() {
        let of = |ranges: &[(u64, u64)]| united(ranges.iter().copied());
        assert_eq!(of(&[(8, 8), (0, 4), (10, 2), (4, 4)]), [(0, 16)]);
        assert_eq!(of(&[(5, 0), (20, 1), (0, 4)]), [(0, 4), (20, 1)]);
        for seed in 0..500 {
            let mut rng = Rng::new(seed, 0);
            let count = rng.below(9);
            let ranges: Vec<_> = (0..count).map(|_| (rng.below(60), rng.below(20))).collect();
            let is_in = |at: u64, all: &[(u64, u64)]| {
                all.iter().filter(|(start, length)| (*start..start + length).contains(&at)).count()
            };
            let found = of(&ranges);
            for at in 0..100 {
                let once = usize::from(is_in(at, &ranges) > 0);
                assert_eq!(is_in(at, &found), once, "seed {seed}: {ranges:?} {found:?}");
            }
        }
    }

    #[test]
    fn writes_are_known_by_length_and_order() {
        let of = |lines: Vec<Line>| writes([&Workload::new(Access::of(lines), 1)].into_iter());
        let (short, long) = (Line::new(4096, 0.0, 100.0), Line::new(1 << 20, 0.0, 0.0));
        assert_eq!(of(vec![short]), Some(Writes { mean_bytes: 4096.0, random: true }));
        assert_eq!(of(vec![long]).map(|writes| writes.random), Some(false));
        let half = |line: Line, share_percent| Line { share_percent, ..line };
        let mixed = of(vec![half(short, 5.0), half(long, 95.0)]);
        assert_eq!(mixed.map(|writes| writes.random), Some(false), "one of twenty");
        let reads = Line::new(512, 100.0, 100.0);
        assert_eq!(of(vec![reads]), None);
        assert_eq!(of(vec![half(reads, 50.0), half(short, 50.0)]).unwrap().mean_bytes, 4096.0);
    }

    #[test]
    fn what_can_be_reduced_in_part_can_be_reduced() {
        let content = Content { dedupe_percent: 25.0, ..Content::default() };
        let sum = more(reducible(&content), reducible(&Content::default()));
        assert_eq!(sum, Reducible { dedupe_percent: 25.0, ..Reducible::default() });
    }
}
