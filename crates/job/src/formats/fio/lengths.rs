//! I/O sizes of a fio job, with their shares.

use super::convert::Converter;
use super::job::FioJob;
use super::settings::{Settings, Sizes};
use crate::formats::note::Treatment;

/// Maximum number of sizes of an unaligned range: those of both directions are lines of one
/// specification.
const LENGTHS_MAX: u64 = 2000;
/// Maximum number of lines of a specification.
pub(super) const LINES_MAX: usize = 4096;

/// Returns the number of sizes of a range, if it exceeds the maximum.
pub(super) fn too_many<'a>(
    settings: &Settings,
    mut sizes: impl Iterator<Item = &'a Sizes>,
) -> Option<u64> {
    let steps = |sizes: &Sizes| match sizes {
        Sizes::Range(least, most) if !settings.unaligned => Some(*most / *least),
        _ => None,
    };
    sizes.find_map(|sizes| steps(sizes).filter(|steps| *steps > LINES_MAX as u64))
}

/// Returns the smallest I/O size of all directions, used or not: fio rounds percentages of files to
/// it.
pub(super) fn least(settings: &Settings) -> u64 {
    let least = |sizes: &Sizes| match sizes {
        Sizes::Fixed(size) | Sizes::Range(size, _) => *size,
        Sizes::Split(split) => split.iter().map(|(size, _)| *size).min().unwrap_or(1),
    };
    settings.sizes.iter().map(least).min().unwrap_or(1)
}

/// Returns the largest I/O size of any direction in bytes.
pub(super) fn most(settings: &Settings) -> u64 {
    let most = |sizes: &Sizes| match sizes {
        Sizes::Fixed(size) | Sizes::Range(_, size) => *size,
        Sizes::Split(split) => split.iter().map(|(size, _)| *size).max().unwrap_or(1),
    };
    settings.sizes.iter().map(most).max().unwrap_or(1)
}

/// Returns the I/O sizes of one direction with their shares, 0 to 100.
pub(super) fn lengths(settings: &Settings, of: usize) -> Vec<(u64, f64)> {
    match &settings.sizes[of] {
        Sizes::Range(least, most) if settings.unaligned => any_lengths(*least, *most),
        sizes => shares(sizes),
    }
}

/// Returns the sizes of an unaligned range. fio adds a share of the maximum to the minimum and
/// clamps to the maximum. Of many sizes the maximum number is used, equidistant, with the largest
/// size among them.
fn any_lengths(least: u64, most: u64) -> Vec<(u64, f64)> {
    let span = most - least;
    let count = span.min(LENGTHS_MAX);
    if span == 0 {
        return vec![(most, 100.0)];
    }
    let below = span as f64 * 100.0 / most as f64;
    let length =
        |index: u64| least + (u128::from(index) * u128::from(span) / u128::from(count)) as u64;
    let mut shares: Vec<_> =
        (0..count).map(|index| (length(index), below / count as f64)).collect();
    shares.push((most, 100.0 - below));
    shares
}

/// Notes which of several options for the sizes of one direction counts.
pub(super) fn one_word(converter: &mut Converter<'_>, job: &FioJob, of: usize) {
    let said = &job.settings.lengths;
    let (range, split) = (said.ranges[of].is_some(), said.splits[of].is_some());
    if range && split && !is_within(said.splits[of].as_ref(), said.ranges[of].as_ref()) {
        let why = "cannot be combined with bsrange: fio shortens some sizes to 0; remove one of \
                   the two";
        converter.refuse(job, "bssplit", why);
    }
    if said.fixed[of].is_some() && (range || split) {
        let why = "bsrange or bssplit overrides bs, as in fio";
        converter.note(job, "bs", Treatment::Ignored, why);
    }
}

/// Returns whether a range leaves sizes with shares unchanged.
fn is_within(split: Option<&Sizes>, range: Option<&Sizes>) -> bool {
    let (Some(Sizes::Split(split)), Some(Sizes::Range(least, most))) = (split, range) else {
        return false;
    };
    split.iter().all(|(size, _)| size.is_multiple_of(*least) && size <= most)
}

/// Checks the requirements of unaligned sizes.
pub(super) fn unaligned(converter: &mut Converter<'_>, job: &FioJob, lines: usize) {
    let settings = &job.settings;
    let ranges = settings.sizes.iter().filter_map(|sizes| match sizes {
        Sizes::Range(least, most) => Some(most - least),
        _ => None,
    });
    let Some(span) = ranges.max().filter(|_| settings.unaligned) else { return };
    if settings.direct {
        let why = "sizes that are not a multiple of 512 need the page cache: set direct=0";
        converter.refuse(job, "bs_unaligned", why);
    }
    if span > LENGTHS_MAX {
        let why = format!("{LENGTHS_MAX} evenly spaced sizes of the {span} in the range are used");
        converter.note(job, "bs_unaligned", Treatment::Differs, &why);
    }
    if lines > LINES_MAX {
        let why = format!("{lines} sizes in all directions; the maximum is {LINES_MAX}");
        converter.refuse(job, "bs_unaligned", &why);
    }
}

/// Returns sizes with their shares, 0 to 100.
pub(super) fn shares(sizes: &Sizes) -> Vec<(u64, f64)> {
    match sizes {
        Sizes::Fixed(size) => vec![(*size, 100.0)],
        Sizes::Split(split) => split.iter().copied().filter(|(_, share)| *share > 0.0).collect(),
        Sizes::Range(least, most) => {
            // fio adds a share of the maximum to the minimum, rounds down to multiples of the
            // minimum and clamps to the maximum: a rest that is no such multiple becomes I/Os of
            // the maximum size.
            let steps = most / least;
            let share = *least as f64 * 100.0 / *most as f64;
            let mut shares: Vec<_> = (1..=steps).map(|step| (step * least, share)).collect();
            let rest = 100.0 - steps as f64 * share;
            if most % least != 0 {
                shares.push((*most, rest));
            }
            shares
        }
    }
}
