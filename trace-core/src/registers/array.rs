//! Arrays of registers: how often they repeat, where their members are, and how the members are named.
//!
//! An array is stored once, whatever its number of members. An array of arrays has several levels.

use std::ops::Range;

/// Maximum number of levels of an array.
pub const MAX_LEVELS: usize = 6;
/// Maximum number of members of one level.
pub const MAX_LEVEL_MEMBERS: u32 = 1 << 16;
/// Maximum sum of comparisons in [`ArrayShape::shares_name`], and how many one of a single member counts as.
pub const MAX_COMPARED: usize = 1 << 24;
const EACH_MEMBER: usize = 32;
/// The place of a member's number in the name of an array.
const MARK: &str = "{n}";

/// One level of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayLevel {
    /// Number of repeats, at least 1.
    pub count: u32,
    /// Distance from one repeat to the next, bytes.
    pub stride: u32,
    /// Number of the first repeat in names.
    pub first: u32,
}

/// The levels of an array, the outermost first. A single register has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    levels: Vec<ArrayLevel>,
}

/// A part of an array that is an array itself, or a single member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayPart {
    /// Number of its first member in the whole array.
    pub first: u64,
    /// Levels of the part, those with one repeat included.
    pub levels: Vec<ArrayLevel>,
}

impl ArrayShape {
    /// Creates a shape. Levels beyond [`MAX_LEVELS`] and levels with one repeat are left out; see [`fix_numbers`].
    #[must_use]
    pub fn new(levels: &[ArrayLevel]) -> Self {
        let repeats = levels.iter().filter(|l| l.count > 1).take(MAX_LEVELS);
        Self {
            levels: repeats.copied().collect(),
        }
    }

    /// Returns the levels, the outermost first.
    #[must_use]
    pub fn levels(&self) -> &[ArrayLevel] {
        &self.levels
    }

    /// Returns the number of members; 1 for a single register.
    #[must_use]
    pub fn members(&self) -> u64 {
        let counts = self.levels.iter().map(|l| u64::from(l.count));
        counts.fold(1, u64::saturating_mul)
    }

    /// Returns the distance from the first member to the last one, bytes.
    #[must_use]
    pub fn span(&self) -> u64 {
        let reach = |l: &ArrayLevel| u64::from(l.count.saturating_sub(1)).saturating_mul(l.stride.into());
        self.levels.iter().map(reach).fold(0, u64::saturating_add)
    }

    /// Returns the levels by ascending stride, each with its position.
    fn rising(&self) -> ([(usize, ArrayLevel); MAX_LEVELS], usize) {
        let none = ArrayLevel {
            count: 1,
            stride: 0,
            first: 0,
        };
        let mut all = [(0, none); MAX_LEVELS];
        let mut n = 0;
        for (to, from) in all.iter_mut().zip(self.levels.iter().copied().enumerate()) {
            *to = from;
            n += 1;
        }
        if let Some(used) = all.get_mut(..n) {
            used.sort_unstable_by_key(|(_, l)| l.stride);
        }
        (all, n)
    }

    /// Whether each repeat of a level ends before the next one begins, for members of `width` bytes. Only then
    /// [`ArrayShape::member_at`] finds every member, and no two members share a byte.
    #[must_use]
    pub fn is_nested(&self, width: u32) -> bool {
        let (levels, n) = self.rising();
        let mut span = u64::from(width);
        for (_, l) in levels.iter().take(n) {
            if u64::from(l.stride) < span {
                return false;
            }
            span = span.saturating_add(u64::from(l.count.saturating_sub(1)).saturating_mul(l.stride.into()));
        }
        true
    }

    /// Returns the number of the member of `width` bytes that contains a byte, counted from the start of the array.
    #[must_use]
    pub fn member_at(&self, byte: u64, width: u32) -> Option<u64> {
        if self.levels.is_empty() {
            return (byte < u64::from(width)).then_some(0);
        }
        let (levels, n) = self.rising();
        let mut repeats = [0u64; MAX_LEVELS];
        let mut rest = byte;
        for (at, l) in levels.iter().take(n).rev() {
            let repeat = rest.checked_div(l.stride.into())?.min(u64::from(l.count) - 1);
            *repeats.get_mut(*at)? = repeat;
            rest -= repeat * u64::from(l.stride);
        }
        if rest >= u64::from(width) {
            return None;
        }
        let numbers = self.levels.iter().zip(repeats);
        Some(numbers.fold(0, |all: u64, (l, repeat)| all * u64::from(l.count) + repeat))
    }

    /// Returns the repeat of each level for a member.
    fn repeats(&self, member: u64) -> [u32; MAX_LEVELS] {
        let mut repeats = [0; MAX_LEVELS];
        let mut rest = member;
        for (to, l) in repeats.iter_mut().zip(&self.levels).rev() {
            let count = u64::from(l.count.max(1));
            *to = (rest % count) as u32;
            rest /= count;
        }
        repeats
    }

    /// Returns the distance of a member from the first one, bytes.
    #[must_use]
    pub fn offset_of(&self, member: u64) -> u64 {
        let repeats = self.repeats(member);
        let each = self.levels.iter().zip(repeats);
        each.map(|(l, n)| u64::from(n) * u64::from(l.stride)).sum()
    }

    /// Returns the numbers of a member in its name, one for each level.
    #[must_use]
    pub fn numbers_of(&self, member: u64) -> Vec<u32> {
        let repeats = self.repeats(member);
        let each = self.levels.iter().zip(repeats);
        each.map(|(l, n)| l.first.saturating_add(n)).collect()
    }

    /// Returns the name of a member: each `{n}` of the array's name becomes the number of its level. With one level,
    /// all of them become its number.
    #[must_use]
    pub fn name_of(&self, name: &str, member: u64) -> String {
        let numbers = self.numbers_of(member);
        fill(name, &numbers.iter().map(|n| Some(*n)).collect::<Vec<_>>())
    }

    /// Returns the member that a name refers to, ASCII letters of either case.
    #[must_use]
    pub fn member_named(&self, name: &str, wanted: &str) -> Option<u64> {
        let pieces: Vec<&str> = name.split(MARK).collect();
        let (start, rest) = pieces.split_first()?;
        let wanted = strip(wanted, start)?;
        let mut numbers = Vec::with_capacity(rest.len());
        self.member_with(rest, wanted, &mut numbers)
    }

    fn member_with(&self, pieces: &[&str], wanted: &str, numbers: &mut Vec<u32>) -> Option<u64> {
        let Some((piece, rest)) = pieces.split_first() else {
            return self.member_of(numbers).filter(|_| wanted.is_empty());
        };
        let digits = wanted.bytes().take_while(u8::is_ascii_digit).count().min(10);
        let most = if wanted.starts_with('0') { digits.min(1) } else { digits };
        for n in (1..=most).rev() {
            let (number, after) = wanted.split_at_checked(n)?;
            let (Ok(number), Some(after)) = (number.parse(), strip(after, piece)) else {
                continue;
            };
            numbers.push(number);
            let found = self.member_with(rest, after, numbers);
            numbers.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns the member with these numbers in its name.
    fn member_of(&self, numbers: &[u32]) -> Option<u64> {
        let one = [numbers.first().copied()?];
        let same = numbers.iter().all(|n| Some(n) == numbers.first());
        let numbers = match self.levels.len() {
            1 if same => &one[..],
            _ => numbers,
        };
        if numbers.len() != self.levels.len() {
            return None;
        }
        let mut member = 0u64;
        for (l, n) in self.levels.iter().zip(numbers) {
            let repeat = n.checked_sub(l.first).filter(|r| *r < l.count)?;
            member = member * u64::from(l.count) + u64::from(repeat);
        }
        Some(member)
    }

    /// Whether a member of this array has the name of a member of another one. Adds to `comparisons` if members are
    /// compared one by one; compares none beyond [`MAX_COMPARED`].
    #[must_use]
    pub fn shares_name(&self, name: &str, other: &Self, other_name: &str, comparisons: &mut usize) -> bool {
        if name == other_name && self.levels.len() == other.levels.len() {
            let within = |a: &ArrayLevel, b: &ArrayLevel| a.first < b.first.saturating_add(b.count);
            let mut levels = self.levels.iter().zip(&other.levels);
            return levels.all(|(a, b)| within(a, b) && within(b, a));
        }
        let ends = |name: &'_ str| {
            let start = name.split(MARK).next().unwrap_or_default().to_ascii_lowercase();
            let end = name.rsplit(MARK).next().unwrap_or_default().to_ascii_lowercase();
            (start, end)
        };
        let ((start, end), (other_start, other_end)) = (ends(name), ends(other_name));
        let starts_alike = start.starts_with(&other_start) || other_start.starts_with(&start);
        let ends_alike = end.ends_with(&other_end) || other_end.ends_with(&end);
        if !starts_alike || !ends_alike {
            return false;
        }
        let is_smaller = self.members() <= other.members();
        let (few, few_name, many, many_name) = match is_smaller {
            true => (self, name, other, other_name),
            false => (other, other_name, self, name),
        };
        let cost = usize::try_from(few.members())
            .unwrap_or(usize::MAX)
            .saturating_mul(EACH_MEMBER);
        *comparisons = comparisons.saturating_add(cost);
        if *comparisons > MAX_COMPARED {
            return false;
        }
        (0..few.members()).any(|m| {
            let own = few.name_of(few_name, m);
            let found = many.member_named(many_name, &own);
            found.is_some_and(|m| many.name_of(many_name, m) == own)
        })
    }

    /// Splits the array into the largest arrays whose members all satisfy `keep`, which is called once for each
    /// member in order.
    pub fn parts(&self, keep: &mut dyn FnMut(u64) -> bool) -> Vec<ArrayPart> {
        let boxes = self.boxes(0, 0, keep);
        let part = |ranges: Vec<Range<u32>>| {
            let mut first = 0u64;
            let mut levels = Vec::with_capacity(ranges.len());
            for (l, range) in self.levels.iter().zip(ranges) {
                first = first * u64::from(l.count) + u64::from(range.start);
                levels.push(ArrayLevel {
                    count: range.end - range.start,
                    stride: l.stride,
                    first: l.first.saturating_add(range.start),
                });
            }
            ArrayPart { first, levels }
        };
        boxes.into_iter().map(part).collect()
    }

    /// Returns the ranges of repeats, for the levels from `level` on, of the members to keep.
    fn boxes(&self, level: usize, before: u64, keep: &mut dyn FnMut(u64) -> bool) -> Vec<Vec<Range<u32>>> {
        let Some(l) = self.levels.get(level) else {
            return if keep(before) { vec![Vec::new()] } else { Vec::new() };
        };
        let mut out = Vec::new();
        let mut run: (Range<u32>, Vec<Vec<Range<u32>>>) = (0..0, Vec::new());
        let mut close = |(range, inner): (Range<u32>, Vec<Vec<Range<u32>>>)| {
            for ranges in inner {
                let mut all = vec![range.clone()];
                all.extend(ranges);
                out.push(all);
            }
        };
        for n in 0..l.count {
            let inner = self.boxes(level + 1, before * u64::from(l.count) + u64::from(n), keep);
            if n > 0 && inner == run.1 {
                run.0.end = n + 1;
            } else {
                close(std::mem::replace(&mut run, (n..n + 1, inner)));
            }
        }
        close(run);
        out
    }
}

/// Removes a start of a text, ASCII letters of either case.
fn strip<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (own, rest) = text.split_at_checked(start.len())?;
    own.eq_ignore_ascii_case(start).then_some(rest)
}

/// Replaces the `{n}` of an array's name by numbers, one for each level; `None` leaves it. With one level, all of them
/// are replaced.
fn fill(name: &str, numbers: &[Option<u32>]) -> String {
    if let [one] = numbers {
        return one.map_or_else(|| name.to_owned(), |n| name.replace(MARK, &n.to_string()));
    }
    let mut out = String::with_capacity(name.len() + 8);
    let mut numbers = numbers.iter();
    let mut pieces = name.split(MARK).peekable();
    while let Some(piece) = pieces.next() {
        out.push_str(piece);
        if pieces.peek().is_some() {
            match numbers.next() {
                Some(Some(n)) => out.push_str(&n.to_string()),
                _ => out.push_str(MARK),
            }
        }
    }
    out
}

/// Replaces the numbers of levels that have one repeat in an array's name: [`ArrayShape::new`] leaves them out.
#[must_use]
pub fn fix_numbers(name: &str, levels: &[ArrayLevel]) -> String {
    let fixed: Vec<Option<u32>> = levels.iter().map(|l| (l.count <= 1).then_some(l.first)).collect();
    fill(name, &fixed)
}

/// Returns the number of places for numbers in an array's name.
#[must_use]
pub fn count_marks(name: &str) -> usize {
    name.matches(MARK).count()
}

/// Returns a name in lower case with `#` for each number: members of an array share it.
#[must_use]
pub fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.replace(MARK, "0").chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level(count: u32, stride: u32, first: u32) -> ArrayLevel {
        ArrayLevel { count, stride, first }
    }

    #[test]
    fn members_are_found_by_offset_and_by_name() {
        let shape = ArrayShape::new(&[level(32, 0x8000, 0), level(1, 4, 0), level(8, 0x800, 3)]);
        assert_eq!((shape.members(), shape.span()), (256, 31 * 0x8000 + 7 * 0x800));
        assert!(shape.is_nested(4));
        let name = "GPC{n}_TPC{n}_R0a4";
        assert_eq!(shape.name_of(name, 8 * 5 + 2), "GPC5_TPC5_R0a4");
        assert_eq!(shape.member_named(name, "gpc5_tpc5_r0A4"), Some(42));
        assert_eq!(shape.member_named(name, "GPC05_TPC5_R0a4"), None);
        assert_eq!(shape.member_named(name, "GPC5_TPC2_R0a4"), None);
        assert_eq!(shape.member_at(5 * 0x8000 + 2 * 0x800 + 3, 4), Some(42));
        assert_eq!(shape.member_at(5 * 0x8000 + 2 * 0x800 + 4, 4), None);
        assert_eq!(
            fix_numbers("A{n}_B{n}_C{n}", &[level(2, 4, 0), level(1, 4, 7), level(2, 4, 0)]),
            "A{n}_B7_C{n}"
        );
    }

    #[test]
    fn interleaved_levels_are_not_nested() {
        assert!(!ArrayShape::new(&[level(2, 6, 0), level(3, 4, 0)]).is_nested(2));
        assert!(ArrayShape::new(&[level(4, 4, 0), level(2, 0x100, 0)]).is_nested(4));
        assert!(!ArrayShape::new(&[level(2, 2, 0)]).is_nested(4));
    }

    proptest! {
        #[test]
        fn parts_keep_exactly_the_members_that_pass(counts in proptest::collection::vec(1u32..5, 0..4), bits in any::<u64>()) {
            let levels: Vec<ArrayLevel> = counts.iter().rev().scan(4u32, |stride, n| {
                let own = *stride;
                *stride *= n;
                Some(level(*n, own, 0))
            }).collect::<Vec<_>>().into_iter().rev().collect();
            let shape = ArrayShape::new(&levels);
            let keep = |m: u64| bits >> (m % 64) & 1 == 1;
            let mut kept = Vec::new();
            for part in shape.parts(&mut |m| keep(m)) {
                let own = ArrayShape::new(&part.levels);
                let start = shape.offset_of(part.first);
                for m in 0..own.members() {
                    let whole = shape.member_at(start + own.offset_of(m), 4).unwrap();
                    kept.push(whole);
                }
            }
            kept.sort_unstable();
            let wanted: Vec<u64> = (0..shape.members()).filter(|m| keep(*m)).collect();
            prop_assert_eq!(kept, wanted);
        }
    }
}
