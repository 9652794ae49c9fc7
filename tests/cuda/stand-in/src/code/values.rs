//! Initial values of a module's variables: numbers, and addresses of other variables.

/// An initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, as its bits.
    Bits(u64),
    /// The address of a variable, plus an offset.
    Address(String, u64),
}

/// Returns the values after `name … =`, in order. The list is empty if the text does not contain the name.
pub fn parse_values(text: &[u8], name: &str) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    let mut from = 0;
    while let Some(offset) = text.get(from..).and_then(|rest| rest.find(name)) {
        let at = from + offset;
        let after = text.get(at + name.len()..).unwrap_or_default();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "_$%".contains(c));
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        from = at + name.len();
        if is_word(before) || is_word(after.chars().next()) {
            continue;
        }
        // The dimensions of an array are between its name and its values.
        let Some((dimensions, values)) = after.split_once('=') else {
            continue;
        };
        let lengths = dimensions
            .chars()
            .all(|c| c.is_whitespace() || c.is_ascii_alphanumeric() || "[]".contains(c));
        if lengths && let Some((values, _)) = values.split_once(';') {
            let words = values.split(['{', '}', ',']).map(str::trim).filter(|w| !w.is_empty());
            return words.map(value).collect();
        }
    }
    Vec::new()
}

fn number(word: &str) -> Option<u64> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits.trim()),
        None => (false, word),
    };
    let digits = digits.trim_end_matches(['U', 'u']);
    let float = digits.strip_prefix("0f").or_else(|| digits.strip_prefix("0d"));
    let bits = match (float, digits.strip_prefix("0x")) {
        (Some(hex), _) | (None, Some(hex)) => u64::from_str_radix(hex, 16).ok()?,
        (None, None) => digits.parse().ok()?,
    };
    Some(if negative { bits.wrapping_neg() } else { bits })
}

fn value(word: &str) -> Value {
    if let Some(bits) = number(word) {
        return Value::Bits(bits);
    }
    let inside = word
        .strip_prefix("generic(")
        .and_then(|w| w.strip_suffix(')'))
        .unwrap_or(word);
    match inside.split_once('+') {
        Some((name, more)) => Value::Address(name.trim().to_owned(), number(more.trim()).unwrap_or(0)),
        None => Value::Address(inside.trim().to_owned(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_are_read() {
        let text =
            b".version 7.0\n.global .u32 a = 7;\n.const .align 4 .f32 table[2][2] = {{0f3F800000, -1}, {0x10, 3}};\n\
            .global .u64 at = generic(table)+8;\n.global .u64 taken = a;\n.global .u32 none;\n";
        assert_eq!(parse_values(text, "a"), [Value::Bits(7)]);
        let bits = [0x3f80_0000, u64::MAX, 16, 3].map(Value::Bits);
        assert_eq!(parse_values(text, "table"), bits);
        assert_eq!(parse_values(text, "taken"), [Value::Address("a".into(), 0)]);
        assert_eq!(parse_values(text, "none"), []);
        assert_eq!(value("generic(table)"), Value::Address("table".into(), 0));
        assert_eq!(value("table+8"), Value::Address("table".into(), 8));
    }
}
