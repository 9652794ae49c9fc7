//! Tests that too large or too many user maps are skipped and reported. They are separate from the other tests of user
//! maps, because the maps in use are a global state of the process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use register_maps::UserMaps;

fn text(name: &str, device: &str, register: &str) -> String {
    format!(
        "[map]\nname = \"{name}\"\nwindow = 0x100\ndoc = \"A test.\"\nspace = \"regs\"\n{device}\n[block]\nname = \"B\"\nbase = 0\nprovenance = \"Made for a test.\"\n\n[[register]]\nname = \"{register}\"\noffset = 0\naccess = \"ro\"\ndoc = \"One.\"\n"
    )
}

/// One map expands to much more memory than its file; maps exceed the memory limit together; maps exceed the maximum
/// number.
#[test]
fn oversized_or_excess_maps_are_skipped_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    // Each register has the source of the knowledge of its block.
    let bomb = |registers: u32, name: &str| {
        let each = |n: u32| format!("[[register]]\nname = \"R{n}\"\noffset = {}\naccess = \"ro\"\n", 4 * n);
        let head = text(name, "", "R0").replace("Made for a test.", &"x".repeat(100_000));
        head.replace("window = 0x100", "window = 0x4000000") + &(1..registers).map(each).collect::<String>()
    };
    let text_of_all = bomb(1000, "bomb");
    assert!(text_of_all.len() < 1_500_000);
    std::fs::write(folder.path().join("bomb.map.toml"), &text_of_all).unwrap();
    let user_maps = UserMaps::open_folder(Some(folder.path()));
    let messages: Vec<&str> = user_maps.errors().collect();
    assert!(messages[0].contains("more than 64 MiB"), "{messages:?}");

    // Each map is within the limit, and their sum is not.
    std::fs::remove_file(folder.path().join("bomb.map.toml")).unwrap();
    for n in 0..8 {
        let one = bomb(410, &format!("m{n}"));
        std::fs::write(folder.path().join(format!("m{n}.map.toml")), one).unwrap();
    }
    let user_maps = UserMaps::open_folder(Some(folder.path()));
    assert_eq!(user_maps.maps.iter().filter(|f| f.map.is_ok()).count(), 6);
    assert!(user_maps.errors().all(|e| e.contains("more than 256 MiB of memory")));
    // Maps with the same content are parsed once.
    let reopened = UserMaps::open_folder(Some(folder.path()));
    for (a, b) in user_maps.maps.iter().zip(&reopened.maps) {
        if let (Ok(a), Ok(b)) = (&a.map, &b.map) {
            assert!(std::ptr::eq(*a, *b));
        }
    }

    let many = tempfile::tempdir().unwrap();
    for n in 0..300 {
        std::fs::write(many.path().join(format!("m{n:03}.map.toml")), text("same", "", "R")).unwrap();
    }
    let user_maps = UserMaps::open_folder(Some(many.path()));
    assert_eq!(user_maps.maps.iter().filter(|f| f.map.is_ok()).count(), 256);
    let messages: Vec<&str> = user_maps.errors().collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].contains("44 of them, from m256.map.toml on, are not used"),
        "{messages:?}"
    );
    let _ = UserMaps::open_folder(Some(&many.path().join("none")));
}
