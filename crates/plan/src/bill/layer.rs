//! Layers of a bill: what else I/Os go through, where no part and no key says it.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use catalogue::read::{RawFigure, RawPart, RawSource, line_of};
use catalogue::{Class, Kind};

/// Most layers of a bill.
const LAYERS_MAX: usize = 8;
/// What figures of layers name as their source.
const SOURCE: &str = "layers-of-the-bill";

/// What goes through a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Every I/O.
    #[default]
    All,
    /// Reads only.
    Reads,
    /// Writes only.
    Writes,
}

/// A layer of each host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Layer {
    /// The part that holds its figures: `iops`, `bandwidth` and `added_latency`.
    pub part: String,
    /// What goes through it.
    pub of: Of,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLayer {
    #[serde(deserialize_with = "catalogue::line::read")]
    name: String,
    latency_us: Option<f64>,
    iops: Option<f64>,
    /// MB/s.
    bandwidth: Option<f64>,
    #[serde(default)]
    of: Of,
    #[serde(default = "guess")]
    kind: Kind,
}

fn guess() -> Kind {
    Kind::Guess
}

/// The layers, each with the part that holds its figures; the error is a line and the reason.
pub(super) fn layers(
    text: &str,
    raw: Vec<Spanned<RawLayer>>,
) -> Result<Vec<(Layer, RawPart)>, (usize, String)> {
    if raw.len() > LAYERS_MAX {
        return Err((1, format!("{} layers: {LAYERS_MAX} at most", raw.len())));
    }
    let checked = |(number, layer): (usize, Spanned<RawLayer>)| {
        let span = layer.span();
        let RawLayer { name, latency_us, iops, bandwidth, of, kind } = layer.into_inner();
        let told = [
            ("added_latency", latency_us, "us"),
            ("iops", iops, "IOPS"),
            ("bandwidth", bandwidth, "MB/s"),
        ];
        let figures: Vec<_> = told
            .into_iter()
            .filter_map(|(is, value, unit)| Some(RawFigure::new(is, value?, unit, kind, SOURCE)))
            .map(|figure| Spanned::new(span.clone(), figure))
            .collect();
        if figures.is_empty() {
            let why = format!("layer {name}: give latency_us, iops or bandwidth");
            return Err((line_of(text, span.start), why));
        }
        let id = format!("layer-{}", number + 1);
        let part = Layer { part: id.clone(), of };
        Ok((part, RawPart::new(Spanned::new(span, id), name, Class::Software, figures)))
    };
    raw.into_iter().enumerate().map(checked).collect()
}

/// The source of what layers do: who wrote the bill.
pub(super) fn source() -> (String, RawSource) {
    (SOURCE.to_owned(), RawSource::new("who wrote the bill"))
}
