//! Mistakes of users: the right exit code, and one clear line that names the fix.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use drumfire_tests::{Client, Drumfire, Finished, Folder, IQN, NQN, require, run};

const LIMIT: Duration = Duration::from_secs(300);
/// The run failed.
const FAILED: i32 = 1;
/// Exit code for wrong arguments.
const USAGE: i32 = 2;

/// Checks a code and that stderr names `word`, in one line unless it is about usage.
fn refused(finished: &Finished, code: i32, word: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    let lines: Vec<&str> = finished.stderr.lines().filter(|line| !line.is_empty()).collect();
    let said = lines.join("\n");
    assert!(said.to_lowercase().contains(word), "`{word}` in {finished:?}");
    // The parser of arguments has its own beginning.
    let begins = ["drumfire: ", "error: "].iter().any(|start| said.starts_with(start));
    assert!(begins, "{finished:?}");
    // Wrong usage adds a hint.
    assert!(code == USAGE || lines.len() == 1, "one line: {finished:?}");
    assert!(!said.contains("panicked"), "{finished:?}");
    assert_eq!(finished.stdout, "", "stdout is for data: {finished:?}");
}

fn misuse(args: &str, code: i32, word: &str) {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    refused(&drumfire.run(folder.path(), args, LIMIT), code, word);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "what cannot begin leaves nothing: {left:?}");
}

macro_rules! misuses {
    ($($test:ident $args:literal => $code:ident $word:literal)*) => {$(
        #[test]
        fn $test() {
            misuse($args, $code, $word);
        }
    )*};
}

misuses! {
    an_unknown_option "run null:1t --no-such-option" => USAGE "--no-such-option"
    an_unknown_command "drive null:1t" => USAGE "drive"
    no_volume "run" => USAGE "uri"
    a_size_of_zero "run ram:1m --size 0 --seconds 1" => USAGE "size"
    a_size_that_is_none "run ram:1m --size large --seconds 1" => USAGE "large"
    a_size_beside_the_block "run ram:1m --size 1000 --seconds 1" => USAGE "512"
    a_size_beyond_the_volume "run ram:4k --size 8k --seconds 1" => USAGE "8"
    a_share_beyond_all "run ram:1m --read 101 --seconds 1" => USAGE
        "drumfire: the share of reads must be 0 to 100 percent, not 101"
    nothing_outstanding "run ram:1m --outstanding 0 --seconds 1" => USAGE "outstanding"
    an_unknown_kind_of_volume "run tape:1g --seconds 1" => USAGE "tape"
    a_volume_of_no_size "run ram:0 --seconds 1" => USAGE "smaller"
    a_volume_without_a_name "serve --iscsi 127.0.0.1:0 --volume ram:1m" => USAGE "name"
    an_address_that_is_none "serve --iscsi nowhere --volume a=ram:1m" => USAGE "127.0.0.1:3260"
    nothing_to_serve "serve --iscsi 127.0.0.1:0" => USAGE "volume"
    a_name_that_iscsi_forbids "serve --iscsi 127.0.0.1:0 --volume a_b=ram:1m" => USAGE "a_b"
    two_volumes_of_one_name "serve --iscsi 127.0.0.1:0 --volume a=ram:1m --volume a=ram:2m"
        => USAGE "lun 1"
    a_share_that_is_no_number "run ram:1m --read most" => USAGE "'most' is not a number"
    a_seed_below_zero "run null:1g --seed -1" => USAGE "--seed -1: must be a whole number"
    a_size_below_zero "race --size -4k" => USAGE "--size -4k: must be a size above 0"
    a_rate_below_zero "sweep race --rate -5" => USAGE "--rate -5: must be a rate above 0"
    drives_below_zero "simulate x25-m --drives -1" => USAGE "--drives -1: must be a whole number"
    a_claim_below_zero "audit --iops -1" => USAGE "--iops -1: must be a rate above 0"
    money_below_zero "plan --compare sas-16 intel-ssd --money=-5" => USAGE "--money -5: must be an"
    a_time_of_no_unit "run null:1g --seconds 10x" => USAGE "'10x' is not a time: write 10, 500ms"
    a_power_in_dollars "plan --goal 1M --power-max 300USD" => USAGE "usd where w belongs"
    a_time_before_now "run ram:1m --seconds -1" => USAGE "must be above 0"
    a_file_without_its_kind "run disk.img" => USAGE "file:disk.img"
    a_portal_with_a_path "discover file:x/y" => USAGE "host:port"
    a_port_beyond_all "discover 127.0.0.1:99999" => USAGE "'99999' is not a port"
    a_sweep_of_nothing "sweep no-such-folder" => USAGE "no-such-folder"
    a_sweep_in_a_plain_folder "sweep ." => USAGE "is not a sweep"
    an_axis_that_is_none "sweep race --axis no=1" => USAGE "volumes, size, read"
    missing_parts "simulate x25-m --parts none" => USAGE "cannot read none"
    a_simulation_beyond_its_clock "simulate x25-m --seconds 20000000" => USAGE "200 days"
    stdout_wanted_twice "run null:1t --json --json-lines -" => USAGE "name a file"
    a_missing_file "run file:no-such-file --seconds 1" => USAGE "no-such-file?size=1g creates it"
    a_mistyped_command "rnu null:1g" => USAGE "a similar subcommand exists: 'run'"
    a_mistyped_option "run null:1g --raed 70" => USAGE "a similar argument exists: '--read'"
    a_mistyped_value "race --protocol iscs" => USAGE "a similar value exists: 'iscsi'"
    a_mistyped_kind "run rma:1g" => USAGE "did you mean 'ram'?"
    a_mistyped_parameter "run nbd://127.0.0.1:1/x?recconect=3s" => USAGE "did you mean 'reconnect'?"
    a_mistyped_axis "sweep null:1g --axis outstnding=1,2" => USAGE "did you mean 'outstanding'?"
    a_mistyped_preset "run null:1g --preset oltp4k" => USAGE "did you mean 'oltp-4k'?"
    a_mistyped_scenario "scenario show marvel-modules" => USAGE "did you mean 'marvell-modules'?"
    a_mistyped_option_of_fio "fio --iodepht=3 --name=a" => USAGE "did you mean 'iodepth'?"
    a_mistyped_bill "plan intl-ssd" => USAGE "did you mean 'intel-ssd'?"
    a_mistyped_claim "audit fonding" => USAGE "did you mean 'founding'?"
    a_mistyped_class "catalogue list --class driv" => USAGE "did you mean 'drive'?"
    a_maker_instead_of_a_part "catalogue show samsung" => USAGE "are known"
    a_mistyped_page "man rnu" => USAGE "did you mean 'run'?"
    a_missing_file_to_serve "serve --iscsi 127.0.0.1:0 --volume a=file:none" => USAGE "none"
    a_missing_job "run none.toml" => USAGE "cannot read none.toml: no such file"
    a_missing_job_of_fio "run none.fio" => USAGE "cannot read none.fio: no such file"
    a_missing_configuration "serve none.toml" => USAGE "cannot read none.toml"
    a_missing_profile "run delay:none(ram:1m) --seconds 1" => USAGE "none"
    a_missing_bill "plan none.toml" => USAGE "cannot read none.toml"
    a_missing_claim "audit none.toml" => USAGE "cannot read none.toml"
    a_missing_run "report none" => USAGE "none holds no result.json"
    a_folder_as_a_volume "run file:. --seconds 1" => USAGE "not a file or a block device"
    a_doctor_of_a_folder "doctor file:." => USAGE "not a file or a block device"
    a_part_to_simulate "simulate csd5310" => USAGE
        "drumfire plan --drive csd5310"
    a_link_of_no_mtu "audit --mtu 1 --iops 1M --link 10gbe --size 4k" => USAGE "mtu: 576 to 65535"
    a_stranger_to_destroy "run null:1g --destroy=/dev/sdzz --seconds 1" => USAGE
        "--destroy=/dev/sdzz: the job has no such volume"
    a_stranger_to_sweep "sweep null:1g --destroy=/dev/sdzz --seconds 1" => USAGE "/dev/sdzz"
    an_address_without_its_end "run iscsi://[::1/iqn.2026-11.org.example:x/1"
        => USAGE "']' is missing"
    a_portal_without_its_end "discover [::1" => USAGE "']' is missing"
    nobody_listens "run iscsi://127.0.0.1:1/iqn.2026-11.org.example:x/1 --seconds 1"
        => FAILED "refused"
}

#[test]
fn a_port_of_another_protocol() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (folder, served) = (Folder::new(), drumfire.serve(&["disk=ram:1m"]));
    let (iscsi, nvme) = (served.port, served.nvme_port);
    for args in [
        format!("discover 127.0.0.1:{nvme}"),
        format!("discover nvme+tcp://127.0.0.1:{iscsi}"),
        format!("run iscsi://127.0.0.1:{nvme}/{IQN}:disk/1 --seconds 1"),
        format!("run nvme+tcp://127.0.0.1:{iscsi}/{NQN}:disk/1 --seconds 1"),
    ] {
        let finished = drumfire.run(folder.path(), &args, LIMIT);
        refused(&finished, FAILED, "the port of another protocol?");
    }
}

#[test]
fn a_file_of_settings_with_a_mistake() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("serve.toml", b"volume = ['a=ram:1m']\n\nvolumes = 1\n");
    let finished = drumfire.run(folder.path(), "serve serve.toml", LIMIT);
    refused(&finished, USAGE, "serve.toml:3: unknown field `volumes`");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
}

/// Documents of other programs, and files without text: the message describes their content.
#[test]
fn documents_that_are_none_of_ours() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("list.json", b"[1, 2]");
    folder.file("object.json", b"{\"a\": 1}");
    folder.file("half.json", b"{\"a\":");
    folder.file("old.json", b"{\"schema_version\": 1}");
    folder.file("bytes.fio", b"[a]\nrw=\xff\xfe\n");
    folder.file("bytes.toml", b"\xff\xfe");
    for (args, word) in [
        ("report list.json", "it is not the result of a run"),
        ("compare object.json object.json", "not the result of a run"),
        ("report half.json", "not json"),
        ("report old.json", "missing field"),
        ("run bytes.fio", "cannot read bytes.fio: "),
        ("run bytes.toml", "cannot read bytes.toml: "),
    ] {
        let finished = drumfire.run(folder.path(), args, LIMIT);
        refused(&finished, USAGE, word);
        assert!(!finished.stderr.contains("struct"), "{finished:?}");
    }
}

/// A file to lay out needs space, and a folder.
#[test]
fn files_that_cannot_be_laid_out() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let job = |path: &str, size: &str| {
        format!(
            "laid_out = [{{ path = \"{path}\", size_bytes = \"{size}\", written = true }}]\n\
             [[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"file:{path}\"]\n\
             workload.access.lines = [{{ size_bytes = \"4k\" }}]\n"
        )
    };
    folder.file("large.toml", job("big.x", "4096t").as_bytes());
    folder.file("nowhere.toml", job("no/such/x", "1m").as_bytes());
    folder.file("large.fio", b"[a]\nfilename=no/big.x\nsize=4096t\nrw=read\n");
    let sized = drumfire.run(folder.path(), "run large.toml", LIMIT);
    refused(&sized, FAILED, "the layout needs");
    refused(
        &drumfire.run(folder.path(), "run large.fio", LIMIT),
        FAILED,
        "are free in this file system",
    );
    let nowhere = drumfire.run(folder.path(), "run nowhere.toml", LIMIT);
    refused(&nowhere, USAGE, "no/such is missing: create it first");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "nothing is made");
}

#[test]
fn an_address_of_another_host() {
    let Some(drumfire) = Drumfire::find() else { return };
    let args = "serve --iscsi 192.0.2.1:3260 --volume a=ram:1m";
    let finished = drumfire.run(Folder::new().path(), args, LIMIT);
    refused(&finished, FAILED, "cannot listen on 192.0.2.1:3260");
    assert_eq!(finished.stderr.matches("assign").count(), 1, "said once: {finished:?}");
}

/// Messages on stderr have no reader: the exit code still reports the error.
#[test]
fn nobody_reads_the_message() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let folder = Folder::new();
    let mut command = drumfire.command(folder.path(), "discover tape://x");
    let status = command.stderr(writer).stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(USAGE));
}

/// A target continues to serve after a message that nobody reads.
#[test]
fn nobody_reads_what_a_target_says() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (reader, writer) = std::io::pipe().unwrap();
    let args = "serve --iscsi 127.0.0.1:0 --volume disk=ram:1m --cores 0";
    let folder = Folder::new();
    let mut command = drumfire.command(folder.path(), args);
    let mut target = command.stderr(writer).stdout(Stdio::piped()).spawn().unwrap();
    drop((command, reader));
    let mut ready = String::new();
    BufReader::new(target.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let port = ready.trim_end().strip_prefix("ready iscsi=127.0.0.1:");
    let port = port.unwrap_or_else(|| panic!("{ready}")).parse().unwrap();
    let mut stranger = Client::connect(port);
    assert!(stranger.send(&[0xff; 48]) && stranger.closed(), "a violation ends a connection");
    let served = Client::connect(port).login("disk");
    target.kill().and_then(|()| target.wait()).unwrap();
    assert!(served, "the target is gone");
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    misuse(&format!("serve --iscsi {address} --volume a=ram:1m"), FAILED, "in use");
}

#[test]
fn an_unknown_target_and_an_unknown_unit() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:1m"]);
    let portal = served.portal();
    misuse(&format!("run {portal}/{IQN}:other/1 --seconds 1"), FAILED, "not found");
    misuse(&format!("run {portal}/{IQN}:disk/7 --seconds 1"), FAILED, "7");
    misuse(&format!("run {portal}/{IQN}:disk/x --seconds 1"), USAGE, "lun");
    misuse(&format!("run {portal}/no-name/1 --seconds 1"), USAGE, "no-name");
}

#[test]
fn a_portal_that_says_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    misuse(&format!("run iscsi://{address}/{IQN}:disk/1 --seconds 1"), FAILED, "timed out");
}

#[test]
fn a_file_without_permission() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let disk = folder.file("closed", &vec![0; 1 << 20]);
    std::fs::set_permissions(&disk, PermissionsExt::from_mode(0o000)).unwrap();
    let Some(mut command) = as_nobody(&drumfire, &folder) else { return };
    let args = format!("run file:{} --seconds 1", disk.display());
    let finished = run(command.args(args.split(' ')).current_dir(folder.path()), LIMIT);
    refused(&finished, FAILED, "permission");
}

#[test]
fn a_folder_that_keeps_no_result() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some(mut command) = as_nobody(&drumfire, &folder) else { return };
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
    let args = ["run", "null:1t", "--seconds", "1", "--ramp", "0"];
    let finished = run(command.args(args).current_dir(folder.path()), LIMIT);
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(finished.code, Some(FAILED), "{finished:?}");
    assert!(finished.stderr.contains("drumfire-runs"), "{finished:?}");
    // Reported before anything is measured, so that nothing is lost.
    assert_eq!(finished.stdout, "", "{finished:?}");
}

/// The program, run by an unprivileged user, because root ignores permissions.
fn as_nobody(drumfire: &Drumfire, folder: &Folder) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return Some(Command::new(drumfire.path()));
    }
    let setpriv = require("setpriv")?;
    let mut command = Command::new(setpriv);
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(reachable(drumfire.path(), folder));
    Some(command)
}

/// A copy in a folder with access for all users: the build may be in one without.
fn reachable(program: &Path, folder: &Folder) -> PathBuf {
    let copy = folder.path().join("drumfire");
    std::fs::copy(program, &copy).expect("a folder of ours");
    copy
}

#[test]
fn a_file_with_data_wants_a_word() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let precious = vec![7; 4 << 20];
    let disk = folder.file("disk", &precious);
    let args = format!("run file:{} --read 0 --seconds 1 --ramp 0", disk.display());
    refused(&drumfire.run(folder.path(), &args, LIMIT), USAGE, "--destroy");
    assert!(std::fs::read(&disk).unwrap() == precious, "it was written all the same");
    drumfire.run(folder.path(), &format!("{args} --destroy"), LIMIT).ok();
    assert!(std::fs::read(&disk).unwrap() != precious, "nothing was written");
}

#[test]
fn reading_a_file_with_data_wants_no_word() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let disk = folder.file("disk", &vec![7; 4 << 20]);
    let args = format!("run file:{} --read 100 --seconds 1 --ramp 0", disk.display());
    drumfire.run(folder.path(), &args, LIMIT).ok();
}
