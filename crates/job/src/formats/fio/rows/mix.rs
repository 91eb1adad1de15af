//! Mix of I/Os: operations, sizes and offsets.

use super::super::option::Part::{Lines, Load};
use super::super::option::{Row, Word, flag, joined, sets, switch, takes, word, word_if};
use super::super::write::{Mix, Written, each, whole};
use super::super::{parse, value};
use crate::spec::{Extent, Group, Line, Pacing, Places, Walk, Zone};
use block::print_size;

pub(in super::super) const ROWS: &[Row] = &[
    sets!("random_distribution", distribution, |v| parse::distribution(v.text()?, v.kb)?)
        .writes(law)
        .tells(Load, told_places),
    sets!("rw|readwrite", mix, |v| parse::mix(v.text()?, v.kb)?)
        .writes(|w| w.mix.as_ref().map(|mix| way(w, mix)).transpose())
        .tells(Load, told_walk),
    sets!("rwmixread", read_percent, |v| v.percent()?).writes(read_percent),
    sets!("rwmixwrite", read_percent, |v| 100.0 - v.percent()?),
    takes!("percentage_random", |s, v| s.random_percent =
        v.each(&s.random_percent, value::percent)?)
    .writes(random_percent),
    Row::new(&["percentage_sequential"], false, |_, _| {
        Err("fio removed this option: set the random share instead, percentage_random=25".into())
    }),
    takes!("bs|blocksize", |s, v| parse::block_sizes(v.text()?, &mut s.lengths.fixed, v.kb)?)
        .writes(|w| {
            let single = w.mix.iter().filter(|mix| mix.is_single()).flat_map(|mix| &mix.parts);
            let sizes: Vec<u32> = single.map(|part| part[0].size_bytes).collect();
            word_if(!sizes.is_empty(), each(&sizes))
        })
        .tells(Lines, |group| {
            let lines: Vec<String> = group.workload.access.lines.iter().map(told_line).collect();
            (!lines.is_empty()).then(|| lines.join("\n    "))
        }),
    takes!("bsrange|blocksize_range", |s, v| parse::size_ranges(
        v.text()?,
        &mut s.lengths.ranges,
        v.kb
    )?),
    Row::new(&["bssplit"], false, |s, v| {
        parse::size_splits(v.text()?, &mut s.lengths.splits, v.kb)?;
        // Ranges before this option no longer count.
        s.lengths.ranges = Default::default();
        Ok(None)
    })
    .writes(|w| {
        let several = w.mix.iter().filter(|mix| !mix.is_single()).flat_map(|mix| &mix.parts);
        let splits = several.map(|part| split(part)).collect::<Result<Vec<_>, _>>()?;
        word_if(!splits.is_empty(), splits.join(","))
    }),
    Row::new(&["ba|blockalign"], false, |s, v| {
        let read = |text: &str| parse::not_zero(v.kb.size(text)?).map(Some);
        s.align_bytes = v.each(&s.align_bytes, read)?;
        Ok(None)
    })
    .writes(align),
    flag!("bs_unaligned|blocksize_unaligned", unaligned),
    switch!("bs_is_seq_rand", sizes_by_order),
    sets!("rw_sequencer", run_stays, |v| v
        .one_of(&[("sequential", false), ("identical", true)])?)
    .writes(|w| word_if(w.access().run_stays, "identical"))
    .tells(Load, |group| {
        let access = &group.workload.access;
        let what = match access.run_stays {
            true => "I/Os at each offset",
            false => "sequential I/Os from each offset",
        };
        (access.run > 1).then(|| format!("{} {what}", access.run))
    }),
    flag!("norandommap", no_random_map).writes(|w| {
        let random = w.mix.as_ref().is_some_and(|mix| mix.random);
        word_if(random && w.access().random == Places::Uniform, 1)
    }),
    // One for all jobs: it is above them.
    sets!("randseed", seed, |v| Some(v.number()?)),
    takes!("fsync", |s, v| (s.flush_every, s.figures.flushes) = (v.number()?, true))
        .writes(|w| flushes(w, true))
        .tells(Load, |group| {
            let every = group.workload.access.flush_every;
            let uncounted = if group.figures.flushes { "" } else { " (fdatasync)" };
            (every > 0).then(|| format!("flush every {every}{uncounted}"))
        }),
    Row::new(&["fdatasync"], false, |s, v| {
        match v.number()? {
            // 0 switches off fdatasync, and leaves fsync unchanged.
            0 if s.figures.flushes => {}
            every => (s.flush_every, s.figures.flushes) = (every, every == 0),
        }
        Ok(None)
    })
    .writes(|w| flushes(w, false)),
    sets!("sync", durable, |v| v.one_of(&DURABLE)?).writes(|w| {
        let durable = w.access().lines.first().is_some_and(|line| line.fua_percent > 0.0);
        word_if(durable, "dsync")
    }),
];

const DURABLE: [(&str, bool); 5] =
    [("none", false), ("sync", true), ("dsync", true), ("0", false), ("1", true)];

fn flushes(w: &Written<'_>, counted: bool) -> Word {
    let every = w.access().flush_every;
    word_if(every > 0 && w.group.figures.flushes == counted, every)
}

/// Writes the share of reads; if it is no whole percent, the rates express it.
fn read_percent(w: &Written<'_>) -> Word {
    let Some(mix) = w.mix.as_ref().filter(|mix| mix.word == "rw") else { return Ok(None) };
    match whole(mix.read_percent, "the share of reads") {
        Err(_) if w.group.workload.pacing != Pacing::Closed => Ok(None),
        percent => percent.map(|percent| Some(percent.to_string())),
    }
}

fn random_percent(w: &Written<'_>) -> Word {
    let random = w.mix.iter().filter(|mix| mix.random).flat_map(|mix| &mix.parts);
    let shares = random.map(|part| whole(part[0].random_percent, "the share of random I/Os"));
    let shares = shares.collect::<Result<Vec<_>, _>>()?;
    word_if(shares.iter().any(|share| *share != 100), each(&shares))
}

/// Writes the alignment only if it is not fio's default: the option disables the map of visited
/// blocks.
fn align(w: &Written<'_>) -> Word {
    let parts: Vec<&Vec<&Line>> = w.mix.iter().flat_map(|mix| &mix.parts).collect();
    let align: Vec<u32> = parts.iter().map(|part| part[0].align()).collect();
    let least = |part: &[&Line]| part.iter().map(|line| line.size_bytes).min();
    let other = |part: &&Vec<&Line>| Some(part[0].align()) != least(part);
    let random = w.mix.as_ref().is_some_and(|mix| mix.random);
    word_if(random && parts.iter().any(other), each(&align))
}

/// Returns `512/10:4k/90` for the lines of one direction.
fn split(lines: &[&Line]) -> Result<String, String> {
    let total: f64 = lines.iter().map(|line| line.share_percent).sum();
    let entry = |line: &&Line| {
        let share = whole(line.share_percent * 100.0 / total, "the share of a size")?;
        Ok(format!("{}/{share}", line.size_bytes))
    };
    Ok(lines.iter().map(entry).collect::<Result<Vec<_>, String>>()?.join(":"))
}

/// Returns the operation with the order of offsets.
fn way(w: &Written<'_>, mix: &Mix<'_>) -> Result<String, String> {
    let access = w.access();
    let (size, mix, random) = (access.size_bytes().map(u64::from), mix.word, mix.random);
    Ok(match (random, access.sequential, size) {
        (true, Walk::Forward, _) if access.run > 1 => format!("rand{mix}:{}", access.run),
        (true, Walk::Forward, _) => format!("rand{mix}"),
        (false, Walk::Forward, _) => mix.to_owned(),
        (false, Walk::Backward, Some(size)) => format!("{mix}:-{}", 2 * size),
        (false, Walk::Strided { bytes }, Some(size)) if bytes > size => {
            format!("{mix}:{}", bytes - size)
        }
        _ => return Err("fio has no such order of sequential I/Os".to_owned()),
    })
}

fn law(w: &Written<'_>) -> Word {
    match &w.access().random {
        Places::Uniform | Places::Once => Ok(None),
        Places::Zipf { exponent } => word(format!("zipf:{exponent}")),
        Places::Pareto { hot } => word(format!("pareto:{hot}")),
        Places::Normal { deviation_percent } => word(format!("normal:{deviation_percent}")),
        Places::Zones { zones } => {
            let in_bytes = |zone: &Zone| matches!(zone.space, Extent::Bytes(_));
            let name = if zones.iter().all(in_bytes) { "zoned_abs" } else { "zoned" };
            let entry = |zone: &Zone| {
                let share = whole(zone.io_percent, "the share of a zone")?;
                let space = match zone.space {
                    Extent::Bytes(bytes) => bytes,
                    Extent::Percent(percent) => whole(percent, "the size of a zone")?.into(),
                };
                Ok(format!("{share}/{space}"))
            };
            let entries = zones.iter().map(entry).collect::<Result<Vec<_>, String>>()?;
            word(format!("{name}:{}", entries.join(":")))
        }
    }
}

fn told_places(group: &Group) -> Option<String> {
    let access = &group.workload.access;
    let words = match &access.random {
        Places::Uniform => "random offsets, uniform".to_owned(),
        Places::Once => "random offsets, each block once before any repeats".to_owned(),
        Places::Zipf { exponent } => format!("random offsets, zipf {exponent}"),
        Places::Pareto { hot } => format!("random offsets, pareto {hot}"),
        Places::Normal { deviation_percent } => {
            format!("random offsets, normal {deviation_percent}")
        }
        Places::Zones { zones } => format!("random offsets in {} zones", zones.len()),
    };
    access.lines.iter().any(|line| line.random_percent > 0.0).then_some(words)
}

fn told_walk(group: &Group) -> Option<String> {
    let access = &group.workload.access;
    let walk = match access.sequential {
        Walk::Forward => None,
        Walk::Backward => Some("backward".to_owned()),
        Walk::Strided { bytes } => Some(format!("every {}", print_size(bytes))),
    };
    let trims = access.trims_first.then(|| "each write after a trim of its range".to_owned());
    joined(walk.into_iter().chain(trims))
}

fn told_line(line: &Line) -> String {
    let mut facts = vec![print_size(line.size_bytes.into())];
    if line.share_percent < 100.0 {
        facts.insert(0, format!("{:.3} % of I/Os", line.share_percent));
    }
    let shares = [
        (line.read_percent, "reads"),
        (line.write_percent(), "writes"),
        (line.trim_percent, "trims"),
        (line.zero_percent, "zeroes"),
        (line.flush_percent, "flushes"),
        (line.random_percent, "random"),
        (line.fua_percent, "durable"),
    ];
    let shown = shares.into_iter().filter(|(percent, _)| *percent > 0.0);
    facts.extend(shown.map(|(percent, what)| format!("{percent} % {what}")));
    if let Some(align) = line.align_bytes {
        facts.push(format!("aligned to {}", print_size(align.into())));
    }
    if line.delay_us > 0 {
        facts.push(format!("{} us before each burst of {}", line.delay_us, line.burst));
    }
    if line.reply_bytes > 0 {
        facts.push(format!("reply of {}", print_size(line.reply_bytes.into())));
    }
    facts.join(", ")
}
