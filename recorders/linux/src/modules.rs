//! Modules that are not loaded yet: which of them the kernel would take for a device, and what comes with one. From the
//! files that `depmod` leaves below `/lib/modules`.

use crate::change::is_loaded;
use crate::kernel::Kernel;
use std::collections::BTreeSet;

/// Maximum number of modules that come with one.
const MAX_MODULES: usize = 256;

fn folder(kernel: &dyn Kernel) -> String {
    format!("/lib/modules/{}", kernel.release().0)
}

/// A module's name as the kernel has it.
pub(crate) fn normalize_name(name: &str) -> String {
    name.replace('-', "_")
}

/// The name of the module in a file, `kernel/drivers/x/fb-ddc.ko.xz`.
fn name_from_path(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    normalize_name(file.split(".ko").next().unwrap_or(file))
}

/// Whether a name fits a pattern of `*`, `?`, `[…]` and letters.
pub(crate) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    // The place behind the last `*`, and where the name was then: from there on the star takes one letter more.
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

/// The modules that say they drive a device, sorted.
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

/// Whether there is a module of this name on the disk.
pub(crate) fn is_installed(kernel: &dyn Kernel, module: &str) -> bool {
    !list_with_dependencies(kernel, module).is_empty()
}

/// A module and what comes with it, in the order in which they are loaded; none when there is no such module.
fn list_with_dependencies(kernel: &dyn Kernel, module: &str) -> Vec<String> {
    let text = kernel
        .read(&format!("{}/modules.dep", folder(kernel)))
        .unwrap_or_default();
    let module = normalize_name(module);
    let mut lines = text.lines().filter_map(|l| l.split_once(':'));
    let Some((_, needs)) = lines.find(|(file, _)| name_from_path(file) == module) else {
        return Vec::new();
    };
    // What is needed by all others stands last.
    let mut all: Vec<String> = needs
        .split_whitespace()
        .rev()
        .take(MAX_MODULES)
        .map(name_from_path)
        .collect();
    all.push(module);
    all
}

/// What loading a module adds to the kernel, in order: what is loaded already is left out.
pub(crate) fn list_missing(kernel: &dyn Kernel, module: &str) -> Vec<String> {
    let mut all = list_with_dependencies(kernel, module);
    all.retain(|m| !is_loaded(kernel, m));
    all
}

/// The drivers of a bus that a loaded module brought.
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
    fn patterns_fit_as_the_kernels_do() {
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
    fn modules_of_a_device_and_what_comes_with_them() {
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
