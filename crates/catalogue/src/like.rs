//! Figures that no source gives for a drive, as intervals of drives like it.
//!
//! Makers rate what drives for clients write when they are fresh. Full, a drive moves old data for
//! each new write, so it does a share of its sequential writes; rated drives say which share.
//! Latencies and bandwidths are those of drives with the same interface and similar ratings.

use std::sync::Arc;

use crate::{Catalogue, Class, Figure, Kind, Known, Part, pretty, quantity_named};

/// Size of a rated write in bytes.
const RATED: f64 = 4096.0;
/// Minimum number of drives of a kind; with fewer, all with the same interface are used.
const LEAST: usize = 3;
/// Maximum ratio of the ratings of similar drives.
const RATED_ALIKE: f64 = 2.0;
/// Maximum read rating before PCI Express 4, in I/Os per second.
const OLD_RATING: f64 = 700e3;

impl Catalogue {
    /// Returns the writes per second of a full drive without `write_iops`: what rated drives of its
    /// interface do of their sequential writes, from the tenth to the ninetieth of a hundred, and
    /// no fewer than one after the other by its latency: all but one rated drive do more. `None`
    /// for rated drives, for disks, and if too little is known.
    pub fn worn_writes(&self, drive: &Part) -> Option<Known> {
        if drive.class != Class::Drive || drive.value("write_iops").is_some() || is_disk(drive) {
            return None;
        }
        let stream = drive.value("write_bandwidth")? / RATED;
        let fresh = stream.min(drive.value("fresh_write_iops").unwrap_or(f64::INFINITY));
        let protected = first(drive, "plp");
        let shares = |same: bool| {
            // Few drives have a share, so the rest is compared after it.
            let shares =
                self.drives(&drive.interface).filter_map(|part| Some((part, share(part)?)));
            let alike = shares
                .filter(|(part, _)| !is_disk(part) && (!same || first(part, "plp") == protected));
            sorted(alike.map(|(_, share)| share).collect())
        };
        let shares = match shares(true) {
            few if few.len() < LEAST => shares(false),
            enough => enough,
        };
        let [low, middle, high] = tenths(&shares).filter(|_| shares.len() >= LEAST)?;
        let source = format!("{} rated drives with {}", shares.len(), drive.interface);
        let alone = alone_per_s(drive, 1.0 / stream).unwrap_or(0.0).min(fresh);
        // Ends as far apart as those of the shares: the latency says least writes, not how many.
        let value = (middle * fresh).max(alone);
        let [low, high] = [low, high].map(|share| share / middle * value);
        let serial = drive.value("write_latency").map_or(0.0, |seconds| 1.0 / seconds);
        let low = low.max(serial.min(fresh)).min(value);
        Some(Known::assumed(value, (low, high.clamp(value, fresh)), source))
    }

    /// Returns the median of drives with the same interface and similar ratings, from the tenth to
    /// the ninetieth of a hundred; for the bandwidth of disks, of those that turn as fast.
    pub fn like(&self, drive: &Part, quantity: &str) -> Option<Known> {
        let rating = drive.value("read_iops");
        let old = |part: &Part| first(part, "generation").map(|generation| generation < 4.0);
        let ours = old(drive).or(rating.map(|rating| rating < OLD_RATING));
        let near = |part: &Part| {
            let alike = |(ours, theirs): (f64, f64)| {
                (1.0 / RATED_ALIKE..RATED_ALIKE).contains(&(theirs / ours))
            };
            let aged = old(part).zip(ours).is_none_or(|(theirs, ours)| theirs == ours);
            aged && rating.zip(first(part, "read_iops")).is_some_and(alike)
        };
        let turns = |part: &Part| first(part, "rpm").map(|rpm| (rpm / 1000.0).round());
        let disk = is_disk(drive);
        let by_turns = disk && quantity.ends_with("bandwidth");
        let all = |alike: &dyn Fn(&Part) -> bool| {
            let interface = if by_turns { "" } else { &drive.interface };
            let parts = self.drives(interface).filter(|part| part.id != drive.id);
            let known = parts.filter_map(|part| Some((part, sure(part, quantity)?)));
            let known = known.filter(|(part, _)| is_disk(part) == disk && alike(part));
            sorted(known.map(|(_, value)| value).collect())
        };
        let same = |part: &Part| if by_turns { turns(part) == turns(drive) } else { near(part) };
        let values = match all(&same) {
            few if few.len() < LEAST => all(&|_| true),
            enough => enough,
        };
        // One in ten at either end is of another kind, such as Optane among flash.
        let [low, middle, high] = tenths(&values)?;
        let source = format!("{} drives with {}", values.len(), drive.interface);
        Some(Known::assumed(middle, (low, high), source))
    }

    /// Returns a drive with assumptions in the place of the missing ones of `quantities`, and a
    /// sentence for each. What nothing can be assumed for stays missing, as does all of disks and
    /// of drives whose reads nobody rated, and of a sourced catalogue.
    pub(crate) fn assumed(&self, drive: &Part, quantities: &[&str]) -> (Arc<Part>, Vec<String>) {
        let (mut whole, mut words) = (Arc::new(drive.clone()), Vec::new());
        if self.is_sourced() || is_disk(drive) || drive.value("read_iops").is_none() {
            return (whole, words);
        }
        for name in quantities.iter().filter(|name| !drive.figures.contains_key(**name)) {
            let known = match *name {
                "write_iops" => self.worn_writes(drive),
                other => self.like(drive, other),
            };
            let (Some(mut known), Some(quantity)) = (known, quantity_named(name)) else { continue };
            if name.ends_with("bandwidth")
                && self.link(drive).is_some_and(|link| link < known.value)
            {
                continue;
            }
            if let Some(least_s) =
                name.strip_suffix("latency").and_then(|op| self.served(&whole, op))
            {
                (known.value, known.high) = (known.value.max(least_s), known.high.max(least_s));
            }
            let show = |value| pretty(value, quantity);
            let Known { value, low, high, kind, basis, source } = known;
            words.push(format!(
                "{name} unknown: {} assumed, {} to {} by {source}",
                show(value),
                show(low),
                show(high)
            ));
            let text = String::new;
            let figure = Figure {
                value,
                low,
                high,
                given: value,
                unit: quantity.unit(),
                condition: "assumed".to_owned(),
                kind,
                quote: text(),
                basis,
                date: "unknown".to_owned(),
                source,
                at: text(),
            };
            Arc::make_mut(&mut whole).figures.insert((*name).to_owned(), vec![figure]);
        }
        (whole, words)
    }

    /// Returns the bytes per second of the drive's own lanes, if they are known.
    fn link(&self, drive: &Part) -> Option<f64> {
        let lane = self.part(&format!("pcie-{}", first(drive, "generation")?)).ok()?;
        Some(first(lane, "symbol_rate")? * first(lane, "coding")? / 8.0 * first(drive, "lanes")?)
    }

    /// Returns the time of a command of a card by its rating, and of its transfer over its own
    /// lanes: an assumed latency of this `op` is not shorter.
    fn served(&self, drive: &Part, op: &str) -> Option<f64> {
        let link = self.link(drive).filter(|_| drive.interface == "pcie")?;
        Some(1.0 / drive.value(&format!("{op}iops"))? + RATED / link)
    }

    /// Returns the drives with an interface; with any if it is empty.
    fn drives<'a>(&'a self, interface: &'a str) -> impl Iterator<Item = &'a Part> {
        let drives = self.parts.values().filter(|part| part.class == Class::Drive);
        drives
            .map(|part| &**part)
            .filter(move |part| interface.is_empty() || part.interface == interface)
    }
}

/// Returns whether a drive is a disk, with heads to move.
pub fn is_disk(drive: &Part) -> bool {
    drive.figures.contains_key("reorder") || drive.figures.contains_key("rpm")
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the tenth, the fiftieth and the ninetieth of a hundred sorted values.
fn tenths(values: &[f64]) -> Option<[f64; 3]> {
    let (count, end) = (values.len(), values.len() / 10);
    Some([*values.get(end)?, values[count / 2], values[count - 1 - end]])
}

/// Returns the value in use, without its interval.
fn first(part: &Part, quantity: &str) -> Option<f64> {
    part.figures.get(quantity)?.first().map(|figure| figure.value)
}

/// Returns the figure of a part that somebody published. A guess about it is no evidence for
/// others.
pub fn sure(part: &Part, quantity: &str) -> Option<f64> {
    let figure = part.figures.get(quantity)?.first()?;
    (figure.kind != Kind::Guess).then_some(figure.value)
}

/// Returns the writes per second of a drive that transfers one, for `moved_s`, while it works on
/// the one before, by the latency of a lone write.
fn alone_per_s(drive: &Part, moved_s: f64) -> Option<f64> {
    let latency_s = drive.value("write_latency")?;
    Some(1.0 / (latency_s - moved_s).max(latency_s / 2.0))
}

/// Returns the share of its sequential writes that a rated drive does at random.
fn share(part: &Part) -> Option<f64> {
    let share = sure(part, "write_iops")? * RATED / sure(part, "write_bandwidth")?;
    // Optane and memory write at random as fast as in sequence: no flash to be full.
    (share < 0.9).then_some(share)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_missing_rating_is_an_interval_within_what_the_drive_can_do() {
        let catalogue = Catalogue::shipped();
        let mut count = 0;
        for drive in catalogue.drives("") {
            let Some(known) = catalogue.worn_writes(drive) else { continue };
            let Known { value, low, high, kind, .. } = known;
            assert!(drive.value("write_iops").is_none(), "{}", drive.id);
            assert!(0.0 < low && low <= value && value <= high, "{}: {low} {high}", drive.id);
            let alone = drive.value("write_latency").map_or(0.0, |seconds| 1.0 / seconds);
            let fresh = first(drive, "fresh_write_iops").unwrap_or(f64::INFINITY);
            assert!(low >= alone.min(fresh), "{}: {low}, alone {alone}", drive.id);
            let most = drive.value("write_bandwidth").unwrap() / RATED;
            assert!(
                high <= most.min(first(drive, "fresh_write_iops").unwrap_or(most)),
                "{}",
                drive.id
            );
            assert_eq!(kind, Kind::Guess);
            count += 1;
        }
        assert!(count > 100, "{count} drives");
        for id in ["x25-m", "cd6", "hdd-7k2", "lsi-9210-8i"] {
            assert_eq!(catalogue.worn_writes(catalogue.part(id).unwrap()), None, "{id}");
        }
    }

    #[test]
    fn what_is_assumed_is_named_with_its_range_and_the_rest_stays() {
        let catalogue = Catalogue::shipped();
        let drive = catalogue.part("980-pro-1000").unwrap();
        let (whole, words) =
            catalogue.assumed(drive, &["read_iops", "write_iops", "write_latency"]);
        assert_eq!(whole.figures["read_iops"], drive.figures["read_iops"]);
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(words[0].starts_with("write_iops unknown: ") && words[0].contains(" to "));
        assert!(words[1].starts_with("write_latency unknown: ") && words[1].contains(" by "));
        assert_eq!(whole.known("write_iops").unwrap().basis, crate::Basis::Recalled);
        assert!(catalogue.assumed(catalogue.part("cd7").unwrap(), &["read_latency"]).1.is_empty());
    }
}
