//! A proxy between an initiator and its target, which withholds the response of one read. Both ends
//! see a target that has lost the read.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Bytes of each read: identifies its response by length.
pub const READ_BYTES: usize = 512;
/// Number of the read whose response is withheld, counted over all connections.
const WHICH: u32 = 100;

/// Protocol of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// iSCSI without digests.
    Iscsi,
    /// NVMe/TCP without digests.
    Nvme,
}

/// Fate of the response.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// The response is dropped.
    Lost,
    /// Replaced after this time by a status: unrecovered read error. NVMe/TCP only.
    Fails(Duration),
    /// Sent after this time, with other data. NVMe/TCP only.
    Damaged(Duration),
}

/// A proxy on loopback. Its threads end with their connections.
#[derive(Debug)]
pub struct Between {
    /// Port for the initiator.
    pub port: u16,
}

impl Between {
    /// A proxy of the target at this port.
    pub fn new(speech: Speech, target: u16, fate: Fate) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let reads = Arc::new(AtomicU32::new(0));
        thread::spawn(move || {
            for initiator in listener.incoming().map_while(Result::ok) {
                let Ok(target) = TcpStream::connect(("127.0.0.1", target)) else { return };
                join(
                    initiator,
                    target,
                    Carrier { speech, fate, reads: Arc::clone(&reads), kept: 0 },
                );
            }
        });
        Between { port }
    }
}

/// Forwards both directions, each by a thread.
fn join(initiator: TcpStream, target: TcpStream, carrier: Carrier) {
    for stream in [&initiator, &target] {
        stream.set_nodelay(true).expect("a TCP socket");
    }
    let ends = (initiator.try_clone(), target.try_clone());
    let (Ok(mut from), Ok(mut to)) = ends else { return };
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let initiator = Arc::new(Mutex::new(initiator));
        let _ = carrier.carry(target, &initiator);
        let _ = initiator.lock().map(|initiator| initiator.shutdown(Shutdown::Both));
    });
}

/// The direction from target to initiator.
struct Carrier {
    speech: Speech,
    fate: Fate,
    /// Read responses so far.
    reads: Arc<AtomicU32>,
    /// Number of withheld responses on this connection.
    kept: u32,
}

impl Carrier {
    fn carry(mut self, mut target: TcpStream, to: &Arc<Mutex<TcpStream>>) -> std::io::Result<()> {
        loop {
            let mut pdu = self.read(&mut target)?;
            if self.is_answer(&pdu) && self.reads.fetch_add(1, Ordering::Relaxed) + 1 == WHICH {
                self.kept += 1;
                match self.fate {
                    Fate::Lost => {}
                    Fate::Fails(after) => send_later(to, failure(&pdu), after),
                    Fate::Damaged(after) => {
                        pdu[24..].fill(0xa5);
                        send_later(to, pdu, after);
                    }
                }
                continue;
            }
            self.renumber(&mut pdu);
            to.lock().expect("nobody panics with it").write_all(&pdu)?;
        }
    }

    /// The next PDU.
    fn read(&self, target: &mut TcpStream) -> std::io::Result<Vec<u8>> {
        let header_bytes = if self.speech == Speech::Iscsi { 48 } else { 8 };
        let mut pdu = vec![0; header_bytes];
        target.read_exact(&mut pdu)?;
        let bytes = match self.speech {
            Speech::Iscsi => {
                let data = u32::from_be_bytes([0, pdu[5], pdu[6], pdu[7]]) as usize;
                header_bytes + data.next_multiple_of(4)
            }
            Speech::Nvme => u32::from_le_bytes([pdu[4], pdu[5], pdu[6], pdu[7]]) as usize,
        };
        pdu.resize(bytes, 0);
        target.read_exact(&mut pdu[header_bytes..])?;
        Ok(pdu)
    }

    /// Whether a PDU is the last Data-In of a read, with its status.
    fn is_answer(&self, pdu: &[u8]) -> bool {
        match self.speech {
            // Data-In with the S bit, C2HData with LAST_PDU and SUCCESS.
            Speech::Iscsi => pdu[0] == 0x25 && pdu[1] & 1 != 0 && pdu.len() == 48 + READ_BYTES,
            Speech::Nvme => pdu[0] == 7 && pdu[1] & 0xc == 0xc && pdu.len() == 24 + READ_BYTES,
        }
    }

    /// StatSN of iSCSI has no gaps: renumbers as if the target had not sent the dropped responses.
    fn renumber(&self, pdu: &mut [u8]) {
        let counts = self.speech == Speech::Iscsi && (pdu[0] != 0x25 || pdu[1] & 1 != 0);
        if let (true, Some(number)) = (counts, pdu.get_mut(24..28)) {
            let told = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
            number.copy_from_slice(&told.wrapping_sub(self.kept).to_be_bytes());
        }
    }
}

fn send_later(to: &Arc<Mutex<TcpStream>>, pdu: Vec<u8>, after: Duration) {
    let to = Arc::clone(to);
    thread::spawn(move || {
        thread::sleep(after);
        let _ = to.lock().map(|mut to| to.write_all(&pdu));
    });
}

/// A completion of NVMe/TCP with status unrecovered read error, replacing the data.
fn failure(data: &[u8]) -> Vec<u8> {
    let mut capsule = vec![5, 0, 24, 0, 24, 0, 0, 0];
    capsule.resize(24, 0);
    capsule[20..22].copy_from_slice(&data[8..10]);
    capsule[22..24].copy_from_slice(&(0x0281_u16 << 1).to_le_bytes());
    capsule
}
