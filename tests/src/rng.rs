//! Numbers that look like chance, and are the same in each run.

/// A small generator of numbers: the same seed, the same questions.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number (xorshift64*).
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() >> 33) as usize % end
    }

    /// Yes, once in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Some of these, in order.
    pub fn some<T: Clone>(&mut self, choices: &[T]) -> Vec<T> {
        choices.iter().filter(|_| self.one_in(2)).cloned().collect()
    }
}
