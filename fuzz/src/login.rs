//! A login that succeeds.

use proto::iscsi::pdu;

/// The name of the target behind [`Serving`](crate::Serving).
pub const TARGET_NAME: &str = "iqn.2026-11.io.drumfire:fuzz";

/// A login request with `keys` as its text, straight from operational negotiation to full feature.
pub fn login_request(keys: &[u8]) -> Vec<u8> {
    let request = pdu::LoginRequest {
        transit: true,
        more: false,
        stage: 1,
        next_stage: 3,
        version_max: 0,
        version_min: 0,
        data_len: keys.len() as u32,
        isid: [0x80, 0, 0, 0, 0, 1],
        tsih: 0,
        task_tag: 0,
        connection: 0,
        command_number: 0,
        expected_status: 0,
    };
    let mut bytes = request.build().to_vec();
    bytes.extend(keys);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
