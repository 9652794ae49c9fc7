//! Tests that arrays stay arrays in an imported map, and that those without a place are left out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use register_maps::{ImportedMap, LossKind, NoSources, Options, import};
use trace_core::RegOffset;
use trace_core::registers::RegisterMap;

fn imported(text: &str, compact: bool) -> ImportedMap {
    let options = Options {
        compact,
        ..Options::default()
    };
    import("t.xml", text, &options, &mut NoSources).unwrap()
}

fn map(imported: &ImportedMap) -> RegisterMap {
    RegisterMap::parse(&[("made", &imported.text)]).unwrap()
}

/// As many registers as NVIDIA's newer GPUs have: 32 × 8 × 300, in 300 arrays.
#[test]
fn arrays_of_arrays_count_once() {
    let registers: String = (0..300)
        .map(|n| format!("<reg32 offset=\"{}\" name=\"R{n:03x}\"/>", 4 * n))
        .collect();
    let text = format!(
        "<database><domain name=\"MMIO\" size=\"0x1000000\"><reg32 offset=\"0\" name=\"BOOT\"/><array name=\"GPC\" offset=\"0x500000\" stride=\"0x8000\" length=\"32\"><array name=\"TPC\" offset=\"0x4000\" stride=\"0x800\" length=\"8\">{registers}</array></array></domain></database>"
    );
    for compact in [false, true] {
        let imported = imported(&text, compact);
        assert_eq!((imported.registers, imported.arrays), (76_801, 300));
        assert!(imported.text.len() < 100_000, "{} bytes", imported.text.len());
        assert!(imported.losses.is_empty(), "{:?}", imported.losses);
        let m = map(&imported);
        assert!(m.built_bytes() < 1 << 20);
        let at = RegOffset::new(0x50_4000 + 5 * 0x8000 + 2 * 0x800 + 4 * 0x29);
        assert_eq!(m.at(at).unwrap().name, "GPC5_TPC2_R029");
        assert_eq!(
            m.find_by_name("GPC31_TPC7_R12b").unwrap().offset,
            RegOffset::new(0x50_4000 + 31 * 0x8000 + 7 * 0x800 + 4 * 0x12b)
        );
    }
}

/// The enumeration of chips is created when envytools is built.
#[test]
fn chips_of_nvidia_are_variants_without_their_list() {
    let text = "<database><import file=\"nvchipsets.xml\"/><domain name=\"D\" prefix=\"chipset\"><reg32 offset=\"0\" name=\"OLD\" variants=\"NV4:GF100\"/><reg32 offset=\"0\" name=\"NEW\" variants=\"GF100-\"/><reg32 offset=\"4\" name=\"ONE\" variants=\"G80 GK104-GK110\"/></domain></database>";
    let names = |variant: &str| {
        let options = Options {
            variant: Some(variant.to_owned()),
            ..Options::default()
        };
        let imported = import("t.xml", text, &options, &mut NoSources).unwrap();
        let kinds: Vec<LossKind> = imported.losses.iter().map(|l| l.kind).collect();
        assert_eq!(kinds, [LossKind::Import, LossKind::Variant]);
        map(&imported).registers().map(|r| r.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("G80"), ["OLD", "ONE"]);
    assert_eq!(names("GK104"), ["NEW", "ONE"]);
    assert_eq!(names("AD102"), ["NEW"]);
    let options = Options {
        variant: Some("GX999".to_owned()),
        ..Options::default()
    };
    let error = import("t.xml", text, &options, &mut NoSources).unwrap_err().to_string();
    assert!(error.contains("nvchipsets.xml was not found"), "{error}");
}

#[test]
fn stripes_lists_of_offsets_and_svd_arrays_stay_arrays() {
    let text = "<database><domain name=\"D\">
<stripe offset=\"0x100\" stride=\"0x10\" length=\"4\"><reg32 offset=\"0\" name=\"A\"/><reg64 offset=\"8\" name=\"B\"/></stripe>
<array name=\"E\" offsets=\"0x200,0x240,0x280\"><reg32 offset=\"4\" name=\"R\" length=\"4\"/></array>
<array name=\"U\" offsets=\"0x300,0x340,0x350\"><reg8 offset=\"1\" name=\"R\"/></array></domain></database>";
    let rnn = imported(text, false);
    assert_eq!((rnn.registers, rnn.arrays), (4 + 4 + 12 + 3, 3));
    let m = map(&rnn);
    for (name, offset) in [
        ("3_A", 0x130),
        ("2_B_HI", 0x12c),
        ("E2_R3", 0x290),
        ("U1_R", 0x341),
        ("U2_R", 0x351),
    ] {
        assert_eq!(
            m.find_by_name(&name.replace("3_A", "_3_A"))
                .or(m.find_by_name(name))
                .unwrap()
                .offset,
            RegOffset::new(offset),
            "{name}"
        );
    }
    let text = "<device><name>D</name><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress><registers>
<cluster><name>CH%s</name><dim>3</dim><dimIncrement>0x20</dimIncrement><dimIndex>1-3</dimIndex><addressOffset>0x40</addressOffset>
<register><name>BUF[%s]</name><dim>4</dim><dimIncrement>4</dimIncrement><addressOffset>0</addressOffset></register>
<register><name>PIN_%s</name><dim>2</dim><dimIncrement>4</dimIncrement><dimIndex>A,B</dimIndex><addressOffset>0x10</addressOffset></register></cluster></registers></peripheral></peripherals></device>";
    let svd = imported(text, false);
    assert_eq!((svd.registers, svd.arrays), (3 * 4 + 3 * 2, 3));
    assert!(
        svd.text
            .contains("count = [3, 4]\nstride = [0x20, 0x4]\nfirst = [1, 0]"),
        "{}",
        svd.text
    );
    let m = map(&svd);
    assert_eq!(m.find_by_name("CH3_BUF2").unwrap().offset, RegOffset::new(0x88));
    assert_eq!(m.find_by_name("CH2_PIN_B").unwrap().offset, RegOffset::new(0x74));
}

/// Where an earlier register has the bytes of some members, the others stay in arrays.
#[test]
fn overlaps_split_arrays() {
    let text = "<database><domain name=\"D\"><reg32 offset=\"0x108\" name=\"FIRST\"/>
<array name=\"A\" offset=\"0x100\" stride=\"8\" length=\"16\"><reg32 offset=\"0\" name=\"R\"/></array>
<array name=\"B\" offset=\"0x100\" stride=\"8\" length=\"16\"><reg32 offset=\"0\" name=\"S\"/><reg32 offset=\"4\" name=\"R\"/></array>
<reg32 offset=\"0x400\" name=\"A3_R\"/><reg32 offset=\"0x404\" name=\"X\" length=\"2\"/><reg32 offset=\"0x40c\" name=\"X\" length=\"2\"/></domain></database>";
    let imported = imported(text, false);
    let kinds: Vec<LossKind> = imported.losses.iter().map(|l| l.kind).collect();
    assert_eq!(
        kinds,
        [LossKind::Overlap, LossKind::Overlap, LossKind::Name, LossKind::Name]
    );
    assert!(
        imported.losses[0]
            .what
            .starts_with("1 of the 16 members of array A0_R at 0x100"),
        "{}",
        imported.losses[0].what
    );
    assert!(
        imported.losses[1].what.starts_with("array B0_S of 16 members"),
        "{}",
        imported.losses[1].what
    );
    let m = map(&imported);
    assert_eq!(m.at(RegOffset::new(0x108)).unwrap().name, "FIRST");
    assert_eq!(m.find_by_name("A0_R").unwrap().offset, RegOffset::new(0x100));
    assert_eq!(m.find_by_name("A15_R").unwrap().offset, RegOffset::new(0x178));
    assert_eq!(m.find_by_name("A3_R_2").unwrap().offset, RegOffset::new(0x400));
    assert_eq!(m.find_by_name("B15_R").unwrap().offset, RegOffset::new(0x17c));
    assert!(m.find_by_name("A1_R").is_none());
}

#[test]
fn arrays_placed_at_run_time_are_left_out_and_named() {
    let text = "<database><domain name=\"D\" width=\"32\"><reg32 offset=\"0\" name=\"VERSION\"/><reg32 offset=\"4\" name=\"SELECT\"/>
<array doffsets=\"cfg->base[0],cfg->base[1]\" name=\"MIXER\" length=\"2\" stride=\"0x400\"><reg32 offset=\"0\" name=\"LAYER\"/><reg32 offset=\"0x10\" name=\"START\"/></array>
<array doffset=\"base\" name=\"PIPE\" length=\"1\" stride=\"0x400\"><reg32 offset=\"8\" name=\"SIZE\"/></array><reg32 offset=\"base(2)+4\" name=\"LATE\"/></domain></database>";
    let imported = imported(text, false);
    assert_eq!(imported.registers, 2);
    let placed: Vec<(u32, &str)> = imported
        .losses
        .iter()
        .filter(|l| l.kind == LossKind::Placement)
        .map(|l| (l.place.line, l.what.as_str()))
        .collect();
    assert_eq!(placed.len(), 3, "{placed:?}");
    assert!(
        placed[2]
            .1
            .starts_with("register LATE is placed at run time (base(2)+4)"),
        "{placed:?}"
    );
    assert!(
        placed[0].0 == 2
            && placed[0]
                .1
                .starts_with("array MIXER with 2 registers is placed at run time (cfg->base[0],")
    );
    assert!(placed[1].0 == 3 && placed[1].1.starts_with("array PIPE"));
    assert!(map(&imported).at(RegOffset::new(0x10)).is_none());
}
