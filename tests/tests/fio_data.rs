//! Data that fio's jobs write and verify, compared with the installed fio: fio reads our patterns,
//! and we read fio's.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::fio::with;
use drumfire_tests::{Drumfire, Finished, Folder, require, run};

const LIMIT: Duration = Duration::from_secs(300);
const MISMATCH: Option<i32> = Some(5);

/// A folder with a job.
fn ours(drumfire: &Drumfire, folder: &Folder, args: &str) -> Finished {
    drumfire.run(folder.path(), args, LIMIT)
}

fn theirs(fio: &Path, folder: &Folder) -> Finished {
    let mut command = Command::new(fio);
    command.arg("job.fio").current_dir(folder.path());
    run(&mut command, LIMIT)
}

/// Changes one byte of a file.
fn damage(folder: &Folder, name: &str, at: usize) {
    let path = folder.path().join(name);
    let mut data = fs::read(&path).unwrap();
    data[at] ^= 0x10;
    fs::write(path, data).unwrap();
}

const WRITE: &str = "[w]\nfilename=f\nsize=256k\nbs=8k\nioengine=psync\n";

#[test]
fn what_one_job_wrote_a_later_one_compares() {
    let Some(drumfire) = Drumfire::find() else { return };
    let write = format!("{WRITE}rw=randwrite\nverify=crc32c\ndo_verify=0\n");
    let folder = with(&write);
    let wrote = ours(&drumfire, &folder, "run job.fio --out o --json").ok();
    let checks = wrote.json()["checks"].as_array().unwrap().clone();
    let data = checks.iter().find(|check| check["code"] == "H05").unwrap();
    assert_eq!(data["verdict"], "unknown", "nothing was compared: {data}");
    let compared = "blocks of 8192 bytes compared";
    assert!(!wrote.stderr.contains(compared), "{wrote:?}");
    for read in ["rw=read\nverify=md5\n", "rw=randwrite\nverify=crc32c\nverify_only\n"] {
        folder.file("read.fio", format!("{WRITE}{read}").as_bytes());
        let before = fs::read(folder.path().join("f")).unwrap();
        let result = ours(&drumfire, &folder, "run read.fio --json").ok().json();
        let totals = &result["totals"];
        assert_eq!((&totals["read"]["ios"], &totals["write"]["ios"]), (&32.into(), &0.into()));
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains("is not detected"), "{warnings}");
        assert_eq!(fs::read(folder.path().join("f")).unwrap(), before, "{read}");
        damage(&folder, "f", 77_777);
        let found = ours(&drumfire, &folder, "run read.fio");
        assert_eq!(found.code, MISMATCH, "{found:?}");
        assert!(found.stdout.contains("byte 73728: torn"), "{found:?}");
        damage(&folder, "f", 77_777);
    }
    // The writing run has more evidence: its ledger detects returned old data.
    let ledger = "run o/job.toml --verify-only";
    assert!(ours(&drumfire, &folder, ledger).ok().stdout.contains(compared));
    let first = fs::read(folder.path().join("f")).unwrap();
    ours(&drumfire, &folder, "run job.fio --out o2 --destroy").ok();
    fs::write(folder.path().join("f"), first).unwrap();
    ours(&drumfire, &folder, "run read.fio").ok();
    let found = ours(&drumfire, &folder, "run o2/job.toml --verify-only");
    assert_eq!(found.code, MISMATCH, "{found:?}");
}

#[test]
fn a_pattern_is_the_same_to_fio_and_to_us() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for pattern in ["0xdeadbeef", "\"abc\"", "0xff%o\"abcd\"-12", "66", "'bytes'"] {
        let verify = format!("{WRITE}verify=pattern\nverify_pattern={pattern}\n");
        let folder = with(&format!("{verify}rw=write\n"));
        folder.file("bytes", &[9, 8, 7, 0, 255]);
        let data = || fs::read(folder.path().join("f")).unwrap();
        theirs(&fio, &folder).ok();
        let expected = data();
        fs::remove_file(folder.path().join("f")).unwrap();
        let wrote = ours(&drumfire, &folder, "run job.fio").ok();
        assert!(data() == expected, "{pattern}");
        assert!(wrote.stdout.contains("64 I/Os"), "{wrote:?}");
        // Each program reads the data that the other wrote.
        folder.file("job.fio", format!("{verify}rw=randread\n").as_bytes());
        theirs(&fio, &folder).ok();
        ours(&drumfire, &folder, "run job.fio").ok();
        for at in [8191, 262_143] {
            damage(&folder, "f", at);
            let found = ours(&drumfire, &folder, "run job.fio");
            assert_eq!(found.code, MISMATCH, "{pattern}: {found:?}");
            let place = format!("byte {}: differs", at / 8192 * 8192);
            let byte = format!("at byte {at} where");
            assert!(found.stdout.contains(&place) && found.stdout.contains(&byte), "{found:?}");
            damage(&folder, "f", at);
        }
    }
}

#[test]
fn mixed_jobs_write_and_compare_a_pattern() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let verify = format!("{WRITE}verify=pattern\nverify_pattern=%o0x01\n");
    let folder = with(&format!("{verify}rw=randrw\nio_size=2m\nnorandommap\n"));
    ours(&drumfire, &folder, "run job.fio").ok();
    folder.file("job.fio", format!("{verify}rw=read\n").as_bytes());
    theirs(&fio, &folder).ok();
}

#[test]
fn buffers_hold_what_fio_puts_into_them() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let folder = with(&format!("{WRITE}rw=write\nbuffer_pattern=0xab\"x\"12\n"));
    theirs(&fio, &folder).ok();
    let expected = fs::read(folder.path().join("f")).unwrap();
    ours(&drumfire, &folder, "run job.fio --destroy").ok();
    assert!(fs::read(folder.path().join("f")).unwrap() == expected);
    // Half of each chunk is random, and the other half compressible.
    let words = "rw=randrw\nio_size=1m\nbuffer_compress_percentage=50\nbuffer_pattern=0x2a\n";
    for chunk in [512, 2048] {
        folder.file("job.fio", format!("{WRITE}{words}buffer_compress_chunk={chunk}\n").as_bytes());
        for fio_writes in [true, false] {
            fs::write(folder.path().join("f"), vec![0_u8; 256 << 10]).unwrap();
            match fio_writes {
                true => theirs(&fio, &folder).ok(),
                false => ours(&drumfire, &folder, "run job.fio --destroy").ok(),
            };
            let data = fs::read(folder.path().join("f")).unwrap();
            let written = data.chunks(8192).filter(|block| block.iter().any(|byte| *byte != 0));
            let chunks: Vec<&[u8]> = written.flat_map(|block| block.chunks(chunk)).collect();
            assert!(!chunks.is_empty());
            let right = |part: &&[u8]| {
                let (random, rest) = part.split_at(chunk / 2);
                rest.iter().all(|byte| *byte == 0x2a) && random.iter().any(|byte| *byte != 0x2a)
            };
            assert!(chunks.iter().all(right), "fio writes: {fio_writes}, chunks of {chunk}");
        }
    }
}

/// Block sizes of any number of bytes, and their offsets.
#[test]
fn a_file_is_written_in_lengths_of_any_number_of_bytes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let base = "[a]\nfilename=f\nsize=1m\nioengine=psync\n";
    let folder = with(&format!("{base}rw=write\nbsrange=500-1500\nbs_unaligned\n"));
    let result = ours(&drumfire, &folder, "run job.fio --json").ok().json();
    let (ios, bytes) = (&result["totals"]["write"]["ios"], &result["totals"]["write"]["bytes"]);
    let mean = bytes.as_f64().unwrap() / ios.as_f64().unwrap();
    // A third is limited to the maximum; the rest is as likely below as above the mean.
    assert!((1130.0..1205.0).contains(&mean), "{mean}");
    let text = format!("{base}rw=randwrite\npercentage_random=50\nbs=4k,16k\nbs_is_seq_rand=1\n");
    folder.file("job.fio", text.as_bytes());
    ours(&drumfire, &folder, "run job.fio --destroy").ok();
    let text = format!("{base}rw=randread:4\nrw_sequencer=identical\nnumber_ios=64\n");
    folder.file("job.fio", text.as_bytes());
    let result = ours(&drumfire, &folder, "run job.fio --json").ok().json();
    assert_eq!(result["totals"]["read"]["ios"], 64);
}
