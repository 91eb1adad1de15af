//! File of a scenario: the published figures, the commands of this program that model and run the
//! system, and the keys of the figures in their results. `scenarios/*.toml` are built in; a user
//! copies one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use block::hint;
use job::formats::read_text;
use serde::{Deserialize, Serialize};

use super::network::HOSTS_MAX;
use crate::braces::{expand, fill};
use crate::exit::{UsageError, of_file};

/// Built-in scenarios, in the order of their documents.
const SHIPPED: [(&str, &str); 5] = [
    ("intel-28-ssd", include_str!("../../../../scenarios/intel-28-ssd.toml")),
    ("marvell-modules", include_str!("../../../../scenarios/marvell-modules.toml")),
    ("intel-iscsi", include_str!("../../../../scenarios/intel-iscsi.toml")),
    ("third-io-iris", include_str!("../../../../scenarios/third-io-iris.toml")),
    ("fusion-vs-sas", include_str!("../../../../scenarios/fusion-vs-sas.toml")),
];
/// Placeholders for the portals of a step's targets.
const PORTALS: [&str; 3] = ["{iscsi}", "{nvme-tcp}", "{nbd}"];
/// Maximum client processes of a step.
const CLIENTS_MAX: u32 = 64;

/// A system, its published figures, and the steps that reproduce them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name on the command line and of its folders.
    pub name: String,
    /// One-line description.
    pub title: String,
    /// Publisher, and date of publication.
    pub source: String,
    /// Scaling of the live run, and its factor.
    pub scaled: String,
    /// Commands, in their order.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
    /// Published figures.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
    /// Rows that make a curve.
    #[serde(default, rename = "series")]
    pub series: Vec<Series>,
}

/// Way that a command belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Model the original hardware.
    Modelled,
    /// I/O of now, on this machine.
    Live,
}

/// A command of this program, or one for each set of words.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// ID that rows refer to; words in braces are replaced.
    pub id: String,
    /// Way in which the step is run.
    pub way: Way,
    /// Replacements for `{word}`, once for each set; without any the step is run once.
    #[serde(default)]
    pub each: Vec<BTreeMap<String, String>>,
    /// Files that the command finds in its working folder.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Arguments of a `serve` for the command; `{iscsi}` and `{nvme-tcp}` become its first portals,
    /// `{iscsi:5}` the fifth.
    #[serde(default)]
    pub serve: Vec<String>,
    /// Number of servers, each with its own `{host}`, from 1, and `{address}` to listen on; their
    /// portals are `{iscsi-1}`, `{iscsi-2:5}` and so on. Each server is a rank under mpirun;
    /// otherwise it has its own network namespace if this machine allows it.
    #[serde(default = "one")]
    pub hosts: u32,
    /// Bits per second of the wire between the clients and the hosts. Without namespaces there is
    /// no wire, and the step fails.
    #[serde(default)]
    pub wire_bits: Option<f64>,
    /// Factor on the duration of the run.
    #[serde(default = "unscaled")]
    pub times: f64,
    /// Words of each client.
    #[serde(default)]
    pub each_client: Vec<BTreeMap<String, String>>,
    /// Number of processes that run the command at once; `{client}` counts from 1.
    #[serde(default = "one")]
    pub clients: u32,
    /// Arguments of the command; those that save its result are added. `{1..4}` in an argument,
    /// here and in `serve`, makes four of it, and `{4*TEXT}` is the text four times, separated by
    /// commas.
    pub run: Vec<String>,
}

/// A published figure and today's counterparts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Stable ID for scripts.
    pub id: String,
    /// Description of the figure.
    pub figure: String,
    /// The figure of the document itself. Without one, and without a derived one, the live figure
    /// is compared with the model's.
    #[serde(default)]
    pub published: Option<f64>,
    /// A figure that the document does not have and that follows from its others.
    #[serde(default)]
    pub derived: Option<f64>,
    /// Unit of all three figures.
    pub unit: String,
    /// Source of the model's figure.
    #[serde(default)]
    pub modelled: Option<FigureSource>,
    /// Whether a constant of the model was chosen to meet this figure.
    #[serde(default)]
    pub fitted: bool,
    /// Source of the live figure.
    #[serde(default)]
    pub live: Option<FigureSource>,
    /// Factor on the live figure before its comparison with the published one.
    #[serde(default = "unscaled")]
    pub scale: f64,
    /// Reason for the model's deviation, or for its absence.
    #[serde(default)]
    pub why: String,
    /// Reason why there is no live figure.
    #[serde(default)]
    pub no_live: String,
    /// Inputs chosen for the live figure: the rating of an emulated drive, a ratio. They are shown
    /// with the figure, however close that is.
    #[serde(default)]
    pub given: String,
}

/// Source of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSource {
    /// Case and figure of `plan verify`.
    #[serde(default)]
    pub verify: Option<[String; 2]>,
    /// A step.
    #[serde(default)]
    pub step: Option<String>,
    /// The figure in its result, as a JSON pointer.
    #[serde(default)]
    pub at: String,
    /// Divisor: the same figure of this step.
    #[serde(default)]
    pub over: Option<String>,
    /// Times this, for its unit.
    #[serde(default = "unscaled")]
    pub times: f64,
}

/// Rows that make a curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Title of the curve.
    pub name: String,
    /// Variable of the x axis.
    pub x: String,
    /// Value of x, and the row's ID.
    pub points: Vec<(f64, String)>,
}

fn one() -> u32 {
    1
}

fn unscaled() -> f64 {
    1.0
}

/// All built-in scenarios.
pub fn shipped() -> Result<Vec<Scenario>> {
    SHIPPED.iter().map(|(name, text)| read_from(name, text)).collect()
}

/// Text of a built-in scenario, or of a file.
pub fn text(name: &str) -> Result<String> {
    if let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    if !name.ends_with(".toml") {
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        let (near, names) = (hint(name, names.iter().copied()), names.join(", "));
        let why = format!("unknown scenario '{name}'{near}: one of {names}, or a .toml file");
        return Err(UsageError(why).into());
    }
    read_text(name.as_ref()).map_err(|error| of_file(name, error))
}

/// A built-in scenario, or one from a file.
pub fn read(name: &str) -> Result<Scenario> {
    read_from(name, &text(name)?)
}

fn read_from(file: &str, text: &str) -> Result<Scenario> {
    let found: Result<Scenario, _> = toml::from_str(text);
    let scenario = found.map_err(|error| UsageError(format!("{file}: {error}")))?;
    let scenario = Scenario { steps: spread(&scenario.steps), ..scenario };
    check(&scenario).map_err(|why| UsageError(format!("{file}: {why}")))?;
    Ok(scenario)
}

impl Step {
    /// Arguments of a client, from 1, with targets at these portals.
    ///
    /// # Errors
    ///
    /// A portal of a missing host.
    pub fn words(
        &self,
        client: u32,
        portals: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, String> {
        let filled = self.words_of(client).into_iter().map(|word| fill(&word, portals));
        let left = |word: &str, mark: &str| {
            PORTALS.iter().any(|portal| word.contains(&portal.replace('}', mark)))
        };
        let known = |word: String| match &word {
            word if left(word, "-") => {
                Err(format!("{word} names an unknown host: one of {}", self.hosts))
            }
            word if left(word, ":") => Err(format!("{word} names an unknown portal")),
            _ => Ok(word),
        };
        filled.map(known).collect()
    }

    /// Arguments of a client, from 1, in which the words for portals stay.
    pub fn words_of(&self, client: u32) -> Vec<String> {
        let mut words = self.each_client.get(client as usize - 1).cloned().unwrap_or_default();
        words.insert("client".to_owned(), client.to_string());
        self.run.iter().flat_map(|word| expand(&fill(word, &words))).collect()
    }
}

/// A step for each set of words.
fn spread(steps: &[Step]) -> Vec<Step> {
    let none = [BTreeMap::new()];
    let of = |step: &Step| {
        let sets = if step.each.is_empty() { &none[..] } else { &step.each[..] };
        let with = |words: &BTreeMap<String, String>| Step {
            id: fill(&step.id, words),
            each: Vec::new(),
            files: step.files.iter().map(|(n, t)| (n.clone(), fill(t, words))).collect(),
            serve: step.serve.iter().flat_map(|word| expand(&fill(word, words))).collect(),
            run: step.run.iter().flat_map(|word| expand(&fill(word, words))).collect(),
            ..step.clone()
        };
        sets.iter().map(with).collect::<Vec<Step>>()
    };
    steps.iter().flat_map(of).collect()
}

/// Whether a name is valid for a file: only letters, digits, dots, dashes and underscores.
pub fn is_plain(name: &str) -> bool {
    let may = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(may)
}

/// Checks the process settings of a step.
fn check_step(step: &Step) -> Result<(), String> {
    let id = &step.id;
    if !(1..=CLIENTS_MAX).contains(&step.clients) || step.run.is_empty() {
        return Err(format!("step '{id}': needs 1 to {CLIENTS_MAX} clients and a run"));
    }
    let Step { hosts, times, .. } = step;
    if !(1..=HOSTS_MAX).contains(hosts) {
        return Err(format!("step '{id}': hosts = {hosts}: 1 to {HOSTS_MAX}"));
    }
    if (*hosts > 1 || step.wire_bits.is_some()) && step.serve.is_empty() {
        return Err(format!("step '{id}': hosts and wire_bits need serve"));
    }
    if let Some(bits) = step.wire_bits.filter(|bits| !(1e6..=1e12).contains(bits)) {
        return Err(format!("step '{id}': wire_bits = {bits}: 1e6 to 1e12 bits per second"));
    }
    if !(0.1..=1000.0).contains(times) {
        return Err(format!("step '{id}': times = {times}: 0.1 to 1000"));
    }
    let count = step.each_client.len();
    if count > 0 && count != step.clients as usize {
        return Err(format!(
            "step '{id}': each_client has {count} argument lists for {} clients",
            step.clients
        ));
    }
    let asks = |word: &&str| step.run.iter().any(|argument| argument.contains(*word));
    if let Some(word) = PORTALS.into_iter().find(asks).filter(|_| step.serve.is_empty()) {
        return Err(format!("step '{id}': {word} needs serve"));
    }
    let mut drives = step.run.iter().filter(|word| word.starts_with("delay:"));
    let mut seen = BTreeSet::new();
    if let Some(twice) = drives.find(|drive| !seen.insert(drive.as_str())) {
        return Err(format!("step '{id}': {twice} twice is one drive: let its size differ"));
    }
    Ok(())
}

fn check(scenario: &Scenario) -> Result<(), String> {
    let mut steps: BTreeMap<&str, Way> = BTreeMap::new();
    if !is_plain(&scenario.name) {
        return Err(format!("name = \"{}\": letters, digits, - _ . alone", scenario.name));
    }
    for step in &scenario.steps {
        let id = &step.id;
        if !is_plain(id) || step.files.keys().any(|name| !is_plain(name)) {
            return Err(format!("step '{id}' and its files: letters, digits, - _ . alone"));
        }
        if id == super::rows::VERIFY || steps.insert(id, step.way).is_some() {
            return Err(format!("two steps are called '{id}'"));
        }
        check_step(step)?;
    }
    let mut rows = BTreeSet::new();
    for row in &scenario.rows {
        if !rows.insert(row.id.as_str()) {
            return Err(format!("two rows are called '{}'", row.id));
        }
        let document = [row.published, row.derived];
        let wrong = |value: f64| !value.is_finite() || value == 0.0;
        if document.into_iter().flatten().any(wrong) || row.scale <= 0.0 {
            let id = &row.id;
            return Err(format!("row '{id}': published, derived and scale are numbers beyond 0"));
        }
        if row.published.is_some() && row.derived.is_some() {
            return Err(format!("row '{}': published or derived, not both", row.id));
        }
        if row.published.or(row.derived).is_none() && row.modelled.is_none() {
            return Err(format!("row '{}': neither published nor modelled", row.id));
        }
        for (place, way) in [(&row.modelled, Way::Modelled), (&row.live, Way::Live)] {
            let Some(place) = place else { continue };
            if place.step.is_some() == place.verify.is_some() {
                return Err(format!("row '{}': a figure needs a step or verify", row.id));
            }
            for step in place.step.iter().chain(&place.over) {
                if steps.get(step.as_str()) != Some(&way) {
                    let way = if way == Way::Live { "live" } else { "modelled" };
                    return Err(format!("row '{}': there is no {way} step '{step}'", row.id));
                }
            }
        }
    }
    for point in scenario.series.iter().flat_map(|series| &series.points) {
        if !rows.contains(point.1.as_str()) {
            return Err(format!("series: there is no row '{}'", point.1));
        }
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    const HEAD: &str = "name='a'\ntitle='t'\nsource='s'\nscaled='1:1'\n";

    fn why(text: &str) -> String {
        read_from("x.toml", &format!("{HEAD}{text}")).unwrap_err().to_string()
    }

    #[test]
    fn those_that_come_along_are_sound() {
        let all = shipped().unwrap();
        for (scenario, (name, _)) in all.iter().zip(SHIPPED) {
            assert_eq!(scenario.name, name);
            assert!(scenario.rows.iter().any(|row| row.modelled.is_some()), "{name}");
            for row in &scenario.rows {
                // A row without a figure has a reason.
                assert!(row.modelled.is_some() || !row.why.is_empty(), "{name}: {}", row.id);
                let place = row.modelled.as_ref().and_then(|place| place.verify.as_ref());
                let is_arithmetic = place.is_some_and(|[case, _]| case == "arithmetic");
                let has_reason = row.live.is_some() || is_arithmetic || !row.no_live.is_empty();
                assert!(has_reason, "{name}: {}: why is there no live figure?", row.id);
            }
        }
    }

    #[test]
    fn wrong_files_are_named() {
        let row = "[[row]]\nid='r'\nfigure='f'\npublished=1.0\nunit='IOPS'\n";
        assert!(why(&format!("{row}live={{step='no'}}")).contains("no live step 'no'"));
        assert!(why(&format!("{row}{row}")).contains("two rows are called 'r'"));
        assert!(why(&format!("{row}more=1")).contains("more"));
        assert!(why("[[row]]\nid='r'\nfigure='f'\nunit='s'").contains("neither published nor"));
        assert!(why(&format!("{row}derived=2.0")).contains("published or derived"));
        let step = "[[step]]\nid='../up'\nway='live'\nrun=['race']\n";
        assert!(why(&format!("{row}{step}")).contains("'../up'"));
        let step = "[[step]]\nid='s'\nway='live'\nclients=0\nrun=['race']\n";
        assert!(why(&format!("{row}{step}")).contains("1 to 64 clients"));
        let step =
            "[[step]]\nid='s'\nway='live'\nrun=['run','delay:d(ram:4m)','delay:d(ram:4m)']\n";
        assert!(why(&format!("{row}{step}")).contains("is one drive"));
        let step = "[[step]]\nid='s'\nway='live'\nrun=['run','iscsi://{iscsi}/iqn.a/1']\n";
        assert!(why(&format!("{row}{step}")).contains("{iscsi} needs serve"));
        assert!(read("no-such").unwrap_err().to_string().contains("third-io-iris"));
    }

    #[test]
    fn clients_find_the_hosts_that_there_are() {
        let row = "[[row]]\nid='r'\nfigure='f'\npublished=1.0\nunit='IOPS'\n";
        let step = "[[step]]\nid='s'\nway='live'\nhosts=3\nclients=2\n\
            each_client=[{of='{1..2}'},{of='{3..4}'}]\nserve=['--iscsi','{address}:0']\n\
            run=['run','iscsi://{iscsi-{of}}/iqn.a/1','{client}']\n";
        let found = read_from("x.toml", &format!("{HEAD}{row}{step}")).unwrap();
        let portals: BTreeMap<String, String> =
            (1..=3).map(|host| (format!("iscsi-{host}"), format!("h{host}:1"))).collect();
        let words = found.steps[0].words(1, &portals).unwrap();
        assert_eq!(words, ["run", "iscsi://h1:1/iqn.a/1", "iscsi://h2:1/iqn.a/1", "1"]);
        let lost = found.steps[0].words(2, &portals).unwrap_err();
        assert!(lost.contains("{iscsi-4}") && lost.contains("one of 3"), "{lost}");
        for (wrong, said) in [
            ("hosts=0", "hosts = 0: 1 to"),
            ("hosts=251", "hosts = 251: 1 to"),
            ("hosts=3\nwire_bits=10", "wire_bits = 10"),
            ("hosts=3\ntimes=0", "times = 0"),
            ("hosts=3\nclients=3", "duplicate key"),
        ] {
            let step = step.replace("hosts=3", wrong);
            assert!(why(&format!("{row}{step}")).contains(said), "{wrong}");
        }
        let one = step.replace("clients=2", "clients=1");
        assert!(why(&format!("{row}{one}")).contains("each_client has 2 argument lists"));
        let bare = step.replace("serve=['--iscsi','{address}:0']\n", "");
        assert!(why(&format!("{row}{bare}")).contains("need serve"));
    }

    #[test]
    fn a_step_is_spread_over_its_words() {
        let text = "[[row]]\nid='r'\nfigure='f'\npublished=1.0\nunit='IOPS'\n\
            [[step]]\nid='s-{n}'\nway='live'\neach=[{n='1'},{n='2'}]\nrun=['run','ram:{n}m']\n";
        let found = read_from("x.toml", &format!("{HEAD}{text}")).unwrap();
        let shown: Vec<_> =
            found.steps.iter().map(|s| (s.id.as_str(), s.run[1].as_str())).collect();
        assert_eq!(shown, [("s-1", "ram:1m"), ("s-2", "ram:2m")]);
    }
}
