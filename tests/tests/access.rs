//! Access to served volumes.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, IQN, NQN, Running};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// The name under which our own initiator comes.
const OURS: &str = "nqn.2026-11.io.drumfire:host";
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:6ad83e5e-1ba8-44a6-9c1a-3a2e7b9a0001";

#[test]
fn only_the_hosts_that_are_listed_may_use_a_subsystem() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let settings = format!(
        "volume = [\"open=ram:1m\", \"ours=ram:1m\", \"theirs=ram:1m\", \"nobodys=ram:1m\"]\n\
         [nvme_hosts]\nours = [\"{OTHER}\", \"{OURS}\"]\ntheirs = [\"{OTHER}\"]\nnobodys = []\n"
    );
    let config = folder.file("serve.toml", settings.as_bytes());
    let served = drumfire.serve_with(&config.display().to_string());
    let run = |uri: &str| {
        let args = format!("run {uri} --seconds 1 --ramp 0 --json");
        drumfire.run(folder.path(), &args, LIMIT)
    };
    for (name, welcome) in [("open", true), ("ours", true), ("theirs", false), ("nobodys", false)] {
        let finished = run(&served.nvme_uri(name));
        if welcome {
            assert_eq!(finished.ok().json()["totals"]["errors"], 0, "{name}");
        } else {
            assert_eq!(finished.code, Some(1), "{name}: {finished:?}");
            assert!(finished.stderr.contains(&served.nvme_uri(name)), "{finished:?}");
        }
        // A list for one protocol closes the others, which have none.
        let finished = run(&served.uri(name));
        assert_eq!(finished.code, Some(if name == "open" { 0 } else { 1 }), "{name}: {finished:?}");
    }
    let said =
        "ours, theirs, nobodys: no host may use it over iSCSI, as another protocol has a list";
    assert_eq!(served.running.stderr().matches(said).count(), 1, "{}", served.running.stderr());
    let found = drumfire.run(folder.path(), &format!("discover {}", served.portal()), LIMIT);
    assert_eq!(found.ok().stdout, format!("{}/{IQN}:open\n", served.portal()));
    let portal = format!("nvme+tcp://127.0.0.1:{}", served.nvme_port);
    let found = drumfire.run(folder.path(), &format!("discover {portal}"), LIMIT).ok().stdout;
    let told: Vec<&str> = found.lines().collect();
    assert_eq!(told, ["open", "ours"].map(|name| format!("{portal}/{NQN}:{name}")));
}

#[test]
fn a_list_of_hosts_that_makes_no_sense_is_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let nvme = "nvme_tcp = [\"127.0.0.1:0\"]\nvolume = [\"disk=ram:1m\"]\n";
    let iscsi = "iscsi = [\"127.0.0.1:0\"]\nvolume = [\"disk=ram:1m\"]\n";
    for (portal, hosts, said) in [
        (nvme, "disc = []", "disc"),
        (nvme, "disk = [\"iqn.2026-11.org.example:host\"]", "iqn.2026-11.org.example:host"),
        (nvme, "disk = \"nqn.2026-11.org.example:host\"", "serve.toml"),
        (nvme, "[iscsi_hosts]\ndisk = [\"127.0.0.1\"]", "not served over iSCSI"),
        (nvme, "[nbd_hosts]\ndisk = []", "not served over NBD"),
        (iscsi, "[iscsi_hosts]\ndisk = [\"here\"]", "'here' is not an address"),
        (iscsi, "[iscsi_hosts]\ndisc = []", "disc"),
        (iscsi, "disk = []", "not served over NVMe/TCP"),
    ] {
        let config =
            folder.file("serve.toml", format!("{portal}[nvme_hosts]\n{hosts}\n").as_bytes());
        let args = format!("serve {}", config.display());
        let finished = drumfire.run(folder.path(), &args, LIMIT);
        assert_eq!(finished.code, Some(2), "{hosts}: {finished:?}");
        assert!(finished.stderr.contains(said), "{hosts}: {finished:?}");
    }
}

#[test]
fn each_protocol_has_a_list_of_its_own() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    // Lists that allow this host: over NVMe/TCP, iSCSI and NBD. `None`: there is no list.
    let cases: [(&str, [Option<bool>; 3]); 7] = [
        ("open", [None, None, None]),
        ("nvme", [Some(true), None, None]),
        ("iscsi", [None, Some(true), None]),
        ("nbd", [None, None, Some(true)]),
        ("two", [None, Some(true), Some(true)]),
        ("all", [Some(true), Some(true), Some(true)]),
        ("none", [Some(false), Some(false), Some(false)]),
    ];
    let hosts =
        [(OURS, OTHER), ("127.0.0.0/8\", \"10.0.0.1", "192.0.2.0/24"), ("127.0.0.1", "127.0.0.2")];
    let volumes: Vec<String> = cases.iter().map(|(name, _)| format!("\"{name}=ram:1m\"")).collect();
    let mut settings = format!("nbd = [\"127.0.0.1:0\"]\nvolume = [{}]\n", volumes.join(", "));
    for (table, words) in ["nvme_hosts", "iscsi_hosts", "nbd_hosts"].iter().enumerate() {
        settings += &format!("[{words}]\n");
        for (name, lists) in &cases {
            if let Some(allows) = lists[table] {
                let host = if allows { hosts[table].0 } else { hosts[table].1 };
                settings += &format!("{name} = [\"{host}\"]\n");
            }
        }
    }
    let config = folder.file("serve.toml", settings.as_bytes());
    let served = drumfire.serve_with(&config.display().to_string());
    let nbd = served.running.stdout();
    let nbd = nbd.lines().next().unwrap().rsplit_once("nbd=").unwrap().1;
    for (name, lists) in cases {
        let uris = [served.nvme_uri(name), served.uri(name), format!("nbd://{nbd}/{name}")];
        let listed = lists.iter().any(Option::is_some);
        for (uri, list) in uris.iter().zip(lists) {
            let args = format!("run {uri} --seconds 0.2 --ramp 0 --no-ceiling --json");
            let ended = drumfire.run(folder.path(), &args, LIMIT);
            let welcome = list.unwrap_or(!listed);
            assert_eq!(ended.code, Some(i32::from(!welcome)), "{uri}: {ended:?}");
        }
    }
    let found = drumfire.run(folder.path(), &format!("discover {}", served.portal()), LIMIT);
    let found = found.ok().stdout;
    let names: Vec<&str> = found.lines().map(|line| line.rsplit(':').next().unwrap()).collect();
    assert_eq!(names, ["open", "iscsi", "two", "all"]);
}

#[test]
fn a_server_says_which_volumes_anybody_may_write() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let said = |settings: &str, args: &str| {
        let config = folder.file("serve.toml", settings.as_bytes());
        let args = format!("serve {} {args}", config.display());
        let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
        running.await_stdout(LIMIT, |text| text.starts_with("ready ").then_some(()));
        // Complete output: a line that was written before "ready" may be read after it.
        running.signal(Signal::TERM);
        let lines = running.finish(LIMIT).stderr;
        lines
            .lines()
            .filter(|line| line.contains("any host"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let two = "volume = [\"a=ram:1m\", \"b=ram:1m\"]\n";
    let local = "--iscsi 127.0.0.1:0 --nvme-tcp [::1]:0 --nbd 127.9.9.9:0";
    assert_eq!(said(two, local), [""; 0]);
    let lines = said(two, "--nbd 0.0.0.0:0 --iscsi 127.0.0.1:0");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(
        line.contains("any host that can connect to NBD at 0.0.0.0:0 can read and write a, b"),
        "{line}"
    );
    let listed = format!("{two}[nbd_hosts]\na = [\"10.0.0.0/8\"]\n");
    let lines = said(&listed, "--nbd 0.0.0.0:0");
    assert!(lines.len() == 1 && lines[0].contains("write b:"), "{lines:?}");
    let both = format!("{listed}b = []\n");
    assert_eq!(said(&both, "--nbd [::]:0"), [""; 0]);
    let many: Vec<String> = (0..20).map(|number| format!("--volume v{number}=ram:1m")).collect();
    let lines = said("", &format!("--iscsi [::]:0 {}", many.join(" ")));
    assert!(lines.len() == 1 && lines[0].contains("v7 and 12 more: "), "{lines:?}");
}

/// Lines of the log tell who came, over which protocol, to which volume, and who left.
#[test]
fn logins_are_logged_where_they_are_asked_for() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let config = folder.file("serve.toml", b"volume = [\"disk=ram:1m\"]\nlog_connections = true\n");
    let mut served = drumfire.serve_with(&config.display().to_string());
    for uri in [served.uri("disk"), served.nvme_uri("disk")] {
        let args = format!("run {uri} --seconds 0.2 --ramp 0 --no-ceiling");
        drumfire.run(folder.path(), &args, LIMIT).ok();
    }
    drumfire.run(folder.path(), &format!("discover {}", served.portal()), LIMIT).ok();
    let both = |host: &'static str, protocol: &'static str| {
        [format!(", {host}: logged in to {IQN}:disk/1"), format!(", {host}: connection closed")]
            .map(|end| (protocol, end))
    };
    let ours = both("iqn.2026-11.io.drumfire:initiator", "drumfire: iSCSI 127.0.0.1:");
    let wanted = ours.into_iter().chain(both(OURS, "drumfire: NVMe/TCP 127.0.0.1:"));
    let discovers = ", iqn.2026-11.io.drumfire:initiator: discovers".to_owned();
    for (begin, end) in wanted.chain([("drumfire: iSCSI 127.0.0.1:", discovers)]) {
        let is_it = |line: &str| line.starts_with(begin) && line.ends_with(&end);
        served.running.await_stderr(LIMIT, |text| text.lines().any(is_it).then_some(()));
    }
    // Otherwise a login is no line.
    let silent = drumfire.serve_with("--volume disk=ram:1m");
    let args = format!("run {} --seconds 0.2 --ramp 0 --no-ceiling", silent.uri("disk"));
    drumfire.run(folder.path(), &args, LIMIT).ok();
    assert!(!silent.running.stderr().contains("logged in"), "{}", silent.running.stderr());
}
