//! The registers of a draft that a map accepts: aligned, inside the window, each byte once, each name once. The first
//! register of a file for its bytes stays. Arrays stay arrays: where only some members are free, their parts stay.

use super::draft::{Draft, DraftRegister, MAX_REGISTERS};
use super::error::LossKind;
use super::map_text::{AliasedRegister, MAX_ALSO};
use std::collections::{HashMap, HashSet};
use trace_core::registers::{ArrayShape, MAX_COMPARED, fix_numbers, skeleton};

/// Marks a word whose bytes have several owners, or are only partly owned.
const BYTES: u32 = u32::MAX;

/// The register that owns each byte of the window.
#[derive(Default)]
struct Owners {
    /// For each word: 0, the number of its register plus one, or [`BYTES`].
    words: Vec<u32>,
    /// Owners of the bytes of a word.
    bytes: HashMap<u64, [u32; 4]>,
}

impl Owners {
    fn bytes_of(&self, word: u64) -> [u32; 4] {
        let own = usize::try_from(word).ok().and_then(|w| self.words.get(w));
        match own.copied().unwrap_or(0) {
            BYTES => self.bytes.get(&word).copied().unwrap_or_default(),
            one => [one; 4],
        }
    }

    /// Returns the first register that owns a byte of a range.
    fn find(&self, from: u64, to: u64) -> Option<usize> {
        let words = (from / 4..to.div_ceil(4)).flat_map(|word| {
            let bytes = self.bytes_of(word).into_iter().zip(word.saturating_mul(4)..);
            bytes
                .filter(|(owner, byte)| *owner != 0 && (from..to).contains(byte))
                .map(|(owner, _)| owner)
        });
        let mut words = words;
        words.next().map(|owner| owner as usize - 1)
    }

    fn take(&mut self, from: u64, to: u64, owner: usize) {
        let number = u32::try_from(owner).map_or(BYTES - 1, |n| n + 1);
        for word in from / 4..to.div_ceil(4) {
            let Ok(at) = usize::try_from(word) else { return };
            if self.words.len() <= at {
                self.words.resize(at + 1, 0);
            }
            let mut bytes = self.bytes_of(word);
            for (own, byte) in bytes.iter_mut().zip(word.saturating_mul(4)..) {
                if (from..to).contains(&byte) {
                    *own = number;
                }
            }
            let whole = bytes == [number; 4];
            if !whole {
                self.bytes.insert(word, bytes);
            }
            if let Some(slot) = self.words.get_mut(at) {
                *slot = if whole { number } else { BYTES };
            }
        }
    }
}

/// What keeps a member of an array out of the map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    Outside,
    SharedWith(usize),
}

/// Returns the registers that the format accepts, by ascending offset.
pub(crate) fn accepted(draft: &mut Draft, window: u64) -> Vec<AliasedRegister> {
    let all = std::mem::take(&mut draft.registers);
    let mut owners = Owners::default();
    // Parts of each register of the draft that stay, and the names of others in their bytes.
    let mut kept: Vec<(usize, DraftRegister)> = Vec::new();
    let mut also: HashMap<usize, Vec<String>> = HashMap::new();
    for (n, r) in all.iter().enumerate() {
        let bits = r.body.bits;
        let (bytes, align) = match bits {
            8 | 16 | 32 => (bits / 8, bits / 8),
            64 => (8, 4),
            _ => {
                draft.lose(r.body.at.clone(), LossKind::Width, || {
                    format!("{} has {bits} bits, but registers have 8, 16, 32 or 64", r.name)
                });
                continue;
            }
        };
        let shape = r.shape();
        let mut obstacle = None;
        let mut lost = 0u64;
        let parts = shape.parts(&mut |m| {
            let from = r.offset.saturating_add(shape.offset_of(m));
            let end = from
                .checked_add(bytes)
                .filter(|e| *e <= window && from.is_multiple_of(align));
            let found = match end {
                None => Some(Obstacle::Outside),
                Some(end) => owners.find(from, end).map(Obstacle::SharedWith),
            };
            match (found, end) {
                (None, Some(end)) => owners.take(from, end, n),
                (found, _) => {
                    obstacle = obstacle.or(found);
                    lost += 1;
                }
            }
            found.is_none()
        });
        if let Some(obstacle) = obstacle {
            report(draft, &all, r, (obstacle, lost), window);
            if let Obstacle::SharedWith(first) = obstacle
                && let Some(main) = all.get(first).filter(|main| main.name != r.name && first != n)
            {
                let names = also.entry(first).or_default();
                if names.len() < MAX_ALSO && main.shape().members() <= shape.members() {
                    let doc = if r.body.doc.is_empty() {
                        String::new()
                    } else {
                        format!(" ({})", r.body.doc)
                    };
                    names.push(format!("{}{doc}", r.name.replace("{n}", "0")));
                }
            }
        }
        for part in parts {
            let part = DraftRegister {
                name: fix_numbers(&r.name, &part.levels),
                offset: r.offset.saturating_add(shape.offset_of(part.first)),
                levels: ArrayShape::new(&part.levels).levels().to_vec(),
                ..r.clone()
            };
            kept.push((n, part));
        }
    }
    kept.sort_by_key(|(_, r)| r.offset);
    let many = kept.len().saturating_sub(MAX_REGISTERS);
    if let Some((_, first)) = kept.get(MAX_REGISTERS) {
        draft.lose(first.body.at.clone(), LossKind::Array, || {
            format!(
                "{many} parts of arrays from {} on: a map has at most {MAX_REGISTERS} registers and arrays",
                first.name
            )
        });
        kept.truncate(MAX_REGISTERS);
    }
    name_uniquely(draft, &mut kept);
    let with_names = |(n, r): (usize, DraftRegister)| {
        let names = also.get(&n).cloned().unwrap_or_default();
        (r, names)
    };
    kept.into_iter().map(with_names).collect()
}

/// Reports a register, or members of an array, that a map does not accept.
fn report(draft: &mut Draft, all: &[DraftRegister], r: &DraftRegister, (obstacle, lost): (Obstacle, u64), window: u64) {
    let members = r.shape().members();
    let name = r.shape().name_of(&r.name, 0);
    let which = match members {
        1 => name,
        _ if lost == members => format!("array {name} of {members} members"),
        _ => format!("{lost} of the {members} members of array {name}"),
    };
    let (at, offset) = (r.body.at.clone(), r.offset);
    match obstacle {
        Obstacle::Outside => draft.lose(at, LossKind::Outside, || {
            format!(
                "{which} at {offset:#x} is not aligned to its {} bytes or not within the {window:#x} bytes of the map",
                r.body.bits / 8
            )
        }),
        Obstacle::SharedWith(first) => {
            let Some(other) = all.get(first) else { return };
            let same = other.offset == r.offset && other.body.bits == r.body.bits;
            let how = if same {
                "is at the same offset as"
            } else {
                "shares bytes with"
            };
            let main = other.shape().name_of(&other.name, 0);
            draft.lose(at, LossKind::Overlap, || {
                format!(
                    "{which} at {offset:#x} {how} {main}; {main} keeps its name and fields, and the description names \
                     the other"
                )
            });
        }
    }
}

/// Names that are taken, those of arrays by the form of their members' names.
#[derive(Default)]
struct TakenNames {
    singles: HashSet<String>,
    singles_of: HashMap<String, Vec<String>>,
    arrays_of: HashMap<String, Vec<(usize, String, ArrayShape)>>,
    comparisons: usize,
}

impl TakenNames {
    fn is_free(&mut self, origin: usize, name: &str, shape: &ArrayShape) -> bool {
        if name.is_empty() || self.singles.contains(name) {
            return false;
        }
        let form = skeleton(name);
        let arrays = self.arrays_of.get(&form).map(Vec::as_slice).unwrap_or_default();
        if shape.levels().is_empty() {
            let is_member = |(_, other, of): &(usize, String, ArrayShape)| {
                let member = of.member_named(other, name);
                member.is_some_and(|m| of.name_of(other, m) == name)
            };
            return !arrays.iter().any(is_member);
        }
        let singles = self.singles_of.get(&form).map(Vec::as_slice).unwrap_or_default();
        let has = |single: &String| {
            let member = shape.member_named(name, single);
            member.is_some_and(|m| shape.name_of(name, m) == *single)
        };
        if singles.iter().any(has) {
            return false;
        }
        let mut comparisons = self.comparisons;
        let shared = arrays.iter().any(|(from, other, of)| {
            // Parts of one array have different numbers.
            let parts = *from == origin && other == name;
            comparisons += 1;
            !parts && (shape.shares_name(name, of, other, &mut comparisons) || comparisons > MAX_COMPARED)
        });
        self.comparisons = comparisons;
        !shared
    }

    fn take(&mut self, origin: usize, name: &str, shape: &ArrayShape) {
        let form = skeleton(name);
        if shape.levels().is_empty() {
            self.singles.insert(name.to_owned());
            self.singles_of.entry(form).or_default().push(name.to_owned());
        } else {
            let array = (origin, name.to_owned(), shape.clone());
            self.arrays_of.entry(form).or_default().push(array);
        }
    }
}

/// Maximum number of numbers that are tried to find a free name for an array.
const MAX_TRIES: u32 = 64;

/// Gives each register a name of its own, in the order of offsets. An array for which none is found is left out.
fn name_uniquely(draft: &mut Draft, registers: &mut Vec<(usize, DraftRegister)>) {
    // Halves of 64-bit registers have their own names.
    let mut taken = TakenNames::default();
    let mut next: HashMap<String, u32> = HashMap::new();
    registers.retain_mut(|(origin, r)| {
        let shape = r.shape();
        let plain = r.name.split("{n}").map(sanitized).collect::<Vec<_>>().join("{n}");
        let wide = r.body.bits == 64;
        let names = |name: &str| {
            let halves = wide.then(|| [format!("{name}_LO"), format!("{name}_HI")]);
            halves
                .into_iter()
                .flatten()
                .chain([name.to_owned()])
                .collect::<Vec<_>>()
        };
        let mut name = plain.clone();
        let mut tries = 0;
        while name.is_empty() || !names(&name).iter().all(|n| taken.is_free(*origin, n, &shape)) {
            let n = next.entry(plain.clone()).or_insert(1);
            *n += 1;
            name = format!("{plain}_{n}");
            tries += 1;
            if tries > MAX_TRIES && !shape.levels().is_empty() {
                draft.lose(r.body.at.clone(), LossKind::Name, || {
                    format!(
                        "array {}: no free name was found for its members; it is left out",
                        r.name
                    )
                });
                return false;
            }
        }
        if name != plain {
            let old = &r.name;
            draft.lose(r.body.at.clone(), LossKind::Name, || {
                format!("a second register has the name {old}; it is renamed to {name}")
            });
        }
        for own in names(&name) {
            taken.take(*origin, &own, &shape);
        }
        r.name = name;
        true
    });
}

fn sanitized(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}
