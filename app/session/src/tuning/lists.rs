//! Lists of values as the user writes them: `32,64,128`, `32..=1024` for doubling, `64..=256+64` for steps. `..`
//! without `=` excludes the end.

use replay_engine::tune::Bounds;
use trace_core::ranges;

/// Maximum number of values of one list.
const MAX_LIST_VALUES: usize = 4096;

/// Parses a list of values, separated by commas or spaces.
///
/// # Errors
/// A description of the invalid value and of what was expected.
pub fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    let items = text.split([',', ' ', ';']).filter(|t| !t.is_empty());
    for item in items {
        let bad =
            || format!("'{item}' is not a value (expected a number, FIRST..=LAST for doubling, or FIRST..=LAST+STEP)");
        let number = |t: &str| t.trim().parse::<u32>().map_err(|_| bad());
        let Some(typed) = ranges::split(item) else {
            all.push(number(item)?);
            continue;
        };
        let (end, step) = match typed.end.split_once('+') {
            Some((end, step)) => (number(end)?, Some(number(step)?)),
            None => (number(typed.end)?, None),
        };
        let first = number(typed.first)?;
        let last = if typed.inclusive { Some(end) } else { end.checked_sub(1) };
        let last = last.ok_or_else(bad)?;
        if first > last || step == Some(0) || step.is_none() && first == 0 {
            return Err(bad());
        }
        let mut at = Some(first);
        while let Some(value) = at.filter(|v| *v <= last) {
            if all.len() >= MAX_LIST_VALUES {
                return Err(format!("'{item}' makes more than {MAX_LIST_VALUES} values"));
            }
            all.push(value);
            at = match step {
                Some(step) => value.checked_add(step),
                None => value.checked_mul(2),
            };
        }
    }
    if all.len() > MAX_LIST_VALUES {
        return Err(format!("the list has more than {MAX_LIST_VALUES} values"));
    }
    Ok(all)
}

/// Returns the first part of a list that excludes its end although a value would be equal to it: `32..1024`.
#[must_use]
pub fn find_omitted_end(text: &str) -> Option<(&str, u32)> {
    let items = text.split([',', ' ', ';']).filter(|t| !t.is_empty());
    items.into_iter().find_map(|item| {
        let typed = ranges::split(item).filter(|r| !r.inclusive)?;
        let end = typed.end.split_once('+').map_or(typed.end, |(end, _)| end);
        let with = parse_list(&item.replacen("..", "..=", 1)).ok()?;
        let end = end.parse().ok().filter(|end| with.last() == Some(end))?;
        Some((item, end))
    })
}

/// Parses launch bounds: `256`, or `256,4` with the minimum number of blocks. Returns `None` if they are invalid.
#[must_use]
pub fn parse_launch_bounds(text: &str) -> Option<Bounds> {
    let number = |t: &str| t.trim().parse::<u32>().ok();
    let (max, min) = match text.split_once(',') {
        Some((max, min)) => (number(max)?, number(min)?),
        None => (number(text)?, 0),
    };
    Some(Bounds {
        max_threads: max,
        min_blocks: min,
    })
}

/// Formats a list that [`parse_list`] parses.
#[must_use]
pub fn format_list(values: &[u32]) -> String {
    values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuning_lists_accept_values_and_ranges() {
        assert_eq!(parse_list("32,64, 128").unwrap(), [32, 64, 128]);
        assert_eq!(parse_list("32..=1024").unwrap(), [32, 64, 128, 256, 512, 1024]);
        assert_eq!(parse_list("32..1024").unwrap(), [32, 64, 128, 256, 512]);
        assert_eq!(parse_list("48..200").unwrap(), [48, 96, 192]);
        assert_eq!(parse_list("64..=256+64,1").unwrap(), [64, 128, 192, 256, 1]);
        assert_eq!(parse_list("64..256+64,1").unwrap(), [64, 128, 192, 1]);
        assert_eq!(parse_list("").unwrap(), [0u32; 0]);
        assert_eq!(parse_list(&format_list(&[1, 2, 3])).unwrap(), [1, 2, 3]);
        for bad in [
            "x",
            "1..",
            "..4",
            "8..4",
            "0..4",
            "4..4",
            "0..0",
            "1..9+0",
            "-1",
            "4294967296",
            "0..4000000000+1",
            "1.5",
        ] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
        assert_eq!(
            parse_list("2147483648..4294967295").unwrap(),
            [1 << 31],
            "a value that does not fit is left out"
        );
        assert_eq!(find_omitted_end("1, 32..1024"), Some(("32..1024", 1024)));
        assert_eq!(find_omitted_end("64..256+64"), Some(("64..256+64", 256)));
        for none in ["32..=1024", "48..200", "64", "", "x..y"] {
            assert_eq!(find_omitted_end(none), None, "{none}");
        }
    }
}
