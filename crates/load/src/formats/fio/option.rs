//! Every setting by its name: what it says, or why it is left out or refused.

use super::lines::Setting;
use super::settings::{Data, Settings};
use super::treated;
use super::value::{self, Amount, Unit, set_each};
use super::{control, data, figures, logs, remote, replay, unused, words, zones};
use crate::formats::note::{FormatError, Note, Treatment};
use crate::formats::surroundings::Surroundings;

/// A name of fio's and its other names.
const ALIASES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("blockalign", "ba"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("timeout", "runtime"),
    ("io_limit", "io_size"),
    ("fileoffset", "offset"),
    ("wait_for_previous", "stonewall"),
    ("allrandrepeat", "randrepeat"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("nr_files", "nrfiles"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
    ("ss_interval", "steadystate_check_interval"),
    ("iomem", "mem"),
    ("mem_align", "iomem_align"),
    ("disable_bw", "disable_bw_measurement"),
    ("log_max_value", "log_window_value"),
    ("ratemin", "rate_min"),
    ("ratecycle", "rate_cycle"),
    ("fill_fs", "fill_device"),
];

/// The name that fio has for a setting, of all its names the one that is used here.
pub(super) fn plain(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, name)| name)
}

/// The name by which fio's documents call a setting.
pub(super) fn printed(key: &str) -> &str {
    match plain(key) {
        "log_window_value" => "log_max_value",
        "randrepeat" => key,
        name => name,
    }
}

/// Takes one setting into `settings`.
pub fn apply(
    setting: &Setting,
    settings: &mut Settings,
    surroundings: &Surroundings<'_>,
) -> Result<(), FormatError> {
    let name = plain(&setting.key);
    let mut value = setting.value.as_deref();
    if let Some(cut) = value.and_then(value::cut).filter(|_| name != "filename") {
        let why = format!("as with fio the number ends at the sign: {cut}");
        settings.notes.push(Note::new(&setting.at, &setting.text, Treatment::Differs, why));
        value = Some(cut);
    }
    let mut taken = pattern(name, value, settings);
    let plain = [extent, time, pace, writes, order];
    let apart = [logs::take, figures::take, replay::take, zones::take, control::take, remote::take];
    for group in plain.into_iter().chain(apart) {
        taken = taken.or_else(|| group(name, value, settings));
    }
    let taken = taken.or_else(|| data::take(name, value, settings, surroundings));
    let differs = match name {
        "ioengine" => value.and_then(words::other_manner),
        "filesize" if value.is_some_and(|value| value.contains('-')) => {
            Some("all files have the mean of the range; fio draws the size of each")
        }
        _ => None,
    };
    if let Some(why) = differs {
        settings.notes.push(Note::new(&setting.at, &setting.text, Treatment::Differs, why));
    }
    match taken {
        Some(Ok(())) => Ok(()),
        // Right for fio, only not built here: the other settings are worth reading all the same.
        Some(Err(why)) if why.contains("is not supported") => {
            let note = Note::new(&setting.at, &setting.text, Treatment::Refused, why);
            settings.notes.push(note);
            Ok(())
        }
        Some(Err(why)) => Err(setting.error(why)),
        None => {
            if let Some(Err(why)) = unused::value(name, value, settings.kb_base) {
                return Err(setting.error(why));
            }
            let bare = value.is_none_or(str::is_empty) && !unused::stands_alone(name);
            let (treatment, why) = match treated::treat(name, value) {
                // What is refused anyway is named with all else that is.
                Some((Treatment::Ignored | Treatment::Differs, _)) if bare => {
                    return Err(setting.error("a value is missing"));
                }
                Some(found) => found,
                None => (Treatment::Refused, "not an option of fio that is known here".to_owned()),
            };
            settings.notes.push(Note::new(&setting.at, &setting.text, treatment, why));
            Ok(())
        }
    }
}

/// `None`: not one of these settings. An error says what is wrong with the value.
pub(super) type Taken = Option<Result<(), String>>;

/// The value, where a setting must have one.
pub(super) fn given(value: Option<&str>) -> Result<&str, String> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| "a value is missing".to_owned())
}

/// Stores what was read.
pub(super) fn put<T>(place: &mut T, read: Result<T, String>) -> Result<(), String> {
    *place = read?;
    Ok(())
}

/// What is done, where, and with how many under way.
fn pattern(name: &str, value: Option<&str>, settings: &mut Settings) -> Taken {
    let kb = settings.kb_base;
    let with = given(value);
    let each = |values: &mut _, read: fn(&str) -> Result<f64, String>| {
        with.clone().and_then(|value| set_each(value, values, read))
    };
    Some(match name {
        "rw" => put(&mut settings.mix, with.and_then(|value| words::mix(value, kb))),
        "rwmixread" => put(&mut settings.read_percent, with.and_then(value::percent)),
        "rwmixwrite" => {
            let read = with.and_then(value::percent).map(|writes| 100.0 - writes);
            put(&mut settings.read_percent, read)
        }
        "percentage_random" => each(&mut settings.random_percent, value::percent),
        "percentage_sequential" => {
            Err("fio takes it no longer: say what is random, percentage_random=25".to_owned())
        }
        "bs" => with.and_then(|value| words::block_sizes(value, &mut settings.lengths.fixed, kb)),
        "bsrange" => {
            with.and_then(|value| words::size_ranges(value, &mut settings.lengths.ranges, kb))
        }
        "bssplit" => {
            with.and_then(|value| words::size_splits(value, &mut settings.lengths.splits, kb))
        }
        "ba" => with.and_then(|value| {
            let read = |text: &str| words::not_zero(kb.size(text)?).map(Some);
            set_each(value, &mut settings.align_bytes, read)
        }),
        "bs_unaligned" => put(&mut settings.unaligned, value::flag(value)),
        "bs_is_seq_rand" => put(&mut settings.sizes_by_order, value::switch(value)),
        "rw_sequencer" => put(&mut settings.run_stays, with.and_then(words::run_stays)),
        "random_distribution" => {
            put(&mut settings.distribution, with.and_then(|value| words::distribution(value, kb)))
        }
        "norandommap" => put(&mut settings.no_random_map, value::flag(value)),
        "randseed" => put(&mut settings.seed, with.and_then(value::number).map(Some)),
        "iodepth" => put(&mut settings.depth, with.and_then(words::at_least_one)),
        "iodepth_low" => put(&mut settings.depth_low, with.and_then(value::number)),
        "ioengine" => {
            settings.mapped.on = value == Some("mmap");
            put(&mut settings.engine, with.and_then(words::engine))
        }
        "hipri" => put(&mut settings.hipri, value::flag(value)),
        "sqthread_poll" => put(&mut settings.sqthread_poll, value::flag(value)),
        _ => return None,
    })
}

/// Which volume, and which part of it.
fn extent(name: &str, value: Option<&str>, settings: &mut Settings) -> Taken {
    let kb = settings.kb_base;
    let with = given(value);
    let amount = with.clone().and_then(|value| kb.amount(value));
    // Nothing is what fio has where nothing is said.
    let some = || amount.clone().map(|amount| Some(amount).filter(|it| *it != Amount::Bytes(0)));
    Some(match name {
        "filename" => put(&mut settings.files, with.and_then(words::files)),
        "nrfiles" => put(&mut settings.nr_files, with.and_then(words::at_least_one)),
        "openfiles" => put(&mut settings.open_files, with.and_then(words::at_least_one).map(Some)),
        "file_service_type" => put(&mut settings.service, with.and_then(words::service)),
        "filename_format" => {
            put(&mut settings.name_format, with.map(|value| Some(value.to_owned())))
        }
        "directory" => put(&mut settings.directory, with.map(|value| Some(value.to_owned()))),
        "direct" => put(&mut settings.direct, value::switch(value)),
        "buffered" => put(&mut settings.direct, value::switch(value).map(|buffered| !buffered)),
        "invalidate" => put(&mut settings.invalidate, value::switch(value)),
        "create_only" => put(&mut settings.before.only_made, value::switch(value)),
        "pre_read" => put(&mut settings.before.read, value::switch(value)),
        "fadvise_hint" => put(&mut settings.hint, words::hint(value)),
        "size" => put(&mut settings.size, some()),
        "fill_device" => put(&mut settings.fill, value::switch(value)),
        "filesize" => {
            let read = with.and_then(|value| words::file_size(value, kb));
            put(&mut settings.file_size, read.map(Some))
        }
        "io_size" => put(&mut settings.io_size, some()),
        "offset" => put(&mut settings.offset, amount),
        "offset_increment" => put(&mut settings.offset_increment, amount),
        "file_append" => put(&mut settings.appends, value::switch(value)),
        "offset_align" => put(&mut settings.offset_align, with.and_then(|value| kb.size(value))),
        "loops" => put(&mut settings.loops, with.and_then(words::loops)),
        "numjobs" => put(&mut settings.clones, with.and_then(words::at_least_one)),
        "cpus_allowed" => put(&mut settings.seats.cpus, with.and_then(words::processors)),
        "cpumask" => put(&mut settings.seats.cpus, with.and_then(words::processor_mask)),
        "numa_cpu_nodes" => put(&mut settings.seats.nodes, with.and_then(words::processors)),
        _ => return None,
    })
}

/// How long.
fn time(name: &str, value: Option<&str>, settings: &mut Settings) -> Taken {
    let seconds = given(value).and_then(|value| value::micros(value, Unit::Seconds));
    Some(match name {
        "runtime" => put(&mut settings.runtime_us, seconds.map(|us| Some(us).filter(|us| *us > 0))),
        "time_based" => put(&mut settings.time_based, value::flag(value)),
        "ramp_time" => put(&mut settings.ramp_us, seconds),
        "steadystate" => {
            let read = given(value).and_then(|text| words::steady(text, settings.kb_base));
            put(&mut settings.steady.criterion, read.map(Some))
        }
        "steadystate_duration" => put(&mut settings.steady.duration_us, seconds),
        "steadystate_ramp_time" => put(&mut settings.steady.ramp_us, seconds),
        "steadystate_check_interval" => put(&mut settings.steady.interval_us, seconds.map(Some)),
        "startdelay" => put(&mut settings.delay_us, given(value).and_then(words::delay)),
        "wait_for" => put(&mut settings.wait_for, given(value).map(|name| Some(name.to_owned()))),
        "exitall" => put(&mut settings.exit_all, value::flag(value)),
        "number_ios" => {
            let count = given(value).and_then(value::number::<u64>);
            put(&mut settings.most_ios, count.map(|count| Some(count).filter(|ios| *ios > 0)))
        }
        _ => return None,
    })
}

/// How fast.
fn pace(name: &str, value: Option<&str>, settings: &mut Settings) -> Taken {
    let kb = settings.kb_base;
    let with = given(value);
    Some(match name {
        "rate" => {
            with.and_then(|value| set_each(value, &mut settings.rate_bytes, |text| kb.size(text)))
        }
        "rate_iops" => {
            with.and_then(|value| set_each(value, &mut settings.rate_ios, |text| kb.size(text)))
        }
        "rate_process" => put(&mut settings.poisson, with.and_then(words::is_poisson)),
        _ => return None,
    })
}

/// What is written, and how it becomes durable.
fn writes(name: &str, value: Option<&str>, settings: &mut Settings) -> Taken {
    let (with, kb) = (given(value), settings.kb_base);
    let data: &mut Data = &mut settings.data;
    let whole_percent = |text| {
        let percent: u32 = value::number(text)?;
        if percent <= 100 { Ok(percent) } else { Err(format!("{percent} is above 100 percent")) }
    };
    Some(match name {
        "fsync" | "fdatasync" => {
            settings.figures.flushes = name == "fsync";
            put(&mut settings.flush_every, with.and_then(value::number))
        }
        "sync" => put(&mut settings.durable, with.and_then(words::durable)),
        "end_fsync" | "fsync_on_close" => put(&mut settings.end_flush, value::switch(value)),
        "zero_buffers" => put(&mut data.zeroes, value::flag(value)),
        "refill_buffers" => put(&mut data.refill, value::flag(value)),
        "scramble_buffers" => put(&mut data.scramble, value::switch(value)),
        "buffer_compress_percentage" => {
            put(&mut data.compress_percent, with.and_then(whole_percent))
        }
        "buffer_compress_chunk" => {
            put(&mut data.chunk_bytes, with.and_then(|value| words::chunk(value, kb)).map(Some))
        }
        "dedupe_percentage" => put(&mut data.dedupe_percent, with.and_then(whole_percent)),
        "dedupe_mode" => put(&mut data.working_set, with.and_then(words::has_working_set)),
        "dedupe_working_set_percentage" => {
            put(&mut data.working_set_percent, with.and_then(whole_percent))
        }
        _ => return None,
    })
}

/// Names, order, and how jobs stand together.
fn order(name: &str, value: Option<&str>, settings: &mut Settings) -> Taken {
    let text = || given(value).map(|value| Some(value.to_owned()));
    Some(match name {
        "name" => put(&mut settings.name, text()),
        "description" => {
            put(&mut settings.figures.description, text().map(Option::unwrap_or_default))
        }
        // Taken first, before all others; here it is only known.
        "kb_base" => Ok(()),
        "stonewall" => put(&mut settings.stonewall, value::flag(value)),
        "group_reporting" => put(&mut settings.grouped, value::flag(value)),
        "new_group" => put(&mut settings.figures.begins, value::flag(value)),
        _ => return None,
    })
}
