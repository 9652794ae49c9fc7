//! Folders that the program writes: access, space, and the type of their file systems.

use super::machine::Machine;
use super::report::{Area, Check};
use kinescope_session::text;
use rustix::fs::{Access, statvfs};
use std::path::{Path, PathBuf};

/// Space for settings, keys and crash reports, bytes.
const MIN_SETTINGS_BYTES: u64 = 16 << 20;
/// Space for recordings and other results, bytes.
const MIN_RESULT_BYTES: u64 = 1 << 30;
/// Beginnings of the types of file systems whose files lie on another machine.
const NETWORK_TYPES: [&str; 6] = ["nfs", "cifs", "smb", "9p", "fuse.sshfs", "ceph"];

/// Checks the folders.
pub fn check(machine: &Machine) -> Area {
    let folders = &machine.folders;
    let settings = |name, folder| check_folder(machine, name, folder, MIN_SETTINGS_BYTES);
    let checks = vec![
        settings("settings", folders.settings.as_deref()),
        settings("keys", folders.keys.as_deref()),
        settings("crash reports", folders.crashes.as_deref()),
        check_folder(
            machine,
            "temporary files",
            folders.temporary.as_deref(),
            MIN_SETTINGS_BYTES,
        ),
        check_current(machine),
    ];
    Area::new("folders", "settings, keys, crash reports and results", checks)
}

/// Checks whether a folder can be written, or created, and has space.
fn check_folder(machine: &Machine, name: &str, folder: Option<&Path>, min_bytes: u64) -> Check {
    let Some(folder) = folder else {
        return Check::missing(name, "this user has no home folder").with_mend("set HOME to a folder of yours");
    };
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    // A folder that does not exist yet is created in the nearest one that exists.
    let existing = absolute.ancestors().find(|f| f.exists()).unwrap_or(&absolute);
    let shown = folder.display();
    if !existing.is_dir() {
        return Check::missing(name, format!("{shown}: {} is not a folder", existing.display()))
            .with_mend(format!("move the file {} away", existing.display()));
    }
    if !(machine.probes.access)(existing, Access::WRITE_OK | Access::EXEC_OK) {
        return Check::missing(name, format!("{shown}: {} cannot be written", existing.display()))
            .with_mend(format!("give yourself write access to {}", existing.display()));
    }
    let free = find_free_bytes(existing);
    let size = free.map_or_else(|| "unknown space".to_owned(), |n| format!("{} free", text::bytes(n)));
    let kind = find_file_system(machine, existing).unwrap_or_else(|| "unknown file system".to_owned());
    let found = format!("{shown} ({kind}, {size})");
    match free {
        Some(n) if n < min_bytes => {
            Check::note(name, found).with_mend(format!("free at least {} there", text::bytes(min_bytes)))
        }
        _ => Check::ok(name, found),
    }
}

/// Checks the current folder, where recordings and results usually lie. Another folder does as well.
fn check_current(machine: &Machine) -> Check {
    let name = "current folder";
    let Some(folder) = machine.folders.current.as_deref() else {
        return Check::note(name, "it does not exist any more").with_mend("change to a folder that exists");
    };
    if !(machine.probes.access)(folder, Access::WRITE_OK | Access::EXEC_OK) {
        return Check::note(name, format!("{} cannot be written", folder.display()))
            .with_mend("name another folder with `-o`");
    }
    let check = check_folder(machine, name, Some(folder), MIN_RESULT_BYTES);
    match find_file_system(machine, folder) {
        Some(kind) if NETWORK_TYPES.iter().any(|t| kind.starts_with(t)) => Check::note(
            name,
            format!(
                "{}; a recording is read in place, and a lost connection ends the program",
                check.found
            ),
        )
        .with_mend("copy the recording to a local disk"),
        _ => check,
    }
}

/// Returns the space that this user can still use in the file system of a folder, bytes.
fn find_free_bytes(folder: &Path) -> Option<u64> {
    let status = statvfs(folder).ok()?;
    status.f_bavail.checked_mul(status.f_frsize)
}

/// Returns the type of the file system of a folder: `ext4`, `tmpfs`, `nfs4`.
fn find_file_system(machine: &Machine, folder: &Path) -> Option<String> {
    let mounts = machine.read("/proc/self/mounts")?;
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let holders = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (unescape(words.next()?), words.next()?);
        folder.starts_with(&at).then(|| (at.components().count(), kind))
    });
    // The deepest mount point holds the folder; of several at one place, the last.
    holders.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind.to_owned())
}

/// Returns a mount point as a path. The kernel writes spaces, tabs, line ends and backslashes as octal numbers.
fn unescape(text: &str) -> PathBuf {
    let text = text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    PathBuf::from(text.replace("\\134", "\\"))
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn set_mode(folder: &Path, mode: u32) {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_is_written_or_can_be_created() {
        let fake = FakeMachine::empty();
        let home = fake.root.path().canonicalize().unwrap();
        let nested = home.join("not/yet");
        let state = |bytes| check_folder(&fake.machine, "x", Some(&nested), bytes).state;
        set_mode(&home, 0o777);
        assert_eq!(state(0), State::Ok);
        assert_eq!(state(u64::MAX), State::Note);
        set_mode(&home, 0o755);
        assert_eq!(state(0), State::Missing);
        fake.write("/file", "", 0o666);
        let below = home.join("file/below");
        let check = check_folder(&fake.machine, "x", Some(&below), 0);
        assert!(check.found.contains("file is not a folder"), "{}", check.found);
        assert_eq!(check_folder(&fake.machine, "x", None, 0).state, State::Missing);
    }

    #[test]
    fn the_deepest_mount_is_the_file_system() {
        let mut fake = FakeMachine::empty();
        let home = fake.root.path().canonicalize().unwrap();
        set_mode(&home, 0o777);
        let mounts = format!(
            "/dev/sda1 / ext4 rw 0 0\nserver:/x {} nfs4 rw 0 0\ntmpfs /other\\040one tmpfs rw 0 0\n",
            home.display()
        );
        fake.write("/proc/self/mounts", mounts, 0o444);
        assert_eq!(find_file_system(&fake.machine, &home).as_deref(), Some("nfs4"));
        assert_eq!(find_file_system(&fake.machine, Path::new("/")).as_deref(), Some("ext4"));
        assert_eq!(unescape("/a\\040b\\134c"), Path::new("/a b\\c"));
        fake.machine.folders.current = Some(home);
        let check = check_current(&fake.machine);
        assert_eq!(check.state, State::Note);
        assert!(check.mend.unwrap().contains("local disk"));
    }

    #[test]
    fn a_user_without_folders_sees_which_are_absent() {
        let area = check(&FakeMachine::empty().machine);
        let states: Vec<State> = area.checks.iter().map(|c| c.state).collect();
        assert_eq!(states[..4], [State::Missing; 4]);
        assert_eq!(states[4], State::Note);
    }
}
