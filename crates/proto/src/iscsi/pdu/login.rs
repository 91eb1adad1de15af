//! PDUs of login and logout.

use super::layout::{At, Bits, DataLen, Place, pdu};
use super::{CONTINUE, FINAL, HEADER_BYTES, Header, IMMEDIATE, Numbers, Pdu, opcode};

pdu! {
    /// Login Request.
    //= RFC 7143 §11.12
    LoginRequest, opcode::LOGIN_REQUEST, Bits(0, IMMEDIATE) => true;

    /// Transit to `next_stage` (T bit).
    transit: bool = Bits(1, FINAL),
    /// The text continues in the next request (C bit).
    more: bool = Bits(1, CONTINUE),
    /// Current stage (CSG): 0 security negotiation, 1 operational negotiation.
    stage: u8 = Bits(1, 0x0c),
    /// Next stage (NSG): 1 operational negotiation, 3 full feature phase. Only with `transit`.
    next_stage: u8 = Bits(1, 0x03),
    /// Highest supported version.
    version_max: u8 = At(2),
    /// Lowest supported version.
    version_min: u8 = At(3),
    /// Length of the text.
    data_len: u32 = DataLen,
    /// The initiator's part of the session identifier.
    isid: [u8; 6] = At(8),
    /// The target's part; zero for a new session.
    tsih: u16 = At(14),
    /// ITT, the same throughout a login.
    task_tag: u32 = At(16),
    /// Connection ID (CID).
    connection: u16 = At(20),
    /// CmdSN: the first of the session.
    command_number: u32 = At(24),
    /// ExpStatSN.
    expected_status: u32 = At(28),
}

pdu! {
    /// Login Response.
    //= RFC 7143 §11.13
    LoginResponse, opcode::LOGIN_RESPONSE;

    /// Transit to `next_stage` (T bit).
    transit: bool = Bits(1, FINAL),
    /// The text continues in the next response (C bit).
    more: bool = Bits(1, CONTINUE),
    /// Current stage, as in the request.
    stage: u8 = Bits(1, 0x0c),
    /// Next stage, as in the request. Only with `transit`.
    next_stage: u8 = Bits(1, 0x03),
    /// Highest supported version.
    version_max: u8 = At(2),
    /// The version in use.
    version_active: u8 = At(3),
    /// Length of the text.
    data_len: u32 = DataLen,
    /// ISID of the request.
    isid: [u8; 6] = At(8),
    /// The target's part of the session identifier, once the login is complete.
    tsih: u16 = At(14),
    /// Task tag of the request.
    task_tag: u32 = At(16),
    /// Sequence numbers.
    numbers: Numbers = At(24),
    /// Status class in the high byte, detail in the low one; zero is success.
    status: u16 = At(36),
}

pdu! {
    /// Logout Request.
    //= RFC 7143 §11.14
    LogoutRequest, opcode::LOGOUT_REQUEST, Bits(1, FINAL) => true;

    /// Immediate delivery.
    immediate: bool = Bits(0, IMMEDIATE),
    /// 0 close the session, 1 close the connection, 2 remove it for recovery.
    reason: u8 = Bits(1, 0x7f),
    /// ITT of the request.
    task_tag: u32 = At(16),
    /// CID; not for reason 0.
    connection: u16 = At(20),
    /// CmdSN.
    command_number: u32 = At(24),
    /// ExpStatSN.
    expected_status: u32 = At(28),
}

impl LogoutRequest {
    /// Closes the session.
    pub fn of_session(task_tag: u32, command_number: u32, expected_status: u32) -> LogoutRequest {
        let (immediate, reason, connection) = (true, 0, 0);
        LogoutRequest { immediate, reason, task_tag, connection, command_number, expected_status }
    }
}

pdu! {
    /// Logout Response.
    //= RFC 7143 §11.15
    LogoutResponse, opcode::LOGOUT_RESPONSE, Bits(1, FINAL) => true;

    /// 0 closed, 1 connection not found, 2 recovery not supported, 3 clean-up failed.
    response: u8 = At(2),
    /// ITT of the request.
    task_tag: u32 = At(16),
    /// Sequence numbers.
    numbers: Numbers = At(24),
    /// Seconds to wait before a reconnection.
    time_to_wait: u16 = At(40),
    /// Seconds until the target drops the tasks.
    time_to_retain: u16 = At(42),
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
