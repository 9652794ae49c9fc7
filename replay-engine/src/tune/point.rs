//! A point: all parameters of a launch that can be changed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The preferred split of a multiprocessor's memory between cache and shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// No preference.
    None,
    /// Prefer shared memory.
    Shared,
    /// Prefer L1 cache.
    L1,
    /// Equal shares.
    Equal,
}

impl Cache {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Shared, Self::L1, Self::Equal];

    /// Returns the name that the user types.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shared => "shared",
            Self::L1 => "l1",
            Self::Equal => "equal",
        }
    }

    /// Returns the preference of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// Launch bounds for a compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bounds {
    /// Maximum threads per block, 1 to 1024. 0 means those of the point's block.
    pub max_threads: u32,
    /// Minimum blocks per multiprocessor. 0 means not specified.
    pub min_blocks: u32,
}

/// The parameters of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// Grid dimensions, blocks.
    pub grid: [u32; 3],
    /// Block dimensions, threads.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared: u32,
    /// Code number: 0 is the recorded code, n the nth replacement, starting at 1.
    pub module: u32,
    /// Cache preference, or `None` for the code's own.
    pub cache: Option<Cache>,
    /// Maximum registers per thread, or `None` for the code's own.
    pub max_registers: Option<u32>,
    /// Launch bounds, or `None` for the code's own.
    pub bounds: Option<Bounds>,
}

impl Point {
    /// Returns the number of threads per block.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.block.iter().fold(1, |n, d| n.saturating_mul(u64::from(*d)))
    }

    /// Returns the number of blocks in the grid.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.grid.iter().fold(1, |n, d| n.saturating_mul(u64::from(*d)))
    }

    /// Returns the launch bounds, with the block's threads filled in if needed.
    #[must_use]
    pub fn bounds(&self) -> Option<Bounds> {
        self.bounds.map(|b| Bounds {
            max_threads: if b.max_threads == 0 {
                u32::try_from(self.threads()).unwrap_or(u32::MAX)
            } else {
                b.max_threads
            },
            ..b
        })
    }
}

/// Returns dimensions in their usual form: `256`, `16×16`, `8×8×4`.
#[must_use]
pub fn format_dimensions([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}×{y}"),
        _ => format!("{x}×{y}×{z}"),
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "grid {}, block {}",
            format_dimensions(self.grid),
            format_dimensions(self.block)
        )?;
        if self.shared > 0 {
            write!(f, ", {} bytes shared", self.shared)?;
        }
        if let Some(cache) = self.cache {
            write!(f, ", cache {}", cache.name())?;
        }
        if let Some(max) = self.max_registers {
            write!(f, ", at most {max} registers")?;
        }
        if let Some(b) = self.bounds() {
            write!(f, ", bounds {}", b.max_threads)?;
            if b.min_blocks > 0 {
                write!(f, "×{}", b.min_blocks)?;
            }
        }
        if self.module > 0 {
            write!(f, ", code {}", self.module)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuning_point_text_shows_non_default_values() {
        let mut p = Point {
            grid: [80, 1, 1],
            block: [16, 8, 1],
            ..Default::default()
        };
        assert_eq!(p.to_string(), "grid 80, block 16×8");
        assert_eq!((p.threads(), p.blocks()), (128, 80));
        p.bounds = Some(Bounds {
            max_threads: 0,
            min_blocks: 2,
        });
        p.cache = Some(Cache::L1);
        p.max_registers = Some(32);
        (p.shared, p.module) = (48, 1);
        assert_eq!(
            p.to_string(),
            "grid 80, block 16×8, 48 bytes shared, cache l1, at most 32 registers, bounds 128×2, code 1"
        );
        assert!(Cache::ALL.iter().all(|c| Cache::from_name(c.name()) == Some(*c)));
    }
}
