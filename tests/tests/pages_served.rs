//! The live page of a server: its volumes and hosts, second by second.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Patience, Running, free_port};
use serde_json::Value;

use crate::pages::{get, watched};

const LIMIT: Duration = Duration::from_secs(60);

/// The row of a volume or host, by its name.
fn row<'a>(state: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    state["served"][list].as_array()?.iter().find(|row| row["name"] == name)
}

#[test]
fn volumes_have_their_rate_and_events_and_hosts_their_volumes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let fault = "name = \"bad\"\n[[fault]]\nverb = \"error\"\nop = \"read\"\ncount = 2\n";
    folder.file("fails.toml", fault.as_bytes());
    let [iscsi, nvme] = [(); 2].map(|()| free_port());
    let args = format!(
        "serve --iscsi 127.0.0.1:{iscsi} --nvme-tcp 127.0.0.1:{nvme} --volume used=ram:4m \
         --volume idle=ram:1m --volume legs=mirror(ram:4m,fault:./fails.toml(ram:4m)) \
         --read-only idle --listen 127.0.0.1:0"
    );
    let (_server, address) = watched(&drumfire, folder.path(), &args);
    let state = |enough: &dyn Fn(&Value) -> bool| -> Value {
        let mut patience = Patience::new(LIMIT);
        loop {
            let state = serde_json::from_str(&get(&address, "/api/state", "").1).unwrap();
            if enough(&state) || !patience.wait() {
                return state;
            }
        }
    };
    let names = format!("iscsi://127.0.0.1:{iscsi}/iqn.2026-11.io.drumfire:");
    let load = |volume: String| {
        let args = format!("run {volume} --rate 2000 --size 4k --seconds 600 --no-ceiling");
        Running::start(&mut drumfire.command(folder.path(), &args))
    };
    let _one = load(format!("{names}used/1"));
    let _two = load(format!("nvme+tcp://127.0.0.1:{nvme}/nqn.2026-11.io.drumfire:legs/1"));
    let rate = |state: &Value, name: &str| {
        row(state, "volumes", name).and_then(|of| of["second"]["iops"].as_f64()).unwrap_or(0.0)
    };
    let found = state(&|state| rate(state, "used") > 100.0 && rate(state, "legs") > 100.0);
    let of = |name: &str| row(&found, "volumes", name).unwrap_or_else(|| panic!("{found}"));
    let (used, idle, legs) = (of("used"), of("idle"), of("legs"));
    assert!(used["second"]["p99_at_most_ns"].as_u64().is_some_and(|ns| ns > 0), "{found}");
    assert!(used["connections"].as_u64().is_some_and(|count| count >= 1), "{found}");
    assert_eq!((used["read_only"].clone(), idle["read_only"].clone()), (false.into(), true.into()));
    assert_eq!((idle["second"]["iops"].as_f64(), &idle["connections"]), (Some(0.0), &0.into()));
    assert!(legs["state"].as_str().is_some_and(|words| words.contains("leg 2")), "{found}");
    let all = found["served"]["second"]["iops"].as_f64().unwrap();
    let sum = rate(&found, "used") + rate(&found, "legs");
    assert!((all - sum).abs() < 1e-6 * sum, "{found}");
    let host = row(&found, "hosts", "iqn.2026-11.io.drumfire:initiator");
    assert_eq!(host.expect("the initiator")["volumes"], serde_json::json!(["used"]), "{found}");
}
