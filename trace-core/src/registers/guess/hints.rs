//! Hypotheses about a register, from the counts of its accesses.

use super::Guess;
use std::fmt;

/// A hypothesis about a register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hint {
    /// It always had one value.
    Constant(u64),
    /// It is read until bits change.
    Status {
        /// Bits that changed with the last read.
        bits: u64,
        /// Bits that became 1.
        ones: u64,
        /// Number of polls.
        polls: u64,
    },
    /// Its reads increase.
    CountsUp {
        /// Number of increasing reads.
        rises: u64,
        /// Number of changed reads.
        of: u64,
    },
    /// Writing ones clears bits.
    ClearsByOnes {
        /// Number of times that it did.
        times: u64,
        /// Number of opportunities.
        of: u64,
    },
    /// A read returns the written value.
    Stores {
        /// Number of times that it did.
        times: u64,
        /// Number of opportunities.
        of: u64,
    },
    /// A read returns another value than the written one.
    Acts {
        /// Number of times that it did.
        times: u64,
        /// Number of opportunities.
        of: u64,
    },
    /// Its values are memory addresses.
    Address {
        /// Number of values that are addresses.
        values: u64,
        /// Number of values examined.
        of: u64,
    },
    /// Its values are floating-point numbers.
    Float {
        /// Number of values that are floating-point numbers.
        values: u64,
        /// Number of values examined.
        of: u64,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(v) => write!(f, "always {v:#x}"),
            Self::Status { bits, ones, polls } => {
                let times = if *polls == 1 { "once" } else { "times" };
                let n = if *polls == 1 {
                    String::new()
                } else {
                    format!("{polls} ")
                };
                write!(f, "a status: polled {n}{times}")?;
                match (*bits, *ones) {
                    (0, _) => Ok(()),
                    (b, o) if o == b => write!(f, ", until {} became 1", bit_list(b)),
                    (b, 0) => write!(f, ", until {} became 0", bit_list(b)),
                    (b, _) => write!(f, ", until {} changed", bit_list(b)),
                }
            }
            Self::CountsUp { rises, of } => write!(f, "counts up: {rises} of {of} reads that changed rose"),
            Self::ClearsByOnes { times, of } => {
                write!(f, "writing ones clears bits: {times} of {of} times")
            }
            Self::Stores { times, of } => write!(f, "reads back what was written: {times} of {of} times"),
            Self::Acts { times, of } => {
                write!(f, "does not read back what was written: {times} of {of} times")
            }
            Self::Address { values, of } => {
                write!(f, "an address: {values} of {of} values are in the device's memory")
            }
            Self::Float { values, of } => write!(f, "floating point: {values} of {of} values"),
        }
    }
}

/// Formats `bit 3`, `bits 0, 4 to 7`.
fn bit_list(bits: u64) -> String {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < 64 {
        if bits >> at & 1 == 0 {
            at += 1;
            continue;
        }
        let run = (bits >> at).trailing_ones();
        let last = at + run - 1;
        parts.push(match run {
            1 => at.to_string(),
            2 => format!("{at}, {last}"),
            _ => format!("{at} to {last}"),
        });
        at += run;
    }
    let word = if bits.count_ones() == 1 { "bit" } else { "bits" };
    format!("{word} {}", parts.join(", "))
}

impl Guess {
    /// Returns the hypotheses about the register, the most certain first. Each needs at least two accesses as evidence.
    #[must_use]
    pub fn hints(&self) -> Vec<Hint> {
        let mut out = Vec::new();
        let is_mostly = |n: u64, of: u64| of >= 2 && n * 10 >= of * 9;
        if self.polls > 0 {
            out.push(Hint::Status {
                bits: self.awaited,
                ones: self.awaited_ones,
                polls: self.polls,
            });
        }
        let tried = self.cleared + self.kept;
        if is_mostly(self.cleared, tried) {
            out.push(Hint::ClearsByOnes {
                times: self.cleared,
                of: tried,
            });
        }
        if is_mostly(self.addresses, self.nonzero) {
            out.push(Hint::Address {
                values: self.addresses,
                of: self.nonzero,
            });
        } else if self.floats >= 2 && is_mostly(self.floats, self.nonzero) {
            out.push(Hint::Float {
                values: self.floats,
                of: self.nonzero,
            });
        }
        let moved = self.rises + self.falls;
        if self.rises >= 3 && is_mostly(self.rises, moved) {
            out.push(Hint::CountsUp {
                rises: self.rises,
                of: moved,
            });
        }
        let after = self.read_back + self.read_other;
        if is_mostly(self.read_back, after) {
            out.push(Hint::Stores {
                times: self.read_back,
                of: after,
            });
        } else if is_mostly(self.read_other, after) {
            out.push(Hint::Acts {
                times: self.read_other,
                of: after,
            });
        }
        if let ([(value, n)], 0) = (self.values.as_slice(), self.beyond)
            && *n >= 2
        {
            out.push(Hint::Constant(*value));
        }
        out
    }
}
