//! Texts and numbers, and checks of the programs that read them.

use super::equality::{as_text, expect_equal};
use super::random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Words of the texts.
const WORDS: [&str; 20] = [
    "alpha", "Beta", "gamma", "the", "The", "of", "a", "GPU", "copy", "memory", "warp", "lane", "x", "zebra", "Trap",
    "queue", "kernel", "launch", "byte", "page",
];
/// Characters between words.
const SEPARATORS: [&str; 8] = [" ", " ", " ", ", ", ".\n", " - ", "'", " 42 "];

/// Returns a text of up to 3,000 words.
pub(super) fn make_text(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..random.below(3000) {
        text.push_str(random.pick(&WORDS).unwrap_or(&""));
        text.push_str(random.pick(&SEPARATORS).unwrap_or(&""));
    }
    text.into_bytes()
}

/// Returns up to 2,000 numbers of all sizes up to 40 bits, one a line.
pub(super) fn make_numbers(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..=random.below(2000) {
        let bits = random.below(41);
        let _ = writeln!(text, "{}", random.below(1 << bits));
    }
    text.into_bytes()
}

/// Returns up to 200 lines; the first one and most others end with a number.
pub(super) fn make_numbered_lines(random: &mut Random) -> Vec<u8> {
    let mut text = "first 1\n".to_owned();
    for _ in 0..random.below(200) {
        text.push_str(random.pick(&WORDS).unwrap_or(&""));
        if random.below(10) > 0 {
            let _ = write!(text, " {}", random.below(4000));
        }
        text.push('\n');
    }
    text.into_bytes()
}

/// Returns up to 500 lines of a word and a number with a fraction.
pub(super) fn make_groups(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..random.below(500) {
        let word = random.pick(&WORDS).unwrap_or(&"");
        let _ = writeln!(text, "{word} {}.{}", random.below(100_000), random.below(1000));
    }
    text.into_bytes()
}

/// Decompresses the block and compares it with the input.
pub(super) fn check_lz4(input: &[u8], output: &[u8]) -> Result<(), String> {
    let (size, block) = output.split_first_chunk().ok_or("no size")?;
    let size = u32::from_le_bytes(*size) as usize;
    if size != input.len() {
        return Err(format!("the size is {size} (expected {})", input.len()));
    }
    if input.len() > 1000 && block.len() > input.len() / 4 * 3 {
        return Err(format!("{} bytes from {}: not compressed", block.len(), input.len()));
    }
    let text = decompress(block).ok_or("the block is damaged")?;
    if text == input {
        Ok(())
    } else {
        Err("the text differs".into())
    }
}

/// Decompresses an LZ4 block.
fn decompress(mut block: &[u8]) -> Option<Vec<u8>> {
    /// Reads the rest of a length whose first part is 15.
    fn read_length(block: &mut &[u8], first: u8) -> Option<usize> {
        let mut length = usize::from(first);
        if first == 15 {
            loop {
                let (byte, rest) = block.split_first()?;
                *block = rest;
                length += usize::from(*byte);
                if *byte != 255 {
                    break;
                }
            }
        }
        Some(length)
    }
    let mut text: Vec<u8> = Vec::new();
    loop {
        let (token, rest) = block.split_first()?;
        block = rest;
        let (literals, rest) = {
            let length = read_length(&mut block, token >> 4)?;
            block.split_at_checked(length)?
        };
        text.extend_from_slice(literals);
        block = rest;
        if block.is_empty() {
            return Some(text);
        }
        let (distance, rest) = block.split_first_chunk()?;
        block = rest;
        let length = read_length(&mut block, token & 15)? + 4;
        let from = text.len().checked_sub(u16::from_le_bytes(*distance).into())?;
        // The copy may overlap its own output.
        for at in from..from + length {
            text.push(*text.get(at)?);
        }
    }
}

/// Returns the numbers of a text, sorted.
fn sorted_numbers(input: &[u8]) -> Result<Vec<u64>, String> {
    let numbers = as_text(input)?
        .lines()
        .map(|l| l.parse().map_err(|e| format!("'{l}': {e}")));
    let mut numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// Checks count, ends and mean exactly. The percentiles are the lower ends of intervals of at most 1/64.
pub(super) fn check_histogram(input: &[u8], output: &[u8]) -> Result<(), String> {
    let numbers = sorted_numbers(input)?;
    let (Some(min), Some(max)) = (numbers.first(), numbers.last()) else {
        return Err("the input has no number".into());
    };
    let count = numbers.len();
    let mean = numbers.iter().sum::<u64>() as f64 / count as f64;
    let output = as_text(output)?;
    let head = format!("count {count}\nmin {min}\nmax {max}\nmean {mean:.3}\n");
    let percentiles = output
        .strip_prefix(&head)
        .ok_or_else(|| format!("the start differs from {head}"))?;
    let mut lines = percentiles.lines();
    for per_mille in [500, 900, 990, 999] {
        let exact = numbers.get((count * per_mille).div_ceil(1000).saturating_sub(1));
        let exact = *exact.ok_or("no such rank")?;
        let name = format!("p{}.{} ", per_mille / 10, per_mille % 10);
        let value = lines
            .next()
            .and_then(|l| l.strip_prefix(&name))
            .and_then(|v| v.parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("{name}is missing"))?;
        if value > exact || exact - value > exact / 64 {
            return Err(format!("{name}is {value} (expected {exact} or up to 1/64 less)"));
        }
    }
    if lines.next().is_some() {
        Err("more lines".into())
    } else {
        Ok(())
    }
}

pub(super) fn check_word_count(input: &[u8], output: &[u8]) -> Result<(), String> {
    let text = as_text(input)?.to_ascii_lowercase();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for word in text.split(|c: char| !c.is_ascii_lowercase()).filter(|w| !w.is_empty()) {
        *counts.entry(word).or_default() += 1;
    }
    let mut words: Vec<_> = counts.into_iter().collect();
    // Words with equal counts stay in the order of the alphabet.
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let expected: String = words.iter().map(|(word, count)| format!("{count} {word}\n")).collect();
    expect_equal(as_text(output)?, &expected)
}

pub(super) fn check_filter(input: &[u8], output: &[u8]) -> Result<(), String> {
    let (mut expected, mut sum) = (String::new(), 0);
    for (n, line) in (1..).zip(as_text(input)?.lines()) {
        let _ = writeln!(expected, "{n:4}  {line}");
        sum += line
            .rsplit_once(' ')
            .and_then(|(_, last)| last.parse::<u32>().ok())
            .unwrap_or(0);
    }
    // Below a million, C prints a number with six significant digits exactly.
    if sum >= 1_000_000 {
        return Err(format!("the sum {sum} of the input is too large to compare"));
    }
    let _ = writeln!(expected, "sum {sum}");
    expect_equal(as_text(output)?, &expected)
}

pub(super) fn check_groups(input: &[u8], output: &[u8]) -> Result<(), String> {
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for line in as_text(input)?.lines() {
        let (name, value) = line.split_once(' ').ok_or_else(|| format!("no number in '{line}'"))?;
        let value = value.parse().map_err(|e| format!("'{value}': {e}"))?;
        groups.entry(name).or_default().push(value);
    }
    let mut expected = String::new();
    for (name, values) in groups {
        let (count, sum) = (values.len(), values.iter().sum::<f64>());
        let mean = sum / count as f64;
        let min = values.iter().copied().fold(f64::MAX, f64::min);
        let max = values.iter().copied().fold(f64::MIN, f64::max);
        let _ = writeln!(
            expected,
            "{name:<12} {count:>6} {sum:>14.3} {mean:>12.4} {min:>10} {max:>10}"
        );
    }
    expect_equal(as_text(output)?, &expected)
}
