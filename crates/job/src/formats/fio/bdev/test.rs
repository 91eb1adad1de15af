use super::*;
use crate::formats::fio::test::name;
use crate::formats::fio::{Options, read};
use crate::formats::reading::Reading;
use crate::formats::surroundings::Surroundings;

fn bdevs(config: &str) -> Result<Bdevs, String> {
    Bdevs::parse(&format!(
        "{{\"subsystems\": [{{\"subsystem\": \"accel\", \"config\": null}}, \
         {{\"subsystem\": \"bdev\", \"config\": [{config}]}}]}}"
    ))
}

fn call(method: &str, params: &str) -> String {
    format!("{{\"method\": \"{method}\", \"params\": {{{params}}}}}")
}

fn one(method: &str, params: &str, device: &str) -> Result<Storage, String> {
    bdevs(&call(method, params)).unwrap().storage(device)
}

const TCP: &str = "\"name\": \"Nvme0\", \"trtype\": \"tcp\", \"adrfam\": \"ipv4\", \
    \"traddr\": \"192.0.2.1\", \"trsvcid\": \"4420\", \"subnqn\": \"nqn.2026-11.x:d\"";

#[test]
fn each_kind_of_device_is_a_volume() {
    let params = format!("{TCP}, \"hostnqn\": \"nqn.2026-11.x:me\", \"ddgst\": true");
    let remote = Remote {
        host: "192.0.2.1".to_owned(),
        port: 4420,
        target: "nqn.2026-11.x:d".to_owned(),
        unit: 12,
        data_digest: true,
        initiator: Some("nqn.2026-11.x:me".to_owned()),
        ..Remote::default()
    };
    let method = "bdev_nvme_attach_controller";
    assert_eq!(one(method, &params, "Nvme0n12"), Ok(Storage::Remote(remote)));
    let url = "\"name\": \"I\", \"url\": \"iscsi://h/iqn.2026-11.x%3Ad/3\", \
               \"initiator_iqn\": \"iqn.2026-11.x:me\"";
    let uri = "iscsi://h/iqn.2026-11.x:d/3?initiator=iqn.2026-11.x:me".to_owned();
    assert_eq!(one("bdev_iscsi_create", url, "I"), Ok(Storage::Uri(uri)));
    let blocks = "\"name\": \"M\", \"num_blocks\": 16, \"block_size\": 4096, \"uuid\": \"x\"";
    let (size_bytes, block_bytes) = (65_536, 4096);
    let memory = Storage::Memory { size_bytes, block_bytes, name: "M".to_owned() };
    assert_eq!(one("bdev_malloc_create", blocks, "M"), Ok(memory));
    let nothing = Storage::Nothing { size_bytes, block_bytes };
    assert_eq!(one("bdev_null_create", blocks, "M"), Ok(nothing));
    for method in ["bdev_aio_create", "bdev_uring_create"] {
        let file = "\"name\": \"A\", \"filename\": \"/dev/sdb\", \"block_size\": 512";
        let Ok(Storage::File { path, block_bytes, direct, .. }) = one(method, file, "A") else {
            panic!("{method}");
        };
        assert_eq!((path.as_str(), block_bytes, direct), ("/dev/sdb", Some(512), true));
    }
}

fn malloc(name: &str) -> String {
    let params = format!("\"name\": \"{name}\", \"num_blocks\": 2048, \"block_size\": 512");
    call("bdev_malloc_create", &params)
}

fn raid(name: &str, level: &str, more: &str, parts: &str) -> String {
    let params =
        format!("\"name\": \"{name}\", \"raid_level\": {level}{more}, \"base_bdevs\": [{parts}]");
    call("bdev_raid_create", &params)
}

#[test]
fn raids_are_stripes_and_mirrors_of_what_they_name() {
    let config = [
        malloc("A"),
        malloc("B"),
        malloc("C"),
        malloc("D"),
        raid("L", "\"raid1\"", "", "\"A\", \"B\""),
        raid("R", "\"1\"", "", "\"C\", \"D\""),
        raid("S", "0", ", \"strip_size_kb\": 64", "\"L\", \"R\""),
        malloc("E"),
    ];
    let bdevs = bdevs(&config.join(",")).unwrap();
    let memory = |name: &str| bdevs.storage(name).unwrap();
    let legs = |a, b| Storage::Mirror { legs: vec![memory(a), memory(b)] };
    let parts = vec![legs("A", "B"), legs("C", "D")];
    assert_eq!(bdevs.storage("S"), Ok(Storage::Stripe { chunk_bytes: 65_536, parts }));
    assert_eq!(bdevs.leaves().unwrap(), ["S", "E"]);
}

#[test]
fn what_is_not_built_is_refused_by_its_name() {
    let pcie = "\"name\": \"N\", \"trtype\": \"PCIe\", \"traddr\": \"0000:04:00.0\"";
    for (config, device, part) in [
        (call("bdev_nvme_attach_controller", pcie), "Nn1", "/dev/nvme0n1"),
        (call("bdev_nvme_attach_controller", TCP), "Nvme0", "such as Nvme0n1"),
        (call("bdev_nvme_attach_controller", TCP), "Nvme0n0", "the configuration has Nvme0n1"),
        (
            call("bdev_nvme_attach_controller", &format!("{TCP}, \"psk\": \"k\"")),
            "Nvme0n1",
            "psk is not supported",
        ),
        (
            [TCP, TCP].map(|tcp| call("bdev_nvme_attach_controller", tcp)).join(","),
            "Nvme0n1",
            "multipath",
        ),
        (call("bdev_delay_create", "\"name\": \"D\""), "D", "bdev_delay_create is not supported"),
        (
            [malloc("M"), call("bdev_set_qos_limit", "\"name\": \"M\"")].join(","),
            "M",
            "bdev_set_qos_limit",
        ),
        (call("bdev_lvol_create", "\"lvol_name\": \"l\""), "l", "bdev_lvol_create"),
        (raid("R", "\"raid5f\"", "", "\"a\""), "R", "raid_level=5f"),
        (raid("R", "\"raid1\"", ", \"superblock\": true", "\"a\""), "R", "superblock"),
        (raid("R", "\"raid1\"", "", "\"R\""), "R", "nested more than"),
        (raid("R", "\"raid1\"", "", "\"gone\""), "R", "no block device gone"),
        (String::new(), "Malloc0", "has none"),
    ] {
        let why = bdevs(&config).unwrap().storage(device).unwrap_err();
        assert!(why.contains(part), "{config}: {why}");
    }
    assert!(bdevs(&call("bdev_nvme_attach_controller", TCP)).unwrap().leaves().is_err());
    let typo = bdevs(&call("bdev_malloc_create", "\"name\": \"M\"")).unwrap_err();
    assert!(typo.contains("bdev_malloc_create") && typo.contains("num_blocks"), "{typo}");
}

#[test]
fn comments_are_read_over_as_spdk_does() {
    let text = "{ // iscsi://not\n \"subsystems\": [ /* \"a\n b\" */ {\"subsystem\": \"bdev\", \
                \"config\": [{\"method\": \"bdev_aio_create\", \"params\": \
                {\"name\": \"a//b\\\"/*\", \"filename\": \"/x\"}}]}] }";
    assert!(Bdevs::parse(text).unwrap().storage("a//b\"/*").is_ok());
    assert!(Bdevs::parse("{\n/*\n*/ x").unwrap_err().contains("line 3"));
    for cut in ["\"", "/*", "//", "/", "{\"subsystems\": \"\\"] {
        assert!(Bdevs::parse(cut).is_err(), "{cut}");
    }
}

fn of(jobs: &str, config: &str, volumes: &[String]) -> Reading {
    let around = Surroundings {
        read: Box::new(|path| match path.to_str() {
            Some("c.json") => Ok(config.to_owned()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }),
        ..Surroundings::none()
    };
    let (volume, capacity) = (&name, &|_: &str| Some(1 << 20));
    let options = Options {
        volumes,
        volume,
        capacity,
        is_far: &|_| false,
        node: &|_| None,
        polls: &|_| true,
        is_fio: false,
        seconds: None,
    };
    let text = format!("[a]\nioengine=spdk_bdev\nthread=1\n{jobs}\n");
    read("x.fio", &text, &around, &options).unwrap()
}

#[test]
fn a_job_names_devices_of_its_configuration() {
    let config = format!(
        "{{\"subsystems\": [{{\"subsystem\": \"bdev\", \"config\": [{}, {}]}}]}}",
        malloc("M0"),
        malloc("M1")
    );
    let volumes = |jobs: &str, given: &[String]| {
        let reading = of(jobs, &config, given);
        let job = reading.job.unwrap_or_else(|| panic!("{:?}", reading.notes));
        job.steps[0].groups[0].volumes.clone()
    };
    let conf = "spdk_json_conf=c.json";
    assert_eq!(volumes(&format!("{conf}\nfilename=M1"), &[]), ["memory:1048576 M1"]);
    let both = ["memory:1048576 M0", "memory:1048576 M1"];
    assert_eq!(volumes(&format!("{conf}\nfilename=*\niodepth=2"), &[]), both);
    assert_eq!(volumes(&format!("{conf}\nfilename=M0:M1\niodepth=2"), &[]), both);
    // A volume given in its place needs no configuration.
    let given = ["null:1g".to_owned()];
    assert_eq!(volumes("filename=M1\nspdk_json_conf=gone\nsize=1m", &given), given);
    for (jobs, part) in [
        ("filename=M1", "spdk_json_conf=FILE"),
        ("spdk_json_conf=gone\nfilename=M1", "cannot read gone"),
        ("spdk_json_conf=c.json\nfilename=M2", "no block device M2"),
        ("spdk_json_conf=c.json", "needs a volume"),
        ("spdk_conf=c.conf\nfilename=M1", "spdk_json_conf"),
    ] {
        let reading = of(jobs, &config, &[]);
        let said = format!("{:?}", reading.notes);
        assert!(reading.job.is_none() && said.contains(part), "{jobs}: {said}");
    }
}
