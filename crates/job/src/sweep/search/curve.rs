//! Rate at which half of all runs meet the bound, by a curve through all of them.

/// Evaluated midpoints, in percent of the highest rate.
const MIDDLES: std::ops::RangeInclusive<u32> = 0..=102;
/// Evaluated widths of the curve: the range of rates in which it falls from 73 to 27 % is twice as
/// wide.
const WIDTHS: [f64; 8] = [0.3, 0.6, 1.2, 2.5, 5.0, 10.0, 20.0, 40.0];

/// Runs at one share of the highest rate: the share, the number that met the bound, and their
/// total.
pub(super) type Tried = (u32, u32, u32);

/// A logistic curve through runs, with all of its likely parameters.
pub(super) struct Curve {
    /// Midpoint, width and weight.
    places: Vec<(f64, f64, f64)>,
}

impl Curve {
    /// Fits these runs. By the prior every midpoint is equally likely, and a width half as likely
    /// as one that is a quarter of it: most distributions are steep.
    pub(super) fn through(tried: &[Tried]) -> Curve {
        let middles = MIDDLES.map(f64::from);
        let places = middles.flat_map(|middle| WIDTHS.map(|width| (middle, width)));
        let likely = |(middle, width): (f64, f64)| {
            let of = |(share, held, of): &Tried| {
                let x = (f64::from(*share) - middle) / width;
                // ln of the probabilities to meet and to miss: −ln(1 + e^x) and −ln(1 + e^−x).
                let (hold, miss) = (-softplus(x), -softplus(-x));
                f64::from(*held) * hold + f64::from(of - held) * miss
            };
            (middle, width, tried.iter().map(of).sum::<f64>() - 0.5 * width.ln())
        };
        let mut places: Vec<(f64, f64, f64)> = places.map(likely).collect();
        let best = places.iter().map(|place| place.2).fold(f64::NEG_INFINITY, f64::max);
        places.iter_mut().for_each(|place| place.2 = (place.2 - best).exp());
        let whole: f64 = places.iter().map(|place| place.2).sum();
        places.iter_mut().for_each(|place| place.2 /= whole);
        Curve { places }
    }

    /// Returns the share at which half of all runs meet the bound: the weighted mean of the
    /// midpoints.
    pub(super) fn middle(&self) -> f64 {
        self.places.iter().map(|(middle, _, weight)| middle * weight).sum()
    }

    /// Returns the distance from the midpoint at which six of seven runs agree, by the weighted
    /// geometric mean of the widths.
    pub(super) fn reach(&self) -> f64 {
        let ln = self.places.iter().map(|(_, width, weight)| width.ln() * weight).sum::<f64>();
        6.0_f64.ln() * ln.exp()
    }
}

/// Returns ln(1 + e^x), without overflow of e^x.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_middle_of_a_step_lies_within_it() {
        let step: Vec<Tried> = (2..=100).step_by(2).map(|s| (s, u32::from(s <= 60), 1)).collect();
        let curve = Curve::through(&step);
        assert!((curve.middle() - 61.0).abs() < 0.1, "{}", curve.middle());
        assert!(curve.reach() < 3.0, "{}", curve.reach());
        let all = Curve::through(&[(50, 1, 1), (75, 1, 1), (100, 7, 7)]);
        assert!(all.middle() > 99.0, "{}", all.middle());
        let none = Curve::through(&[(50, 0, 1), (2, 0, 7)]);
        assert!(none.middle() < 3.0, "{}", none.middle());
    }
}
