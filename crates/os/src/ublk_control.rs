//! `/dev/ublk-control`: creates and deletes block devices served by this process.
//!
//! Layouts are those of Linux's `include/uapi/linux/ublk_cmd.h`. [`UblkQueue`](crate::UblkQueue)
//! handles the requests.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

const CONTROL: &str = "/dev/ublk-control";

/// Commands as `ioctl` numbers of `'u'` and 32 bytes: `_IOR` and `_IOWR`. Linux 6.4.
const READS: u32 = 0x8020_7500;
const READS_AND_WRITES: u32 = 0xc020_7500;
const GET_QUEUE_AFFINITY: u32 = READS | 0x01;
const GET_DEV_INFO: u32 = READS | 0x02;
const ADD_DEV: u32 = READS_AND_WRITES | 0x04;
const DEL_DEV: u32 = READS_AND_WRITES | 0x05;
const START_DEV: u32 = READS_AND_WRITES | 0x06;
const STOP_DEV: u32 = READS_AND_WRITES | 0x07;
const SET_PARAMS: u32 = READS_AND_WRITES | 0x08;
/// Linux 6.9.
const DEL_DEV_ASYNC: u32 = READS | 0x14;

/// The command concerns no queue.
const NO_QUEUE: u16 = u16::MAX;
/// The kernel chooses the id.
const ANY_NUMBER: u32 = u32::MAX;

/// Length of `struct ublksrv_ctrl_dev_info`.
const INFO_BYTES: usize = 64;
/// `struct ublk_params` as far as discards.
const PARAMS_BYTES: usize = 60;
/// `UBLK_PARAM_TYPE_…`.
const BASIC: u32 = 1;
const DISCARD: u32 = 1 << 1;
/// `UBLK_ATTR_…`.
const READ_ONLY: u32 = 1;
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;

/// The kernel's unit.
const SECTOR_BYTES: u32 = 512;
/// Maximum number of CPUs in an affinity.
const CPUS_MOST: usize = 8192;

/// The control device.
pub struct UblkControl {
    file: File,
    ring: IoUring<Entry128>,
}

/// Identity and state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkInfo {
    /// `N` in `/dev/ublkbN` and `/dev/ublkcN`.
    pub number: u32,
    /// Number of queues.
    pub queues: u16,
    /// Depth of each queue.
    pub depth: u16,
    /// Longest request in bytes.
    pub max_bytes: u32,
    /// Whether the block device exists now.
    pub is_live: bool,
    /// User data of the device's creator, stored by the kernel.
    pub mark: u64,
}

/// Parameters of a new device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkWish {
    /// Number of the device; by default the first free one.
    pub number: Option<u32>,
    /// Number of queues, limited to the number of CPUs.
    pub queues: u16,
    /// Depth of each queue, at most 4096.
    pub depth: u16,
    /// Maximum request in bytes, whole pages.
    pub max_bytes: u32,
    /// User data that the kernel stores with the device.
    pub mark: u64,
}

/// Properties of the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkShape {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Logical block size, 512 to a page.
    pub block_bytes: u32,
    /// Physical block size, not smaller.
    pub physical_bytes: u32,
    /// Whether the device is read-only.
    pub read_only: bool,
    /// Whether the device has a volatile write cache: it then gets flushes and FUA.
    pub volatile: bool,
    /// Longest request in bytes.
    pub max_bytes: u32,
    /// Longest discard and write-zeroes request in bytes, which carry no data.
    pub max_clear_bytes: u32,
}

/// A created device, in the process that serves it.
#[derive(Debug)]
pub struct UblkDevice {
    pub(crate) file: File,
    /// The actual parameters.
    pub info: UblkInfo,
}

impl UblkDevice {
    /// Another handle of the device.
    ///
    /// # Errors
    ///
    /// Out of descriptors.
    pub fn another(&self) -> io::Result<UblkDevice> {
        Ok(UblkDevice { file: self.file.try_clone()?, info: self.info })
    }
}

impl UblkControl {
    /// Opens the control device.
    ///
    /// # Errors
    ///
    /// The control device does not exist, access is denied, or the kernel creates no ring.
    pub fn open() -> io::Result<UblkControl> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let ring = IoUring::builder().build(4)?;
        Ok(UblkControl { file, ring })
    }

    /// Creates a device without requests yet.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the number is taken; the kernel refuses, or its node cannot be opened.
    pub fn add(&mut self, wish: UblkWish) -> io::Result<UblkDevice> {
        let number = wish.number.unwrap_or(ANY_NUMBER);
        let mut info = [0; INFO_BYTES];
        put(&mut info, 0, wish.queues.to_ne_bytes());
        put(&mut info, 2, wish.depth.to_ne_bytes());
        put(&mut info, 8, wish.max_bytes.to_ne_bytes());
        put(&mut info, 12, number.to_ne_bytes());
        put(&mut info, 32, wish.mark.to_ne_bytes());
        self.command(ADD_DEV, number, 0, &mut info)?;
        let info = parse(&info);
        let node = format!("/dev/ublkc{}", info.number);
        match OpenOptions::new().read(true).write(true).open(&node) {
            Ok(file) => Ok(UblkDevice { file, info }),
            Err(error) => {
                // No program has seen the device yet.
                let _ = self.delete(info.number);
                Err(io::Error::new(error.kind(), format!("{node}: {error}")))
            }
        }
    }

    /// Sets the properties of a device before its start.
    ///
    /// # Errors
    ///
    /// The kernel does not support them.
    pub fn set_shape(&mut self, number: u32, shape: &UblkShape) -> io::Result<()> {
        self.command(SET_PARAMS, number, 0, &mut params(shape)).map(drop)
    }

    /// CPUs whose requests use a queue.
    ///
    /// # Errors
    ///
    /// There is no such queue.
    pub fn cpus_of(&mut self, number: u32, queue: u16) -> io::Result<Vec<usize>> {
        let mut set = [0; CPUS_MOST / 8];
        self.command(GET_QUEUE_AFFINITY, number, queue.into(), &mut set)?;
        let has = |cpu: &usize| set[cpu / 8] & 1 << (cpu % 8) != 0;
        Ok((0..CPUS_MOST).filter(has).collect())
    }

    /// Starts the block device, once all its queues fetch requests. Requests must be served
    /// meanwhile: the kernel scans for partitions.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn start(&mut self, number: u32) -> io::Result<()> {
        self.command(START_DEV, number, std::process::id().into(), &mut []).map(drop)
    }

    /// Identity and state of a device.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such device.
    pub fn info(&mut self, number: u32) -> io::Result<UblkInfo> {
        let mut info = [0; INFO_BYTES];
        self.command(GET_DEV_INFO, number, 0, &mut info)?;
        Ok(parse(&info))
    }

    /// Stops the block device, even if it is open, once its requests are complete. Its queues then
    /// end.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        self.command(STOP_DEV, number, 0, &mut []).map(drop)
    }

    /// Deletes a device. The number is free once the device's nodes are closed; from Linux 6.9 on
    /// the call does not wait for this.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such device.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        let deleted = self.command(DEL_DEV_ASYNC, number, 0, &mut []);
        match deleted.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EOPNOTSUPP | libc::EINVAL)) => {
                self.command(DEL_DEV, number, 0, &mut []).map(drop)
            }
            _ => deleted.map(drop),
        }
    }

    /// Executes a command that reads or fills `part`.
    fn command(&mut self, op: u32, number: u32, data: u64, part: &mut [u8]) -> io::Result<i32> {
        let len = u16::try_from(part.len()).expect("commands have short parts");
        let mut command = [0; 80];
        put(&mut command, 0, number.to_ne_bytes());
        put(&mut command, 4, NO_QUEUE.to_ne_bytes());
        put(&mut command, 6, len.to_ne_bytes());
        if len > 0 {
            put(&mut command, 8, (part.as_mut_ptr() as u64).to_ne_bytes());
        }
        put(&mut command, 16, data.to_ne_bytes());
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), op).cmd(command).build();
        // SAFETY: `part` is borrowed until the completion was taken below, and the ring is empty.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            let entered = self.ring.submit_and_wait(1);
            if let Some(done) = self.ring.completion().next() {
                let result = done.result();
                return if result < 0 {
                    Err(io::Error::from_raw_os_error(-result))
                } else {
                    Ok(result)
                };
            }
            match entered.as_ref().map_err(io::Error::raw_os_error) {
                Ok(_) | Err(Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                // The kernel may still write to `part`, which is about to be gone.
                Err(_) => panic!("a ring of our own cannot be entered: {entered:?}"),
            }
        }
    }
}

fn put<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    to[at..at + N].copy_from_slice(&bytes);
}

fn get<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    from[at..at + N].try_into().expect("a slice of N bytes")
}

/// Parses `struct ublksrv_ctrl_dev_info`.
fn parse(info: &[u8; INFO_BYTES]) -> UblkInfo {
    UblkInfo {
        queues: u16::from_ne_bytes(get(info, 0)),
        depth: u16::from_ne_bytes(get(info, 2)),
        // 1 is live; the other states do not occur here.
        is_live: u16::from_ne_bytes(get(info, 4)) == 1,
        max_bytes: u32::from_ne_bytes(get(info, 8)),
        number: u32::from_ne_bytes(get(info, 12)),
        mark: u64::from_ne_bytes(get(info, 32)),
    }
}

/// Builds `struct ublk_params`: lengths in sectors, block sizes as powers of two.
fn params(shape: &UblkShape) -> [u8; PARAMS_BYTES] {
    let mut attributes = 0;
    for (wanted, attribute) in
        [(shape.read_only, READ_ONLY), (shape.volatile, VOLATILE_CACHE | FUA)]
    {
        attributes |= if wanted { attribute } else { 0 };
    }
    let [logical, physical] =
        [shape.block_bytes, shape.physical_bytes].map(|bytes| bytes.trailing_zeros() as u8);
    let clear_sectors = shape.max_clear_bytes / SECTOR_BYTES;
    let mut params = [0; PARAMS_BYTES];
    put(&mut params, 0, (PARAMS_BYTES as u32).to_ne_bytes());
    put(&mut params, 4, (BASIC | DISCARD).to_ne_bytes());
    put(&mut params, 8, attributes.to_ne_bytes());
    // Logical and physical block size; optimal and minimal I/O size.
    put(&mut params, 12, [logical, physical, physical, physical]);
    put(&mut params, 16, (shape.max_bytes / SECTOR_BYTES).to_ne_bytes());
    put(&mut params, 24, (shape.bytes / u64::from(SECTOR_BYTES)).to_ne_bytes());
    // Discards, from byte 40 on: alignment, granularity, longest, longest write zeroes, segments.
    put(&mut params, 44, shape.block_bytes.to_ne_bytes());
    put(&mut params, 48, clear_sectors.to_ne_bytes());
    put(&mut params, 52, clear_sectors.to_ne_bytes());
    put(&mut params, 56, 1_u16.to_ne_bytes());
    params
}

#[cfg(test)]
mod test {
    use super::*;

    /// Compared with a C compiler's layout, for 4 KiB blocks and a write cache.
    #[test]
    fn a_shape_is_laid_out_as_the_kernel_reads_it() {
        let shape = UblkShape {
            bytes: 64 << 20,
            block_bytes: 512,
            physical_bytes: 4096,
            read_only: false,
            volatile: true,
            max_bytes: 128 << 10,
            max_clear_bytes: 1 << 30,
        };
        let params = params(&shape);
        let words: Vec<u32> = (0..15).map(|at| u32::from_ne_bytes(get(&params, 4 * at))).collect();
        let blocks = u32::from_ne_bytes([9, 12, 12, 12]);
        let basic = [60, 3, 0b1100, blocks, 256, 0, 131_072, 0, 0, 0];
        assert_eq!(words[..10], basic);
        assert_eq!(words[10..], [0, 512, 2_097_152, 2_097_152, u32::from_ne_bytes([1, 0, 0, 0])]);
    }

    #[test]
    fn what_a_device_is_known_by_is_read() {
        let mut info = [0; INFO_BYTES];
        put(&mut info, 0, 2_u16.to_ne_bytes());
        put(&mut info, 2, 128_u16.to_ne_bytes());
        put(&mut info, 4, 1_u16.to_ne_bytes());
        put(&mut info, 8, 131_072_u32.to_ne_bytes());
        put(&mut info, 12, 7_u32.to_ne_bytes());
        put(&mut info, 32, 9_u64.to_ne_bytes());
        let (number, queues, depth, max_bytes) = (7, 2, 128, 131_072);
        let wanted = UblkInfo { number, queues, depth, max_bytes, is_live: true, mark: 9 };
        assert_eq!(parse(&info), wanted);
    }
}
