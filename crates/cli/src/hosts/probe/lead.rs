//! The probe as rank 0 conducts it.

use std::collections::BTreeMap;
use std::time::Duration;

use block::Rng;
use stats::Check;
use volume::mark::MARK_BYTES;

use super::verdict::{self, Placed, Relation, VOLUMES_MAX, Volumes};
use super::{Area, Ask, Rank, Said, Seen};
use crate::hosts::lead::Round;
use crate::output;

/// Interval at which answers are looked for.
const LOOK: Duration = Duration::from_millis(2);
/// Marks of volumes that may be one. Each volume is read as often.
const MARKS_MAX: usize = 256;

impl Round {
    /// Finds out which volumes the ranks share, and lets the others go on. `own` has those of this
    /// rank, if it drives. Without a verdict the round is over: a rank was lost, or refused it.
    pub(in crate::hosts) fn probe(&self, own: Option<Rank>, drive: &[u32]) -> Option<Check> {
        let mut conduct = Conduct { round: self, own, drive, nonce: os::random() };
        let mut volumes = conduct.volumes()?;
        if volumes.all.len() <= VOLUMES_MAX {
            conduct.mark(&mut volumes)?;
        }
        conduct.say(&Ask::Begin);
        if volumes.all.len() > VOLUMES_MAX {
            let why = format!("{} volumes are too many to compare", volumes.all.len());
            return Some(Check::new("M05", "one-volume", stats::Verdict::Unknown, why));
        }
        let findings = volumes.findings(&self.names);
        for finding in findings.iter().filter(|finding| finding.is_news) {
            output::note(format_args!("drumfire: {}", finding.words));
        }
        Some(verdict::check(&findings))
    }
}

struct Conduct<'a> {
    round: &'a Round,
    own: Option<Rank>,
    /// Other ranks that drive.
    drive: &'a [u32],
    nonce: u64,
}

impl Conduct<'_> {
    fn say(&self, ask: &Ask) {
        self.drive.iter().for_each(|rank| self.say_to(*rank, ask));
    }

    fn say_to(&self, rank: u32, ask: &Ask) {
        let body = serde_json::to_vec(ask).unwrap_or_default();
        self.round.ranks.lead().say_to(rank, body);
    }

    /// An answer of each other rank; `None` if the round is over.
    fn answers(&self) -> Option<BTreeMap<u32, Said>> {
        let mut all = BTreeMap::new();
        while all.len() < self.drive.len() {
            self.round.look();
            for (rank, body) in self.round.words() {
                let said = serde_json::from_slice::<Said>(&body);
                match said.ok().filter(|_| self.drive.contains(&rank)) {
                    Some(said) => drop(all.insert(rank, said)),
                    None => return self.round.refuse(rank, "it sent no answer to the probe"),
                }
            }
            if self.round.is_ended() {
                return None;
            }
            std::thread::sleep(LOOK);
        }
        Some(all)
    }

    /// The volumes of all ranks.
    fn volumes(&self) -> Option<Volumes> {
        let mut answers = self.answers()?;
        answers.extend(self.own.as_ref().map(|own| (0, own.volumes())));
        let mut all = Vec::new();
        for (rank, said) in answers {
            let Said::Volumes(volumes) = said else {
                return self.round.refuse(rank, "it sent no volumes");
            };
            let placed = |(number, seen)| Placed { rank, number, seen };
            all.extend(volumes.into_iter().enumerate().map(placed));
        }
        Some(Volumes { all, ..Volumes::default() })
    }

    /// Writes marks on volumes for which there is a doubt, and reads them on all.
    fn mark(&mut self, volumes: &mut Volumes) -> Option<()> {
        let plan = Plan::of(volumes, self.nonce);
        if plan.marks.is_empty() {
            return Some(());
        }
        let nonce = self.nonce;
        let marked = self.each(&plan.marks, |areas| Ask::Mark(nonce, areas))?;
        let slots = marked.into_iter().flat_map(|(_, said)| match said {
            Said::Marked(slots) => slots,
            _ => Vec::new(),
        });
        let slots: Vec<u32> = slots.collect();
        volumes.marked = plan.slots(volumes).filter(|(slot, _)| slots.contains(slot)).collect();
        let found = self.each(&plan.looks, |areas| Ask::Look(nonce, areas))?;
        for (rank, said) in found {
            let Said::Found(all) = said else { continue };
            for (number, slots) in all {
                let is_it = |of: &Placed| of.rank == rank && of.number == number;
                if let Some(at) = volumes.all.iter().position(is_it) {
                    volumes.found.insert(at, slots);
                }
            }
        }
        volumes.read = plan.read(volumes);
        self.each(&plan.marks, |_| Ask::Restore).map(drop)
    }

    /// Asks each rank that has areas, and returns the answers.
    fn each(
        &mut self,
        areas: &BTreeMap<u32, Vec<Area>>,
        ask: impl Fn(Vec<Area>) -> Ask,
    ) -> Option<Vec<(u32, Said)>> {
        let of = |rank: u32| ask(areas.get(&rank).cloned().unwrap_or_default());
        self.drive.iter().for_each(|rank| self.say_to(*rank, &of(*rank)));
        let own = self.own.as_mut().map(|own| (0, own.answer(&of(0))));
        Some(self.answers()?.into_iter().chain(own).collect())
    }
}

/// Areas that are marked and read.
#[derive(Debug, Default)]
struct Plan {
    marks: BTreeMap<u32, Vec<Area>>,
    looks: BTreeMap<u32, Vec<Area>>,
}

impl Plan {
    fn of(volumes: &Volumes, nonce: u64) -> Plan {
        let mut plan = Plan::default();
        let mut of_size: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let can = |seen: &Seen| {
            !seen.is_own && (MARK_BYTES as u32).is_multiple_of(seen.block_bytes.max(1))
        };
        for (at, placed) in volumes.all.iter().enumerate().filter(|(_, of)| can(&of.seen)) {
            of_size.entry(placed.seen.bytes).or_default().push(at);
        }
        let (mut slot, mut rng) = (0, Rng::new(nonce, 1));
        for all in of_size.into_values().filter(|all| is_doubtful(volumes, all)) {
            let writing = all.iter().filter(|at| volumes.all[**at].seen.writes.is_some());
            let writing: Vec<usize> = writing.copied().collect();
            let Some(at) = place(volumes, &writing, &mut rng) else { continue };
            let count = writing.len() as u32;
            for (number, marked) in (0..).zip(&writing) {
                let Placed { rank, number: volume, .. } = volumes.all[*marked];
                let at = at + u64::from(number) * MARK_BYTES as u64;
                let area = Area { volume, at, slot: slot + number, count: 1 };
                plan.marks.entry(rank).or_default().push(area);
            }
            for read in all {
                let Placed { rank, number: volume, .. } = volumes.all[read];
                plan.looks.entry(rank).or_default().push(Area { volume, at, slot, count });
            }
            slot += count;
        }
        plan
    }

    /// Volume of each slot.
    fn slots<'a>(&'a self, volumes: &'a Volumes) -> impl Iterator<Item = (u32, usize)> + 'a {
        let each = self.marks.iter().flat_map(|(rank, all)| all.iter().map(move |a| (*rank, a)));
        each.filter_map(|(rank, area)| Some((area.slot, position(volumes, rank, area)?)))
    }

    /// Slots that are read of each volume.
    fn read(&self, volumes: &Volumes) -> std::collections::HashMap<usize, std::ops::Range<u32>> {
        let each = self.looks.iter().flat_map(|(rank, all)| all.iter().map(move |a| (*rank, a)));
        let slots = |(rank, area): (u32, &Area)| {
            Some((position(volumes, rank, area)?, area.slot..area.slot + area.count))
        };
        each.filter_map(slots).collect()
    }
}

fn position(volumes: &Volumes, rank: u32, area: &Area) -> Option<usize> {
    volumes.all.iter().position(|of| of.rank == rank && of.number == area.volume)
}

/// Whether marks would show more of volumes than their names do.
fn is_doubtful(volumes: &Volumes, all: &[usize]) -> bool {
    let doubts = |a: usize, b: usize| {
        let is_other = volumes.all[a].rank != volumes.all[b].rank;
        is_other && matches!(volumes.relation(a, b), Relation::Unknown | Relation::Named)
    };
    let mut each = all.iter().enumerate();
    each.any(|(number, a)| all[number + 1..].iter().any(|b| doubts(*a, *b)))
}

/// Offset of the first mark, where all jobs write.
fn place(volumes: &Volumes, writing: &[usize], rng: &mut Rng) -> Option<u64> {
    let unit = MARK_BYTES as u64;
    let ranges = writing.iter().filter_map(|at| volumes.all[*at].seen.writes);
    let (from, to) = ranges.fold((0, u64::MAX), |(from, to), (start, length)| {
        (start.max(from), start.saturating_add(length).min(to))
    });
    let from = from.next_multiple_of(unit);
    let wanted = writing.len() as u64 * unit;
    let room = to.checked_sub(from)?.checked_sub(wanted)?;
    let fits = !writing.is_empty() && writing.len() <= MARKS_MAX;
    fits.then(|| from + rng.below(room / unit + 1) * unit)
}

#[cfg(test)]
mod test {
    use super::*;

    fn volume(rank: u32, bytes: u64, writes: Option<(u64, u64)>) -> Placed {
        let name = "file:/dev/sdb".to_owned();
        let seen =
            Seen { name, bytes, block_bytes: 512, writes, is_local: true, ..Seen::default() };
        Placed { rank, number: 0, seen }
    }

    fn plan(all: Vec<Placed>) -> Plan {
        Plan::of(&Volumes { all, ..Volumes::default() }, 7)
    }

    /// Marks are within the ranges of all jobs, side by side, and each volume of their size is
    /// read.
    #[test]
    fn marks_are_where_all_jobs_write() {
        for nonce in 0..100 {
            let all = vec![
                volume(0, 1 << 20, Some((0, 512 << 10))),
                volume(1, 1 << 20, Some((256 << 10, 768 << 10))),
                volume(2, 1 << 20, None),
                volume(3, 2 << 20, None),
            ];
            let plan = Plan::of(&Volumes { all, ..Volumes::default() }, nonce);
            assert_eq!(plan.marks.keys().copied().collect::<Vec<u32>>(), [0, 1]);
            assert_eq!(plan.looks.keys().copied().collect::<Vec<u32>>(), [0, 1, 2]);
            let [first, second] = [plan.marks[&0][0], plan.marks[&1][0]];
            assert_eq!((second.at - first.at, second.slot - first.slot), (4096, 1));
            assert!((256 << 10..=(512 << 10) - 8192).contains(&first.at), "{first:?}");
            let look = plan.looks[&2][0];
            assert_eq!((look.at, look.slot, look.count), (first.at, first.slot, 2));
        }
    }

    #[test]
    fn nothing_is_marked_without_a_doubt_or_a_place() {
        // Nobody writes; no other rank; ranges that have nothing in common; blocks of 64 KiB.
        let whole = Some((0, 1 << 20));
        let apart = [Some((0, 8192)), Some((8192, 8192))];
        let mut coarse = [0, 1].map(|rank| volume(rank, 1 << 20, whole));
        coarse.iter_mut().for_each(|of| of.seen.block_bytes = 65536);
        for all in [
            vec![volume(0, 1 << 20, None), volume(1, 1 << 20, None)],
            vec![volume(0, 1 << 20, whole), volume(0, 1 << 20, whole)],
            vec![volume(0, 1 << 20, apart[0]), volume(1, 1 << 20, apart[1])],
            vec![volume(0, 1 << 20, whole), volume(1, 2 << 20, Some((0, 2 << 20)))],
            coarse.to_vec(),
        ] {
            assert!(plan(all.clone()).marks.is_empty(), "{all:?}");
        }
        let key = |rank| {
            let mut of = volume(rank, 1 << 20, whole);
            of.seen.here = vec!["m file 1 2".to_owned()];
            of
        };
        assert!(plan(vec![key(0), key(1)]).marks.is_empty());
    }
}
