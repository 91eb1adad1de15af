//! The columns of each table. Their names are a contract with scripts.

use stats::sweep::{Quantity, Setting};

use super::{ALL, Column, Kind, Of, Row, Rows, Value, latency};

/// A column: name, kind and source.
type Known = (&'static str, Kind, fn(&Row) -> Value);

/// Columns of every table: source, trust and job.
const RUN: [Known; 20] = [
    ("run", Kind::Text, |row| text(&row.source.run)),
    ("side", Kind::Text, |row| text(&row.source.side)),
    ("step", Kind::Whole, |row| Value::Whole(row.source.step)),
    ("repeat", Kind::Whole, |row| Value::Whole(row.source.repeat)),
    ("origin", Kind::Text, |row| text(row.result.origin.word())),
    ("figures", Kind::Text, |row| row.result.kind.map_or(Value::None, |kind| text(kind.word()))),
    ("class", Kind::Text, |row| text(row.result.class.word())),
    ("partial", Kind::Text, |row| text(row.result.partial.as_deref().unwrap_or_default())),
    ("started", Kind::Text, |row| text(&row.result.started)),
    ("job", Kind::Text, |row| text(&row.result.job.name)),
    ("size_bytes", Kind::Whole, |row| whole(row.result.job.size_bytes.map(u64::from))),
    ("read_percent", Kind::Real, |row| Value::Real(row.result.job.read_percent)),
    ("random_percent", Kind::Real, |row| Value::Real(row.result.job.random_percent)),
    ("outstanding", Kind::Whole, |row| whole(row.result.job.outstanding)),
    ("rate_per_s", Kind::Real, |row| real(row.result.job.rate_per_s)),
    ("workers", Kind::Whole, |row| Value::Whole(row.result.job.workers.into())),
    ("volumes", Kind::Whole, |row| Value::Whole(row.result.job.volumes.into())),
    ("targets", Kind::Whole, |row| Value::Whole(row.result.job.targets.into())),
    ("transport", Kind::Text, |row| text(&row.result.job.transport)),
    ("storage", Kind::Text, |row| text(&row.result.job.storage)),
];

const WORKER_SECONDS: [Known; 21] = [
    ("worker", Kind::Text, |row| text(row.worker.map_or(ALL, |worker| &worker.name[..]))),
    ("volume", Kind::Text, |row| row.worker.map_or(Value::None, |worker| text(&worker.volume))),
    ("target", Kind::Text, |row| row.worker.map_or(Value::None, |worker| text(&worker.target))),
    ("t_s", Kind::Real, |row| Value::Real(row.of_worker.t_s)),
    ("seconds", Kind::Real, |row| Value::Real(row.of_worker.seconds)),
    ("ios", Kind::Whole, |row| Value::Whole(row.of_worker.ios())),
    ("reads", Kind::Whole, |row| Value::Whole(row.of_worker.reads)),
    ("writes", Kind::Whole, |row| Value::Whole(row.of_worker.writes)),
    ("trims", Kind::Whole, |row| Value::Whole(row.of_worker.trims)),
    ("flushes", Kind::Whole, |row| Value::Whole(row.of_worker.flushes)),
    ("read_bytes", Kind::Whole, |row| Value::Whole(row.of_worker.read_bytes)),
    ("written_bytes", Kind::Whole, |row| Value::Whole(row.of_worker.written_bytes)),
    ("trimmed_bytes", Kind::Whole, |row| Value::Whole(row.of_worker.trimmed_bytes)),
    ("errors", Kind::Whole, |row| Value::Whole(row.of_worker.errors)),
    ("iops", Kind::Real, |row| per_s(row.of_worker.ios(), row)),
    ("read_iops", Kind::Real, |row| per_s(row.of_worker.reads, row)),
    ("write_iops", Kind::Real, |row| per_s(row.of_worker.writes, row)),
    ("bytes_per_s", Kind::Real, |row| per_s(bytes(row), row)),
    ("mean_outstanding", Kind::Real, |row| Value::Real(row.of_worker.mean_outstanding)),
    ("latency_mean_ns", Kind::Real, |row| real(row.of_worker.mean_ns)),
    ("latency_max_ns", Kind::Whole, |row| whole(row.of_worker.max_ns)),
];

const SECONDS: [Known; 20] = [
    ("t_s", Kind::Real, |row| Value::Real(row.second.t)),
    ("seconds", Kind::Real, |row| Value::Real(row.second.seconds)),
    ("ios", Kind::Whole, |row| Value::Whole(row.second.ios)),
    ("errors", Kind::Whole, |row| Value::Whole(row.second.errors)),
    ("iops", Kind::Real, |row| Value::Real(row.second.iops)),
    ("read_iops", Kind::Real, |row| Value::Real(row.second.read_iops)),
    ("write_iops", Kind::Real, |row| Value::Real(row.second.write_iops)),
    ("flush_iops", Kind::Real, |row| Value::Real(row.second.flush_iops)),
    ("bytes_per_s", Kind::Real, |row| Value::Real(row.second.bytes_per_second)),
    ("read_bytes_per_s", Kind::Real, |row| Value::Real(row.second.read_bytes_per_second)),
    ("written_bytes_per_s", Kind::Real, |row| Value::Real(row.second.write_bytes_per_second)),
    ("connections_lost", Kind::Whole, |row| Value::Whole(row.second.connections_lost)),
    ("reconnects", Kind::Whole, |row| Value::Whole(row.second.reconnects)),
    ("mean_outstanding", Kind::Real, |row| Value::Real(row.second.mean_outstanding)),
    ("latency_mean_ns", Kind::Real, |row| real(row.second.mean_ns)),
    ("latency_p50_ns", Kind::Whole, |row| whole(row.second.p50_ns)),
    ("latency_p99_ns", Kind::Whole, |row| whole(row.second.p99_ns)),
    ("latency_p99_9_ns", Kind::Whole, |row| whole(row.second.p99_9_ns)),
    ("latency_max_ns", Kind::Whole, |row| whole(row.second.max_ns)),
    ("oldest_ns", Kind::Whole, |row| whole(row.second.oldest_ns)),
];

const TOTALS: [Known; 17] = [
    ("direction", Kind::Text, |row| text(row.direction.0)),
    ("seconds", Kind::Real, |row| Value::Real(row.result.totals.seconds)),
    ("ios", Kind::Whole, |row| Value::Whole(row.direction.1.ios)),
    ("errors", Kind::Whole, |row| Value::Whole(row.direction.1.errors)),
    ("bytes", Kind::Whole, |row| Value::Whole(row.direction.1.bytes)),
    ("iops", Kind::Real, |row| Value::Real(row.direction.1.iops)),
    ("bytes_per_s", Kind::Real, |row| Value::Real(row.direction.1.bytes_per_second)),
    ("latency_samples", Kind::Whole, |row| Value::Whole(latency(row).samples)),
    ("latency_min_ns", Kind::Whole, |row| whole(latency(row).min)),
    ("latency_mean_ns", Kind::Real, |row| real(latency(row).mean)),
    ("latency_p50_ns", Kind::Whole, |row| whole(latency(row).p50)),
    ("latency_p90_ns", Kind::Whole, |row| whole(latency(row).p90)),
    ("latency_p99_ns", Kind::Whole, |row| whole(latency(row).p99)),
    ("latency_p99_9_ns", Kind::Whole, |row| whole(latency(row).p99_9)),
    ("latency_p99_99_ns", Kind::Whole, |row| whole(latency(row).p99_99)),
    ("latency_max_ns", Kind::Whole, |row| whole(latency(row).max)),
    ("waiting_from_ns", Kind::Whole, |row| whole(latency(row).waiting_from)),
];

fn text(text: &str) -> Value {
    if text.is_empty() { Value::None } else { Value::Text(text.to_owned()) }
}

fn whole(number: Option<u64>) -> Value {
    number.map_or(Value::None, Value::Whole)
}

fn real(number: Option<f64>) -> Value {
    number.map_or(Value::None, Value::Real)
}

fn bytes(row: &Row) -> u64 {
    let of = &row.of_worker;
    of.read_bytes.saturating_add(of.written_bytes).saturating_add(of.trimmed_bytes)
}

fn per_s(count: u64, row: &Row) -> Value {
    let seconds = row.of_worker.seconds;
    if seconds > 0.0 { Value::Real(count as f64 / seconds) } else { Value::None }
}

/// Returns the columns of a table: those of every run, one for each setting of a sweep, and those
/// of the table. `settings` are those of all cells of the table.
pub fn columns(which: Rows, settings: &[Setting]) -> Vec<Column> {
    let known = |(name, kind, of): &Known| Column {
        name: (*name).to_owned(),
        kind: *kind,
        of: Of::Known(*of),
    };
    let own = match which {
        Rows::WorkerSeconds => &WORKER_SECONDS[..],
        Rows::Seconds => &SECONDS,
        Rows::Totals => &TOTALS,
    };
    let mut words: Vec<&str> = Vec::new();
    for setting in settings {
        if !words.contains(&&setting.word[..]) {
            words.push(&setting.word);
        }
    }
    let axes = words.into_iter().map(|word| axis(word, settings));
    RUN.iter().map(known).chain(axes).chain(own.iter().map(known)).collect()
}

/// Makes the column of a setting: numbers if all its values are numbers of one unit, else text.
fn axis(word: &str, settings: &[Setting]) -> Column {
    let values = settings.iter().filter(|setting| setting.word == word);
    let all: Option<Vec<Quantity>> = values.map(Setting::quantity).collect();
    let unit = all.filter(|all| all.windows(2).all(|pair| pair[0].unit == pair[1].unit));
    let unit = unit.and_then(|all| Some(all.first()?.unit));
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let word_name: String = word.chars().map(plain).collect();
    let (kind, name) = match unit {
        None => (Kind::Text, format!("axis_{word_name}")),
        Some("") => (Kind::Real, format!("axis_{word_name}")),
        Some(unit) => (Kind::Real, format!("axis_{word_name}_{unit}")),
    };
    Column { name, kind, of: Of::Setting(word.to_owned()) }
}

/// Returns the names of the columns of a table without a sweep.
#[cfg(test)]
pub(super) fn names(which: Rows) -> Vec<String> {
    columns(which, &[]).into_iter().map(|column| column.name).collect()
}
