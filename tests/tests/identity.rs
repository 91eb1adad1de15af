//! Identity of served volumes, as reported to initiators: two servers never serve one disk unless
//! the user said so, and a server serves the same disks after a restart.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, IQN, Running, require, run};

const LIMIT: Duration = Duration::from_secs(300);

/// A folder to serve from, with its own state folder, and an initiator that queries.
struct Rig {
    drumfire: Drumfire,
    iscsi_inq: PathBuf,
    folder: Folder,
}

/// State folder of a server.
enum State<'a> {
    Below(&'a str),
    Nowhere,
}

impl Rig {
    fn new() -> Option<Rig> {
        let (drumfire, iscsi_inq) = (Drumfire::find()?, require("iscsi-inq")?);
        let rig = Rig { drumfire, iscsi_inq, folder: Folder::new() };
        rig.folder.file("a.img", &[0; 1 << 20]);
        rig.folder.file("b.img", &[0; 1 << 20]);
        Some(rig)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, state: &State<'_>, args: &str) -> Command {
        let args = format!("serve --iscsi 127.0.0.1:0 {args}");
        let mut command = self.drumfire.command(self.path(), &args);
        match state {
            State::Below(name) => command.env("XDG_STATE_HOME", self.path().join(name)),
            // A container: no home, and no usable state folder of the system.
            State::Nowhere => command.env("XDG_STATE_HOME", "/dev/null"),
        };
        command
    }

    /// Names of the volume `NAME/LUN` of a server with these arguments, and the server's stderr.
    fn ask_for(&self, state: &State<'_>, args: &str, name: &str) -> (Names, String) {
        let mut server = Running::start(&mut self.command(state, args));
        let port = server.await_stdout(LIMIT, |stdout| {
            let line = stdout.split_once('\n')?.0;
            line.rsplit_once(':')?.1.parse::<u16>().ok()
        });
        let page = |code: &str| {
            let uri = format!("iscsi://127.0.0.1:{port}/{IQN}:{name}");
            run(Command::new(&self.iscsi_inq).args(["-e", "1", "-c", code, &uri]), LIMIT)
                .ok()
                .stdout
        };
        let names = Names { serial: page("128"), designators: page("131") };
        assert!(names.serial.contains("Unit Serial Number"), "{names:?}");
        assert!(names.designators.contains("NAA"), "{names:?}");
        (names, server.stderr())
    }

    fn ask(&self, state: &str, args: &str) -> Names {
        let (names, said) = self.ask_for(&State::Below(state), args, "disk/1");
        assert_eq!(said, "", "{args}");
        names
    }

    fn refused(&self, args: &str) -> Finished {
        run(&mut self.command(&State::Below("state"), args), LIMIT)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Names {
    serial: String,
    designators: String,
}

#[test]
fn strangers_of_one_name_are_other_disks() {
    let Some(rig) = Rig::new() else { return };
    let all = [
        rig.ask("state", "--volume disk=file:a.img"),
        rig.ask("state", "--volume disk=file:b.img"),
        rig.ask("other", "--volume disk=file:a.img"),
        rig.ask("state", "--volume disk=ram:1m"),
        rig.ask("state", "--volume disk=ram:1m"),
        rig.ask("state", "--volume disk=null:1m"),
        rig.ask("state", "--volume disk=null:1m"),
        rig.ask("state", "--id x --volume disk=file:a.img"),
        rig.ask("state", "--id y --volume disk=file:a.img"),
    ];
    let serials: BTreeSet<&String> = all.iter().map(|names| &names.serial).collect();
    let designators: BTreeSet<&String> = all.iter().map(|names| &names.designators).collect();
    assert_eq!((serials.len(), designators.len()), (all.len(), all.len()), "{all:#?}");
}

#[test]
fn a_restart_changes_no_names() {
    let Some(rig) = Rig::new() else { return };
    let before = rig.ask("state", "--volume disk=file:a.img");
    std::os::unix::fs::symlink("a.img", rig.path().join("link")).unwrap();
    let whole = format!("--volume {IQN}:disk=file:{}/a.img", rig.path().display());
    for again in [
        "--volume disk=file:a.img",
        "--volume disk/1=file:./link",
        "--volume other=ram:1m --volume disk=file:a.img --volume disk/2=file:b.img",
        &whole,
    ] {
        assert_eq!(rig.ask("state", again), before, "{again}");
    }
    let kept = std::fs::read_to_string(rig.path().join("state/drumfire/server-id")).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
}

#[test]
fn units_of_a_target_are_disks_of_their_own() {
    let Some(rig) = Rig::new() else { return };
    let args = "--volume disk/0=ram:1m --volume disk/1=ram:1m --volume disc/1=ram:1m";
    let ask = |name: &str| rig.ask_for(&State::Below("state"), args, name).0;
    assert_ne!(ask("disk/0"), ask("disk/1"));
    assert_ne!(ask("disk/1"), ask("disc/1"));
    assert!(!rig.path().join("state").exists(), "nothing is kept for memory");
}

#[test]
fn servers_of_one_id_serve_one_disk() {
    let Some(rig) = Rig::new() else { return };
    let one = rig.ask("state", "--id both --volume disk=file:a.img");
    assert_eq!(rig.ask("other", "--id both --volume disk=file:b.img"), one);
    rig.folder.file("serve.toml", b"id = 'both'\nvolume = ['disk=file:a.img']\n");
    assert_eq!(rig.ask("state", "serve.toml"), one);
    assert_ne!(rig.ask("state", "serve.toml --id other"), one, "flags go before the file");
    assert!(!rig.path().join("state").exists(), "nothing is kept for what was given");
    // Two processes share no memory, and the user may not know this.
    let args = "--id both --volume disk=ram:1m";
    let (names, said) = rig.ask_for(&State::Below("state"), args, "disk/1");
    assert_eq!(names.serial, one.serial);
    assert!(said.starts_with("drumfire: --volume disk=ram:1m: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let empty =
        run(rig.command(&State::Below("state"), "--volume disk=ram:1m --id").arg(""), LIMIT);
    assert_eq!(empty.code, Some(2), "{empty:?}");
    assert!(empty.stderr.contains("--id needs a text"), "{empty:?}");
}

#[test]
fn without_a_state_folder_it_is_said_and_no_stranger_is_met() {
    let Some(rig) = Rig::new() else { return };
    let args = "--volume disk=file:a.img";
    let ask = |state| rig.ask_for(&state, args, "disk/1");
    let [(first, said), (second, _)] = [ask(State::Nowhere), ask(State::Nowhere)];
    assert_ne!(first, second);
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in ["/dev/null/drumfire", "Not a directory", "XDG_STATE_HOME", "--id"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Memory and given identities need no state folder.
    for args in ["--volume disk=ram:1m", "--id x --volume disk=file:a.img"] {
        assert_eq!(rig.ask_for(&State::Nowhere, args, "disk/1").1, "", "{args}");
    }
    // A copy of another machine's system.
    let line = format!("{} 00000000000000000000000000000000 02:00:5e:10:00:00\n", "7".repeat(32));
    std::fs::create_dir_all(rig.path().join("copied/drumfire")).unwrap();
    rig.folder.file("copied/drumfire/server-id", line.as_bytes());
    let (copy, said) = rig.ask_for(&State::Below("copied"), args, "disk/1");
    assert!(said.contains("belongs to another machine"), "{said}");
    assert_eq!(rig.ask_for(&State::Below("copied"), args, "disk/1"), (copy, String::new()));
}

#[test]
fn the_same_data_are_not_served_twice() {
    let Some(rig) = Rig::new() else { return };
    std::fs::hard_link(rig.path().join("a.img"), rig.path().join("hard")).unwrap();
    std::os::unix::fs::symlink("hard", rig.path().join("soft")).unwrap();
    for second in [
        "b=file:a.img",
        "b=file:hard",
        "b/7=file:soft?direct=no",
        "disk/2=file:./a.img",
        "b=delay:x25-m(file:a.img)",
        &format!("b=file:{}/soft", rig.path().display()),
    ] {
        let args = format!("--volume disk=file:a.img --volume {second}");
        let finished = rig.refused(&args);
        assert_eq!(finished.code, Some(2), "{finished:?}");
        let begin = format!("drumfire: --volume {second}: same data as --volume disk=");
        assert!(finished.stderr.starts_with(&begin), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
    let made = rig.refused("--volume a=file:new.img?size=1m --volume b=file:new.img?size=1m");
    assert_eq!(made.code, Some(2), "{made:?}");
    // Two files with the same content are distinct.
    rig.ask("state", "--volume disk=file:a.img --volume b=file:b.img");
}
