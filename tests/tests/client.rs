//! Whether a rate is that of the client's processors.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, check, skip};

const LIMIT: Duration = Duration::from_secs(120);

/// Memory is as fast as the CPUs that copy it; a drive is not.
/// H10 detects: memory on two busy CPUs far below the ceiling, half as fast on one CPU.
/// H10 accepts: an emulated drive that is as fast on one CPU.
#[test]
fn a_rate_of_the_clients_processors_is_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    if cores < 2 {
        return skip("a single processor cannot be halved");
    }
    let folder = Folder::new();
    let run = |volume: &str| {
        let args = format!(
            "run {volume} --size 64k --outstanding 4 --workers 2 --cores 0,1 --seconds 2 \
             --ramp 0.5 --ceiling --json"
        );
        drumfire.run(folder.path(), &args, LIMIT).json()
    };
    let memory = run("ram:64m");
    let (verdict, evidence) = check(&memory, "H10");
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("the client is part of the rate: with half"), "{evidence}");
    assert_eq!(memory["fewer_cores"]["cores"], 1);
    let drive = run("delay:x25-m(ram:64m)");
    let (verdict, evidence) = check(&drive, "H10");
    assert_eq!(verdict, "pass", "{evidence}");
}
