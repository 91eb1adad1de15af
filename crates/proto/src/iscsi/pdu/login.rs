//! PDUs of login and logout.

use super::{
    CONTINUE, FINAL, Header, IMMEDIATE, Layout, Numbers, Pdu, data_len, flag, get16, get32,
    is_immediate, opcode,
};

/// Login Request.
//= RFC 7143 §11.12
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginRequest {
    /// Transit to `next_stage` (T bit).
    pub transit: bool,
    /// The text continues in the next request (C bit).
    pub more: bool,
    /// Current stage (CSG): 0 security negotiation, 1 operational negotiation.
    pub stage: u8,
    /// Next stage (NSG): 1 operational negotiation, 3 full feature phase. Only with `transit`.
    pub next_stage: u8,
    /// Highest supported version.
    pub version_max: u8,
    /// Lowest supported version.
    pub version_min: u8,
    /// Length of the text.
    pub data_len: u32,
    /// The initiator's part of the session identifier.
    pub isid: [u8; 6],
    /// The target's part; zero for a new session.
    pub tsih: u16,
    /// ITT, the same throughout a login.
    pub task_tag: u32,
    /// Connection ID (CID).
    pub connection: u16,
    /// CmdSN: the first of the session.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
}

impl LoginRequest {
    /// From a header.
    pub fn parse(header: &Header) -> LoginRequest {
        LoginRequest {
            transit: header[1] & FINAL != 0,
            more: header[1] & CONTINUE != 0,
            stage: header[1] >> 2 & 3,
            next_stage: header[1] & 3,
            version_max: header[2],
            version_min: header[3],
            data_len: data_len(header),
            isid: *header[8..].first_chunk().expect("a header has 48 bytes"),
            tsih: get16(header, 14),
            task_tag: get32(header, 16),
            connection: get16(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
        }
    }
}

impl Pdu for LoginRequest {
    fn write(&self, header: &mut Header) {
        let flags = flag(self.transit, FINAL) | flag(self.more, CONTINUE);
        let stages = self.stage << 2 | self.next_stage;
        Layout::new(header, opcode::LOGIN_REQUEST | IMMEDIATE, flags | stages)
            .put(2, [self.version_max, self.version_min])
            .data_len(self.data_len)
            .put(8, self.isid)
            .put(14, self.tsih.to_be_bytes())
            .put32(16, self.task_tag)
            .put(20, self.connection.to_be_bytes())
            .put32(24, self.command_number)
            .put32(28, self.expected_status);
    }
}

/// Login Response.
//= RFC 7143 §11.13
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginResponse {
    /// Transit to `next_stage` (T bit).
    pub transit: bool,
    /// The text continues in the next response (C bit).
    pub more: bool,
    /// Current stage, as in the request.
    pub stage: u8,
    /// Next stage, as in the request. Only with `transit`.
    pub next_stage: u8,
    /// Highest supported version.
    pub version_max: u8,
    /// The version in use.
    pub version_active: u8,
    /// Length of the text.
    pub data_len: u32,
    /// As in the request.
    pub isid: [u8; 6],
    /// The target's part of the session identifier, once the login is complete.
    pub tsih: u16,
    /// As in the request.
    pub task_tag: u32,
    /// Sequence numbers.
    pub numbers: Numbers,
    /// Status class in the high byte, detail in the low one; zero is success.
    pub status: u16,
}

impl LoginResponse {
    /// From a header.
    pub fn parse(header: &Header) -> LoginResponse {
        LoginResponse {
            transit: header[1] & FINAL != 0,
            more: header[1] & CONTINUE != 0,
            stage: header[1] >> 2 & 3,
            next_stage: header[1] & 3,
            version_max: header[2],
            version_active: header[3],
            data_len: data_len(header),
            isid: *header[8..].first_chunk().expect("a header has 48 bytes"),
            tsih: get16(header, 14),
            task_tag: get32(header, 16),
            numbers: Numbers::parse(header),
            status: get16(header, 36),
        }
    }
}

impl Pdu for LoginResponse {
    fn write(&self, header: &mut Header) {
        let flags = flag(self.transit, FINAL) | flag(self.more, CONTINUE);
        let stages = self.stage << 2 | self.next_stage;
        let layout = Layout::new(header, opcode::LOGIN_RESPONSE, flags | stages)
            .put(2, [self.version_max, self.version_active])
            .data_len(self.data_len)
            .put(8, self.isid)
            .put(14, self.tsih.to_be_bytes())
            .put32(16, self.task_tag)
            .put(36, self.status.to_be_bytes());
        self.numbers.put(layout);
    }
}

/// Logout Request.
//= RFC 7143 §11.14
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogoutRequest {
    /// Immediate delivery.
    pub immediate: bool,
    /// 0 close the session, 1 close the connection, 2 remove it for recovery.
    pub reason: u8,
    /// ITT of the request.
    pub task_tag: u32,
    /// CID; not for reason 0.
    pub connection: u16,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
}

impl LogoutRequest {
    /// Closes the session.
    pub fn of_session(task_tag: u32, command_number: u32, expected_status: u32) -> LogoutRequest {
        let (immediate, reason, connection) = (true, 0, 0);
        LogoutRequest { immediate, reason, task_tag, connection, command_number, expected_status }
    }

    /// From a header.
    pub fn parse(header: &Header) -> LogoutRequest {
        LogoutRequest {
            immediate: is_immediate(header),
            reason: header[1] & 0x7f,
            task_tag: get32(header, 16),
            connection: get16(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
        }
    }
}

impl Pdu for LogoutRequest {
    fn write(&self, header: &mut Header) {
        let opcode = opcode::LOGOUT_REQUEST | flag(self.immediate, IMMEDIATE);
        Layout::new(header, opcode, FINAL | self.reason)
            .put32(16, self.task_tag)
            .put(20, self.connection.to_be_bytes())
            .put32(24, self.command_number)
            .put32(28, self.expected_status);
    }
}

/// Logout Response.
//= RFC 7143 §11.15
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogoutResponse {
    /// 0 closed, 1 connection not found, 2 recovery not supported, 3 clean-up failed.
    pub response: u8,
    /// ITT of the request.
    pub task_tag: u32,
    /// Sequence numbers.
    pub numbers: Numbers,
    /// Seconds to wait before a reconnection.
    pub time_to_wait: u16,
    /// Seconds until the target drops the tasks.
    pub time_to_retain: u16,
}

impl LogoutResponse {
    /// From a header.
    pub fn parse(header: &Header) -> LogoutResponse {
        LogoutResponse {
            response: header[2],
            task_tag: get32(header, 16),
            numbers: Numbers::parse(header),
            time_to_wait: get16(header, 40),
            time_to_retain: get16(header, 42),
        }
    }
}

impl Pdu for LogoutResponse {
    fn write(&self, header: &mut Header) {
        let layout = Layout::new(header, opcode::LOGOUT_RESPONSE, FINAL)
            .put(2, [self.response])
            .put32(16, self.task_tag)
            .put(40, self.time_to_wait.to_be_bytes())
            .put(42, self.time_to_retain.to_be_bytes());
        self.numbers.put(layout);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::iscsi::pdu::test::{NUMBERS, answer, golden, header};

    #[test]
    fn login_request_golden() {
        let mut expect = header("4387 0201 0000 0055 4001 0203 0405 0607 0000 0008 0009 0000");
        expect[24..32].copy_from_slice(&[0, 0, 0, 10, 0, 0, 0, 11]);
        let login = LoginRequest {
            transit: true,
            more: false,
            stage: 1,
            next_stage: 3,
            version_max: 2,
            version_min: 1,
            data_len: 0x55,
            isid: [0x40, 1, 2, 3, 4, 5],
            tsih: 0x0607,
            task_tag: 8,
            connection: 9,
            command_number: 10,
            expected_status: 11,
        };
        golden(login, LoginRequest::build, LoginRequest::parse, expect);
    }

    #[test]
    fn login_response_golden() {
        let first = "2381 0000 0000 0055 4001 0203 0405 0607 0000 0008 0000 0000";
        let expect = answer(first, [2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let login = LoginResponse {
            transit: true,
            more: false,
            stage: 0,
            next_stage: 1,
            version_max: 0,
            version_active: 0,
            data_len: 0x55,
            isid: [0x40, 1, 2, 3, 4, 5],
            tsih: 0x0607,
            task_tag: 8,
            numbers: NUMBERS,
            status: 0x0203,
        };
        golden(login, LoginResponse::build, LoginResponse::parse, expect);
    }

    #[test]
    fn logout_request_golden() {
        let mut expect = header("4681 0000 0000 0000 0000 0000 0000 0000 0000 0002 0003 0000");
        expect[24..32].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 5]);
        let logout = LogoutRequest {
            immediate: true,
            reason: 1,
            task_tag: 2,
            connection: 3,
            command_number: 4,
            expected_status: 5,
        };
        golden(logout, LogoutRequest::build, LogoutRequest::parse, expect);
    }

    #[test]
    fn logout_response_golden() {
        let first = "2680 0100 0000 0000 0000 0000 0000 0000 0000 0005 0000 0000";
        let expect = answer(first, [0, 0, 0, 0, 0, 2, 0, 20, 0, 0, 0, 0]);
        let logout = LogoutResponse {
            response: 1,
            task_tag: 5,
            numbers: NUMBERS,
            time_to_wait: 2,
            time_to_retain: 20,
        };
        golden(logout, LogoutResponse::build, LogoutResponse::parse, expect);
    }
}
