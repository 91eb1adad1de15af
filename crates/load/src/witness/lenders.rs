//! Sources of a rate that a volume does not sustain.

use os::Device;
use stats::verdict::Lender;
use volume::{FileGround, Ground};

use super::Witness;
use super::aside::any_is_remote;
use super::seen::Seen;

/// Longest burst that arrays and hypervisors are known to lend, in seconds: SolidFire stores
/// credits for 60 s, volumes of DigitalOcean burst for 60 s.
const ARRAYS_S: f64 = 60.0;
/// Burst of a cloud's volume: a gp2 volume of EBS begins with 5.4 million I/Os for 3000 IOPS;
/// instances of EC2 that burst and disks of Azure have 30 minutes.
const CLOUDS_S: f64 = 1800.0;
/// Makers of machines, by their firmware, in whose clouds disks have such credits.
const CLOUDS: [&str; 2] = ["Amazon EC2", "Microsoft Corporation"];
/// Models of disks that are volumes of such a cloud, also on machines without a hypervisor.
const CLOUD_DISK: &str = "Amazon Elastic Block Store";
/// Models of disks that a hypervisor hands through as they are.
const OWN_DISK: &str = "Amazon EC2 NVMe Instance Storage";

/// The machine that disks are on.
struct Machine {
    is_guest: bool,
    maker: Option<String>,
}

impl Witness {
    /// The source for each volume.
    pub(super) fn lenders(&self) -> Vec<Lender> {
        let machine = Machine { is_guest: os::cpu::is_guest(), maker: os::cpu::maker() };
        self.volumes.iter().map(|seen| seen.lender(&machine)).collect()
    }
}

impl Seen {
    fn lender(&self, machine: &Machine) -> Lender {
        let named = |what: &str| format!("{}: {what}", self.name);
        if self.in_target_memory() {
            return Lender::Nothing(named("memory of the target"));
        }
        if any_is_remote(&*self.volume) {
            return Lender::Credits(named("a remote volume"), ARRAYS_S);
        }
        let emulated = self.volume.emulates().is_some();
        match &self.ground {
            _ if emulated => Lender::Disk(named("an emulated drive")),
            Ground::Nothing => Lender::Nothing(named("stores nothing")),
            Ground::Memory => Lender::Nothing(named("memory of this process")),
            Ground::File(_) if self.is_in_memory() => {
                Lender::Nothing(named("in memory, without a disk"))
            }
            Ground::File(file) => of_file(&self.name, file, machine),
            _ => Lender::Credits(named("its storage is not known"), ARRAYS_S),
        }
    }
}

fn of_file(name: &str, file: &FileGround, machine: &Machine) -> Lender {
    let devices = &file.stack.devices;
    let lent = devices.iter().filter_map(|device| of_device(device, machine));
    let longest = lent.reduce(|a, b| if b.1 > a.1 { b } else { a });
    match longest {
        Some((what, lasts_s)) => Lender::Credits(format!("{name}: {what}"), lasts_s),
        None if devices.is_empty() || file.stack.hidden().is_some() => {
            Lender::Credits(format!("{name}: its storage is not known"), ARRAYS_S)
        }
        None => Lender::Disk(format!("{name}: a disk of this host")),
    }
}

/// Finds the provider of a disk, and how long its credits last, if it may have any.
fn of_device(device: &Device, machine: &Machine) -> Option<(&'static str, f64)> {
    let model = device.product().unwrap_or_default();
    match () {
        () if device.has_thread() => None,
        () if device.is_served() => Some(("a disk that another host or program serves", ARRAYS_S)),
        // A mapper or an array has the credits of its members.
        () if device.is_made() => None,
        () => of_disk(&model, device.is_virtual(), machine),
    }
}

fn of_disk(model: &str, is_virtual: bool, machine: &Machine) -> Option<(&'static str, f64)> {
    let in_cloud = machine.maker.as_deref().is_some_and(|maker| CLOUDS.contains(&maker));
    match () {
        () if model.contains(CLOUD_DISK) => Some(("a volume of a cloud", CLOUDS_S)),
        () if model.contains(OWN_DISK) => None,
        () if !machine.is_guest && !is_virtual => None,
        () if in_cloud => Some(("a disk of a cloud", CLOUDS_S)),
        () => Some(("a disk of a hypervisor", ARRAYS_S)),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn credits_are_those_of_hypervisors_and_clouds() {
        let lasts = |model, is_virtual, is_guest, maker: Option<&str>| {
            let machine = Machine { is_guest, maker: maker.map(str::to_owned) };
            of_disk(model, is_virtual, &machine).map(|(_, lasts_s)| lasts_s)
        };
        let samsung = "SAMSUNG MZQL23T8HCLS-00A07";
        assert_eq!(lasts(samsung, false, false, Some("Dell Inc.")), None);
        assert_eq!(lasts(samsung, false, true, None), Some(60.0), "handed through, or not");
        assert_eq!(lasts("", true, true, Some("QEMU")), Some(60.0));
        assert_eq!(lasts("", true, false, None), Some(60.0), "the CPU tells nothing");
        let amazon = Some("Amazon EC2");
        assert_eq!(lasts(CLOUD_DISK, false, false, amazon), Some(1800.0), "on bare metal");
        assert_eq!(lasts(OWN_DISK, false, true, amazon), None);
        let azure = Some("Microsoft Corporation");
        assert_eq!(lasts("Msft Virtual Disk", false, true, azure), Some(1800.0));
        assert_eq!(lasts(samsung, false, false, azure), None, "a host of that maker");
    }
}
