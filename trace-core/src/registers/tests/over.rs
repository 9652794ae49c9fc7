//! Tests of overlaid maps: names of the upper map win, and the rest of the lower map stays.

use crate::RegOffset;
use crate::registers::{FieldKind, Half, ReadRule, RegisterMap, Role};

fn user_map(registers: &str) -> RegisterMap {
    let text = format!(
        "[map]\nname = \"own\"\nwindow = 0x10000\ndoc = \"A test.\"\n\n[block]\nname = \"OWN\"\nbase = 0\nprovenance = \"Made for a test.\"\n{registers}"
    );
    RegisterMap::parse(&[("own", text.as_str())]).unwrap()
}

fn register(name: &str, offset: u32, rest: &str) -> String {
    format!("\n[[register]]\nname = \"{name}\"\noffset = {offset:#x}\naccess = \"ro\"\ndoc = \"Stated.\"\n{rest}")
}

fn mali() -> &'static RegisterMap {
    RegisterMap::by_name("mali-jm").unwrap()
}

#[test]
fn user_name_keeps_the_rest_of_the_map() {
    let under = mali();
    let status = under.find_by_name("GPU_STATUS").unwrap();
    let map = user_map(&register("MY_STATUS", status.offset.get(), ""))
        .overlay(under)
        .unwrap();
    assert_eq!((map.name(), map.space()), ("own", under.space()));
    assert_eq!(map.registers().count(), under.registers().count());
    let user_register = map.find_by_name("MY_STATUS").unwrap();
    assert_eq!(map.at(status.offset).unwrap().name, "MY_STATUS");
    assert!(map.find_by_name("GPU_STATUS").is_none());
    // The role, the replay rule and the fields come from the embedded map.
    assert_eq!(user_register.replay.role, Some(Role::GpuStatus));
    assert_eq!(user_register.replay.read, status.replay.read);
    assert_eq!(user_register.layout.fields.len(), status.layout.fields.len());
    assert_eq!(
        (user_register.doc.as_ref(), user_register.block.as_str()),
        ("Stated.", "OWN")
    );
    for r in under.registers().filter(|r| r.offset != status.offset) {
        let same = map.at(r.offset).unwrap();
        assert_eq!((&same.name, &same.pair), (&r.name, &r.pair));
        assert_eq!(map.name_of(r.offset, r.width), under.name_of(r.offset, r.width));
    }
    for l in under.layouts() {
        assert_eq!(map.layout(&l.name).unwrap().fields.len(), l.fields.len());
    }
    assert_eq!(map.gpu_name(0x6000_0000), Some("Mali-G71"));
    assert!(map.is_same_product(0x60a0_0002, 0x6010_0000));
}

#[test]
fn user_fields_layouts_and_enumerations_override() {
    let under = mali();
    let at = under.find_by_name("GPU_STATUS").unwrap().offset;
    let fields = "fields = [{ name = \"busy\", bits = \"0\", enum = \"exception\" }]\n";
    let rest = "\n[enum.exception]\n0 = \"quiet\"\n\n[[layout]]\nname = \"job-header\"\nbits = 64\ndoc = \"A test.\"\nprovenance = \"Made.\"\n\n[[layout]]\nname = \"mine\"\nbits = 8\ndoc = \"A test.\"\nprovenance = \"Made.\"\n";
    let map = user_map(&format!("{}{rest}", register("S", at.get(), fields)))
        .overlay(under)
        .unwrap();
    let field = &map.at(at).unwrap().layout.fields;
    assert_eq!(field.len(), 1);
    assert!(matches!(&field[0].kind, FieldKind::Enum(v) if v[0].1 == "quiet"));
    assert_eq!(map.enum_name("exception", 0), Some("quiet"));
    assert_eq!(map.layout("job-header").unwrap().bits, 64);
    assert_eq!(map.layouts().count(), under.layouts().count() + 1);
}

#[test]
fn overlaid_register_splits_its_pair() {
    let under = mali();
    let low = under.find_by_name("JS1_HEAD_NEXT_LO").unwrap().offset;
    let map = user_map(&register("HEAD", low.get(), "")).overlay(under).unwrap();
    let high = map.at(low + 4).unwrap();
    assert_eq!((high.name.as_str(), high.pair), ("JS1_HEAD_NEXT_HI", None));
    assert!(high.wide.is_none());
    assert!(
        map.layout("JS1_HEAD_NEXT").is_none(),
        "the split pair still has a layout"
    );
    assert_eq!(map.at(low).unwrap().index, Some(1));
    // A pair that overlays a pair stays a pair.
    let map = user_map(&register("HEAD", low.get(), "wide = true\n"))
        .overlay(under)
        .unwrap();
    let (overlaid, embedded) = (map.layout("HEAD").unwrap(), under.layout("JS1_HEAD_NEXT").unwrap());
    assert_eq!((overlaid.bits, overlaid.fields.len()), (64, embedded.fields.len()));
    assert!(matches!(map.at(low + 4).unwrap().pair, Some(Half::High { .. })));
    assert_eq!(map.at(low).unwrap().replay.role, Some(Role::JobHead));
}

#[test]
fn overlay_replaces_registers_with_shared_bytes_or_names() {
    let under = mali();
    let id = under.find_by_name("GPU_ID").unwrap();
    let next = under.registers().find(|r| r.offset > id.offset).unwrap();
    // The first register has 8 bytes and covers two registers of 4 bytes. The second has the name of an embedded
    // register.
    let free = 0xf000;
    assert!(under.find_containing(RegOffset::new(free)).is_none());
    let text = register("BOTH", id.offset.get(), "width = 8\n") + &register("GPU_STATUS", free, "");
    let map = user_map(&text).overlay(under).unwrap();
    assert_eq!(next.offset, id.offset + 4);
    assert_eq!(map.find_containing(next.offset).unwrap().name, "BOTH");
    assert_eq!(map.registers().count(), under.registers().count());
    let moved = under.find_by_name("GPU_STATUS").unwrap().offset;
    assert_eq!(map.find_by_name("GPU_STATUS").unwrap().offset, RegOffset::new(free));
    assert_eq!(map.at(moved).unwrap().name, format!("GPU_STATUS_{moved:#x}"));
    assert_eq!(map.at(RegOffset::new(free)).unwrap().replay.read, ReadRule::Equal);
}

#[test]
fn three_register_maps_overlay_in_order() {
    let under = mali();
    let at = under.find_by_name("GPU_STATUS").unwrap().offset;
    let middle = user_map(&(register("MIDDLE", at.get(), "") + &register("OTHER", 0xf000, "")))
        .overlay(under)
        .unwrap();
    let top = user_map(&register("TOP", at.get(), "")).overlay(&middle).unwrap();
    assert_eq!(top.at(at).unwrap().name, "TOP");
    assert_eq!(top.at(at).unwrap().replay.role, Some(Role::GpuStatus));
    assert_eq!(top.at(RegOffset::new(0xf000)).unwrap().name, "OTHER");
}
