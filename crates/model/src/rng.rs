//! Random numbers, the same on every machine.

/// xoshiro256++ by Blackman and Vigna, 2019.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// Stream number `stream` of `seed`; streams of one seed are independent.
    pub fn new(_seed: u64, _stream: u64) -> Rng {
        todo!()
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        todo!()
    }

    /// A number in [0, 1), with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        todo!()
    }

    /// A whole number below `limit`, each as likely.
    pub fn below(&mut self, _limit: u64) -> u64 {
        todo!()
    }
}
