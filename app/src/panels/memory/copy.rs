//! Bytes in every form that they are copied in.

use crate::document::values;
use trace_core::recording::ElementType;

/// The forms of bytes: what each is, and its text. A byte that is not known is `??`, and 0 in numbers.
#[must_use]
pub fn forms(va: u64, bytes: &[Option<u8>], element: Option<ElementType>) -> Vec<(&'static str, String)> {
    let known: Vec<u8> = bytes.iter().map(|b| b.unwrap_or(0)).collect();
    let join = |list: Vec<String>, with: &str| list.join(with);
    let hex = bytes.iter().map(|b| b.map_or("??".into(), |b| format!("{b:02x}")));
    let decimal = known.iter().map(u8::to_string);
    let c = known.chunks(12).map(|line| {
        let list: Vec<String> = line.iter().map(|b| format!("{b:#04x}")).collect();
        format!("    {},\n", list.join(", "))
    });
    let ascii = |b: &u8| if (0x20..0x7f).contains(b) { *b as char } else { '.' };
    let mut out = vec![
        ("address", format!("{va:#x}")),
        ("as hex", join(hex.collect(), " ")),
        ("as decimal", join(decimal.collect(), ", ")),
        (
            "as C array",
            format!(
                "const unsigned char mem_{va:x}[{}] = {{\n{}}};\n",
                known.len(),
                join(c.collect(), "")
            ),
        ),
        ("as text", known.iter().map(ascii).collect()),
    ];
    if let Some(e) = element.filter(|e| *e != ElementType::U8) {
        let list = known.chunks_exact(e.bytes()).map(|b| values::element_text(e, b));
        out.push(("as values", join(list.collect(), ", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_in_every_form() {
        let bytes = [Some(0x41), Some(0), None, Some(0xff)];
        let all = forms(0x1000, &bytes, Some(ElementType::U16));
        let of = |name: &str| all.iter().find(|f| f.0 == name).unwrap().1.clone();
        assert_eq!(of("address"), "0x1000");
        assert_eq!(of("as hex"), "41 00 ?? ff");
        assert_eq!(of("as decimal"), "65, 0, 0, 255");
        assert_eq!(
            of("as C array"),
            "const unsigned char mem_1000[4] = {\n    0x41, 0x00, 0x00, 0xff,\n};\n"
        );
        assert_eq!(of("as text"), "A...");
        assert_eq!(of("as values"), "65, 65280");
    }
}
