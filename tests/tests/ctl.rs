//! Changes of a running server: `drumfire ctl` and SIGHUP.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{
    Drumfire, Finished, Folder, IQN, Patience, Running, Served, free_port, require, run, under_way,
};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// A server with a control socket.
struct Controlled {
    drumfire: Drumfire,
    folder: Folder,
    served: Served,
    nbd_port: u16,
}

impl Controlled {
    /// Serves with these arguments, over all protocols.
    fn new(args: &str) -> Option<Controlled> {
        Controlled::with(args, |_| {})
    }

    /// Serves with these arguments, once the folder is prepared.
    fn with(args: &str, prepare: impl FnOnce(&Folder)) -> Option<Controlled> {
        let drumfire = Drumfire::find()?;
        let folder = Folder::new();
        prepare(&folder);
        let (nbd_port, place) = (free_port(), folder.path().display());
        let args = args.replace("HERE", &place.to_string());
        let nbd = format!("--nbd 127.0.0.1:{nbd_port}");
        let served = drumfire.serve_with(&format!("{nbd} --control {place}/socket {args}"));
        Some(Controlled { drumfire, folder, served, nbd_port })
    }

    fn ctl(&self, args: &str) -> Finished {
        let args = args.replace("HERE", &self.folder.path().display().to_string());
        self.drumfire.run(self.folder.path(), &format!("ctl socket {args}"), LIMIT)
    }

    /// A list in JSON.
    fn list(&self, what: &str) -> Vec<Value> {
        self.ctl(&format!("{what} --json")).ok().json().as_array().unwrap().clone()
    }

    /// Names of the volumes.
    fn names(&self) -> Vec<String> {
        let name = |row: &Value| row["name"].as_str().unwrap().to_owned();
        self.list("volumes").iter().map(name).collect()
    }

    fn nbd_uri(&self, name: &str) -> String {
        format!("nbd://127.0.0.1:{}/{name}", self.nbd_port)
    }

    /// A verified load on a volume, in flight.
    fn load(&self, uri: &str, seconds: u32) -> Running {
        let args = format!(
            "run {uri} --seconds {seconds} --ramp 0 --size 4k --read 50 --rate 500 --destroy \
             --verify --json"
        );
        let at = self.folder.path().join(free_port().to_string());
        fs::create_dir(&at).unwrap();
        under_way(&mut self.drumfire.command(&at, &args))
    }
}

#[test]
fn volumes_come_and_go_and_nobody_else_notices() {
    let Some(server) = Controlled::new("--volume a=ram:8m --volume b=file:HERE/b.img?size=8m")
    else {
        return;
    };
    let uris = [server.served.uri("a"), server.served.nvme_uri("b"), server.nbd_uri("a")];
    // Two loads of one volume would overwrite each other's data.
    server.ctl("add c=ram:8m").ok();
    let uris = [uris[0].clone(), uris[1].clone(), server.nbd_uri("c")];
    let loads: Vec<Running> = uris.iter().map(|uri| server.load(uri, 20)).collect();
    for round in 0..20 {
        server.ctl(&format!("add x{round}=ram:1m")).ok();
        server.ctl("add f=file:HERE/f.img?size=1m").ok();
        server.ctl("remove f").ok();
        server.ctl(&format!("remove x{round}")).ok();
    }
    assert_eq!(server.names(), ["a", "b", "c"]);
    let rows = server.list("volumes");
    for row in &rows {
        assert!(row["read"]["ios"].as_u64().unwrap() > 0, "{row}");
        assert!(row["write"]["bytes"].as_u64().unwrap() > 0, "{row}");
        assert!(row["connections"].as_u64().unwrap() > 0, "{row}");
    }
    for load in loads {
        let result = load.finish(LIMIT).ok().json();
        assert_eq!(result["totals"]["errors"], 0, "{result}");
        assert_eq!(result["totals"]["reconnects"], 0, "{result}");
    }
}

#[test]
fn a_removed_volume_is_left_by_its_hosts_and_its_file_is_free() {
    let Some(server) = Controlled::new("--volume keep=ram:8m") else { return };
    let other = server.load(&server.served.uri("keep"), 15);
    for protocol in ["iscsi", "nvme+tcp", "nbd"] {
        server.ctl("add gone=file:HERE/gone.img?size=8m").ok();
        let uri = match protocol {
            "iscsi" => server.served.uri("gone"),
            "nvme+tcp" => server.served.nvme_uri("gone"),
            _ => server.nbd_uri("gone"),
        };
        let load = server.load(&uri, 600);
        server.ctl("remove gone").ok();
        assert_eq!(server.names(), ["keep"]);
        let result = load.finish(LIMIT);
        assert_eq!(result.code, Some(6), "{protocol}: {result:?}");
        // The image is locked by nobody: another process may have it.
        let args = "run file:gone.img --seconds 1 --ramp 0 --destroy --json";
        server.drumfire.run(server.folder.path(), args, LIMIT).ok();
        let refused = server.drumfire.run(
            server.folder.path(),
            &format!("run {uri} --seconds 1 --ramp 0"),
            LIMIT,
        );
        assert_eq!(refused.code, Some(1), "{protocol}: {refused:?}");
    }
    let result = other.finish(LIMIT).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
}

#[test]
fn hosts_of_a_target_stay_connected_while_its_other_volumes_come_and_go() {
    let Some(server) = Controlled::new("--volume a/1=ram:8m --volume a/2=ram:8m") else { return };
    let first = server.served.nvme_uri("a");
    let second = format!("{}/2", first.strip_suffix("/1").unwrap());
    let loads = [server.load(&server.served.uri("a"), 30), server.load(&second, 30)];
    for _ in 0..20 {
        server.ctl("add a/3=file:HERE/f.img?size=1m").ok();
        server.ctl("remove a/3").ok();
    }
    assert_eq!(server.names(), ["a/1", "a/2"]);
    server.ctl("remove a/2").ok();
    assert_eq!(server.names(), ["a/1"]);
    let results = loads.map(|load| load.finish(LIMIT));
    let [first, second] = results.each_ref().map(Finished::json);
    for result in [&first, &second] {
        assert_eq!(result["totals"]["reconnects"], 0, "{result}");
    }
    assert_eq!(first["totals"]["errors"], 0, "{first}");
    let (good, errors) = (&second["totals"]["ios"], &second["totals"]["errors"]);
    assert!(good.as_u64() > Some(0) && errors.as_u64() > Some(0), "its volume is gone: {second}");
    assert_ne!(results[1].code, Some(0));
}

#[test]
fn what_was_written_before_a_removal_is_there_after_it() {
    let Some(server) = Controlled::new("--volume a=ram:1m") else { return };
    for round in 0..3 {
        server.ctl("add d=file:HERE/d.img?size=8m").ok();
        let uri = if round % 2 == 0 { server.served.uri("d") } else { server.nbd_uri("d") };
        let out = server.folder.path().join(format!("out{round}"));
        let args = format!(
            "run {uri} --seconds 1 --ramp 0 --size 4k --read 0 --destroy --verify --out {}",
            out.display()
        );
        server.drumfire.run(server.folder.path(), &args, LIMIT).ok();
        server.ctl("remove d").ok();
        server.ctl("add d=file:HERE/d.img").ok();
        let job = out.join("job.toml");
        let args = format!("run {} --verify-only", job.display());
        let checked = server.drumfire.run(server.folder.path(), &args, LIMIT);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        server.ctl("remove d").ok();
    }
}

/// Whether programs that are started here ignore SIGHUP.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}

#[test]
fn a_reload_changes_volumes_and_lists_and_leaves_other_sessions_alone() {
    let first = "volume = [\"a=ram:8m\", \"b=ram:8m\", \"c=ram:8m\"]\n";
    let prepare = |folder: &Folder| drop(folder.file("serve.toml", first.as_bytes()));
    let Some(server) = Controlled::with("HERE/serve.toml --volume flag=ram:8m", prepare) else {
        return;
    };
    server.ctl("add extra=ram:1m").ok();
    let loads = [server.served.uri("a"), server.served.nvme_uri("c"), server.nbd_uri("flag")];
    let loads = loads.map(|uri| server.load(&uri, 20));
    let second = "volume = [\"a=ram:8m\", \"c=ram:8m\", \"new=ram:8m\"]\n\
                  [iscsi_hosts]\nnew = [\"192.0.2.1\"]\nc = [\"127.0.0.0/8\"]\n";
    server.folder.file("serve.toml", second.as_bytes());
    // Below nohup the server ignores the signal.
    if ignores_hang_up() {
        server.ctl("reload").ok();
    } else {
        server.served.running.signal(Signal::HUP);
    }
    let mut patience = Patience::new(Duration::from_secs(30));
    while server.names() != ["a", "c", "flag", "new"] && server.names().len() != 4 {
        assert!(patience.wait(), "{:?}", server.names());
    }
    let mut names = server.names();
    names.sort();
    assert_eq!(names, ["a", "c", "flag", "new"]);
    // A volume that comes is closed to hosts that are not listed, from its first moment on.
    let discovered = format!("discover {}", server.served.portal());
    let found = server.drumfire.run(server.folder.path(), &discovered, LIMIT).ok().stdout;
    assert!(found.contains(":flag") && !found.contains(":new") && !found.contains(":b"), "{found}");
    // A file that makes no sense changes nothing.
    for wrong in ["volume = [\"a=nothing\"]\n", "volumes = 1\n", "[nbd_hosts]\nzz = []\n"] {
        server.folder.file("serve.toml", wrong.as_bytes());
        let refused = server.ctl("reload");
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    server.folder.file("serve.toml", format!("id = \"x\"\n{second}").as_bytes());
    assert_eq!(server.ctl("reload").ok().stdout, "id has changed: restart the server for it\n");
    let mut after = server.names();
    after.sort();
    assert_eq!(after, names);
    for load in loads {
        let result = load.finish(LIMIT).ok().json();
        assert_eq!(result["totals"]["errors"], 0, "{result}");
        assert_eq!(result["totals"]["reconnects"], 0, "{result}");
    }
}

#[test]
fn a_dump_starts_the_same_state() {
    let secret = |folder: &Folder| {
        let path = folder.file("chap", b"user = \"host\"\nsecret = \"0123456789abcdef\"\n");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let args = "--volume a=ram:1m --volume t/3=ram:2m --id rack --memory 64m --chap HERE/chap";
    let Some(server) = Controlled::with(args, secret) else { return };
    server.ctl("add late=file:HERE/late.img?size=1m").ok();
    let dump = server.ctl("dump").ok().stdout;
    let rows = |server: &Controlled| {
        let row =
            |row: &Value| ["name", "uri", "target", "lun", "bytes"].map(|key| row[key].to_string());
        server.list("volumes").iter().map(row).collect::<Vec<_>>()
    };
    let before = rows(&server);
    let Controlled { drumfire, folder, served, nbd_port } = server;
    served.running.signal(Signal::TERM);
    served.running.finish(LIMIT).ok();
    folder.file("again.toml", dump.as_bytes());
    let place = folder.path().display();
    let mut command = drumfire.command(folder.path(), &format!("serve {place}/again.toml"));
    let mut running = Running::start(&mut command);
    running.await_stdout(LIMIT, |said| said.contains("ready ").then_some(()));
    let list = drumfire.run(folder.path(), "ctl socket volumes --json", LIMIT).ok().json();
    let row =
        |row: &Value| ["name", "uri", "target", "lun", "bytes"].map(|key| row[key].to_string());
    assert_eq!(list.as_array().unwrap().iter().map(row).collect::<Vec<_>>(), before);
    let portal = format!("discover 127.0.0.1:{}", served.port);
    assert_eq!(drumfire.run(folder.path(), &portal, LIMIT).code, Some(1), "CHAP is demanded");
    let found = drumfire.run(folder.path(), &format!("{portal} --chap chap"), LIMIT).ok().stdout;
    assert_eq!(found.lines().count(), 3, "{found} {nbd_port}");
}

#[test]
fn strangers_at_the_socket_do_no_harm() {
    let Some(server) = Controlled::new("--volume a=ram:1m") else { return };
    let path = server.folder.path().join("socket");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let connect = || UnixStream::connect(&path).unwrap();
    // Silent ones, more than are served at once: they end after their time.
    let silent: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    let said = |bytes: &[u8]| {
        let mut stream = connect();
        // The server may hang up before it has all.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    drop(silent);
    let mut patience = Patience::new(Duration::from_secs(60));
    while server.ctl("volumes").code != Some(0) {
        assert!(patience.wait());
    }
    for wrong in [&b"hello\n"[..], b"{}\n", b"[1]\n", b"{\"do\":\"add\"}\n", b"\xff\xfe\n", b"\n"] {
        let text = said(wrong);
        assert!(text.is_empty() || text.contains("refused"), "{text}");
    }
    assert!(said(&vec![b'['; 200_000]).len() < 1000);
    let steering = "{\"do\":\"remove\",\"volume\":\"\\u001b[2J\"}\n";
    assert!(said(steering.as_bytes()).contains("refused"));
    let refused = server.ctl("remove \u{1b}[2J");
    assert!(refused.code == Some(2) && !refused.stderr.contains('\u{1b}'), "{refused:?}");
    assert_eq!(server.names(), ["a"]);
}

#[test]
fn a_socket_is_replaced_only_if_it_was_left_behind() {
    let Some(server) = Controlled::new("--volume a=ram:1m") else { return };
    let place = server.folder.path().display().to_string();
    let serve = |socket: &str| {
        let args =
            format!("serve --iscsi 127.0.0.1:0 --control {place}/{socket} --volume a=ram:1m");
        server.drumfire.command(server.folder.path(), &args)
    };
    let refused = run(&mut serve("socket"), LIMIT);
    assert!(refused.code == Some(2) && refused.stderr.contains("another server"), "{refused:?}");
    server.folder.file("file", b"precious");
    let refused = run(&mut serve("file"), LIMIT);
    assert!(refused.code == Some(2) && refused.stderr.contains("a file is there"), "{refused:?}");
    assert_eq!(fs::read(server.folder.path().join("file")).unwrap(), b"precious");
    drop(UnixListener::bind(server.folder.path().join("stale")).unwrap());
    let mut running = Running::start(&mut serve("stale"));
    running.await_stdout(LIMIT, |said| said.contains("ready ").then_some(()));
    let listed = server.drumfire.run(server.folder.path(), "ctl stale volumes", LIMIT).ok();
    assert!(listed.stdout.contains("ram:1m"), "{listed:?}");
    running.signal(Signal::TERM);
    running.finish(LIMIT).ok();
    assert!(!server.folder.path().join("stale").exists());
    let gone = server.drumfire.run(server.folder.path(), "ctl stale volumes", LIMIT);
    assert!(gone.code == Some(2) && gone.stderr.contains("--control stale"), "{gone:?}");
}

#[test]
fn orders_that_make_no_sense_are_refused_with_their_reason() {
    let Some(server) = Controlled::new("--volume a=file:HERE/a.img?size=1m") else { return };
    for (order, said) in [
        ("add a=ram:1m", "'a' is served already"),
        ("add iqn.2026-11.io.drumfire:a=ram:1m", "is served already"),
        ("add x=file:HERE/a.img", "same data as"),
        ("add x=file:HERE/none.img", "none.img"),
        ("add ram:1m", "write NAME=URI"),
        ("add x/0=ram:1m", "NSIDs start at 1"),
        ("remove x", "no volume is called 'x'"),
        ("disconnect 77", "no connection is of '77'"),
        ("reload", "without a serve.toml"),
    ] {
        let refused = server.ctl(order);
        assert_eq!(refused.code, Some(2), "{order}: {refused:?}");
        assert!(refused.stderr.contains(said), "{order}: {refused:?}");
    }
    assert_eq!(server.names(), ["a"]);
    assert!(!server.folder.path().join("x").exists());
}

#[test]
fn a_host_that_is_disconnected_may_come_back() {
    let Some(server) = Controlled::new("--volume a=ram:8m") else { return };
    let again = |uri: String| format!("{uri}?reconnect=20s");
    let load = server.load(&again(server.served.uri("a")), 8);
    let connections = server.list("connections");
    let one = connections.iter().find(|it| it["volumes"][0] == "a").unwrap();
    assert_eq!(
        (&one["protocol"], &one["host"]),
        (&Value::from("iSCSI"), &Value::from(format!("{IQN}:initiator")),)
    );
    server.ctl(&format!("disconnect {}", one["number"])).ok();
    server.ctl(&format!("disconnect {IQN}:initiator"));
    let result = load.finish(LIMIT).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    assert!(result["totals"]["reconnects"].as_u64().unwrap() >= 1, "{result}");
    assert!(server.served.running.stderr().contains("disconnected by the operator"));
}

#[test]
fn other_peoples_clients_see_what_is_served_now() {
    let (Some(ls), Some(info)) = (require("iscsi-ls"), require("nbdinfo")) else { return };
    let Some(server) = Controlled::new("--volume a=ram:1m") else { return };
    server.ctl("add late=ram:4m").ok();
    let names = |server: &Controlled| {
        let listed = run(Command::new(&ls).arg(server.served.portal()), LIMIT).ok().stdout;
        let all = run(Command::new(&info).args(["--list", &server.nbd_uri("")]), LIMIT).ok().stdout;
        ["a", "late"].map(|name| {
            let (iscsi, nbd) = (format!("{IQN}:{name} "), format!("export=\"{name}\""));
            (listed.contains(&iscsi), all.contains(&nbd))
        })
    };
    assert_eq!(names(&server), [(true, true); 2]);
    server.ctl("remove a").ok();
    assert_eq!(names(&server), [(false, false), (true, true)]);
}

#[test]
fn a_volume_becomes_read_only_and_writable_again() {
    let Some(server) = Controlled::new("--volume a=ram:8m --volume b=ram:8m --read-only b") else {
        return;
    };
    let write = |uri: &str| {
        let args = format!("run {uri} --read 0 --size 4k --seconds 1 --ramp 0 --destroy");
        server.drumfire.run(server.folder.path(), &args, LIMIT).code
    };
    let all =
        |name: &str| [server.served.uri(name), server.served.nvme_uri(name), server.nbd_uri(name)];
    let writes = |name: &str| all(name).map(|uri| write(&uri) == Some(0));
    assert_eq!((writes("a"), writes("b")), ([true; 3], [false; 3]));
    let beside = server.load(&server.served.uri("a"), 20);
    server.ctl("set b writable").ok();
    assert_eq!(writes("b"), [true; 3]);
    let load = server.load(&server.served.nvme_uri("b"), 600);
    let said = server.ctl("set b read-only").ok().stdout;
    assert!(said.starts_with("b is read-only; "), "{said}");
    // A host that wrote before is disconnected.
    assert_eq!(load.finish(LIMIT).code, Some(6));
    assert_eq!(writes("b"), [false; 3]);
    assert_eq!(server.ctl("set b/1 read-only").ok().stdout, "b is read-only already\n");
    let rows = server.list("volumes");
    assert_eq!(rows.iter().map(|row| row["read_only"] == true).collect::<Vec<_>>(), [false, true]);
    assert!(server.ctl("dump").ok().stdout.contains("read_only = [\"b/1\"]"));
    assert_eq!(server.ctl("set c read-only").code, Some(2));
    let read = format!("run {} --size 4k --seconds 1 --ramp 0", server.served.uri("b"));
    server.drumfire.run(server.folder.path(), &read, LIMIT).ok();
    assert_eq!(beside.finish(LIMIT).ok().json()["totals"]["errors"], 0);
}

#[test]
fn a_file_that_grew_has_its_size_when_it_is_opened_again() {
    let Some(server) = Controlled::new("--volume a=ram:1m") else { return };
    server.folder.file("g.img", &vec![0; 1 << 20]);
    server.ctl("add g=file:HERE/g.img").ok();
    let bytes = || server.list("volumes")[1]["bytes"].as_u64().unwrap();
    assert_eq!(bytes(), 1 << 20);
    let file = fs::OpenOptions::new().write(true).open(server.folder.path().join("g.img"));
    file.unwrap().set_len(3 << 20).unwrap();
    assert_eq!(server.ctl("reopen g").ok().stdout, "g is opened again: 3m\n");
    assert_eq!(bytes(), 3 << 20);
    let Some(info) = require("nbdinfo") else { return };
    let size = run(Command::new(info).args(["--size", &server.nbd_uri("g")]), LIMIT).ok().stdout;
    assert_eq!(size.trim(), (3 << 20).to_string());
    fs::remove_file(server.folder.path().join("g.img")).unwrap();
    let refused = server.ctl("reopen g");
    assert!(refused.stderr.contains("g is closed"), "{refused:?}");
    assert_eq!(server.names(), ["a"]);
}
