//! Random numbers, identical on every machine: offsets and contents of I/Os, arrivals, simulation.
//!
//! Integers come from shifts and rotations, fractions from exact scaling, and the logarithm from
//! additions, multiplications and one division, which IEEE 754 defines to the last bit. The `ln` of
//! the C library differs between machines.

/// xoshiro256++ by Blackman and Vigna, 2019: 0.6 ns a number, period 2²⁵⁶−1.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// Stream number `stream` of `seed`. Streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Rng {
        // splitmix64 fills the state, as the authors advise; mixing the stream first keeps it away
        // from neighbouring seeds.
        let mut state = stream;
        state = seed ^ splitmix(&mut state);
        Rng([(); 4].map(|()| splitmix(&mut state)))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number in [0, 1), a multiple of 2⁻⁵³.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * UNIT
    }

    /// A number in (0, 1], a multiple of 2⁻⁵³: it has a logarithm.
    #[inline]
    fn positive(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * UNIT
    }

    /// An integer below `limit`, uniformly: the bias is below `limit` / 2⁶⁴. Zero for a limit of
    /// zero.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// True with a probability of `share` / 2³².
    #[inline]
    pub fn chance(&mut self, share: u64) -> bool {
        self.next_u64() >> 32 < share
    }

    /// An exponentially distributed number with mean 1, at most 36.8.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -ln(self.positive())
    }

    /// A sum of `stages` exponential numbers with mean 1: the logarithm of a product, taken before
    /// the product underflows.
    pub fn erlang(&mut self, stages: u32) -> f64 {
        let (mut sum, mut product) = (0.0, 1.0);
        for _ in 0..stages {
            product *= self.positive();
            if product < 1e-200 {
                sum -= ln(product);
                product = 1.0;
            }
        }
        sum - ln(product)
    }
}

/// 2⁻⁵³
const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// The next number of splitmix64, a bijection of its counter.
#[inline]
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Natural logarithm of a normal positive number, to 3·10⁻¹⁵, with the same bits everywhere.
///
/// x = m·2ᵉ with m in [√½, √2); ln m = 2 artanh s with s = (m − 1)/(m + 1), a series in s² ≤ 0.0295
/// of which ten terms are left.
#[inline]
fn ln(x: f64) -> f64 {
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    // The exponent that leaves a mantissa in [√½, √2).
    let exponent = (x.to_bits().wrapping_sub(SQRT_HALF_BITS) as i64) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub((exponent << 52) as u64));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let z2 = z * z;
    let z4 = z2 * z2;
    // Independent pairs, which the CPU adds in parallel.
    let low = (1.0 + z * (1.0 / 3.0)) + z2 * (1.0 / 5.0 + z * (1.0 / 7.0));
    let middle = (1.0 / 9.0 + z * (1.0 / 11.0)) + z2 * (1.0 / 13.0 + z * (1.0 / 15.0));
    let high = 1.0 / 17.0 + z * (1.0 / 19.0);
    let series = low + z4 * (middle + z4 * high);
    2.0 * s * series + exponent as f64 * std::f64::consts::LN_2
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn is_the_published_generator() {
        // State 1, 2, 3, 4: the first outputs of the authors' reference program.
        let mut rng = Rng([1, 2, 3, 4]);
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn logarithm_is_right_and_its_bits_are_fixed() {
        let mut rng = Rng::new(1, 0);
        for _ in 0..100_000 {
            let x = rng.positive() * 4.0;
            let error = (ln(x) - x.ln()).abs();
            assert!(error <= 3e-15 * x.ln().abs().max(0.1), "{x}: {error}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert!((ln(1e-300) + 690.775_527_898_213_7).abs() < 1e-12);
        // Computed by the same formula in another language. A machine with other bits breaks the
        // promise of this module.
        let bits = [0.1, 0.5, 0.7, 3.0, 1e-9].map(|x: f64| ln(x).to_bits());
        assert_eq!(bits, FIXED_BITS);
    }

    const FIXED_BITS: [u64; 5] = [
        0xc002_6bb1_bbb5_5515,
        0xbfe6_2e42_fefa_39ef,
        0xbfd6_d3c3_24e1_3f4f,
        0x3ff1_93ea_7aad_030a,
        0xc034_b927_f32b_ffb8,
    ];

    #[test]
    fn draws_evenly() {
        let mut rng = Rng::new(1, 0);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[rng.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let sum: f64 = (0..100_000).map(|_| rng.uniform()).sum();
        assert!((49_500.0..50_500.0).contains(&sum), "{sum}");
        let hits = (0..100_000).filter(|_| rng.chance(1 << 31)).count();
        assert!((49_000..51_000).contains(&hits), "{hits}");
        assert!(!rng.chance(0) && rng.chance(1 << 32));
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn streams_differ() {
        assert_ne!(Rng::new(1, 0).next_u64(), Rng::new(1, 1).next_u64());
        assert_ne!(Rng::new(0, 1).next_u64(), Rng::new(1, 0).next_u64());
        assert_eq!(Rng::new(7, 3).next_u64(), Rng::new(7, 3).next_u64());
    }

    #[test]
    fn exponential_has_its_moments() {
        let mut rng = Rng::new(3, 0);
        let n = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = rng.exponential();
            sum += x;
            squares += x * x;
        }
        // Mean 1 and second moment 2, within five standard errors.
        assert!((sum / f64::from(n) - 1.0).abs() < 0.011, "{sum}");
        assert!((squares / f64::from(n) - 2.0).abs() < 0.05, "{squares}");
    }
}
