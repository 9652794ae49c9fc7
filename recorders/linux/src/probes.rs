//! Probes that the recorder adds to the kernel, in a group of its own: a driver's register accessors, and other events
//! (mappings, device memory, interrupt requests, configuration space). The importer recognizes them by their functions.
//! Syntax: the kernel's `Documentation/trace/kprobetrace.rst`.

use std::fmt::Write as _;
use std::str::FromStr;

/// Group of all probes, and name of the tracer's instance.
pub(crate) const GROUP: &str = "kinescope";

/// A probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Its name in the group.
    pub(crate) name: String,
    /// The line that defines it.
    pub(crate) line: String,
    /// Filter of its events; empty for all.
    pub(crate) filter: String,
}

impl Probe {
    /// Returns its name with its group's.
    pub(crate) fn full_name(&self) -> String {
        format!("{GROUP}/{}", self.name)
    }
}

/// Returns the registers that hold a function's first six arguments, or `None` for an unknown architecture.
#[must_use]
pub(crate) fn argument_registers(architecture: &str) -> Option<[&'static str; 6]> {
    match architecture {
        "x86_64" => Some(["%di", "%si", "%dx", "%cx", "%r8", "%r9"]),
        "aarch64" => Some(["%x0", "%x1", "%x2", "%x3", "%x4", "%x5"]),
        "riscv64" => Some(["%a0", "%a1", "%a2", "%a3", "%a4", "%a5"]),
        _ => None,
    }
}

/// A function of a driver that reads or writes one register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accessor {
    /// Its name.
    pub function: String,
    /// The argument, from 1, that is the register's offset.
    pub offset: usize,
    /// The argument that is the value; `None` if it is the return value.
    pub value: Option<usize>,
}

impl FromStr for Accessor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an accessor (expected FUNCTION:OFFSET for one that returns the value, \
                 FUNCTION:OFFSET:VALUE for one that writes it, OFFSET and VALUE being numbers of arguments from 1: \
                 igb_rd32:2, kbase_reg_write:2:3)"
            )
        };
        let mut parts = text.split(':');
        let function = parts.next().unwrap_or_default();
        let mut argument = || match parts.next() {
            None => Ok(None),
            Some(n) => n
                .parse()
                .ok()
                .filter(|n| (1..=6).contains(n))
                .map(Some)
                .ok_or_else(wrong),
        };
        let (offset, value) = (argument()?, argument()?);
        let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
        match offset {
            Some(offset) if !function.is_empty() && function.bytes().all(word) && parts.next().is_none() => Ok(Self {
                function: function.to_owned(),
                offset,
                value,
            }),
            _ => Err(wrong()),
        }
    }
}

/// Known accessors of drivers: functions of their own, which the compiler does not inline.
pub(crate) const KNOWN_ACCESSORS: [(&str, &[&str]); 3] = [
    ("igb", &["igb_rd32:2"]),
    ("e1000e", &["__ew32:2:3"]),
    ("mali_kbase", &["kbase_reg_read:2", "kbase_reg_write:2:3"]),
];

/// Returns the known accessors of a driver.
pub(crate) fn find_known_accessors(driver: &str) -> Vec<Accessor> {
    let of = KNOWN_ACCESSORS
        .iter()
        .find(|(name, _)| *name == driver)
        .map_or(&[][..], |(_, all)| all);
    of.iter().filter_map(|a| a.parse().ok()).collect()
}

impl Accessor {
    /// Returns its probes: at its entry, and at its return if it returns the value.
    pub(crate) fn build_probes(&self, number: usize, module: Option<&str>, arguments: &[&str; 6]) -> Vec<Probe> {
        let register = |n: usize| arguments.get(n.wrapping_sub(1)).copied().unwrap_or_default();
        let width = if self.function.ends_with("64") { "x64" } else { "x32" };
        let place = match module {
            Some(module) => format!("{module}:{}", self.function),
            None => self.function.clone(),
        };
        // The other arguments distinguish the driver's devices: usually the first one.
        let mut line = format!(
            "p:{GROUP}/access{number} {place} of={}:x64",
            register(if self.offset == 1 { 2 } else { 1 })
        );
        let _ = write!(line, " off={}:x32", register(self.offset));
        if let Some(value) = self.value {
            let _ = write!(line, " value={}:{width}", register(value));
        }
        let probe = |name: String, line: String| Probe {
            name,
            line,
            filter: String::new(),
        };
        let mut all = vec![probe(format!("access{number}"), line)];
        if self.value.is_none() {
            let line = format!("r:{GROUP}/access{number}_ret {place} val=$retval:{width}");
            all.push(probe(format!("access{number}_ret"), line));
        }
        all
    }
}

/// Filter of events other than register accesses.
pub(crate) struct EventFilter<'a> {
    /// The device's name.
    pub(crate) device: &'a str,
    /// Offset of the pointer to its name in a device's structure.
    pub(crate) name_offset: u64,
    /// Bus, and device and function as one number, of a PCI function.
    pub(crate) pci_location: Option<(u32, u32)>,
}

/// Returns the probes of other events. `mapped`: also the addresses that the driver maps, if the log does not contain
/// them.
pub(crate) fn build_event_probes(
    of: &EventFilter<'_>,
    mapped: bool,
    architecture: &str,
    arguments: &[&str; 6],
) -> Vec<Probe> {
    let [a0, a1, a2, a3, a4, a5] = arguments;
    let mut all = Vec::new();
    let mut add = |name: &str, line: String, filter: String| {
        all.push(Probe {
            name: name.to_owned(),
            line,
            filter,
        });
    };
    if mapped {
        let functions: &[&str] = match architecture {
            "x86_64" => &["ioremap", "ioremap_wc", "ioremap_cache"],
            _ => &["ioremap_prot"],
        };
        for f in functions {
            add(
                f,
                format!("p:{GROUP}/{f} {f} phys={a0}:x64 size={a1}:x64"),
                String::new(),
            );
            add(
                &format!("{f}_ret"),
                format!("r:{GROUP}/{f}_ret {f} va=$retval:x64"),
                String::new(),
            );
        }
    }
    // Only calls for the device count: their first argument has its name.
    let named = format!("name=+0(+{}({a0})):string", of.name_offset);
    let of_device = format!("name==\"{}\"", of.device);
    add(
        "dma_alloc",
        format!("p:{GROUP}/dma_alloc dma_alloc_attrs dev={a0}:x64 size={a1}:u64 {named}"),
        of_device.clone(),
    );
    add(
        "dma_alloc_ret",
        format!("r:{GROUP}/dma_alloc_ret dma_alloc_attrs cpu=$retval:x64"),
        String::new(),
    );
    add(
        "dma_map_page",
        format!(
            "p:{GROUP}/dma_map_page dma_map_page_attrs dev={a0}:x64 page={a1}:x64 off={a2}:u64 size={a3}:u64 {named}"
        ),
        of_device,
    );
    add(
        "dma_map_page_ret",
        format!("r:{GROUP}/dma_map_page_ret dma_map_page_attrs dma=$retval:x64"),
        String::new(),
    );
    add(
        "request_irq",
        format!("p:{GROUP}/request_irq request_threaded_irq irq={a0}:u32 handler={a1}:x64"),
        String::new(),
    );
    if let Some((bus, devfn)) = of.pci_location.filter(|_| architecture == "x86_64") {
        let fields = format!("seg={a0}:u32 bus={a1}:u32 devfn={a2}:x32 reg={a3}:x32 len={a4}:u32");
        let filter = format!("bus=={bus} && devfn=={devfn}");
        add(
            "config_read",
            format!("p:{GROUP}/config_read pci_conf1_read {fields}"),
            filter.clone(),
        );
        add(
            "config_write",
            format!("p:{GROUP}/config_write pci_conf1_write {fields} value={a5}:x32"),
            filter,
        );
    }
    all
}

/// Parses a PCI function's address into the bus, and device and function as one number.
pub(crate) fn parse_pci_location(address: &str) -> Option<(u32, u32)> {
    let (_, rest) = address.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (slot, function) = rest.split_once('.')?;
    let hex = |t: &str| u32::from_str_radix(t, 16).ok();
    let (slot, function) = (hex(slot).filter(|s| *s < 32)?, hex(function).filter(|f| *f < 8)?);
    Some((hex(bus)?, slot << 3 | function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accessors_become_probes_of_their_arguments() {
        let x86 = argument_registers("x86_64").unwrap();
        let read: Accessor = "igb_rd32:2".parse().unwrap();
        let lines: Vec<_> = read
            .build_probes(0, Some("igb"), &x86)
            .into_iter()
            .map(|p| p.line)
            .collect();
        assert_eq!(
            lines,
            [
                "p:kinescope/access0 igb:igb_rd32 of=%di:x64 off=%si:x32",
                "r:kinescope/access0_ret igb:igb_rd32 val=$retval:x32"
            ]
        );
        let write: Accessor = "kbase_reg_write:2:3".parse().unwrap();
        let arm = argument_registers("aarch64").unwrap();
        let probes = write.build_probes(7, None, &arm);
        assert_eq!(probes.len(), 1);
        assert_eq!(
            probes[0].line,
            "p:kinescope/access7 kbase_reg_write of=%x0:x64 off=%x1:x32 value=%x2:x32"
        );
        for invalid in ["", "f", "f:", "f:0", "f:7", "f:1:2:3", "f g:1", ":1", "f:x"] {
            assert!(invalid.parse::<Accessor>().is_err(), "{invalid}");
        }
        assert!(
            KNOWN_ACCESSORS
                .iter()
                .all(|(driver, all)| find_known_accessors(driver).len() == all.len())
        );
    }

    #[test]
    fn config_and_dma_probes_are_filtered_by_device() {
        let x86 = argument_registers("x86_64").unwrap();
        let device = EventFilter {
            device: "0000:00:03.0",
            name_offset: 8,
            pci_location: parse_pci_location("0000:00:03.0"),
        };
        let all = build_event_probes(&device, false, "x86_64", &x86);
        let find_probe = |name: &str| all.iter().find(|p| p.name == name).unwrap();
        assert_eq!(find_probe("config_write").filter, "bus==0 && devfn==24");
        assert_eq!(find_probe("dma_alloc").filter, "name==\"0000:00:03.0\"");
        assert!(find_probe("dma_alloc").line.ends_with(" name=+0(+8(%di)):string"));
        assert!(all.iter().all(|p| p.line.contains(&format!(":{} ", p.full_name()))));
        assert!(!all.iter().any(|p| p.name == "ioremap"));
        let arm = build_event_probes(
            &EventFilter {
                device: "x",
                name_offset: 0,
                pci_location: None,
            },
            true,
            "aarch64",
            &argument_registers("aarch64").unwrap(),
        );
        assert!(
            arm.iter()
                .any(|p| p.line == "p:kinescope/ioremap_prot ioremap_prot phys=%x0:x64 size=%x1:x64")
        );
        assert_eq!(parse_pci_location("0001:02:03.5"), Some((2, 0x1d)));
        assert_eq!(parse_pci_location("x"), None);
    }
}
