//! Predictions for several streams at once.

use anyhow::Result;
use block::{Rate, Text};
use plan::bill::Bill;
use plan::mixed::{Mixed, mixed};
use report::{bytes_per_second, size, span};
use serde_json::json;

use super::{Args, blame, percent};
use crate::exit::Exit;
use crate::output;

/// Predicts a bill with streams.
pub fn streams(args: &Args, bill: &Bill) -> Result<Exit> {
    let found = mixed(bill).map_err(|error| blame(args.bill.as_deref(), error))?;
    match args.json {
        true => output::json(&document(bill, &found)?)?,
        false => output::print(&text(bill, &found)?)?,
    }
    Ok(Exit::Good)
}

fn document(bill: &Bill, found: &Mixed) -> Result<String> {
    let document = json!({
        "name": bill.name,
        "origin": "simulated",
        "kind": found.kind,
        "mixed": found,
        "evidence": null,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn text(bill: &Bill, found: &Mixed) -> Result<Text> {
    let kind = found.kind.word();
    let mut text = Text::new();
    writeln!(text, "{}: {} streams at once; uncorrected ({kind})", bill.name, found.flows.len())?;
    for flow in &found.flows {
        let work = flow.stream.work;
        writeln!(
            text,
            "  stream     {}, {} % reads{}{}, {} in flight on each: {} IOPS, {}, {} on average",
            size(work.size_bytes.round() as u64),
            percent(work.read_share),
            if flow.stream.sequential { ", in sequence" } else { "" },
            if work.flush.is_some() { ", flushed" } else { "" },
            work.outstanding,
            Rate(flow.iops),
            bytes_per_second(flow.bytes_per_s),
            span(flow.latency_s * 1e9)
        )?;
    }
    for used in &found.uses {
        let (share, kind) = (used.utilisation * 100.0, used.kind.word());
        writeln!(text, "  busy       {share:>5.1} %  {} [{kind}]", used.name)?;
    }
    writeln!(text, "note: no published results of such load: no interval")?;
    for remark in &found.remarks {
        writeln!(text, "note: {remark}")?;
    }
    Ok(text)
}
