//! Predictions and comparisons as pages with charts.

use ::catalogue::{Catalogue, pretty, quantity_named};
use block::Rate;
use plan::bill::Bill;
use plan::compare::Comparison;
use plan::predict::Prediction;
use report::page::{Content, Page, Section, Table};
use report::{bytes_per_second, size, span};

use super::compared::{all_charts, lead, lines};
use super::predicted::{Whole, priced, total};
use super::{charts, percent};

/// Footer with the program's version.
const FOOT: &str = concat!(
    "Predicted, not measured, by drumfire ",
    env!("CARGO_PKG_VERSION"),
    " from the figures below. Spec: the maker or a standard says so. Measured: somebody measured \
     it. Derived: it follows by arithmetic. Fit: chosen so that the model meets a published \
     result. Guess: somebody supposes it."
);

/// One system.
pub fn prediction(whole: &Whole) -> Page {
    let Whole { bill, found, drawn, .. } = whole;
    let range = found.range.map_or("no range: no published results".to_owned(), |range| {
        format!("p10 {}, p90 {}", Rate(range.p10), Rate(range.p90))
    });
    let mut lead = format!(
        "{} IOPS predicted, {range}; {} on average; {}.",
        Rate(found.iops),
        span(found.latency_s * 1e9),
        bytes_per_second(found.bytes_per_s)
    );
    if let (Some(goal), Some(reaches)) = (whole.goal, drawn.reaches) {
        let percent = reaches * 100.0;
        let goal = Rate(goal);
        lead += &format!(" The goal of {goal} IOPS is reached in {percent:.0} % of the draws.");
    }
    let alone = &found.uncorrected;
    let charts =
        [charts::falls(&whole.falls, drawn), charts::busy(alone), charts::gains(&whole.what_ifs)];
    let mut sections = vec![asked(bill)];
    sections.extend(
        charts.map(|chart| Section {
            title: chart.title.clone(),
            content: vec![Content::Chart(chart)],
        }),
    );
    sections.push(parts(whole));
    sections.push(figures([(&bill.catalogue, alone)]));
    sections.push(notes(alone));
    Page { title: bill.name.clone(), lead, sections, foot: FOOT.to_owned(), ..Page::default() }
}

fn asked(bill: &Bill) -> Section {
    let work = bill.work;
    let asked = format!(
        "I/Os of {}, {} % reads, {}.",
        size(work.size_bytes.round() as u64),
        percent(work.read_share),
        bill.in_flight()
    );
    Section { title: "what is asked".to_owned(), content: vec![Content::Text(asked)] }
}

fn parts(whole: &Whole) -> Section {
    let costs = &whole.costs;
    let row = |line: &plan::cost::Line| {
        let power = match line.power {
            Some((watts, kind)) => format!("{watts:.1} W ({})", kind.word()),
            None => "not known".to_owned(),
        };
        let price = priced(line.price.as_ref());
        vec![line.count.to_string(), line.part.clone(), price, power]
    };
    let mut rows: Vec<Vec<String>> = costs.lines.iter().map(row).collect();
    let extra = |(what, price): &(String, f64)| {
        vec![String::new(), what.clone(), format!("${price:.1} (the bill says so)"), String::new()]
    };
    rows.extend(whole.bill.extras.iter().map(extra));
    let (price, power) = (total(&costs.price, "$", ""), total(&costs.power, "", " W"));
    rows.push(vec![String::new(), "in all".to_owned(), price, power]);
    let table = Table { head: vec!["number", "part", "price of one", "power of one"], rows };
    Section { title: "parts".to_owned(), content: vec![Content::Table(table)] }
}

/// The figures that predictions rest on, each once.
fn figures<'a>(of: impl IntoIterator<Item = (&'a Catalogue, &'a Prediction)>) -> Section {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (catalogue, found) in of {
        for input in &found.inputs {
            let Some(quantity) = quantity_named(input.quantity) else { continue };
            let known = &input.known;
            let show = |value| pretty(value, quantity);
            let range = match known.low < known.high {
                true => format!("{} to {}", show(known.low), show(known.high)),
                false => "exact".to_owned(),
            };
            let source = catalogue.sources.get(&known.source);
            let title = source.map_or(known.source.as_str(), |source| &source.title);
            let row = vec![
                input.part.clone(),
                quantity.name.replace('_', " "),
                show(known.value),
                range,
                format!("{}, {}", known.basis.word(), known.kind.word()),
                title.to_owned(),
            ];
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    let head = vec!["part", "figure", "value", "may be", "kind", "source"];
    let table = Content::Table(Table { head, rows });
    Section { title: "figures".to_owned(), content: vec![table] }
}

fn notes(found: &Prediction) -> Section {
    let solved = Content::Text(format!("Solved by {}.", found.method));
    let remarks = found.remarks.iter().map(|remark| Content::Text(remark.clone()));
    Section { title: "notes".to_owned(), content: [solved].into_iter().chain(remarks).collect() }
}

/// Several systems.
pub fn comparison(found: &Comparison, bills: &[Bill]) -> Page {
    let mut sections: Vec<Section> = Vec::new();
    for chart in all_charts(found) {
        sections.push(Section { title: chart.title.clone(), content: vec![Content::Chart(chart)] });
    }
    for one in &found.alternatives {
        let rows = lines(one).into_iter().map(|(what, said)| vec![what.to_owned(), said]).collect();
        let table = Content::Table(Table { head: vec!["what", "predicted"], rows });
        sections.push(Section { title: one.name.clone(), content: vec![table] });
    }
    // Bills of one name may have their own figures, on which only they depend.
    let of = found.alternatives.iter().filter_map(|one| {
        let bill = bills.get(one.bill)?;
        Some((&bill.catalogue, &one.one.uncorrected))
    });
    sections.push(figures(of));
    let title = found.alternatives.iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
    Page {
        title: title.join(" or "),
        lead: lead(found),
        sections,
        foot: FOOT.to_owned(),
        ..Page::default()
    }
}
