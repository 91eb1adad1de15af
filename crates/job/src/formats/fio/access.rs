//! Conversion of the mix, sizes and distribution of a fio job to an access specification.

use super::convert::Converter;
use super::job::FioJob;
use super::lengths::{self, LINES_MAX};
use super::settings::{Distribution, Settings, Sizes};
use super::storage::JobFiles;
use super::value::Amount;
use super::zones::Zones;
use crate::formats::note::Treatment;
use crate::spec::{Access, Extent, Line, Places, Walk, Zone};

/// Indices of reads, writes and trims in a triple.
const READ: usize = 0;
const WRITE: usize = 1;
const TRIM: usize = 2;

/// Returns the access specification of the job's workers.
pub(super) fn access(converter: &mut Converter<'_>, job: &FioJob) -> Access {
    let settings = &job.settings;
    let lines = lines(converter, job);
    let mut access = Access::of(lines);
    access.random = places(converter, job, &access.lines);
    access.sequential = walk(converter, job);
    access.run = settings.mix.run;
    // fio continues where the last I/O of the same direction ended.
    let sequential = access.lines.iter().any(|line| line.random_percent < 100.0);
    access.run_stays = settings.run_stays && access.run > 1;
    access.apart = settings.mix.reads && settings.mix.writes && (sequential || access.run_stays);
    access.flush_every = settings.flush_every;
    access.trims_first = trims_first(converter, job);
    access
}

/// Returns whether the job trims each block before it writes it, as fio does for mixes of both.
fn trims_first(converter: &mut Converter<'_>, job: &FioJob) -> bool {
    let settings = &job.settings;
    let both = settings.mix.trims && settings.mix.writes;
    if both && settings.sizes[WRITE] != settings.sizes[TRIM] {
        converter.refuse(job, "bs", "trimwrite needs the same block size for trims and writes");
    }
    both
}

/// Returns the I/O size, if all I/Os have the same.
pub(super) fn size(settings: &Settings) -> Option<u64> {
    let mut used = parts(settings).into_iter().map(|part| match settings.sizes[part.sizes] {
        Sizes::Fixed(size) => Some(size),
        Sizes::Range(..) | Sizes::Split(_) => None,
    });
    let first = used.next()??;
    used.all(|size| size == Some(first)).then_some(first)
}

/// Returns the directions in use, with their shares of the I/Os.
fn directions(settings: &Settings) -> Vec<(usize, f64)> {
    let mix = settings.mix;
    match (mix.reads, mix.writes) {
        (true, true) => {
            let read = settings.read_percent;
            let both = [(READ, read), (WRITE, 100.0 - read)];
            both.into_iter().filter(|(_, share)| *share > 0.0).collect()
        }
        (true, false) => vec![(READ, 100.0)],
        (false, true) => vec![(WRITE, 100.0)],
        (false, false) => vec![(TRIM, 100.0)],
    }
}

/// I/O sizes, with their share of the I/Os.
struct Part {
    /// Index into the read/write/trim triple, for the sizes.
    sizes: usize,
    /// Index of the direction, for alignment, random share and operation; reads and writes together
    /// if `same`.
    direction: usize,
    same: bool,
    share: f64,
    random_percent: f64,
}

/// Returns the parts of a job: one for both directions, one for each if the two differ, and one
/// each for random and sequential I/Os if their sizes differ.
fn parts(settings: &Settings) -> Vec<Part> {
    let used = directions(settings);
    let same = match used[..] {
        [(a, _), (b, _)] => {
            let order = |of| (settings.align_bytes[of], settings.random_percent[of]);
            // Sequential I/Os have neither.
            let order = |of| settings.mix.random.then(|| order(of));
            let sizes = settings.sizes_by_order || settings.sizes[a] == settings.sizes[b];
            sizes && order(a) == order(b)
        }
        _ => false,
    };
    let each = if same { vec![(READ, 100.0)] } else { used };
    let mut parts = Vec::new();
    for (direction, share) in each {
        let random_percent = random_percent(settings, direction);
        let part =
            |sizes, share, random_percent| Part { sizes, direction, same, share, random_percent };
        if !settings.sizes_by_order {
            parts.push(part(direction, share, random_percent));
            continue;
        }
        for (sizes, of_all, random) in
            [(READ, 100.0 - random_percent, 0.0), (WRITE, random_percent, 100.0)]
        {
            if of_all > 0.0 {
                parts.push(part(sizes, share * of_all / 100.0, random));
            }
        }
    }
    parts
}

/// Returns one line for each size of each part.
fn lines(converter: &mut Converter<'_>, job: &FioJob) -> Vec<Line> {
    let settings = &job.settings;
    if settings.sizes_by_order && settings.mix.run > 1 {
        let why = "cannot be combined with several I/Os per random offset, such as rw=randread:8";
        converter.refuse(job, "bs_is_seq_rand", why);
    }
    let parts = parts(settings);
    parts.iter().for_each(|part| lengths::one_word(converter, job, part.sizes));
    let sizes = parts.iter().map(|part| &settings.sizes[part.sizes]);
    if let Some(steps) = lengths::too_many(settings, sizes) {
        let why = format!("the range has {steps} sizes; the maximum is {LINES_MAX}");
        converter.refuse(job, "bsrange", &why);
        return vec![Line::new(4096, 100.0, 0.0)];
    }
    let mut lines = Vec::new();
    for part in parts {
        let shares = lengths::lengths(settings, part.sizes);
        let divisor = shares.iter().fold(0, |divisor, (size, _)| common(divisor, *size));
        let align = align(settings, part.direction, divisor);
        // Sequential I/Os between random ones continue from the end of any of these.
        let between = settings.sizes_by_order && part.random_percent == 0.0;
        let align = if between { common(divisor, align) } else { align };
        for (size, of_part) in shares {
            let (Some(size_bytes), Some(align)) = (narrow(size), narrow(align)) else {
                converter.refuse(job, "bs", "the maximum I/O size is 16m");
                continue;
            };
            let mut line = Line::new(size_bytes, 0.0, part.random_percent);
            line.share_percent = part.share * of_part / 100.0;
            match part.direction {
                READ if part.same => line.read_percent = settings.read_percent,
                READ => line.read_percent = 100.0,
                TRIM => line.trim_percent = 100.0,
                _ => {}
            }
            line.align_bytes = (align != size_bytes).then_some(align);
            if settings.durable {
                line.fua_percent = 100.0;
            }
            lines.push(line);
        }
    }
    lengths::unaligned(converter, job, lines.len());
    lines
}

/// Returns the alignment of I/O offsets: for random I/Os the smallest size, as in fio; sequential
/// I/Os are contiguous, or have holes between them.
fn align(settings: &Settings, direction: usize, divisor: u64) -> u64 {
    match (settings.mix.random, settings.align_bytes[direction]) {
        (true, Some(align)) if align > 0 => align,
        (true, _) => match &settings.sizes[direction] {
            Sizes::Fixed(size) | Sizes::Range(size, _) => *size,
            sizes => lengths::shares(sizes).iter().map(|(size, _)| *size).min().unwrap_or(0),
        },
        (false, _) => common(divisor, settings.mix.hole_bytes.max(0).unsigned_abs()),
    }
}

/// Returns the bytes of one pass over a part with holes between sequential I/Os, if the pass ends
/// the job: the next I/O would begin within the file, but not fit into the part. `None` otherwise:
/// fio then starts again until all bytes are done.
pub(super) fn pass_bytes(settings: &Settings, place: &JobFiles) -> Option<u64> {
    let bytes = place.part_bytes?;
    let whole = place.whole_bytes.unwrap_or(bytes);
    let hole = settings.mix.hole_bytes.max(0).unsigned_abs();
    let size = size(settings).filter(|size| *size > 0 && hole > 0 && !settings.mix.random)?;
    let stride = size.checked_add(hole)?;
    let ios = bytes.checked_sub(size)? / stride + 1;
    ios.checked_mul(stride).filter(|next| *next < whole).map(|_| ios * size)
}

/// Returns the greatest common divisor.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

fn random_percent(settings: &Settings, direction: usize) -> f64 {
    if settings.mix.random { settings.random_percent[direction] } else { 0.0 }
}

fn narrow(bytes: u64) -> Option<u32> {
    u32::try_from(bytes).ok()
}

/// Returns the distribution of random offsets.
fn places(converter: &mut Converter<'_>, job: &FioJob, lines: &[Line]) -> Places {
    let settings = &job.settings;
    let random = lines.iter().any(|line| line.random_percent > 0.0);
    if !random && settings.distribution != Distribution::Uniform {
        let why = "no I/O is random: set rw=randread";
        converter.note(job, "random_distribution", Treatment::Ignored, why);
    }
    match &settings.distribution {
        Distribution::Uniform => uniform(converter, job, lines),
        Distribution::Zipf(exponent) => Places::Zipf { exponent: *exponent },
        Distribution::Pareto(hot) => Places::Pareto { hot: *hot },
        Distribution::Normal(percent) => Places::Normal { deviation_percent: *percent },
        Distribution::Zones(zones) => {
            let zone = |(io_percent, space): &(f64, Amount)| Zone {
                io_percent: *io_percent,
                space: match space {
                    Amount::Bytes(bytes) => Extent::Bytes(*bytes),
                    Amount::Percent(percent) => Extent::Percent(f64::from(*percent)),
                },
            };
            Places::Zones { zones: zones.iter().map(zone).collect() }
        }
    }
}

/// Returns the uniform distribution: fio visits each offset once before any repeats, unless
/// `norandommap` is set.
fn uniform(converter: &mut Converter<'_>, job: &FioJob, lines: &[Line]) -> Places {
    let settings = &job.settings;
    let random = lines.iter().any(|line| line.random_percent > 0.0);
    let aligned = settings.align_bytes.iter().any(Option::is_some);
    if !random || settings.no_random_map || aligned {
        return Places::Uniform;
    }
    let first = lines.first().map(|line| (line.size_bytes, line.align()));
    let one = lines.iter().all(|line| Some((line.size_bytes, line.align())) == first);
    let aligned = |line: &Line| Some(line.align()) == first.map(|(_, align)| align);
    let mapped = lines.iter().all(|line| line.random_percent == 100.0 && aligned(line));
    let mapped = mapped && !settings.unaligned && settings.zones == Zones::default();
    if !one && mapped && settings.mix.run == 1 {
        return Places::Once;
    }
    if !one || settings.mix.run > 1 {
        let why = "offsets may repeat before all blocks were visited: the random map needs single \
                   I/Os and the same minimum block size in all directions; set norandommap for \
                   the same in fio";
        converter.note(job, "rw", Treatment::Differs, why);
        return Places::Uniform;
    }
    let same = settings.offset_increment == Amount::Bytes(0) && !settings.appends;
    if settings.clones > 1 && !settings.files.is_empty() && same {
        let why = "the clones divide the offsets of a volume; in fio each clone visits all of them";
        converter.note(job, "numjobs", Treatment::Differs, why);
    }
    Places::Once
}

/// Returns the order of sequential I/Os.
fn walk(converter: &mut Converter<'_>, job: &FioJob) -> Walk {
    let settings = &job.settings;
    if !settings.mix.random && settings.clones > 1 && !settings.files.is_empty() {
        let why = "clones on one volume start at different offsets; in fio all start at the first \
                   byte";
        converter.note(job, "numjobs", Treatment::Differs, why);
    }
    let hole = settings.mix.hole_bytes;
    let size = size(settings);
    match (hole, size) {
        (0, _) => Walk::Forward,
        // fio counts from the end of the last I/O: minus two sizes is the previous I/O.
        (hole, Some(size)) if hole < 0 && hole.unsigned_abs() == 2 * size => Walk::Backward,
        (hole, Some(size)) if hole > 0 => Walk::Strided { bytes: size + hole.unsigned_abs() },
        _ => {
            let why = "holes need a single block size, and backward I/O a step of two blocks: \
                       rw=read:-8k with bs=4k";
            converter.refuse(job, "rw", why);
            Walk::Forward
        }
    }
}
