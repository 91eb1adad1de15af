//! Holes of remote volumes: targets of ours and of others report them, and H02 says so of a volume
//! behind a connection as it does of a file of this host.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Running, Tgt, check, free_port, require, run, skip};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;
const BYTES: u64 = 32 * MIB;

/// A file whose last quarter is data, and one that is all data; `None`, recorded as skipped, where
/// the file system has no holes.
fn files(folder: &Folder) -> Option<[PathBuf; 2]> {
    let data: Vec<u8> = (0..BYTES).map(|at| (at * 31 + at / 4093) as u8 | 1).collect();
    let full = folder.file("full", &data);
    let holey = folder.path().join("holey");
    let file = File::create(&holey).unwrap();
    file.set_len(BYTES).unwrap();
    let part = (BYTES / 4 * 3) as usize;
    file.write_all_at(&data[part..], part as u64).unwrap();
    file.sync_all().unwrap();
    let shown = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
    if shown == 0 {
        skip("the file system has no holes");
        return None;
    }
    Some([full, holey])
}

/// Grade and reason of H02 for a short run.
fn of(drumfire: &Drumfire, folder: &Path, uri: &str) -> (String, String) {
    let args = format!("run {uri} --size 4k --seconds 0.3 --ramp 0 --no-ceiling --json");
    check(&drumfire.run(folder, &args, LIMIT).ok().json(), "H02")
}

/// H02 of the volume with holes, and of the one without.
fn holds(drumfire: &Drumfire, folder: &Path, holey: &str, full: &str) {
    let (verdict, evidence) = of(drumfire, folder, holey);
    assert_eq!(verdict, "fail", "{holey}: {evidence}");
    assert!(evidence.contains("its target reports that 75.0 % of 32.0 MiB"), "{evidence}");
    let (verdict, evidence) = of(drumfire, folder, full);
    assert_eq!(verdict, "pass", "{full}: {evidence}");
    assert!(evidence.contains("0 of 64 sampled blocks are all zeroes"), "{evidence}");
}

/// H02 detects: a volume of holes behind NBD and iSCSI; NVMe/TCP reports no holes.
/// H02 accepts: a volume of data behind NBD and iSCSI.
#[test]
fn our_targets_report_the_holes_of_files() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some([full, holey]) = files(&folder) else { return };
    let volumes = format!(
        "--nbd 127.0.0.1:0 --volume full=file:{} --volume holey=file:{}",
        full.display(),
        holey.display()
    );
    let mut served = drumfire.serve_with(&volumes);
    let nbd = served.running.await_stdout(LIMIT, |stdout| {
        let (_, rest) = stdout.split_once("nbd=")?;
        rest.split([' ', '\n']).next().filter(|_| rest.contains('\n')).map(str::to_owned)
    });
    let of_nbd = |name: &str| format!("nbd://{nbd}/{name}");
    holds(&drumfire, folder.path(), &of_nbd("holey"), &of_nbd("full"));
    holds(&drumfire, folder.path(), &served.uri("holey"), &served.uri("full"));
    let (verdict, evidence) = of(&drumfire, folder.path(), &served.nvme_uri("holey"));
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("sampled blocks are all zeroes"), "{evidence}");
    assert!(!evidence.contains("reports"), "{evidence}");
}

/// A client of another project finds the same map as in the file.
#[test]
fn nbdinfo_shows_the_map_of_a_file() {
    let Some(nbdinfo) = require("nbdinfo") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some([_, holey]) = files(&folder) else { return };
    let file = holey.display();
    let args = format!("serve --nbd 127.0.0.1:0 --volume a=file:{file} --volume b=null:1m");
    let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
    let address = running.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        line.strip_prefix("ready nbd=").map(str::to_owned)
    });
    let map = |name: &str| {
        let uri = format!("nbd://{address}/{name}");
        run(Command::new(&nbdinfo).args(["--map", &uri]), LIMIT)
    };
    let told = map("a").ok().stdout;
    let rows: Vec<Vec<&str>> =
        told.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    let hole = (BYTES / 4 * 3).to_string();
    let data = (BYTES / 4).to_string();
    assert_eq!(rows, [["0", &hole, "3"], [&hole, &data, "0"]], "{told}");
    assert_ne!(map("b").code, Some(0), "null: has no map");
}

/// H02 detects: a volume of holes behind servers of other projects.
/// H02 accepts: a file of data behind servers of other projects.
#[test]
fn targets_of_others_report_the_holes_of_files() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some(paths) = files(&folder) else { return };
    let [full, holey] = paths.each_ref().map(|path| path.display().to_string());
    let servers = [
        ("nbdkit", "-f -r -i 127.0.0.1 -p PORT file FILE", ""),
        ("qemu-nbd", "-t -r -e 8 -b 127.0.0.1 -p PORT -x disk -f raw FILE", "disk"),
    ];
    for (program, args, export) in servers {
        let Some(found) = require(program) else { continue };
        let serve = |file: &str| {
            let port = free_port();
            let args = args.replace("PORT", &port.to_string()).replace("FILE", file);
            let mut running = Running::start(Command::new(&found).args(args.split_whitespace()));
            let address = format!("127.0.0.1:{port}");
            running.await_that(LIMIT, |_| std::net::TcpStream::connect(&address).ok());
            (running, format!("nbd://{address}/{export}"))
        };
        let ((_holey, of_holey), (_full, of_full)) = (serve(&holey), serve(&full));
        holds(&drumfire, folder.path(), &of_holey, &of_full);
    }
}

/// tgtd reports the holes of units with thin provisioning, and of others nothing.
#[test]
fn tgtd_is_asked_and_may_refuse() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some([full, holey]) = files(&folder) else { return };
    let Some(tgt) = Tgt::over(&holey, free_port()) else { return };
    let (verdict, evidence) = of(&drumfire, folder.path(), &tgt.uri);
    let reports = evidence.contains("its target reports that 75.0 %");
    assert_eq!(verdict, if reports { "fail" } else { "warn" }, "{evidence}");
    assert!(evidence.contains("sampled blocks are all zeroes"), "{evidence}");
    drop(tgt);
    let Some(tgt) = Tgt::over(&full, free_port()) else { return };
    let (verdict, evidence) = of(&drumfire, folder.path(), &tgt.uri);
    assert_eq!(verdict, "pass", "{evidence}");
}
