//! Delta transfer against a similar byte string at the other end. Both ends cut by content; one lists its pieces, the
//! other replies which to keep and sends the new bytes between them.
//!
//! A cut depends only on the sixteen bytes before it and moves with them on insertions and deletions. So a small change
//! costs only the pieces that it affects, and nothing after them.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

/// Minimum and maximum piece size, as powers of two.
const LOG2: RangeInclusive<u8> = 7..=16;

/// The list of the pieces of a byte string at one end, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// Target size of a piece, as a power of two: 7 to 16.
    pub log2: u8,
    /// First eight bytes of each piece's BLAKE3 digest, little-endian, in order. Empty if there is no similar string.
    pub digests: Vec<u64>,
}

/// A step of the reconstruction of a byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Pieces of the existing string.
    Keep {
        /// Index of the first one.
        first: u32,
        /// Number of pieces.
        count: u32,
    },
    /// Bytes that are sent.
    New {
        /// Number of bytes.
        bytes: u32,
    },
}

/// The error for steps that do not produce the announced byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// A missing piece.
    #[error("it keeps piece {piece} of {pieces}")]
    Piece {
        /// Index of the piece.
        piece: u64,
        /// Number of pieces.
        pieces: usize,
    },
    /// Too many or too few bytes.
    #[error("its steps make {made} bytes of {announced}")]
    Length {
        /// Number of bytes that the steps produce, or a larger number than announced.
        made: u64,
        /// Announced number of bytes.
        announced: u64,
    },
}

/// Minimum size of a piece before another one, bytes.
const MIN_PIECE_BYTES: usize = 16;

/// The rolling hash value of each byte: the top halfwords of the first 256 numbers of SplitMix64 from 0.
const GEAR: [u16; 256] = {
    let mut table = [0; 256];
    let mut state = 0u64;
    let mut i = 0;
    while i < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[i] = ((z ^ (z >> 31)) >> 48) as u16;
        i += 1;
    }
    table
};

/// Cuts bytes by their content: a piece has about 2^log2 bytes on average and at most eight times that. A byte leaves
/// the hash after sixteen bytes. The hash continues across cuts, so cuts soon agree again after a change.
fn cut(bytes: &[u8], log2: u8) -> impl Iterator<Item = &[u8]> {
    let max = 1usize << (log2 + 3);
    let mut rest = bytes;
    let mut hash = 0u16;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().take(max).enumerate().position(|(i, b)| {
            hash = (hash << 1).wrapping_add(GEAR.get(usize::from(*b)).copied().unwrap_or(0));
            i + 1 >= MIN_PIECE_BYTES && u32::from(hash) >> (16 - u32::from(log2)) == 0
        });
        let (piece, behind) = rest.split_at(end.map_or(max, |e| e + 1).min(rest.len()));
        rest = behind;
        Some(piece)
    })
}

/// Returns the piece size for this many bytes.
fn log2_of(bytes: usize) -> u8 {
    let half = (bytes.max(1).ilog2() / 2) as u8;
    half.clamp(*LOG2.start(), *LOG2.end())
}

fn short(piece: &[u8]) -> u64 {
    let digest = blake3::hash(piece);
    digest
        .as_bytes()
        .first_chunk::<8>()
        .map_or(0, |b| u64::from_le_bytes(*b))
}

impl Outline {
    /// Returns the outline of an empty string.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            log2: *LOG2.start(),
            digests: Vec::new(),
        }
    }

    /// Returns the outline of bytes. The piece size grows with the square root of the length, which keeps both the list
    /// and the cost of a change small.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let log2 = log2_of(bytes.len());
        Self {
            log2,
            digests: cut(bytes, log2).map(short).collect(),
        }
    }

    /// Returns whether the piece size is allowed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        LOG2.contains(&self.log2)
    }

    /// Returns the steps that produce `bytes` from these pieces, and the new bytes among them, in order. Returns no
    /// steps for invalid pieces.
    #[must_use]
    pub fn steps_to<'b>(&self, bytes: &'b [u8]) -> (Vec<Step>, Vec<&'b [u8]>) {
        let (mut steps, mut new) = (Vec::new(), Vec::new());
        if !self.is_valid() {
            return (steps, new);
        }
        let mut index = HashMap::with_capacity(self.digests.len());
        for (i, d) in (0u32..).zip(&self.digests) {
            index.entry(*d).or_insert(i);
        }
        for piece in cut(bytes, self.log2) {
            // A repeated piece continues the last run if possible: longer runs, fewer steps.
            let digest = short(piece);
            let next = match steps.last() {
                Some(Step::Keep { first, count }) => first.checked_add(*count),
                _ => None,
            };
            let follows = next.filter(|n| self.digests.get(*n as usize) == Some(&digest));
            match (follows.or_else(|| index.get(&digest).copied()), steps.last_mut()) {
                (Some(_), Some(Step::Keep { count, .. })) if follows.is_some() => *count += 1,
                (Some(i), _) => steps.push(Step::Keep { first: i, count: 1 }),
                (None, Some(Step::New { bytes })) if bytes.checked_add(piece.len() as u32).is_some() => {
                    *bytes += piece.len() as u32;
                    new.push(piece);
                }
                (None, _) => {
                    steps.push(Step::New {
                        bytes: piece.len() as u32,
                    });
                    new.push(piece);
                }
            }
        }
        (steps, new)
    }
}

/// Returns the number of new bytes that some steps need.
#[must_use]
pub fn new_bytes(steps: &[Step]) -> u64 {
    let of = |s: &Step| match s {
        Step::Keep { .. } => 0,
        Step::New { bytes } => u64::from(*bytes),
    };
    steps.iter().map(of).sum()
}

/// The source of a step's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepSource {
    /// This range of the existing bytes.
    Base(Range<usize>),
    /// The next bytes of the new ones, this many.
    New(usize),
}

/// Resolves steps against `base`, whose [`Outline`] the other end received, and checks that they produce `reported`
/// bytes.
///
/// # Errors
/// If they keep missing pieces, or produce another number of bytes.
pub fn resolve(base: &[u8], steps: &[Step], reported: u64) -> Result<Vec<StepSource>, DeltaError> {
    let mut ends = vec![0usize];
    let mut at = 0;
    for piece in cut(base, log2_of(base.len())) {
        at += piece.len();
        ends.push(at);
    }
    let pieces = ends.len() - 1;
    let (mut made, mut out) = (0u64, Vec::new());
    for step in steps {
        let source = match *step {
            Step::Keep { first, count } => {
                let end = u64::from(first) + u64::from(count);
                let missing = DeltaError::Piece {
                    piece: end.saturating_sub(1),
                    pieces,
                };
                let place = |n: u64| {
                    usize::try_from(n)
                        .ok()
                        .and_then(|n| ends.get(n))
                        .copied()
                        .ok_or(missing)
                };
                let range = place(u64::from(first))?..place(end)?;
                made += range.len() as u64;
                StepSource::Base(range)
            }
            Step::New { bytes } => {
                made += u64::from(bytes);
                StepSource::New(bytes as usize)
            }
        };
        if made > reported {
            return Err(DeltaError::Length {
                made,
                announced: reported,
            });
        }
        out.push(source);
    }
    if made != reported {
        return Err(DeltaError::Length {
            made,
            announced: reported,
        });
    }
    Ok(out)
}

/// Assembles bytes from the existing and the new ones, by the result of [`resolve`].
#[must_use]
pub fn join(base: &[u8], sources: &[StepSource], new: Vec<u8>) -> Vec<u8> {
    // Everything is new: the bytes are already in place.
    if let [StepSource::New(count)] = sources
        && *count == new.len()
    {
        return new;
    }
    let (mut out, mut rest) = (Vec::new(), new.as_slice());
    for source in sources {
        match source {
            StepSource::Base(range) => out.extend_from_slice(base.get(range.clone()).unwrap_or_default()),
            StepSource::New(count) => {
                let (now, later) = rest.split_at((*count).min(rest.len()));
                out.extend_from_slice(now);
                rest = later;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize, seed: u64) -> Vec<u8> {
        let mut h = blake3::Hasher::new();
        h.update(&seed.to_le_bytes());
        let mut out = vec![0; n];
        h.finalize_xof().fill(&mut out);
        out
    }

    /// Returns the number of steps and bytes sent for `to` if the receiver has `from`. Also checks the reconstruction.
    fn send(from: &[u8], to: &[u8]) -> (usize, usize) {
        let outline = Outline::from_bytes(from);
        let (steps, new) = outline.steps_to(to);
        let new: Vec<u8> = new.concat();
        assert_eq!(new_bytes(&steps), new.len() as u64);
        let sources = resolve(from, &steps, to.len() as u64).unwrap();
        assert_eq!(join(from, &sources, new.clone()), to);
        (steps.len(), new.len())
    }

    #[test]
    fn delta_sends_only_changed_chunks() {
        let base = noise(60_000, 1);
        assert_eq!(send(&base, &base), (1, 0));
        assert_eq!(send(&[], &base), (1, 60_000));
        assert_eq!(send(&base, &[]), (0, 0));
        // A change, insertion or deletion keeps all later content.
        for at in [0, 17, 30_000, 59_990] {
            let mut changed = base.clone();
            changed[at] ^= 1;
            let mut longer = base.clone();
            longer.splice(at..at, *b"a few words more");
            let mut shorter = base.clone();
            shorter.drain(at..(at + 40).min(base.len()));
            for to in [changed, longer, shorter] {
                let (steps, new) = send(&base, &to);
                assert!(steps <= 3 && new <= 1024, "{steps} steps, {new} bytes at {at}");
            }
        }
    }

    #[test]
    fn delta_round_trips_arbitrary_bytes() {
        let zeros = vec![0; 10_000];
        let table: Vec<u8> = (0..2000u64).flat_map(|i| (i / 7).to_le_bytes()).collect();
        let small = noise(5, 2);
        let all = [zeros.as_slice(), &table, &small, &[], &noise(20_000, 3)];
        for from in all {
            for to in all {
                send(from, to);
                send(from, &[to, from, to].concat());
            }
        }
        let (steps, new) = send(&zeros, &[zeros.as_slice(), &zeros].concat());
        assert!(new < 600 && steps < 100, "{steps} {new}");
    }

    #[test]
    fn delta_pieces_have_bounded_sizes() {
        let bytes = noise(1 << 20, 4);
        let log2 = Outline::from_bytes(&bytes).log2;
        assert_eq!(log2, 10);
        let sizes: Vec<usize> = cut(&bytes, log2).map(<[u8]>::len).collect();
        assert_eq!(sizes.iter().sum::<usize>(), bytes.len());
        assert!(sizes.iter().rev().skip(1).all(|s| (MIN_PIECE_BYTES..=8192).contains(s)));
        let average = bytes.len() / sizes.len();
        assert!((700..1500).contains(&average), "{average}");
        assert_eq!(Outline::from_bytes(&[]), Outline::empty());
    }

    #[test]
    fn invalid_delta_steps_are_refused_before_any_output() {
        let base = noise(5000, 5);
        let pieces = Outline::from_bytes(&base).digests.len();
        let keep = |first, count| resolve(&base, &[Step::Keep { first, count }], u64::MAX).unwrap_err();
        let n = pieces as u32;
        assert!(matches!(keep(0, n + 1), DeltaError::Piece { .. }));
        assert!(matches!(keep(u32::MAX, u32::MAX), DeltaError::Piece { .. }));
        assert!(matches!(keep(0, n), DeltaError::Length { made: 5000, .. }));
        // The expansion of repeated pieces stops at the announced length.
        let bomb = vec![Step::Keep { first: 0, count: n }; 1_000_000];
        assert_eq!(
            resolve(&base, &bomb, 20_000).unwrap_err(),
            DeltaError::Length {
                made: 25_000,
                announced: 20_000
            }
        );
        assert!(resolve(&base, &[Step::New { bytes: 9 }], 8).is_err());
        assert!(resolve(&base, &[Step::New { bytes: 7 }], 8).is_err());
        assert_eq!(resolve(&base, &[], 0).unwrap(), []);
        let odd = Outline {
            log2: 60,
            digests: vec![1],
        };
        assert!(!odd.is_valid() && odd.steps_to(&base).0.is_empty());
    }
}
