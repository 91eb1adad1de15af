//! `drumfire audit`: can this claim be true?

use std::path::PathBuf;

use anyhow::Result;
use block::{Text, hint};
use clap::Args as Flags;
use job::formats::read_text;
use plan::audit::{Finding, Verdict, audit, audit_all};
use plan::claim::{Claim, ClaimText, Document, FOUNDING};
use serde_json::{Value, json};

use crate::exit::{Exit, UsageError, of_file};
use crate::{catalogue, output};

/// `drumfire audit`.
#[derive(Flags, Debug)]
#[command(
    arg_required_else_help = true,
    after_long_help = "Amounts may be hedged: 'about 900', 'over 2.2M', 'nearly 8 GB/s'.\n\
    Exit codes: 0 possible or unclear, 2 usage, 4 impossible."
)]
pub struct Args {
    /// Files of claims; `founding` is the founding documents; `verify` alone tests the rules on
    /// claims with a known answer.
    #[arg(value_name = "FILE", conflicts_with = "claim")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub claim: Flagged,
    /// Your own parts, added to those of the catalogue.
    #[arg(long, value_name = "FILE")]
    pub parts: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// A claim by flags.
#[derive(Flags, Debug)]
#[group(id = "claim", multiple = true, required = false)]
pub struct Flagged {
    /// I/Os per second.
    #[arg(long, value_name = "RATE")]
    pub iops: Option<String>,
    /// I/O size.
    #[arg(long, alias = "bs")]
    pub size: Option<String>,
    /// Percentage of reads [default: 100].
    #[arg(long, value_name = "PERCENT")]
    pub read: Option<String>,
    /// Mean response time.
    #[arg(long, value_name = "TIME")]
    pub latency: Option<String>,
    /// I/Os in flight.
    #[arg(long, alias = "iodepth", value_name = "N")]
    pub outstanding: Option<String>,
    /// Payload per second.
    #[arg(long, value_name = "RATE")]
    pub bandwidth: Option<String>,
    /// A link of the catalogue: 10gbe, 8gfc, 'pcie-2 x8'.
    #[arg(long)]
    pub link: Option<String>,
    /// Claimed bandwidth of the link.
    #[arg(long, value_name = "RATE")]
    pub link_rate: Option<String>,
    /// iscsi, nvme-tcp, nvme-rdma, iser or nbd [default: the least overhead].
    #[arg(long)]
    pub protocol: Option<String>,
    /// MTU.
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<String>,
    /// Number of parallel links [default: 1].
    #[arg(long, value_name = "N")]
    pub ports: Option<String>,
    /// Number of drives.
    #[arg(long, value_name = "N")]
    pub drives: Option<String>,
    /// A drive of the catalogue.
    #[arg(long, value_name = "PART")]
    pub drive: Option<String>,
    /// Number of adapters.
    #[arg(long, value_name = "N")]
    pub adapters: Option<String>,
    /// An adapter of the catalogue.
    #[arg(long, value_name = "PART")]
    pub adapter: Option<String>,
    /// Claimed IOPS limit of one device.
    #[arg(long, value_name = "RATE")]
    pub rating: Option<String>,
    /// CPU utilization of the host.
    #[arg(long, value_name = "PERCENT")]
    pub cpu_percent: Option<String>,
    /// Cores of the host.
    #[arg(long, value_name = "N")]
    pub cores: Option<String>,
    /// Capacity.
    #[arg(long, value_name = "BYTES")]
    pub capacity: Option<String>,
    /// Price of all drives.
    #[arg(long, value_name = "DOLLARS")]
    pub price: Option<String>,
    /// Arithmetic to check: '6 * 423.72 MB/s over 3 GB/s'.
    #[arg(long = "equation", value_name = "TEXT")]
    pub equations: Vec<String>,
}

impl Flagged {
    fn text(&self) -> ClaimText {
        let money = |price: &String| match price.contains(['$', 'U']) {
            true => price.clone(),
            false => format!("${price}"),
        };
        ClaimText {
            iops: self.iops.clone(),
            size: self.size.clone(),
            read: self.read.clone(),
            latency: self.latency.clone(),
            outstanding: self.outstanding.clone(),
            bandwidth: self.bandwidth.clone(),
            link: self.link.clone(),
            link_rate: self.link_rate.clone(),
            protocol: self.protocol.clone(),
            mtu: self.mtu.clone(),
            ports: self.ports.clone(),
            drives: self.drives.clone(),
            drive: self.drive.clone(),
            adapters: self.adapters.clone(),
            adapter: self.adapter.clone(),
            rating: self.rating.clone(),
            cpu_percent: self.cpu_percent.clone(),
            cores: self.cores.clone(),
            capacity: self.capacity.clone(),
            price: self.price.as_ref().map(money),
            equations: self.equations.clone(),
            ..ClaimText::default()
        }
    }
}

/// Audits one claim, or files of claims.
pub fn main(args: &Args) -> Result<Exit> {
    let catalogue = catalogue::read(&args.parts)?;
    if let Some((word, more)) = args.files.split_first()
        && word.as_os_str() == "verify"
    {
        return match more {
            [] => verify(args, &catalogue),
            [file, ..] => {
                let file = file.display();
                Err(UsageError(format!("`audit verify` accepts no file: use `audit {file}`"))
                    .into())
            }
        };
    }
    if !args.files.is_empty() {
        return documents(args, &catalogue);
    }
    let usage = |error: plan::claim::ClaimError| UsageError(error.to_string());
    let claim = Claim::read(args.claim.text(), &catalogue).map_err(usage)?;
    let findings = audit(&claim, &catalogue);
    let verdict = Verdict::of(&findings);
    if args.json {
        output::document(&json!({ "verdict": verdict, "findings": findings }))?;
        return Ok(exit(verdict));
    }
    let mut text = lines(&findings, "");
    if findings.is_empty() {
        text.line(
            "no rule applies: add latency and outstanding, a drive, a link, or size and bandwidth",
        );
    }
    text.line(verdict.word());
    output::print(&text)?;
    Ok(exit(verdict))
}

/// Tests the rules on known results.
fn verify(args: &Args, catalogue: &::catalogue::Catalogue) -> Result<Exit> {
    use plan::audit::verify::{FALSE_MAX, FOUND_MIN, verify};
    let matrix = verify(catalogue).map_err(|error| UsageError(error.to_string()))?;
    let meets = matrix.meets();
    match args.json {
        true => output::document(&json!({ "meets": meets, "matrix": matrix }))?,
        false => {
            let mut text = Text::from("                      impossible  unclear  possible\n");
            for (name, counts) in [
                ("made impossible", matrix.planted),
                ("made possible", matrix.sound),
                ("figures of data sheets", matrix.figures),
                ("published results", matrix.published),
            ] {
                let (a, b, c) = (counts.impossible, counts.unclear, counts.possible);
                writeln!(text, "{name:<22}{a:>10}  {b:>7}  {c:>8}")?;
            }
            for wrong in &matrix.wrong {
                writeln!(text, "wrong: {wrong}")?;
            }
            let (found, falsely) = (FOUND_MIN * 100.0, FALSE_MAX * 100.0);
            writeln!(
                text,
                "goals: at least {found:.0} % of the impossible claims found, at most \
                {falsely:.0} % of the others called impossible: {}",
                if meets { "met" } else { "missed" }
            )?;
            output::print(&text)?;
        }
    }
    Ok(if meets { Exit::Good } else { Exit::Missed })
}

fn documents(args: &Args, catalogue: &::catalogue::Catalogue) -> Result<Exit> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for file in &args.files {
        if file.as_os_str() == "founding" {
            texts.extend(
                FOUNDING.iter().map(|(name, text)| (format!("{name}.toml"), (*text).to_owned())),
            );
            continue;
        }
        let name = file.display().to_string();
        if name.contains(' ') && !file.exists() {
            let why = "no such file; give a claim by flags, for example --iops 1M --size 4k \
                --link 10gbe, or --equation '4 * 550 MB/s = 2.2 GB/s'";
            return Err(UsageError(format!("{name}: {why}")).into());
        }
        let near = hint(&name, ["founding", "verify"]);
        let text = read_text(file).map_err(|error| of_file(format_args!("{name}{near}"), error))?;
        texts.push((name, text));
    }
    let usage = |error: plan::claim::ClaimError| UsageError(error.to_string());
    let read = |(name, text): &(String, String)| Document::read(name, text, catalogue);
    let documents = texts.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(usage)?;
    let findings = audit_all(&documents, catalogue);
    let all: Vec<Finding> = findings.iter().flatten().flatten().cloned().collect();
    let verdict = Verdict::of(&all);
    match args.json {
        true => output::document(&json!({
            "verdict": verdict,
            "documents": documents.iter().zip(&findings).map(document).collect::<Vec<_>>(),
        }))?,
        false => {
            let mut text = listing(&documents, &findings)?;
            text.line(verdict.word());
            output::print(&text)?;
        }
    }
    Ok(exit(verdict))
}

fn document((document, findings): (&Document, &Vec<Vec<Finding>>)) -> Value {
    let claims = document.claims.iter().zip(findings).map(|(claim, findings)| {
        json!({
            "number": claim.text.number,
            "at": claim.text.at,
            "says": claim.text.says,
            "verdict": Verdict::of(findings),
            "findings": findings,
        })
    });
    json!({ "title": document.title, "claims": claims.collect::<Vec<_>>() })
}

fn listing(documents: &[Document], findings: &[Vec<Vec<Finding>>]) -> Result<Text> {
    let mut text = Text::new();
    let mut counts = [0; 3];
    for (document, findings) in documents.iter().zip(findings) {
        writeln!(text, "{}", document.title)?;
        for (at, (claim, findings)) in document.claims.iter().zip(findings).enumerate() {
            let verdict = Verdict::of(findings);
            counts[verdict as usize] += 1;
            let number = claim.text.number.unwrap_or(at as u32 + 1);
            let place = &claim.text.at;
            writeln!(text, "  {number} ({place}) {}: {}", verdict.word(), claim.text.says)?;
            text.append(&lines(findings, "      "));
        }
    }
    let [possible, unclear, impossible] = counts;
    writeln!(text, "{impossible} claims impossible, {unclear} unclear, {possible} possible")?;
    Ok(text)
}

fn lines(findings: &[Finding], indent: &str) -> Text {
    let line = |f: &Finding| format!("{indent}{:<8} {:<16} {}", f.outcome.word(), f.rule, f.line);
    findings.iter().map(line).collect()
}

fn exit(verdict: Verdict) -> Exit {
    if verdict == Verdict::Impossible { Exit::Missed } else { Exit::Good }
}
