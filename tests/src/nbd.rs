//! An NBD client with several requests in flight, which tolerates the server's death.

use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit: a longer response time is a fault of the server.
const PATIENCE: Duration = Duration::from_secs(300);
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_GO: u32 = 7;

/// Command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdCommand {
    /// Reads bytes.
    Read = 0,
    /// Writes bytes.
    Write = 1,
    /// Makes all completed writes durable.
    Flush = 3,
    /// Writes zeroes.
    WriteZeroes = 6,
}

/// A connection to one export.
#[derive(Debug)]
pub struct Nbd {
    stream: TcpStream,
    /// Bytes of the export.
    pub bytes: u64,
}

impl Nbd {
    /// Connects to `address` and opens the export of this name.
    ///
    /// # Errors
    ///
    /// Errors of the socket, and `InvalidData` if the server refuses.
    pub fn connect(address: &str, name: &str) -> Result<Nbd> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut hello = [0; 18];
        stream.read_exact(&mut hello)?;
        let mut go = Vec::new();
        go.extend(3_u32.to_be_bytes());
        go.extend(OPTION_MAGIC.to_be_bytes());
        go.extend(OPTION_GO.to_be_bytes());
        go.extend((name.len() as u32 + 6).to_be_bytes());
        go.extend((name.len() as u32).to_be_bytes());
        go.extend(name.as_bytes());
        go.extend([0, 0]);
        stream.write_all(&go)?;
        let mut bytes = 0;
        loop {
            let mut head = [0; 20];
            stream.read_exact(&mut head)?;
            let mut data = vec![0; u32_at(&head, 16) as usize];
            stream.read_exact(&mut data)?;
            match u32_at(&head, 12) {
                1 => return Ok(Nbd { stream, bytes }),
                3 if data[..2] == [0, 0] => bytes = u64_at(&data, 2),
                3 => {}
                _ => return Err(std::io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Sends a request without waiting for its reply.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub fn send(
        &mut self,
        command: NbdCommand,
        fua: bool,
        cookie: u64,
        (offset, len): (u64, u32),
        data: &[u8],
    ) -> Result<()> {
        let mut request = Vec::with_capacity(28 + data.len());
        request.extend(REQUEST_MAGIC.to_be_bytes());
        request.extend(u16::from(fua).to_be_bytes());
        request.extend((command as u16).to_be_bytes());
        request.extend(cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)
    }

    /// Receives the next simple reply: its cookie, and whether it succeeded. Not for reads.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub fn answer(&mut self) -> Result<(u64, bool)> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        assert_eq!(u32_at(&head, 0), REPLY_MAGIC, "a simple reply");
        Ok((u64_at(&head, 8), u32_at(&head, 4) == 0))
    }

    /// Reads; nothing else may be in flight.
    ///
    /// # Errors
    ///
    /// Errors of the socket, and `Other` if the read fails.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>> {
        self.send(NbdCommand::Read, false, 0, (offset, len), &[])?;
        if !self.answer()?.1 {
            return Err(std::io::ErrorKind::Other.into());
        }
        let mut data = vec![0; len as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Writes; nothing else may be in flight. Returns whether it succeeded.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<bool> {
        self.send(NbdCommand::Write, fua, 0, (offset, data.len() as u32), data)?;
        Ok(self.answer()?.1)
    }

    /// Flushes; nothing else may be in flight. Returns whether it succeeded.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub fn flush(&mut self) -> Result<bool> {
        self.send(NbdCommand::Flush, false, 0, (0, 0), &[])?;
        Ok(self.answer()?.1)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
