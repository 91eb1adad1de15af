//! fio's job files.
//!
//! Read in three steps that do not know of each other's difficulties: [`lines`] knows the grammar,
//! [`option`] and its helpers know what each setting says, [`convert`] knows what of it our
//! specification can express. What a file would do otherwise is noted, never silent.

mod access;
mod control;
mod convert;
mod data;
mod expression;
mod figures;
mod job;
mod lengths;
mod lines;
mod logs;
mod option;
mod replay;
mod settings;
mod storage;
mod times;
mod treated;
mod value;
mod words;
mod write;
mod zones;

pub use convert::Options;
pub use write::write;

use super::note::FormatError;
use super::reading::Reading;
use super::surroundings::Surroundings;

/// Reads a job file, called `file` in messages.
pub fn read(
    file: &str,
    text: &str,
    surroundings: &Surroundings<'_>,
    options: &Options<'_>,
) -> Result<Reading, FormatError> {
    let sections = lines::split(file, text, surroundings)?;
    let (jobs, notes) = job::jobs(&sections, surroundings)?;
    if jobs.is_empty() {
        let at = super::note::Place { file: file.into(), line: 1 };
        return Err(FormatError::new(&at, "", "no job: begin one with [NAME]"));
    }
    Ok(convert::convert(&jobs, notes, options, surroundings))
}

#[cfg(test)]
pub(super) mod test {
    use super::*;
    use crate::formats::note::Treatment;
    use crate::formats::reading::Storage;
    use crate::spec::{Expect, Extent, Pacing, Places, Quantity, Walk};

    /// Volumes in words of their own: what is meant stands in the name.
    fn name(storage: &Storage) -> Result<String, String> {
        Ok(match storage {
            Storage::File { path, block_bytes, size_bytes, direct, iopoll, sqpoll } => {
                let path = if *block_bytes == Some(1) {
                    format!("any byte of {path}")
                } else {
                    path.clone()
                };
                let polls = match (iopoll, sqpoll) {
                    (false, false) => "",
                    (true, false) => "&iopoll",
                    (false, true) => "&sqpoll",
                    (true, true) => "&both",
                };
                format!("file:{path}?size={}&direct={direct}{polls}", size_bytes.unwrap_or(0))
            }
            Storage::Nothing { size_bytes } => format!("null:{size_bytes}"),
            Storage::Uri(uri) => uri.clone(),
        })
    }

    fn storage(uri: &str) -> Option<Storage> {
        if let Some(size) = uri.strip_prefix("null:") {
            return Some(Storage::Nothing { size_bytes: size.parse().ok()? });
        }
        let (path, rest) = uri.strip_prefix("file:")?.split_once("?size=")?;
        let (size, rest) = rest.split_once("&direct=")?;
        let (direct, polls) = rest.split_once('&').unwrap_or((rest, ""));
        let size_bytes = size.parse().ok().filter(|size| *size > 0);
        let (path, direct) = (path.to_owned(), direct.parse().ok()?);
        let (iopoll, sqpoll) =
            (["iopoll", "both"].contains(&polls), ["sqpoll", "both"].contains(&polls));
        Some(Storage::File { path, block_bytes: None, size_bytes, direct, iopoll, sqpoll })
    }

    fn with(text: &str, around: &Surroundings<'_>) -> Result<Reading, FormatError> {
        let capacity = |uri: &str| uri.contains("/dev/").then_some(1 << 30);
        let node = |number| (number < 2).then(|| vec![2 * number, 2 * number + 1]);
        let (volume, capacity) = (&name, &capacity);
        let options = Options { volumes: &[], volume, capacity, node: &node, seconds: None };
        read("x.fio", text, around, &options)
    }

    pub(super) fn of(text: &str) -> Reading {
        with(text, &Surroundings::none()).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn job(text: &str) -> crate::spec::JobSpec {
        let reading = of(text);
        reading.job.unwrap_or_else(|| panic!("refused: {:?}", reading.notes))
    }

    fn error(text: &str) -> String {
        with(text, &Surroundings::none()).unwrap_err().to_string()
    }

    pub(super) fn refused(text: &str) -> String {
        let reading = of(text);
        assert_eq!(reading.job, None);
        let notes = reading.notes_of(Treatment::Refused);
        notes.map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    const NULL: &str = "[global]\nioengine=null\nsize=1g\ntime_based\nruntime=5\n";

    #[test]
    fn jobs_inherit_and_wait_for_each_other() {
        let text = "; a comment\n[global]\nioengine=io_uring # another\nfilename=/dev/a:/dev/b\n\
            direct=1\nruntime=1m\ntime_based\nbs=8k\n[one]\nrw=randread\niodepth=4\n[two]\n\
            numjobs=3\nrw=write\n[global]\nbs=16k\n[three]\nstonewall\nrw=rw\nrwmixread=70\n";
        let job = job(text);
        assert_eq!(job.steps.len(), 2);
        let [one, two] = &job.steps[0].groups[..] else { panic!("{job:?}") };
        assert_eq!(
            one.volumes,
            ["file:/dev/a?size=0&direct=true", "file:/dev/b?size=0&direct=true"]
        );
        // The depth is that of both files together.
        assert_eq!((one.workers, one.workload.outstanding, two.workers), (1, 2, 3));
        assert_eq!(one.workload.access.random, Places::Once);
        assert_eq!((two.workload.access.read_percent(), job.steps[0].seconds), (0.0, 60.0));
        let three = &job.steps[1].groups[0];
        assert_eq!(three.workload.access.size_bytes(), Some(16384));
        assert_eq!(three.workload.access.read_percent(), 70.0);
        assert!(three.workload.access.apart);
    }

    #[test]
    fn sizes_and_shares_become_lines() {
        let one = |words: &str| {
            let job = job(&format!("{NULL}[a]\n{words}\n"));
            job.steps[0].groups[0].workload.access.clone()
        };
        let shares = |access: &crate::spec::Access| {
            let lines = access.lines.iter();
            lines.map(|l| (l.size_bytes, l.share_percent, l.read_percent)).collect::<Vec<_>>()
        };
        let split = one("rw=randrw\nrwmixread=80\nbssplit=512/10:4k/90");
        assert_eq!(shares(&split), [(512, 10.0, 80.0), (4096, 90.0, 80.0)]);
        assert_eq!((split.lines[1].align(), &split.random), (512, &Places::Uniform));
        let apart = one("rw=rw\nrwmixwrite=25\nbs=4k,8k");
        assert_eq!(shares(&apart), [(4096, 75.0, 100.0), (8192, 25.0, 0.0)]);
        // 4k, 8k, and what is beyond them is cut to 10k.
        let range = one("rw=randread\nbsrange=4k-10k");
        assert_eq!(
            range.lines.iter().map(|l| l.size_bytes).collect::<Vec<_>>(),
            [4096, 8192, 10240]
        );
        assert!((range.lines[2].share_percent - 20.0).abs() < 1e-9);
        assert_eq!(one("rw=read:4k").sequential, Walk::Strided { bytes: 8192 });
        assert_eq!(one("rw=read:-8k").sequential, Walk::Backward);
        assert_eq!(one("rw=randread:8\nnorandommap").run, 8);
        let most = one("rw=randread\npercentage_random=60");
        assert_eq!(most.lines[0].random_percent, 60.0);
        assert_eq!(one("rw=randtrim").lines[0].trim_percent, 100.0);
    }

    #[test]
    fn rates_limits_and_parts_are_kept() {
        let workload = |text: &str| job(text).steps[0].groups[0].workload.clone();
        let rated = workload(&format!("{NULL}[a]\nrw=randrw\nrwmixread=75\nrate_iops=300,100\n"));
        let Pacing::Ios { per_second, .. } = rated.pacing else { panic!("{rated:?}") };
        assert_eq!((per_second, rated.limit_bytes), (400.0, None));
        let bounded = "[a]\nioengine=null\nsize=1m\nloops=3\noffset=1m\n";
        let bounded = workload(bounded);
        assert_eq!(bounded.limit_bytes, Some(3 << 20));
        // A ramp and a first pass for verification go with a size too.
        for words in ["ramp_time=5", "rw=randrw\nverify=md5"] {
            let job = job(&format!("[a]\nioengine=null\nsize=3m\n{words}\n"));
            assert_eq!(job.steps[0].groups[0].workload.limit_bytes, Some(3 << 20), "{words}");
        }
        assert_eq!(bounded.range.start, Extent::Bytes(1 << 20));
        let device = "[a]\nfilename=/dev/a\nsize=50%\nio_size=10%\n";
        // A tenth of the half that is used.
        assert_eq!(workload(device).limit_bytes, Some((1 << 29) / 10));
        let parts = job("[a]\nfilename=/dev/a\nsize=1m\noffset_increment=2m\nnumjobs=3\n");
        let starts: Vec<Extent> =
            parts.steps[0].groups.iter().map(|group| group.workload.range.start).collect();
        assert_eq!(starts, [0, 2 << 20, 4 << 20].map(Extent::Bytes));
        let own = job("[a]\ndirectory=/d\nsize=1m\nnumjobs=2\n");
        let own = &own.steps[0].groups[0];
        assert_eq!(own.volumes[1], "file:/d/a.1.0?size=1048576&direct=false");
        assert_eq!(own.workers, 1);
    }

    #[test]
    fn a_clone_with_a_part_of_its_own_has_only_its_own_file() {
        let apart = job("[a]\nsize=1m\noffset_increment=1m\nnumjobs=3\n");
        let of = |group: &crate::spec::Group| (group.volumes.clone(), group.workload.range.start);
        let expected = |clone: u64| {
            let uri = format!("file:a.{clone}.0?size={}&direct=false", (clone + 1) << 20);
            (vec![uri], Extent::Bytes(clone << 20))
        };
        let found: Vec<_> = apart.steps[0].groups.iter().map(of).collect();
        assert_eq!(found, [0, 1, 2].map(expected));
        // As many as there may be are still read at once.
        let most = job("[a]\nsize=1m\noffset_increment=4k\nnumjobs=65536\n");
        assert_eq!(most.steps[0].groups.len(), 65536);
    }

    #[test]
    fn any_length_goes_through_the_page_cache() {
        let volume = |words: &str| {
            job(&format!("[a]\nsize=22m\nrw=write\n{words}\n")).steps[0].groups[0].volumes[0]
                .clone()
        };
        assert_eq!(volume("bs=2300"), "file:any byte of a.0.0?size=23068672&direct=false");
        assert_eq!(
            volume("bs=4k\noffset=100"),
            "file:any byte of a.0.0?size=23068772&direct=false"
        );
        assert_eq!(volume("bs=2300\ndirect=1"), "file:a.0.0?size=23068672&direct=true");
        let said = refused("[a]\nsize=1m\nbs=100\nverify=md5\n");
        assert!(said.contains("x.fio:3: `bs=100`: what is verified has whole sectors"), "{said}");
    }

    #[test]
    fn what_is_compared_is_written_before_read_later_or_both() {
        let of = |words: &str| {
            let reading = of(&format!("[a]\nsize=1m\nioengine=null\n{words}\n"));
            let notes = reading.notes_of(Treatment::Differs).count();
            let job = reading.job.unwrap_or_else(|| panic!("{words}: {:?}", reading.notes));
            let workload = job.steps[0].groups[0].workload.clone();
            let verify = workload.verify.map(|v| (v.fill, v.sample_percent, v.earlier));
            let pattern = workload.content.pattern.map(|pattern| pattern.to_string());
            (verify, workload.access.read_percent(), pattern.unwrap_or_default(), notes)
        };
        let none = String::new;
        assert_eq!(of("rw=write\nverify=md5"), (Some((false, 100.0, false)), 0.0, none(), 1));
        let unread = Some((false, 0.0, false));
        assert_eq!(of("rw=write\nverify=md5\ndo_verify=0"), (unread, 0.0, none(), 1));
        assert_eq!(of("rw=rw\nverify=md5\ndo_verify=0"), (unread, 50.0, none(), 1));
        assert_eq!(of("rw=rw\nverify=md5"), (Some((true, 100.0, false)), 50.0, none(), 1));
        // What is only read is compared in any case, as by fio.
        let earlier = Some((false, 100.0, true));
        assert_eq!(of("rw=read\nverify=md5\ndo_verify=0"), (earlier, 100.0, none(), 1));
        let only = "verify=md5\nverify_only\nfsync=3\nend_fsync=1\nrate_iops=9";
        assert_eq!(of(&format!("rw=randwrite\n{only}")), (earlier, 100.0, none(), 1));
        let by = |words: &str| of(&format!("rw=read\n{words}"));
        let pattern = "verify_pattern=0xAb\"c\"";
        let text = || "0xab63".to_owned();
        assert_eq!(by(&format!("verify=pattern\n{pattern}")), (earlier, 100.0, text(), 0));
        assert_eq!(by(pattern), (earlier, 100.0, text(), 1));
        assert_eq!(by(&format!("verify=md5\n{pattern}")), (earlier, 100.0, none(), 2));
        assert_eq!(by(&format!("verify=null\n{pattern}")), (None, 100.0, none(), 0));
        let buffers = "buffer_pattern=0xab63\nzero_buffers";
        assert_eq!(of(&format!("rw=rw\n{buffers}")), (None, 50.0, text(), 0));
        assert_eq!(by(&format!("verify=md5\n{buffers}")), (earlier, 100.0, none(), 1));
    }

    #[test]
    fn duplicates_and_chunks_are_those_of_the_file() {
        let of = |words: &str| {
            let job = job(&format!("[a]\nsize=80m\nioengine=null\nrw=write\n{words}\n"));
            let content = job.steps[0].groups[0].workload.content.clone();
            (content.compress_percent, content.chunk_bytes, content.dedupe_blocks)
        };
        let compress = "buffer_compress_percentage=40";
        assert_eq!(of(compress), (40.0, Some(512), None));
        assert_eq!(of(&format!("{compress}\nbuffer_compress_chunk=4k")), (40.0, None, None));
        assert_eq!(of(&format!("{compress}\nzero_buffers")), (40.0, Some(512), None));
        assert_eq!(of("zero_buffers\nbuffer_compress_chunk=1k"), (100.0, None, None));
        assert_eq!(of("dedupe_percentage=30\ndedupe_mode=repeat"), (0.0, None, None));
        let set = "dedupe_percentage=30\ndedupe_mode=working_set";
        assert_eq!(of(set), (0.0, None, Some(1024)));
        let set = format!("{set}\ndedupe_working_set_percentage=50\ndedupe_global");
        assert_eq!(of(&set), (0.0, None, Some(10240)));
    }

    #[test]
    fn lengths_go_by_the_order_of_places_or_are_any() {
        let reading = |words: &str| of(&format!("[a]\nsize=8m\nioengine=psync\n{words}\n"));
        let lines = |words: &str| {
            let job = reading(words).job.unwrap_or_else(|| panic!("{words}"));
            let lines = job.steps[0].groups[0].workload.access.lines.clone();
            let of = |l: crate::spec::Line| {
                (l.size_bytes, l.align(), l.share_percent, l.random_percent, l.read_percent)
            };
            lines.into_iter().map(of).collect::<Vec<_>>()
        };
        let by_order = "bs=4k,16k\nbs_is_seq_rand";
        assert_eq!(lines(&format!("rw=write\n{by_order}")), [(4096, 4096, 100.0, 0.0, 0.0)]);
        // Random writes begin at multiples of their own length.
        let random = lines(&format!("rw=randread\n{by_order}"));
        assert_eq!(random, [(16384, 4096, 100.0, 100.0, 100.0)]);
        let both = lines(&format!("rw=randwrite\npercentage_random=75\n{by_order}"));
        let expected = [(4096, 4096, 25.0, 0.0, 0.0), (16384, 16384, 75.0, 100.0, 0.0)];
        assert_eq!(both, expected);
        let any = lines("rw=write\nbsrange=500-1500\nbs_unaligned");
        assert_eq!((any.len(), any[0].0, any[1].0, any[1000].0), (1001, 500, 501, 1500));
        assert!((any[0].2 - 100.0 / 1500.0).abs() < 1e-9 && any[0].1 == 1, "{:?}", any[0]);
        assert!((any.iter().map(|line| line.2).sum::<f64>() - 100.0).abs() < 1e-6);
        let many = reading("rw=randread\nbsrange=512-64k\nbs_unaligned");
        let spread = many.notes_of(Treatment::Differs).any(|note| note.why.contains("evenly"));
        assert!(spread && many.job.is_some());
        for (words, part) in [
            ("bsrange=512-4k\nbs_unaligned\ndirect=1", "page cache: take direct=0"),
            ("bsrange=512-4k\nbs_unaligned\nverify=md5", "whole sectors"),
            ("bsrange=1-64k", "stands for 65536 sizes"),
            ("rw=randread:2\nbs_is_seq_rand", "single random places"),
        ] {
            let said = refused(&format!("[a]\nsize=8m\nioengine=psync\n{words}\n"));
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_clone_goes_from_file_to_file() {
        let of = |words: &str| job(&format!("[a]\nsize=1m\nnrfiles=4\nrw=write\n{words}\n"));
        let turns = of("numjobs=2\niodepth=8\nioengine=libaio").steps.remove(0);
        let names = |group: &crate::spec::Group| group.volumes.concat();
        let of_clone = |clone: u32| {
            let file = |n: u32| format!("file:a.{clone}.{n}?size=262144&direct=false");
            (0..4).map(file).collect::<String>()
        };
        let found: Vec<String> = turns.groups.iter().map(names).collect();
        assert_eq!(found, [of_clone(0), of_clone(1)]);
        let first = &turns.groups[0];
        let stripes = |bytes| Some(crate::spec::Stripes { bytes, share_bytes: Some(262144) });
        // One depth and one size for all.
        assert_eq!((first.stripes, first.workload.outstanding), (stripes(4096), 8));
        assert_eq!((first.workload.limit_bytes, turns.workers()), (Some(1 << 20), 2));
        let stripes_of = |words: &str| of(words).steps[0].groups[0].stripes;
        assert_eq!(stripes_of("file_service_type=roundrobin:4"), stripes(16384));
        assert_eq!(stripes_of("file_service_type=sequential"), stripes(262144));
        assert_eq!(stripes_of("openfiles=1"), stripes(262144));
        assert_eq!(stripes_of("rw=randread\nfile_service_type=random"), stripes(4096));
        // Named files: as many workers, if each has an I/O of its own under way.
        let named = |depth: u32| {
            let text = format!("[a]\nfilename=/dev/a:/dev/b\nioengine=libaio\niodepth={depth}\n");
            let group = job(&text).steps.remove(0).groups.remove(0);
            (group.stripes.is_some(), group.workload.outstanding)
        };
        assert_eq!((named(1), named(4)), ((true, 1), (false, 2)));
    }

    #[test]
    fn a_job_ends_when_it_is_steady() {
        let of = |words: &str| of(&format!("{NULL}[a]\n{words}\n"));
        let steady = |words: &str| of(words).job.unwrap().steps[0].steady;
        let words = "ss=iops_slope:0.3%\nss_dur=30m\nss_ramp=10s\nss_interval=10";
        let found = steady(words).unwrap();
        assert_eq!((found.of, found.slope, found.percent), (Quantity::Iops, true, true));
        assert_eq!((found.below, found.values(), found.after_seconds), (0.3, 180, 10.0));
        // fio looks at nothing without a duration.
        assert_eq!((steady("ss=iops:10%"), steady("rw=read")), (None, None));
        let clones = of("numjobs=2\nss=bw:1%\nss_dur=9");
        assert_eq!(clones.notes_of(Treatment::Differs).count(), 1);
        let apart = refused(&format!("{NULL}[a]\nss=bw:1%\nss_dur=9\n[b]\n"));
        assert!(apart.contains("the same steadystate"), "{apart}");
    }

    #[test]
    fn the_page_cache_is_treated_as_by_fio() {
        let cache = |words: &str| {
            let group = job(&format!("[a]\nsize=1m\n{words}\n")).steps.remove(0).groups.remove(0);
            (group.cache.drop, group.cache.expect)
        };
        assert_eq!(cache("rw=randread"), (true, Expect::Random));
        assert_eq!(cache("rw=read"), (true, Expect::Sequential));
        let other = cache("rw=read\ninvalidate=0\nfadvise_hint=random");
        assert_eq!(other, (false, Expect::Random));
        assert_eq!(cache("rw=randread\nfadvise_hint=0"), (true, Expect::Unknown));
        for none in ["direct=1", "ioengine=null"] {
            assert_eq!(cache(none), (false, Expect::Unknown), "{none}");
        }
        let first = job("[a]\nsize=1m\ninvalidate=0\nfilename=/dev/x\n");
        let written = write(&first, &storage).unwrap();
        assert_eq!(job(&written).steps[0].groups[0].cache, first.steps[0].groups[0].cache);
    }

    #[test]
    fn logs_are_numbered_like_fios_jobs() {
        let text = format!(
            "{NULL}log_avg_msec=1000\nwrite_bw_log=all\n[a]\nnumjobs=3\nrw=randread\n\
             write_iops_log\n[b]\nnumjobs=2\nstartdelay=1-2\nper_job_logs=0\nwrite_bw_log\n\
             [c]\nstonewall\nwrite_lat_log=x/y\nrate_iops=9\n"
        );
        let first = job(&text);
        let groups: Vec<_> = first.steps.iter().flat_map(|step| &step.groups).collect();
        let [a, b, clone, c] = &groups[..] else { panic!("{groups:?}") };
        let names = |group: &crate::spec::Group| group.logs.names().collect::<Vec<_>>().join(" ");
        assert_eq!([a, b, c].map(|group| names(group)), ["all a", "all", "all x/y"]);
        let numbers = [a, b, clone, c].map(|group| (group.logs.first, group.logs.jobs));
        assert_eq!(numbers, [(1, 3), (4, 1), (5, 1), (6, 1)]);
        assert_eq!(
            (a.logs.job_of(2), a.logs.job_of(3), c.logs.job_of(0)),
            (Some(3), Some(1), Some(6))
        );
        assert_eq!([a, b, clone, c].map(|group| group.logs.joined), [false, true, true, false]);
        let notes = of(&text);
        let said: Vec<String> =
            notes.notes_of(Treatment::Differs).map(ToString::to_string).collect();
        let [fresh, slat] = &said[..] else { panic!("{said:?}") };
        assert!(fresh.contains("begins the log anew"), "{fresh}");
        assert!(slat.contains("no _slat log") && slat.contains("planned starts"), "{slat}");
        assert_eq!(job("[a]\nsize=1m\nlog_avg_msec=500\n").steps[0].groups[0].logs.job_of(0), None);
        for (words, window_ms) in [("", 0), ("log_avg_msec=250\nlog_offset=1\n", 250)] {
            let of = of(&format!("{NULL}{words}[a]\nwrite_bw_log\n"));
            assert_eq!(of.notes_of(Treatment::Differs).count(), 0, "{:?}", of.notes);
            let logs = of.job.unwrap().steps.remove(0).groups.remove(0).logs;
            assert_eq!((logs.window_ms, logs.offsets), (window_ms, window_ms > 0));
        }
        let longest = job(&format!("{NULL}[a]\nwrite_lat_log\nlog_max_value=1\n"));
        assert!(longest.steps[0].groups[0].logs.longest);
        let both = refused(&format!("{NULL}[a]\nlog_window_value=both\n"));
        assert!(both.contains("x.fio:7: `log_window_value=both`: both is not supported"), "{both}");
        let again = job(&write(&first, &storage).unwrap());
        let again: Vec<_> = again.steps.iter().flat_map(|step| &step.groups).collect();
        assert!(groups.iter().zip(&again).all(|(old, new)| old.logs == new.logs), "{again:?}");
    }

    #[test]
    fn histograms_have_windows_of_their_own() {
        let first =
            job(&format!("{NULL}[a]\nwrite_hist_log\nlog_hist_msec=200\nlog_hist_coarseness=2\n"));
        let logs = &first.steps[0].groups[0].logs;
        let expected =
            crate::spec::HistogramLog { name: "a".to_owned(), window_ms: 200, coarseness: 2 };
        assert_eq!((logs.histograms.as_ref(), logs.job_of(0)), (Some(&expected), Some(1)));
        assert_eq!(job(&write(&first, &storage).unwrap()).steps[0].groups[0].logs, *logs);
        let wrong = error("[a]\nlog_hist_coarseness=7\n");
        assert!(wrong.contains("x.fio:2: `log_hist_coarseness=7`: 7 is not 0 to 6"), "{wrong}");
    }

    #[test]
    fn a_trace_is_that_of_one_job() {
        let first = job(&format!("{NULL}[a]\nwrite_iolog=x.log\n[b]\nwrite_iolog=y.log\n"));
        let logs: Vec<_> = first.steps[0].groups.iter().map(|group| &group.logs).collect();
        assert_eq!((logs[0].trace.as_deref(), logs[1].job_of(0)), (Some("x.log"), Some(2)));
        assert_eq!(job(&write(&first, &storage).unwrap()).steps[0].groups[1].logs, *logs[1]);
        let shared = refused(&format!("{NULL}write_iolog=x.log\n[a]\n[b]\n"));
        assert!(shared.contains("x.fio:6: `write_iolog=x.log`: fio writes the traces"), "{shared}");
        let clones = refused(&format!("{NULL}[a]\nnumjobs=2\nwrite_iolog=x.log\n"));
        assert!(clones.contains("a trace of its own"), "{clones}");
    }

    #[test]
    fn a_delay_comes_before_the_ramp() {
        let text = format!("{NULL}ramp_time=3\nstartdelay=2\n[a]\n[b]\nrw=randread\n");
        let step = job(&text).steps.remove(0);
        assert_eq!((step.ramp_seconds, step.seconds), (5.0, 5.0));
        assert!(step.groups.iter().all(|group| group.when.delay_seconds == 2.0), "{step:?}");
        assert!(step.groups.iter().all(|group| group.when.seconds.is_none()), "{step:?}");
        let first = job(&text);
        assert_eq!(job(&write(&first, &storage).unwrap()), first);
    }

    #[test]
    fn jobs_begin_and_end_in_their_turn() {
        let text = format!(
            "{NULL}[a]\n[b]\nstartdelay=2\nruntime=9\n[c]\nwait_for=b\nstartdelay=1\n\
             [d]\nnumjobs=3\nstartdelay=1-3\n[e]\nstonewall\nwait_for=a\nnumber_ios=7\nexitall\n"
        );
        let job = job(&text);
        let [first, second] = &job.steps[..] else { panic!("{job:?}") };
        let when = |group: &crate::spec::Group| {
            (group.when.after.clone(), group.when.delay_seconds, group.when.seconds)
        };
        let found: Vec<_> = first.groups[..3].iter().map(when).collect();
        let none = String::new;
        let expected = [
            (none(), 0.0, Some(5.0)),
            (none(), 2.0, Some(9.0)),
            // Whom it waits for may end sooner.
            ("b".to_owned(), 1.0, Some(5.0)),
        ];
        assert_eq!((found, first.seconds), (expected.to_vec(), 2.0 + 9.0 + 1.0 + 5.0));
        let drawn: Vec<f64> = first.groups[3..].iter().map(|g| g.when.delay_seconds).collect();
        assert!(drawn.iter().all(|s| (1.0..=3.0).contains(s)), "{drawn:?}");
        assert!(drawn.len() == 3 && drawn[0] != drawn[1], "{drawn:?}");
        // Who is waited for has ended before the stonewall.
        assert_eq!((when(&second.groups[0]), second.seconds), ((none(), 0.0, None), 5.0));
        assert_eq!(second.groups[0].workload.limit_ios, Some(7));
        assert!(first.ends_with_first && second.ends_with_first);
        // One length for all says nothing.
        let plain = self::job(&format!("{NULL}[a]\n[b]\n"));
        assert!(plain.steps[0].groups.iter().all(|group| group.when == Default::default()));
    }

    #[test]
    fn jobs_may_have_processors_of_their_own() {
        let cores = |text: &str| {
            let reading = of(&format!("{NULL}{text}"));
            let groups = reading.job.unwrap().steps.remove(0).groups;
            let groups: Vec<Vec<usize>> = groups.into_iter().map(|group| group.cores).collect();
            (reading.cores, groups)
        };
        let apart = cores("[a]\ncpus_allowed=1,3\n[b]\nnuma_cpu_nodes=1\n[c]\n");
        assert_eq!(apart, (vec![], vec![vec![1, 3], vec![2, 3], vec![]]));
        assert_eq!(cores("cpumask=5\n[a]\n[b]\n"), (vec![0, 2], vec![vec![], vec![]]));
    }

    #[test]
    fn only_what_writes_ends_with_a_flush() {
        let flushes = |words: &str| {
            job(&format!("{NULL}[a]\n{words}\n")).steps[0].groups[0].workload.end_flush
        };
        assert!(flushes("rw=write\nend_fsync=1") && flushes("rw=randrw\nfsync_on_close"));
        assert!(!flushes("rw=read\nend_fsync=1") && !flushes("rw=write\nend_fsync=0"));
    }

    #[test]
    fn a_synchronous_engine_has_one_under_way_and_says_so() {
        let reading = of("[a]\nfilename=/dev/a\nioengine=psync\niodepth=16\n");
        assert_eq!(reading.job.unwrap().steps[0].groups[0].workload.outstanding, 1);
        let said = reading.notes[0].to_string();
        assert!(said.contains("differs x.fio:4: `iodepth=16`"), "{said}");
    }

    #[test]
    fn polls_where_fio_does() {
        let volume = |words: &str| {
            let text = format!("[a]\nfilename=/dev/a\ndirect=1\nioengine={words}\n");
            job(&text).steps[0].groups[0].volumes[0].clone()
        };
        let plain = "file:/dev/a?size=0&direct=true";
        assert_eq!(volume("io_uring\nhipri"), format!("{plain}&iopoll"));
        assert_eq!(volume("io_uring\nsqthread_poll=1"), format!("{plain}&sqpoll"));
        assert_eq!(volume("io_uring\nhipri=1\nsqthread_poll"), format!("{plain}&both"));
        assert_eq!(volume("pvsync2\nhipri"), format!("{plain}&iopoll"));
        assert_eq!(volume("io_uring\nhipri=0\nsqthread_poll=0"), plain);
        let thread = of("[a]\nfilename=/dev/a\nioengine=io_uring\nsqthread_poll_cpu=1\n");
        assert_eq!(thread.notes_of(Treatment::Differs).count(), 1);
    }

    #[test]
    fn what_would_not_be_as_it_stands_is_named() {
        for (words, line, part) in [
            ("ioengine=mmap\nfilename=/dev/a", 7, "pages that are touched"),
            ("size=8z", 7, "8z: sizes in zones"),
            ("ioengine=rdma", 7, "the engine rdma is not supported"),
            ("verify=meta\nrw=randtrim", 7, "the method meta"),
            ("rw=trimwrite\nbs=4k,8k,4k", 8, "as long as what is written"),
            ("rw=trimwrite\nrate_iops=5", 8, "trims and writes in turn"),
            ("rw=trimwrite\nverify=crc32c", 8, "trims are not verified"),
            ("verify=pattern", 7, "a verify_pattern is missing"),
            ("verify_only", 7, "wants a verify"),
            ("rw=randrw\nverify=md5\nverify_only=1", 9, "beside reads is not known"),
            ("rw=write\nverify=md5\nverify_only=1", 9, "a job that ends by its size"),
            ("rw=write\nverify=md5\nbuffer_pattern=1", 9, "are our own stamps"),
            ("rw=write\nverify=md5\ndedupe_percentage=9", 9, "nothing can compress"),
            ("rw=randwrite\nbs=4k,8k\nbssplit=4k:8k\nverify_pattern=%o", 10, "one size"),
            ("no_such_option=1", 7, "not an option"),
            ("rw=randrw\nrate_iops=100,300", 8, "ratio of rwmixread"),
            ("flow_watermark=5", 7, "no longer"),
            ("nrfiles=2\nbs=4k,8k\nrw=rw\nioengine=psync", 7, "I/Os of one size"),
            ("nrfiles=2\nfile_service_type=random\nioengine=psync", 8, "in turn"),
            ("nrfiles=2\nfile_service_type=roundrobin:3\nioengine=psync", 8, "number of turns"),
        ] {
            let said = refused(&format!("{NULL}[a]\n{words}\n"));
            assert!(said.contains(part) && said.contains(&format!("x.fio:{line}")), "{said}");
        }
        let buffers = of(&format!("{NULL}[a]\nrw=write\nscramble_buffers=0\nunlink=1\n"));
        assert_eq!(buffers.notes_of(Treatment::Differs).count(), 2);
        let reading = of(&format!("{NULL}[a]\ngtod_reduce=1\nthread\n[b]\nrw=randread\n"));
        assert_eq!(reading.notes_of(Treatment::Ignored).count(), 2);
        assert!(reading.job.is_some());
        let ramps = refused(&format!("{NULL}[a]\nramp_time=1\n[b]\n"));
        assert!(ramps.contains("same ramp_time"), "{ramps}");
        let ramp = refused(&format!("{NULL}ramp_time=1\n[a]\n[b]\nstartdelay=1\n"));
        assert!(ramp.contains("x.fio:6: `ramp_time=1`: a ramp is that of all jobs"), "{ramp}");
        let nobody = refused(&format!("{NULL}[a]\n[b]\nwait_for=c\n"));
        assert!(nobody.contains("x.fio:8: `wait_for=c`: no job before it is called c"), "{nobody}");
        let node = refused(&format!("{NULL}[a]\nnuma_cpu_nodes=0,7\n"));
        assert!(node.contains("no processors of a node 7"), "{node}");
    }

    #[test]
    fn what_cannot_be_read_names_its_line() {
        for (text, part) in [
            ("rw=read\n", "x.fio:1: `rw=read`: a setting outside"),
            ("[a\n", "[NAME]"),
            ("[a]\n=4\n", "x.fio:2: `=4`"),
            ("[a]\nbs=4q\n", "x.fio:2: `bs=4q`: '4q' is not a size"),
            ("[a]\nrw=sideways\n", "'sideways' is none of read"),
            ("[a]\ninclude more.fio\n", "cannot read more.fio"),
            ("[a]\nfilename=${DISK}\n", "the variable DISK is not set"),
            ("[a]\nsize=8*$mb_memory/0\n", "cannot be calculated"),
            ("[global]\nbs=4k\n", "no job"),
            ("", "no job"),
            ("[a]\niodepth=0\n", "at least 1"),
            ("[a]\nbs\n", "a value is missing"),
            ("[a]\nbuffer_pattern=%o\n", "x.fio:2: `buffer_pattern=%o`: %o stands in a verify"),
            ("[a]\nverify_pattern=abcd\n", "'abcd' is no part of a pattern"),
            ("[a]\nverify_pattern='none'\n", "cannot read none"),
        ] {
            let said = error(text);
            assert!(said.contains(part), "{said}");
        }
        assert!(error(&format!("[a]\n{}\n", "x".repeat(9000))).contains("8192"));
        assert!(error(&format!("[{}]\n", "x".repeat(300))).contains("255"));
    }

    #[test]
    fn files_variables_and_the_host_come_in() {
        let around = Surroundings {
            read: Box::new(|path| match path.to_str() {
                Some("more.fio") => Ok("bs=2k\ninclude deep.fio\n".to_owned()),
                Some("deep.fio") => Ok("iodepth=${DEPTH}\n".to_owned()),
                Some("self.fio") => Ok("include self.fio\n".to_owned()),
                Some("many.fio") => Ok("include none.fio\n".repeat(200)),
                Some("none.fio") => Ok(String::new()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            }),
            variable: Box::new(|name| (name == "DEPTH").then(|| "7".to_owned())),
            memory_mib: 512,
            ..Surroundings::none()
        };
        let text = format!("{NULL}[a]\ninclude more.fio\nio_size=2*$mb_memory*1024\n");
        let reading = with(&text, &around).unwrap();
        let workload = &reading.job.unwrap().steps[0].groups[0].workload;
        assert_eq!((workload.access.size_bytes(), workload.outstanding), (Some(2048), 7));
        let endless = with("[a]\ninclude self.fio\n", &around).unwrap_err().to_string();
        assert!(endless.contains("self.fio:1") && endless.contains("8 deep"), "{endless}");
        let many =
            with("[a]\ninclude many.fio\ninclude many.fio\n", &around).unwrap_err().to_string();
        assert!(many.contains("many.fio:55") && many.contains("256 files"), "{many}");
    }

    #[test]
    fn what_is_written_is_read_as_the_same_job() {
        for words in [
            "rw=randrw\nrwmixread=80\nbssplit=512/10:4k/90\nbuffer_compress_percentage=30",
            "rw=rw\nbs=4k,8k\nrwmixread=30\nfsync=8\nsync=dsync",
            "rw=read:12k\nnumjobs=4\nramp_time=2\nthinktime=50\nthinktime_blocks=3",
            "rw=randread:4\nrandom_distribution=zipf:1.2\npercentage_random=40",
            "rw=randwrite\nrandom_distribution=zoned_abs:60/256m:40/768m\nrate=10m\nkb_base=1000",
            "rw=randread\nba=512\nbs=4k\nrate_iops=500\nrate_process=poisson\niodepth=32",
            "rw=randrw\nverify=crc32c\nrandseed=77",
            "rw=randwrite\nverify=md5",
            "rw=randwrite\nverify=md5\ndo_verify=0",
            "rw=randrw\nverify=md5\ndo_verify=0",
            "rw=randread\nverify=md5",
            "rw=randrw\nverify=pattern\nverify_pattern=0xff%o\"abcd\"-12",
            "rw=write\nbuffer_compress_percentage=40\nbuffer_compress_chunk=64k",
            "rw=randread:4\nrw_sequencer=identical\nnorandommap",
            "rw=write\nbuffer_pattern=\"abc\"\nbuffer_compress_percentage=40",
            "rw=read:-8k\nruntime=1500ms",
            "rw=randwrite\nend_fsync=1\nnumber_ios=500\nstartdelay=2500ms\ntime_based=0",
            "rw=randwrite\nruntime=7\nexitall",
            "rw=randrw\npercentile_list=99.9:5\nlat_percentiles=1\nunified_rw_reporting=both",
            "rw=trim\noffset=1m\nsize=2m\ntime_based=0\nio_size=8m",
            "rw=randread\nzonemode=strided\nzonesize=1m\nzonerange=256k\nzoneskip=64k",
            "thinktime=1s\nthinktime_spin=1ms\nthinktime_iotime=2\nrate=1m\nrate_ignore_thinktime",
            "thinktime=9\nthinktime_blocks=3\nthinktime_iotime=2\nthinktime_blocks_type=issue",
            "rw=rw\nrate_iops_min=10,20\nrate_cycle=300\nmax_latency=5s,1s,7ms",
            "latency_target=700\nlatency_window=9s\nlatency_percentile=99.9\nlatency_run",
            "flow=3\nflow_id=9\nflow_sleep=100\nrate_min=1k",
            "rw=write\nzonemode=strided\nzonesize=4k\nzonerange=16k",
        ] {
            let text = format!("{NULL}[a]\n{words}\n[b]\nstonewall\n{words}\n");
            let first = job(&text);
            let written = write(&first, &storage).unwrap_or_else(|why| panic!("{words}: {why}"));
            assert_eq!(job(&written), first, "{written}");
        }
        let text =
            format!("{NULL}[a]\ncpus_allowed=0,2\nruntime=2\n[b]\nstartdelay=1\n[c]\nwait_for=a\n");
        let first = job(&text);
        assert_eq!(job(&write(&first, &storage).unwrap()), first);
    }

    #[test]
    fn volumes_behind_the_file_stand_for_its_own() {
        let volumes = ["ram:1g".to_owned(), "ram:2g".to_owned()];
        let text = "[global]\nruntime=1\ntime_based\nfilename=/dev/a\n[a]\n[b]\nfilename=/dev/b\n";
        let read_with = |volumes| {
            let (volume, capacity) = (&name, &|_: &str| None);
            let options = Options { volumes, volume, capacity, node: &|_| None, seconds: None };
            read("x.fio", text, &Surroundings::none(), &options).unwrap()
        };
        let job = read_with(&volumes).job.unwrap();
        let [a, b] = &job.steps[0].groups[..] else { panic!("{job:?}") };
        assert_eq!((&a.volumes[0], &b.volumes[0]), (&volumes[0], &volumes[1]));
        let few = read_with(&volumes[..1]);
        assert!(few.job.is_none() && few.notes[0].why.contains("names 2 volumes"), "{few:?}");
    }
}
