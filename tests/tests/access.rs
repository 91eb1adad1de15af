//! Who may use what is served.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, NQN};

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
        // The list is one of NVMe/TCP alone.
        run(&served.uri(name)).ok();
    }
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
