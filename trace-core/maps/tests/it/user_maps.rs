//! Tests of user maps: search, overlay over embedded maps, errors with file and line, reload after a change.
//!
//! The maps in use are a global state of the process. They are therefore tested in one test function.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use register_maps::{UserMaps, sibling_map_path};
use std::path::Path;
use trace_core::RegOffset;
use trace_core::recording::{Recording, Space, SpaceKind};
use trace_core::registers::{RecordedRegisters, RegisterMap};

fn text(name: &str, device: &str, register: &str) -> String {
    format!(
        "[map]\nname = \"{name}\"\nwindow = 0x100\ndoc = \"A test.\"\nspace = \"regs\"\n{device}\n[block]\nname = \"B\"\nbase = 0\nprovenance = \"Made for a test.\"\n\n[[register]]\nname = \"{register}\"\noffset = 0\naccess = \"ro\"\ndoc = \"One.\"\n"
    )
}

fn recording(gpu_id: u32, space: &str) -> Recording {
    let mut r = Recording::default();
    r.metadata.identity.gpu_id = gpu_id;
    r.metadata.spaces.push(Space {
        name: space.to_owned(),
        kind: SpaceKind::Registers,
        bytes: 0x100,
    });
    r
}

fn first(recording: &Recording) -> Option<String> {
    RegisterMap::for_recording(recording)?
        .at(RegOffset::ZERO)
        .map(|r| r.name.clone())
}

#[test]
fn user_maps_override_embedded_maps_and_are_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.map.toml");
    let gpu = "[[map.gpu]]\nid = 0x6000\nname = \"Mine\"\n";
    std::fs::write(&file, text("mine", gpu, "FIRST")).unwrap();
    let g71 = recording(0x6000_0000, "gpu");
    assert_eq!(first(&g71).as_deref(), Some("GPU_ID"));
    let mut user_maps = UserMaps::open_folder(Some(folder.path()));
    assert_eq!(user_maps.maps.len(), 1);
    assert_eq!(first(&g71).as_deref(), Some("FIRST"));
    assert_eq!(RegisterMap::built_in_for(&g71).unwrap().name(), "mali-jm");
    // The user map overlays the embedded map, which still gives all other names.
    let overlaid = RecordedRegisters::new(&g71).unwrap().map();
    assert_eq!(overlaid.name(), "mine");
    assert!(overlaid.find_by_name("GPU_STATUS").is_some() && overlaid.layout("job-header").is_some());
    let layers: Vec<&str> = RegisterMap::list_for_recording(&g71).iter().map(|m| m.name()).collect();
    assert_eq!(layers, ["mine", "mali-jm"]);
    assert!(
        std::ptr::eq(overlaid, RegisterMap::for_recording(&g71).unwrap()),
        "the overlaid map is created twice"
    );
    assert!(!user_maps.files.has_changed());

    // A new modification time alone is no change. New content of the same length is a change.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    let touch = |at| {
        std::fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(at)
            .unwrap()
    };
    touch(later);
    assert!(!user_maps.files.has_changed());
    std::fs::write(&file, text("mine", gpu, "OTHER")).unwrap();
    touch(later + std::time::Duration::from_secs(5));
    assert!(user_maps.files.has_changed());
    user_maps = UserMaps::open_folder(Some(folder.path()));
    assert_eq!(first(&g71).as_deref(), Some("OTHER"));

    // A damaged map gives an error with file and line, and the embedded map is used again.
    std::fs::write(
        &file,
        text("mine", gpu, "OTHER").replace("access = \"ro\"", "access = \"xx\""),
    )
    .unwrap();
    assert!(user_maps.files.has_changed());
    user_maps = UserMaps::open_folder(Some(folder.path()));
    let errors: Vec<&str> = user_maps.errors().collect();
    let location = format!("{}:16: OTHER: ", file.display());
    assert!(errors[0].starts_with(&location), "{errors:?}");
    assert_eq!(first(&g71).as_deref(), Some("GPU_ID"));

    // The first map is a folder and is chosen by its space alone. The second map is next to the recording.
    std::fs::remove_file(&file).unwrap();
    assert!(user_maps.files.has_changed());
    let parts = folder.path().join("parts.map");
    std::fs::create_dir(&parts).unwrap();
    std::fs::write(parts.join("map.toml"), text("parts", "", "SPACED")).unwrap();
    user_maps = UserMaps::open_folder(Some(folder.path()));
    assert_eq!(first(&g71).as_deref(), Some("GPU_ID"));
    let mut unknown = recording(0, "regs");
    assert_eq!(first(&unknown).as_deref(), Some("SPACED"));
    assert_eq!(first(&recording(0, "other")), None);
    let kine = folder.path().join("r.kine");
    user_maps.add_sibling(&kine, &mut unknown);
    assert!(!user_maps.files.has_changed());
    assert_eq!(sibling_map_path(&kine), folder.path().join("r.map.toml"));
    std::fs::write(sibling_map_path(&kine), text("beside", "", "BESIDE")).unwrap();
    assert!(user_maps.files.has_changed());
    user_maps = UserMaps::open_folder(Some(folder.path()));
    user_maps.add_sibling(&kine, &mut unknown);
    assert_eq!(first(&unknown).as_deref(), Some("BESIDE"));
    let layers: Vec<&str> = RegisterMap::list_for_recording(&unknown)
        .iter()
        .map(|m| m.name())
        .collect();
    assert_eq!(
        layers,
        ["beside", "parts"],
        "the map next to a recording does not override the map of its device"
    );
    // A second open recording of the same device has its own map next to it, and loses it later.
    let mut other = recording(0, "regs");
    let other_kine = folder.path().join("other.kine");
    std::fs::write(sibling_map_path(&other_kine), text("other", "", "OTHERS")).unwrap();
    user_maps.add_sibling(&other_kine, &mut other);
    assert_eq!(
        (first(&unknown), first(&other)),
        (Some("BESIDE".into()), Some("OTHERS".into()))
    );
    assert_eq!(first(&other.clone()).as_deref(), Some("OTHERS"));
    std::fs::remove_file(sibling_map_path(&other_kine)).unwrap();
    user_maps.add_sibling(&other_kine, &mut other);
    assert_eq!(
        (first(&unknown), first(&other)),
        (Some("BESIDE".into()), Some("SPACED".into()))
    );
    assert_eq!(first(&recording(0, "regs2")), None);

    // Removed maps are no longer used.
    std::fs::remove_file(sibling_map_path(&kine)).unwrap();
    std::fs::remove_dir_all(&parts).unwrap();
    assert!(user_maps.files.has_changed());
    user_maps = UserMaps::open_folder(Some(folder.path()));
    user_maps.add_sibling(&kine, &mut unknown);
    assert_eq!((user_maps.maps.len(), first(&unknown)), (0, None));
    assert_eq!(
        sibling_map_path(Path::new("/x/trace.log")),
        Path::new("/x/trace.log.map.toml")
    );
}
