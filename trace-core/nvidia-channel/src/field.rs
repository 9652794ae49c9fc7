//! Named bits of a method's value or of a launch descriptor.

/// Named bits, of which an array may exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name, as NVIDIA's headers have it.
    pub name: &'static str,
    /// Highest bit of the first element.
    pub high: u32,
    /// Lowest bit of the first element.
    pub low: u32,
    /// Distance of two elements in bits; 0 for a field that is not an array.
    pub stride: u32,
    /// Number of elements; 1 for a field that is not an array.
    pub count: u32,
    /// Values with a name.
    pub values: Vec<(u32, &'static str)>,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldValue {
    /// Name of the field.
    pub name: &'static str,
    /// Number of the element, for an array.
    pub element: Option<u32>,
    /// The value.
    pub value: u64,
    /// Name of the value.
    pub text: Option<&'static str>,
}

impl std::fmt::Display for FieldValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        if let Some(element) = self.element {
            write!(f, "({element})")?;
        }
        match self.text {
            Some(text) => write!(f, " = {text}"),
            None => write!(f, " = {:#x}", self.value),
        }
    }
}

impl Field {
    /// Returns whether the field is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.stride != 0
    }

    /// Returns the number of bits of an element.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.high.saturating_sub(self.low).saturating_add(1)
    }

    /// Returns the name of a value.
    #[must_use]
    pub fn text_of(&self, value: u64) -> Option<&'static str> {
        let value = u32::try_from(value).ok()?;
        self.values.iter().find(|(v, _)| *v == value).map(|(_, text)| *text)
    }

    /// Returns the value of an element in little-endian bytes, or `None` beyond the last element or the bytes.
    #[must_use]
    pub fn read(&self, bytes: &[u8], element: u32) -> Option<u64> {
        if element >= self.count {
            return None;
        }
        read_bits(
            bytes,
            self.low.checked_add(self.stride.checked_mul(element)?)?,
            self.bits(),
        )
    }

    /// Writes the value of an element to little-endian bytes. Returns `None`, and writes nothing, if the value does not fit
    /// the field, or the element is beyond the last one or the bytes.
    #[must_use]
    pub fn write(&self, bytes: &mut [u8], element: u32, value: u64) -> Option<()> {
        if element >= self.count {
            return None;
        }
        let low = self.low.checked_add(self.stride.checked_mul(element)?)?;
        write_bits(bytes, low, self.bits(), value)
    }

    /// Returns the value that has a name.
    #[must_use]
    pub fn value_of(&self, text: &str) -> Option<u32> {
        self.values
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(value, _)| *value)
    }

    /// Returns all elements with their values. Elements beyond the bytes are left out.
    pub fn values_in<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = FieldValue> + 'a {
        (0..self.count).filter_map(move |element| {
            let value = self.read(bytes, element)?;
            Some(FieldValue {
                name: self.name,
                element: self.is_array().then_some(element),
                value,
                text: self.text_of(value),
            })
        })
    }
}

/// Returns up to 64 bits from a bit on, or `None` if the bytes do not have them.
pub(crate) fn read_bits(bytes: &[u8], low: u32, bits: u32) -> Option<u64> {
    if bits == 0 || bits > 64 {
        return None;
    }
    let end = u64::from(low) + u64::from(bits);
    let first = usize::try_from(low / 8).ok()?;
    let last = usize::try_from(end.div_ceil(8)).ok()?;
    let slice = bytes.get(first..last)?;
    // At most nine bytes.
    let wide = slice
        .iter()
        .rev()
        .fold(0u128, |value, byte| value << 8 | u128::from(*byte));
    let mask = (1u128 << bits) - 1;
    u64::try_from(wide >> (low % 8) & mask).ok()
}

/// Writes up to 64 bits from a bit on. Returns `None`, and writes nothing, if the value or the bytes have less bits.
pub(crate) fn write_bits(bytes: &mut [u8], low: u32, bits: u32, value: u64) -> Option<()> {
    if bits == 0 || bits > 64 || u128::from(value) >> bits != 0 {
        return None;
    }
    let end = u64::from(low) + u64::from(bits);
    let first = usize::try_from(low / 8).ok()?;
    let last = usize::try_from(end.div_ceil(8)).ok()?;
    let slice = bytes.get_mut(first..last)?;
    // At most nine bytes.
    let mask = ((1u128 << bits) - 1) << (low % 8);
    let value = u128::from(value) << (low % 8);
    for (byte, (mask, value)) in slice.iter_mut().zip(mask.to_le_bytes().iter().zip(value.to_le_bytes())) {
        *byte = *byte & !mask | value;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_at_any_position() {
        let bytes: Vec<u8> = (1..=16).collect();
        let all = u128::from_le_bytes(std::array::from_fn(|n| bytes[n]));
        for low in 0..128u32 {
            for bits in 1..=64u32 {
                let expected = (low + bits <= 128).then(|| (all >> low & ((1u128 << bits) - 1)) as u64);
                assert_eq!(read_bits(&bytes, low, bits), expected, "{bits} bits from {low}");
            }
        }
        assert_eq!(read_bits(&bytes, u32::MAX, 64), None);
        assert_eq!(read_bits(&bytes, 0, 0), None);
    }

    #[test]
    fn written_bits_are_read_and_others_stay() {
        for low in 0..64u32 {
            for bits in 1..=64u32 {
                let value = 0x9e37_79b9_7f4a_7c15u64 >> (64 - bits);
                let mut bytes = [0xa5; 16];
                assert_eq!(write_bits(&mut bytes, low, bits, value), Some(()));
                assert_eq!(read_bits(&bytes, low, bits), Some(value), "{bits} bits from {low}");
                let mask = ((1u128 << bits) - 1) << low;
                let others = u128::from_le_bytes(bytes) & !mask;
                assert_eq!(others, u128::from_le_bytes([0xa5; 16]) & !mask);
            }
        }
        let mut bytes = [0; 2];
        assert_eq!(write_bits(&mut bytes, 0, 3, 8), None);
        assert_eq!(write_bits(&mut bytes, 15, 2, 0), None);
        assert_eq!(bytes, [0; 2]);
    }

    #[test]
    fn elements_of_an_array() {
        let field = Field {
            name: "VALID",
            high: 1,
            low: 0,
            stride: 4,
            count: 3,
            values: vec![(0, "FALSE"), (1, "TRUE")],
        };
        let texts: Vec<String> = field.values_in(&[0x31, 0x02]).map(|v| v.to_string()).collect();
        assert_eq!(texts, ["VALID(0) = TRUE", "VALID(1) = 0x3", "VALID(2) = 0x2"]);
        assert_eq!(field.read(&[0x31, 0x02], 3), None);
        let mut bytes = [0x31, 0x02];
        assert_eq!(field.write(&mut bytes, 1, 0), Some(()));
        assert_eq!((bytes, field.write(&mut bytes, 3, 0)), ([0x01, 0x02], None));
        assert_eq!(field.value_of("TRUE"), Some(1));
    }
}
