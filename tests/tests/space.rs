//! A served file runs out of space, is truncated, or removed: initiators get the right error, and
//! no write hides a loss.

use std::fs;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Served, in_small_file_system};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const MIB: u64 = 1 << 20;

/// Serves a file of `bytes` bytes.
fn serve(drumfire: &Drumfire, file: &Path, bytes: u64) -> Served {
    drumfire.serve(&[&format!("disk=file:{}?size={bytes}&direct=0", file.display())])
}

fn write(drumfire: &Drumfire, folder: &Folder, uri: &str) -> Finished {
    let args = format!(
        "run {uri} --size 64k --read 0 --random 0 --outstanding 4 --seconds 1 --ramp 0 --out r"
    );
    let _ = fs::remove_dir_all(folder.path().join("r"));
    drumfire.run(folder.path(), &args, LIMIT)
}

/// Failures of the last run, and the descriptions of their causes.
fn failures(drumfire: &Drumfire, folder: &Folder) -> Vec<(String, String)> {
    let result: Value = drumfire.run(folder.path(), "report r --as json", LIMIT).ok().json();
    let failures = result["failures"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    failures.iter().map(|failure| (text(&failure["fault"]), text(&failure["status"]))).collect()
}

#[test]
fn no_room_is_told_as_no_room() {
    let Some(drumfire) = Drumfire::find() else { return };
    in_small_file_system(|small| {
        let folder = Folder::new();
        let served = serve(&drumfire, &small.join("disk.img"), 64 * MIB);
        for (uri, says) in [
            (served.uri("disk"), "data protect: space allocation failed write protect (27/07)"),
            (served.nvme_uri("disk"), "capacity exceeded (SCT 0h, SC 81h)"),
        ] {
            let finished = write(&drumfire, &folder, &uri);
            assert_eq!(finished.code, Some(1), "{finished:?}");
            let expected = ("no space left".to_owned(), says.to_owned());
            assert_eq!(failures(&drumfire, &folder), [expected], "{uri}");
        }
        // A worker that writes until the file system is full ends there, also across a network.
        for uri in [served.uri("disk"), served.nvme_uri("disk")] {
            let job = format!(
                "[[steps]]\nseconds = 60\n[[steps.groups]]\nvolumes = ['{uri}']\n\
                 workload.until_full = true\nworkload.access.lines = [{{ size_bytes = '64k', \
                 read_percent = 0, random_percent = 0 }}]\n"
            );
            folder.file("job.toml", job.as_bytes());
            let finished = drumfire.run(folder.path(), "run job.toml --json", LIMIT).ok();
            assert_eq!(finished.json()["totals"]["errors"], 0, "{finished:?}");
        }
    });
}

#[test]
fn a_file_that_is_cut_short_stays_so_and_a_removed_one_takes_no_writes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let file = folder.path().join("disk.img");
    let served = serve(&drumfire, &file, 16 * MIB);
    let uris = [served.uri("disk"), served.nvme_uri("disk")];
    for uri in &uris {
        assert_eq!(write(&drumfire, &folder, uri).code, Some(0), "{uri}");
    }
    fs::File::options().write(true).open(&file).unwrap().set_len(MIB).unwrap();
    for uri in &uris {
        let finished = write(&drumfire, &folder, uri);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert_eq!(failures(&drumfire, &folder)[0].0, "medium error", "{uri}");
        assert_eq!(fs::metadata(&file).unwrap().len(), MIB, "nobody made it longer");
    }
    fs::remove_file(&file).unwrap();
    for uri in &uris {
        let finished = write(&drumfire, &folder, uri);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        let (ios, errors) = (Value::from(0), failures(&drumfire, &folder));
        let result = drumfire.run(folder.path(), "report r --as json", LIMIT).ok().json();
        assert_eq!((&result["totals"]["ios"], errors.len()), (&ios, 1), "{errors:?}");
    }
}
