//! Predictions for I/Os that arrive at a given rate.

use anyhow::Result;
use block::{Rate, Text};
use plan::bill::Bill;
use plan::predict::{Arriving, arriving as arrive};
use serde_json::json;

use super::{Args, blame, percent};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Response time at an arrival rate.
pub fn arriving(args: &Args, rate: f64, bill: &Bill) -> Result<Exit> {
    let usage = |error| blame(args.bill.as_deref(), error);
    // At a minimal rate, the prediction shows the service demand at the busiest part.
    let trickle = arrive(bill, 1e-3).map_err(usage)?;
    let most = 1e-3 / trickle.uses.first().map_or(0.0, |busiest| busiest.utilisation);
    let found = arrive(bill, rate).map_err(|error| match error.is_overload() {
        true => {
            let (rate, most) = (Rate(rate), Rate(most));
            UsageError(format!(
                "--rate: {rate} IOPS arrive but at most {most} can be served: lower it"
            ))
            .into()
        }
        false => usage(error),
    })?;
    match args.json {
        true => output::json(&document(bill, &found, most)?)?,
        false => output::print(&text(bill, &found, most)?)?,
    }
    Ok(Exit::Good)
}

fn document(bill: &Bill, found: &Arriving, most: f64) -> Result<String> {
    let document = json!({
        "name": bill.name,
        "origin": "simulated",
        "work": { "size_bytes": bill.work.size_bytes, "read_share": bill.work.read_share },
        "arriving": found,
        "bound_iops": most,
        "evidence": null,
        "sourced": bill.catalogue.is_sourced(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn text(bill: &Bill, found: &Arriving, most: f64) -> Result<Text> {
    let (size, reads) =
        (report::size(bill.work.size_bytes.round() as u64), percent(bill.work.read_share));
    let mut text = Text::new();
    writeln!(
        text,
        "{}: {size}, {reads} % reads, {} IOPS arrive at random; uncorrected",
        bill.name,
        Rate(found.rate)
    )?;
    writeln!(
        text,
        "  response   {} on average; no published results of such load: no interval",
        report::span(found.response_s * 1e9)
    )?;
    writeln!(text, "  in flight  {:.1} on average", found.outstanding)?;
    for used in &found.uses {
        writeln!(text, "  busy       {:>5.1} %  {}", used.utilisation * 100.0, used.name)?;
    }
    writeln!(text, "  at most    {} IOPS; near it the response has no bound", Rate(most))?;
    if bill.catalogue.is_sourced() {
        text.line("note: figures that no document has are left out (--sourced)");
    }
    writeln!(text, "note: arrivals are at random (Poisson); bursts wait longer")?;
    Ok(text)
}
