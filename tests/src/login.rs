//! A raw iSCSI client, for requests against the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::IQN;

/// Length of every header.
const HEADER_BYTES: usize = 48;
/// Login request, immediate.
const LOGIN: u8 = 0x43;
/// Transit, from operational negotiation to full feature.
const STRAIGHT_IN: u8 = 0x87;

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(300);

/// A TCP connection to a portal.
#[derive(Debug)]
pub struct Client(TcpStream);

impl Client {
    /// Connects, and sends nothing.
    pub fn connect(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the portal listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a positive time-out");
        stream.set_write_timeout(Some(PATIENCE)).expect("a positive time-out");
        Client(stream)
    }

    /// Sets the read time-out.
    pub fn waits_for(&mut self, limit: Duration) {
        self.0.set_read_timeout(Some(limit)).expect("a positive time-out");
    }

    /// Sends bytes; false if the peer does not accept them.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Reads one PDU without digests: its header and its data. `None` if the peer has closed.
    pub fn receive(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut header = vec![0; HEADER_BYTES];
        self.0.read_exact(&mut header).ok()?;
        let len = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; len.next_multiple_of(4)];
        self.0.read_exact(&mut data).ok()?;
        data.truncate(len);
        Some((header, data))
    }

    /// Logs in to the target of `name` as a new session, and returns whether it succeeded.
    pub fn login(&mut self, name: &str) -> bool {
        self.login_by(&login(name))
    }

    /// Logs in with this ISID: the target ends an older session of it (session reinstatement).
    pub fn login_as(&mut self, name: &str, session: u16) -> bool {
        self.login_by(&login_as(name, session))
    }

    fn login_by(&mut self, request: &[u8]) -> bool {
        self.send(request);
        let answer = self.receive();
        // Opcode, and the status class in byte 36: 0 is success.
        answer.is_some_and(|(header, _)| header[0] & 0x3f == 0x23 && header[36] == 0)
    }

    /// Whether the peer has closed the connection, or does so within the read time-out.
    pub fn closed(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.0.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }
}

/// A PDU whose header begins with `start`, with data; the rest is zero except the initiator task
/// tag.
pub fn pdu(start: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..start.len()].copy_from_slice(start);
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    bytes[16..20].copy_from_slice(&1_u32.to_be_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A login request straight to full feature, without authentication, as a new session.
pub fn login(name: &str) -> Vec<u8> {
    static SESSIONS: AtomicU16 = AtomicU16::new(0x8000);
    login_as(name, SESSIONS.fetch_add(1, Ordering::Relaxed))
}

/// Login request with this ISID.
fn login_as(name: &str, session: u16) -> Vec<u8> {
    let keys = format!(
        "InitiatorName=iqn.2026-11.org.example:misfit\0SessionType=Normal\0\
         TargetName={IQN}:{name}\0HeaderDigest=None\0DataDigest=None\0"
    );
    let mut bytes = pdu(&[LOGIN, STRAIGHT_IN], keys.as_bytes());
    // An ISID of the random kind.
    bytes[8] = 0x80;
    bytes[12..14].copy_from_slice(&session.to_be_bytes());
    bytes
}
