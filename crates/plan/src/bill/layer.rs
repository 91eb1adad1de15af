//! Layers of a bill: stages of I/Os that are in no part and no key.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use catalogue::read::{RawFigure, RawPart, RawSource, line_of};
use catalogue::{Class, Kind};

/// Maximum number of layers of a bill.
const LAYERS_MAX: usize = 8;
/// Source of the figures of layers.
const SOURCE: &str = "layers-of-the-bill";

/// I/Os that pass a layer.
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
    /// Part with the figures of the layer: `iops`, `bandwidth` and `added_latency`.
    pub part: String,
    /// I/Os that pass the layer.
    pub of: Of,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLayer {
    #[serde(deserialize_with = "catalogue::line::read")]
    name: String,
    latency_us: Option<f64>,
    iops: Option<f64>,
    /// Bandwidth in MB/s.
    bandwidth: Option<f64>,
    #[serde(default)]
    of: Of,
    #[serde(default = "guess")]
    kind: Kind,
}

fn guess() -> Kind {
    Kind::Guess
}

/// Returns the layers, each with the part that has its figures; the error is a line and the reason.
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

/// Returns the source of the layers' figures: the author of the bill.
pub(super) fn source() -> (String, RawSource) {
    (SOURCE.to_owned(), RawSource::new("who wrote the bill"))
}
