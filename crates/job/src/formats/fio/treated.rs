//! Options that set nothing: the load is the same without them, or differs from fio's, or would
//! change and is refused.

use super::option::Says::{self, Anything, OneOf, Size, Switch};
use super::option::{Row, word_if};
use super::treated;
use crate::formats::note::Treatment::{self, Differs, Ignored};

/// A row of ignored options: they do not change the load.
macro_rules! ignored {
    ($options:expr, $why:expr) => {
        ignored!($options, Anything, $why)
    };
    ($options:expr, alone, $why:expr) => {
        Row::leaves(&$options, true, Says::Anything, |_| (Treatment::Ignored, $why))
    };
    ($options:expr, $says:expr, $why:expr) => {
        Row::leaves(&$options, false, $says, |_| (Treatment::Ignored, $why))
    };
}

/// A row of options that would change the load, unless they are off.
macro_rules! refused {
    ($options:expr, $why:expr) => {
        Row::leaves(&$options, false, Says::Anything, |value| {
            treated::unless_off(value, (Treatment::Refused, $why))
        })
    };
}

/// A row of options with a different effect than in fio, unless they are off.
macro_rules! differs {
    ($options:expr, $why:expr) => {
        differs!($options, false, Anything, $why)
    };
    ($options:expr, $alone:literal, $says:expr, $why:expr) => {
        Row::leaves(&$options, $alone, $says, |value| unless_off(value, (Differs, $why)))
    };
}

/// A row of options with a different effect than in fio, on or off.
macro_rules! always_differs {
    ($options:expr, $says:expr, $why:expr) => {
        Row::leaves(&$options, false, $says, |_| (Differs, $why))
    };
}

pub(super) use {ignored, refused};

/// Returns the treatment of an option by whether it is on.
pub(super) fn unless_off(
    value: Option<&str>,
    on: (Treatment, &'static str),
) -> (Treatment, &'static str) {
    if is_off(value) { (Ignored, "off, the default") } else { on }
}

fn is_off(value: Option<&str>) -> bool {
    matches!(value, Some("0" | "none"))
}

/// The options.
pub(super) const ROWS: &[Row] = &[
    ignored!(
        ["disable_lat", "disable_slat", "disable_bw_measurement|disable_bw"],
        Switch,
        ONE_CLOCK
    ),
    ignored!(["clocksource", "gtod_cpu", "job_start_clock_id"], ONE_CLOCK),
    ignored!(["clocksource_check"], alone, ONE_CLOCK),
    ignored!(["significant_figures"], SHOWN),
    ignored!(["cmd_type"], OneOf(&["nvme"]), "the only command type of io_uring_cmd")
        .writes(|w| word_if(w.way.engine == "io_uring_cmd", "nvme")),
    Row::leaves(&["stats"], false, Switch, |value| match is_off(value) {
        true => (Differs, "the job is in the result like any other"),
        false => (Ignored, "on, the default"),
    }),
    ignored!(["unit_base"], OneOf(&["0", "1", "8"]), SHOWN),
    ignored!(
        ["log_entries", "log_compression", "log_compression_cpus"],
        "log lines are written continuously, with little buffering"
    ),
    ignored!(["bwavgtime", "iopsavgtime"], "the result contains every second"),
    // SPDK's plugin accepts no job without it.
    ignored!(["thread|threads"], alone, "workers are threads")
        .writes(|w| word_if(w.way.engine == "spdk", 1)),
    ignored!(
        ["mem|iomem", "iomem_align|mem_align", "hugepage-size"],
        "buffers are aligned and contiguous"
    ),
    ignored!(
        [
            "iodepth_batch|iodepth_batch_submit",
            "iodepth_batch_complete_min|iodepth_batch_complete",
            "iodepth_batch_complete_max"
        ],
        "all ready I/Os are submitted and reaped in one batch; the queue depth is as configured"
    ),
    ignored!(
        ["fixedbufs", "registerfiles", "nonvectored", "userspace_reap"],
        alone,
        "Drumfire chooses how I/Os are submitted"
    ),
    ignored!(
        ["create_serialize", "create_fsync", "create_on_open", "allow_mounted_write", "overwrite"],
        Switch,
        FILES
    ),
    ignored!(["fallocate"], OneOf(&ALLOCATIONS), FILES),
    ignored!(["filetype", "unique_filename"], FILES),
    ignored!(
        ["experimental_verify"],
        "written blocks are recorded: no offsets are generated a second time"
    ),
    ignored!(["rwmixcycle"], "fio removed this option: the direction is drawn for each I/O"),
    ignored!(["random_generator"], OneOf(&["tausworthe", "lfsr", "tausworthe64"]), DRAWN),
    ignored!(["softrandommap"], Switch, DRAWN),
    ignored!(["verify_fatal", "verify_dump"], Switch, FIRST),
    ignored!(
        ["verify_async", "verify_async_cpus", "verifysort", "verifysort_nr", "verify_state_save"],
        FIRST
    ),
    ignored!(["verify_write_sequence", "verify_header_seed"], "stamps have Drumfire's format"),
    ignored!(["comm", "error_dump"], "affects messages only"),
    ignored!(["cpus_allowed_policy"], "workers are distributed over the CPUs in turn"),
    ignored!(
        ["read_iolog_chunked"],
        "a trace is loaded as a whole, packed to less than the size of its file"
    ),
    ignored!(["cpumode"], "the CPU is busy whichever instructions it runs"),
    ignored!(["io_submit_mode"], "a rate does not depend on completions, without a submit thread"),
    differs!(["log_prio"], false, Switch, "I/O priorities are not set: the column is 0"),
    differs!(["log_issue_time"], "logs have the columns of fio 3.33, without this one"),
    differs!(
        ["slat_percentiles"],
        false,
        Switch,
        "submission is not measured separately: slat_ns has no percentiles"
    ),
    differs!(["log_store_compressed"], "logs are plain text"),
    differs!(
        ["log_unix_epoch", "log_alternate_epoch", "log_alternate_epoch_clock_id"],
        "times in logs count from the start of the job"
    ),
    differs!(
        ["force_async"],
        true,
        Anything,
        "the kernel uses its worker threads only for I/Os that block"
    ),
    differs!(["unlink_each_loop"], false, Switch, "files remain until the end of the run"),
    differs!(["sqthread_poll_cpu"], "the kernel chooses the CPU of its polling thread"),
    Row::leaves(&["randrepeat", "allrandrepeat"], false, Switch, |value| match is_off(value) {
        true => (Differs, "runs are repeatable: for another order set another --seed"),
        false => (Ignored, "runs with the same seed are identical"),
    }),
    Row::leaves(&["continue_on_error"], false, Anything, |value| match is_off(value) {
        true => (Differs, ERRORS),
        false => (Ignored, ERRORS),
    }),
    always_differs!(["ignore_error"], Anything, ERRORS),
    differs!(["nice", "cmdprio_percentage"], PRIORITIES),
    always_differs!(
        ["prio", "prioclass", "priohint", "cmdprio", "cmdprio_class", "cmdprio_hint"],
        Anything,
        PRIORITIES
    ),
    always_differs!(["cmdprio_bssplit"], Anything, PRIORITIES),
    always_differs!(
        ["uid", "gid"],
        Anything,
        "the user and the group of the process are not changed"
    ),
    differs!(["lockmem"], "no memory is locked"),
    differs!(["lockfile"], "files are not locked: workers do not wait for each other"),
    always_differs!(
        ["ioscheduler"],
        Anything,
        "the I/O scheduler is not changed: set it before the run"
    ),
    differs!(
        ["exitall_on_error"],
        true,
        Anything,
        "errors are counted, and the run continues; a job that ends at its rate or latency limit \
         does not end the others"
    ),
    Row::leaves(&["exit_what"], false, Anything, |value| match value {
        Some("all") => (Differs, "jobs after a stonewall still run"),
        _ => (Ignored, "the jobs up to the next stonewall end together"),
    }),
    Row::leaves(&["numa_mem_policy"], false, Anything, |value| match value {
        Some("default" | "local") => (Ignored, NEAR),
        _ => (Differs, NEAR),
    }),
    ignored!(["dedupe_global"], "duplicates are shared by all jobs"),
    ignored!(["serialize_overlap"], "verified writes that overlap wait for each other"),
    always_differs!(["verify_interval"], Size, "Drumfire's stamps are in every 512 bytes"),
    always_differs!(
        ["verify_offset"],
        Size,
        "Drumfire's stamps are at the start of every 512 bytes"
    ),
    ignored!(["verify_backlog_batch"], "a backlog is read back as a whole"),
    refused!(
        ["merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters"],
        "binary blktrace files are not supported"
    ),
    refused!(["ignore_zone_limits"], "the zone limits of the device apply: remove this option"),
    refused!(
        ["directory_count", "opendir"],
        "a worker uses one volume: use a separate job for each file"
    ),
    always_differs!(
        ["sync_file_range"],
        Anything,
        "the kernel decides when to write back dirty pages"
    ),
    refused!(["write_barrier", "end_syncfs"], "not supported: use fsync=N or end_fsync"),
    refused!(
        ["cgroup", "cgroup_weight", "cgroup_nodelete"],
        "cgroups are not changed: remove this option"
    ),
    always_differs!(
        ["exec_prerun", "exec_postrun"],
        Anything,
        "runs once for all clones, before or after all jobs up to the next stonewall"
    ),
    refused!(["profile"], "profiles are not supported: set the options"),
    refused!(
        ["verify_pattern_interval", "verify_state_load", "verify_policy"],
        "stamps have Drumfire's format: remove this option"
    ),
    refused!(
        ["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch", "num_range"],
        "trims need a separate job: use rw=randtrim"
    ),
    refused!(["flow_watermark"], "fio no longer has this option: remove it"),
    refused!(["thinkcycles"], "cycles differ between CPUs: use thinktime_spin"),
    refused!(
        [
            "fdp",
            "dataplacement",
            "plids|plid_select",
            "dp_scheme",
            "write_hint",
            "write_mode",
            "uncached",
            "atomic",
            "zero_write"
        ],
        "this kind of command is not supported"
    ),
    refused!(["sprandom", "random_sequence_stride"], "not supported"),
    refused!(["exit_on_io_done"], "not supported: set the same runtime for all jobs"),
    refused!(["ramp_size"], "not supported: set ramp_time"),
];

const ALLOCATIONS: [&str; 7] = ["none", "native", "posix", "keep", "truncate", "0", "1"];
const DRAWN: &str = "random offsets are unbiased and need no memory";
const ERRORS: &str = "errors are counted, and the run continues";
const FILES: &str = "affects how files are created, not the I/Os";
const FIRST: &str = "the first miscompare ends the run and is reported";
const NEAR: &str = "buffers are on the NUMA node of the CPU that uses them";
const ONE_CLOCK: &str = "every latency is measured, with one clock";
const PRIORITIES: &str = "I/O priorities are not set";
const SHOWN: &str = "affects the output only; the result has the whole histogram";

#[cfg(test)]
mod test {
    use super::super::settings::Settings;
    use super::super::test::{notes, take};
    use super::*;
    use crate::formats::note::Treatment::Refused;

    #[test]
    fn knows_what_is_harmless_and_what_is_not() {
        for (line, treatment) in [
            ("disable_lat=1", Ignored),
            ("atomic=1", Refused),
            ("atomic=0", Ignored),
            ("force_async=4", Differs),
            ("log_prio=1", Differs),
            ("log_prio=0", Ignored),
            ("dedupe_global=1", Ignored),
            ("cmdprio_percentage=0", Ignored),
            ("cmdprio_percentage=5", Differs),
            ("verify_interval=512", Differs),
            ("allrandrepeat=1", Ignored),
            ("no_such_option", Refused),
        ] {
            assert_eq!(notes(line), [treatment], "{line}");
        }
    }

    #[test]
    fn slips_are_found() {
        for (name, right, wrong) in [
            ("unlink_each_loop", Some("0"), Some("x")),
            ("unlink_each_loop", Some("1"), None),
            ("fixedbufs", None, Some("")),
            ("thread", Some("32"), Some("x")),
            ("random_generator", Some("lfsr"), Some("lsfr")),
            ("fallocate", Some("none"), None),
            ("unit_base", Some("8"), Some("3")),
            ("verify_interval", Some("4k"), Some("(4k")),
        ] {
            let of = |text| take(name, text, &mut Settings::usual());
            assert!(of(right).is_ok() && of(wrong).is_err(), "{name}");
        }
    }
}
