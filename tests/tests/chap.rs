//! CHAP of iSCSI: our target and our initiator with each other, and each with those of others.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, IQN, Tgt, require, run};

const LIMIT: Duration = Duration::from_secs(60);
const QUICK: &str = "--seconds 0.2 --ramp 0 --no-ceiling --no-cold-reads --json";
const ONE_WAY: &str = "user = 'one'\nsecret = 'twelve bytes and more'\n";
const MUTUAL: &str = "user = 'one'\nsecret = 'twelve bytes and more'\n\
    target_user = 'target'\ntarget_secret = 'another secret'\n";
const WRONG: &str = "user = 'one'\nsecret = 'twelve bytes and less'\n";
const FALSE_TARGET: &str = "user = 'one'\nsecret = 'twelve bytes and more'\n\
    target_user = 'target'\ntarget_secret = 'a false secret'\n";

fn secrets(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let path = folder.file(name, text.as_bytes());
    mode(&path, 0o600);
    path
}

fn mode(path: &Path, bits: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

/// Runs a job on a volume, with secrets if any.
fn drive(drumfire: &Drumfire, folder: &Folder, uri: &str, chap: Option<&Path>) -> Finished {
    let chap = chap.map(|path| format!("?chap={}", path.display())).unwrap_or_default();
    drumfire.run(folder.path(), &format!("run {uri}{chap} {QUICK}"), LIMIT)
}

#[test]
fn only_who_knows_the_secret_uses_the_volume() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let one = secrets(&folder, "one", ONE_WAY);
    let mutual = secrets(&folder, "mutual", MUTUAL);
    let wrong = secrets(&folder, "wrong", WRONG);
    let false_target = secrets(&folder, "false", FALSE_TARGET);
    let config = format!(
        "iscsi = [\"127.0.0.1:0\"]\nnvme_tcp = [\"127.0.0.1:0\"]\n\
        volume = [\"locked=ram:8m\", \"open=ram:8m\"]\ndiscovery_chap = \"{one}\"\n\
        [iscsi_chap]\nlocked = \"{mutual}\"\n",
        one = one.display(),
        mutual = mutual.display()
    );
    let config = folder.file("serve.toml", config.as_bytes());
    let served = drumfire.serve_with(&config.display().to_string());
    let uri = served.uri("locked");
    for (chap, words) in [
        (Some(&one), None),
        (Some(&mutual), None),
        (None, Some("chap=FILE")),
        (Some(&wrong), Some("refuses user one")),
        (Some(&false_target), Some("does not prove")),
    ] {
        let ended = drive(&drumfire, &folder, &uri, chap.map(PathBuf::as_path));
        match words {
            None => assert_eq!(ended.code, Some(0), "{chap:?}: {ended:?}"),
            Some(words) => {
                assert_eq!(ended.code, Some(1), "{chap:?}: {ended:?}");
                assert!(ended.stderr.contains(words), "{chap:?}: {ended:?}");
            }
        }
        for said in [&ended.stdout, &ended.stderr, &served.running.stderr()] {
            assert!(!said.contains("twelve bytes") && !said.contains("a false secret"), "{said}");
        }
    }
    // The other volume demands nothing, and secrets for it are an error.
    assert_eq!(drive(&drumfire, &folder, &served.uri("open"), None).code, Some(0));
    let ended = drive(&drumfire, &folder, &served.uri("open"), Some(&one));
    assert!(ended.code == Some(1) && ended.stderr.contains("no CHAP"), "{ended:?}");
    // No other protocol is a way around.
    let ended = drive(&drumfire, &folder, &served.nvme_uri("locked"), None);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    // Discovery has secrets of its own.
    let discover = |chap: &str| {
        drumfire.run(folder.path(), &format!("discover {}{chap}", served.portal()), LIMIT)
    };
    assert!(discover("").stderr.contains("chap=FILE"));
    let found = discover(&format!(" --chap {}", one.display())).ok().stdout;
    assert_eq!(found.lines().count(), 2, "{found}");
}

#[test]
fn files_of_secrets_that_others_could_read_are_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let file = secrets(&folder, "one", ONE_WAY);
    let args = format!("serve --volume disk=ram:8m --chap {}", file.display());
    mode(&file, 0o644);
    let ended = drumfire.run(folder.path(), &args, LIMIT);
    assert!(ended.code == Some(2) && ended.stderr.contains("chmod 600"), "{ended:?}");
    let short = secrets(&folder, "short", "user = 'one'\nsecret = 'short'\n");
    let args = format!("serve --volume disk=ram:8m --chap {}", short.display());
    let ended = drumfire.run(folder.path(), &args, LIMIT);
    assert!(ended.code == Some(2) && ended.stderr.contains("12 bytes"), "{ended:?}");
    let uri = "nvme+tcp://127.0.0.1:1/nqn.2026-11.io.drumfire:d/1?chap=x";
    let ended = drumfire.run(folder.path(), &format!("run {uri}"), LIMIT);
    assert!(ended.code == Some(2) && ended.stderr.contains("iscsi:// only"), "{ended:?}");
}

#[test]
fn libiscsi_logs_in_with_the_secrets() {
    let Some(iscsi_inq) = require("iscsi-inq") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let mutual = secrets(&folder, "mutual", MUTUAL);
    let served = drumfire.serve_with(&format!("--volume disk=ram:8m --chap {}", mutual.display()));
    let at = format!("127.0.0.1:{}/{IQN}:disk/1", served.port);
    let inquire = |user: &str, more: &str| {
        let uri = format!("iscsi://{user}{at}{more}");
        run(Command::new(&iscsi_inq).arg(uri), LIMIT)
    };
    let right = "one%twelve bytes and more@";
    let both = "?target_user=target&target_password=another secret";
    for (user, more, is_in) in [
        (right, "", true),
        (right, both, true),
        ("", "", false),
        ("one%twelve bytes and less@", "", false),
        (right, "?target_user=target&target_password=a false secret", false),
    ] {
        let ended = inquire(user, more);
        let inside = ended.code == Some(0) && ended.stdout.contains("DRUMFIRE");
        assert_eq!(inside, is_in, "{user} {more}: {ended:?}");
    }
}

/// tgtd numbers SHA-1 as others number SHA-256: the login that fails is repeated with MD5.
#[test]
fn tgtd_is_logged_in_to_with_the_secrets() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(tgt) = Tgt::serve(8 << 20) else { return };
    let folder = Folder::new();
    tgt.order("--mode account --op new --user one --password twelvebytesandmore");
    tgt.order("--mode account --op bind --tid 1 --user one");
    tgt.order("--mode account --op new --user target --password another-secret");
    tgt.order("--mode account --op bind --tid 1 --user target --outgoing");
    let one = "user = 'one'\nsecret = 'twelvebytesandmore'\n";
    let right = "target_user = 'target'\ntarget_secret = 'another-secret'\n";
    let other = "target_user = 'target'\ntarget_secret = 'a-false-secret'\n";
    for (name, text, words) in [
        ("one", one.to_owned(), None),
        ("mutual", format!("{one}{right}"), None),
        ("false", format!("{one}{other}"), Some("does not prove")),
        ("wrong", one.replace("more", "less"), Some("refuses user one")),
    ] {
        let file = secrets(&folder, name, &text);
        let ended = drive(&drumfire, &folder, &tgt.uri, Some(&file));
        match words {
            None => assert_eq!(ended.code, Some(0), "{name}: {ended:?}"),
            Some(words) => assert!(ended.stderr.contains(words), "{name}: {ended:?}"),
        }
    }
    assert_eq!(drive(&drumfire, &folder, &tgt.uri, None).code, Some(1));
}
