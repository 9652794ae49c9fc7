//! File dialogs of the desktop: a portal on the session bus, or zenity. Without them the window shows a path prompt.

use super::machine::Machine;
use super::report::{Area, Check, State, describe_install};
use std::path::Path;

/// Files of which one exists where the desktop portal is installed.
const PORTAL_FILES: [&str; 3] = [
    "/usr/share/dbus-1/services/org.freedesktop.portal.Desktop.service",
    "/usr/libexec/xdg-desktop-portal",
    "/usr/lib/xdg-desktop-portal",
];
/// Folder with one file for each backend of the portal.
const PORTAL_BACKENDS: &str = "/usr/share/xdg-desktop-portal/portals";

/// Checks file dialogs.
pub fn check(machine: &Machine) -> Area {
    let bus = check_bus(machine);
    let portal = check_portal(machine);
    let zenity = match machine.find_program("zenity") {
        Some(path) => Check::ok("zenity", path.display().to_string()),
        None => Check::note("zenity", "not found in PATH; only a desktop without a portal needs it"),
    };
    let dialog = if bus.state == State::Ok && portal.state == State::Ok {
        Check::ok("file dialog", "by the desktop portal")
    } else if zenity.state == State::Ok {
        Check::ok("file dialog", "by zenity")
    } else {
        Check::missing("file dialog", "none; the window has a text field for the path instead")
            .with_mend(describe_install("zenity"))
    };
    let checks = vec![dialog, bus, portal, zenity];
    Area::new("file dialogs", "the desktop's dialogs to open and save files", checks)
}

/// Checks whether the session bus is named, or is at its usual path.
fn check_bus(machine: &Machine) -> Check {
    let name = "session bus";
    if let Some(address) = machine.env("DBUS_SESSION_BUS_ADDRESS") {
        return Check::ok(name, address.to_string_lossy());
    }
    let usual = machine
        .env("XDG_RUNTIME_DIR")
        .map(|folder| Path::new(folder).join("bus"));
    match usual.filter(|socket| machine.exists(socket)) {
        Some(socket) => Check::note(
            name,
            format!("DBUS_SESSION_BUS_ADDRESS is not set; {} exists", socket.display()),
        )
        .with_mend(format!(
            "run `export DBUS_SESSION_BUS_ADDRESS=unix:path={}`",
            socket.display()
        )),
        None => Check::note(name, "DBUS_SESSION_BUS_ADDRESS is not set")
            .with_mend("run `kinescope` in a desktop session, or with `dbus-run-session`"),
    }
}

/// Checks whether the desktop portal and a backend of it are installed.
fn check_portal(machine: &Machine) -> Check {
    let name = "desktop portal";
    let mend = describe_install("xdg-desktop-portal xdg-desktop-portal-gtk");
    if !PORTAL_FILES.iter().any(|file| machine.exists(file)) {
        return Check::note(name, "xdg-desktop-portal is not installed").with_mend(mend);
    }
    let names = machine.list(PORTAL_BACKENDS);
    let backends: Vec<&str> = names.iter().filter_map(|n| n.strip_suffix(".portal")).collect();
    match backends.is_empty() {
        true => Check::note(name, "xdg-desktop-portal has no backend").with_mend(mend),
        false => Check::ok(name, format!("xdg-desktop-portal with {}", backends.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::*;

    fn dialog(fake: &FakeMachine) -> (State, String) {
        let area = check(&fake.machine);
        (area.checks[0].state, area.checks[0].found.clone())
    }

    #[test]
    fn a_portal_needs_a_bus_and_a_backend() {
        let mut fake = FakeMachine::empty();
        assert_eq!(dialog(&fake).0, State::Missing);
        fake.set_env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus");
        fake.write(PORTAL_FILES[1], "", 0o755);
        assert_eq!(dialog(&fake).0, State::Missing);
        fake.write(&format!("{PORTAL_BACKENDS}/gtk.portal"), "", 0o644);
        assert_eq!(dialog(&fake), (State::Ok, "by the desktop portal".to_owned()));
    }

    #[test]
    fn zenity_is_enough() {
        let mut fake = FakeMachine::empty();
        fake.set_env("PATH", "/usr/bin");
        fake.write("/usr/bin/zenity", "", 0o755);
        assert_eq!(dialog(&fake), (State::Ok, "by zenity".to_owned()));
    }

    #[test]
    fn a_bus_at_its_usual_place_is_named() {
        let mut fake = FakeMachine::empty();
        fake.set_env("XDG_RUNTIME_DIR", "/run/user/7");
        fake.write("/run/user/7/bus", "", 0o600);
        let mend = check_bus(&fake.machine).mend.unwrap();
        assert!(mend.contains("unix:path=/run/user/7/bus"), "{mend}");
    }
}
