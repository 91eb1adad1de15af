//! Sets up an NVMe/TCP queue.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{COMMAND, COMMAND_LEN, RESPONSE, RESPONSE_LEN};

/// ICResp.
const IC_RESP: u8 = 0x01;
/// Number of entries of a queue, minus one.
const QUEUE: u16 = 127;
/// Time-out of a response, and of becoming ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// A command capsule without data, with an SGL for the data.
pub(super) fn command(opcode: u8, id: u16, data_len: usize, in_capsule: bool) -> [u8; COMMAND_LEN] {
    let mut bytes = [0; COMMAND_LEN];
    let behind = if in_capsule { data_len } else { 0 };
    (bytes[0], bytes[2]) = (COMMAND, COMMAND_LEN as u8);
    bytes[3] = if in_capsule { COMMAND_LEN as u8 } else { 0 };
    bytes[4..8].copy_from_slice(&((COMMAND_LEN + behind) as u32).to_le_bytes());
    let entry = &mut bytes[8..];
    (entry[0], entry[1]) = (opcode, 0x40);
    entry[2..4].copy_from_slice(&id.to_le_bytes());
    entry[32..36].copy_from_slice(&(data_len as u32).to_le_bytes());
    // In the capsule, at an offset; or by the transport.
    entry[39] = if in_capsule { 0x01 } else { 0x5a };
    bytes
}

/// A connection until its queue is ready.
pub(super) struct Handshake {
    pub(super) socket: TcpStream,
}

impl Handshake {
    /// Connects, and exchanges ICReq and ICResp: no digests.
    pub(super) fn begin(port: u16) -> Result<Handshake> {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).context("the target")?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut request = [0; 128];
        (request[2], request[4]) = (128, 128);
        socket.write_all(&request)?;
        let mut response = [0; 128];
        socket.read_exact(&mut response).context("no parameters of the connection")?;
        ensure!(response[0] == IC_RESP, "the target does not agree to a connection");
        Ok(Handshake { socket })
    }

    /// Sends a fabrics command; returns dword 0 of the completion.
    fn fabrics(&mut self, kind: u8, fields: &[u8], data: &[u8]) -> Result<u32> {
        let mut capsule = command(0x7f, 0, data.len(), !data.is_empty()).to_vec();
        capsule[8 + 4] = kind;
        capsule[8 + 40..][..fields.len()].copy_from_slice(fields);
        capsule.extend_from_slice(data);
        self.socket.write_all(&capsule)?;
        let mut answer = [0; RESPONSE_LEN];
        self.socket.read_exact(&mut answer).context("no answer to a fabrics command")?;
        let status = u16::from_le_bytes([answer[22], answer[23]]) >> 1;
        ensure!(answer[0] == RESPONSE && status == 0, "fabrics command {kind}: status {status:x}");
        Ok(u32::from_le_bytes([answer[8], answer[9], answer[10], answer[11]]))
    }

    /// Connects a queue of a controller or, with QID 0, the admin queue of a new one; returns the
    /// controller identifier.
    pub(super) fn connect(&mut self, nqn: &str, queue: u16, controller: u16) -> Result<u32> {
        let mut fields = [0; 12];
        fields[2..4].copy_from_slice(&queue.to_le_bytes());
        let size = if queue == 0 { 31 } else { QUEUE };
        fields[4..6].copy_from_slice(&size.to_le_bytes());
        let mut data = [0; 1024];
        (data[0], data[15]) = (0xdf, 1);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..][..nqn.len()].copy_from_slice(nqn.as_bytes());
        let host = b"nqn.2026-11.io.drumfire:ready-made";
        data[512..][..host.len()].copy_from_slice(host);
        self.fabrics(0x01, &fields, &data).context("connect")
    }

    /// Enables the controller and waits until it is ready.
    pub(super) fn enable(&mut self) -> Result<()> {
        let mut fields = [0; 16];
        fields[4] = 0x14;
        // Entries of 64 and 16 bytes, enabled.
        fields[8..12].copy_from_slice(&0x0046_0001_u32.to_le_bytes());
        self.fabrics(0x00, &fields, &[])?;
        let mut fields = [0; 8];
        fields[4] = 0x1c;
        let end = Instant::now() + PATIENCE;
        while self.fabrics(0x04, &fields, &[])? & 1 == 0 {
            if Instant::now() > end {
                bail!("the controller does not become ready");
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
