use std::cell::Cell;

use super::*;
use crate::formats::fio::test::{job, of, refused};
use crate::formats::fio::{Options, read, write};
use crate::formats::note::Note;
use crate::formats::surroundings::Surroundings;

const SPDK: &str = "[global]\nioengine=spdk\nthread=1\ntime_based\nruntime=5\n[a]\n";
const FILE: &str = "filename=trtype=TCP adrfam=IPv4 traddr=10.0.0.1 trsvcid=4420 \
                    subnqn=nqn.2026-11.x\\:a ns=2";

fn remote() -> Remote {
    let (host, target) = ("10.0.0.1".to_owned(), "nqn.2026-11.x:a".to_owned());
    Remote { host, port: 4420, target, unit: 2, ..Remote::default() }
}

fn volumes(text: &str) -> Vec<String> {
    job(text).steps[0].groups[0].volumes.clone()
}

fn notes(text: &str) -> Vec<(Treatment, u32)> {
    of(text).notes.iter().map(|note: &Note| (note.treatment, note.at.line)).collect()
}

#[test]
fn identifiers_and_options_name_a_volume() {
    let text = format!("{SPDK}{FILE}\nrw=randread\niodepth=8\ndigest_enable=both\nhostnqn=me\n");
    let initiator = Some("me".to_owned());
    let want = Remote { header_digest: true, data_digest: true, initiator, ..remote() };
    assert_eq!(volumes(&text), [format!("{want:?}")]);
    assert_eq!(job(&text).steps[0].groups[0].workload.outstanding, 8);
    // The `hostnqn` in the name of a file has priority.
    let text = format!("{SPDK}{FILE} hostnqn=you\nhostnqn=me\ndigest_enable=NONE\n");
    let want = Remote { initiator: Some("you".to_owned()), ..remote() };
    assert_eq!(volumes(&text), [format!("{want:?}")]);
    let two =
        format!("{SPDK}{FILE}:trtype=TCP traddr=\\:\\:1 trsvcid=1 subnqn=x ns=1\niodepth=4\n");
    assert_eq!(volumes(&two).len(), 2);
    assert!(volumes(&two)[1].contains("\"::1\""));
}

#[test]
fn nbd_is_named_by_its_uri_alone() {
    let text = "[a]\nioengine=nbd\nuri=nbd://h/disk\nfilename=ignored\ntime_based\nruntime=5\n";
    assert_eq!(volumes(text), ["nbd://h/disk"]);
    assert!(refused("[a]\nioengine=nbd\nsize=1m\n").contains("uri=nbd://"));
    let elsewhere = refused("[a]\nioengine=psync\nfilename=/dev/x\nuri=nbd://h/disk\n");
    assert!(elsewhere.contains("x.fio:4: `uri=nbd://h/disk`: only ioengine=nbd"), "{elsewhere}");
}

#[test]
fn what_is_left_out_of_a_name_is_said() {
    let text = format!("{SPDK}filename=trtype=tcp traddr=h trsvcid=4420 priority=1\n");
    assert_eq!(notes(&text)[1..], [(Differs, 7), (Differs, 7), (Differs, 7)]);
    assert!(volumes(&text)[0].contains("target: \"\""));
}

#[test]
fn names_that_are_none_are_refused_with_their_line() {
    for (name, part) in [
        ("trtype=PCIe traddr=0000.04.00.0 ns=1", "/dev/nvme0n1"),
        ("trtype=TCP traddr=h trsvcid=99999 ns=1", "trsvcid=99999 is not a port"),
        ("trtype=TCP traddr=h trsvcid=4420 subnqn=nqn.2016-06.io.spdk:cnode1 ns=1", "\\:"),
        ("/dev/sdb", "KEY=VALUE"),
    ] {
        let why = refused(&format!("{SPDK}filename={name}\n"));
        assert!(why.contains("x.fio:7:") && why.contains(part), "{name}: {why}");
    }
    assert!(refused(SPDK).contains("spdk needs a volume"));
}

#[test]
fn options_of_the_plugin_are_treated_by_name() {
    let ignored = "mem_size_mb=64\nshm_id=1\nenable_sgl=1\nsge_size=512\nlog_flags=a\n\
                   disable_pcie_sgl_merge=1\nprint_qid_mappings=1\nspdk_tracing=1\nenable_vmd=1\n\
                   enable_interrupts=1\nenable_wrr=0\nwrr_priority=2\npi_act=0\npi_chk=GUARD\n\
                   apptag=1\napptag_mask=1\nmd_per_io_size=1\ninitial_zone_reset=0\n";
    let found = notes(&format!("{SPDK}{FILE}\n{ignored}"));
    assert!(found.iter().all(|(treatment, _)| *treatment == Ignored), "{found:?}");
    assert_eq!(found.len(), ignored.lines().count() + 1);
    for word in ["enable_wrr=1", "bit_bucket_data_len=512", "initial_zone_reset=1", "zone_append=1"]
    {
        assert!(refused(&format!("{SPDK}{FILE}\n{word}\n")).contains(word), "{word}");
    }
    let foreign = "[a]\nioengine=psync\nfilename=x\nsize=1m\ndigest_enable=BOTH\ninitiator=x\n";
    let why = refused(foreign);
    assert!(why.contains("only ioengine=spdk") && why.contains("only ioengine=libiscsi"), "{why}");
    assert!(
        crate::formats::fio::test::error(&format!("{SPDK}{FILE}\ndigest_enable=some\n"))
            .contains("one of NONE")
    );
}

#[test]
fn uris_are_read_as_libiscsi_reads_them() {
    const JOB: &str = "[a]\nioengine=libiscsi\ntime_based\nruntime=5\n";
    let one = |words: &str| volumes(&format!("{JOB}{words}\n")).remove(0);
    let plain = "scsi://h/iqn.2026-11.x:d/1";
    assert_eq!(one("filename=scsi\\://h/iqn.2026-11.x\\:d/1"), plain);
    assert_eq!(one("filename=scsi\\://h/iqn.2026-11.x%3ad/1"), plain);
    assert_eq!(one("filename=scsi\\://me%secret@h/iqn.2026-11.x%3Ad/1"), plain);
    let named = one("filename=scsi\\://h/iqn.2026-11.x\\:d/1?reconnect=9s\ninitiator=iqn.x");
    assert_eq!(named, format!("{plain}?reconnect=9s&initiator=iqn.x"));
    let secret = format!("{JOB}filename=scsi\\://me@h/d/1\n");
    assert_eq!(notes(&secret), [(Ignored, 5)]);
    for (name, part) in [
        ("/dev/sdb", "URI of a volume"),
        ("scsi\\://h/a%2/1", "'%2/'"),
        ("scsi\\://h/a%2fb/1", "'%2f'"),
        ("scsi\\://h/a%é/1", "'%é/'"),
    ] {
        let why = refused(&format!("{JOB}filename={name}\n"));
        assert!(why.contains(part), "{name}: {why}");
    }
}

/// Reads a job; returns its limit and the number of capacity queries.
fn asked(text: &str, capacity: Option<u64>, volumes: &[String]) -> (Option<u64>, u32) {
    let asked = Cell::new(0);
    let capacity = |_: &str| {
        asked.set(asked.get() + 1);
        capacity
    };
    let volume = |storage: &Storage| Ok(format!("{storage:?}"));
    let options = Options {
        volumes,
        volume: &volume,
        capacity: &capacity,
        is_far: &|_| true,
        node: &|_| None,
        polls: &|_| true,
        is_fio: false,
        seconds: None,
    };
    let reading = read("x.fio", text, &Surroundings::none(), &options).unwrap();
    let bytes = reading.job.map(|job| job.steps[0].groups[0].workload.limit_bytes.unwrap_or(0));
    (bytes, asked.get())
}

#[test]
fn a_host_is_asked_how_much_there_is_only_where_the_job_ends_by_it() {
    let whole = format!("[global]\nioengine=spdk\n{FILE}\n[a]\n[b]\n");
    assert_eq!(asked(&whole, Some(1 << 20), &[]), (Some(1 << 20), 1));
    // A host that does not answer is queried once, and no other after it.
    let other = format!("{whole}{}\n", FILE.replace("10.0.0.1", "10.0.0.2"));
    assert_eq!(asked(&other, None, &[]), (None, 1));
    assert_eq!(asked(&format!("{whole}[global]\n"), Some(1 << 20), &[]).1, 1);
    for words in ["size=64k", "io_size=1m", "time_based\nruntime=1"] {
        let text = format!("[global]\nioengine=spdk\n{FILE}\n{words}\n[a]\n");
        assert_eq!(asked(&text, None, &[]).1, 0, "{words}");
    }
}

#[test]
fn a_volume_may_be_given_instead_of_any_name() {
    for words in ["", "filename=trtype=PCIe traddr=0000.04.00.0 ns=1\n"] {
        let text = format!("[a]\nioengine=spdk\nsize=1m\n{words}");
        assert_eq!(asked(&text, None, &["null:1g".to_owned()]), (Some(1 << 20), 0));
    }
    // A given volume on another host is queried, too.
    let text = "[a]\nioengine=libaio\ndirect=1\nfilename=/dev/sdb\n";
    let given = ["scsi://h/d/1".to_owned()];
    assert_eq!(asked(text, Some(1 << 20), &given), (Some(1 << 20), 1));
    assert_eq!(asked(&format!("{text}size=1m\n"), None, &given), (Some(1 << 20), 0));
}

#[test]
fn what_is_written_is_read_again() {
    let initiator = Some("nqn.2026-11.x:me".to_owned());
    let remotes = [
        remote(),
        Remote { data_digest: true, initiator, ..remote() },
        Remote { host: "fe80::1".to_owned(), target: String::new(), ..remote() },
    ];
    for remote in remotes {
        let mut wanted = job(&format!("{SPDK}{FILE}\nrw=randrw\niodepth=4\n"));
        let name = format!("{remote:?}");
        wanted.steps[0].groups[0].volumes = vec![name.clone()];
        let text = write(&wanted, &|_| Some(Storage::Remote(remote.clone()))).unwrap();
        assert!(text.contains("\nthread=1\n"), "{text}");
        assert_eq!(job(&text).steps[0].groups, wanted.steps[0].groups, "{text}");
    }
    let wanted = job(&format!("{SPDK}{FILE}\n"));
    let uri = |_: &str| Some(Storage::Uri("scsi://h:1/d/1?initiator=me".to_owned()));
    let text = write(&wanted, &uri).unwrap();
    assert!(text.contains("filename=scsi\\://h\\:1/d/1\n") && text.contains("\ninitiator=me\n"));
}
