//! Bills as engineers write them, compared with known facts about such systems.

use catalogue::Catalogue;
use plan::bill::Bill;
use plan::predict::{Prediction, predict};
use plan::system::{Level, Tweak};

fn bill(text: &str) -> Bill {
    let read = Bill::read("stranger.toml", text, &Catalogue::shipped());
    read.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn answer(text: &str) -> Prediction {
    predict(&bill(text), &Tweak::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn mb_s(text: &str) -> f64 {
    answer(text).bytes_per_s / 1e6
}

fn within(found: f64, range: std::ops::RangeInclusive<f64>) {
    assert!(range.contains(&found), "{found} is not in {range:?}");
}

#[test]
fn a_home_nas_is_as_fast_as_its_wire_and_then_as_its_disks() {
    let nas = |network: &str, read: u32| {
        format!(
            "name = 'nas'\nsize = '1m'\nread = {read}\noutstanding = 8\nsequential = true\n\
             network = '{network}'\n[[group]]\ndrive = 'hdd'\ncount = 4\nraid = 'raidz1'\n"
        )
    };
    // 1 GbE carries 118 MB/s, whatever the target.
    within(mb_s(&nas("1GbE", 100)), 112.0..=119.0);
    within(mb_s(&nas("2.5GbE", 100)), 280.0..=297.0);
    within(mb_s(&nas("2x1GbE", 100)), 224.0..=238.0);
    // Three of four HDDs have data, at 150 MB/s each; none is read before a stripe is written.
    let (read, write) = (mb_s(&nas("100GbE", 100)), mb_s(&nas("100GbE", 0)));
    within(read, 430.0..=455.0);
    within(write, 430.0..=455.0);
    // Each small random write reads and writes data and parity.
    let random = "name = 'nas'\nsize = '4k'\nread = 0\noutstanding = 1\n[[group]]\n\
        drive = 'hdd'\ncount = 4\nraid = 'raidz1'\n";
    within(answer(random).iops, 90.0..=125.0);
}

#[test]
fn a_set_of_five_is_a_set_of_five_among_twenty_disks() {
    let pool = |width: u32| {
        mb_s(&format!(
            "name = 'pool'\nsize = '128k'\nread = 0\noutstanding = 4\nsequential = true\n\
             width = {width}\n[[group]]\ndrive = 'hdd'\ncount = 20\nraid = 'raidz2'\n"
        ))
    };
    assert!((pool(10) / pool(5) / (8.0 / 6.0) - 1.0).abs() < 1e-3);
}

#[test]
fn ceph_on_three_hosts_is_as_fast_as_what_joins_them() {
    let ceph = |network: &str, size: &str, read: u32, more: &str| {
        answer(&format!(
            "name = 'proxmox'\nsize = '{size}'\nread = {read}\noutstanding = 16\nhosts = 3\n\
             replicas = 3\nsoftware = 'ceph'\n{network}{more}[[group]]\n\
             drive = 'micron-9550-max-6400'\ncount = 2\n"
        ))
    };
    let long = |network: &str, read| ceph(network, "4m", read, "").bytes_per_s / 1e6;
    // Each write arrives three times: 1,250 MB/s of three hosts, a third of it.
    within(long("network = '10GbE'\n", 100), 3300.0..=3600.0);
    within(long("network = '10GbE'\n", 0), 1100.0..=1200.0);
    assert!(long("network = '2x25GbE'\n", 0) > 1.5 * long("network = '10GbE'\n", 0));
    // An unnamed network is a guess, which is reported, never infinitely fast.
    let unnamed = ceph("", "4m", 0, "");
    assert_eq!(unnamed.kind, catalogue::Kind::Guess);
    assert!(unnamed.remarks.iter().any(|r| r.contains("10 GbE")), "{:?}", unnamed.remarks);
    within(unnamed.bytes_per_s / 1e6, 1100.0..=1200.0);
    // The daemons share the cores of their host.
    let few = ceph("network = '25GbE'\n", "4k", 0, "cores = 2\n");
    assert_eq!(few.bottleneck().unwrap().level, Level::Processor);
    within(few.iops, 1500.0..=3600.0);
    assert!(ceph("network = '25GbE'\n", "4k", 0, "").iops > few.iops);
}

#[test]
fn hosts_side_by_side_need_no_network() {
    let text = "name = 'x'\nsize = '4k'\noutstanding = 32\nhosts = 80\n[[group]]\n\
        drive = 'pm9a3-1920'\ncount = 4\n";
    let found = answer(text);
    assert!(found.uses.iter().all(|used| used.level != Level::Port), "{:?}", found.uses);
}

#[test]
fn an_array_behind_fibre_channel_is_as_fast_as_its_ports() {
    let array = |size: &str, ports: u32| {
        answer(&format!(
            "name = 'array'\nsize = '{size}'\noutstanding = 64\nnetwork = '{ports}xfc-32'\n\
             [[group]]\ndrive = 'pm1743'\ncount = 24\nraid = '6'\n"
        ))
    };
    within(array("256k", 4).bytes_per_s / 1e6, 12_800.0..=13_300.0);
    within(array("256k", 8).bytes_per_s / array("256k", 4).bytes_per_s, 1.95..=2.01);
    // An 8 Gb/s adapter of its time did 200,000 I/Os, however small they were.
    let short = "name = 'x'\nsize = '512'\noutstanding = 64\n[[group]]\nports = 1\n\
        link = 'fc-8'\n";
    within(answer(short).iops, 195_000.0..=201_000.0);
}

#[test]
fn a_shelf_over_nvme_is_as_fast_as_its_wires() {
    let text = "name = 'jbof'\nsize = '4k'\noutstanding = 128\n[[group]]\ndrive = 'micron-7450'\n\
        drives = 12\nlink = '100GbE'\nports = 2\nprotocol = 'nvme-tcp'\n\
        [[group]]\ndrive = 'micron-7450'\ndrives = 12\nlink = '100GbE'\nports = 2\n\
        protocol = 'nvme-tcp'\n";
    // Two ports of 12.5 GB/s for each half, 96 % of which is payload.
    within(answer(text).iops, 1.08e7..=1.18e7);
}

#[test]
fn volumes_of_clouds_do_what_is_provisioned() {
    for (volume, iops, mb) in [
        ("gp3", 3_000.0, 131.0),
        ("gp3-max", 16_000.0, 1_049.0),
        ("io2", 256_000.0, 4_194.0),
        ("azure-p30", 5_000.0, 200.0),
        ("azure-p80", 20_000.0, 900.0),
        ("premium-ssd-v2", 80_000.0, 1_200.0),
        ("pd-ssd", 30_720.0, 515.0),
        ("pd-balanced", 6_144.0, 301.0),
    ] {
        let at = |size: &str, read: u32, depth: u32| {
            answer(&format!(
                "name = 'vm'\nsize = '{size}'\nread = {read}\noutstanding = {depth}\n[[group]]\n\
                 drive = '{volume}'\n"
            ))
        };
        for read in [100, 70, 0] {
            within(at("4k", read, 1024).iops / iops, 0.97..=1.01);
            within(at("1m", read, 64).bytes_per_s / 1e6 / mb, 0.97..=1.01);
        }
        // At queue depth 1 the latency is that of the path to the volume.
        assert!(at("4k", 100, 1).latency_s >= 250e-6, "{volume}");
    }
}

#[test]
fn what_a_network_is_called_is_read_or_refused_with_a_reason() {
    let read = |network: &str| {
        let text = format!(
            "name = 'x'\nsize = '4k'\noutstanding = 4\nnetwork = '{network}'\n[[group]]\n\
             drive = 'pm1743'\n"
        );
        Bill::read("b.toml", &text, &Catalogue::shipped())
            .map(|bill| bill.setup.network.map(|n| (n.link, n.ports)))
            .map_err(|error| error.to_string())
    };
    for (name, link, ports) in [
        ("2.5GbE", "ethernet-2.5", 1),
        ("2 x 25gbe", "ethernet-25", 2),
        ("4xfc-16", "fc-16", 4),
        ("ethernet-100", "ethernet-100", 1),
    ] {
        assert_eq!(read(name), Ok(Some((link.to_owned(), ports))), "{name}");
    }
    assert!(read("pcie-4").unwrap_err().contains("is no network"));
    assert!(read("0x10GbE").unwrap_err().contains("1 to 64"));
    assert!(read("fast").unwrap_err().contains("network:"));
}

#[test]
fn a_short_run_and_a_worn_drive_go_by_the_words_of_the_field() {
    let iops = |state: &str| {
        let text = format!(
            "name = 'x'\nsize = '4k'\nread = 0\noutstanding = 256\nstate = '{state}'\n[[group]]\n\
             drive = 'micron-9550-max-6400'\n"
        );
        answer(&text).iops
    };
    assert_eq!(iops("burst"), iops("fresh"));
    assert_eq!(iops("sustained"), iops("worn"));
    assert_eq!(iops("steady"), iops("worn"));
    assert!(iops("burst") > 1.3 * iops("sustained"));
}

#[test]
fn a_lone_read_over_a_network_takes_longer_than_at_home() {
    let at = |network: &str, depth: u32| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\noutstanding = {depth}\n{network}[[group]]\n\
             drive = 'micron-7450'\n"
        ))
    };
    let home = at("", 1).latency_s;
    within((at("network = '1GbE'\n", 1).latency_s - home) * 1e6, 100.0..=250.0);
    within((at("network = '25GbE'\n", 1).latency_s - home) * 1e6, 20.0..=60.0);
    // If I/Os wait for the wire, the latency of a lone one has no effect.
    within(at("network = '1GbE'\n", 64).bytes_per_s / 1e6, 108.0..=119.0);
}

#[test]
fn rdma_adds_less_to_a_lone_read_than_tcp() {
    let at = |link: &str, protocol: &str, depth: u32| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\noutstanding = {depth}\n[[group]]\ndrive = 'micron-7450'\n\
             link = '{link}'\nports = 1\nprotocol = '{protocol}'\n"
        ))
    };
    let home =
        answer("name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'micron-7450'\n");
    let more =
        |link: &str, protocol: &str| (at(link, protocol, 1).latency_s - home.latency_s) * 1e6;
    within(more("100GbE", "nvme-rdma"), 8.0..=15.0);
    within(more("ib-edr", "nvme-rdma"), 8.0..=15.0);
    within(more("100GbE", "nvme-tcp"), 35.0..=50.0);
    // A saturated wire carries fewer small I/Os by RDMA in standard frames, more on InfiniBand.
    let full = |link: &str, protocol: &str| at(link, protocol, 256).iops;
    assert!(full("10GbE", "nvme-rdma") < full("10GbE", "nvme-tcp"));
    within(full("10GbE", "nbd") / full("10GbE", "nvme-tcp"), 1.0..=1.005);
    // InfiniBand is named after its symbol rate, of which the line code uses a fifth.
    let shelf = |link: &str| {
        mb_s(&format!(
            "name = 'x'\nsize = '128k'\noutstanding = 32\n[[group]]\ndrive = 'micron-7450'\n\
             drives = 4\nlink = '{link}'\nports = 1\nprotocol = 'iser'\n"
        ))
    };
    within(shelf("ib-qdr") / shelf("40GbE"), 0.84..=0.90);
}

/// Returns three hosts with copies of everything.
fn cluster(software: &str, drive: &str, rest: &str) -> Prediction {
    answer(&format!(
        "name = 'x'\nsize = '4k'\nhosts = 3\nreplicas = 3\nnetwork = '25GbE'\n\
         software = '{software}'\n{rest}[[group]]\ndrive = '{drive}'\ncount = 6\n"
    ))
}

#[test]
fn clusters_by_name_differ_as_published() {
    let reads = |software| cluster(software, "micron-7450", "in_flight = 128\nclients = 1\n").iops;
    // One volume: 22,180 to 29,420 reads of Longhorn, 117,769 of Vitastor.
    within(reads("longhorn"), 18_000.0..=30_000.0);
    within(reads("vitastor"), 90_000.0..=125_000.0);
    let alone = |software, read| {
        let rest = format!("in_flight = 1\nread = {read}\n");
        cluster(software, "micron-7450", &rest).latency_s * 1e6
    };
    // A lone I/O takes the drive's time and the latency of the software, once.
    within(alone("vitastor", 0), 100.0..=150.0);
    within(alone("vitastor", 100), 100.0..=160.0);
    assert!(alone("longhorn", 100) > 4.0 * alone("vitastor", 100));
}

#[test]
fn a_cluster_of_which_only_the_name_is_known_does_what_others_do() {
    let part = "[source.me]\ntitle = 'me'\n[[part]]\nid = 'newfs'\nname = 'NewFS'\n\
        class = 'software'\nfigures = [\n\
        { is = 'cluster', value = 1, kind = 'spec', source = 'me' }]\n";
    let text = |software: &str, part: &str| {
        format!(
            "name = 'x'\nsize = '4k'\nhosts = 3\nreplicas = 3\nnetwork = '25GbE'\nin_flight = 128\n\
             clients = 1\nsoftware = '{software}'\n[[group]]\ndrive = 'micron-7450'\ncount = 6\n\
             {part}"
        )
    };
    let unknown = answer(&text("newfs", part));
    let any = answer(&text("any-cluster", ""));
    assert!((unknown.iops / any.iops - 1.0).abs() < 1e-6, "{} {}", unknown.iops, any.iops);
}

#[test]
fn short_writes_to_disks_of_a_cluster_go_through_a_log() {
    let disks = |size: &str, read: u32, flight: u32| {
        answer(&format!(
            "name = 'x'\nsize = '{size}'\nread = {read}\nhosts = 3\nreplicas = 3\n\
             network = '10GbE'\nsoftware = 'ceph'\nin_flight = {flight}\n[[group]]\n\
             drive = 'hdd-7k2'\ncount = 6\n"
        ))
    };
    // Sorted, an HDD does 3.6 times as many writes as one by one; each goes to three.
    let (reads, writes) = (disks("4k", 100, 4096).iops, disks("4k", 0, 4096).iops);
    assert!(writes > 0.3 * reads, "{writes} writes beside {reads} reads");
    // Copies are written at the same time, not one after the other: 1.5 ms are Ceph's.
    within(disks("4k", 0, 3).latency_s * 1e3, 3.0..=14.0);
}

#[test]
fn a_journal_on_the_same_disk_halves_what_a_cluster_writes() {
    let disks = |software: &str, read: u32| {
        let rest = format!("in_flight = 64\nsequential = true\nread = {read}\n");
        let text = format!(
            "name = 'x'\nsize = '4m'\nhosts = 3\nreplicas = 2\nnetwork = '10GbE'\n\
             software = '{software}'\n{rest}[[group]]\ndrive = 'hdd-7k2'\ncount = 3\n"
        );
        mb_s(&text)
    };
    within(disks("ceph-filestore", 0) / disks("ceph", 0), 0.45..=0.65);
    within(disks("ceph-filestore", 100) / disks("ceph", 100), 0.8..=1.05);
}

#[test]
fn two_daemons_on_a_drive_do_more_than_one() {
    let with = |daemons: &str| {
        let rest = format!("{daemons}\nin_flight = 8192\n");
        cluster("ceph-rbd", "pm9a3-3840", &rest).iops
    };
    let (one, two) = (with(""), with("daemons = 2"));
    assert!((1.3..2.05).contains(&(two / one)), "{one} {two}");
    let lone = "name = 'x'\nsize = '4k'\noutstanding = 8\ndaemons = 2\n[[group]]\ndrive = 'pm1743'";
    let error = predict(&bill(lone), &Tweak::default()).unwrap_err().to_string();
    assert!(error.contains("ceph-rbd"), "{error}");
}

#[test]
fn a_guest_asks_through_its_disk_and_through_its_host() {
    let local = |guest: &str, jobs: u32| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\nserver = 'epyc-7003'\nsoftware = 'linux-libaio'\n\
             jobs = {jobs}\nin_flight = 64\n{guest}\n[[group]]\ndrive = 'pm9a3-3840'"
        ))
        .iops
    };
    let disk = "guest = 'qemu-virtio-scsi'";
    // One thread serves the disk, whatever the host could do.
    let (bare, one) = (local("", 8), local(disk, 8));
    let four = local(&format!("{disk}\nguest_threads = 4"), 8);
    assert!(bare > 3.0 * one && four > 1.8 * one, "{bare} {one} {four}");
    // With a cluster it is one guest, however many hosts serve it.
    let hosts = |hosts: u32| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\nhosts = {hosts}\nreplicas = 3\nnetwork = '100GbE'\n\
             clients = 1\nsoftware = 'vitastor-rdma'\nguest = 'qemu-virtio-scsi'\n\
             in_flight = 4096\n[[group]]\ndrive = 'pm9a3-3840'\ndrives = 8"
        ))
        .iops
    };
    within(hosts(3) / hosts(12), 0.95..=1.05);
    within(hosts(3), 50e3..=140e3);
    // A lone I/O has the latency of the guest's disk in addition to that of the host.
    let alone = |guest: &str| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\nsoftware = 'linux-libaio'\njobs = 1\nin_flight = 1\n{guest}\n\
             [[group]]\ndrive = 'pm9a3-3840'"
        ))
        .latency_s
    };
    within((alone(disk) - alone("")) * 1e6, 20.0..=70.0);
    let text = "name = 'x'\nsize = '4k'\noutstanding = 1\nguest_threads = 2\n\
                [[group]]\ndrive = 'pm9a3-3840'";
    let error = Bill::read("b", text, &Catalogue::shipped()).unwrap_err().to_string();
    assert!(error.contains("give guest"), "{error}");
}

#[test]
fn a_file_server_serves_what_its_volume_holds() {
    let server = |rest: &str| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\nsoftware = 'linux-nvme-tcp'\njobs = 16\nin_flight = 512\n\
             target_software = 'linux-nvmet-tcp'\ntarget_server = 'epyc-7002'\ntarget_cores = 16\n\
             {rest}\n[[group]]\ndrive = 'cd6'\ndrives = 4\nraid = 'raidz1'\nlink = '10GbE'\n\
             protocol = 'nvme-tcp'"
        ))
        .iops
    };
    let raw = server("");
    let (zvol, whole) =
        (server("target_volume = 'zfs'\nrecord = '16k'"), server("target_volume = 'zfs'"));
    assert!(zvol < raw && whole < 0.7 * zvol, "{raw} {zvol} {whole}");
    let text = "name = 'x'\nsize = '4k'\noutstanding = 1\ntarget_volume = 'zfs'\n\
                [[group]]\ndrive = 'cd6'";
    let error = Bill::read("b", text, &Catalogue::shipped()).unwrap_err().to_string();
    assert!(error.contains("target_software"), "{error}");
}

#[test]
fn a_journal_and_a_network_lengthen_a_flush() {
    let writes = |rest: &str, group: &str| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\nread = 0\njobs = 1\nin_flight = 1\nflush = 1\n\
             state = 'fresh'\n{rest}\n\
             [[group]]\ndrive = '970-evo-1000'\n{group}"
        ))
        .iops
    };
    let local = writes("software = 'linux-libaio-file'", "");
    let journal = writes("software = 'linux-libaio-file'\njournal = true", "");
    within(local / journal, 1.9..=2.05);
    // Two round trips for each write, not one.
    let far = "software = 'linux-nvme-tcp'\ntarget_software = 'linux-nvmet-tcp'\ntarget_cores = 8";
    let link = "link = '10GbE'\nprotocol = 'nvme-tcp'";
    let with = 1.0 / writes(far, link) - 1.0 / local;
    let lone = |rest: &str, group: &str| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\nread = 0\njobs = 1\nin_flight = 1\nstate = 'fresh'\n{rest}\n\
             [[group]]\ndrive = '970-evo-1000'\n{group}"
        ))
        .iops
    };
    let without = 1.0 / lone(far, link) - 1.0 / lone("software = 'linux-libaio-file'", "");
    within(with / without, 1.5..=2.1);
}

#[test]
fn md_writes_disks_with_parity_below_their_speed() {
    let writes = |software: &str| {
        mb_s(&format!(
            "name = 'x'\nsize = '1m'\nread = 0\nsequential = true\nsoftware = '{software}'\n\
             jobs = 1\nin_flight = 16\ncores = 8\n[[group]]\ndrive = 'hdd-7k2-large'\n\
             drives = 5\nraid = '5'"
        ))
    };
    within(writes("linux-md") / writes("linux-libaio"), 0.55..=0.70);
}

#[test]
fn a_guest_asks_a_target_in_memory_through_its_disk() {
    let with = |guest: &str| {
        answer(&format!(
            "name = 'x'\nsize = '4k'\noutstanding = 64\nsoftware = 'linux-nvme-tcp'\njobs = 8\n\
             {guest}\n[[group]]\nlink = '100GbE'\nports = 1\n\
             protocol = 'nvme-tcp'"
        ))
        .iops
    };
    let (bare, guest) = (with(""), with("guest = 'qemu-virtio-scsi'"));
    assert!(bare > 3.0 * guest, "{bare} {guest}");
    let text = "name = 'x'\nsize = '4k'\noutstanding = 1\njournal = true\n[[group]]\ndrive = 'cd6'";
    let error = Bill::read("b", text, &Catalogue::shipped()).unwrap_err().to_string();
    assert!(error.contains("give flush = 1"), "{error}");
}
