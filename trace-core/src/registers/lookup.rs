//! The lookups of a register map: by offset and by name. Their size does not grow with the members of arrays whose
//! pages are alike.

use super::array::skeleton;
use super::entry::RegisterEntry;
use crate::RegOffset;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of registers of a map, members of arrays included: they take time to index.
pub(super) const MAX_MEMBERS: u64 = 1 << 22;
/// Words of 4 bytes in a page, as a power of two.
const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;
/// Marks a word that several entries share; the rest is the index of their list.
const SHARED: u32 = 1 << 31;
/// Maximum number of comparisons of arrays whose members have names of one form. A comparison of the members one by
/// one counts as many.
const MAX_COMPARISONS: usize = 1 << 24;

/// For each word of the window, the entries with a byte in it.
#[derive(Debug, Default)]
pub(super) struct OffsetIndex {
    /// For each page of the window, the number of its words plus one; 0 if it has no register.
    pages: Vec<u32>,
    /// Words of pages: 0, the number of an entry plus one, or a list of up to four.
    words: Vec<[u32; PAGE]>,
    shared: Vec<[u32; 4]>,
}

/// Entries of a word.
#[derive(Clone, Copy)]
pub(super) struct WordEntries([u32; 4]);

impl WordEntries {
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let used = self.0.into_iter().take_while(|n| *n != 0);
        used.map(|n| n as usize - 1)
    }
}

/// Two registers with a common byte: the number of the later entry, and the offset.
pub(super) struct SharedByte {
    pub entry: usize,
    pub offset: RegOffset,
}

impl OffsetIndex {
    pub fn new(entries: &[Arc<RegisterEntry>]) -> Result<Self, SharedByte> {
        let mut index = Self::default();
        let mut lists: HashMap<[u32; 4], u32> = HashMap::new();
        for (n, entry) in entries.iter().enumerate() {
            for member in 0..entry.members() {
                let offset = entry.offset_of(member);
                let end = offset.get().saturating_add(entry.first().width.into());
                for word in offset.get() / 4..end.div_ceil(4) {
                    index.add(entries, n, word, offset.get()..end, &mut lists)?;
                }
            }
        }
        index.share_pages();
        Ok(index)
    }

    fn add(
        &mut self,
        entries: &[Arc<RegisterEntry>],
        n: usize,
        word: u32,
        bytes: std::ops::Range<u32>,
        lists: &mut HashMap<[u32; 4], u32>,
    ) -> Result<(), SharedByte> {
        let here = self.word(word);
        for other in here.iter().filter(|o| *o != n).filter_map(|o| entries.get(o)) {
            let own = bytes.start.max(word * 4)..bytes.end.min(word * 4 + 4);
            if let Some(at) = own.into_iter().find(|b| other.member_at(RegOffset::new(*b)).is_some()) {
                let offset = RegOffset::new(at);
                return Err(SharedByte { entry: n, offset });
            }
        }
        let number = n as u32 + 1;
        if here.0.contains(&number) {
            return Ok(());
        }
        let mut list = here.0;
        if let Some(free) = list.iter_mut().find(|n| **n == 0) {
            *free = number;
        }
        let value = match list {
            [one, 0, ..] => one,
            _ => {
                let next = self.shared.len() as u32;
                let at = *lists.entry(list).or_insert(next);
                if at == next {
                    self.shared.push(list);
                }
                SHARED | at
            }
        };
        let page = (word >> PAGE_BITS) as usize;
        if self.pages.len() <= page {
            self.pages.resize(page + 1, 0);
        }
        let Some(at) = self.pages.get_mut(page) else {
            return Ok(());
        };
        if *at == 0 {
            self.words.push([0; PAGE]);
            *at = self.words.len() as u32;
        }
        let words = self.words.get_mut(*at as usize - 1);
        if let Some(slot) = words.and_then(|w| w.get_mut(word as usize % PAGE)) {
            *slot = value;
        }
        Ok(())
    }

    /// Keeps one of all pages that are alike, as those of an array's members mostly are.
    fn share_pages(&mut self) {
        let mut known: HashMap<[u32; PAGE], u32> = HashMap::new();
        let mut number = Vec::with_capacity(self.words.len());
        for words in std::mem::take(&mut self.words) {
            let next = known.len() as u32 + 1;
            number.push(*known.entry(words).or_insert(next));
        }
        let mut words: Vec<(u32, [u32; PAGE])> = known.into_iter().map(|(w, n)| (n, w)).collect();
        words.sort_unstable_by_key(|(n, _)| *n);
        self.words = words.into_iter().map(|(_, w)| w).collect();
        for page in &mut self.pages {
            let own = (*page as usize).checked_sub(1).and_then(|p| number.get(p));
            *page = own.copied().unwrap_or(0);
        }
    }

    /// Returns the entries with a byte in a word.
    #[inline]
    pub fn word(&self, word: u32) -> WordEntries {
        let page = self.pages.get((word >> PAGE_BITS) as usize).copied().unwrap_or(0);
        let words = (page as usize).checked_sub(1).and_then(|p| self.words.get(p));
        match words.and_then(|w| w.get(word as usize % PAGE)).copied() {
            None | Some(0) => WordEntries([0; 4]),
            Some(list) if list & SHARED != 0 => {
                let list = self.shared.get((list & !SHARED) as usize);
                WordEntries(list.copied().unwrap_or_default())
            }
            Some(one) => WordEntries([one, 0, 0, 0]),
        }
    }

    /// Returns the first word from `word` on that has an entry.
    pub fn next_word(&self, mut word: u32) -> Option<u32> {
        loop {
            let page = word >> PAGE_BITS;
            if *self.pages.get(page as usize)? == 0 {
                word = (page + 1) << PAGE_BITS;
                continue;
            }
            if self.word(word).0 != [0; 4] {
                return Some(word);
            }
            word = word.checked_add(1)?;
        }
    }

    /// Returns its approximate memory size, bytes.
    pub fn weight(&self) -> usize {
        self.pages.len() * 4 + self.words.len() * (PAGE * 4) + self.shared.len() * 16
    }
}

/// Entries by their names.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    /// Registers that are no arrays.
    singles: HashMap<String, u32>,
    /// Arrays by the form of their members' names.
    arrays: HashMap<String, Vec<u32>>,
}

/// The reason why registers cannot be found by name: the number of the entry, and the reason.
pub(super) struct SharedName(pub usize, pub &'static str);

const SAME_NAME: &str = "two registers have this name";

impl NameIndex {
    pub fn new(entries: &[Arc<RegisterEntry>]) -> Result<Self, SharedName> {
        let mut index = Self::default();
        for (n, entry) in entries.iter().enumerate() {
            if entry.is_array() {
                index.arrays.entry(skeleton(entry.name())).or_default().push(n as u32);
            } else if index.singles.insert(entry.name().to_owned(), n as u32).is_some() {
                return Err(SharedName(n, SAME_NAME));
            }
        }
        if index.arrays.is_empty() {
            return Ok(index);
        }
        for (name, n) in &index.singles {
            if index.find_array(entries, name).is_some() {
                return Err(SharedName(*n as usize, SAME_NAME));
            }
        }
        let mut comparisons = 0usize;
        for same in index.arrays.values() {
            for (at, n) in same.iter().enumerate() {
                for other in same.iter().take(at) {
                    let pair = entries.get(*n as usize).zip(entries.get(*other as usize));
                    let Some((a, b)) = pair else { continue };
                    comparisons = comparisons.saturating_add(1);
                    let shared = a.shape().shares_name(a.name(), b.shape(), b.name(), &mut comparisons);
                    if shared {
                        return Err(SharedName(*n as usize, SAME_NAME));
                    }
                    if comparisons > MAX_COMPARISONS {
                        return Err(SharedName(*n as usize, "too many arrays have names of one form"));
                    }
                }
            }
        }
        Ok(index)
    }

    fn find_array(&self, entries: &[Arc<RegisterEntry>], name: &str) -> Option<(usize, u64)> {
        let same = self.arrays.get(&skeleton(name))?;
        same.iter().find_map(|n| {
            let entry = entries.get(*n as usize)?;
            let member = entry.shape().member_named(entry.name(), name)?;
            (entry.name_of(member) == name).then_some((*n as usize, member))
        })
    }

    /// Returns the entry and the member of a name.
    pub fn find(&self, entries: &[Arc<RegisterEntry>], name: &str) -> Option<(usize, u64)> {
        match self.singles.get(name) {
            Some(n) => Some((*n as usize, 0)),
            None if self.arrays.is_empty() => None,
            None => self.find_array(entries, name),
        }
    }

    /// Returns the forms of all names, for a first comparison with those of another map.
    pub fn forms(&self) -> std::collections::HashSet<String> {
        let singles = self.singles.keys().map(|n| skeleton(n));
        singles.chain(self.arrays.keys().cloned()).collect()
    }

    /// Returns its approximate memory size, bytes.
    pub fn weight(&self) -> usize {
        let names = self.singles.keys().map(|n| n.len() + 32).sum::<usize>();
        names + self.arrays.keys().map(|n| n.len() + 64).sum::<usize>()
    }
}
