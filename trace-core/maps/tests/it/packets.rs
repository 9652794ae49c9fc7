//! Tests of today's forms of Mesa's packet descriptions: Intel's words and bits, Asahi's, and PowerVR's csbgen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use register_maps::{ImportError, ImportedMap, LossKind, NoSources, Options, Sources, import};
use trace_core::RegOffset;
use trace_core::registers::RegisterMap;

struct One(&'static str, &'static str);

impl Sources for One {
    fn bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        (name == self.0).then(|| self.1.as_bytes().to_vec())
    }
}

fn variant(text: &str, variant: Option<&str>) -> Result<ImportedMap, ImportError> {
    let options = Options {
        variant: variant.map(str::to_owned),
        ..Options::default()
    };
    import("t.xml", text, &options, &mut NoSources)
}

fn map(imported: &ImportedMap) -> RegisterMap {
    RegisterMap::parse(&[("made", &imported.text)]).unwrap()
}

#[test]
fn intel_fields_in_words_and_bits_are_read_with_imports_and_excludes() {
    let base = r#"<genxml name="BASE" gen="20">
<struct name="CORNER" length="1"><field name="Column" dword="0" bits="15:0" type="uint"/></struct>
<struct name="PATCH" length="6"><field name="First" dword="0" bits="31:0" type="CORNER"/><field name="Wide" dword="1" bits="63:4" type="uint"/>
<group count="2" dword="3" offset-bits="16" size="32"><field name="Part" dword="0" bits="7:4" type="uint"/></group></struct>
<register name="MODE_A" length="1" num="0x2080"><field name="On" dword="0" bits="0" type="bool"/></register>
<register name="MODE_B" length="2" num="0x2090"><field name="Count" dword="0" bits="63:0" type="uint"/></register></genxml>"#;
    let next = r#"<genxml name="NEXT" gen="21"><import name="base.xml"><exclude name="CORNER"/><exclude name="MODE_B"/></import>
<struct name="CORNER" length="1"><field name="Column" dword="0" bits="7:0" type="uint"/></struct>
<register name="MODE_C" length="1" num="0x20a0"><field name="Level" dword="0" bits="3:0" type="uint"/></register></genxml>"#;
    let imported = import("next.xml", next, &Options::default(), &mut One("base.xml", base)).unwrap();
    let m = map(&imported);
    let names: Vec<&str> = m.registers().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["MODE_A", "MODE_C"]);
    assert_eq!(m.layout("CORNER").unwrap().fields[0].hi, 7);
    let bits: Vec<(u32, u32)> = m.layout("PATCH").unwrap().fields.iter().map(|f| (f.lo, f.hi)).collect();
    assert_eq!(bits, [(0, 31), (36, 95), (116, 119), (148, 151)]);
    assert!(imported.losses.is_empty(), "{:?}", imported.losses);
}

#[test]
fn asahi_structures_count_bytes_and_sizes() {
    let text = r#"<genxml><enum name="Wrap"><value name="Clamp" value="0"/><value name="Repeat" value="1"/></enum>
<struct name="Sampler" size="12"><field name="Tag" size="8" start="0:0" type="hex" exact="0x1d"/><field name="Wrap" size="3" start="29" type="Wrap" default="Clamp"/>
<field name="On" start="1:3" type="bool"/><field name="Address" size="28" start="1:4" type="address" modifier="shr(4)"/>
<field name="Width" size="14" start="2:0" type="uint" modifier="minus(1)"/><field name="Kept" size="4" start="2:14" type="uint" modifier="align(4)"/></struct></genxml>"#;
    let read = variant(text, None).unwrap();
    let m = map(&read);
    let layout = m.layout("Sampler").unwrap();
    assert_eq!((layout.bits, layout.fields.len()), (96, 6));
    let field = |name: &str| layout.field(name).unwrap();
    assert_eq!((field("Tag").doc.as_str(), field("On").lo), ("The value is 0x1d.", 35));
    assert_eq!(
        (field("Address").text(0x12), field("Wrap").text(1)),
        ("0x120".to_owned(), "Repeat".to_owned())
    );
    assert_eq!(field("Width").text(0), "1");
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    assert!(read.text.contains("Apple AGX"));
    assert_eq!(
        variant(&text.replace("genxml", "agxml"), None).unwrap().layout_fields,
        6
    );
}

#[test]
fn csbgen_structures_follow_the_features_of_the_variant() {
    let text = r#"<csbgen name="ROGUE" prefix="CR"><define name="ROWS" value="0x10"/>
<enum name="WAY"><value name="DOWN" value="0"/><value name="UP" value="1"/></enum>
<struct name="BASE" length="2"><field name="addr" start="4" end="39" shift="4" type="address"/>
<condition type="if" check="WIDE"/><field name="wide" start="62" end="62" type="bool"/><condition type="else" check="WIDE"/>
<condition type="if" check="LANES &gt; 2"/><field name="lanes" start="60" end="62" type="uint"><define name="UNIT_SIZE" value="4"/></field><condition type="endif" check="LANES &gt; 2"/>
<condition type="endif" check="WIDE"/><field name="way" start="63" end="63" type="WAY"/></struct>
<stream name="CMD" length="3"><field name="a" size="64" type="address" shift="0"/><field name="b" size="32" type="uint" feature="HAS_B"/><field name="c" size="16" type="uint"/></stream></csbgen>"#;
    let fields = |made: &ImportedMap, layout: &str| -> Vec<(String, u32, u32)> {
        let m = map(made);
        m.layout(layout)
            .unwrap()
            .fields
            .iter()
            .map(|f| (f.name.clone(), f.lo, f.hi))
            .collect()
    };
    let all = variant(text, None).unwrap();
    let kinds: Vec<LossKind> = all.losses.iter().map(|l| l.kind).collect();
    // The constant, the choice of a variant, and one of two fields in the same bits.
    assert_eq!(kinds, [LossKind::Element, LossKind::Variant, LossKind::Field]);
    assert!(
        all.losses[1].what.contains("HAS_B, LANES, WIDE"),
        "{}",
        all.losses[1].what
    );
    assert_eq!((all.layouts, all.layout_fields), (2, 6));
    let m = map(&all);
    let base = m.layout("BASE").unwrap();
    assert_eq!(
        (base.bits, base.field("addr").unwrap().text(0x12)),
        (64, "0x120".to_owned())
    );
    assert_eq!(base.field("way").unwrap().text(1), "UP");
    assert_eq!(m.layout("CMD").unwrap().bits, 128);

    let wide = variant(text, Some("WIDE")).unwrap();
    let names: Vec<String> = fields(&wide, "BASE").into_iter().map(|(n, ..)| n).collect();
    assert_eq!(names, ["addr", "wide", "way"]);
    assert_eq!(
        fields(&wide, "CMD"),
        [("a".to_owned(), 0, 63), ("c".to_owned(), 64, 79)]
    );
    let lanes = variant(text, Some("LANES=4,HAS_B")).unwrap();
    assert!(lanes.text.contains("UNIT_SIZE is 4."));
    let names: Vec<String> = fields(&lanes, "BASE").into_iter().map(|(n, ..)| n).collect();
    assert_eq!(names, ["addr", "lanes", "way"]);
    assert_eq!(fields(&lanes, "CMD").len(), 3);
    let error = variant(text, Some("TALL")).unwrap_err().to_string();
    assert!(error.contains("'TALL'") && error.contains("LANES"), "{error}");
}

#[test]
fn small_fields_take_their_bits_out_of_the_address_around_them() {
    let text = r#"<genxml gen="9"><struct name="S" length="4"><field name="Base" start="0" end="63" type="address"/><field name="On" start="0" end="0" type="bool"/><field name="Mode" start="1" end="5" type="uint"/>
<field name="Page" start="64" end="127" type="address"/><field name="Top" start="120" end="127" type="uint"/></struct>
<register name="R" length="1" num="0x10"><field name="At" start="0" end="31" type="address"/><field name="Valid" start="0" end="0" type="bool"/></register></genxml>"#;
    let read = variant(text, None).unwrap();
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    let m = map(&read);
    let s = m.layout("S").unwrap();
    let bits: Vec<(&str, u32, u32)> = s.fields.iter().map(|f| (f.name.as_str(), f.lo, f.hi)).collect();
    assert_eq!(
        bits,
        [
            ("On", 0, 0),
            ("Mode", 1, 5),
            ("Base", 6, 63),
            ("Page", 64, 119),
            ("Top", 120, 127)
        ]
    );
    let value = 0x1234_5678_9000u64 | 0b11;
    assert_eq!(s.decode(value).text("Base"), Some("0x123456789000"));
    assert_eq!(
        m.at(RegOffset::new(0x10)).unwrap().describe(0x4000_0001),
        "Valid · At 0x40000000"
    );
}
