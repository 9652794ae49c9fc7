//! Tests that register names follow the user's own map file: they appear, change and disappear with it. Register maps
//! are global to the program, so the test runs alone in its process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common;

use common::{HANG_LIMIT, Window, samples};
use std::time::{Duration, Instant};

/// Steps frames until the register at the submit of the first job has this name.
fn wait_for_name(w: &mut Window, name: &str) {
    let since = Instant::now();
    loop {
        w.settle();
        let doc = w.doc();
        let submit = doc.derived.jobs[0].submit as usize;
        let access = doc.recording.events.access(submit).unwrap();
        let found = doc.derived.access_name(&doc.recording, &access);
        if found == name {
            return;
        }
        assert!(since.elapsed() < HANG_LIMIT, "{found} does not become {name}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn register_names_follow_the_map_file_of_the_recording() {
    let mut w = Window::open_sample("vecadd.kine");
    let folder = w.folder.path().to_owned();
    let file = folder.join("mine.kine");
    std::fs::copy(samples().join("vecadd.kine"), &file).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, file);
    wait_for_name(&mut w, "JS1_COMMAND_NEXT");
    let map = |name: &str| {
        format!(
            "[map]\nname = \"mine\"\nwindow = 0x4000\ndoc = \"Mine.\"\n[block]\nname = \"mine\"\nbase = 0\n\
             provenance = \"By hand.\"\n[[register]]\nname = \"{name}\"\noffset = 0x18e0\naccess = \"rw\"\n\
             replay = false\nreason = \"By hand.\"\ndoc = \"Starts.\"\n"
        )
    };
    let map_file = folder.join("mine.map.toml");
    std::fs::write(&map_file, map("KICK")).unwrap();
    wait_for_name(&mut w, "KICK");
    std::fs::write(&map_file, map("KICKED_OFF")).unwrap();
    wait_for_name(&mut w, "KICKED_OFF");
    // A damaged map file is reported, and the embedded names return.
    std::fs::write(&map_file, "[map").unwrap();
    wait_for_name(&mut w, "JS1_COMMAND_NEXT");
    assert!(kinescope::log::text().contains("mine.map.toml"));
    std::fs::write(&map_file, map("KICK")).unwrap();
    wait_for_name(&mut w, "KICK");
    // Another recording of the same device does not use the map of this recording.
    w.app().open(&ctx, samples().join("saxpy.kine"));
    wait_for_name(&mut w, "JS1_COMMAND_NEXT");
}
