//! An NBD server with a slow medium and a cache of known size in front.

use std::collections::{HashSet, VecDeque};
use std::io::{Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::Chance;
use crate::late_disk::{DISCONNECT, READ, REPLY_MAGIC, negotiate, part, take};

/// The server. Only reads are supported, and the threads end with the test.
#[derive(Debug)]
pub struct CachedDisk {
    /// The port on loopback.
    pub port: u16,
}

/// Size and timing of the disk and its cache.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Length of the volume, a multiple of the block.
    pub bytes: u64,
    /// Length of every read.
    pub block_bytes: u64,
    /// Blocks in the cache: those read last.
    pub cached_blocks: usize,
    /// Latency of a block that is not in the cache.
    pub takes: Duration,
}

#[derive(Debug)]
struct Cache {
    held: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Cache {
    /// Whether a block is cached; if not, it is from now on.
    fn hits(&mut self, block: u64, most: usize) -> bool {
        if most == 0 || self.held.contains(&block) {
            return most > 0;
        }
        self.held.insert(block);
        self.order.push_back(block);
        if self.order.len() > most {
            let oldest = self.order.pop_front().expect("there are more than none");
            self.held.remove(&oldest);
        }
        false
    }
}

impl CachedDisk {
    /// Serves a disk of this shape.
    pub fn of(shape: Shape) -> CachedDisk {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let (held, order) = (HashSet::new(), VecDeque::new());
        let cache = Arc::new(Mutex::new(Cache { held, order }));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let cache = Arc::clone(&cache);
                thread::spawn(move || serve(stream, shape, &cache));
            }
        });
        CachedDisk { port }
    }
}

fn serve(mut stream: TcpStream, shape: Shape, cache: &Arc<Mutex<Cache>>) -> Result<()> {
    stream.set_nodelay(true)?;
    if !negotiate(&mut stream, shape.bytes)? {
        return Ok(());
    }
    let answers = Arc::new(Mutex::new(stream.try_clone()?));
    loop {
        let head: [u8; 28] = take(&mut stream)?;
        match u16::from_be_bytes([head[6], head[7]]) {
            READ => {}
            DISCONNECT => return Ok(()),
            // No write exists that a flush could cover.
            _ => {
                answers.lock().expect("nobody panics with it").write_all(&answer(&head, 0, 0))?;
                continue;
            }
        }
        let offset = u64::from_be_bytes(part(&head, 16));
        let len = u32::from_be_bytes(part(&head, 24)) as usize;
        let block = offset / shape.block_bytes;
        let hits = cache.lock().expect("nobody panics with it").hits(block, shape.cached_blocks);
        if hits || shape.takes.is_zero() {
            answers.lock().expect("nobody panics with it").write_all(&answer(&head, block, len))?;
            continue;
        }
        let answers = Arc::clone(&answers);
        thread::spawn(move || {
            thread::sleep(shape.takes);
            answers.lock().expect("nobody panics with it").write_all(&answer(&head, block, len))
        });
    }
}

/// A reply with data of which no block equals another.
fn answer(head: &[u8; 28], block: u64, len: usize) -> Vec<u8> {
    let mut answer = REPLY_MAGIC.to_be_bytes().to_vec();
    answer.extend([0; 4]);
    answer.extend(&head[8..16]);
    let mut chance = Chance(block);
    answer.extend((0..len / 8).flat_map(|_| chance.below(u64::MAX).to_le_bytes()));
    answer
}
