//! Effects of one iSCSI session on another, on the same core of the target and across cores.

use std::time::Duration;

use drumfire_tests::{Client, Drumfire, Patience, pdu};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const LIMIT: Duration = Duration::from_secs(300);
const COMMAND: u8 = 0x01;
const TASK_REQUEST: u8 = 0x42;
const COMMAND_RESPONSE: u8 = 0x21;
const TASK_RESPONSE: u8 = 0x22;
const LUN_RESET: u8 = 5;
const GOOD: u8 = 0;
const CHECK_CONDITION: u8 = 2;
/// Additional sense code: power on, or reset.
const RESET_OCCURRED: u8 = 0x29;

/// A session and the number of its next command.
struct Session {
    client: Client,
    command_number: u32,
}

impl Session {
    /// Logs in from the given CPU: the target's thread there accepts the connection.
    fn begin(port: u16, number: u16, processor: usize) -> Session {
        let before = sched_getaffinity(None).expect("a thread may ask where it runs");
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).expect("the processor is ours");
        let mut client = Client::connect(port);
        assert!(client.login_as("disk", number), "a plain login works");
        sched_setaffinity(None, &before).expect("it was so before");
        Session { client, command_number: 0 }
    }

    fn ask(&mut self, opcode: u8, flags: u8) -> (Vec<u8>, Vec<u8>) {
        let mut bytes = pdu(&[opcode, flags], &[]);
        // LUN 1.
        bytes[9] = 1;
        // The request refers to no task; a command expects no data.
        bytes[20..24].fill(if opcode == TASK_REQUEST { 0xff } else { 0 });
        bytes[24..28].copy_from_slice(&self.command_number.to_be_bytes());
        self.command_number += u32::from(opcode == COMMAND);
        assert!(self.client.send(&bytes), "the session is open");
        self.client.receive().expect("there is an answer")
    }

    /// Sends TEST UNIT READY: returns the status, and the additional sense code if there is one.
    fn test_unit(&mut self) -> (u8, Option<u8>) {
        let (header, data) = self.ask(COMMAND, 0x80);
        assert_eq!(header[0], COMMAND_RESPONSE);
        // Two bytes of length, then sense data of the fixed form.
        (header[3], data.get(2 + 12).copied())
    }

    /// Resets the unit.
    fn reset(&mut self) {
        let (header, _) = self.ask(TASK_REQUEST, 0x80 | LUN_RESET);
        assert_eq!((header[0], header[2]), (TASK_RESPONSE, 0));
    }
}

/// Two CPUs, the same one twice if there is only one.
fn processors() -> [usize; 2] {
    let ours = sched_getaffinity(None).expect("a thread may ask where it runs");
    let mut all = (0..CpuSet::MAX_CPU).filter(|processor| ours.is_set(*processor));
    let first = all.next().expect("it runs somewhere");
    [first, all.next().unwrap_or(first)]
}

#[test]
fn a_login_anew_ends_the_older_session_on_any_core() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut served = drumfire.serve(&["disk=ram:16m"]);
    let [one, other] = processors();
    for (number, there) in [(1, one), (2, other)] {
        let mut old = Session::begin(served.port, number, one);
        let mut bystander = Session::begin(served.port, 0x1000 + number, there);
        assert_eq!(old.test_unit(), (CHECK_CONDITION, Some(RESET_OCCURRED)), "power on");
        assert_eq!(bystander.test_unit(), (CHECK_CONDITION, Some(RESET_OCCURRED)));
        let mut new = Session::begin(served.port, number, there);
        assert!(old.client.closed(), "session {number} lives twice");
        assert_eq!(new.test_unit(), (CHECK_CONDITION, Some(RESET_OCCURRED)));
        assert_eq!((new.test_unit(), bystander.test_unit()), ((GOOD, None), (GOOD, None)));
    }
    served.running.await_stderr(LIMIT, |said| said.contains("session reinstatement").then_some(()));
}

#[test]
fn a_reset_is_told_to_the_sessions_of_all_cores() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:16m"]);
    let [one, other] = processors();
    let mut sessions = [(1, one), (2, one), (3, other), (4, other)]
        .map(|(number, processor)| Session::begin(served.port, number, processor));
    for session in &mut sessions {
        assert_eq!(session.test_unit().0, CHECK_CONDITION, "power on");
        assert_eq!(session.test_unit(), (GOOD, None));
    }
    for reset in 0..sessions.len() {
        sessions[reset].reset();
        for (index, session) in sessions.iter_mut().enumerate() {
            let told =
                if index == reset { (GOOD, None) } else { (CHECK_CONDITION, Some(RESET_OCCURRED)) };
            // Another core is notified in its next turn.
            let mut said = session.test_unit();
            let mut patience = Patience::new(LIMIT);
            while said != told && patience.wait() {
                said = session.test_unit();
            }
            assert_eq!(said, told, "session {index} after a reset by {reset}");
            assert_eq!(session.test_unit(), (GOOD, None), "it is told once");
        }
    }
}
