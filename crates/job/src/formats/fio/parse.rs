//! Values of settings that are words: `randrw:8`, `zipf:1.2`, `512/10:4k/60:8k`, `io_uring`.

mod distribution;
pub mod engine;

use super::option::Wrong;
use super::settings::{Hint, Method, Mix, Service, Sizes};
use super::value::{self, Amount, KbBase, Triple, set_each};
use crate::spec::Quantity;

pub use self::distribution::distribution;
pub use self::engine::{engine, other_manner};

/// Maximum number of entries of one `bssplit`; fio's own limit.
const SPLITS_MAX: usize = 64;
/// Maximum CPU number; no Linux has more.
const CPU_MAX: usize = 8191;

/// Reads `rw=`: `randread`, `randrw:8`, `read:-4k`.
pub fn mix(text: &str, kb: KbBase) -> Result<Mix, String> {
    let (word, suffix) = match text.split_once(':') {
        Some((word, suffix)) => (word, Some(suffix)),
        None => (text, None),
    };
    let (what, random) = match word.strip_prefix("rand") {
        Some(what) => (what, true),
        None => (word, false),
    };
    let (reads, writes, trims) = match what {
        "read" => (true, false, false),
        "write" => (false, true, false),
        "rw" | "readwrite" => (true, true, false),
        "trim" => (false, false, true),
        "trimwrite" => (false, true, true),
        _ => {
            let near = block::hint(what, ["read", "write", "rw", "trim", "trimwrite"]);
            return Err(format!(
                "unknown value '{word}': one of read, write, rw, trim, trimwrite, or the same \
                 after rand{near}"
            ));
        }
    };
    let mut mix = Mix { reads, writes, trims, random, ..Mix::default() };
    match suffix {
        None => {}
        Some(run) if random => mix.run = at_least_one(run)?,
        Some(hole) => {
            let (sign, size) = hole.strip_prefix('-').map_or((1, hole), |size| (-1, size));
            let bytes =
                i64::try_from(kb.size(size)?).map_err(|_| format!("{hole} is too large"))?;
            mix.hole_bytes = sign * bytes;
        }
    }
    Ok(mix)
}

/// I/O sizes of each direction, if an option gives any.
type Said = Triple<Option<Sizes>>;

/// Reads `bs=`: one size for each direction. As in fio, `4k-64k` are those of reads and of writes.
pub fn block_sizes(text: &str, sizes: &mut Said, kb: KbBase) -> Result<(), String> {
    let text = &*text.replace('-', ",");
    set_each(text, sizes, |part| Ok(Some(Sizes::Fixed(not_zero(kb.size(part)?)?))))
}

/// Reads `bsrange=`: one range for each direction.
pub fn size_ranges(text: &str, sizes: &mut Said, kb: KbBase) -> Result<(), String> {
    set_each(text, sizes, |part| {
        let (least, most) = kb.range(part)?;
        Ok(Some(Sizes::Range(not_zero(least)?, most)))
    })
}

/// Reads `filesize=`: one size, or a range from which each file's is drawn; the result is then
/// their mean, in multiples of 4 KiB.
pub fn file_size(text: &str, kb: KbBase) -> Result<Amount, String> {
    let whole = |amount| match amount {
        Amount::Bytes(0) => Err("a size must not be 0".to_owned()),
        amount => Ok(amount),
    };
    match text.split_once('-') {
        None => whole(kb.amount(text)?),
        Some(_) => kb.range(text).and_then(|(least, most)| {
            let mean = least + (most - least) / 2;
            whole(Amount::Bytes(if least == most { mean } else { mean / 4096 * 4096 }))
        }),
    }
}

/// Reads `bssplit=`: sizes with their shares for each direction.
pub fn size_splits(text: &str, sizes: &mut Said, kb: KbBase) -> Result<(), String> {
    set_each(text, sizes, |part| Ok(Some(Sizes::Split(size_split(part, kb)?))))
}

/// Reads `512/10:4k/60:8k`: entries without a share divide the rest.
fn size_split(text: &str, kb: KbBase) -> Result<Vec<(u64, f64)>, String> {
    let entries: Vec<&str> = text.split(':').filter(|entry| !entry.is_empty()).collect();
    if entries.len() > SPLITS_MAX {
        return Err(format!("more than {SPLITS_MAX} sizes"));
    }
    let mut split = Vec::new();
    for entry in entries {
        let (size, share) = entry.split_once('/').unwrap_or((entry, ""));
        let share: Option<u32> = match share {
            "" => None,
            share => Some(value::number(share)?),
        };
        split.push((not_zero(kb.size(size)?)?, share));
    }
    let known: u64 = split.iter().filter_map(|(_, share)| share.map(u64::from)).sum();
    let open = split.iter().filter(|(_, share)| share.is_none()).count();
    if known > 100 || (open == 0 && known == 0) {
        return Err(format!("the shares sum up to {known} percent, not 100"));
    }
    let rest = (100 - known) as f64;
    let each = rest / open.max(1) as f64;
    let shares = split.into_iter().map(|(size, share)| (size, share.map_or(each, f64::from)));
    let mut shares: Vec<(u64, f64)> = shares.collect();
    // The rest of the shares goes to the size with the largest one, as in fio.
    let largest = shares.iter_mut().max_by(|(_, one), (_, other)| one.total_cmp(other));
    if let (0, Some((_, share))) = (open, largest) {
        *share += rest;
    }
    Ok(shares)
}

/// Reads `filename=`: names separated by colons, where `\:` is a colon.
pub fn files(text: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let name = names.last_mut().expect("there is a first name");
        match c {
            '\\' if chars.peek() == Some(&':') => name.extend(chars.next()),
            ':' => names.push(String::new()),
            _ => name.push(c),
        }
    }
    names.retain(|name| !name.is_empty());
    match names.is_empty() {
        true => Err("no file name".to_owned()),
        false => Ok(names),
    }
}

/// Reads `cpus_allowed=`: `0,2-4`.
pub fn processors(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| value::number::<usize>(text).ok().filter(|cpu| *cpu <= CPU_MAX);
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(format!("'{part}' is not a list of CPUs: write 0,2-4"));
        };
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    match cpus.is_empty() {
        true => Err("no CPU is set".to_owned()),
        false => Ok(cpus),
    }
}

/// Reads `cpumask=`: a bit for each CPU.
pub fn processor_mask(text: &str) -> Result<Vec<usize>, String> {
    let mask: u64 = value::number(text)?;
    let cpus: Vec<usize> = (0..64).filter(|cpu| mask >> cpu & 1 == 1).collect();
    if cpus.is_empty() { Err("no CPU is set".to_owned()) } else { Ok(cpus) }
}

/// Reads `startdelay=`: a time, or a range from which one is drawn, in microseconds.
pub fn delay(text: &str) -> Result<(u64, u64), String> {
    let micros = |text| value::micros(text, value::Unit::Seconds);
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (micros(least)?, micros(most)?);
    Ok((least.min(most), least.max(most)))
}

/// Reads `verify=`: the method of verification.
pub fn verify(text: &str) -> Result<Method, Wrong> {
    match text {
        "0" => Ok(Method::Nothing),
        "null" => Ok(Method::Null),
        "pattern" => Ok(Method::Pattern),
        "pattern_hdr" => Ok(Method::PatternWithHeader),
        "meta" | "md5" | "crc64" | "crc32c" | "crc32c-intel" | "crc32" | "crc16" | "crc7"
        | "xxhash" | "sha512" | "sha256" | "sha1" | "sha3-224" | "sha3-256" | "sha3-384"
        | "sha3-512" => Ok(Method::Sum),
        _ => Err(Wrong::Unsupported(format!(
            "the method {text} is not supported: use crc32c, another checksum or pattern"
        ))),
    }
}

/// Reads `steadystate=`: `iops_slope:0.3%`. Returns the quantity, whether its slope is meant, the
/// limit, and whether the limit is in percent.
pub fn steady(text: &str, kb: KbBase) -> Result<(Quantity, bool, f64, bool), Wrong> {
    let (word, limit) = text.split_once(':').ok_or("a limit is missing: write iops:10%")?;
    let (what, slope) = match word.strip_suffix("_slope") {
        Some(what) => (what, true),
        None => (word, false),
    };
    let of = match what {
        "iops" => Quantity::Iops,
        "bw" => Quantity::Bandwidth,
        "lat" => Quantity::Latency,
        _ => {
            return Err(format!(
                "unknown value '{word}': one of iops, iops_slope, bw, bw_slope, lat, lat_slope"
            )
            .into());
        }
    };
    let (below, percent) = match (limit.trim().strip_suffix('%'), of) {
        (Some(percent), _) => (value::fraction(percent)?, true),
        (None, Quantity::Iops) => (value::fraction(limit)?, false),
        (None, Quantity::Bandwidth) => (kb.size(limit)? as f64, false),
        (None, Quantity::Latency) => {
            let why = format!("{text} is not supported: set the limit in percent");
            return Err(Wrong::Unsupported(why));
        }
    };
    match below > 0.0 {
        true => Ok((of, slope, below, percent)),
        false => Err("the limit must be above 0".into()),
    }
}

/// Reads `file_service_type=`: `random`, `roundrobin:4`, `zipf:1.2`.
pub fn service(text: &str) -> Result<Service, Wrong> {
    let (word, suffix) = text.split_once(':').unwrap_or((text, ""));
    let count = || if suffix.is_empty() { Ok(1) } else { at_least_one(suffix) };
    match word {
        "roundrobin" => Ok(Service::Turns(count()?)),
        "random" => Ok(Service::Random(count()?)),
        "sequential" => Ok(count().map(|_: u32| Service::OneByOne)?),
        "zipf" | "pareto" | "normal" | "gauss" => {
            let law = if word == "gauss" { "normal" } else { word };
            distribution(&format!("{law}:{suffix}"), KbBase::default()).map(Service::ByLaw)
        }
        _ => {
            let words = "roundrobin, random, sequential, zipf, pareto, normal";
            Err(format!("unknown value '{text}': one of {words}").into())
        }
    }
}

/// Reads `fadvise_hint=`.
pub fn hint(text: Option<&str>) -> Result<Hint, Wrong> {
    match text {
        None | Some("") => Err("a value is missing: write 1, 0, random or sequential".into()),
        Some("1") => Ok(Hint::ByMix),
        Some("0" | "none") => Ok(Hint::None),
        Some("random") => Ok(Hint::Random),
        Some("sequential") => Ok(Hint::Sequential),
        Some(text @ "noreuse") => Err(Wrong::Unsupported(format!("{text} is not supported"))),
        Some(text) => {
            Err(format!("unknown value '{text}': one of 0, 1, random, sequential").into())
        }
    }
}

/// Reads `buffer_compress_chunk=`.
pub fn chunk(text: &str, kb: KbBase) -> Result<u32, Wrong> {
    let bytes = kb.size(text)?;
    match u32::try_from(bytes).ok().filter(|bytes| (512..=1 << 20).contains(bytes)) {
        Some(bytes) if bytes.is_multiple_of(512) => Ok(bytes),
        _ => {
            let why = "use a multiple of 512, at most 1m";
            Err(Wrong::Unsupported(format!("a chunk of {text} is not supported: {why}")))
        }
    }
}

/// Reads `loops=`: a negative number is more than any job does.
pub fn loops(text: &str) -> Result<u64, String> {
    if text.trim() == "-1" { Ok(u32::MAX.into()) } else { at_least_one(text) }
}

/// Reads a number of 1 or more.
pub fn at_least_one<T: TryFrom<u64> + PartialEq + Default>(text: &str) -> Result<T, String> {
    let number: T = value::number(text)?;
    if number == T::default() { Err("must be at least 1".to_owned()) } else { Ok(number) }
}

pub(super) fn not_zero(bytes: u64) -> Result<u64, String> {
    if bytes == 0 { Err("a size must not be 0".to_owned()) } else { Ok(bytes) }
}

#[cfg(test)]
mod test {
    use super::super::settings::Distribution;
    use super::*;

    const KB: KbBase = KbBase(1024);

    #[test]
    fn reads_what_is_done() {
        let random = mix("randrw:8", KB).unwrap();
        assert!(random.reads && random.writes && random.random && random.run == 8);
        let holes = mix("write:4k", KB).unwrap();
        assert!(holes.writes && !holes.reads && !holes.random && holes.hole_bytes == 4096);
        assert_eq!(mix("read:-8k", KB).unwrap().hole_bytes, -8192);
        assert!(mix("randtrim", KB).unwrap().trims);
        let both = mix("randtrimwrite", KB).unwrap();
        assert!(both.trims && both.writes && !both.reads && both.random);
        for wrong in ["", "reed", "randread:0", "read:x", "randrandread"] {
            assert!(mix(wrong, KB).is_err(), "{wrong}");
        }
    }

    #[test]
    fn splits_share_what_is_left() {
        let split = |text| {
            let mut sizes = [const { None }; 3];
            size_splits(text, &mut sizes, KB).map(|()| sizes.map(Option::unwrap))
        };
        let want = vec![(512, 10.0), (4096, 60.0), (8192, 15.0), (65536, 15.0)];
        assert_eq!(split("512/10:4k/60:8k/:64k").unwrap()[2], Sizes::Split(want));
        let apart = split("4k,8k/50:16k/50").unwrap();
        assert_eq!(apart[0], Sizes::Split(vec![(4096, 100.0)]));
        assert_eq!(apart[1], Sizes::Split(vec![(8192, 50.0), (16384, 50.0)]));
        let short = split("16k/20:4k/50:64k/0").unwrap();
        assert_eq!(short[1], Sizes::Split(vec![(16384, 20.0), (4096, 80.0), (65536, 0.0)]));
        for wrong in ["4k/60:8k/50", "4k/0", "4k/x", "0/100", "/50:4k"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
        let many = vec!["4k"; 65].join(":");
        assert!(split(&many).unwrap_err().contains("64"));
    }

    #[test]
    fn reads_lists_of_names_and_processors() {
        assert_eq!(files("/dev/a:b").unwrap(), ["/dev/a", "b"]);
        let remote = files("iscsi\\://127.0.0.1/iqn.2016-02.com\\:fio/1").unwrap();
        assert_eq!(remote, ["iscsi://127.0.0.1/iqn.2016-02.com:fio/1"]);
        assert!(files(":").is_err());
        assert_eq!(processors("4,0-2,1"), Ok(vec![0, 1, 2, 4]));
        assert_eq!(processor_mask("0x15"), Ok(vec![0, 2, 4]));
        assert!(processor_mask("0").is_err() && processor_mask("x").is_err());
        assert_eq!(delay("2-500ms"), Ok((500_000, 2_000_000)));
        assert_eq!(steady("bw_slope:1%", KB), Ok((Quantity::Bandwidth, true, 1.0, true)));
        assert_eq!(steady("bw:1m", KB), Ok((Quantity::Bandwidth, false, 1048576.0, false)));
        assert_eq!(steady("iops:0.5", KB), Ok((Quantity::Iops, false, 0.5, false)));
        for wrong in ["iops", "iops:0", "lat:5ms", "speed:1%", "iops:x%"] {
            assert!(steady(wrong, KB).is_err(), "{wrong}");
        }
        assert_eq!(service("roundrobin:4"), Ok(Service::Turns(4)));
        assert_eq!(service("sequential"), Ok(Service::OneByOne));
        assert_eq!(service("random:4"), Ok(Service::Random(4)));
        assert_eq!(service("zipf:1.2"), Ok(Service::ByLaw(Distribution::Zipf(1.2))));
        assert!(service("zipf:a").is_err() && service("best").is_err());
        assert_eq!(delay("3"), Ok((3_000_000, 3_000_000)));
        assert!(processors("0-99999999").is_err() && processors("a").is_err());
    }
}
