//! Completion queue entries: status and result.

use super::{Layout, Short, get16, get64, kind};

/// CapsuleResp: a completion queue entry.
//= NVMe-TCP §3.6.2.7: Response Capsule.
//= NVMe base §3.3.3.2: Completion Queue Entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Command specific: Dwords 0 and 1.
    pub result: u64,
    /// SQHD.
    pub head: u16,
    /// CID.
    pub command: u16,
    /// Status.
    pub status: Status,
}

impl Completion {
    /// Parses a CapsuleResp.
    #[inline(always)]
    pub fn parse(bytes: &Short) -> Completion {
        Completion {
            result: get64(bytes, 8),
            head: get16(bytes, 16),
            command: get16(bytes, 20),
            status: Status::from_wire(get16(bytes, 22)),
        }
    }

    /// Builds a CapsuleResp.
    #[inline(always)]
    pub fn build(&self) -> Short {
        let layout = Layout::new(kind::CAPSULE_RESP).put(8, self.result.to_le_bytes());
        layout.put16(16, self.head).put16(20, self.command).put16(22, self.status.to_wire()).0
    }
}

/// Status code type, status code and Do Not Retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(u16);

//= NVMe base §3.3.3.2.1: SC is bits 7:0, SCT bits 10:8, DNR bit 14 of the field.
const DO_NOT_RETRY: u16 = 1 << 14;
const CODE_AND_TYPE: u16 = 0x7ff;

impl Status {
    #![allow(missing_docs)] // The names are those of the standard.

    //= NVMe base §3.3.3.2.1.1: Generic Command Status.
    pub const SUCCESS: Status = Status(0);
    pub const INVALID_OPCODE: Status = Status::lasting(0, 0x01);
    pub const INVALID_FIELD: Status = Status::lasting(0, 0x02);
    pub const INTERNAL_ERROR: Status = Status::passing(0, 0x06);
    /// Internal Error of a flush: hosts must not make it a success by another flush, which may find
    /// nothing left to do.
    pub const FLUSH_FAILED: Status = Status::lasting(0, 0x06);
    pub const ABORT_REQUESTED: Status = Status::passing(0, 0x07);
    pub const FAILED_FUSED: Status = Status::lasting(0, 0x09);
    pub const MISSING_FUSED: Status = Status::lasting(0, 0x0a);
    pub const INVALID_NAMESPACE: Status = Status::lasting(0, 0x0b);
    pub const SEQUENCE_ERROR: Status = Status::lasting(0, 0x0c);
    pub const SGL_LENGTH_INVALID: Status = Status::lasting(0, 0x0f);
    pub const SGL_TYPE_INVALID: Status = Status::lasting(0, 0x11);
    pub const ATOMIC_WRITE_UNIT_EXCEEDED: Status = Status::lasting(0, 0x14);
    pub const SGL_OFFSET_INVALID: Status = Status::lasting(0, 0x16);
    pub const HOST_IDENTIFIER_FORMAT: Status = Status::lasting(0, 0x18);
    pub const PREEMPTED_AND_ABORTED: Status = Status::lasting(0, 0x1b);
    pub const WRITE_PROTECTED: Status = Status::lasting(0, 0x20);
    pub const COMMAND_INTERRUPTED: Status = Status::passing(0, 0x21);
    pub const TRANSIENT_TRANSPORT_ERROR: Status = Status::passing(0, 0x22);
    pub const LBA_OUT_OF_RANGE: Status = Status::lasting(0, 0x80);
    pub const NAMESPACE_NOT_READY: Status = Status::passing(0, 0x82);
    pub const RESERVATION_CONFLICT: Status = Status::lasting(0, 0x83);
    pub const CAPACITY_EXCEEDED: Status = Status::lasting(0, 0x81);
    //= NVMe base §3.3.3.2.1.2: Command Specific Status.
    pub const INVALID_QUEUE_IDENTIFIER: Status = Status::lasting(1, 0x01);
    pub const RESET_LIMIT_EXCEEDED: Status = Status::passing(1, 0x41);
    pub const ASYNC_LIMIT_EXCEEDED: Status = Status::lasting(1, 0x05);
    pub const INVALID_LOG_PAGE: Status = Status::lasting(1, 0x09);
    pub const FEATURE_NOT_SAVEABLE: Status = Status::lasting(1, 0x0d);
    pub const FEATURE_NOT_CHANGEABLE: Status = Status::lasting(1, 0x0e);
    pub const FEATURE_NOT_NAMESPACE_SPECIFIC: Status = Status::lasting(1, 0x0f);
    pub const ATTEMPTED_WRITE_TO_READ_ONLY: Status = Status::lasting(1, 0x82);
    pub const COMMAND_SIZE_LIMIT_EXCEEDED: Status = Status::lasting(1, 0x83);
    //= NVMe-oF §Connect command: status codes.
    pub const CONNECT_INCOMPATIBLE_FORMAT: Status = Status::lasting(1, 0x80);
    pub const CONNECT_CONTROLLER_BUSY: Status = Status::passing(1, 0x81);
    pub const CONNECT_INVALID_PARAMETERS: Status = Status::lasting(1, 0x82);
    pub const CONNECT_INVALID_HOST: Status = Status::lasting(1, 0x84);
    pub const INVALID_QUEUE_TYPE: Status = Status::lasting(1, 0x85);
    //= NVMe base §3.3.3.2.1.3: Media and Data Integrity Errors.
    pub const WRITE_FAULT: Status = Status::passing(2, 0x80);
    pub const UNRECOVERED_READ_ERROR: Status = Status::passing(2, 0x81);
    pub const COMPARE_FAILURE: Status = Status::lasting(2, 0x85);
    //= NVMe base §3.3.3.2.1.4: Path Related Status.
    pub const INTERNAL_PATH_ERROR: Status = Status::passing(3, 0x00);

    /// A retry would fail (DNR).
    const fn lasting(kind: u16, code: u16) -> Status {
        Status(kind << 8 | code | DO_NOT_RETRY)
    }

    /// A retry may succeed.
    const fn passing(kind: u16, code: u16) -> Status {
        Status(kind << 8 | code)
    }

    /// Decodes the status field of a completion, without its phase tag.
    #[inline(always)]
    pub fn from_wire(field: u16) -> Status {
        Status(field >> 1)
    }

    /// The status field of a completion.
    #[inline(always)]
    pub fn to_wire(self) -> u16 {
        self.0 << 1
    }

    /// Whether the command succeeded.
    #[inline(always)]
    pub fn is_success(self) -> bool {
        self.0 & CODE_AND_TYPE == 0
    }

    /// Status code type.
    pub fn kind(self) -> u8 {
        (self.0 >> 8 & 7) as u8
    }

    /// Status code.
    pub fn code(self) -> u8 {
        self.0 as u8
    }

    /// Whether both are equal apart from DNR.
    pub fn means(self, other: Status) -> bool {
        (self.0 ^ other.0) & CODE_AND_TYPE == 0
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (Status::SUCCESS, "success"),
            (Status::INVALID_OPCODE, "invalid command opcode"),
            (Status::INVALID_FIELD, "invalid field in command"),
            (Status::INTERNAL_ERROR, "internal error"),
            (Status::ABORT_REQUESTED, "command abort requested"),
            (Status::passing(0, 0x08), "command aborted due to SQ deletion"),
            (Status::FAILED_FUSED, "command aborted due to failed fused command"),
            (Status::MISSING_FUSED, "command aborted due to missing fused command"),
            (Status::ATOMIC_WRITE_UNIT_EXCEEDED, "atomic write unit exceeded"),
            (Status::COMMAND_SIZE_LIMIT_EXCEEDED, "command size limit exceeded"),
            (Status::INVALID_NAMESPACE, "invalid namespace or format"),
            (Status::SEQUENCE_ERROR, "command sequence error"),
            (Status::SGL_LENGTH_INVALID, "data SGL length invalid"),
            (Status::HOST_IDENTIFIER_FORMAT, "host identifier inconsistent format"),
            (Status::PREEMPTED_AND_ABORTED, "command aborted due to preempt and abort"),
            (Status::WRITE_PROTECTED, "namespace is write protected"),
            (Status::COMMAND_INTERRUPTED, "command interrupted"),
            (Status::TRANSIENT_TRANSPORT_ERROR, "transient transport error"),
            (Status::LBA_OUT_OF_RANGE, "LBA out of range"),
            (Status::RESERVATION_CONFLICT, "reservation conflict"),
            (Status::CAPACITY_EXCEEDED, "capacity exceeded"),
            (Status::NAMESPACE_NOT_READY, "namespace not ready"),
            (Status::passing(0, 0x83), "reservation conflict"),
            (Status::ATTEMPTED_WRITE_TO_READ_ONLY, "attempted write to read only range"),
            (Status::WRITE_FAULT, "write fault"),
            (Status::UNRECOVERED_READ_ERROR, "unrecovered read error"),
            (Status::passing(2, 0x82), "end-to-end guard check error"),
            (Status::passing(2, 0x83), "end-to-end application tag check error"),
            (Status::passing(2, 0x84), "end-to-end reference tag check error"),
            (Status::COMPARE_FAILURE, "compare failure"),
            (Status::passing(2, 0x86), "access denied"),
            (Status::passing(2, 0x87), "deallocated or unwritten logical block"),
            (Status::INTERNAL_PATH_ERROR, "internal path error"),
            (Status::passing(3, 0x01), "asymmetric access persistent loss"),
            (Status::passing(3, 0x02), "asymmetric access inaccessible"),
            (Status::passing(3, 0x03), "asymmetric access transition"),
            (Status::passing(3, 0x60), "controller pathing error"),
            (Status::passing(3, 0x70), "host pathing error"),
            (Status::INVALID_LOG_PAGE, "invalid log page"),
            (Status::CONNECT_INCOMPATIBLE_FORMAT, "connect: incompatible format"),
            (Status::CONNECT_CONTROLLER_BUSY, "connect: controller busy"),
            (Status::CONNECT_INVALID_PARAMETERS, "connect: invalid parameters"),
            (Status::CONNECT_INVALID_HOST, "connect: invalid host"),
        ];
        match names.into_iter().find(|(status, _)| self.means(*status)) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "status type {} code {:#04x}", self.kind(), self.code()),
        }
    }
}

#[cfg(test)]
mod test {
    use super::super::test::hexadecimal;
    use super::*;

    #[test]
    fn completion_golden() {
        let completion = Completion {
            result: 0x0807_0605_0403_0201,
            head: 0x1234,
            command: 0x5678,
            status: Status::CONNECT_INVALID_PARAMETERS,
        };
        let bytes = hexadecimal("05 00 18 00 18000000 0102030405060708 3412 0000 7856 0483");
        assert_eq!(completion.build(), bytes);
        assert_eq!(Completion::parse(&bytes), completion);
    }

    #[test]
    fn status_has_its_bits_where_they_belong() {
        assert_eq!(Status::SUCCESS.to_wire(), 0);
        assert_eq!(Status::INVALID_FIELD.to_wire(), 0x8004);
        assert_eq!(Status::UNRECOVERED_READ_ERROR.to_wire(), 0x0502);
        let status = Status::from_wire(0x8105 | 0x0400);
        assert_eq!((status.kind(), status.code()), (2, 0x82));
        assert!(!status.is_success() && Status::from_wire(0x8001).is_success());
        assert!(Status::from_wire(0x0004).means(Status::INVALID_FIELD));
        assert_eq!(Status::INVALID_OPCODE.to_string(), "invalid command opcode");
        assert_eq!(Status::WRITE_FAULT.to_string(), "write fault");
        assert_eq!(Status::passing(6, 0x42).to_string(), "status type 6 code 0x42");
    }
}
