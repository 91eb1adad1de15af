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
    if is_off(value) { (Ignored, "off, as by default") } else { on }
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
    ignored!(["cmd_type"], OneOf(&["nvme"]), "the only kind of commands that io_uring_cmd sends")
        .writes(|w| word_if(w.way.engine == "io_uring_cmd", "nvme")),
    Row::leaves(&["stats"], false, Switch, |value| match is_off(value) {
        true => (Differs, "it stands in the result like any other job"),
        false => (Ignored, "on, as by default"),
    }),
    ignored!(["unit_base"], OneOf(&["0", "1", "8"]), SHOWN),
    ignored!(
        ["log_entries", "log_compression", "log_compression_cpus"],
        "logs are written as they come; little of them is kept in memory"
    ),
    ignored!(["bwavgtime", "iopsavgtime"], "every second is kept in the result"),
    // SPDK's plugin accepts no job without it.
    ignored!(["thread|threads"], alone, "workers are threads")
        .writes(|w| word_if(w.way.engine == "spdk", 1)),
    ignored!(
        ["mem|iomem", "iomem_align|mem_align", "hugepage-size"],
        "buffers are aligned and of one piece"
    ),
    ignored!(
        [
            "iodepth_batch|iodepth_batch_submit",
            "iodepth_batch_complete_min|iodepth_batch_complete",
            "iodepth_batch_complete_max"
        ],
        "what is ready is submitted and taken in one go; the depth stays as asked"
    ),
    ignored!(
        ["fixedbufs", "registerfiles", "nonvectored", "userspace_reap"],
        alone,
        "how I/Os get into the kernel is decided here"
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
        "what was written is known either way: nothing is drawn again"
    ),
    ignored!(["rwmixcycle"], "fio has given it up: what comes next is drawn for each I/O"),
    ignored!(["random_generator"], OneOf(&["tausworthe", "lfsr", "tausworthe64"]), DRAWN),
    ignored!(["softrandommap"], Switch, DRAWN),
    ignored!(["verify_fatal", "verify_dump"], Switch, FIRST),
    ignored!(
        ["verify_async", "verify_async_cpus", "verifysort", "verifysort_nr", "verify_state_save"],
        FIRST
    ),
    ignored!(["verify_write_sequence", "verify_header_seed"], "stamps are our own"),
    ignored!(["comm", "error_dump"], "only about messages"),
    ignored!(["cpus_allowed_policy"], "workers are dealt out to the processors in turn"),
    ignored!(
        ["read_iolog_chunked"],
        "a trace is packed in memory, in fewer bytes than its file has"
    ),
    ignored!(["cpumode"], "the processor is busy whatever it calculates"),
    ignored!(["io_submit_mode"], "a rate is kept whatever completes; no thread is needed"),
    differs!(["log_prio"], false, Switch, "priorities are not changed: the column says 0"),
    differs!(["log_issue_time"], "logs have the columns of fio 3.33: this one is not among them"),
    differs!(
        ["slat_percentiles"],
        false,
        Switch,
        "submission is not measured apart: slat_ns has no percentiles"
    ),
    differs!(["log_store_compressed"], "logs are plain text"),
    differs!(
        ["log_unix_epoch", "log_alternate_epoch", "log_alternate_epoch_clock_id"],
        "times in logs count from the beginning of the job"
    ),
    differs!(
        ["force_async"],
        true,
        Anything,
        "no I/O is given to threads of the kernel by force; those that wait are"
    ),
    differs!(["unlink_each_loop"], false, Switch, "files stay until the run is over"),
    differs!(["sqthread_poll_cpu"], "the kernel chooses the processor of its polling thread"),
    Row::leaves(&["randrepeat", "allrandrepeat"], false, Switch, |value| match is_off(value) {
        true => (Differs, "runs repeat; give another --seed for another order"),
        false => (Ignored, "equal seeds make equal runs"),
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
        "the run keeps the user and the group that it was begun by"
    ),
    differs!(["lockmem"], "no memory is taken from the host"),
    differs!(["lockfile"], "files are not locked: workers do not wait for each other"),
    always_differs!(
        ["ioscheduler"],
        Anything,
        "the scheduler of a device stays as it is: set it before"
    ),
    differs!(
        ["exitall_on_error"],
        true,
        Anything,
        "errors are counted, and the run goes on; a job that ends because of a rate or a latency \
         leaves the others going"
    ),
    Row::leaves(&["exit_what"], false, Anything, |value| match value {
        Some("all") => (Differs, "jobs behind a stonewall are run all the same"),
        _ => (Ignored, "the jobs up to the next stonewall end together"),
    }),
    Row::leaves(&["numa_mem_policy"], false, Anything, |value| match value {
        Some("default" | "local") => (Ignored, NEAR),
        _ => (Differs, NEAR),
    }),
    ignored!(["dedupe_global"], "duplicates are those of all jobs"),
    ignored!(["serialize_overlap"], "verified writes that overlap wait for each other"),
    always_differs!(["verify_interval"], Size, "our own stamps stand in each 512 bytes"),
    always_differs!(
        ["verify_offset"],
        Size,
        "our own stamps stand at the beginning of each 512 bytes"
    ),
    ignored!(["verify_backlog_batch"], "a backlog is read as a whole"),
    refused!(
        ["merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters"],
        "binary traces of blktrace are not read"
    ),
    refused!(["ignore_zone_limits"], "limits are those of the device: take it away"),
    refused!(
        ["directory_count", "opendir"],
        "a worker drives one volume: name each file in a job of its own"
    ),
    always_differs!(
        ["sync_file_range"],
        Anything,
        "the kernel writes back when it likes: no range is begun before"
    ),
    refused!(
        ["write_barrier", "end_syncfs"],
        "flushes come after so many writes or at the end: use fsync=N or end_fsync"
    ),
    refused!(["cgroup", "cgroup_weight", "cgroup_nodelete"], "control groups are not changed"),
    always_differs!(
        ["exec_prerun", "exec_postrun"],
        Anything,
        "once for all clones, before or behind all jobs up to the next stonewall"
    ),
    refused!(["profile"], "profiles are not known here: name the options"),
    refused!(
        ["verify_pattern_interval", "verify_state_load", "verify_policy"],
        "stamps are our own: take it away"
    ),
    refused!(
        ["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch", "num_range"],
        "trims are a job of their own: use rw=randtrim"
    ),
    refused!(["flow_watermark"], "fio knows it no longer: take it away"),
    refused!(["thinkcycles"], "cycles differ from processor to processor: use thinktime_spin"),
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
        "this kind of command is not sent"
    ),
    refused!(["sprandom", "random_sequence_stride"], "not supported"),
    refused!(["exit_on_io_done"], "the job ends by its runtime: give it that of the others"),
    refused!(["ramp_size"], "not supported: give a ramp_time"),
];

const ALLOCATIONS: [&str; 7] = ["none", "native", "posix", "keep", "truncate", "0", "1"];
const DRAWN: &str = "places are drawn without memory and without skew";
const ERRORS: &str = "errors are counted, and the run goes on";
const FILES: &str = "how files come about; the volume is one";
const FIRST: &str = "the first wrong byte ends the run and is named";
const NEAR: &str = "buffers lie beside the processor that uses them";
const ONE_CLOCK: &str = "every latency is measured, with one clock";
const PRIORITIES: &str = "priorities are not changed: its I/Os come as those of any other program";
const SHOWN: &str = "only shown; the result has the whole histogram";

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
