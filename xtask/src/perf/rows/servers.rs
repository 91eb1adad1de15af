//! Targets for measurements: ours, SPDK's and tgt's.

use std::net::TcpStream;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::programs::{Call, Programs, Service};
use super::TARGET_CORE;

const IQN: &str = "iqn.2026-11.io.drumfire";
const NQN: &str = "nqn.2026-11.io.drumfire";
const SPDK_NQN: &str = "nqn.2016-06.io.spdk:m0";
const TGT_NAME: &str = "iqn.2026-11.org.example:tgt";

/// Starts our target with `count` volumes of a kind, such as `ram:64m`, on one core or on all;
/// returns their URIs.
pub fn drumfire(
    programs: &Programs,
    count: usize,
    kind: &str,
    core: Option<usize>,
) -> Result<(Service, Vec<String>)> {
    let volumes: Vec<String> = (0..count).map(|i| format!("--volume v{i}={kind}")).collect();
    let args = format!("serve --iscsi 127.0.0.1:0 {}", volumes.join(" "));
    let service = programs.start(&Call { program: "drumfire", args, core })?;
    let port = programs
        .wait_until("drumfire serve was not ready", || port(&service.stdout(), "iscsi="))?;
    let uri = |i: usize| format!("iscsi://127.0.0.1:{port}/{IQN}:v{i}/1");
    Ok((service, (0..count).map(uri).collect()))
}

/// The port after a key in the line `ready iscsi=127.0.0.1:PORT …`.
fn port(stdout: &str, key: &str) -> Option<String> {
    let address = stdout.lines().next()?.split(' ').find_map(|part| part.strip_prefix(key));
    Some(address?.rsplit_once(':')?.1.to_string())
}

/// Address of an NVMe/TCP subsystem.
pub struct NvmeAddress {
    /// TCP port on loopback.
    pub port: String,
    /// The subsystem's name.
    pub nqn: String,
}

/// Starts our target with one volume over NVMe/TCP.
pub fn drumfire_nvme(
    programs: &Programs,
    kind: &str,
    core: Option<usize>,
) -> Result<(Service, NvmeAddress)> {
    let args = format!("serve --nvme-tcp 127.0.0.1:0 --volume v0={kind}");
    let service = programs.start(&Call { program: "drumfire", args, core })?;
    let port = programs
        .wait_until("drumfire serve was not ready", || port(&service.stdout(), "nvme-tcp="))?;
    Ok((service, NvmeAddress { port, nqn: format!("{NQN}:v0") }))
}

/// Our target with `count` volumes of a kind over NVMe/TCP, on all cores; returns their URIs.
pub fn drumfire_nvme_uris(
    programs: &Programs,
    count: usize,
    kind: &str,
) -> Result<(Service, Vec<String>)> {
    let volumes: Vec<String> = (0..count).map(|i| format!("--volume v{i}={kind}")).collect();
    let args = format!("serve --nvme-tcp 127.0.0.1:0 {}", volumes.join(" "));
    let service = programs.start(&Call { program: "drumfire", args, core: None })?;
    let port = programs
        .wait_until("drumfire serve was not ready", || port(&service.stdout(), "nvme-tcp="))?;
    let uri = |i: usize| format!("nvme+tcp://127.0.0.1:{port}/{NQN}:v{i}/1");
    Ok((service, (0..count).map(uri).collect()))
}

/// SPDK's target with one volume in memory.
pub struct Nvmf {
    /// The subsystem.
    pub address: NvmeAddress,
    _service: Service,
    _files: Files,
}

/// Huge pages of both ends of SPDK, in KiB.
const SPDK_HUGE_KIB: u64 = 1536 << 10;

/// Memory options of an SPDK program: with huge pages if there are enough for both ends.
pub fn spdk_memory(mib: u64) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let huge = huge_pages(&read("/proc/meminfo"), &read("/proc/mounts"));
    format!("{}-s {mib}", if huge { "" } else { "--no-huge " })
}

/// Whether enough huge pages are reserved and mountable.
fn huge_pages(meminfo: &str, mounts: &str) -> bool {
    let value = |key: &str| -> u64 {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    };
    let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some("hugetlbfs"));
    mounted && value("HugePages_Total:") * value("Hugepagesize:") >= SPDK_HUGE_KIB
}

/// Starts nvmf_tgt on a free port.
pub fn nvmf(programs: &Programs) -> Result<Nvmf> {
    let (port, nqn) = (free_port()?, SPDK_NQN);
    let call = |method: &str, params: Value| json!({"method": method, "params": params});
    let listen = json!({"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1",
        "trsvcid": port.to_string()});
    let memory = json!({"name": "m0", "num_blocks": 131_072, "block_size": 512});
    let subsystem = json!({"nqn": nqn, "allow_any_host": true, "serial_number": "S1"});
    let namespace = json!({"nqn": nqn, "namespace": {"bdev_name": "m0", "nsid": 1}});
    let config = json!({"subsystems": [
        {"subsystem": "bdev", "config": [call("bdev_malloc_create", memory)]},
        {"subsystem": "nvmf", "config": [
            call("nvmf_create_transport", json!({"trtype": "TCP", "io_unit_size": 16384})),
            call("nvmf_create_subsystem", subsystem),
            call("nvmf_subsystem_add_ns", namespace),
            call("nvmf_subsystem_add_listener", json!({"nqn": nqn, "listen_address": listen})),
        ]},
    ]});
    let folder = std::env::temp_dir();
    let path = folder.join(format!("drumfire-perf-{}-{port}.json", std::process::id()));
    std::fs::write(&path, config.to_string()).context("a configuration for nvmf_tgt")?;
    let [socket, lock] = ["sock", "sock.lock"].map(|end| path.with_extension(end));
    let memory = spdk_memory(1024);
    let args = format!("-m 0x1 {memory} -r {} -c {}", socket.display(), path.display());
    let files = vec![path, socket, lock];
    let service = programs.start(&Call { program: "nvmf_tgt", args, core: None })?;
    let listens = || TcpStream::connect(("127.0.0.1", port)).ok().map(drop);
    programs.wait_until("nvmf_tgt did not listen", listens)?;
    let address = NvmeAddress { port: port.to_string(), nqn: nqn.to_owned() };
    // A killed SPDK leaves both, and its lock next to the socket.
    Ok(Nvmf { address, _service: service, _files: Files(files) })
}

/// Files removed on drop, if they exist. Declared after the program that uses them, so that it has
/// ended.
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A tgtd with one volume in a file in memory.
pub struct Tgt {
    /// The volume.
    pub uri: String,
    /// The process.
    pub service: Service,
    files: Files,
}

/// Starts tgtd on a free port with its own control socket.
pub fn tgt(programs: &Programs) -> Result<Tgt> {
    // tgtd numbers control sockets below 2^15.
    let (port, control) = (free_port()?, free_port()? % (1 << 15));
    let args = format!("-f -C {control} --iscsi portal=127.0.0.1:{port}");
    let service = programs.start(&Call { program: "tgtd", args, core: TARGET_CORE })?;
    let socket = PathBuf::from(format!("/var/run/tgtd/socket.{control}"));
    let disk = PathBuf::from(format!("/dev/shm/drumfire-perf-{control}"));
    let lock = socket.with_extension(format!("{control}.lock"));
    programs.wait_until("tgtd opened no control socket", || socket.exists().then_some(()))?;
    let uri = format!("iscsi://127.0.0.1:{port}/{TGT_NAME}/1");
    let tgt = Tgt { uri, service, files: Files(vec![disk, socket, lock]) };
    if matches!(programs, Programs::Real { .. }) {
        // Written, so that reads find pages, not holes.
        std::fs::write(&tgt.files.0[0], vec![1; 64 << 20]).context("a disk in /dev/shm")?;
    }
    let disk = tgt.files.0[0].display();
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

fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("a free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_the_ready_line() {
        let line = "ready iscsi=127.0.0.1:4711 nvme-tcp=127.0.0.1:4712\n";
        assert_eq!(port(line, "iscsi=").as_deref(), Some("4711"));
        assert_eq!(port(line, "nvme-tcp=").as_deref(), Some("4712"));
        assert_eq!(port("", "iscsi="), None);
    }

    #[test]
    fn nothing_is_left_behind() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("drumfire-xtask-test-{}.json", std::process::id()));
        let files = ["json", "sock", "sock.lock"].map(|end| path.with_extension(end));
        assert!(files[2].to_str().unwrap().ends_with(".sock.lock"));
        files[..2].iter().for_each(|file| std::fs::write(file, "").unwrap());
        drop(Files(files.to_vec()));
        assert!(files.iter().all(|file| !file.exists()));
    }

    #[test]
    fn huge_pages_must_be_enough_and_mounted() {
        let of =
            |pages| format!("MemFree: 1 kB\nHugePages_Total:  {pages}\nHugepagesize: 2048 kB\n");
        let mounts = "none /dev/hugepages hugetlbfs rw 0 0\n";
        assert!(huge_pages(&of(768), mounts));
        assert!(!huge_pages(&of(767), mounts));
        assert!(!huge_pages(&of(768), "none /tmp tmpfs rw 0 0\n"));
        assert!(!huge_pages("", mounts));
    }
}
