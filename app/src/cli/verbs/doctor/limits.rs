//! Limits of a process: open files, locked memory, and the size of a page.

use super::machine::Machine;
use super::report::{Area, Check};
use kinescope_session::text;

/// Number of open files that a window needs for a recording, a second one to compare, and their folders.
const MIN_OPEN_FILES: u64 = 1024;
/// Locked memory for the DMA memory of a usual plan, bytes.
const MIN_LOCKED_BYTES: u64 = 64 << 20;
/// Size of a page on the machines of the tests, bytes.
const TESTED_PAGE_BYTES: usize = 4096;
/// Values that the kernel gives to each process.
const AUXILIARY_VECTOR: &str = "/proc/self/auxv";
/// Key of the page size in the auxiliary vector.
const AT_PAGESZ: usize = 6;

/// Checks the limits.
pub fn check(machine: &Machine) -> Area {
    let checks = vec![
        check_open_files(machine),
        check_locked_memory(machine),
        check_page(machine),
    ];
    Area::new("limits", "limits of a process", checks)
}

/// Formats a limit; `None` is no limit.
fn describe(limit: Option<u64>, format: impl Fn(u64) -> String) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), format)
}

/// Checks the number of files that a process may have open.
fn check_open_files(machine: &Machine) -> Check {
    let name = "open files";
    let limit = machine.open_files;
    let number = |n: u64| n.to_string();
    let found = format!(
        "{}, at most {}",
        describe(limit.current, number),
        describe(limit.maximum, number)
    );
    let is_enough = |limit: Option<u64>| limit.is_none_or(|n| n >= MIN_OPEN_FILES);
    if is_enough(limit.current) {
        return Check::ok(name, found);
    }
    let check = Check::note(name, format!("{found}; a window over folders needs {MIN_OPEN_FILES}"));
    match is_enough(limit.maximum) {
        true => check.with_mend(format!("run `ulimit -n {MIN_OPEN_FILES}` before `kinescope`")),
        false => check.with_mend(format!(
            "raise `nofile` to {MIN_OPEN_FILES} in /etc/security/limits.conf, then log in again"
        )),
    }
}

/// Checks the memory that a process may lock, which VFIO counts for DMA unless root drives the device.
fn check_locked_memory(machine: &Machine) -> Check {
    let name = "locked memory";
    let limit = machine.locked_memory.current;
    let found = describe(limit, text::bytes);
    if machine.is_root {
        Check::ok(name, format!("{found}; root is not limited"))
    } else if !machine.exists("/dev/vfio/vfio") {
        Check::ok(name, format!("{found}; only VFIO needs it"))
    } else if limit.is_none_or(|n| n >= MIN_LOCKED_BYTES) {
        Check::ok(name, found)
    } else {
        let needed = text::bytes(MIN_LOCKED_BYTES);
        Check::note(name, format!("{found}; VFIO without root needs about {needed}")).with_mend(format!(
            "run the agent as root, or raise `memlock` to {} in /etc/security/limits.conf",
            MIN_LOCKED_BYTES >> 10
        ))
    }
}

/// Checks the size of a page.
fn check_page(machine: &Machine) -> Check {
    let name = "page size";
    let vector = machine.read_bytes(AUXILIARY_VECTOR).unwrap_or_default();
    match find_page_size(&vector) {
        None => Check::note(name, format!("{AUXILIARY_VECTOR} does not name it")),
        Some(TESTED_PAGE_BYTES) => Check::ok(name, text::bytes(TESTED_PAGE_BYTES as u64)),
        Some(size) => {
            let (size, tested) = (text::bytes(size as u64), text::bytes(TESTED_PAGE_BYTES as u64));
            Check::note(name, format!("{size}; Kinescope is tested with {tested} alone"))
        }
    }
}

/// Returns the page size in an auxiliary vector: pairs of a key and a value in the machine's byte order.
fn find_page_size(vector: &[u8]) -> Option<usize> {
    const WORD: usize = size_of::<usize>();
    let mut pairs = vector.chunks_exact(2 * WORD).filter_map(|pair| {
        let (key, value) = pair.split_at_checked(WORD)?;
        let word = |bytes: &[u8]| <[u8; WORD]>::try_from(bytes).ok().map(usize::from_ne_bytes);
        Some((word(key)?, word(value)?))
    });
    pairs.find(|(key, _)| *key == AT_PAGESZ).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;

    fn auxiliary_vector(page: usize) -> Vec<u8> {
        [33, 0x7ff0, AT_PAGESZ, page, 0, 0]
            .iter()
            .flat_map(|w: &usize| w.to_ne_bytes())
            .collect()
    }

    #[test]
    fn few_open_files_are_a_note_with_the_way_to_raise_them() {
        let mut fake = FakeMachine::empty();
        assert_eq!(
            check_open_files(&fake.machine),
            Check::ok("open files", "1024, at most 4096")
        );
        fake.machine.open_files.current = Some(256);
        let mend = |fake: &FakeMachine| check_open_files(&fake.machine).mend.unwrap();
        assert!(mend(&fake).contains("ulimit -n 1024"));
        fake.machine.open_files.maximum = Some(512);
        assert!(mend(&fake).contains("limits.conf"));
        fake.machine.open_files.current = None;
        assert_eq!(check_open_files(&fake.machine).state, State::Ok);
    }

    #[test]
    fn locked_memory_counts_for_vfio_without_root() {
        let mut fake = FakeMachine::empty();
        assert_eq!(check_locked_memory(&fake.machine).state, State::Ok);
        fake.write("/dev/vfio/vfio", "", 0o666);
        let limited = check_locked_memory(&fake.machine);
        assert_eq!(limited.state, State::Note);
        assert!(limited.mend.unwrap().contains("65536"));
        fake.machine.locked_memory.current = None;
        assert_eq!(check_locked_memory(&fake.machine).found, "unlimited");
        fake.machine.is_root = true;
        assert!(check_locked_memory(&fake.machine).found.contains("root"));
    }

    #[test]
    fn the_page_size_comes_from_the_auxiliary_vector() {
        let fake = FakeMachine::empty();
        assert_eq!(check_page(&fake.machine).state, State::Note);
        fake.write(AUXILIARY_VECTOR, auxiliary_vector(4096), 0o644);
        assert_eq!(check_page(&fake.machine), Check::ok("page size", "4.0 KiB"));
        fake.write(AUXILIARY_VECTOR, auxiliary_vector(65536), 0o644);
        assert_eq!(check_page(&fake.machine).state, State::Note);
    }
}
