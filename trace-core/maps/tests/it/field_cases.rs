//! Register descriptions from the field, read in place where the folder of them is there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use register_maps::{Folder, ImportedMap, LossKind, Options, import};
use std::path::{Path, PathBuf};
use trace_core::RegOffset;
use trace_core::registers::RegisterMap;

fn folder() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    let folder = std::env::var_os("KINESCOPE_CASES").map_or_else(default, PathBuf::from);
    if folder.join("README.md").exists() {
        return Some(folder);
    }
    println!("skipped: no inputs from the field in {}", folder.display());
    None
}

fn read(file: &Path, options: &Options) -> (ImportedMap, RegisterMap) {
    let bytes = std::fs::read(file).unwrap();
    let name = file.display().to_string();
    let imported = import(&name, bytes, options, &mut Folder::new(file)).unwrap_or_else(|e| panic!("{e}"));
    let map = RegisterMap::parse(&[("made", &imported.text)]).unwrap();
    (imported, map)
}

fn count(imported: &ImportedMap, kind: LossKind) -> usize {
    imported.losses.iter().filter(|l| l.kind == kind).count()
}

#[test]
fn svd_files_of_vendors_are_imported() {
    let Some(folder) = folder() else { return };
    let svd = |name: &str| read(&folder.join(name), &Options::default());
    let (made, map) = svd("c10/derived-arrays.svd");
    assert_eq!((made.registers, made.losses.len()), (11, 0), "{:?}", made.losses);
    assert_eq!(map.find_by_name("SINGLE").unwrap().layout.fields.len(), 1);
    let (_, map) = svd("c10/enum-oddities.svd");
    assert!(map.find_by_name("GPIOX_MODER").is_some() && map.find_by_name("GPIOB_LCKR").is_some());
    assert!(svd("c10/ARM_Sample_faulty.svd").0.registers > 20);
    for name in ["latin1", "utf16", "utf8-bom", "cp1252-undeclared"] {
        let (made, map) = svd(&format!("c26/{name}.svd"));
        assert!(
            map.find_by_name("STEP").unwrap().doc.starts_with("step in µs"),
            "{name}"
        );
        let doubts = usize::from(name == "cp1252-undeclared");
        assert_eq!(count(&made, LossKind::Mistake), doubts, "{name}");
    }
    let (_, map) = svd("c27/comment-inside-number.svd");
    assert_eq!(map.find_by_name("R1X").unwrap().offset, RegOffset::new(0x40));
    let (_, map) = svd("c27/comment-in-name.svd");
    assert_eq!(map.find_by_name("REAL").unwrap().offset, RegOffset::new(8));
    for name in ["field-no-bits", "bit-range-reversed"] {
        let (made, _) = svd(&format!("c27/{name}.svd"));
        assert_eq!(
            (made.registers, made.fields, count(&made, LossKind::Mistake)),
            (1, 0, 1),
            "{name}"
        );
    }
    // The only register of the file is the mistake.
    let (made, _) = svd("c27/dim-fewer-than-index.svd");
    assert_eq!((made.registers, count(&made, LossKind::Mistake)), (0, 1));
}

#[test]
fn descriptions_of_gpus_are_imported() {
    let Some(folder) = folder() else { return };
    let variant = Options {
        variant: Some("KEPLERISH".to_owned()),
        ..Options::default()
    };
    let (made, map) = read(&folder.join("c11/mmio.xml"), &variant);
    assert!(
        made.registers > 60_000 && made.arrays < 300,
        "{} in {}",
        made.registers,
        made.arrays
    );
    assert_eq!(map.at(RegOffset::new(0x50_4000)).unwrap().name, "GPC0_TPC0_R000");
    let (made, map) = read(&folder.join("c41/arrays-placed-at-run-time.xml"), &Options::default());
    assert_eq!((made.registers, count(&made, LossKind::Placement)), (2, 2));
    assert!(map.at(RegOffset::new(0x10)).is_none());
    let (made, map) = read(&folder.join("c43/gen21.xml"), &Options::default());
    assert_eq!(
        (made.registers, made.layouts, made.losses.len()),
        (2, 2, 0),
        "{:?}",
        made.losses
    );
    assert!(map.find_by_name("MODE_C").is_some() && map.find_by_name("MODE_B_LO").is_none());
    let (made, _) = read(&folder.join("c44/unit.xml"), &Options::default());
    assert_eq!((made.layouts, made.layout_fields), (1, 3));
}
