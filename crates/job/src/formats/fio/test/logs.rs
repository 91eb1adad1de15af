//! Logs and traces that jobs request.

use super::*;

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
    assert_eq!((a.logs.job_of(2), a.logs.job_of(3), c.logs.job_of(0)), (Some(3), Some(1), Some(6)));
    assert_eq!([a, b, clone, c].map(|group| group.logs.joined), [false, true, true, false]);
    let notes = of(&text);
    let said: Vec<String> = notes.notes_of(Treatment::Differs).map(ToString::to_string).collect();
    let [fresh, slat] = &said[..] else { panic!("{said:?}") };
    assert!(fresh.contains("overwrites the log"), "{fresh}");
    assert!(slat.contains("the _slat log is empty") && slat.contains("planned start"), "{slat}");
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
    assert!(
        wrong.contains("x.fio:2: `log_hist_coarseness=7`: 7 is out of range: 0 to 6"),
        "{wrong}"
    );
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
    assert!(clones.contains("a separate file"), "{clones}");
}
