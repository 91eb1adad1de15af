//! Network namespaces for a step: each target host has one, attached to a bridge; the clients have
//! another, at the far end of a wire with an optional rate limit.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// Address of the clients; targets count from 1. Reserved for benchmarks, RFC 2544 section C.2.2.
const INITIATOR: &str = "198.18.0.254";
/// Maximum hosts: addresses of the network below that of the clients.
pub const HOSTS_MAX: u32 = 250;
/// Bytes per Ethernet frame that the kernel does not count: preamble, checksum and gap.
const FRAME_EXTRA_BYTES: u32 = 24;

/// Command prefix that starts a process in a new network namespace.
pub const ALONE: [&str; 3] = ["unshare", "--net", "--"];

/// Namespaces of the clients and of the bridge. They end when this is dropped, and with the
/// processes of the hosts, however those end.
pub struct Network {
    initiator: Namespace,
    bridge: Namespace,
}

/// A namespace held by a process that ends when its input is closed.
struct Namespace(Child);

impl Network {
    /// Creates both namespaces, with a wire of `wire_bits` per second between them, or an unlimited
    /// one.
    ///
    /// # Errors
    ///
    /// A message names the privilege or tool that is missing.
    pub fn new(wire_bits: Option<f64>) -> Result<Network, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".to_owned());
        }
        let network = Network { initiator: Namespace::new()?, bridge: Namespace::new()? };
        let Network { initiator, bridge } = &network;
        bridge.ip("link add br0 type bridge")?;
        bridge.ip("link set br0 up")?;
        bridge.ip(&format!("link add wire type veth peer name eth0 netns {}", initiator.id()))?;
        bridge.ip("link set wire master br0 up")?;
        initiator.ip(&format!("addr add {INITIATOR}/24 dev eth0"))?;
        initiator.ip("link set eth0 up")?;
        for (end, device) in [(bridge, "wire"), (initiator, "eth0")] {
            let Some(bits) = wire_bits else { break };
            // Frame by frame, so that each has its headers.
            end.ip(&format!("link set {device} gso_max_segs 1"))?;
            let filter = format!(
                "qdisc add dev {device} root tbf rate {bits:.0}bit burst 64kb latency 50ms \
                 overhead {FRAME_EXTRA_BYTES} linklayer ethernet"
            );
            end.run("tc", &filter)?;
        }
        Ok(network)
    }

    /// Command prefix for the load-generating process.
    pub fn driving(&self) -> [String; 3] {
        ["nsenter".to_owned(), format!("--net={}", self.initiator.file()), "--".to_owned()]
    }

    /// Connects a process that has its own namespace to the bridge. Returns its address.
    ///
    /// # Errors
    ///
    /// A message names the command that failed.
    pub fn connect(&self, process: u32, number: u32) -> Result<String, String> {
        let (host, address) = (format!("host{number}"), format!("198.18.0.{number}"));
        let bridge = &self.bridge;
        bridge.ip(&format!("link add {host} type veth peer name eth0 netns {process}"))?;
        bridge.ip(&format!("link set {host} master br0 up"))?;
        let inside = format!("/proc/{process}/ns/net");
        within(&inside, "ip", &format!("addr add {address}/24 dev eth0"))?;
        within(&inside, "ip", "link set eth0 up")?;
        Ok(address)
    }
}

impl Namespace {
    fn new() -> Result<Namespace, String> {
        let mut command = Command::new(ALONE[0]);
        command.args(&ALONE[1..]).arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::null()).spawn();
        let mut kept = Namespace(child.map_err(|error| format!("{}: {error}", ALONE[0]))?);
        // `cat` echoes a byte once the namespace exists.
        let (into, out) = (kept.0.stdin.as_mut(), kept.0.stdout.as_mut());
        let answers = into.zip(out).is_some_and(|(into, out)| {
            into.write_all(b".").is_ok() && out.read(&mut [0]).is_ok_and(|len| len == 1)
        });
        if answers { Ok(kept) } else { Err("network namespaces are not allowed here".to_owned()) }
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.id())
    }

    fn run(&self, program: &str, words: &str) -> Result<(), String> {
        within(&self.file(), program, words)
    }

    fn ip(&self, words: &str) -> Result<(), String> {
        self.run("ip", words)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs a program within a namespace.
fn within(namespace: &str, program: &str, words: &str) -> Result<(), String> {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={namespace}")).args(["--", program]).args(words.split(' '));
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("nsenter: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {words}: {}", said.trim().lines().last().unwrap_or("it failed")))
}
