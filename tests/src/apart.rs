//! A network namespace with a veth pair to it: another host, by its addresses and wires.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Drumfire, require, skip};

/// A network namespace, removed on drop.
#[derive(Debug)]
pub struct Apart {
    name: String,
    /// Address at the far end of its veth pair.
    pub address: String,
}

impl Apart {
    /// Creates a namespace. If that is not possible, the calling test is recorded as skipped.
    pub fn new() -> Option<Apart> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let ip = require("ip")?;
        let number = std::process::id() % 4000 * 8 + COUNT.fetch_add(1, Ordering::Relaxed) % 8;
        let (name, [ours, theirs]) =
            (format!("dfns{number}"), ["a", "b"].map(|end| format!("df{end}{number}")));
        // Both ends are in a /30 of 10.213/16 that no concurrent test of this host uses.
        let net =
            |end: u32| format!("10.213.{}.{}", number * 4 / 256 % 256, number * 4 % 256 + end);
        let (near, far) = (format!("{}/30", net(1)), format!("{}/30", net(2)));
        let steps: [&[&str]; 7] = [
            &["netns", "add", &name],
            &["link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", &name],
            &["addr", "add", &near, "dev", &ours],
            &["link", "set", &ours, "up"],
            &["-n", &name, "addr", "add", &far, "dev", &theirs],
            &["-n", &name, "link", "set", &theirs, "up"],
            &["-n", &name, "link", "set", "lo", "up"],
        ];
        let apart = Apart { name: name.clone(), address: net(2) };
        for step in steps {
            let mut command = Command::new(&ip);
            command.args(step).stdout(Stdio::null()).stderr(Stdio::null());
            if !command.status().is_ok_and(|status| status.success()) {
                skip(&format!("no network namespace can be made: ip {}", step.join(" ")));
                return None;
            }
        }
        Some(apart)
    }

    /// A call of the program in the namespace, arguments separated by blanks, started in `folder`.
    pub fn command(&self, drumfire: &Drumfire, folder: &Path, args: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(drumfire.path());
        command.args(args.split(' ')).current_dir(folder);
        // Keep out of the user's state.
        command.env("XDG_STATE_HOME", std::env::temp_dir().join("drumfire-test-state"));
        command
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let mut command = Command::new("ip");
        command.args(["netns", "del", &self.name]).stderr(Stdio::null());
        drop(command.status());
    }
}
