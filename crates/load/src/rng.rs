//! Random numbers: fast, named, and the same on every machine.

/// xoshiro256++ by Blackman and Vigna, 2019: 0.6 ns a number, period 2²⁵⁶−1.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The stream number `stream` of `seed`. Streams of one seed do not resemble each other.
    pub fn new(seed: u64, stream: u64) -> Rng {
        // splitmix64 fills the state, as the authors advise; the stream enters through a multiple
        // that no other stream is near.
        let mut state = seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Rng([(); 4].map(|()| splitmix(&mut state)))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `limit`, each as likely: the bias of the multiplication is below
    /// `limit` / 2⁶⁴.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from 0 to below 1, in steps of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// True with a probability of `share` / 2³².
    #[inline]
    pub fn chance(&mut self, share: u64) -> bool {
        self.next() >> 32 < share
    }
}

/// The next number of splitmix64, which turns a counter into well-mixed words.
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn is_the_published_generator() {
        // State 1, 2, 3, 4: the first outputs of the authors' reference program.
        let mut rng = Rng([1, 2, 3, 4]);
        let first: Vec<u64> = (0..4).map(|_| rng.next()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn draws_evenly() {
        let mut rng = Rng::new(1, 0);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[rng.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let sum: f64 = (0..100_000).map(|_| rng.unit()).sum();
        assert!((49_500.0..50_500.0).contains(&sum), "{sum}");
        let hits = (0..100_000).filter(|_| rng.chance(1 << 31)).count();
        assert!((49_000..51_000).contains(&hits), "{hits}");
        assert!(!rng.chance(0) && rng.chance(1 << 32));
    }

    #[test]
    fn streams_differ() {
        assert_ne!(Rng::new(1, 0).next(), Rng::new(1, 1).next());
        assert_eq!(Rng::new(7, 3).next(), Rng::new(7, 3).next());
    }
}
