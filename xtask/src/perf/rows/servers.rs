//! Targets that run beside a measurement: ours and tgt's.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::super::programs::{Call, Programs, Service};
use super::TARGET_CORE;

const IQN: &str = "iqn.2026-11.io.drumfire";
const TGT_NAME: &str = "iqn.2026-11.org.example:tgt";

/// Our target with `count` volumes of a kind, such as `ram:64m`, on one core or on all; their
/// URIs.
pub fn drumfire(
    programs: &Programs,
    count: usize,
    kind: &str,
    core: Option<usize>,
) -> Result<(Service, Vec<String>)> {
    let volumes: Vec<String> = (0..count).map(|i| format!("--volume v{i}={kind}")).collect();
    let args = format!("serve --iscsi 127.0.0.1:0 {}", volumes.join(" "));
    let service = programs.start(&Call { program: "drumfire", args, core })?;
    let port = programs.wait_until("drumfire serve was not ready", || port(&service.stdout()))?;
    let uri = |i: usize| format!("iscsi://127.0.0.1:{port}/{IQN}:v{i}/1");
    Ok((service, (0..count).map(uri).collect()))
}

/// The port in the line `ready iscsi=127.0.0.1:PORT …`.
fn port(stdout: &str) -> Option<String> {
    let address = stdout.lines().next()?.split(' ').find_map(|part| part.strip_prefix("iscsi="));
    Some(address?.rsplit_once(':')?.1.to_string())
}

/// A tgtd with one volume in a file in memory.
pub struct Tgt {
    /// The volume.
    pub uri: String,
    /// The process.
    pub service: Service,
    files: [PathBuf; 3],
}

/// Starts tgtd on a port and with control sockets of its own.
pub fn tgt(programs: &Programs) -> Result<Tgt> {
    // tgtd numbers its control sockets below 2^15.
    let (port, control) = (free_port()?, free_port()? % (1 << 15));
    let args = format!("-f -C {control} --iscsi portal=127.0.0.1:{port}");
    let service = programs.start(&Call { program: "tgtd", args, core: TARGET_CORE })?;
    let socket = PathBuf::from(format!("/var/run/tgtd/socket.{control}"));
    let disk = PathBuf::from(format!("/dev/shm/drumfire-perf-{control}"));
    let lock = socket.with_extension(format!("{control}.lock"));
    programs.wait_until("tgtd opened no control socket", || socket.exists().then_some(()))?;
    let uri = format!("iscsi://127.0.0.1:{port}/{TGT_NAME}/1");
    let tgt = Tgt { uri, service, files: [disk, socket, lock] };
    if matches!(programs, Programs::Real { .. }) {
        // Written, so that reads find pages and not holes.
        std::fs::write(&tgt.files[0], vec![1; 64 << 20]).context("a disk in /dev/shm")?;
    }
    let disk = tgt.files[0].display();
    for words in [
        format!("--mode target --op new --tid 1 -T {TGT_NAME}"),
        format!("--mode logicalunit --op new --tid 1 --lun 1 -b {disk}"),
        "--mode target --op bind --tid 1 -I ALL".to_string(),
    ] {
        let args = format!("-C {control} --lld iscsi {words}");
        programs.run(&Call { program: "tgtadm", args, core: None }, 10)?;
    }
    Ok(tgt)
}

impl Drop for Tgt {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("a free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_the_ready_line() {
        assert_eq!(port("ready iscsi=127.0.0.1:4711 x=y\n").as_deref(), Some("4711"));
        assert_eq!(port(""), None);
    }
}
