//! Charts of predictions and comparisons, identical in a terminal and on a page.

use block::Rate;
use plan::chance::Chance;
use plan::compare::{Alternative, Comparison, Equal};
use plan::predict::{Fall, Prediction, WhatIf};
use report::chart::{Bar, Chart};

use super::predicted::total;

/// Width of a bar of full length in a terminal.
pub const COLUMNS: usize = 24;

/// Chart of the rate from the drives alone to the whole system.
pub fn falls(falls: &[Fall], sure: &Chance) -> Chart {
    let last = falls.len().saturating_sub(1);
    let bar = |(at, fall): (usize, &Fall)| {
        let kind = fall.kind.word();
        Bar {
            label: format!("up to {}", fall.up_to.word()),
            value: fall.iops,
            range: (at == last).then_some((sure.iops.p10, sure.iops.p90)),
            text: format!("{} IOPS ({kind})", Rate(fall.iops)),
            marked: at == last,
        }
    };
    Chart {
        title: "from the medium to the whole, uncorrected".to_owned(),
        about: "I/Os per second with these parts and nothing else, uncorrected by published \
            results; in brackets how the last of them is known; all of them with p10 to p90 of the \
            draws"
            .to_owned(),
        full: None,
        bars: falls.iter().enumerate().map(bar).collect(),
    }
}

/// Chart of the utilisation of each resource.
pub fn busy(found: &Prediction) -> Chart {
    let bars = found.uses.iter().zip(0..).map(|(used, at)| {
        let busy = used.utilisation;
        let room = (1.0 / busy.max(1e-9) - 1.0) * 100.0;
        let room = if room > 999.0 { "much".to_owned() } else { format!("{room:.0} %") };
        Bar {
            label: used.name.clone(),
            value: busy,
            range: None,
            text: format!("{:.1} %, room {room} ({})", busy * 100.0, used.kind.word()),
            marked: at == 0,
        }
    });
    Chart {
        title: "how busy".to_owned(),
        about: "share of its time that a part is busy, predicted, and what is left of it; in \
            brackets how it is known what the part does"
            .to_owned(),
        full: Some(1.0),
        bars: bars.collect(),
    }
}

/// Chart of the gains from more of each level.
pub fn gains(what_ifs: &[WhatIf]) -> Chart {
    let bars = what_ifs.iter().zip(0..).map(|(change, at)| {
        let next = change.next.as_ref().map(|u| u.name.as_str()).unwrap_or_default();
        // Rounded to the displayed digits, so that there is no negative zero.
        let gain = ((change.gain - 1.0) * 1000.0).round() / 1000.0 + 0.0;
        Bar {
            label: change.level.word().to_owned(),
            value: gain,
            range: None,
            text: format!("{:+.1} %, then {next} limits", gain * 100.0),
            marked: at == 0 && gain > 0.005,
        }
    });
    Chart {
        title: "ten percent faster".to_owned(),
        about: "more I/Os per second, predicted, if all parts of a level were ten percent faster"
            .to_owned(),
        full: Some(0.1),
        bars: bars.collect(),
    }
}

/// Chart of the figure by which alternatives are ranked.
pub fn ranks(found: &Comparison) -> Chart {
    match found.equal {
        Equal::Iops(goal) => Chart {
            title: format!("dollars for {} IOPS", Rate(goal)),
            about: "price of all systems, lowest to highest that its sources allow; marked: the \
                cheapest, and what its range does not tell from it"
                .to_owned(),
            full: None,
            bars: found.alternatives.iter().map(price).collect(),
        },
        equal => Chart {
            title: match equal {
                Equal::Money(sum) => format!("IOPS for ${sum:.0}"),
                _ => "IOPS of one system".to_owned(),
            },
            about: "I/Os per second of all systems, predicted, with p10 to p90; \
                marked: the fastest, and what its range does not tell from it"
                .to_owned(),
            full: None,
            bars: found.alternatives.iter().map(rate).collect(),
        },
    }
}

fn rate(one: &Alternative) -> Bar {
    let Some(all) = &one.all else { return unknown(one, "price not known, so no number") };
    let range = all.range.map(|range| (range.p10, range.p90));
    let ends =
        range.map_or(String::new(), |(low, high)| format!(", {} to {}", Rate(low), Rate(high)));
    let most = if one.at_most { "at most " } else { "" };
    Bar {
        label: one.name.clone(),
        value: all.iops,
        range,
        text: format!("{most}{} IOPS{ends}, by {}", Rate(all.iops), systems(one)),
        marked: one.as_good,
    }
}

fn price(one: &Alternative) -> Bar {
    let Some(all) = &one.all else { return unknown(one, "not known") };
    let known = all.price.known > 0.0;
    Bar {
        label: one.name.clone(),
        value: all.price.known,
        range: known.then_some((all.price.low, all.price.high)),
        text: format!("{}, for {}", total(&all.price, "$", ""), systems(one)),
        marked: one.as_good,
    }
}

fn unknown(one: &Alternative, text: &str) -> Bar {
    Bar { label: one.name.clone(), text: text.to_owned(), ..Bar::default() }
}

/// Number of systems of an alternative, in words.
pub fn systems(one: &Alternative) -> String {
    let most = if one.at_most { "at most " } else { "" };
    match one.systems {
        None => "not known how many systems".to_owned(),
        Some(1.0) => format!("{most}1 system"),
        Some(number) => format!("{most}{number:.0} systems"),
    }
}

/// I/Os per second for a watt, or a rack unit, of each.
pub fn yields(
    found: &Comparison,
    title: &str,
    per: impl Fn(&Alternative) -> Option<f64>,
) -> Option<Chart> {
    let best = found.alternatives.iter().filter_map(&per).max_by(f64::total_cmp)?;
    let bar = |one: &Alternative| match per(one) {
        None => unknown(one, "not known"),
        Some(value) => Bar {
            label: one.name.clone(),
            value,
            range: None,
            text: format!("{} IOPS", Rate(value)),
            marked: value == best,
        },
    };
    Some(Chart {
        title: title.to_owned(),
        about: "predicted I/Os per second by the sum of its parts; marked: the best".to_owned(),
        full: None,
        bars: found.alternatives.iter().map(bar).collect(),
    })
}
