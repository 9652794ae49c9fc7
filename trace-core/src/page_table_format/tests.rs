//! Tests of descriptions: the example of the document, wrong files, round trips.

use super::*;
use proptest::prelude::*;

/// Returns the example of the document.
fn example() -> String {
    let document = include_str!("../../../docs/page-table-formats.md");
    let (_, rest) = document.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_of_the_document_is_a_description() {
    let format = PageTableFormat::parse(&example()).unwrap();
    assert_eq!(
        (format.name(), format.levels(), format.address_bits()),
        ("two-levels", 2, 32)
    );
    assert_eq!(format.level_span_bytes(0), 4 << 20);
    assert_eq!(format.tables()[1].fields()[0].describe(1 << 3), "write back");
}

#[test]
fn the_document_lists_every_embedded_format() {
    let document = include_str!("../../../docs/page-table-formats.md");
    for embedded in embedded_formats() {
        assert!(document.contains(&format!("`{}`", embedded.name)), "{}", embedded.name);
    }
}

#[test]
fn wrong_descriptions_name_the_line_and_what_is_missing() {
    let good = example();
    let line = |needle: &str| good.lines().position(|l| l.contains(needle)).unwrap() + 1;
    for (from, to, message) in [
        ("name = \"two-levels\"\n", "", "line 1: missing field `name`".to_owned()),
        (
            "root = \"directory\"",
            "root = \"top\"",
            format!("line {}: root: there is no [[table]]", line("root =")),
        ),
        (
            "address_bits = 32",
            "address_bits = 33",
            "translates 32 address bits".to_owned(),
        ),
        (
            "address_bits = 32",
            "address_bits = 99",
            format!("line {}: address_bits: 99", line("address_bits")),
        ),
        ("index = \"21:12\"", "index = \"20:12\"", "covers 2^22 bytes".to_owned()),
        (
            "index = \"21:12\"",
            "index = \"12:21\"",
            "'12:21' are no bits".to_owned(),
        ),
        (
            "index = \"31:22\"",
            "index = \"60:22\"",
            "its index has 39 bits".to_owned(),
        ),
        (
            "entry_bytes = 4",
            "entry_bytes = 5",
            "entry_bytes is 5 (expected 4, 8 or 16)".to_owned(),
        ),
        (
            "table = \"pages\"",
            "table = \"leaves\"",
            "no [[table]] of the name 'leaves'".to_owned(),
        ),
        ("table = \"pages\", ", "", "lacks `table = NAME`".to_owned()),
        (", address = { \"31:22\" = 22 }", "", "lacks `address".to_owned()),
        ("\"31:22\" = 22 }", "\"31:22\" = 60 }", "exceed 64 bits".to_owned()),
        (
            "{ \"0\" = 1, \"7\" = 1 }",
            "{ \"0\" = 2 }",
            "the bits '0' cannot be 2".to_owned(),
        ),
        (
            "{ \"0\" = 1, \"7\" = 1 }",
            "{ \"0\" = 1, \"40\" = 1 }",
            "'40' are no bits".to_owned(),
        ),
        ("is = \"page\"", "is = \"leaf\"", "unknown variant `leaf`".to_owned()),
        (
            "is = \"page\", ",
            "is = \"page\", memory = \"video\", ",
            "the format lacks `memory`".to_owned(),
        ),
        ("read = true\n", "", "missing field `read`".to_owned()),
        ("[rights]", "speed = 3\n[rights]", "unknown field `speed`".to_owned()),
        (
            "name = \"pages\"",
            "name = \"directory\"",
            "two tables have this name".to_owned(),
        ),
        (
            "\"31:12\" = 12",
            "\"31:12\" = 1",
            "bits below the size of an entry".to_owned(),
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let error = PageTableFormat::parse(&good.replacen(from, to, 1))
            .expect_err(to)
            .to_string();
        assert!(error.contains(&message), "{to}: {error}");
        assert!(error.starts_with("line "), "{error}");
    }
    let long = format!("{good}# {}", "x".repeat(MAX_FORMAT_BYTES));
    assert!(matches!(
        PageTableFormat::parse(&long),
        Err(FormatError::TooLong { .. })
    ));
}

#[test]
fn tables_that_lead_back_and_large_ones_are_refused() {
    // A table cannot point to itself, because the address bits of the next one are lower.
    let looped = example().replace("table = \"pages\"", "table = \"directory\"");
    assert!(
        PageTableFormat::parse(&looped)
            .unwrap_err()
            .to_string()
            .contains("covers 2^")
    );
    let huge = example().replace("index = \"21:12\"", "index = \"21:2\"");
    assert!(
        PageTableFormat::parse(&huge)
            .unwrap_err()
            .to_string()
            .contains("pages have 2^2 bytes")
    );
}

#[test]
fn recordings_hold_the_text_of_a_description() {
    let format = DescribedFormat::parse(&example()).unwrap();
    let bytes = crate::encode::to_bytes(&crate::recording::MmuFormat::Described(format)).unwrap();
    // The number of the choice, the length of the text, the text.
    assert_eq!(bytes[..4], [2, 0, 0, 0]);
    assert_eq!(&bytes[12..], example().as_bytes());
    let read: crate::recording::MmuFormat = crate::encode::from_bytes(&bytes).unwrap();
    assert_eq!(read, crate::recording::MmuFormat::Described(format));
    for (format, number) in crate::recording::MmuFormat::WRITTEN.into_iter().zip(0u8..) {
        assert_eq!(crate::encode::to_bytes(&format).unwrap(), [number, 0, 0, 0]);
    }
    let mut wrong = bytes;
    wrong[12] = b'?';
    let error = crate::encode::from_bytes::<crate::recording::MmuFormat>(&wrong).unwrap_err();
    assert!(
        error.to_string().contains("description of a page-table format"),
        "{error}"
    );
}

proptest! {
    /// Damaged descriptions are read or refused, and never panic.
    #[test]
    fn damaged_descriptions_are_read_or_refused(
        which in 0..embedded_formats().count(),
        at in any::<proptest::sample::Index>(),
        with in "[0-9:\"a-z{}=\\[\\]]{0,6}",
        cut in 0usize..12,
    ) {
        let text = embedded_formats().nth(which).unwrap().text;
        let from = at.index(text.len());
        let end = (from + cut).min(text.len());
        if let (Some(head), Some(tail)) = (text.get(..from), text.get(end..)) {
            let _ = PageTableFormat::parse(&format!("{head}{with}{tail}"));
        }
    }
}
