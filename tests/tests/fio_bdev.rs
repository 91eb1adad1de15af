//! Job files for SPDK's plugin `spdk_bdev`: the block devices of its configuration are our volumes,
//! over NVMe/TCP and iSCSI, in memory, in files, and combined.

use std::time::Duration;

use drumfire_tests::fio::with;
use drumfire_tests::{Drumfire, Folder, IQN, NQN};

const LIMIT: Duration = Duration::from_secs(300);
const ENGINE: &str = "[global]\nioengine=spdk_bdev\nspdk_json_conf=bdev.json\nthread=1\ndirect=1\n";

/// A configuration in the format of SPDK's `save_config`.
fn configuration(calls: &[(&str, String)]) -> String {
    let call = |(method, params): &(&str, String)| {
        format!("{{\"method\": \"{method}\", \"params\": {{{params}}}}}")
    };
    let calls: Vec<String> = calls.iter().map(call).collect();
    format!(
        "{{\"subsystems\": [{{\"subsystem\": \"scheduler\", \"config\": []}}, \
         {{\"subsystem\": \"bdev\", \"config\": [{}]}}]}}",
        calls.join(", ")
    )
}

fn blocks(name: &str, mib: u64) -> String {
    let count = (mib << 20) / 512;
    format!("\"name\": \"{name}\", \"num_blocks\": {count}, \"block_size\": 512")
}

#[test]
fn devices_of_a_configuration_are_driven_by_their_names() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["one=ram:1m", "two=ram:1m"]);
    let controller = format!(
        "\"name\": \"Nvme0\", \"trtype\": \"TCP\", \"adrfam\": \"IPv4\", \
         \"traddr\": \"127.0.0.1\", \"trsvcid\": \"{}\", \"subnqn\": \"{NQN}:one\", \
         \"hdgst\": true, \"num_io_queues\": 4",
        served.nvme_port
    );
    let iscsi = format!(
        "\"name\": \"Iscsi0\", \"url\": \"iscsi://127.0.0.1:{}/{IQN}:two/1\", \
         \"initiator_iqn\": \"iqn.2026-11.org.example:me\"",
        served.port
    );
    let raid = |name: &str, level: &str, parts: &str| {
        let words = format!("\"name\": \"{name}\", \"raid_level\": \"{level}\", ");
        format!("{words}\"strip_size_kb\": 64, \"base_bdevs\": [{parts}]")
    };
    let calls = [
        ("bdev_set_options", "\"bdev_io_pool_size\": 65535".to_owned()),
        ("bdev_nvme_attach_controller", controller),
        ("bdev_iscsi_create", iscsi),
        ("bdev_malloc_create", blocks("Malloc0", 1)),
        ("bdev_malloc_create", blocks("Malloc1", 1)),
        ("bdev_malloc_create", blocks("Malloc2", 2)),
        ("bdev_null_create", blocks("Null0", 4)),
        ("bdev_aio_create", "\"name\": \"Aio0\", \"filename\": \"disk\"".to_owned()),
        ("bdev_raid_create", raid("Raid0", "raid0", "\"Malloc0\", \"Malloc1\"")),
        ("bdev_raid_create", raid("Raid1", "raid1", "\"Nvme0n1\", \"Iscsi0\"")),
    ];
    let mut job = format!("{ENGINE}bs=64k\niodepth=4\n");
    for name in ["Nvme0n1", "Iscsi0", "Malloc2", "Null0", "Aio0", "Raid0", "Raid1"] {
        job += &format!("[{name}]\nstonewall\nfilename={name}\nrw=write\n");
    }
    // Data written to a mirror can be read from both of its legs.
    job += "[back]\nstonewall\nfilename=Nvme0n1\nrw=read\n";
    let folder = with(&job);
    folder.file("bdev.json", configuration(&calls).as_bytes());
    folder.file("disk", &vec![0; 3 << 20]);
    let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    for part in [
        &format!("{}?header-digest=1", served.nvme_uri("one")),
        "ram:2m?name=Malloc2",
        "stripe:64k(ram:1m?name=Malloc0,ram:1m?name=Malloc1)",
        "num_io_queues of Nvme0",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    drumfire.run(folder.path(), "run job.fio --destroy --out out", LIMIT).ok();
    let result = drumfire.run(folder.path(), "report out --as fio", LIMIT).ok().json();
    let bytes = |job: usize, way: &str| result["jobs"][job][way]["io_bytes"].as_u64().unwrap();
    let written: Vec<u64> = (0..7).map(|job| bytes(job, "write") >> 20).collect();
    assert_eq!(written, [1, 1, 2, 4, 3, 2, 1], "without a size all of each device is meant");
    assert_eq!(bytes(7, "read"), 1 << 20);
    assert!((0..8).all(|job| result["jobs"][job]["error"] == 0));
}

#[test]
fn fios_command_line_takes_the_engine_and_compares_data() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let calls = [
        ("bdev_malloc_create", blocks("Malloc0", 1)),
        ("bdev_malloc_create", blocks("Malloc1", 1)),
    ];
    folder.file("bdev.json", configuration(&calls).as_bytes());
    let flags = "fio --name=a --ioengine=spdk_bdev --spdk_json_conf=bdev.json --thread=1 \
                 --filename=* --iodepth=4 --rw=randwrite --bs=4k --verify=crc32c \
                 --output-format=json";
    let json = drumfire.run(folder.path(), flags, LIMIT).ok().json();
    // Two devices of equal size are distinct.
    assert_eq!(json["jobs"][0]["write"]["io_bytes"], 2 << 20);
    assert_eq!(json["jobs"][0]["read"]["io_bytes"], 2 << 20);
}

#[test]
fn what_is_not_built_is_refused_by_its_name_and_line() {
    let Some(drumfire) = Drumfire::find() else { return };
    let pcie = "\"name\": \"Nvme0\", \"trtype\": \"PCIe\", \"traddr\": \"0000:04:00.0\"";
    let calls = [
        ("bdev_nvme_attach_controller", pcie.to_owned()),
        ("bdev_lvol_create", "\"lvol_name\": \"lvol0\", \"lvs_name\": \"lvs\"".to_owned()),
        ("bdev_delay_create", "\"name\": \"Delay0\", \"base_bdev_name\": \"Nvme0n1\"".to_owned()),
    ];
    for (config, name, parts) in [
        (configuration(&calls), "Nvme0n1", ["trtype=PCIe", "/dev/nvme0n1"]),
        (configuration(&calls), "Delay0", ["bdev_delay_create", "not supported"]),
        (configuration(&calls), "lvs/lvol0", ["no block device", "bdev_lvol_create"]),
        ("{\"subsystems\": [\n{]".to_owned(), "Malloc0", ["bdev.json:", "line 2"]),
    ] {
        let folder = with(&format!("{ENGINE}[a]\nfilename={name}\nsize=1m\nrw=read\n"));
        folder.file("bdev.json", config.as_bytes());
        let said = drumfire.run(folder.path(), "run job.fio", LIMIT);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("job.fio:7") && said.stdout.is_empty(), "{said:?}");
        for part in parts {
            assert!(said.stderr.contains(part), "{part}: {said:?}");
        }
    }
}
