//! The settings that are left out, and those that would change the load and are refused.

use crate::formats::note::Treatment::{self, Differs, Ignored, Refused};

/// What becomes of a setting, and why. `None` when the name is not known.
pub fn treat(name: &str, value: Option<&str>) -> Option<(Treatment, String)> {
    let found = harmless(name)
        .map(|why| (Ignored, why))
        .or_else(|| of_logs(name, value))
        .or_else(|| by_value(name, value))
        .or_else(|| super::remote::treat(name, value))
        .or_else(|| unsupported(name).map(|why| (Refused, why)));
    found.map(|(treatment, why)| (treatment, why.to_owned()))
}

/// Settings without which the load is the same.
fn harmless(name: &str) -> Option<&'static str> {
    Some(match name {
        "clocksource"
        | "gtod_reduce"
        | "gtod_cpu"
        | "disable_lat"
        | "disable_clat"
        | "disable_slat"
        | "disable_bw_measurement"
        | "job_start_clock_id" => "every latency is measured, with one clock",
        "significant_figures" | "unit_base" | "disk_util" | "stats" => {
            "only shown; the result has the whole histogram"
        }
        "log_entries" | "log_compression" | "log_compression_cpus" => {
            "logs are written as they come; little of them is kept in memory"
        }
        "bwavgtime" | "iopsavgtime" => "every second is kept in the result",
        "thread" | "threads" => "workers are threads",
        "mem" | "iomem_align" | "hugepage-size" => "buffers are aligned and of one piece",
        "iodepth_batch" | "iodepth_batch_complete_min" | "iodepth_batch_complete_max" => {
            "what is ready is submitted and taken in one go; the depth stays as asked"
        }
        "fixedbufs" | "registerfiles" | "nonvectored" | "userspace_reap" => {
            "how I/Os get into the kernel is decided here"
        }
        "create_serialize"
        | "create_fsync"
        | "create_on_open"
        | "fallocate"
        | "allow_mounted_write"
        | "allow_file_create"
        | "overwrite"
        | "filetype"
        | "unique_filename" => "how files come about; the volume is one",
        "experimental_verify" => "what was written is known either way: nothing is drawn again",
        "rwmixcycle" => "fio has given it up: what comes next is drawn for each I/O",
        "random_generator" | "softrandommap" => "places are drawn without memory and without skew",
        "verify_async" | "verify_async_cpus" | "verify_dump" | "verify_fatal" | "verifysort"
        | "verifysort_nr" | "verify_state_save" => "the first wrong byte ends the run and is named",
        "comm" | "error_dump" => "only about messages",
        "cpus_allowed_policy" => "workers are dealt out to the processors in turn",
        "read_iolog_chunked" => "a trace is packed in memory, in fewer bytes than its file has",
        "max_open_zones" | "job_max_open_zones" => "zones are not used",
        _ => return None,
    })
}

/// What logs of single I/Os hold and how they are kept, and what is shown of latencies.
fn of_logs(name: &str, value: Option<&str>) -> Option<(Treatment, &'static str)> {
    let why = match name {
        "log_prio" => "priorities are not changed: the column says 0",
        "log_issue_time" => "logs have the columns of fio 3.33: this one is not among them",
        "slat_percentiles" => "submission is not measured apart: slat_ns has no percentiles",
        "log_store_compressed" => "logs are plain text",
        "log_unix_epoch" | "log_alternate_epoch" | "log_alternate_epoch_clock_id" => {
            "times in logs count from the beginning of the job"
        }
        _ => return None,
    };
    Some(match value {
        Some("0") => (Ignored, "off, as by default"),
        _ => (Differs, why),
    })
}

/// Settings that are right or wrong by their value.
fn by_value(name: &str, value: Option<&str>) -> Option<(Treatment, &'static str)> {
    let off = matches!(value, Some("0" | "none"));
    let on = !off;
    Some(match name {
        "force_async" if on => {
            (Differs, "no I/O is given to threads of the kernel by force; those that wait are")
        }
        "force_async" => (Ignored, "off, as by default"),
        "unlink" | "unlink_each_loop" if on => (Differs, "files stay"),
        "unlink" | "unlink_each_loop" => (Ignored, "off, as by default"),
        "sqthread_poll_cpu" => (Differs, "the kernel chooses the processor of its polling thread"),
        "randrepeat" if on => (Ignored, "equal seeds make equal runs"),
        "randrepeat" => (Differs, "runs repeat; give another --seed for another order"),
        "continue_on_error" if on => (Ignored, "errors are counted, and the run goes on"),
        "continue_on_error" => (Differs, "errors are counted, and the run goes on"),
        "ignore_error" => (Differs, "errors are counted, and the run goes on"),
        "nice" if off => (Ignored, "off, as by default"),
        "uid" | "gid" => (Differs, "the run keeps the user and the group that it was begun by"),
        "lockmem" => (Differs, "no memory is taken from the host"),
        "lockfile" if off => (Ignored, "off, as by default"),
        "lockfile" => (Differs, "files are not locked: workers do not wait for each other"),
        "ioscheduler" => (Differs, "the scheduler of a device stays as it is: set it before"),
        "cmdprio_percentage" if off => (Ignored, "off, as by default"),
        "prio" | "prioclass" | "priohint" | "nice" | "cmdprio_percentage" | "cmdprio"
        | "cmdprio_class" | "cmdprio_hint" | "cmdprio_bssplit" => {
            (Differs, "priorities are not changed: its I/Os come as those of any other program")
        }
        "exitall_on_error" if on => (
            Differs,
            "errors are counted, and the run goes on; a job that ends because of a rate or a \
             latency leaves the others going",
        ),
        "exitall_on_error" => (Ignored, "off, as by default"),
        "exit_what" if value == Some("all") => {
            (Differs, "jobs behind a stonewall are run all the same")
        }
        "exit_what" => (Ignored, "the jobs up to the next stonewall end together"),
        "numa_mem_policy" if matches!(value, Some("default" | "local")) => {
            (Ignored, "buffers lie beside the processor that uses them")
        }
        "numa_mem_policy" => (Differs, "buffers lie beside the processor that uses them"),
        "io_submit_mode" => (Ignored, "a rate is kept whatever completes; no thread is needed"),
        "dedupe_global" if on => (Ignored, "duplicates are those of all jobs"),
        "verify_interval" => (Differs, "our own stamps stand in each 512 bytes"),
        "verify_offset" => (Differs, "our own stamps stand at the beginning of each 512 bytes"),
        "verify_backlog" | "verify_backlog_batch" => {
            (Differs, "every read is compared at once; there is no backlog")
        }
        "serialize_overlap" if on => (Ignored, "verified writes that overlap wait for each other"),
        "atomic" | "zero_write" | "uncached" | "serialize_overlap" | "dedupe_global"
        | "trim_percentage" | "write_hint"
            if off =>
        {
            (Ignored, "off, as by default")
        }
        "verify_write_sequence" | "verify_header_seed" => (Ignored, "stamps are our own"),
        _ => return None,
    })
}

/// Settings of fio's that would change the load, and are not built.
fn unsupported(name: &str) -> Option<&'static str> {
    Some(match name {
        "merge_blktrace_file" | "merge_blktrace_scalars" | "merge_blktrace_iters" => {
            "binary traces of blktrace are not read"
        }
        "zonecapacity" | "read_beyond_wp" | "zone_reset_threshold" | "zone_reset_frequency" => {
            "zoned devices are not supported"
        }
        "directory_count" | "opendir" => {
            "a worker drives one volume: name each file in a job of its own"
        }
        "sync_file_range" | "write_barrier" | "end_syncfs" => {
            "flushes come after so many writes or at the end: use fsync=N or end_fsync"
        }
        _ => return unsupported_besides(name),
    })
}

/// The same, beyond time, place and data.
fn unsupported_besides(name: &str) -> Option<&'static str> {
    Some(match name {
        "cgroup" | "cgroup_weight" | "cgroup_nodelete" => "control groups are not changed",
        "exec_prerun" | "exec_postrun" | "profile" => "nothing else is run",
        "verify_pattern_interval" | "verify_state_load" | "verify_policy" => {
            "stamps are our own: take it away"
        }
        "trim_percentage" | "trim_verify_zero" | "trim_backlog" | "trim_backlog_batch"
        | "num_range" => "trims are a job of their own: use rw=randtrim",
        "flow_watermark" => "fio knows it no longer: take it away",
        "thinkcycles" => "cycles differ from processor to processor: use thinktime_spin",
        "fdp" | "dataplacement" | "plid_select" | "plids" | "dp_scheme" | "write_hint"
        | "write_mode" | "cmd_type" | "uncached" | "atomic" => "this kind of command is not sent",
        "sprandom" | "random_sequence_stride" | "ramp_size" | "serialize_overlap" => {
            "not supported"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn knows_what_is_harmless_and_what_is_not() {
        let of = |name, value| treat(name, value).map(|(treatment, _)| treatment);
        assert_eq!(of("gtod_reduce", Some("1")), Some(Ignored));
        assert_eq!(of("atomic", None), Some(Refused));
        assert_eq!(of("atomic", Some("0")), Some(Ignored));
        assert_eq!(of("force_async", Some("4")), Some(Differs));
        assert_eq!(of("log_prio", Some("1")), Some(Differs));
        assert_eq!(of("log_prio", Some("0")), Some(Ignored));
        for name in ["dedupe_global", "rwmixcycle"] {
            assert_eq!(of(name, Some("1")), Some(Ignored), "{name}");
        }
        assert_eq!(of("experimental_verify", Some("1")), Some(Ignored));
        assert_eq!(of("cmdprio_percentage", Some("0")), Some(Ignored));
        for name in ["verify_interval", "verify_offset", "unlink", "cmdprio_percentage"] {
            assert_eq!(of(name, Some("512")), Some(Differs), "{name}");
        }
        assert_eq!(of("no_such_option", None), None);
    }
}
