//! Peers that do not behave: the target lives on, small, and serves the others.

use std::time::{Duration, Instant};

use drumfire_tests::{Client, Drumfire, Folder, Served, login, pdu};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LIMIT: Duration = Duration::from_secs(300);
/// Maximum memory growth that all unknown peers together may cause.
const GROWTH_MAX_KIB: u64 = 256 << 10;

fn serve(drumfire: &Drumfire) -> Served {
    drumfire.serve(&["disk=ram:16m"])
}

/// Checks that the target still runs, and serves a client that behaves.
fn lives_on(drumfire: &Drumfire, served: &mut Served) {
    assert!(served.running.alive(), "the target died: {}", served.running.stderr());
    let folder = Folder::new();
    for uri in [served.uri("disk"), served.nvme_uri("disk")] {
        let args = format!("run {uri} --seconds 1 --ramp 0 --json");
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        assert!(result["totals"]["ios"].as_u64().is_some_and(|ios| ios > 0), "{result}");
    }
}

/// Resident memory of the target in KiB.
fn memory_kib(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.running.id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).expect("a size in kB")
}

/// Numbers that look random and are deterministic (xorshift).
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

#[test]
fn noise_on_the_port() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut served = serve(&drumfire);
    for seed in 0..200 {
        let len = 1 + seed as usize * 97 % 9000;
        let bytes: Vec<u8> = noise(seed).take(len).collect();
        Client::connect(served.port).send(&bytes);
    }
    for seed in 0..200 {
        let mut bytes: Vec<u8> = noise(seed).take(1 + seed as usize * 97 % 9000).collect();
        if seed % 2 == 0 {
            // The header of a connection's first PDU over NVMe/TCP, so that noise gets further.
            bytes.splice(..0, [0, 0, 128, 0, 128, 0, 0, 0]);
        }
        Client::connect(served.nvme_port).send(&bytes);
    }
    for greeting in ["GET / HTTP/1.1\r\n\r\n", "\0", "SSH-2.0-scan\r\n", "EHLO x\r\n"] {
        Client::connect(served.port).send(greeting.as_bytes());
    }
    lives_on(&drumfire, &mut served);
}

#[test]
fn logins_cut_anywhere() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut served = serve(&drumfire);
    let whole = login("disk");
    let mut held = Vec::new();
    for len in 0..whole.len() {
        let mut client = Client::connect(served.port);
        client.send(&whole[..len]);
        // Every third stays and stays silent, the others go.
        if len % 3 == 0 {
            held.push(client);
        }
    }
    lives_on(&drumfire, &mut served);
}

#[test]
fn anything_but_a_login_first_ends_the_connection() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut served = serve(&drumfire);
    for opcode in (0..=0x3f).filter(|opcode| *opcode != 0x03) {
        let mut client = Client::connect(served.port);
        client.send(&pdu(&[opcode, 0x80], b"x"));
        assert!(client.closed(), "opcode {opcode:#x} before login");
    }
    lives_on(&drumfire, &mut served);
}

#[test]
fn nonsense_after_a_login() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut served = serve(&drumfire);
    for opcode in 0..=0x7f_u8 {
        let mut client = Client::connect(served.port);
        assert!(client.login("disk"), "a plain login works");
        let flags = [0x00, 0x80, 0xff][opcode as usize % 3];
        client.send(&pdu(&[opcode, flags, 0xff, 0xff], &[0xff; 64]));
        client.send(&noise(u64::from(opcode)).take(3000).collect::<Vec<_>>());
    }
    lives_on(&drumfire, &mut served);
}

#[test]
fn lengths_that_lie() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut served = serve(&drumfire);
    let before = memory_kib(&served);
    let mut held = Vec::new();
    for i in 0..64 {
        let mut client = Client::connect(served.port);
        // 16 MiB of data are claimed, before the login and after it.
        let mut claim = if i % 2 == 0 { login("disk") } else { pdu(&[0x01, 0x80], &[]) };
        claim[5..8].fill(0xff);
        if i % 2 == 1 {
            assert!(client.login("disk"), "a plain login works");
        }
        client.send(&claim);
        held.push(client);
    }
    lives_on(&drumfire, &mut served);
    let grown = memory_kib(&served).saturating_sub(before);
    assert!(grown < GROWTH_MAX_KIB, "{grown} KiB for claims");
}

#[test]
fn thousands_of_silent_connections() {
    let Some(drumfire) = Drumfire::find() else { return };
    // Started first: the test must raise its own limit.
    let mut served = serve(&drumfire);
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may be raised to the hard one");
    let open_max = limit.maximum.unwrap_or(u64::MAX) as usize;
    let before = memory_kib(&served);
    let count = 3000.min(open_max.saturating_sub(200));
    let port = |i: usize| if i.is_multiple_of(2) { served.port } else { served.nvme_port };
    let held: Vec<Client> = (0..count).map(|i| Client::connect(port(i))).collect();
    lives_on(&drumfire, &mut served);
    let grown = memory_kib(&served).saturating_sub(before);
    assert!(grown < GROWTH_MAX_KIB, "{grown} KiB for {} silent peers", held.len());
    drop(held);
    lives_on(&drumfire, &mut served);
}

#[test]
fn an_idle_target_uses_no_processor() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = serve(&drumfire);
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(served.port);
        assert!(client.login("disk"), "a plain login works");
        sessions.push(client);
    }
    std::thread::sleep(Duration::from_millis(500));
    let (before, began) = (processor_ticks(&served), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let used = processor_ticks(&served) - before;
    // 200 ticks or more went by on each core.
    let whole = began.elapsed().as_millis() as u64 / 10;
    assert!(used <= whole / 50, "{used} of {whole} ticks of 10 ms without work");
}

/// Processor time of the target in ticks of 10 ms.
fn processor_ticks(served: &Served) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", served.running.id()));
    let stat = stat.expect("it runs");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    // utime and stime are fields 14 and 15 counted from 1; the first here is field 3.
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}
