//! Prepared descriptions against a plain composition of the same texts, on every embedded map.

use super::*;

/// Joins the texts of the fields inside a mask, one string for each.
fn compose(layout: &Layout, value: u64, mask: u64, direction: Direction) -> String {
    let low = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    let value = value & mask;
    let inside = low(layout.bits);
    let all = mask & inside == inside;
    if value == 0 && !layout.zero.is_empty() && all {
        return layout.zero.clone();
    }
    let bits = |f: &Field| low(f.width()).checked_shl(f.lo).unwrap_or(0);
    let mut known = 0;
    let mut parts = Vec::new();
    for field in layout.fields.iter().filter(|f| all || bits(f) & mask == bits(f)) {
        known |= bits(field);
        let own = field.extract(value);
        let text = field.text_in(own, direction);
        if layout.fields.len() == 1 && field.say.is_empty() {
            parts.push(text);
            continue;
        }
        let is_number = matches!(
            field.kind,
            FieldKind::Number | FieldKind::NumberPlusOne | FieldKind::PowerOfTwo
        );
        let name_of_zero = field.values(direction).and_then(|names| names.name(0));
        let is_shown = own != 0 || is_number || name_of_zero.is_some_and(|name| !name.is_empty());
        if !field.say.is_empty() && is_shown && !text.is_empty() {
            parts.push(field.say.replace("{}", &text));
        }
    }
    match (value & !known, parts.is_empty(), value) {
        (0, true, 0) => return "0".to_owned(),
        (0, true, _) => return format!("{value:#x}"),
        (0, false, _) => {}
        (rest, true, _) => parts.push(format!("{rest:#x}")),
        (rest, false, _) => parts.push(format!("+{rest:#x}")),
    }
    cut(&parts.join(" · "))
}

fn cut(line: &str) -> String {
    match line.chars().count() {
        0..=120 => line.to_owned(),
        _ => line.chars().take(119).chain(['…']).collect(),
    }
}

#[test]
fn prepared_descriptions_are_the_composed_texts() {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state ^ state >> 29
    };
    let (mut compared, mut several, mut longest) = (0, 0, 0);
    for map in RegisterMap::embedded() {
        for register in map.registers().take(3000) {
            for (moved, width) in [(0, register.width), (0, 4), (0, 8), (1, 1), (2, 2)] {
                let offset = register.offset.saturating_add(moved);
                let parts: Vec<_> = map.covered_registers(offset, width).collect();
                for direction in [Direction::Read, Direction::Write] {
                    let describer = map.describer(offset, width, direction);
                    assert_eq!(describer.is_some(), !parts.is_empty());
                    let Some(describer) = describer else { continue };
                    let words = [0, 1, u64::MAX, random(), random() & random(), random() >> 40];
                    for value in words {
                        let line = describer.describe(value);
                        assert_eq!(map.describe_in(offset, width, value, direction).as_ref(), Some(&line));
                        compared += 1;
                        longest = longest.max(line.chars().count());
                        let each: Vec<String> = parts
                            .iter()
                            .map(|p| compose(&p.register.layout, p.bits(value), p.mask(), direction))
                            .collect();
                        let expected = match each.as_slice() {
                            [one] => one.clone(),
                            _ if map.name_of(offset, width).is_some_and(|name| !name.contains(' ')) => {
                                let wide = parts.first().and_then(|p| p.register.wide.as_ref());
                                compose(wide.unwrap(), value, u64::MAX, direction)
                            }
                            _ => {
                                several += 1;
                                let named = parts.iter().zip(&each).map(|(p, text)| format!("{} {text}", p.name()));
                                cut(&named.collect::<Vec<_>>().join(" · "))
                            }
                        };
                        assert_eq!(line, expected, "{} {offset:#x} {width} {value:#x}", map.name());
                    }
                }
            }
        }
    }
    assert!(
        compared > 100_000 && several > 1000 && longest == 120,
        "{compared} {several} {longest}"
    );
}

#[test]
fn numbers_have_the_form_of_the_standard_library() {
    let field = |kind| Field {
        name: "x".to_owned(),
        lo: 0,
        hi: 63,
        kind,
        written: None,
        doc: String::new(),
        say: String::new(),
        status: false,
    };
    let (hex, decimal) = (field(FieldKind::Hex), field(FieldKind::Number));
    for shift in 0..64 {
        for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
            assert_eq!(hex.text(value), format!("{value:#x}"));
            assert_eq!(decimal.text(value), value.to_string());
        }
    }
    let power = field(FieldKind::PowerOfTwo);
    assert_eq!(
        (power.text(3), power.text(64)),
        ("8".to_owned(), (1u128 << 64).to_string())
    );
    assert_eq!(
        (power.text(127), power.text(128)),
        ((1u128 << 127).to_string(), "2^128".to_owned())
    );
}
