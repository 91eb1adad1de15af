//! Reservations that outlive the server: `serve --keep-reservations`.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Client, Drumfire, Folder, Served, pdu};

const LIMIT: Duration = Duration::from_secs(120);

const GOOD: u8 = 0;
const CHECK_CONDITION: u8 = 2;
const CONFLICT: u8 = 0x18;
/// REGISTER of PERSISTENT RESERVE OUT, and RESERVE.
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 3;

/// A session that sends commands.
struct Session {
    client: Client,
    number: u32,
}

impl Session {
    /// Logs in with this ISID, and clears the unit attention of a new session.
    fn of(served: &Served, isid: u16) -> Session {
        let mut session = Session { client: Client::connect(served.port), number: 0 };
        assert!(session.client.login_as("disk", isid));
        assert_eq!(session.status(&[0x00], 0x81, 0, &[]), CHECK_CONDITION);
        session
    }

    /// Status of a command for LUN 1.
    fn status(&mut self, cdb: &[u8], flags: u8, len: u32, data: &[u8]) -> u8 {
        let mut start = [0; 48];
        (start[0], start[1], start[9]) = (0x01, flags, 1);
        start[20..24].copy_from_slice(&len.to_be_bytes());
        start[24..28].copy_from_slice(&self.number.to_be_bytes());
        start[32..32 + cdb.len()].copy_from_slice(cdb);
        self.number += 1;
        assert!(self.client.send(&pdu(&start, data)));
        loop {
            let (header, _) = self.client.receive().expect("an answer");
            // A response, or data with a status.
            match header[0] & 0x3f {
                0x21 => return header[3],
                0x25 if header[1] & 1 != 0 => return header[3],
                _ => {}
            }
        }
    }

    fn read(&mut self) -> u8 {
        self.status(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 0xc1, 512, &[])
    }

    /// PERSISTENT RESERVE OUT with APTPL.
    fn reserve(&mut self, action: u8, kind: u8, key: u8, new_key: u8) -> u8 {
        let mut list = [0; 24];
        (list[7], list[15], list[20]) = (key, new_key, 1);
        self.status(&[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], 0xa1, 24, &list)
    }
}

fn serve(drumfire: &Drumfire, folder: &Folder, option: &str) -> Served {
    let mut by = Command::new(drumfire.path());
    by.env("STATE_DIRECTORY", folder.path());
    let image = folder.path().join("disk.img");
    drumfire.serve_by(by, [0, 0], &format!("--volume disk={}?size=8m {option}", image.display()))
}

#[test]
fn a_reservation_outlives_the_server() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let keep = "--keep-reservations";
    let served = serve(&drumfire, &folder, keep);
    let mut holder = Session::of(&served, 7);
    assert_eq!(holder.reserve(REGISTER, 0, 0, 5), GOOD);
    assert_eq!(holder.reserve(RESERVE, EXCLUSIVE_ACCESS, 5, 0), GOOD);
    // Without warning.
    drop(served);
    let served = serve(&drumfire, &folder, keep);
    assert_eq!(Session::of(&served, 8).read(), CONFLICT);
    assert_eq!(Session::of(&served, 7).read(), GOOD);
    drop(served);
    let records = std::fs::read_dir(folder.path().join("reservations")).unwrap();
    let mut records = records.map(|entry| entry.unwrap().path());
    let record = records.find(|path| path.extension().is_none()).expect("a record");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("type 3", "type 1")).unwrap();
    let image = folder.path().join("disk.img");
    let args = format!("serve --iscsi 127.0.0.1:0 --volume disk={} {keep}", image.display());
    let mut refused = drumfire.command(folder.path(), &args);
    let refused = drumfire_tests::run(refused.env("STATE_DIRECTORY", folder.path()), LIMIT);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("is damaged: line "), "{refused:?}");
    assert!(refused.stderr.contains(&format!("`rm {}`", record.display())), "{refused:?}");
    std::fs::remove_file(&record).unwrap();
    let served = serve(&drumfire, &folder, keep);
    assert_eq!(Session::of(&served, 8).read(), GOOD);
}

#[test]
fn persistence_is_offered_only_with_the_option() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let served = serve(&drumfire, &folder, "");
    assert_eq!(Session::of(&served, 7).reserve(REGISTER, 0, 0, 5), CHECK_CONDITION);
    drop(served);
    let served = drumfire.serve_with("--volume disk=ram:8m --keep-reservations");
    let mut memory = Session::of(&served, 7);
    assert_eq!(memory.reserve(REGISTER, 0, 0, 5), CHECK_CONDITION, "RAM ends with the server");
}
