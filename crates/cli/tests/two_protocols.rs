//! One volume over two protocols at once: data written through one are read through the other.

use std::collections::VecDeque;
use std::net::SocketAddr;

use block::{Done, Io, Lane, Nanos, Op, Pool, Tag};
use os::Core;
use serve::{DiskId, Export, HostLists, Limits, Log, ServeConfig, Server};
use volume::Purpose;

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

fn server(volume: &str) -> Server {
    let any_port = vec![SocketAddr::from((LOOPBACK, 0))];
    let export = Export {
        target: "iqn.2026-11.io.drumfire:both".to_owned(),
        subsystem: "nqn.2026-11.io.drumfire:both".to_owned(),
        lun: 1,
        volume: volume::open(&volume.parse().unwrap(), Purpose::Store).unwrap(),
        disk: DiskId::new([1; 16]),
        reservations: Default::default(),
    };
    let config = ServeConfig {
        counts: false,
        spare: 0,
        iscsi: any_port.clone(),
        nvme_tcp: any_port,
        nbd: Vec::new(),
        exports: vec![export],
        host_lists: HostLists::default(),
        shared: false,
        first_controller: 1,
        instance: 1,
        cores: os::cpu::allowed(),
        idle_cores: os::cpu::allowed(),
        limits: Limits::default(),
    };
    Server::start(config, Log::new(|line| eprintln!("{line}"))).unwrap()
}

/// Completes one I/O.
fn one(core: &Core, lane: &mut dyn Lane, op: Op, offset: u64, bytes: &[u8]) -> Done {
    let buf = match op {
        Op::Write => {
            let mut buf = core.pool().take(bytes.len()).unwrap();
            buf[..bytes.len()].copy_from_slice(bytes);
            Some(buf)
        }
        _ => None,
    };
    let io = Io { tag: Tag(7), op, fua: false, len: bytes.len() as u32, offset, buf };
    let (mut ios, mut done) = (VecDeque::from([io]), Vec::new());
    let (mut ready, end) = (Vec::new(), core.now() + Nanos::from_secs(300));
    while done.is_empty() {
        assert!(core.now() < end, "no answer within five minutes");
        lane.poll(core.now(), &mut done);
        lane.submit(core.now(), &mut ios);
        core.turn(Some(core.now() + Nanos::from_millis(10)), &mut ready).unwrap();
    }
    done.remove(0)
}

fn exchange(served: &str) {
    let server = server(served);
    let core = Core::open(Pool::new(64, 64)).unwrap();
    let iscsi = format!("iscsi://{}/iqn.2026-11.io.drumfire:both/1", server.iscsi()[0]);
    let nvme = format!("nvme+tcp://{}/nqn.2026-11.io.drumfire:both/1", server.nvme_tcp()[0]);
    let volumes =
        [iscsi, nvme].map(|uri| volume::open(&uri.parse().unwrap(), Purpose::Store).unwrap());
    assert_eq!(volumes[0].geometry(), volumes[1].geometry());
    let mut lanes = [0, 1].map(|i| volumes[i].lane(&core).unwrap());
    let block = volumes[0].geometry().block_bytes as usize;
    let lens = [block, 4096, 65536, 13 * block, 256 << 10];
    for (round, len) in lens.into_iter().enumerate() {
        let (writer, reader) = (round % 2, 1 - round % 2);
        let bytes: Vec<u8> = (0..len).map(|i| ((i * 31 + round * 7) >> 2) as u8).collect();
        let offset = round as u64 * 8192;
        let done = one(&core, &mut *lanes[writer], Op::Write, offset, &bytes);
        done.result.unwrap();
        core.pool().give(done.buf.unwrap());
        one(&core, &mut *lanes[writer], Op::Flush, 0, &[]).result.unwrap();
        let done = one(&core, &mut *lanes[reader], Op::Read, offset, &bytes);
        done.result.unwrap();
        let buf = done.buf.unwrap();
        assert!(buf[..len] == bytes[..], "{len} bytes differ");
        core.pool().give(buf);
    }
    drop(lanes);
    let (mut ready, end) = (Vec::new(), core.now() + Nanos::from_secs(300));
    while core.pool().lent() != [0, 0] {
        assert!(core.now() < end, "every buffer comes back: {:?}", core.pool().lent());
        core.turn(Some(core.now() + Nanos::from_millis(50)), &mut ready).unwrap();
    }
}

#[test]
fn memory_is_one_volume_to_both() {
    exchange("ram:16m");
    exchange("ram:16m?block=4096&fill=3");
}

#[test]
fn a_file_is_one_volume_to_both() {
    let path = std::env::temp_dir().join(format!("drumfire-both-{}", std::process::id()));
    exchange(&format!("file:{}?size=16m", path.display()));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn numbers_of_queues_are_used_again() {
    let server = server("ram:1m");
    let core = Core::open(Pool::new(64, 64)).unwrap();
    let uri = format!("nvme+tcp://{}/nqn.2026-11.io.drumfire:both/1", server.nvme_tcp()[0]);
    let volume = volume::open(&uri.parse().unwrap(), Purpose::Store).unwrap();
    let mut lanes = Vec::new();
    // More than the maximum, one at a time.
    for _ in 0..80 {
        let mut lane = volume.lane(&core).unwrap();
        one(&core, &mut *lane, Op::Flush, 0, &[]).result.unwrap();
    }
    // The maximum number of lanes, then one more, then one after a lane was dropped.
    let refused = loop {
        match volume.lane(&core) {
            Ok(lane) => lanes.push(lane),
            Err(refused) => break refused,
        }
        assert!(lanes.len() <= 64, "there is no end of them");
    };
    assert!(refused.to_string().contains("I/O queues"), "{refused}");
    let all = lanes.len();
    assert!(all > 1, "{refused}");
    lanes.pop();
    // The other end may not have noticed yet.
    let mut again = volume.lane(&core);
    let end = core.now() + Nanos::from_secs(300);
    while again.is_err() && core.now() < end {
        std::thread::sleep(std::time::Duration::from_millis(20));
        again = volume.lane(&core);
    }
    lanes.push(again.unwrap());
    for lane in &mut lanes {
        one(&core, &mut **lane, Op::Flush, 0, &[]).result.unwrap();
    }
    assert_eq!(lanes.len(), all);
}
