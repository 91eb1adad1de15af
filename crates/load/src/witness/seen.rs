//! What was seen of one volume before a run.

use stats::verdict::{Asked, Beneath, Existence};
use volume::{FileGround, Ground};

use crate::spec::RunSpec;

/// One volume.
pub(super) struct Seen {
    pub(super) name: String,
    /// Its workers, as indices into the spec's.
    pub(super) workers: Vec<usize>,
    pub(super) ground: Ground,
    pub(super) existence: Existence,
    pub(super) reads: bool,
    pub(super) asked: Asked,
    /// Bytes that may be under way.
    pub(super) slack: u64,
}

impl Seen {
    pub(super) fn of(spec: &RunSpec, workers: Vec<usize>) -> Seen {
        let all = || workers.iter().map(|index| &spec.workers[*index]);
        let first = &spec.workers[workers[0]];
        let (name, volume) = (first.uri.clone(), first.volume.clone());
        let ground = volume.ground();
        let mut ranges: Vec<(u64, u64)> =
            all().map(|worker| worker.workload.range.on(volume.geometry())).collect();
        ranges.sort_unstable();
        ranges.dedup();
        let reads = all().any(|worker| worker.workload.access.read_percent() > 0.0);
        let longest = all().map(|worker| u64::from(worker.workload.access.longest_bytes()));
        let under_way = |index: &usize| {
            let workload = &spec.workers[*index].workload;
            u64::from(workload.outstanding) * u64::from(workload.access.longest_bytes())
        };
        Seen {
            name,
            reads,
            existence: existence(&ground, ranges),
            asked: Asked {
                reads,
                writes: all().any(|worker| worker.workload.writes()),
                buffered: matches!(&ground, Ground::File(file) if !file.direct),
                most_bytes: longest.max().unwrap_or(0),
            },
            slack: workers.iter().map(under_way).sum(),
            ground,
            workers,
        }
    }

    pub(super) fn file(&self) -> Option<&FileGround> {
        match &self.ground {
            Ground::File(file) => Some(file),
            _ => None,
        }
    }
}

/// What is memory below a file.
pub(super) fn beneath(file: &FileGround) -> Option<Beneath> {
    let memory = file.stack.memory().map(|name| Beneath::Memory(name.to_owned()));
    memory.or_else(|| file.stack.cached_disk().map(|disk| Beneath::Cached(disk.to_owned())))
}

/// Whether there are data in ranges of start and length.
pub(super) fn existence(
    ground: &Ground,
    ranges: impl IntoIterator<Item = (u64, u64)>,
) -> Existence {
    let file = match ground {
        Ground::Nothing => return Existence::Nothing,
        Ground::Memory => return Existence::Memory,
        Ground::Elsewhere => return Existence::Elsewhere,
        Ground::File(file) => file,
    };
    let mut found = None;
    for (start, length) in ranges {
        let next = if file.is_device {
            file.sample(start, length).map(|(blocks, zero)| Existence::Sampled { blocks, zero })
        } else {
            file.extents(start, length).map(|extents| Existence::Mapped {
                bytes: length,
                unwritten: extents.unwritten,
                holes: extents.holes,
                exact: extents.exact,
            })
        };
        found = Some(match (found, next) {
            (_, Err(error)) => return Existence::Unknown(error.to_string()),
            (None, Ok(next)) => next,
            (Some(sum), Ok(next)) => add(sum, next),
        });
    }
    found.unwrap_or_else(|| Existence::Unknown("nothing of it is driven".to_owned()))
}

/// Two ranges of the same volume.
fn add(one: Existence, other: Existence) -> Existence {
    match (one, other) {
        (
            Existence::Mapped { bytes, unwritten, holes, exact },
            Existence::Mapped { bytes: b, unwritten: u, holes: h, exact: e },
        ) => Existence::Mapped {
            bytes: bytes + b,
            unwritten: unwritten + u,
            holes: holes + h,
            exact: exact && e,
        },
        (Existence::Sampled { blocks, zero }, Existence::Sampled { blocks: b, zero: z }) => {
            Existence::Sampled { blocks: blocks + b, zero: zero + z }
        }
        (one, _) => one,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ranges_add_up() {
        let mapped = |holes| Existence::Mapped { bytes: 10, unwritten: 1, holes, exact: true };
        let sum = Existence::Mapped { bytes: 20, unwritten: 2, holes: 7, exact: true };
        assert_eq!(add(mapped(3), mapped(4)), sum);
        let ground = Ground::Elsewhere;
        assert_eq!(existence(&ground, [(0, 1)]), Existence::Elsewhere);
    }
}
