//! The events that pass a filter: compact in memory, with any row found by a search.

use super::mask;
use super::scan::CHUNK;

/// The selected events, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One per [`CHUNK`] of events, from the first event of the recording on.
    chunks: Vec<Hits>,
    /// Number of selected events before each chunk; one more entry at the end.
    before: Vec<u64>,
}

/// The selected events of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Hits {
    #[default]
    None,
    /// The first this many events.
    All(u32),
    /// Indices in the chunk, ascending.
    Few(Box<[u16]>),
    /// One bit per event.
    Many(Box<[u64]>),
}

/// Maximum number of events stored as indices: for more, one bit per event of the chunk takes less memory.
const FEW: usize = CHUNK / 16;

impl Hits {
    /// Creates the hits from one bit for each of `len` events.
    pub fn new(bits: Vec<u64>, len: usize) -> Self {
        match mask::ones(&bits) {
            0 => Self::None,
            n if n == len => Self::All(len as u32),
            n if n > FEW => Self::Many(bits.into()),
            n => {
                let mut few = Vec::with_capacity(n);
                for (word, mut b) in bits.into_iter().enumerate() {
                    while b != 0 {
                        few.push((word * 64) as u16 + b.trailing_zeros() as u16);
                        b &= b - 1;
                    }
                }
                Self::Few(few.into())
            }
        }
    }

    pub fn count(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::All(n) => u64::from(*n),
            Self::Few(few) => few.len() as u64,
            Self::Many(bits) => mask::ones(bits) as u64,
        }
    }

    /// Returns the index in the chunk of the row with this number.
    fn get(&self, mut row: u64) -> Option<u32> {
        match self {
            Self::None => None,
            Self::All(n) => u32::try_from(row).ok().filter(|r| r < n),
            Self::Few(few) => few.get(usize::try_from(row).ok()?).map(|p| u32::from(*p)),
            Self::Many(bits) => {
                for (word, b) in (0u32..).zip(bits.iter()) {
                    let n = u64::from(b.count_ones());
                    if row < n {
                        let mut b = *b;
                        for _ in 0..row {
                            b &= b - 1;
                        }
                        return Some(word * 64 + b.trailing_zeros());
                    }
                    row -= n;
                }
                None
            }
        }
    }

    /// Returns the number of hits before an index.
    fn rank(&self, place: usize) -> u64 {
        match self {
            Self::None => 0,
            Self::All(n) => u64::from(*n).min(place as u64),
            Self::Few(few) => few.partition_point(|p| usize::from(*p) < place) as u64,
            Self::Many(bits) => {
                let whole: u64 = bits.iter().take(place / 64).map(|b| u64::from(b.count_ones())).sum();
                let part = bits.get(place / 64).map_or(0, |b| b & ((1 << (place % 64)) - 1));
                whole + u64::from(part.count_ones())
            }
        }
    }

    /// Returns the indices, ascending.
    pub fn places(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Self::None => Box::new(std::iter::empty()),
            Self::All(n) => Box::new(0..*n),
            Self::Few(few) => Box::new(few.iter().map(|p| u32::from(*p))),
            Self::Many(bits) => Box::new((0u32..).zip(bits.iter()).flat_map(|(word, b)| {
                let mut b = *b;
                std::iter::from_fn(move || {
                    let bit = (b != 0).then(|| b.trailing_zeros())?;
                    b &= b - 1;
                    Some(word * 64 + bit)
                })
            })),
        }
    }
}

impl Selection {
    /// Adds the next chunk; chunks that are skipped before it have no hits.
    pub(super) fn push(&mut self, chunk: usize, hits: Hits) {
        while self.chunks.len() < chunk {
            self.add(Hits::None);
        }
        self.add(hits);
    }

    fn add(&mut self, hits: Hits) {
        if self.before.is_empty() {
            self.before.push(0);
        }
        let so_far = self.len();
        self.before.push(so_far + hits.count());
        self.chunks.push(hits);
    }

    /// Returns the number of selected events.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Returns whether no event is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the event in a row, counted from 0.
    #[must_use]
    pub fn get(&self, row: u64) -> Option<u64> {
        let chunk = self.before.partition_point(|b| *b <= row).checked_sub(1)?;
        let place = self.chunks.get(chunk)?.get(row - self.before.get(chunk)?)?;
        Some((chunk * CHUNK) as u64 + u64::from(place))
    }

    /// Returns the number of selected events before an event, which is the row of the first one at or after it.
    #[must_use]
    pub fn rank(&self, event: u64) -> u64 {
        let Ok(event) = usize::try_from(event) else {
            return self.len();
        };
        match (self.chunks.get(event / CHUNK), self.before.get(event / CHUNK)) {
            (Some(hits), Some(before)) => before + hits.rank(event % CHUNK),
            _ => self.len(),
        }
    }

    /// Returns whether an event is selected.
    #[must_use]
    pub fn contains(&self, event: u64) -> bool {
        self.rank(event.saturating_add(1)) > self.rank(event)
    }

    /// Returns the selected events from a row on, in order.
    pub fn iter_from(&self, row: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.before.partition_point(|b| *b <= row).saturating_sub(1);
        let skipped = row.saturating_sub(self.before.get(first).copied().unwrap_or(0));
        let chunks = self.chunks.iter().enumerate().skip(first);
        let events = chunks.flat_map(|(n, hits)| hits.places().map(move |p| (n * CHUNK) as u64 + u64::from(p)));
        events.skip(usize::try_from(skipped).unwrap_or(usize::MAX))
    }

    /// Returns the selected events, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let first = |n: usize| (n * CHUNK) as u64;
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(move |(n, hits)| hits.places().map(move |p| first(n) + u64::from(p)))
    }
}

/// Collects events in ascending order.
impl FromIterator<u64> for Selection {
    fn from_iter<I: IntoIterator<Item = u64>>(events: I) -> Self {
        let mut all = Self::default();
        let mut now: Option<(usize, Vec<u64>)> = None;
        for e in events {
            let Ok(e) = usize::try_from(e) else { break };
            if now.as_ref().is_none_or(|(chunk, _)| *chunk != e / CHUNK)
                && let Some((chunk, bits)) = now.replace((e / CHUNK, vec![0; CHUNK / 64]))
            {
                all.push(chunk, Hits::new(bits, CHUNK));
            }
            if let Some(word) = now.as_mut().and_then(|(_, bits)| bits.get_mut(e % CHUNK / 64)) {
                *word |= 1 << (e % 64);
            }
        }
        if let Some((chunk, bits)) = now {
            all.push(chunk, Hits::new(bits, CHUNK));
        }
        all
    }
}
