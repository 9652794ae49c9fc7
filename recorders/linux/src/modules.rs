//! Modules that are not loaded: those that match a device, and their dependencies. From the files that `depmod` leaves
//! below `/lib/modules`.

use crate::change::is_loaded;
use crate::kernel::Kernel;
use std::collections::BTreeSet;

/// Maximum number of dependencies of a module.
const MAX_MODULES: usize = 256;

fn folder(kernel: &dyn Kernel) -> String {
    format!("/lib/modules/{}", kernel.release().0)
}

/// Returns a module's name in the kernel's spelling.
pub(crate) fn normalize_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the module's name from a path, `kernel/drivers/x/fb-ddc.ko.xz`.
fn name_from_path(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    normalize_name(file.split(".ko").next().unwrap_or(file))
}

/// Returns whether a name matches a pattern of `*`, `?`, `[…]` and letters.
pub(crate) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    // The pattern's position after the last `*`, and the name's position at that time. On a mismatch the star takes one
    // more letter.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), name.get(n)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            (Some(b'?'), Some(_)) => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            (Some(b'['), Some(letter)) => {
                let inside = pattern.get(p + 1..).unwrap_or_default();
                if let Some(end) = inside.iter().position(|b| *b == b']')
                    && in_set(inside.get(..end).unwrap_or_default(), *letter)
                {
                    (p, n) = (p + end + 2, n + 1);
                    continue;
                }
            }
            (Some(a), Some(b)) if a == b => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            _ => {}
        }
        match star {
            Some((behind, at)) if at < name.len() => {
                star = Some((behind, at + 1));
                (p, n) = (behind, at + 1);
            }
            _ => return false,
        }
    }
}

fn in_set(set: &[u8], letter: u8) -> bool {
    let mut rest = set;
    while let [first, more @ ..] = rest {
        match more {
            [b'-', last, more @ ..] => {
                if (*first..=*last).contains(&letter) {
                    return true;
                }
                rest = more;
            }
            _ => {
                if *first == letter {
                    return true;
                }
                rest = more;
            }
        }
    }
    false
}

/// Returns the modules whose aliases match a device, sorted.
pub(crate) fn find_for_device(kernel: &dyn Kernel, modalias: &str) -> Vec<String> {
    if modalias.is_empty() {
        return Vec::new();
    }
    let text = kernel
        .read(&format!("{}/modules.alias", folder(kernel)))
        .unwrap_or_default();
    let all: BTreeSet<String> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("alias ")?.split(' ');
            let (pattern, module) = (words.next()?, words.next()?);
            is_match(pattern.as_bytes(), modalias.as_bytes()).then(|| normalize_name(module))
        })
        .collect();
    all.into_iter().collect()
}

/// Returns whether a module of this name is on the disk.
pub(crate) fn is_installed(kernel: &dyn Kernel, module: &str) -> bool {
    !list_with_dependencies(kernel, module).is_empty()
}

/// Returns a module and its dependencies in load order; none if there is no such module.
fn list_with_dependencies(kernel: &dyn Kernel, module: &str) -> Vec<String> {
    let text = kernel
        .read(&format!("{}/modules.dep", folder(kernel)))
        .unwrap_or_default();
    let module = normalize_name(module);
    let mut lines = text.lines().filter_map(|l| l.split_once(':'));
    let Some((_, needs)) = lines.find(|(file, _)| name_from_path(file) == module) else {
        return Vec::new();
    };
    // The dependency of all others is last.
    let mut all: Vec<String> = needs
        .split_whitespace()
        .rev()
        .take(MAX_MODULES)
        .map(name_from_path)
        .collect();
    all.push(module);
    all
}

/// Returns the modules that a load adds to the kernel, in order, without those that are already loaded.
pub(crate) fn list_missing(kernel: &dyn Kernel, module: &str) -> Vec<String> {
    let mut all = list_with_dependencies(kernel, module);
    all.retain(|m| !is_loaded(kernel, m));
    all
}

/// Returns the drivers of a bus that belong to a loaded module.
pub(crate) fn list_drivers(kernel: &dyn Kernel, module: &str, bus: &str) -> Vec<String> {
    let bus = bus.rsplit('/').next().unwrap_or(bus);
    let all = kernel
        .list(&format!("/sys/module/{}/drivers", normalize_name(module)))
        .unwrap_or_default();
    let prefix = format!("{bus}:");
    all.iter()
        .filter_map(|d| Some(d.strip_prefix(&prefix)?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    #[test]
    fn module_patterns_match_like_the_kernel() {
        let name = b"pci:v00001002d00005159sv00001002sd00005159bc03sc00i00";
        for (pattern, expected) in [
            ("pci:v00001002d00005159sv*sd*bc*sc*i*", true),
            ("pci:v00001002d*sv*sd*bc03sc*i*", true),
            ("pci:v00001002d0000515[0-9]sv*sd*bc*sc*i*", true),
            ("pci:v00001002d0000515[abc]sv*sd*bc*sc*i*", false),
            ("pci:v00001002d0000516?sv*", false),
            ("*i0?", true),
            ("*", true),
            ("", false),
            ("pci:v00001002d00005159sv*sd*bc*sc*i*x", false),
            ("[", false),
        ] {
            assert_eq!(is_match(pattern.as_bytes(), name), expected, "{pattern}");
        }
        assert!(!is_match(b"*a*a*a*a*a*a*b", &[b'a'; 200]));
    }

    #[test]
    fn device_modules_and_their_dependencies_are_found() {
        let kernel = FakeKernel::pc();
        assert_eq!(
            find_for_device(&kernel, "pci:v00001002d00005159sv0sd0bc03sc00i00"),
            ["radeon", "radeonfb"]
        );
        assert!(find_for_device(&kernel, "").is_empty());
        assert_eq!(list_missing(&kernel, "radeonfb"), ["fb_ddc", "radeonfb"]);
        assert!(is_installed(&kernel, "fb-ddc") && !is_installed(&kernel, "nouveau"));
    }
}
