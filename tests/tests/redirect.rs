//! A target that sends every login to another address, as those with a group address do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, IQN};

const LIMIT: Duration = Duration::from_secs(120);

/// Bytes of a header.
const HEADER_BYTES: usize = 48;
/// "Moved temporarily".
const MOVED: [u8; 2] = [1, 1];

/// Listens on a free port, and answers each login by an address. Returns the port, and counts.
fn redirect(to: u16) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let to = if to == 0 { port } else { to };
    // The thread ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if answer(stream, to).is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    (port, count)
}

fn answer(mut stream: TcpStream, to: u16) -> std::io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let len = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
    stream.read_exact(&mut vec![0; len.next_multiple_of(4)])?;
    let text = format!("TargetAddress=127.0.0.1:{to},1\0");
    let mut answer = [0; HEADER_BYTES];
    answer[0] = 0x23;
    answer[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    answer[8..14].copy_from_slice(&header[8..14]);
    answer[16..20].copy_from_slice(&header[16..20]);
    let number = u32::from_be_bytes([header[24], header[25], header[26], header[27]]);
    answer[28..32].copy_from_slice(&number.to_be_bytes());
    answer[32..36].copy_from_slice(&number.wrapping_add(32).to_be_bytes());
    answer[36..38].copy_from_slice(&MOVED);
    stream.write_all(&answer)?;
    let mut padded = text.into_bytes();
    padded.resize(padded.len().next_multiple_of(4), 0);
    stream.write_all(&padded)
}

#[test]
fn every_session_follows_where_its_login_is_sent() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let served = drumfire.serve(&["disk=ram:64m"]);
    let (port, count) = redirect(served.port);
    let args = format!(
        "run iscsi://127.0.0.1:{port}/{IQN}:disk/1 --size 4k --read 50 --workers 2 --verify \
         --destroy --seconds 1 --ramp 0 --json"
    );
    let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    assert!(result["totals"]["write"]["ios"].as_u64().is_some_and(|ios| ios > 0), "{result}");
    // One question about the volume, and a session for each worker.
    assert!(count.load(Ordering::Relaxed) >= 3, "{count:?}");
}

#[test]
fn a_ring_of_redirects_has_an_end() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let (port, count) = redirect(0);
    let args = format!("run iscsi://127.0.0.1:{port}/{IQN}:disk/1 --seconds 1");
    let finished = drumfire.run(folder.path(), &args, LIMIT);
    assert!(finished.code.is_some_and(|code| code != 0), "{finished:?}");
    assert!(finished.stderr.contains("has moved to"), "{}", finished.stderr);
    assert!(count.load(Ordering::Relaxed) <= 8, "{count:?}");
}
