//! Pseudorandom numbers that are the same in each run.

/// A small generator: the same seed gives the same numbers.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Returns the next number (xorshift64*).
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() >> 33) as usize % end
    }

    /// Returns true once in `n` draws, on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of the choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns about half of the choices, in order.
    pub fn some<T: Clone>(&mut self, choices: &[T]) -> Vec<T> {
        choices.iter().filter(|_| self.one_in(2)).cloned().collect()
    }
}
