//! Verdict on the volumes of all ranks: which are one, which are not, and for which nobody knows.

use std::collections::{BTreeMap, HashMap};

use stats::{Check, Verdict};

use super::Seen;

/// Names that a line has.
const NAMED: usize = 3;
/// Volumes that are compared with each other.
pub const VOLUMES_MAX: usize = 2048;

/// Volumes of all ranks.
#[derive(Debug, Default)]
pub struct Volumes {
    pub all: Vec<Placed>,
    /// Volume of each slot that has a mark.
    pub marked: HashMap<u32, usize>,
    /// Slots with marks in each volume that was read.
    pub found: HashMap<usize, Vec<u32>>,
    /// Slots that were read of each volume.
    pub read: HashMap<usize, std::ops::Range<u32>>,
}

/// A volume of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub rank: u32,
    /// Number of the volume on its rank.
    pub number: usize,
    pub seen: Seen,
}

/// Relation of two volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// One volume, by a mark or by its number on the machine.
    One,
    /// One volume by its name in the world or its address.
    Named,
    /// Two volumes.
    Two,
    Unknown,
}

/// Findings on the volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    pub words: String,
    /// The finding is of volumes for which a user may expect another.
    pub is_news: bool,
}

impl Volumes {
    /// Relation of two volumes.
    pub fn relation(&self, a: usize, b: usize) -> Relation {
        let (one, other) = (&self.all[a].seen, &self.all[b].seen);
        if one.is_own || other.is_own || one.bytes != other.bytes {
            return Relation::Two;
        }
        if let Some(relation) = self.by_marks(a, b).or_else(|| self.by_marks(b, a)) {
            return relation;
        }
        if one.here.iter().any(|key| other.here.contains(key)) {
            return Relation::One;
        }
        if one.digest.is_some() && other.digest.is_some() && one.digest != other.digest {
            return Relation::Two;
        }
        match (&one.world, &other.world) {
            (Some(one), Some(other)) if one == other => return Relation::Named,
            (Some(_), Some(_)) if one.is_local && other.is_local => return Relation::Two,
            _ => {}
        }
        let machine = |seen: &Seen| seen.here.first()?.split(' ').next().map(str::to_owned);
        let on_one = machine(one).is_some() && machine(one) == machine(other);
        match on_one && one.is_local && other.is_local {
            true => Relation::Two,
            false => Relation::Unknown,
        }
    }

    /// Relation of a volume with a mark and one that was read.
    fn by_marks(&self, marked: usize, read: usize) -> Option<Relation> {
        let (slot, _) = self.marked.iter().find(|(_, volume)| **volume == marked)?;
        let found = self.found.get(&read)?;
        match self.read.get(&read)?.contains(slot) {
            true if found.contains(slot) => Some(Relation::One),
            true => Some(Relation::Two),
            false => None,
        }
    }

    /// Facts of the volumes, by their names.
    pub fn findings(&self, hosts: &[String]) -> Vec<Finding> {
        let mut of_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, placed) in self.all.iter().enumerate().filter(|(_, placed)| !placed.seen.is_own) {
            of_name.entry(&placed.seen.name).or_default().push(at);
        }
        let many = of_name.values().filter(|all| all.len() > 1);
        let mut findings: Vec<Finding> = many.map(|all| self.of_one_name(all, hosts)).collect();
        findings.extend(self.twice(hosts));
        findings
    }

    /// Volumes of one name on several ranks.
    fn of_one_name(&self, all: &[usize], hosts: &[String]) -> Finding {
        let name = &self.all[all[0]].seen.name;
        let (count, is_local) = (all.len(), self.all[all[0]].seen.is_local);
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
        let found: Vec<((usize, usize), Relation)> =
            pairs.map(|(a, b)| ((a, b), self.relation(all[a], all[b]))).collect();
        let of = |wanted: Relation| found.iter().filter(|(_, is)| *is == wanted).count();
        let [one, named, two, unknown] =
            [Relation::One, Relation::Named, Relation::Two, Relation::Unknown].map(of);
        let writes = all.iter().filter(|at| self.all[**at].seen.writes.is_some()).count();
        let (verdict, words) = match () {
            () if one > 0 && two > 0 => {
                let others = self.others(all, hosts);
                let words = format!("{name} is one volume on some ranks, and another on {others}");
                return Finding { verdict: Verdict::Warn, words, is_news: true };
            }
            () if two > 0 && named > 0 => {
                let words = format!("{name} has one name and different data on {count} ranks");
                return Finding { verdict: Verdict::Warn, words, is_news: true };
            }
            () if unknown > 0 => {
                let words = format!("nothing shows whether {name} is one volume on {count} ranks");
                (Verdict::Unknown, words)
            }
            () if two > 0 => {
                (Verdict::Pass, format!("{name} is a volume of each of {count} ranks"))
            }
            () if writes > 1 => {
                let by = if named > 0 { ", by its name" } else { "" };
                let words =
                    format!("{name} is one volume on {count} ranks{by}, and {writes} write to it");
                (Verdict::Pass, words)
            }
            () if named > 0 => {
                (Verdict::Pass, format!("{name} is one volume on {count} ranks, by its name"))
            }
            () => (Verdict::Pass, format!("{name} is one volume on {count} ranks")),
        };
        let on_hosts = all.iter().map(|at| host(hosts, self.all[*at].rank));
        let apart = on_hosts.collect::<std::collections::BTreeSet<&str>>().len() > 1;
        Finding { verdict, words, is_news: apart && (two > 0 && is_local || unknown > 0) }
    }

    /// Ranks whose volume is not that of the majority.
    fn others(&self, all: &[usize], hosts: &[String]) -> String {
        let alike = |at: &usize| {
            all.iter().filter(|other| self.relation(*at, **other) == Relation::One).count()
        };
        let most = all.iter().map(alike).max().unwrap_or(0);
        let few = all.iter().filter(|at| alike(at) < most);
        let mut names: Vec<&str> =
            few.map(|at| name(hosts, self.all[*at].rank)).take(NAMED + 1).collect();
        let more = if names.len() > NAMED { " and more" } else { "" };
        names.truncate(NAMED);
        if names.is_empty() {
            return "others".to_owned();
        }
        format!("{}{more}", names.join(", "))
    }

    /// Volumes that are one under two names: the same drive listed twice, or names that hosts give
    /// to different drives.
    fn twice(&self, hosts: &[String]) -> Vec<Finding> {
        let mut found = Vec::new();
        for a in 0..self.all.len() {
            for b in a + 1..self.all.len() {
                let (one, other) = (&self.all[a], &self.all[b]);
                let local = one.seen.is_local && other.seen.is_local;
                let differ = one.seen.name != other.seen.name && one.seen.bytes == other.seen.bytes;
                if !local || !differ || found.len() == NAMED {
                    continue;
                }
                if matches!(self.relation(a, b), Relation::One | Relation::Named) {
                    let [first, second] = [one, other]
                        .map(|of| format!("{} on {}", of.seen.name, name(hosts, of.rank)));
                    let words = format!("{first} and {second} are one volume under two names");
                    found.push(Finding { verdict: Verdict::Warn, words, is_news: true });
                }
            }
        }
        found
    }
}

fn name(hosts: &[String], rank: u32) -> &str {
    hosts.get(rank as usize).map_or("?", String::as_str)
}

/// The host of a rank.
fn host(hosts: &[String], rank: u32) -> &str {
    let name = name(hosts, rank);
    name.split('/').next().unwrap_or(name)
}

/// M05: volumes of one name are one volume on all ranks, or one of each.
pub fn check(findings: &[Finding]) -> Check {
    let check = |verdict, words: &str| Check::new("M05", "one-volume", verdict, words);
    let rank = |verdict: Verdict| match verdict {
        Verdict::Warn => 0,
        Verdict::Unknown => 1,
        _ => 2,
    };
    let Some(worst) = findings.iter().map(|of| of.verdict).min_by_key(|of| rank(*of)) else {
        return check(Verdict::Pass, "no two ranks have a volume of the same name");
    };
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|of| rank(of.verdict));
    let words: Vec<&str> = sorted.iter().take(NAMED).map(|of| &*of.words).collect();
    let more = match sorted.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let check = check(worst, &format!("{}{more}", words.join("; ")));
    match worst {
        Verdict::Warn => check.mend("ls -l /dev/disk/by-id (on each host: name drives by them)"),
        _ => check,
    }
}

#[cfg(test)]
mod test;
