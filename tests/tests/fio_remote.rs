//! Job files for fio's engines with remote volumes, SPDK's plugin and libiscsi, with our own
//! initiators: names of volumes, digests, names of hosts, and sizes.

use std::path::Path;
use std::time::Duration;

use drumfire_tests::fio::with;
use drumfire_tests::{Drumfire, Folder, IQN, NQN, Served};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const HOST: &str = "nqn.2026-11.org.example:host";

/// Part of a volume name that identifies the test's target.
fn at(served: &Served) -> String {
    format!("trtype=TCP adrfam=IPv4 traddr=127.0.0.1 trsvcid={}", served.nvme_port)
}

/// Runs the job file, and returns its result in fio's format.
fn run(drumfire: &Drumfire, folder: &Path) -> Value {
    drumfire.run(folder, "run job.fio --destroy --out out", LIMIT).ok();
    drumfire.run(folder, "report out --as fio", LIMIT).ok().json()
}

/// Message of `explain` or `run` about a file that is not run.
fn wrong(drumfire: &Drumfire, command: &str, text: &str) -> String {
    let folder = with(text);
    let said = drumfire.run(folder.path(), &format!("{command} job.fio"), LIMIT);
    assert_ne!(said.code, Some(0), "{text}");
    format!("{}{}", said.stdout, said.stderr)
}

#[test]
fn a_file_of_spdk_runs_as_it_stands() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["one=ram:1m", "two=ram:1m"]);
    let nqn = NQN.replace(':', "\\:");
    let name = |volume: &str| format!("{} subnqn={nqn}\\:{volume} ns=1", at(&served));
    let folder = with(&format!(
        "[global]\nioengine=spdk\nthread=1\ndirect=1\nbs=16k\niodepth=4\ndigest_enable=BOTH\n\
         [fill]\nrw=write\nfilename={}\n[read]\nstonewall\nrw=randread\nfilename={}:{}\n\
         [turns]\nstonewall\niodepth=1\nrw=read\nfilename={}:{}\n",
        name("one"),
        name("one"),
        name("two"),
        name("two"),
        name("one")
    ));
    let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    let uri = format!("{}?header-digest=1&data-digest=1", served.nvme_uri("one"));
    assert!(said.contains(&uri), "{said}");
    let result = run(&drumfire, folder.path());
    let bytes = |job: usize, way: &str| result["jobs"][job][way]["io_bytes"].as_u64().unwrap();
    // Without a size all of each volume is used.
    assert_eq!(bytes(0, "write"), 1 << 20);
    assert_eq!((bytes(1, "read"), bytes(2, "read")), (2 << 20, 2 << 20));
    assert_eq!(result["jobs"][0]["error"], 0);
}

#[test]
fn the_only_subsystem_of_a_portal_needs_no_name() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let settings = format!(
        "volume = [\"open=ram:1m\", \"shut=ram:1m\"]\n[nvme_hosts]\nopen = [\"{HOST}\"]\n\
         shut = [\"{HOST}\", \"nqn.2026-11.org.example:other\"]\n"
    );
    folder.file("serve.toml", settings.as_bytes());
    let path = folder.path().join("serve.toml");
    let served = drumfire.serve_with(&path.display().to_string());
    let job = |words: &str| {
        format!("[a]\nioengine=spdk\nrw=read\nbs=64k\nthread=1\nfilename={} {words}\n", at(&served))
    };
    let wrong = |words: &str| wrong(&drumfire, "run", &job(words));
    // Each host is shown the volumes that it may use: none, one, two.
    let none = wrong("ns=1");
    assert!(none.contains("cannot be opened") && none.contains("no subsystem"), "{none}");
    let timed = "ns=1\ntime_based\nruntime=1";
    assert!(wrong(timed).contains("lists no subsystem for this host"));
    let two = wrong(&format!("{timed}\nhostnqn={HOST}"));
    assert!(two.contains("2 subsystems") && two.contains(&format!("{NQN}:open")), "{two}");
    let one = with(&job("hostnqn=nqn.2026-11.org.example\\:other ns=1"));
    let result = run(&drumfire, one.path());
    assert_eq!(result["jobs"][0]["read"]["io_bytes"], 1 << 20);
    let said = drumfire.run(one.path(), "explain job.fio --as fio", LIMIT).ok().stdout;
    let line = format!("filename={} ns=1\n", at(&served));
    assert!(said.contains(&line), "{said}");
    assert!(said.contains("hostnqn=nqn.2026-11.org.example:other\n"), "{said}");
}

#[test]
fn what_is_written_for_the_plugin_is_the_same_job() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let uri = format!("nvme+tcp://[::1]:4420/{NQN}:disk/7?data-digest=yes&initiator={HOST}");
    let job = format!(
        "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"{uri}\"]\n\
         workload.outstanding = 8\n\
         workload.access.lines = [{{ size_bytes = \"8k\" }}]\n"
    );
    folder.file("job.toml", job.as_bytes());
    let said = drumfire.run(folder.path(), "explain job.toml --as fio", LIMIT).ok().stdout;
    let name = format!(
        "ioengine=spdk\nfilename=trtype=TCP adrfam=IPv6 traddr=\\:\\:1 trsvcid=4420 \
         subnqn={}\\:disk ns=7\n",
        NQN.replace(':', "\\:")
    );
    assert!(said.contains(&name), "{said}");
    for line in ["thread=1", "digest_enable=DATA", &format!("hostnqn={HOST}")] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
}

#[test]
fn names_that_are_wrong_say_where() {
    let Some(drumfire) = Drumfire::find() else { return };
    let long = "x".repeat(3000);
    for (name, part) in [
        ("trtype=TCP traddr= trsvcid=4420 ns=1", "'traddr='"),
        ("trtype=TCP traddr=h trsvcid=99999 ns=1", "trsvcid=99999"),
        ("trtype=TCP traddr=h trsvcid=1 subnqn=nqn.2026-11.x\\:a ns=0", "not a namespace ID"),
        ("trtype=PCIe traddr=0000.04.00.0 ns=1", "/dev/nvme0n1"),
        (&format!("trtype=TCP traddr=h trsvcid=1 subnqn={long} ns=1"), "223 bytes"),
        (&format!("trtype=TCP traddr={long} trsvcid=1 ns=1"), "256 bytes"),
    ] {
        let text = format!("[a]\nioengine=spdk\ntime_based\nruntime=1\nfilename={name}\n");
        let said = wrong(&drumfire, "explain", &text);
        assert!(said.contains("job.fio:5:") && said.contains(part), "{name}: {said}");
    }
}

#[test]
fn a_file_of_libiscsi_runs_as_it_stands() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:1m"]);
    for (target, login) in [
        (format!("{IQN}:disk").replace(':', "\\:"), ""),
        (format!("{IQN}:disk").replace(':', "%3A"), "name%secret@"),
    ] {
        let folder = with(&format!(
            "[iscsi]\nioengine=libiscsi\ninitiator=iqn.2026-11.org.example:me\nbs=64k\n\
             filename=iscsi\\://{login}127.0.0.1\\:{}/{target}/1\n",
            served.port
        ));
        let result = run(&drumfire, folder.path());
        assert_eq!(result["jobs"][0]["read"]["io_bytes"], 1 << 20);
    }
}
