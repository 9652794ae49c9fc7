//! Tests that a mistake costs one element: it is reported with its line and left out, and the rest is imported.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use register_maps::{ImportedMap, LossKind, NoSources, Options, import};
use trace_core::RegOffset;
use trace_core::registers::{Direction, RegisterMap};

fn imported(text: impl AsRef<[u8]>) -> ImportedMap {
    import("t.xml", text, &Options::default(), &mut NoSources).unwrap()
}

fn map(imported: &ImportedMap) -> RegisterMap {
    RegisterMap::parse(&[("made", &imported.text)]).unwrap()
}

/// Lines of the mistakes.
fn mistakes(imported: &ImportedMap) -> Vec<u32> {
    let all = imported.losses.iter().filter(|l| l.kind == LossKind::Mistake);
    all.map(|l| l.place.line).collect()
}

fn svd(registers: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<device><name>D</name><size>32</size><peripherals>\n<peripheral><name>P</name><baseAddress>0x40000000</baseAddress><registers>\n{registers}\n<register><name>GOOD</name><addressOffset>0x80</addressOffset></register>\n</registers></peripheral></peripherals></device>"
    )
}

#[test]
fn comments_inside_values_are_no_part_of_them() {
    let text = svd(
        "<register><name>R1<!-- keep -->X</name><addressOffset><!-- in bytes -->0x4<!-- was\n8 -->0</addressOffset><description>of <!-- no --> two</description></register>",
    );
    let imported = imported(&text);
    let r = map(&imported).find_by_name("R1X").unwrap().clone();
    assert_eq!((r.offset, r.doc.as_ref()), (RegOffset::new(0x40), "of two"));
    assert!(imported.losses.is_empty(), "{:?}", imported.losses);
    let rnn = "<database><domain name=\"D\"><!-- a --><reg32 offset=\"0\" name=\"R\"><doc>one<!-- two\n-->three</doc></reg32>\n<reg32 offset=\"x\" name=\"BAD\"/></domain></database>";
    let rnn = import("r.xml", rnn, &Options::default(), &mut NoSources).unwrap();
    assert_eq!(map(&rnn).find_by_name("R").unwrap().doc.as_ref(), "onethree");
    // Lines behind a comment of several lines are those of the file.
    assert_eq!(mistakes(&rnn), [3]);
}

#[test]
fn one_bad_svd_element_is_left_out_with_its_line() {
    for (bad, registers, fields) in [
        (
            "<register><name>CH%s</name><dim>2</dim><dimIncrement>4</dimIncrement><dimIndex>0,1,2</dimIndex><addressOffset>0</addressOffset></register>",
            1,
            0,
        ),
        (
            "<register><name>CH%s</name><dim>2</dim><addressOffset>0</addressOffset></register>",
            1,
            0,
        ),
        ("<register><name>A</name></register>", 1, 0),
        ("<register><addressOffset>0</addressOffset></register>", 1, 0),
        (
            "<register><name>A</name><addressOffset>4 bytes</addressOffset></register>",
            1,
            0,
        ),
        (
            "<register><name>A</name><size>wide</size><addressOffset>0</addressOffset></register>",
            1,
            0,
        ),
        (
            "<register><name>A</name><access>read-wirte</access><addressOffset>0</addressOffset></register>",
            1,
            0,
        ),
        (
            "<register derivedFrom=\"NONE\"><name>A</name><addressOffset>0</addressOffset></register>",
            1,
            0,
        ),
        (
            "<cluster><name>C</name><register><name>A</name><addressOffset>0</addressOffset></register></cluster>",
            1,
            0,
        ),
        (
            "<register><name>A</name><addressOffset>0</addressOffset><fields><field><name>F</name></field><field><name>G</name><lsb>0</lsb><msb>3</msb></field></fields></register>",
            2,
            1,
        ),
        (
            "<register><name>A</name><addressOffset>0</addressOffset><fields><field><name>F</name><bitRange>[0:7]</bitRange></field></fields></register>",
            2,
            0,
        ),
        (
            "<register><name>A</name><addressOffset>0</addressOffset><fields><field><lsb>0</lsb><msb>3</msb></field></fields></register>",
            2,
            0,
        ),
    ] {
        let imported = imported(svd(bad));
        assert_eq!((imported.registers, imported.fields), (registers, fields), "{bad}");
        assert_eq!(mistakes(&imported), [4], "{bad}: {:?}", imported.losses);
        assert!(map(&imported).find_by_name("GOOD").is_some());
    }
    // A reset value is only described: the register stays.
    let text =
        svd("<register><name>A</name><addressOffset>0</addressOffset><resetValue>0xXXXX</resetValue></register>");
    let reset = imported(text);
    assert_eq!((reset.registers, mistakes(&reset)), (2, vec![4]));
    // A peripheral without an address, and a property of the device.
    let text = svd("").replace(
        "<peripheral><name>P</name>",
        "<peripheral><name>BAD</name></peripheral><peripheral><name>P</name>",
    );
    assert_eq!(mistakes(&imported(&text)), [3]);
    let text = svd("").replace("<size>32</size>", "<size>thirty</size>");
    let imported = imported(&text);
    assert_eq!((mistakes(&imported), imported.registers), (vec![2], 1));
}

#[test]
fn one_bad_element_of_the_other_formats_is_left_out() {
    let rnn = "<database><domain name=\"D\" width=\"32\">\n<reg32 offset=\"0\" name=\"A\"><bitfield name=\"F\" low=\"0\"/><bitfield name=\"G\" pos=\"4\"/></reg32>\n<reg32 name=\"B\"/>\n<reg32 offset=\"2\" access=\"x\" name=\"C\"/>\n<array offset=\"3\" name=\"E\" length=\"4\"><reg32 offset=\"0\" name=\"F\"/></array>\n<reg32 offset=\"8\" name=\"GOOD\"/></domain>\n<domain name=\"X\" width=\"7\"><reg32 offset=\"0\" name=\"A\"/></domain></database>";
    let rnn = imported(rnn);
    assert_eq!((rnn.registers, rnn.fields, mistakes(&rnn)), (2, 1, vec![2, 3, 4, 5, 7]));
    let genxml = "<genxml gen=\"9\"><register name=\"A\" length=\"1\"/>\n<register name=\"B\" length=\"1\" num=\"0x10\"><field name=\"f\" start=\"4\" end=\"1\"/><field name=\"g\" start=\"5\" end=\"6\"/></register>\n<struct name=\"S\" length=\"1\"><field name=\"f\" dword=\"0\" bits=\"0:3\" type=\"uint\"/>\n<field name=\"g\" dword=\"0\" bits=\"7\" type=\"bool\"/></struct></genxml>";
    let genxml = imported(genxml);
    assert_eq!((genxml.registers, genxml.fields, genxml.layout_fields), (1, 1, 1));
    assert_eq!(mistakes(&genxml), [1, 2, 3]);
    let csbgen = "<csbgen name=\"N\"><struct name=\"S\" length=\"1\">\n<field name=\"f\" start=\"4\" end=\"1\"/><field name=\"g\" start=\"5\" end=\"6\"/>\n<condition type=\"endif\" check=\"A\"/></struct></csbgen>";
    let csbgen = imported(csbgen);
    assert_eq!((csbgen.layout_fields, mistakes(&csbgen)), (1, vec![2, 3]));
    // Elements of too long names.
    let long = "n".repeat(1000);
    let text = format!(
        "<database><domain name=\"D\"><reg32 offset=\"0\" name=\"{long}\"/>\n<reg32 offset=\"8\" name=\"GOOD\"/></domain></database>"
    );
    let text = imported(text);
    assert_eq!((text.registers, mistakes(&text)), (1, vec![1]));
}

#[test]
fn mistakes_of_the_xml_are_mended_and_reported() {
    let text = svd(
        "<register><name>A</name><addressOffset>0</addressOffset><description>R&D at 5 &micro;s,\nif < 3\u{b}</description></register>",
    );
    let text = format!(
        "\n {}",
        text.replace("<device>", "<device xs:noNamespaceSchemaLocation=\"x.xsd\">")
    );
    let imported = imported(text);
    assert_eq!(imported.registers, 2);
    assert!(
        map(&imported)
            .find_by_name("A")
            .unwrap()
            .doc
            .starts_with("R&D at 5 &micro;s, if < 3")
    );
    assert_eq!(mistakes(&imported), [5, 5, 6, 6, 3]);
}

#[test]
fn declared_and_undeclared_encodings_are_read() {
    let text = svd(
        "<register><name>STEP</name><addressOffset>0</addressOffset><description>5 µs, Größe</description></register>",
    );
    let as_latin = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let as_utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let declared = |name: &str| text.replace("utf-8", name);
    for (bytes, doubts) in [
        (text.clone().into_bytes(), 0),
        (format!("\u{feff}{text}").into_bytes(), 0),
        (as_latin(&declared("ISO-8859-1")), 0),
        (as_latin(&declared("windows-1252")), 0),
        (as_utf16(&format!("\u{feff}{}", declared("utf-16"))), 0),
        (as_utf16(&declared("UTF-16")), 0),
        (as_latin(&text), 1),
    ] {
        let imported = imported(bytes);
        assert_eq!(map(&imported).find_by_name("STEP").unwrap().doc.as_ref(), "5 µs, Größe");
        assert_eq!(mistakes(&imported).len(), doubts, "{:?}", imported.losses);
        if let Some(doubt) = imported.losses.first() {
            assert_eq!((doubt.place.line, doubt.place.column), (4, 75), "{}", doubt.what);
        }
    }
}

#[test]
fn derived_elements_find_members_of_arrays() {
    let array = "<register><dim>4</dim><dimIncrement>4</dimIncrement><name>PORTA[%s]</name><addressOffset>0</addressOffset><fields><field><name>SEL</name><bitRange>[4:0]</bitRange></field></fields></register>";
    let registers = format!(
        "{array}<register derivedFrom=\"PORTA[%s]\"><name>PORTB[%s]</name><addressOffset>0x20</addressOffset></register>\
         <register derivedFrom=\"PORTA[%s]\"><dim>2</dim><dimIncrement>8</dimIncrement><name>PORTC[%s]</name><addressOffset>0x40</addressOffset></register>\
         <register derivedFrom=\"PORTA[1]\"><name>SINGLE</name><addressOffset>0x60</addressOffset></register>\
         <register derivedFrom=\"PORTA3\"><name>OTHER</name><addressOffset>0x64</addressOffset></register>\
         <register derivedFrom=\"PORTA[%s]\"><name>PLAIN</name><addressOffset>0x68</addressOffset></register>\
         \n<register derivedFrom=\"PORTA[4]\"><name>NONE</name><addressOffset>0x70</addressOffset></register>"
    );
    let read = imported(svd(&registers));
    let m = map(&read);
    for (name, offset) in [
        ("PORTB3", 0x2c),
        ("PORTC1", 0x48),
        ("SINGLE", 0x60),
        ("OTHER", 0x64),
        ("PLAIN", 0x68),
    ] {
        let r = m.find_by_name(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((r.offset, r.layout.fields.len()), (RegOffset::new(offset), 1), "{name}");
    }
    assert_eq!(
        (read.registers, read.arrays, mistakes(&read)),
        (4 + 4 + 2 + 3 + 1, 3, vec![5])
    );
    // A peripheral that is derived from a member, and an enumeration under an array of fields.
    let text = "<device><name>D</name><peripherals>
<peripheral><name>GPIO%s</name><dim>2</dim><dimIncrement>0x400</dimIncrement><dimIndex>A,B</dimIndex><baseAddress>0x48000000</baseAddress><registers>
<register><name>MODER</name><addressOffset>0</addressOffset><fields><field><dim>16</dim><dimIncrement>2</dimIncrement><name>MODE%s</name><bitOffset>0</bitOffset><bitWidth>2</bitWidth><enumeratedValues><name>KIND</name><enumeratedValue><name>In</name><value>0</value></enumeratedValue></enumeratedValues></field></fields></register>
<register><name>TYPE</name><addressOffset>4</addressOffset><fields><field><name>T</name><lsb>0</lsb><msb>1</msb><enumeratedValues derivedFrom=\"MODER.MODE3.KIND\"/></field></fields></register></registers></peripheral>
<peripheral derivedFrom=\"GPIOB\"><name>GPIOX</name><baseAddress>0x48001000</baseAddress></peripheral></peripherals></device>";
    let read = imported(text);
    let m = map(&read);
    assert_eq!(m.find_by_name("GPIOX_MODER").unwrap().offset, RegOffset::new(0x1000));
    assert_eq!(m.find_by_name("GPIOX_TYPE").unwrap().layout.fields[0].text(0), "In");
    assert!(read.losses.is_empty(), "{:?}", read.losses);
}

#[test]
fn lists_of_values_follow_the_direction_and_keep_descriptions() {
    let list = |usage: &str, name: &str, doc: &str| {
        format!(
            "<enumeratedValues><name>{name}S</name>{usage}<enumeratedValue><name>{name}</name><description>{doc}</description><value>1</value></enumeratedValue></enumeratedValues>"
        )
    };
    let field = |name: &str, bit: u32, lists: &str| {
        format!("<field><name>{name}</name><lsb>{bit}</lsb><msb>{bit}</msb>{lists}</field>")
    };
    let both = list("<usage>read</usage>", "Busy", "Work runs.") + &list("<usage>write</usage>", "Start", "");
    let reads = list("<usage>read</usage>", "Done", "Done");
    let any = list("", "On", "Is on.");
    let fields = field("A", 0, &both) + &field("B", 1, &reads) + &field("C", 2, &any);
    let read = imported(svd(&format!(
        "<register><name>R</name><addressOffset>0</addressOffset><fields>{fields}</fields></register>"
    )));
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    let m = map(&read);
    let at = RegOffset::ZERO;
    assert_eq!(
        m.describe_in(at, 4, 7, Direction::Read).unwrap(),
        "A Busy · B Done · C On"
    );
    assert_eq!(
        m.describe_in(at, 4, 7, Direction::Write).unwrap(),
        "A Start · B 0x1 · C On"
    );
    let fields = &m.find_by_name("R").unwrap().layout.fields;
    let doc = |n: usize| fields[n].values(Direction::Read).unwrap().doc(1);
    assert_eq!((doc(0), doc(1), doc(2)), (Some("Work runs."), None, Some("Is on.")));
}
