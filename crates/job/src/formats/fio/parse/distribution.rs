//! Distributions of random offsets.

use super::super::option::Wrong;
use super::super::settings::Distribution;
use super::super::value::{self, Amount, KbBase};

/// Maximum number of zones of one distribution; fio's own limit.
const ZONES_MAX: usize = 256;

/// Reads `random_distribution=`.
pub fn distribution(text: &str, kb: KbBase) -> Result<Distribution, Wrong> {
    let (word, value) = text.split_once(':').unwrap_or((text, ""));
    let number = |default: f64| match value {
        "" => Ok(default),
        value if value.contains(['/', ':']) => {
            Err(Wrong::Unsupported("a centre of the distribution is not supported".to_owned()))
        }
        value => Ok(value::fraction(value)?),
    };
    match word {
        "random" => Ok(Distribution::Uniform),
        "zipf" => number(1.1).map(Distribution::Zipf),
        "pareto" => number(0.2).map(Distribution::Pareto),
        "normal" => number(0.0).map(Distribution::Normal),
        "zoned" => zones(value, |space| match value::number(space) {
            Ok(percent) if percent <= 100 => Ok(Amount::Percent(percent)),
            _ => Err(format!("'{space}' is out of range: 0 to 100 percent")),
        }),
        "zoned_abs" => zones(value, |space| kb.size(space).map(Amount::Bytes)),
        _ => {
            let words = "random, zipf, pareto, normal, zoned, zoned_abs";
            Err(format!("unknown value '{word}': one of {words}").into())
        }
    }
}

/// Reads zones such as `60/10:40/`: a zone without a space gets the rest, which only shares of the
/// volume can express.
fn zones(
    text: &str,
    space: impl Fn(&str) -> Result<Amount, String>,
) -> Result<Distribution, Wrong> {
    if text.contains(',') {
        let why = "zones that differ between reads and writes are not supported";
        return Err(Wrong::Unsupported(why.to_owned()));
    }
    let entries: Vec<&str> = text.split(':').filter(|entry| !entry.is_empty()).collect();
    if entries.is_empty() || entries.len() > ZONES_MAX {
        return Err(format!("write 1 to {ZONES_MAX} zones, such as 60/10:40/90").into());
    }
    let mut zones = Vec::new();
    for entry in entries {
        let (share, size) = entry.split_once('/').ok_or(format!("write {entry} as SHARE/SPACE"))?;
        let space = (!size.is_empty()).then(|| space(size)).transpose()?;
        zones.push((value::percent(share)?, space));
    }
    let known = zones.iter().map(|(_, space)| match space {
        Some(Amount::Percent(percent)) => Ok(*percent),
        Some(Amount::Bytes(_)) => Err("zoned_abs needs a size for each zone".to_owned()),
        None => Ok(0),
    });
    let open = zones.iter().filter(|(_, space)| space.is_none()).count() as u32;
    if open > 0 {
        let rest = 100_u32.checked_sub(known.sum::<Result<u32, String>>()?);
        let rest = rest.ok_or("the sizes of the zones sum up to more than 100 percent")?;
        zones.iter_mut().for_each(|zone| {
            zone.1.get_or_insert(Amount::Percent(rest / open));
        });
    }
    let whole = |(share, space): (f64, Option<Amount>)| Some((share, space?));
    Ok(Distribution::Zones(zones.into_iter().filter_map(whole).collect()))
}

#[cfg(test)]
mod test {
    use super::*;

    const KB: KbBase = KbBase(1024);

    #[test]
    fn reads_distributions() {
        assert_eq!(distribution("zipf:1.2", KB), Ok(Distribution::Zipf(1.2)));
        assert_eq!(distribution("pareto", KB), Ok(Distribution::Pareto(0.2)));
        let zones = vec![(60.0, Amount::Percent(10)), (40.0, Amount::Percent(90))];
        assert_eq!(distribution("zoned:60/10:40/90", KB), Ok(Distribution::Zones(zones)));
        let rest = distribution("zoned:60/10:30/:10/", KB).unwrap();
        let spaces = [(60.0, 10), (30.0, 45), (10.0, 45)];
        let zones = spaces.map(|(share, percent)| (share, Amount::Percent(percent))).to_vec();
        assert_eq!(rest, Distribution::Zones(zones));
        let zones = vec![(100.0, Amount::Bytes(1 << 20))];
        assert_eq!(distribution("zoned_abs:100/1m", KB), Ok(Distribution::Zones(zones)));
        for wrong in [
            "zipf:x",
            "zipf:-1",
            "bell",
            "zoned:60",
            "zoned:",
            "zoned:60/101",
            "zoned_abs:60/1m:40/",
        ] {
            assert!(distribution(wrong, KB).is_err(), "{wrong}");
        }
    }
}
