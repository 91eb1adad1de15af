//! An NBD server whose disk executes one chosen write late, also if its connection is gone by then,
//! as kernels and drives do with accepted I/Os.

use std::fs::File;
use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REPLY_MAGIC: u32 = 0x6744_6698;
const GO: u32 = 7;
const INFO: u32 = 6;
const ABORT: u32 = 2;
const UNSUPPORTED: u32 = 0x8000_0001;
/// Has flags, flush and FUA; no trim, no write zeroes.
const FLAGS: u16 = 1 | 4 | 8;
pub(crate) const READ: u16 = 0;
const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;

/// The server. Its threads end with the test.
#[derive(Debug)]
pub struct LateDisk {
    /// The port on loopback.
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    late: Mutex<Late>,
}

/// State of the late write.
#[derive(Clone, Copy, Debug)]
enum Late {
    No,
    /// The next write that covers this byte will be late by this time.
    Armed(u64, Duration),
    Waits,
    Executed,
}

impl LateDisk {
    /// Serves a file.
    pub fn over(path: &Path) -> LateDisk {
        let file = File::options().read(true).write(true).open(path).expect("a file of the test");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let shared = Arc::new(Shared { file, late: Mutex::new(Late::No) });
        let of_threads = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&of_threads);
                thread::spawn(move || shared.serve(stream));
            }
        });
        LateDisk { port, shared }
    }

    /// Delays the next write of the block at `offset` by this time.
    pub fn delay_next(&self, offset: u64, by: Duration) {
        self.set(Late::Armed(offset, by));
    }

    /// Whether the late write has come, and waits.
    pub fn waits(&self) -> bool {
        matches!(self.shared.late(), Late::Waits)
    }

    /// Whether the late write has been executed.
    pub fn has_executed(&self) -> bool {
        matches!(self.shared.late(), Late::Executed)
    }

    fn set(&self, late: Late) {
        *self.shared.late.lock().expect("nobody panics with it") = late;
    }
}

impl Shared {
    fn late(&self) -> Late {
        *self.late.lock().expect("nobody panics with it")
    }

    /// Delay of this write, if it is the chosen one.
    fn delay(&self, offset: u64, len: u64) -> Option<Duration> {
        let mut late = self.late.lock().expect("nobody panics with it");
        match *late {
            Late::Armed(at, by) if (offset..offset + len).contains(&at) => {
                *late = Late::Waits;
                Some(by)
            }
            _ => None,
        }
    }

    fn serve(self: Arc<Self>, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        if !negotiate(&mut stream, self.file.metadata()?.len())? {
            return Ok(());
        }
        let answers = Arc::new(Mutex::new(stream.try_clone()?));
        loop {
            let head: [u8; 28] = take(&mut stream)?;
            let command = u16::from_be_bytes([head[6], head[7]]);
            let len = u32::from_be_bytes(part(&head, 24)) as usize;
            let mut data = vec![0; if command == WRITE { len } else { 0 }];
            stream.read_exact(&mut data)?;
            if command == DISCONNECT {
                return Ok(());
            }
            let (shared, answers) = (Arc::clone(&self), Arc::clone(&answers));
            thread::spawn(move || {
                let offset = u64::from_be_bytes(part(&head, 16));
                let mut answer = Vec::new();
                answer.extend(REPLY_MAGIC.to_be_bytes());
                answer.extend([0; 4]);
                answer.extend(&head[8..16]);
                answer.extend(shared.execute(command, offset, len, &data)?);
                answers.lock().expect("nobody panics with it").write_all(&answer)
            });
        }
    }

    fn execute(&self, command: u16, offset: u64, len: usize, data: &[u8]) -> Result<Vec<u8>> {
        match command {
            READ => {
                let mut data = vec![0; len];
                self.file.read_exact_at(&mut data, offset)?;
                return Ok(data);
            }
            WRITE => {
                let delay = self.delay(offset, len as u64);
                thread::sleep(delay.unwrap_or_default());
                self.file.write_all_at(data, offset)?;
                if delay.is_some() {
                    *self.late.lock().expect("nobody panics with it") = Late::Executed;
                }
            }
            FLUSH => self.file.sync_data()?,
            _ => panic!("command {command} was not offered"),
        }
        Ok(Vec::new())
    }
}

/// Negotiates a volume of `bytes` bytes with a client. False if the client disconnects.
pub(crate) fn negotiate(stream: &mut TcpStream, bytes: u64) -> Result<bool> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    take::<4>(stream)?;
    loop {
        let head: [u8; 16] = take(stream)?;
        assert_eq!(&head[..8], OPTION_MAGIC, "an option");
        let option = u32::from_be_bytes(part(&head, 8));
        let mut words = vec![0; u32::from_be_bytes(part(&head, 12)) as usize];
        stream.read_exact(&mut words)?;
        let mut reply = |kind: u32, data: &[u8]| {
            let mut reply = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
            reply.extend(option.to_be_bytes());
            reply.extend(kind.to_be_bytes());
            reply.extend((data.len() as u32).to_be_bytes());
            reply.extend(data);
            stream.write_all(&reply)
        };
        match option {
            GO | INFO => {
                let mut told = vec![0, 0];
                told.extend(bytes.to_be_bytes());
                told.extend(FLAGS.to_be_bytes());
                reply(3, &told)?;
                reply(1, &[])?;
                if option == GO {
                    return Ok(true);
                }
            }
            ABORT => return reply(1, &[]).map(|()| false),
            _ => reply(UNSUPPORTED, &[])?,
        }
    }
}

pub(crate) fn take<const LEN: usize>(stream: &mut TcpStream) -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn part<const LEN: usize>(bytes: &[u8], at: usize) -> [u8; LEN] {
    bytes[at..at + LEN].try_into().expect("it is so long")
}
