//! A network as TOML.
//!
//! ```toml
//! [[station]]
//! name = "cores"
//! servers = 8                # or "infinite", or rates = [1.0, 1.8, 2.4]
//!
//! [[station]]
//! name = "device"
//! servers = 1
//! reserve = { capacity = 1e6, low = 1e3, high = 5e3, refill_per_s = 4e4, slowdown = 2.0 }
//!
//! [[class]]
//! name = "mixed"
//! population = 32            # or rate_per_s = 1000.0, with a shape of its own
//! think = { mean_s = 5e-6, shape = "fixed" }
//! route = [
//!   { visit = "cores", mean_s = 2e-6 },
//!   { choose = [
//!     { chance = 0.7, route = [{ visit = "device", mean_s = 80e-6, shape = { erlang = 4 } }] },
//!     { chance = 0.3, route = [{ visit = "device", mean_s = 20e-6, draws = 1.0 }] },
//!   ] },
//! ]
//! ```
//!
//! Other steps: `{ hold = "engine", mean_s = 1e-6, route = [ … ] }`, and `{ fork = [[ … ], [ … ]]
//! }`; `visit` may list several stations, of which each request takes a random one. Shapes are
//! `"fixed"`, `"exponential"` (the default), `{ erlang = stages }`, `{ hyperexponential = scv }`
//! and `{ empirical = [values] }`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    Class, Head, ModelError, Network, Reserve, Servers, Service, Shape, Source, Station, StationId,
    Step, Visit,
};

/// Maximum length, in bytes.
const TEXT_MAX: usize = 1 << 20;

/// Parses a network. Unknown keys, and values out of range, are refused with the key and its line.
///
/// # Errors
///
/// [`ModelError::Profile`] for the text, [`ModelError::Invalid`] for its values.
pub fn parse(text: &str) -> Result<Network, ModelError> {
    if text.len() > TEXT_MAX {
        let problem = format!("{} bytes; {TEXT_MAX} are possible", text.len());
        return Err(ModelError::Profile(problem));
    }
    let file: File =
        toml::from_str(text).map_err(|error| ModelError::Profile(error.to_string()))?;
    let names = file.station.iter().zip(0..);
    let names: HashMap<&str, StationId> =
        names.map(|(station, index)| (station.name.as_str(), StationId(index))).collect();
    let mut network = Network::default();
    for class in file.class {
        network.classes.push(read_class(class, &names)?);
    }
    network.stations = file.station.into_iter().map(read_station).collect::<Result<_, _>>()?;
    network.check()?;
    Ok(network)
}

/// Prints a network so that [`parse`] reads the same one.
///
/// # Errors
///
/// What [`Network::check`] says.
pub fn print(network: &Network) -> Result<String, ModelError> {
    network.check()?;
    let station = network.stations.iter().map(write_station).collect();
    let class = network.classes.iter().map(|class| write_class(network, class)).collect();
    toml::to_string(&File { station, class })
        .map_err(|error| ModelError::Profile(error.to_string()))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    station: Vec<FileStation>,
    class: Vec<FileClass>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileStation {
    name: String,
    servers: Option<FileServers>,
    rates: Option<Vec<f64>>,
    reserve: Option<Reserve>,
    head: Option<Head>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "a number of servers, or \"infinite\"")]
enum FileServers {
    Count(u32),
    Word(Infinite),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Infinite {
    Infinite,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileClass {
    name: String,
    population: Option<u32>,
    think: Option<FileService>,
    rate_per_s: Option<f64>,
    shape: Option<FileShape>,
    route: Vec<FileStep>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileService {
    mean_s: f64,
    shape: Option<FileShape>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileShape {
    Fixed,
    Exponential,
    Erlang(u32),
    Hyperexponential(f64),
    Empirical(Vec<f64>),
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileStep {
    visit: Option<Names>,
    hold: Option<Names>,
    fork: Option<Vec<Vec<FileStep>>>,
    choose: Option<Vec<FileBranch>>,
    mean_s: Option<f64>,
    shape: Option<FileShape>,
    draws: Option<f64>,
    route: Option<Vec<FileStep>>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "the name of a station, or a list of names")]
enum Names {
    One(String),
    Several(Vec<String>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileBranch {
    chance: f64,
    route: Vec<FileStep>,
}

fn read_station(file: FileStation) -> Result<Station, ModelError> {
    let servers = match (file.servers, file.rates) {
        (Some(FileServers::Count(count)), None) => Servers::Count(count),
        (Some(FileServers::Word(Infinite::Infinite)), None) => Servers::Infinite,
        (None, Some(rates)) => Servers::Rates(rates),
        _ => {
            let place = format!("station '{}'", file.name);
            return Err(ModelError::invalid(place, "either `servers` or `rates` is needed"));
        }
    };
    Ok(Station { name: file.name, servers, reserve: file.reserve, head: file.head })
}

fn read_class(file: FileClass, names: &HashMap<&str, StationId>) -> Result<Class, ModelError> {
    let place = format!("class '{}'", file.name);
    let source = match (file.population, file.rate_per_s) {
        (Some(population), None) if file.shape.is_none() => {
            let think = file.think.map_or_else(|| Service::fixed(0.0), read_service);
            Source::Closed { population, think }
        }
        (None, Some(rate)) if file.think.is_none() => {
            let shape = file.shape.map_or(Shape::Exponential, read_shape);
            Source::Open { gap: Service { mean_s: 1.0 / rate, shape } }
        }
        _ => {
            let problem = "either `population`, perhaps with `think`, or `rate_per_s`, perhaps \
                           with `shape`, is needed";
            return Err(ModelError::invalid(place, problem));
        }
    };
    let route = read_route(file.route, &place, names)?;
    Ok(Class { name: file.name, source, route })
}

fn read_route(
    file: Vec<FileStep>,
    place: &str,
    names: &HashMap<&str, StationId>,
) -> Result<Vec<Step>, ModelError> {
    (1..).zip(file).map(|(n, step)| read_step(step, &format!("{place}, step {n}"), names)).collect()
}

fn read_step(
    file: FileStep,
    place: &str,
    names: &HashMap<&str, StationId>,
) -> Result<Step, ModelError> {
    let FileStep { visit, hold, fork, choose, mean_s, shape, draws, route } = file;
    let plain = mean_s.is_none() && shape.is_none() && draws.is_none() && route.is_none();
    match (visit, hold, fork, choose) {
        (Some(at), None, None, None) if route.is_none() => {
            Ok(Step::Visit(read_visit(at, mean_s, shape, draws, place, names)?))
        }
        (None, Some(at), None, None) => {
            let visit = read_visit(at, mean_s, shape, draws, place, names)?;
            Ok(Step::Hold(visit, read_route(route.unwrap_or_default(), place, names)?))
        }
        (None, None, Some(branches), None) if plain => {
            let read = |route| read_route(route, place, names);
            Ok(Step::Fork(branches.into_iter().map(read).collect::<Result<_, _>>()?))
        }
        (None, None, None, Some(branches)) if plain => {
            let read =
                |branch: FileBranch| Ok((branch.chance, read_route(branch.route, place, names)?));
            Ok(Step::Choose(branches.into_iter().map(read).collect::<Result<_, _>>()?))
        }
        _ => {
            let problem = "one of `visit`, `hold`, `fork` and `choose` is needed; `mean_s`, \
                           `shape` and `draws` go with `visit` and `hold`, `route` with `hold`";
            Err(ModelError::invalid(place, problem))
        }
    }
}

fn read_visit(
    at: Names,
    mean_s: Option<f64>,
    shape: Option<FileShape>,
    draws: Option<f64>,
    place: &str,
    names: &HashMap<&str, StationId>,
) -> Result<Visit, ModelError> {
    let Some(mean_s) = mean_s else {
        return Err(ModelError::invalid(place, "`mean_s` is needed"));
    };
    let at = match at {
        Names::One(name) => vec![name],
        Names::Several(names) => names,
    };
    let find = |name: &String| {
        let unknown = || ModelError::invalid(place, format!("there is no station '{name}'"));
        names.get(name.as_str()).copied().ok_or_else(unknown)
    };
    let at = at.iter().map(find).collect::<Result<_, _>>()?;
    let service = read_service(FileService { mean_s, shape });
    Ok(Visit { at, service, draws: draws.unwrap_or(0.0) })
}

fn read_service(file: FileService) -> Service {
    Service { mean_s: file.mean_s, shape: file.shape.map_or(Shape::Exponential, read_shape) }
}

fn read_shape(file: FileShape) -> Shape {
    match file {
        FileShape::Fixed => Shape::Deterministic,
        FileShape::Exponential => Shape::Exponential,
        FileShape::Erlang(stages) => Shape::Erlang(stages),
        FileShape::Hyperexponential(scv) => Shape::Hyperexponential(scv),
        FileShape::Empirical(values) => Shape::Empirical(values),
    }
}

fn write_station(station: &Station) -> FileStation {
    let (servers, rates) = match &station.servers {
        Servers::Count(count) => (Some(FileServers::Count(*count)), None),
        Servers::Infinite => (Some(FileServers::Word(Infinite::Infinite)), None),
        Servers::Rates(rates) => (None, Some(rates.clone())),
    };
    let name = station.name.clone();
    let (reserve, head) = (station.reserve.clone(), station.head.clone());
    FileStation { name, servers, rates, reserve, head }
}

fn write_class(network: &Network, class: &Class) -> FileClass {
    let mut file = FileClass {
        name: class.name.clone(),
        population: None,
        think: None,
        rate_per_s: None,
        shape: None,
        route: write_route(network, &class.route),
    };
    match &class.source {
        Source::Closed { population, think } => {
            (file.population, file.think) = (Some(*population), Some(write_service(think)));
        }
        Source::Open { gap } => {
            (file.rate_per_s, file.shape) = (Some(rate(gap.mean_s)), Some(write_shape(gap)));
        }
    }
    file
}

/// The rate whose inverse is `gap_s` to the last bit; the nearest where there is none.
fn rate(gap_s: f64) -> f64 {
    let near = 1.0 / gap_s;
    let exact = [near, near.next_up(), near.next_down()].into_iter().find(|r| 1.0 / r == gap_s);
    exact.unwrap_or(near)
}

fn write_route(network: &Network, route: &[Step]) -> Vec<FileStep> {
    route.iter().map(|step| write_step(network, step)).collect()
}

fn write_step(network: &Network, step: &Step) -> FileStep {
    let visited = |visit: &Visit| {
        let names: Vec<String> = visit.at.iter().map(|at| network.name(*at).to_owned()).collect();
        let service = write_service(&visit.service);
        let file = FileStep {
            mean_s: Some(service.mean_s),
            shape: service.shape,
            draws: (visit.draws > 0.0).then_some(visit.draws),
            ..FileStep::default()
        };
        match <[String; 1]>::try_from(names) {
            Ok([name]) => (Names::One(name), file),
            Err(names) => (Names::Several(names), file),
        }
    };
    match step {
        Step::Visit(visit) => {
            let (names, file) = visited(visit);
            FileStep { visit: Some(names), ..file }
        }
        Step::Hold(visit, inner) => {
            let (names, file) = visited(visit);
            FileStep { hold: Some(names), route: Some(write_route(network, inner)), ..file }
        }
        Step::Fork(branches) => {
            let branches = branches.iter().map(|route| write_route(network, route)).collect();
            FileStep { fork: Some(branches), ..FileStep::default() }
        }
        Step::Choose(branches) => {
            let branch = |(chance, route): &(f64, Vec<Step>)| FileBranch {
                chance: *chance,
                route: write_route(network, route),
            };
            let branches = branches.iter().map(branch).collect();
            FileStep { choose: Some(branches), ..FileStep::default() }
        }
    }
}

fn write_service(service: &Service) -> FileService {
    FileService { mean_s: service.mean_s, shape: Some(write_shape(service)) }
}

fn write_shape(service: &Service) -> FileShape {
    match &service.shape {
        Shape::Deterministic => FileShape::Fixed,
        Shape::Exponential => FileShape::Exponential,
        Shape::Erlang(stages) => FileShape::Erlang(*stages),
        Shape::Hyperexponential(scv) => FileShape::Hyperexponential(*scv),
        Shape::Empirical(values) => FileShape::Empirical(values.clone()),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const EVERYTHING: &str = r#"
        [[station]]
        name = "cores"
        servers = 8
        [[station]]
        name = "wire"
        servers = "infinite"
        [[station]]
        name = "lock"
        rates = [1.0, 0.9, 0.7]
        [[station]]
        name = "device"
        servers = 4
        reserve = { capacity = 1e6, low = 1e3, high = 5e3, refill_per_s = 4e4, slowdown = 2 }

        [[class]]
        name = "mixed"
        population = 32
        think = { mean_s = 5e-6, shape = "fixed" }
        route = [
          { visit = "cores", mean_s = 2e-6 },
          { visit = ["wire", "lock"], mean_s = 1e-6, shape = { hyperexponential = 3.0 } },
          { choose = [
            { chance = 0.7, route = [{ visit = "device", mean_s = 8e-5, shape = { erlang = 4 } }] },
            { chance = 0.3, route = [{ visit = "device", mean_s = 2e-5, draws = 1.0 }] },
          ] },
        ]
        [[class]]
        name = "paced"
        rate_per_s = 3000.0
        shape = { empirical = [1, 2, 3] }
        route = [
          { hold = "cores", mean_s = 1e-6, route = [{ visit = "wire", mean_s = 1e-6 }] },
          { fork = [[{ visit = "device", mean_s = 2e-5 }], [{ visit = "wire", mean_s = 3e-5 }]] },
        ]
    "#;

    #[test]
    fn what_is_printed_is_read_again() {
        let network = parse(EVERYTHING).unwrap();
        assert_eq!(network.classes[1].route.len(), 2);
        assert_eq!(network.stations[2].servers, Servers::Rates(vec![1.0, 0.9, 0.7]));
        let again = parse(&print(&network).unwrap()).unwrap();
        assert_eq!(again, network);
    }

    #[test]
    fn nonsense_is_refused_with_its_key() {
        let cases = [
            ("servers = 8", "servers = 0", "cores"),
            ("servers = 8", "servers = -8", "servers"),
            ("servers = 8", "serverz = 8", "serverz"),
            ("mean_s = 2e-6", "mean_s = nan", "NaN"),
            ("mean_s = 2e-6", "mean_s = -2e-6", "cores"),
            ("mean_s = 2e-6", "mean_s = 2e9", "cores"),
            ("mean_s = 2e-6", "mean_us = 2.0", "mean_us"),
            ("mean_s = 2e-6", "shape = \"fixed\"", "mean_s"),
            ("visit = \"cores\"", "visit = \"coars\"", "coars"),
            ("chance = 0.7", "chance = 0.8", "sum"),
            ("rates = [1.0", "rates = [0.0", "lock"),
            ("erlang = 4", "erlang = 0", "stages"),
            ("population = 32", "population = 99999999", "mixed"),
            ("population = 32", "rate_per_s = 1.0", "population"),
            ("rate_per_s = 3000.0", "rate_per_s = inf", "paced"),
            ("rate_per_s = 3000.0", "rate_per_s = -1", "paced"),
            ("draws = 1.0", "draws = 2e6", "draws"),
            ("low = 1e3", "low = 6e3", "low"),
            ("name = \"paced\"", "name = \"mixed\"", "taken"),
        ];
        for (right, wrong, word) in cases {
            assert!(EVERYTHING.contains(right), "{right}");
            let error = parse(&EVERYTHING.replacen(right, wrong, 1)).unwrap_err().to_string();
            assert!(error.contains(word), "{wrong}: {error}");
        }
        assert!(parse("").is_err() && parse(&"#".repeat(TEXT_MAX + 1)).is_err());
    }

    #[test]
    fn depth_and_size_have_their_limits() {
        let head =
            "[[station]]\nname = \"a\"\nservers = 1\n[[class]]\nname = \"c\"\npopulation = 1\n";
        let nested = |depth: usize| {
            let visit = "{ visit = \"a\", mean_s = 1e-6 }";
            let (open, close) = ("{ fork = [[".repeat(depth), "]] }".repeat(depth));
            parse(&format!("{head}route = [{open}{visit}{close}]\n"))
        };
        assert!(nested(15).is_ok());
        for depth in [18, 100, 60_000] {
            assert!(nested(depth).is_err(), "{depth}");
        }
        let visits = |count: usize| {
            let visits = "{ visit = \"a\", mean_s = 1e-6 },".repeat(count);
            parse(&format!("{head}route = [{visits}]\n"))
        };
        assert!(visits(4096).is_ok() && visits(4097).is_err());
    }
}
