//! Compares the three importers with independent readers, on files of the source projects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use register_maps::{Folder, ImportError, ImportedMap, LossKind, NoSources, Options, import};
use std::path::{Path, PathBuf};
use trace_core::RegOffset;
use trace_core::registers::{AccessRule, RegisterMap};

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

fn import_file(file: &Path, options: &Options) -> ImportedMap {
    let bytes = std::fs::read(file).unwrap();
    import(&file.display().to_string(), bytes, options, &mut Folder::new(file)).unwrap()
}

fn map(imported: &ImportedMap) -> RegisterMap {
    RegisterMap::parse(&[("made", &imported.text)]).unwrap()
}

fn block(name: &str) -> Options {
    Options {
        blocks: vec![name.to_owned()],
        ..Options::default()
    }
}

fn refused(text: &str) -> ImportError {
    import("bad.xml", text, &Options::default(), &mut NoSources).unwrap_err()
}

/// Returns the first mistake that an import reports, with its location.
fn mistake(text: &str) -> String {
    let imported = import("bad.xml", text, &Options::default(), &mut NoSources).unwrap();
    assert_eq!(imported.registers + imported.layouts, 0);
    let first = imported.losses.iter().find(|l| l.kind == LossKind::Mistake).unwrap();
    format!("{}: {}", first.place, first.what)
}

#[test]
fn svd_import_matches_svd_parser() {
    use svd_parser::svd::RegisterCluster;
    let file = files().join("timer.svd");
    let text = std::fs::read_to_string(&file).unwrap();
    let config = svd_parser::Config::default().expand(true);
    let device = svd_parser::parse_with_config(&text, &config).unwrap();
    let imported = import_file(&file, &block("TIMER0"));
    let map = map(&imported);
    let peripheral = device.peripherals.iter().find(|p| p.name == "TIMER0").unwrap();
    let (mut n, mut fields) = (0, 0);
    fn each(list: &[RegisterCluster], base: u32, prefix: &str, f: &mut impl FnMut(String, u32, usize)) {
        for r in list {
            match r {
                RegisterCluster::Register(r) => {
                    f(
                        format!("{prefix}{}", r.name),
                        base + r.address_offset,
                        r.fields.iter().flatten().count(),
                    );
                }
                RegisterCluster::Cluster(c) => {
                    each(&c.children, base + c.address_offset, &format!("{prefix}{}_", c.name), f);
                }
            }
        }
    }
    each(
        peripheral.registers.as_ref().unwrap(),
        0,
        "",
        &mut |name, offset, field_count| {
            if name == "ALTERNATE" {
                return;
            }
            (n, fields) = (n + 1, fields + field_count);
            let name = if name == "COUNT" { "COUNT_LO".to_owned() } else { name };
            let r = map.find_by_name(&name).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(r.offset, RegOffset::new(offset), "{name}");
        },
    );
    assert_eq!((imported.registers, imported.fields), (n, fields));
    assert_eq!((n, fields), (14, 9));
}

#[test]
fn svd_import_keeps_access_and_values_and_reports_losses() {
    let imported = import_file(&files().join("timer.svd"), &block("TIMER0"));
    let map = map(&imported);
    assert_eq!(imported.window_at, Some(0x4001_0000));
    assert_eq!(map.window_bytes(), 0x400);
    let ctrl = map.find_by_name("CTRL").unwrap();
    assert_eq!(ctrl.describe(0x3), "RUN · MODE AGAIN · NEXT ONCE");
    assert!(
        ctrl.doc.contains("Reset value 0x12.") && ctrl.doc.contains("ALTERNATE"),
        "{}",
        ctrl.doc
    );
    assert_eq!(ctrl.layout.fields.last().unwrap().name, "PIN_D");
    assert!(map.find_by_name("STATUS").unwrap().doc.contains("Writing 1 clears."));
    assert_eq!(map.find_by_name("KEY").unwrap().access, AccessRule::WriteOnly);
    assert_eq!(map.find_by_name("COUNT_HI").unwrap().access, AccessRule::ReadOnly);
    assert!(!map.find_by_name("STATUS2").unwrap().replay.write);
    let kinds: Vec<LossKind> = imported.losses.iter().map(|l| l.kind).collect();
    // The losses are a default value, an interrupt and an alternate register.
    use LossKind::{Element, Overlap, Value};
    assert_eq!(kinds, [Value, Element, Element, Overlap]);
    let default = &imported.losses[0];
    assert_eq!((default.place.line, default.place.column), (34, 17), "{}", default.what);
    // A map of both timers has one window, and each name has the prefix of its timer.
    let both = import_file(&files().join("timer.svd"), &Options::default());
    let both = RegisterMap::parse(&[("made", &both.text)]).unwrap();
    assert_eq!(
        both.find_by_name("TIMER1_CH2_BUF1").unwrap().offset,
        RegOffset::new(0x1000 + 0x100 + 0x20 + 0x8)
    );
    assert_eq!(both.find_by_name("TIMER1_CTRL").unwrap().block, "TIMER1");
}

#[test]
fn vendor_svd_register_counts_match_cmsis_svd() {
    let Some(file) = std::env::var_os("KINESCOPE_RP2040_SVD") else {
        println!("skipped: KINESCOPE_RP2040_SVD names no file");
        return;
    };
    for (name, registers, fields) in [
        ("UART0", 22, 99),
        ("I2C0", 42, 129),
        ("PIO0", 81, 260),
        ("DMA", 233, 231),
    ] {
        let imported = import_file(Path::new(&file), &block(name));
        assert_eq!((imported.registers, imported.fields), (registers, fields), "{name}");
    }
}

#[test]
fn freedreno_register_offsets_match_its_generator() {
    for (name, registers) in [("hdmi/hdmi", 92), ("adreno/ocmem", 7)] {
        let imported = import_file(&files().join(format!("{name}.xml")), &Options::default());
        let map = map(&imported);
        let list = std::fs::read_to_string(files().join(format!("{name}.gen_header.txt"))).unwrap();
        let mut n = 0;
        for line in list.lines() {
            let (register, offset) = line.split_once(' ').unwrap();
            let offset = u32::from_str_radix(offset.trim_start_matches("0x"), 16).unwrap();
            // The generator names the first register of an array after the array.
            let first = map
                .find_by_name(register)
                .or_else(|| map.find_by_name(&format!("{register}0")))
                .or_else(|| map.find_by_name(&format!("{register}_0")));
            let r = first.unwrap_or_else(|| panic!("{register} is missing"));
            assert_eq!(r.offset, RegOffset::new(offset), "{register}");
            n += 1;
        }
        assert_eq!(n, registers, "{name}");
        let is_reported = imported
            .losses
            .iter()
            .any(|l| l.kind == LossKind::Element && l.what.contains("read as bytes"));
        assert!(is_reported, "{:?}", imported.losses);
    }
}

#[test]
fn arrays_of_rules_ng_ng_are_laid_out_and_variants_chosen() {
    let text = r#"<database>
<enum name="chip"><value name="A2"/><value name="A3"/><value name="A4"/></enum>
<enum name="how"><value name="FAST" value="1"/><value name="SLOW" value="0x2" variants="A3-"/></enum>
<bitset name="both" inline="yes"><bitfield name="HOW" low="0" high="1" type="how"/><bitfield name="BASE" low="4" high="31" shr="4"/></bitset>
<group name="pair"><reg32 offset="1" name="LOW" access="r"/><reg64 offset="2" name="WIDE"/></group>
<domain name="D" width="32" prefix="chip">
  <reg32 offset="1" name="ID" access="r"/>
  <reg32 offset="3" name="OLD" variants="A2"/>
  <reg32 offset="3" name="NEW" variants="A3-"><bitfield name="GO" pos="0"/><doc>Starts.</doc></reg32>
  <array offset="0x10" name="MRT" stride="8" length="2"><reg32 offset="0" name="CTL" type="both"/><use-group name="pair"/></array>
  <reg32 offset="0x30" name="X9" length="3"/>
  <array offsets="0x41,0x51" name="AT"><reg32 offset="0" name="R"/></array>
</domain></database>"#;
    let variant = |v: &str| Options {
        variant: Some(v.to_owned()),
        ..Options::default()
    };
    let a3 = import("t.xml", text, &variant("A3"), &mut NoSources).unwrap();
    let m = map(&a3);
    assert_eq!(m.at(RegOffset::new(12)).unwrap().name, "NEW");
    assert_eq!(m.find_by_name("MRT1_CTL").unwrap().offset, RegOffset::new(4 * 0x18));
    assert_eq!(
        m.find_by_name("MRT1_CTL").unwrap().describe(0x12),
        "HOW SLOW · BASE 0x10"
    );
    assert_eq!(m.find_by_name("MRT0_WIDE_HI").unwrap().offset, RegOffset::new(4 * 0x13));
    assert_eq!(m.find_by_name("X9_2").unwrap().offset, RegOffset::new(4 * 0x32));
    assert_eq!(m.find_by_name("AT1_R").unwrap().offset, RegOffset::new(4 * 0x51));
    assert!(a3.losses.is_empty(), "{:?}", a3.losses);
    let a2 = map(&import("t.xml", text, &variant("A2"), &mut NoSources).unwrap());
    assert_eq!(a2.at(RegOffset::new(12)).unwrap().name, "OLD");
    assert!(a2.find_by_name("MRT0_CTL").unwrap().describe(0x2).contains("unknown"));
    let all = import("t.xml", text, &Options::default(), &mut NoSources).unwrap();
    let kinds: Vec<LossKind> = all.losses.iter().map(|l| l.kind).collect();
    assert_eq!(kinds, [LossKind::Variant, LossKind::Overlap]);
    let error = import("t.xml", text, &variant("A9"), &mut NoSources).unwrap_err();
    assert!(error.to_string().contains("A2, A3, A4"), "{error}");
}

/// A compact map, the form of embedded maps, has the same registers and keeps arrays as arrays.
#[test]
fn compact_map_keeps_registers_and_fields() {
    let text = r#"<database><domain name="D" width="32"><doc>About it.</doc>
  <array offset="0x10" name="RB_MRT" stride="8" length="3"><reg32 offset="0" name="CTL"><bitfield name="GO" pos="0"/><bitfield name="N" low="4" high="7" type="uint"/></reg32>
    <array offset="1" name="BUF" stride="1" length="2"><reg32 offset="0" name="A"/></array></array>
  <reg32 offset="0x40" name="RB_X" length="2"/><reg64 offset="0x50" name="VPC_WIDE" length="2" stride="2"/><reg32 offset="0x60" name="VPC_ID" access="r"><doc>Says.</doc></reg32>
  <reg32 offset="0x61" name="UNKNOWN_61"/><reg32 offset="0x62" name="UNKNOWN_62"/><reg32 offset="0x70" name="ALONE"/>
</domain><domain name="E" width="32"><reg32 offset="0x81" name="RB_OF_E"/><reg32 offset="0x70" name="TAKEN"/></domain></database>"#;
    let options = |compact: bool, blocks: &[&str]| Options {
        compact,
        blocks: blocks.iter().map(|b| (*b).to_owned()).collect(),
        name: Some("t".to_owned()),
        ..Options::default()
    };
    let full = import("t.xml", text, &options(false, &["D"]), &mut NoSources).unwrap();
    let small = import("t.xml", text, &options(true, &["D"]), &mut NoSources).unwrap();
    assert_eq!((small.registers, small.fields), (full.registers, full.fields));
    let (a, b) = (map(&full), map(&small));
    let registers = |m: &RegisterMap| {
        m.registers()
            .map(|r| (r.offset, r.name.clone(), r.access))
            .collect::<Vec<_>>()
    };
    assert_eq!(registers(&a), registers(&b));
    assert!(small.text.len() < full.text.len(), "{}", small.text);
    assert!(
        small.text.contains("name = \"RB_MRT{n}_CTL\"") && !small.text.contains("About it"),
        "{}",
        small.text
    );
    for m in [&a, &b] {
        assert_eq!(m.find_by_name("RB_MRT2_CTL").unwrap().describe(0x31), "GO · N 3");
    }
    let block = |name: &str| b.find_by_name(name).unwrap().block.clone();
    assert_eq!(block("RB_MRT0_BUF1_A"), "RB");
    assert_eq!(block("VPC_WIDE1_HI"), "VPC");
    assert_eq!((block("UNKNOWN_61"), block("ALONE")), ("D".to_owned(), "D".to_owned()));
    // Several domains share one window. The first register at an offset wins.
    let both = import("t.xml", text, &options(true, &["D", "E"]), &mut NoSources).unwrap();
    let both = map(&both);
    assert_eq!(both.find_by_name("RB_OF_E").unwrap().offset, RegOffset::new(0x204));
    assert_eq!(both.at(RegOffset::new(0x1c0)).unwrap().name, "ALONE");
    assert_eq!(both.layouts().count(), 0);
}

#[test]
fn mesa_packet_layout_counts_match_its_generator() {
    let rt = import_file(&files().join("gen_rt.xml"), &Options::default());
    assert_eq!((rt.registers, rt.layouts), (0, 14));
    let v3d = import_file(&files().join("v3d_packet_v21.xml"), &Options::default());
    assert_eq!((v3d.registers, v3d.layouts), (0, 38));
    let m = map(&v3d);
    assert!(m.layouts().all(|l| l.bits % 8 == 0));
}

#[test]
fn registers_of_genxml_have_their_offsets_and_halves() {
    let text = r#"<genxml name="T" gen="9">
<enum name="Mode"><value name="OFF" value="0"/><value name="ON" value="1"/></enum>
<register name="CTL" length="1" num="0x2044"><field name="Mode" start="0" end="1" type="Mode"/><field name="Ready" start="5" end="5" type="bool"/></register>
<register name="BASE" length="2" num="0x2050"><field name="Address" start="12" end="47" type="address"/></register>
<register name="MANY" length="3" num="0x2060"><field name="Last" start="64" end="95" type="uint"/></register>
<struct name="STATE" length="2"><group count="4" start="0" size="16"><field name="Part" start="0" end="15" type="u4.8"/></group></struct>
</genxml>"#;
    let imported = import("gen9.xml", text, &Options::default(), &mut NoSources).unwrap();
    let m = map(&imported);
    assert_eq!(m.find_by_name("CTL").unwrap().describe(0x21), "Mode ON · Ready");
    assert_eq!(m.find_by_name("BASE_HI").unwrap().offset, RegOffset::new(0x2054));
    assert_eq!(m.layout("BASE").unwrap().fields[0].text(0x5), "0x5000");
    assert_eq!(m.find_by_name("MANY_2").unwrap().offset, RegOffset::new(0x2068));
    assert_eq!(m.layout("STATE").unwrap().fields.len(), 4);
    assert!(imported.losses.iter().all(|l| l.kind == LossKind::Kind) && imported.losses.len() == 4);
}

#[test]
fn hostile_files_are_refused_quickly_with_a_location() {
    let deep = format!("<database>{}{}</database>", "<a>".repeat(5000), "</a>".repeat(5000));
    assert!(matches!(refused(&deep), ImportError::TooMuch { .. }));
    let circle = r#"<device><peripherals><peripheral derivedFrom="B"><name>A</name><baseAddress>0</baseAddress></peripheral>
<peripheral derivedFrom="A"><name>B</name><baseAddress>0</baseAddress></peripheral></peripherals></device>"#;
    assert!(mistake(circle).starts_with("bad.xml:2:1: "), "{}", mistake(circle));
    let arrays = "<array offset=\"0\" stride=\"0x1000\" length=\"4000\" name=\"A\">";
    let many = format!(
        "<database><domain name=\"D\">{}<reg32 offset=\"0\" name=\"R\"/>{}</domain></database>",
        arrays.repeat(8),
        "</array>".repeat(8)
    );
    assert!(mistake(&many).contains("nested more than"), "{}", mistake(&many));
    let groups = "<group start=\"0\" count=\"60000\" size=\"1\">";
    let many = format!(
        "<genxml><struct name=\"S\" length=\"1\">{}{}</struct></genxml>",
        groups.repeat(6),
        "</group>".repeat(6)
    );
    assert!(matches!(refused(&many), ImportError::TooMuch { .. }));
    let clusters =
        "<cluster><name>C%s</name><dim>50000</dim><dimIncrement>1</dimIncrement><addressOffset>0</addressOffset>";
    // Arrays of arrays are not laid out; the members of these are too many.
    let many = format!(
        "<device><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress><registers>{}<register><name>R</name><addressOffset>0</addressOffset></register>{}</registers></peripheral></peripherals></device>",
        clusters.repeat(6),
        "</cluster>".repeat(6)
    );
    let imported = import("many.svd", &many, &Options::default(), &mut NoSources).unwrap();
    assert_eq!((imported.registers, imported.losses[0].kind), (0, LossKind::Array));
    let self_referencing = r#"<database><group name="g"><use-group name="g"/></group><domain name="D"><use-group name="g"/></domain></database>"#;
    assert!(mistake(self_referencing).contains("cycle"));
    let far =
        r#"<database><domain name="D" width="32"><reg32 offset="0xffffffffffffffff" name="R"/></domain></database>"#;
    assert!(mistake(far).contains("exceed 64 bits"));
    assert!(matches!(
        refused("<!DOCTYPE a [<!ENTITY b 'c'>]><database/>"),
        ImportError::Xml { .. }
    ));
    assert!(matches!(refused("<html/>"), ImportError::Unknown { .. }));
    assert!(matches!(refused(""), ImportError::Xml { .. }));
}

#[test]
fn extreme_names_arrays_and_fields_are_handled() {
    let svd = |register: &str| {
        format!(
            "<device><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress><registers><register>{register}\
             <addressOffset>0</addressOffset></register></registers></peripheral></peripherals></device>"
        )
    };
    let long = "n".repeat(1 << 20);
    let many = svd(&format!(
        "<name>{long}%s</name><dim>60000</dim><dimIncrement>4</dimIncrement>"
    ));
    assert!(mistake(&many).contains("more than 256 bytes"));
    let index = format!("{},c", "x".repeat(300_000));
    let wide = format!(
        "<name>{}</name><dim>2</dim><dimIncrement>4</dimIncrement><dimIndex>{index}</dimIndex>",
        "%s".repeat(100)
    );
    assert!(mistake(&svd(&wide)).contains("too long"), "{}", mistake(&svd(&wide)));
    let none = svd("<name>R%s</name><dim>0</dim><dimIncrement>4</dimIncrement>");
    assert!(mistake(&none).contains("dim is 0"));
    let all = "<genxml name=\"x\"><struct name=\"S\" length=\"1\"><field name=\"f\" start=\"0\" \
               end=\"18446744073709551615\" type=\"uint\"/></struct></genxml>";
    let _result = import("all.xml", all, &Options::default(), &mut NoSources);
}

#[test]
fn cyclic_imports_end_and_outside_paths_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let a = inner.join("a.xml");
    std::fs::write(&a, "<database><import file=\"b.xml\"/><import file=\"../../etc/x\"/><import file=\"/etc/hostname\"/><domain name=\"A\"><reg32 offset=\"0\" name=\"R\" type=\"e\"/></domain></database>").unwrap();
    std::fs::write(
        inner.join("b.xml"),
        "<database><import file=\"a.xml\"/><enum name=\"e\"><value name=\"V\" value=\"1\"/></enum></database>",
    )
    .unwrap();
    let imported = import_file(&a, &Options::default());
    assert_eq!((imported.registers, imported.enums), (1, 1));
    let missing: Vec<&str> = imported
        .losses
        .iter()
        .filter(|l| l.kind == LossKind::Import)
        .map(|l| l.what.as_str())
        .collect();
    assert_eq!(missing.len(), 2);
}

// In the next two tests, work that is not linear in the size of the file exceeds the time limit of the test runner.

#[test]
fn imports_that_expand_excessively_are_refused() {
    let fields = "<bitfield name=\"b\" pos=\"0\"/>".repeat(50_000);
    let offsets = vec!["0"; 4096].join(",");
    let layout = format!(
        "<database><domain name=\"bad\"><reg32 offset=\"0\" name=\"R\"/></domain><domain name=\"e\"><reg32 offsets=\"{offsets}\" offset=\"0\" name=\"Q\">{fields}</reg32></domain></database>"
    );
    assert!(matches!(refused(&layout), ImportError::TooMuch { .. }));
    let spaces: String = (0..8000).map(|n| format!(" xmlns:a{n}=\"u{n}\"")).collect();
    let namespaces = format!("<database{spaces}>{}</database>", "<b xmlns:q=\"u\"/>".repeat(100_000));
    assert!(matches!(refused(&namespaces), ImportError::TooMuch { .. }));
    let attributes: String = (0..200_000).map(|n| format!(" a{n} = '1'")).collect();
    let attributes = format!("<database>\n<a{attributes}/></database>");
    let error = refused(&attributes);
    assert!(error.to_string().starts_with("bad.xml:2:"), "{error}");
    let tags = format!("<database>{}</database>", "<a/>".repeat(5_000_000));
    assert!(matches!(refused(&tags), ImportError::TooMuch { .. }));
    // A cluster of 50,000 members repeats 100,000 child elements.
    let children = format!(
        "<device><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress><registers><cluster><name>C%s</name><dim>50000</dim><dimIncrement>1</dimIncrement><addressOffset>0</addressOffset><register><name>R</name><addressOffset>0</addressOffset>{}</register></cluster></registers></peripheral></peripherals></device>",
        "<x/>".repeat(100_000)
    );
    assert!(matches!(refused(&children), ImportError::TooMuch { .. }));
}

#[test]
fn repeated_names_are_numbered_in_linear_time() {
    let fields: String = (0..30_000)
        .map(|n| format!("<field name=\"a\" start=\"{n}\" end=\"{n}\"/>"))
        .collect();
    let same = format!("<genxml name=\"x\"><struct name=\"S\" length=\"1024\">{fields}</struct></genxml>");
    let imported = import("same.xml", &same, &Options::default(), &mut NoSources).unwrap();
    let m = map(&imported);
    let layout = m.layout("S").unwrap();
    assert_eq!(layout.fields.len(), 30_000);
    assert_eq!(
        (layout.fields[0].name.as_str(), layout.fields[2].name.as_str()),
        ("a", "a_3")
    );
    let domains: String = (0..40_000).map(|n| format!("<domain name=\"d{n}\"/>")).collect();
    let many = format!("<database>{domains}<domain name=\"many\"><reg32 offset=\"0\" name=\"R\"/></domain></database>");
    let imported = import("many.xml", &many, &Options::default(), &mut NoSources).unwrap();
    assert_eq!(imported.registers, 1);
    let derived: String = (0..20_000)
        .map(|n| {
            format!(
                "<field derivedFrom=\"F\"><name>F</name><lsb>{}</lsb><msb>{0}</msb></field>",
                n % 32
            )
        })
        .collect();
    let svd = format!(
        "<device><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress><registers><register><name>R</name><addressOffset>0</addressOffset><fields>{derived}</fields></register></registers></peripheral></peripherals></device>"
    );
    let _result = import("f.svd", &svd, &Options::default(), &mut NoSources);
}

#[test]
fn aliased_imports_are_read_once_and_large_ones_bounded() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(
        folder.path().join("d/a.xml"),
        "<database><import file=\"m.xml\"/><enum name=\"e\"><value name=\"V\" value=\"1\"/></enum></database>",
    )
    .unwrap();
    let imports: String = (0..200)
        .map(|n| format!("<import file=\"d/{}a.xml\"/>", "./".repeat(n)))
        .collect();
    let main = folder.path().join("m.xml");
    std::fs::write(
        &main,
        format!(
            "<database>{imports}<domain name=\"m\"><reg32 offset=\"0\" name=\"R\" type=\"e\"/></domain></database>"
        ),
    )
    .unwrap();
    let imported = import_file(&main, &Options::default());
    assert_eq!(
        (imported.registers, imported.losses.len()),
        (1, 0),
        "{:?}",
        imported.losses
    );

    /// Sources that give a file of 40 MiB for every name, and count the reads.
    struct Large(usize);
    impl register_maps::Sources for Large {
        fn bytes(&mut self, _name: &str) -> Option<Vec<u8>> {
            self.0 += 1;
            Some(format!("<database>{}</database>", " ".repeat(40 << 20)).into_bytes())
        }
    }
    let imports: String = (0..200).map(|n| format!("<import file=\"{n}\"/>")).collect();
    let mut large = Large(0);
    let e = import(
        "m.xml",
        format!("<database>{imports}</database>"),
        &Options::default(),
        &mut large,
    );
    assert!(matches!(e, Err(ImportError::TooMuch { .. })));
    assert_eq!(large.0, 4);
}

fn one_field(field: &str) -> String {
    format!(
        "<device><name>D</name><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress><registers><register><name>R</name><addressOffset>0</addressOffset><fields><field><name>F</name><lsb>0</lsb><msb>1</msb>{field}</field></fields></register></registers></peripheral></peripherals></device>"
    )
}

#[test]
fn non_default_and_uppercase_hex_values_are_imported() {
    let svd = one_field(
        "<enumeratedValues><enumeratedValue><name>off</name><value>0</value><isDefault>false</isDefault></enumeratedValue><enumeratedValue><name>on</name><value>0X1</value></enumeratedValue><enumeratedValue><name>rest</name><isDefault>true</isDefault></enumeratedValue></enumeratedValues>",
    );
    let imported = import("d.svd", &svd, &Options::default(), &mut NoSources).unwrap();
    let m = map(&imported);
    let field = &m.find_by_name("R").unwrap().layout.fields[0];
    assert_eq!((field.text(0), field.text(1)), ("off".to_owned(), "on".to_owned()));
    let losses: Vec<&str> = imported.losses.iter().map(|l| l.what.as_str()).collect();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert!(losses[0].starts_with("rest stands for every other value"));
}

#[test]
fn unsupported_svd_elements_are_reported() {
    let svd = one_field("").replace(
        "<addressOffset>0</addressOffset>",
        "<addressOffset>0</addressOffset><protection>s</protection><alternateRegister>X</alternateRegister>",
    );
    let svd = svd.replace("</registers>", "<registr><name>LOST</name></registr></registers>");
    let imported = import("d.svd", &svd, &Options::default(), &mut NoSources).unwrap();
    let losses: Vec<&str> = imported.losses.iter().map(|l| l.what.as_str()).collect();
    assert!(losses.contains(&"<registr> in <registers> is unknown"), "{losses:?}");
    assert!(
        losses.contains(&"1 <protection>: a map cannot express it"),
        "{losses:?}"
    );
    assert!(
        losses.contains(&"1 <alternateRegister>: a map cannot express it"),
        "{losses:?}"
    );
    assert_eq!(losses.len(), 3);
}

#[test]
fn control_characters_in_names_give_a_readable_map() {
    let named = |name: &str| {
        format!(
            "<enumeratedValues><name>{name}</name><enumeratedValue><name>on</name><value>1</value></enumeratedValue></enumeratedValues>"
        )
    };
    let svd = one_field(&named("a\nb")).replace("<name>D</name>", "<vendor>A\u{7f}B\u{85}C</vendor><name>D</name>");
    let imported = import("nl.svd", &svd, &Options::default(), &mut NoSources).unwrap();
    assert_eq!(map(&imported).enum_name("a b", 1), Some("on"));
    let layouts = "<genxml name=\"x\"><struct name=\"S&#10;T\" length=\"1\"><field name=\"f&#10;g\" start=\"0\" end=\"3\"/><field name=\"f g\" start=\"4\" end=\"7\"/></struct></genxml>";
    let imported = import("l.xml", layouts, &Options::default(), &mut NoSources).unwrap();
    let m = map(&imported);
    let names: Vec<&str> = m
        .layout("S T")
        .unwrap()
        .fields
        .iter()
        .map(|f| f.name.as_str())
        .collect();
    assert_eq!(names, ["f g", "f g_2"]);
}

#[test]
fn byte_addressed_domain_still_reports_unknown_types() {
    let rnn = |width: u32| {
        format!(
            "<database><domain name=\"d\" width=\"{width}\"><reg32 offset=\"0\" name=\"A\" type=\"nowhere\"/><reg32 offset=\"4\" name=\"B\"/></domain></database>"
        )
    };
    for width in [8, 32] {
        let imported = import("d.xml", rnn(width), &Options::default(), &mut NoSources).unwrap();
        let reported = imported.losses.iter().filter(|l| l.kind == LossKind::Reference).count();
        assert_eq!(reported, 1, "{:?}", imported.losses);
    }
}

#[test]
fn invalid_xml_error_names_its_location_once() {
    let report = refused("# no XML\n").to_string();
    assert_eq!(report.matches("1:1").count(), 1, "{report}");
}
