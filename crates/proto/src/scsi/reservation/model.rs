//! An independent model of persistent reservations: tables and arrays, written from the clauses,
//! without any code of the machine that it judges. Tests of joined ends include this file, too.
#![allow(dead_code)] // Each of both uses a part.

/// Parties of a history: initiator ports, and hosts over NVMe from [`HOSTS`] on.
pub(super) const PORTS: usize = 5;
pub(super) const HOSTS: usize = 3;

/// Actions beyond the codes of SPC-4: Register, Unregister and Replace of NVMe, the last two also
/// with the bit IEKEY.
pub(super) const JOIN: u8 = 10;
pub(super) const LEAVE: [u8; 2] = [11, 12];
pub(super) const REPLACE: [u8; 2] = [13, 14];

/// A command of a history: service action, type, key and service action key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) action: u8,
    pub(super) kind: u8,
    pub(super) key: u64,
    pub(super) new_key: u64,
}

/// Outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Good,
    Conflict,
    Illegal,
}

/// The state: keys by port, zero for none; the reservation's type and who made it.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) keys: [u64; PORTS],
    pub(super) kind: u8,
    owner: usize,
    pub(super) count: u32,
    /// Additional sense code qualifiers told to each port: 2Ah/xx.
    pub(super) told: Vec<(usize, u8)>,
    pub(super) stopped: Vec<usize>,
}

/// Rows of the table of allowed commands: type; reads and writes of a port that is neither holder
/// nor registered; reads and writes of one that is registered.
const TABLE: [(u8, [bool; 2], [bool; 2]); 6] = [
    (1, [true, false], [true, false]),
    (3, [false, false], [false, false]),
    (5, [true, false], [true, true]),
    (6, [false, false], [true, true]),
    (7, [true, false], [true, true]),
    (8, [false, false], [true, true]),
];

impl Model {
    /// Whether a port may read, and write.
    pub(super) fn may(&self, port: usize) -> [bool; 2] {
        let Some(row) = TABLE.iter().find(|row| row.0 == self.kind) else { return [true; 2] };
        if self.owns(port) {
            return [true; 2];
        }
        if self.keys[port] != 0 { row.2 } else { row.1 }
    }

    /// Whether somebody who cannot register may read, and write.
    pub(super) fn may_stranger(&self) -> [bool; 2] {
        TABLE.iter().find(|row| row.0 == self.kind).map_or([true; 2], |row| row.1)
    }

    fn owns(&self, port: usize) -> bool {
        match self.kind {
            0 => false,
            7 | 8 => self.keys[port] != 0,
            _ => self.owner == port,
        }
    }

    /// The key that READ RESERVATION shows.
    pub(super) fn shown(&self) -> u64 {
        if self.kind == 7 || self.kind == 8 { 0 } else { self.keys[self.owner] }
    }

    fn tell(&mut self, except: usize, code: u8) {
        for port in 0..PORTS {
            if port != except && self.keys[port] != 0 {
                self.told.push((port, code));
            }
        }
    }

    pub(super) fn ask(&mut self, port: usize, ask: Ask) -> End {
        self.told.clear();
        self.stopped.clear();
        if ask.action >= JOIN {
            return self.ask_host(port, ask);
        }
        let registers = ask.action == 0 || ask.action == 6;
        let right = self.keys[port] == ask.key && (registers || self.keys[port] != 0);
        if !right && ask.action != 6 {
            return End::Conflict;
        }
        match ask.action {
            0 | 6 => self.register(port, ask.new_key),
            1 if self.kind == 0 => {
                self.kind = ask.kind;
                self.owner = port;
            }
            1 if self.kind == ask.kind && self.owns(port) => {}
            1 => return End::Conflict,
            2 if !self.owns(port) => {}
            2 if self.kind != ask.kind => return End::Illegal,
            2 => {
                if self.kind >= 5 {
                    self.tell(port, 4);
                }
                self.kind = 0;
            }
            3 => {
                self.tell(port, 3);
                self.keys = [0; PORTS];
                self.kind = 0;
                self.count += 1;
            }
            _ => return self.preempt(port, ask),
        }
        End::Good
    }

    /// Reservation Register.
    fn ask_host(&mut self, host: usize, ask: Ask) -> End {
        let has = self.keys[host];
        let (may, key) = match ask.action {
            JOIN => (has == 0 || has == ask.new_key, ask.new_key),
            11 => (has != 0 && has == ask.key, 0),
            12 => (has != 0, 0),
            13 => (has != 0 && has == ask.key, ask.new_key),
            _ => (true, ask.new_key),
        };
        if !may {
            return End::Conflict;
        }
        self.register(host, key);
        End::Good
    }

    fn register(&mut self, port: usize, key: u64) {
        if key == 0 && self.keys[port] == 0 {
            return;
        }
        self.count += 1;
        let owned = self.owns(port);
        self.keys[port] = key;
        if key != 0 || !owned {
            return;
        }
        let shared = self.kind == 7 || self.kind == 8;
        if shared && self.keys.iter().any(|key| *key != 0) {
            return;
        }
        if self.kind >= 5 {
            self.tell(PORTS, 4);
        }
        self.kind = 0;
    }

    fn preempt(&mut self, port: usize, ask: Ask) -> End {
        let shared = self.kind == 7 || self.kind == 8;
        let seizes = match self.kind {
            0 => false,
            7 | 8 => ask.new_key == 0,
            _ => self.keys[self.owner] == ask.new_key,
        };
        if ask.new_key == 0 && !seizes {
            return End::Illegal;
        }
        let mut any = false;
        for victim in 0..PORTS {
            let named =
                self.keys[victim] != 0 && (self.keys[victim] == ask.new_key || seizes && shared);
            any |= named;
            if named && !(seizes && victim == port) {
                self.keys[victim] = 0;
                if victim != port {
                    self.told.push((victim, 5));
                    if ask.action == 5 {
                        self.stopped.push(victim);
                    }
                }
            }
        }
        if !any {
            return End::Conflict;
        }
        self.count += 1;
        if seizes {
            if self.kind != ask.kind {
                self.tell(port, 4);
            }
            (self.kind, self.owner) = (ask.kind, port);
        } else if shared && self.keys == [0; PORTS] {
            self.kind = 0;
        }
        End::Good
    }
}
