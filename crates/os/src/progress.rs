//! Detection whether the peer of a TCP connection reads the data sent to it.

use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Bytes of `struct tcp_info` up to and including `tcpi_snd_wnd` (`linux/tcp.h`, Linux 5.4).
const INFO_BYTES: usize = 232;
/// Offsets of `tcpi_bytes_acked` and `tcpi_snd_wnd` in the structure.
const BYTES_ACKED: usize = 120;
const SND_WND: usize = 228;

/// Stream offset up to which the peer's receive window reaches, by its last ACK: it advances only
/// when the peer's program reads. `None` if the kernel does not report it.
pub fn peer_room_until(stream: &TcpStream) -> Option<u64> {
    let mut info = [0_u8; INFO_BYTES];
    let mut len = INFO_BYTES as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel fills at most `len` bytes, which we own.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if failed != 0 || (len as usize) < INFO_BYTES {
        return None;
    }
    let acked = u64::from_ne_bytes(info[BYTES_ACKED..][..8].try_into().ok()?);
    let window = u32::from_ne_bytes(info[SND_WND..][..4].try_into().ok()?);
    Some(acked + u64::from(window))
}

/// Limits the bytes that the kernel buffers for a peer that does not read.
///
/// # Errors
///
/// Errors of the kernel.
pub fn keep_unsent(stream: &TcpStream, bytes: usize) -> std::io::Result<()> {
    socket2::SockRef::from(stream).set_send_buffer_size(bytes)
}

#[cfg(test)]
mod test {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Sends `len` bytes in small pieces, which the peer reads at once or not at all. Returns the
    /// advance of the peer's window as a share of the second half.
    fn advances(len: usize, reads: bool) -> f64 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let half = |stream: &mut TcpStream, peer: &mut TcpStream| {
            for _ in 0..len / 1000 {
                stream.write_all(&[1; 500]).unwrap();
                if reads {
                    peer.read_exact(&mut [0; 500]).unwrap();
                }
                // Leaves time for the peer's ACK.
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(Duration::from_millis(50));
            peer_room_until(stream).unwrap() as f64
        };
        let before = half(&mut stream, &mut peer);
        (half(&mut stream, &mut peer) - before) / (len as f64 / 2.0)
    }

    #[test]
    fn only_who_reads_has_more_room() {
        let (read, unread) = (advances(180_000, true), advances(180_000, false));
        assert!(read > 0.8 && unread < 0.5, "{read} {unread}");
    }
}
