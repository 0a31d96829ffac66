//! The random behavior of simulated servers.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use fastrand::Rng;
use toolgate::failure::HttpError;

use super::server::{Fate, Mind, Nature, What};

/// Lets chance decide, more or less kindly.
pub struct Chance {
    seed: u64,
    rng: Rng,
    temper: Temper,
    modern: bool,
}

/// How kindly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// Seldom does anything go wrong.
    Steady,
    /// Something goes wrong half of the time.
    Shaky,
    /// It does not come up.
    Down,
}

impl Chance {
    pub fn new(seed: u64, temper: Temper, modern: bool) -> Self {
        Chance { seed, rng: Rng::with_seed(seed), temper, modern }
    }

    /// In so many of a hundred cases.
    fn odds(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(0..=most))
    }

    /// Mostly soon, sometimes later than anyone waits.
    fn delay(&mut self) -> Duration {
        match self.rng.u32(0..100) {
            0..40 => Duration::ZERO,
            40..75 => self.millis(50),
            75..92 => self.millis(4_000),
            92..97 => self.millis(15_000),
            _ => self.millis(120_000),
        }
    }

    fn well(&mut self) -> Fate {
        Fate::Answer { after: self.delay(), early: self.rng.bool() }
    }

    fn quick(&mut self) -> Fate {
        Fate::Answer { after: self.millis(200), early: true }
    }

    fn connect(&mut self) -> Fate {
        match (self.temper, self.rng.u32(0..100)) {
            (Temper::Steady, 0..90) | (Temper::Shaky, 0..55) => self.quick(),
            (Temper::Steady, _) => self.well(),
            (_, 55..60) => Fate::Silence { ran: false },
            (_, 60..63) => self.http(&[401, 503]),
            (Temper::Shaky, 63..70) => self.well(),
            _ => Fate::Refuse,
        }
    }

    fn shake_hands(&mut self) -> Fate {
        let trouble = if self.temper == Temper::Steady { 3 } else { 25 };
        if !self.odds(trouble) {
            return self.quick();
        }
        match self.rng.u32(0..7) {
            0 => Fate::Silence { ran: false },
            1 => Fate::Error { after: self.delay(), ran: false },
            2 => Fate::Die { after: self.delay(), ran: false },
            3 => Fate::Garbage { after: self.millis(100) },
            4 => Fate::Stuck { ran: false },
            5 => self.http(&[401, 403, 404, 500, 503]),
            _ => self.well(),
        }
    }

    fn list(&mut self) -> Fate {
        let trouble = if self.temper == Temper::Steady { 3 } else { 25 };
        if !self.odds(trouble) {
            return self.quick();
        }
        match self.rng.u32(0..5) {
            0 | 1 => Fate::Silence { ran: false },
            2 => Fate::Error { after: self.delay(), ran: false },
            3 => Fate::Die { after: self.delay(), ran: false },
            _ => self.well(),
        }
    }

    fn probe(&mut self) -> Fate {
        let trouble = if self.temper == Temper::Steady { 2 } else { 15 };
        match self.odds(trouble) {
            false => self.quick(),
            true if self.rng.bool() => Fate::Silence { ran: false },
            true => self.well(),
        }
    }

    fn call(&mut self) -> Fate {
        let trouble = if self.temper == Temper::Steady { 10 } else { 50 };
        if !self.odds(trouble) {
            return self.well();
        }
        let ran = self.rng.bool();
        match self.rng.u32(0..12) {
            0 => Fate::Error { after: self.delay(), ran },
            1 => Fate::Fail { after: self.delay() },
            2 => Fate::Garbage { after: self.delay() },
            3 => Fate::Silence { ran },
            4 => Fate::Refuse,
            5 | 6 => Fate::Die { after: self.delay(), ran },
            7 => Fate::AnswerAndDie { after: self.delay() },
            8 => Fate::Stuck { ran },
            // These say that the tool did not run.
            9 => self.http(&[401, 404, 429]),
            // These do not.
            10 => match self.http(&[500, 502, 503]) {
                Fate::Http { error, after, .. } => Fate::Http { error, after, ran },
                other => other,
            },
            _ => Fate::Answer { after: Duration::from_secs(self.rng.u64(60..200)), early: ran },
        }
    }

    fn http(&mut self, statuses: &[u16]) -> Fate {
        let status = statuses[self.rng.usize(0..statuses.len())];
        let retry_after = (status == 429 && self.rng.bool()).then(|| self.millis(20_000));
        let error = HttpError { status, session: status == 404, retry_after, ..HttpError::default() };
        Fate::Http { error, after: self.millis(500), ran: false }
    }
}

impl Mind for Chance {
    fn nature(&mut self) -> Nature {
        let mortal = if self.temper == Temper::Steady { 5 } else { 40 };
        let lasts = self.odds(mortal).then(|| match self.rng.bool() {
            true => self.millis(5_000),
            false => self.millis(90_000),
        });
        let deaf = self.odds(mortal / 2).then(|| {
            let from = self.millis(40_000);
            (from, from + self.millis(60_000))
        });
        let modern = self.modern ^ self.odds(3);
        let writes_in = if self.odds(10) { self.millis(300) } else { Duration::ZERO };
        let ends_in = if self.odds(30) { self.millis(4_000) } else { Duration::ZERO };
        Nature { modern, web: self.odds(40), lasts, deaf, writes_in, ends_in }
    }

    fn meet(&mut self, what: &What<'_>) -> Fate {
        if let Some(call) = what.call {
            // Calls may come in any order at one moment; what becomes of each is the same.
            let mut hasher = DefaultHasher::new();
            (self.seed, call).hash(&mut hasher);
            return Chance { rng: Rng::with_seed(hasher.finish()), ..*self }.call();
        }
        match what.method {
            "connect" => self.connect(),
            "initialize" => self.shake_hands(),
            // In the modern era this is the handshake and the probe.
            "server/discover" if self.rng.bool() => self.shake_hands(),
            "ping" | "server/discover" => self.probe(),
            "tools/list" => self.list(),
            _ => self.quick(),
        }
    }
}
