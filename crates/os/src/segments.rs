//! TCP segments and round trips of this process's own connections, from `TCP_INFO`: counters of the
//! whole host are no evidence of one program's network.

use std::collections::BTreeMap;
use std::fs;
use std::mem::size_of;

use block::Nanos;

/// `TCP_INFO` of linux/tcp.h: offsets of `tcpi_total_retrans`, `tcpi_segs_out` (Linux 4.2) and
/// `tcpi_min_rtt` (Linux 4.6), and the bytes up to the end of the latter.
const TOTAL_RETRANS: usize = 100;
const SEGS_OUT: usize = 136;
const MIN_RTT: usize = 148;
const INFO_BYTES: usize = 152;

/// Segments of a connection since it was established, and its minimum round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Sent for the first time.
    pub sent: u64,
    /// Sent again.
    pub again: u64,
    /// Minimum round trip between the kernels of both ends, in the last five minutes; `None` if
    /// none was measured.
    pub shortest: Option<Nanos>,
}

/// Segments of each TCP connection that this process initiated, by the inode of its socket.
/// Connections that peers made to this process's listeners, such as viewers of its page, are left
/// out.
pub fn own_segments() -> BTreeMap<u64, Segments> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let sockets: Vec<(i32, u64)> = entries
        .filter_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, inode))
        })
        .collect();
    let of = |is: &dyn Fn(i32) -> bool| {
        sockets.iter().map(|(socket, _)| *socket).filter(|it| is(*it)).collect::<Vec<_>>()
    };
    let listening: Vec<u16> = of(&is_listening).into_iter().filter_map(local_port).collect();
    let is_ours = |socket: i32| local_port(socket).is_some_and(|port| !listening.contains(&port));
    let begun = sockets.iter().filter(|(socket, _)| is_ours(*socket));
    begun.filter_map(|(socket, inode)| Some((*inode, segments_of(*socket)?))).collect()
}

/// A socket option of `BYTES` bytes; `None` if the file is no such socket.
fn option<const BYTES: usize>(socket: i32, level: i32, name: i32) -> Option<[u8; BYTES]> {
    let mut value = [0; BYTES];
    let mut len = BYTES as libc::socklen_t;
    // SAFETY: the kernel fills at most `len` bytes, which we own, and refuses a number that is no
    // socket.
    let result =
        unsafe { libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &mut len) };
    (result == 0 && len as usize == BYTES).then_some(value)
}

fn is_listening(socket: i32) -> bool {
    let value = option::<4>(socket, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
    value.is_some_and(|value| i32::from_ne_bytes(value) != 0)
}

fn segments_of(socket: i32) -> Option<Segments> {
    let info = option::<INFO_BYTES>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    let at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| info[at + i]));
    let again = u64::from(at(TOTAL_RETRANS));
    let shortest = Some(at(MIN_RTT)).filter(|us| (1..u32::MAX).contains(us));
    Some(Segments {
        sent: u64::from(at(SEGS_OUT)).saturating_sub(again),
        again,
        shortest: shortest.map(|us| Nanos(u64::from(us) * 1_000)),
    })
}

/// The local port of an Internet socket.
fn local_port(socket: i32) -> Option<u16> {
    let mut address = [0_u8; size_of::<libc::sockaddr_in6>()];
    let mut len = address.len() as libc::socklen_t;
    // SAFETY: the kernel fills at most `len` bytes, which we own, and refuses a number that is no
    // socket.
    let result = unsafe { libc::getsockname(socket, address.as_mut_ptr().cast(), &mut len) };
    let family = i32::from(u16::from_ne_bytes([address[0], address[1]]));
    // The port is at the same offset in both families.
    let is_internet = result == 0 && [libc::AF_INET, libc::AF_INET6].contains(&family);
    is_internet.then(|| u16::from_be_bytes([address[2], address[3]]))
}

#[cfg(test)]
mod test {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn segments_of_what_we_began_are_counted_and_no_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let before = own_segments();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        for _ in 0..5 {
            ours.write_all(b"x").unwrap();
            theirs.read_exact(&mut [0]).unwrap();
        }
        let now = own_segments();
        let new: Vec<&Segments> =
            now.iter().filter(|(inode, _)| !before.contains_key(inode)).map(|it| it.1).collect();
        // Concurrent tests may have their own connections.
        assert!(new.iter().any(|it| it.sent >= 6 && it.sent < 50), "{new:?}");
        let short = |it: &&&Segments| it.shortest.is_some_and(|it| it < Nanos::from_secs(1));
        assert!(new.iter().any(|it| short(&it)), "{new:?}");
    }
}
