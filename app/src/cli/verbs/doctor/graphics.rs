//! Drawing: a display server, shared libraries for a window, OpenGL off-screen, and render nodes.

use super::machine::{Machine, Presence};
use super::report::{Area, Check, State, describe_install};
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// Folder of the nodes of graphics cards.
const NODES: &str = "/dev/dri";

/// Libraries that a window on X11 loads, with their Debian packages. `WINDOW_PACKAGES` in `scripts/lib.sh` has the same
/// packages.
const X11_LIBRARIES: [(&str, &str); 4] = [
    ("libXcursor.so.1", "libxcursor1"),
    ("libXi.so.6", "libxi6"),
    ("libxkbcommon-x11.so.0", "libxkbcommon-x11-0"),
    ("libGL.so.1", "libgl1"),
];
/// Libraries that a window on Wayland loads, with their Debian packages.
const WAYLAND_LIBRARIES: [(&str, &str); 4] = [
    ("libwayland-client.so.0", "libwayland-client0"),
    ("libwayland-egl.so.1", "libwayland-egl1"),
    ("libxkbcommon.so.0", "libxkbcommon0"),
    ("libEGL.so.1", "libegl1"),
];

/// Result of the checks of drawing.
pub struct Drawing {
    /// The area.
    pub area: Area,
    /// Whether the program can draw off-screen or in a window.
    pub works: bool,
}

/// Checks drawing.
pub fn check(machine: &Machine) -> Drawing {
    let display = check_display(machine);
    let has_display = display.state == State::Ok;
    let libraries = check_libraries(machine, has_display);
    let offscreen = check_offscreen(machine);
    let works = offscreen.state == State::Ok || (has_display && libraries.state == State::Ok);
    let mut checks = vec![
        display,
        libraries,
        offscreen,
        check_driver(machine),
        check_vulkan(machine),
    ];
    checks.extend(check_render_nodes(machine));
    Drawing {
        area: Area::new("drawing", "the window and its pictures", checks),
        works,
    }
}

/// Returns whether the session is one of Wayland, which a window prefers to X11.
fn is_wayland(machine: &Machine) -> bool {
    ["WAYLAND_DISPLAY", "WAYLAND_SOCKET"]
        .into_iter()
        .any(|name| machine.env(name).is_some())
}

/// Checks whether a display server is named and its socket exists.
fn check_display(machine: &Machine) -> Check {
    let name = "display";
    let text = |variable: &str| machine.env(variable).map(|v| v.to_string_lossy().into_owned());
    let (found, socket) = if let Some(socket) = text("WAYLAND_SOCKET") {
        (format!("WAYLAND_SOCKET={socket}"), None)
    } else if let Some(display) = text("WAYLAND_DISPLAY") {
        let folder = PathBuf::from(text("XDG_RUNTIME_DIR").unwrap_or_default());
        // An absolute name replaces the folder.
        (format!("WAYLAND_DISPLAY={display}"), Some(folder.join(&display)))
    } else if let Some(display) = text("DISPLAY") {
        (format!("DISPLAY={display}"), find_x11_socket(&display))
    } else {
        return Check::note(name, "no display server: neither DISPLAY nor WAYLAND_DISPLAY is set")
            .with_mend("run `kinescope` in a desktop session, or draw with `kinescope --screenshot OUT.png FILE`");
    };
    match socket.filter(|s| !machine.exists(s)) {
        None => Check::ok(name, found),
        Some(socket) => Check::note(name, format!("{found}, but {} does not exist", socket.display()))
            .with_mend("start the display server, or set the variable to a running one"),
    }
}

/// Returns the socket of a local X11 display, such as `:0` or `:1.0`; `None` for one of another machine.
fn find_x11_socket(display: &str) -> Option<PathBuf> {
    let number = display.strip_prefix(':')?.split('.').next()?;
    Some(Path::new("/tmp/.X11-unix").join(format!("X{number}")))
}

/// Checks the libraries of a window. Without a display, absent ones are no fault.
fn check_libraries(machine: &Machine, has_display: bool) -> Check {
    let name = "window libraries";
    let (session, libraries) = match is_wayland(machine) {
        true => ("Wayland", WAYLAND_LIBRARIES),
        false => ("X11", X11_LIBRARIES),
    };
    let absent = libraries
        .iter()
        .filter(|(file, _)| machine.find_library(file).is_none());
    let (files, packages): (Vec<&str>, Vec<&str>) = absent.copied().unzip();
    if files.is_empty() {
        return Check::ok(name, format!("all libraries for {session}"));
    }
    let found = format!("not found for {session}: {}", files.join(", "));
    let check = match has_display {
        true => Check::missing(name, found),
        false => Check::note(name, found),
    };
    check.with_mend(describe_install(&packages.join(" ")))
}

/// Checks whether OpenGL draws without a display.
fn check_offscreen(machine: &Machine) -> Check {
    let name = "off-screen OpenGL";
    match (machine.probes.offscreen)() {
        Ok(()) => Check::ok(name, "renders pictures without a display"),
        Err(e) => {
            // The message ends with the packages that mend it, which have their own line here.
            let found = e.split("; on Debian").next().unwrap_or(&e);
            Check::missing(name, found).with_mend(describe_install("libegl1 libgl1-mesa-dri"))
        }
    }
}

/// Checks whether a driver of OpenGL is installed.
fn check_driver(machine: &Machine) -> Check {
    let name = "OpenGL driver";
    let is_driver = |file: &str| {
        file.starts_with("libgallium") || file.starts_with("libEGL_nvidia.so") || file.ends_with("_dri.so")
    };
    let find = |folder: PathBuf| machine.list(folder).into_iter().find(|file| is_driver(file));
    let folders = machine.library_folders();
    let mut all = folders.iter().flat_map(|f| [f.clone(), f.join("dri")]);
    match all.find_map(find) {
        Some(file) => Check::ok(name, file),
        None => Check::note(name, "not found in the library folders").with_mend(describe_install("libgl1-mesa-dri")),
    }
}

/// Checks whether Vulkan is installed, which a window can use in place of OpenGL.
fn check_vulkan(machine: &Machine) -> Check {
    let name = "Vulkan";
    match machine.find_library("libvulkan.so.1") {
        Some(_) => Check::ok(name, "libvulkan.so.1"),
        None => Check::note(name, "not found; the window draws with OpenGL")
            .with_mend(describe_install("mesa-vulkan-drivers")),
    }
}

/// Checks the render nodes of graphics cards.
fn check_render_nodes(machine: &Machine) -> Vec<Check> {
    let names = machine.list(NODES);
    let nodes: Vec<&String> = names.iter().filter(|n| n.starts_with("renderD")).collect();
    if nodes.is_empty() {
        let found = "none; OpenGL renders on the processor";
        return vec![Check::note("render nodes", found)];
    }
    let check_node = |name: &&String| {
        let path = format!("{NODES}/{name}");
        let driver = machine.link_name(format!("/sys/class/drm/{name}/device/driver"));
        let driver = driver.map_or_else(|| "driver unknown".to_owned(), |d| format!("driver {d}"));
        match machine.presence(&path, Access::READ_OK | Access::WRITE_OK) {
            Presence::Usable => Check::ok(path, driver),
            _ => Check::note(&path, format!("no access ({driver}); OpenGL renders on the processor"))
                .with_mend(machine.describe_access_fix(&path)),
        }
    };
    nodes.iter().map(check_node).collect()
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::*;

    fn row<'a>(drawing: &'a Drawing, name: &str) -> &'a Check {
        drawing.area.checks.iter().find(|c| c.check == name).unwrap()
    }

    fn with_libraries(libraries: &[(&str, &str)]) -> FakeMachine {
        let fake = FakeMachine::empty();
        for (file, _) in libraries {
            fake.write(&format!("/usr/lib/x86_64-linux-gnu/{file}"), "", 0o644);
        }
        fake
    }

    #[test]
    fn a_machine_without_a_display_draws_off_screen() {
        let drawing = check(&FakeMachine::empty().machine);
        assert!(drawing.works && drawing.area.ready);
        for name in ["display", "window libraries", "OpenGL driver", "Vulkan", "render nodes"] {
            assert_eq!(row(&drawing, name).state, State::Note, "{name}");
        }
    }

    #[test]
    fn a_display_needs_its_libraries() {
        let mut fake = with_libraries(&X11_LIBRARIES[1..]);
        fake.set_env("DISPLAY", ":3.0");
        assert!(
            row(&check(&fake.machine), "display")
                .found
                .contains("X3 does not exist")
        );
        fake.write("/tmp/.X11-unix/X3", "", 0o666);
        let drawing = check(&fake.machine);
        assert_eq!(row(&drawing, "display").found, "DISPLAY=:3.0");
        let libraries = row(&drawing, "window libraries");
        assert_eq!(libraries.state, State::Missing);
        assert_eq!(libraries.found, "not found for X11: libXcursor.so.1");
        assert!(libraries.mend.as_ref().unwrap().contains("libxcursor1"));
        fake.write("/lib/libXcursor.so.1", "", 0o644);
        assert_eq!(row(&check(&fake.machine), "window libraries").state, State::Ok);
    }

    #[test]
    fn a_window_is_enough_to_draw() {
        let mut fake = with_libraries(&WAYLAND_LIBRARIES);
        fake.machine.probes.offscreen = || Err("no adapter".to_owned());
        assert!(!check(&fake.machine).works);
        fake.set_env("WAYLAND_DISPLAY", "wayland-0");
        fake.set_env("XDG_RUNTIME_DIR", "/run/user/1000");
        fake.write("/run/user/1000/wayland-0", "", 0o666);
        let drawing = check(&fake.machine);
        assert!(drawing.works);
        assert_eq!(row(&drawing, "off-screen OpenGL").state, State::Missing);
        assert_eq!(row(&drawing, "window libraries").found, "all libraries for Wayland");
    }

    #[test]
    fn a_render_node_without_access_is_a_note() {
        let fake = FakeMachine::empty();
        fake.write("/dev/dri/renderD128", "", 0o600);
        fake.write("/dev/dri/renderD129", "", 0o666);
        fake.link("/sys/class/drm/renderD129/device/driver", "../../bus/pci/drivers/i915");
        let drawing = check(&fake.machine);
        let denied = row(&drawing, "/dev/dri/renderD128");
        assert_eq!(denied.state, State::Note);
        assert!(denied.mend.as_ref().unwrap().contains("root"));
        assert_eq!(row(&drawing, "/dev/dri/renderD129").found, "driver i915");
    }

    #[test]
    fn a_driver_is_found_by_its_file() {
        let fake = with_libraries(&[("dri/swrast_dri.so", ""), ("libvulkan.so.1", "")]);
        let drawing = check(&fake.machine);
        assert_eq!(row(&drawing, "OpenGL driver").found, "swrast_dri.so");
        assert_eq!(row(&drawing, "Vulkan").state, State::Ok);
    }
}
