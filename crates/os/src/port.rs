//! Listening sockets that outlive their process: the kernel ends the rings of a killed process in
//! the background, and until then its ports are in use.

use std::fs;
use std::path::Path;

/// State of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";
/// Flag of a process that exits, in `/proc/PID/stat`: `PF_EXITING` of linux/sched.h.
const EXITING: u64 = 0x4;

/// Whether sockets that listen on the port belong to no process that lives, as far as this process
/// can see: those of other users and of other PID namespaces may be hidden.
pub fn is_ending(port: u16) -> bool {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listeners(&table, port))
        .collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    !inodes.is_empty()
        && !processes.map(|entry| entry.path()).any(|path| lives_with(&path, &inodes))
}

/// Inodes of the sockets that listen on the port, from a table of the kernel: the second word is
/// the address, the fourth the state, the tenth the inode.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let of_port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, number) = words.get(1)?.rsplit_once(':')?;
        let listens = words.get(3) == Some(&LISTENS);
        let this = u16::from_str_radix(number, 16) == Ok(port);
        (listens && this).then(|| words.get(9).map(|inode| format!("socket:[{inode}]")))?
    };
    table.lines().filter_map(of_port).collect()
}

/// Whether the process of a folder of `/proc` has one of the sockets and does not exit.
fn lives_with(process: &Path, inodes: &[String]) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| inodes.iter().any(|inode| link.as_os_str() == &**inode))
        && !is_exiting(process)
}

/// Whether a process exits; `false` if that cannot be read.
fn is_exiting(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name in parentheses may contain spaces; the flags are the seventh word after it.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let flags = after.split_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

#[cfg(test)]
mod test {
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::net::TcpListener;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

    use super::*;

    #[test]
    fn the_listeners_of_a_table_are_found() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:0CBC 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1 0\n\
            1: 0100007F:0CBC 0100007F:A000 01 00000000:00000000 00:00000000 00000000 0 0 4712 1 0\n\
            2: 0100007F:0CBD 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4713 1 0";
        assert_eq!(listeners(table, 3260), ["socket:[4711]"]);
        assert_eq!(listeners(table, 1), [""; 0]);
        assert_eq!(listeners("nonsense\n1 :zz 0 0A", 3260), [""; 0]);
    }

    /// A listener in a message that nobody received belongs to no process, as one that only an
    /// accept of a ring holds.
    #[test]
    fn a_port_that_no_process_has_is_ending() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_ending(port), "this process has it");
        let (from, to) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        let sockets = [listener.as_fd()];
        assert!(message.push(SendAncillaryMessage::ScmRights(&sockets)));
        let data = [IoSlice::new(b"1")];
        rustix::net::sendmsg(&from, &data, &mut message, SendFlags::empty()).unwrap();
        drop(listener);
        assert!(is_ending(port));
        drop((from, to));
        assert!(!is_ending(port), "nothing listens");
    }
}
