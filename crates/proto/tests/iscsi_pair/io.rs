//! Reads and writes of all shapes.

use block::Op;
use proto::iscsi::Stage;

use crate::harness::{INITIATOR, Pair, Setup, TARGET, io, pattern};

#[test]
fn logs_in_reads_writes_and_logs_out() {
    let mut pair = Pair::ready(&Setup::default());
    assert_eq!(pair.served.end.stage(), Stage::Normal);
    assert_eq!(pair.served.end.initiator_name(), Some(INITIATOR));
    assert_eq!(pair.served.end.target_name(), Some(TARGET));
    let data = pattern(1, 4096);
    pair.write(8192, &data).unwrap();
    assert!(pair.read(8192, 4096).unwrap() == data);
    assert!(pair.read(4096, 4096).unwrap() == [0; 4096]);
    let mut there = vec![0; 4096];
    pair.served.disk.read(8192, &mut there);
    assert!(there == data);
    let done = pair.run(io(Op::Flush, 0, 0, None));
    assert_eq!(done.result, Ok(()));
    pair.assert_idle();
    pair.close();
}
