//! A function as described by the kernel's files: ids, windows, driver. Parses text that a kernel wrote.

use super::error::PciError;
use super::name::{Address, Name};
use crate::device::host::{Host, HostError, number};
use crate::device::vfio::Group;
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, Hardware, PciFunction};
use trace_core::registers::RegisterMap;

/// The driver that only forwards a function's interrupt to a program.
pub(super) const UIO: &str = "uio_pci_generic";
/// The driver that gives a program access to a function behind an IOMMU.
pub(super) const VFIO: &str = "vfio-pci";

/// Flags of a window in the file `resource`, from `linux/ioport.h`.
const PORTS: u64 = 0x100;
const MEMORY: u64 = 0x200;
const PREFETCHABLE: u64 = 0x2000;

/// The location of a function's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// First address.
    pub start: BusAddr,
    /// Length, bytes.
    pub bytes: u64,
    /// Flags of the kernel: the kind of window.
    pub flags: u64,
}

impl Resource {
    /// Parses the file `resource`: one line per window, six and the expansion ROM. Further lines are ignored. Returns
    /// `None` if a line has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Vec<Self>> {
        let line = |line: &str| {
            let mut numbers = line.split_ascii_whitespace().map(number);
            let (start, last, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
            let bytes = match (start, last) {
                (0, 0) => 0,
                _ => last.checked_sub(start)?.checked_add(1)?,
            };
            numbers.next().is_none().then_some(Self {
                start: BusAddr::new(start),
                bytes,
                flags,
            })
        };
        text.lines().take(usize::from(EXPANSION_ROM)).map(line).collect()
    }

    /// Returns the window as recordings describe it, or `None` if there is none.
    fn bar(&self, number: u8) -> Option<Bar> {
        let ports = self.flags & PORTS != 0;
        (self.bytes > 0 && self.flags & (PORTS | MEMORY) != 0).then_some(Bar {
            number,
            base: self.start,
            bytes: self.bytes,
            ports,
            prefetchable: !ports && self.flags & PREFETCHABLE != 0,
        })
    }
}

/// A function of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its address.
    pub address: Address,
    /// Its PCI identity.
    pub pci: PciFunction,
    /// The kernel driver that it is bound to.
    pub driver: Option<String>,
    /// The IOMMU group that isolates it, or `None` if there is no IOMMU.
    pub group: Option<Group>,
    /// Whether the kernel can reset it.
    pub resets: bool,
}

impl Function {
    /// Reads the kernel's information about the function at an address.
    ///
    /// # Errors
    /// [`PciError`], if it does not exist or its files are invalid.
    pub fn read(host: &Host, address: Address) -> Result<Self, PciError> {
        let folder = address.folder();
        let failed = |source: HostError| PciError::Host { address, source };
        let fact = |name: &str| host.number(format!("{folder}/{name}")).map_err(failed);
        let odd = |what: &str| PciError::Odd {
            address,
            what: what.to_owned(),
        };
        let id = |name: &str| {
            let n = fact(name)?;
            u16::try_from(n).map_err(|_| odd(&format!("`{name}` is {n:#x}, which is not an id")))
        };
        let resources = host.text(format!("{folder}/resource")).map_err(failed)?;
        let resources = Resource::parse(&resources).ok_or_else(|| odd("the file `resource` has an unknown form"))?;
        let bars = resources.iter().zip(0u8..).filter_map(|(r, n)| r.bar(n));
        let small = |name: &str| fact(name).ok().and_then(|n| u32::try_from(n).ok());
        Ok(Self {
            address,
            pci: PciFunction {
                address: address.to_string(),
                vendor: id("vendor")?,
                device: id("device")?,
                subsystem_vendor: id("subsystem_vendor").ok(),
                subsystem_device: id("subsystem_device").ok(),
                class: small("class"),
                revision: small("revision").and_then(|r| r.try_into().ok()),
                irq: small("irq").filter(|irq| *irq != 0),
                bars: bars.collect(),
            },
            driver: host.link(format!("{folder}/driver")),
            group: Group::find(host, &folder, &address.to_string()),
            resets: host.has(format!("{folder}/reset")),
        })
    }

    /// Finds the only function that a name matches.
    ///
    /// # Errors
    /// [`PciError::Absent`] or [`PciError::Ambiguous`], with the existing functions.
    pub fn find(host: &Host, name: &Name) -> Result<Self, PciError> {
        let all = list_functions(host);
        let mut found = all.iter().filter(|f| match name {
            Name::At(address) => f.address == *address,
            Name::Ids { vendor, device } => (f.pci.vendor, f.pci.device) == (*vendor, *device),
        });
        let describe = |of: &mut dyn Iterator<Item = &Self>| {
            let messages: Vec<String> = of.map(|f| format!("{} ({})", f.address, f.ids())).collect();
            match messages.len() {
                0 => "none".to_owned(),
                _ => messages.join(", "),
            }
        };
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(PciError::Absent {
                name: name.to_string(),
                known: describe(&mut all.iter()),
            }),
            (Some(a), Some(b)) => Err(PciError::Ambiguous {
                name: name.to_string(),
                functions: describe(&mut [a, b].into_iter().chain(found)),
            }),
        }
    }

    /// Returns vendor and device, `1002:5159`.
    #[must_use]
    pub fn ids(&self) -> String {
        format!("{:04x}:{:04x}", self.pci.vendor, self.pci.device)
    }

    /// Returns a description for the user: the device, its driver, and what a plan could use. `memory` is the memory
    /// that the machine has free for plans without an IOMMU, bytes.
    #[must_use]
    pub fn describe(&self, host: &Host, memory: u64) -> String {
        let hardware = Hardware::Pci(self.pci.clone());
        let map = RegisterMap::for_hardware(&hardware);
        let name = map.and_then(|m| m.hardware_name(&hardware)).unwrap_or("PCI function");
        let driver = self.driver.as_deref().unwrap_or("none");
        let map = map.map_or("none", RegisterMap::name);
        let (by, memory) = match (find_iommu_group(host, self), memory >> 20) {
            (Ok(group), _) => (
                format!("an IOMMU (group {})", group.number),
                "memory as requested".to_owned(),
            ),
            (Err(None), _) if may_be_hidden(host) => (
                "an IOMMU, if the device is behind one when it is opened".to_owned(),
                "memory as requested then".to_owned(),
            ),
            (Err(why), mib) => (
                why.map_or_else(|| "nothing".to_owned(), |why| format!("nothing: {why}")),
                match mib {
                    0 => "no memory for DMA".to_owned(),
                    mib => format!("up to {mib} MiB of memory"),
                },
            ),
        };
        format!(
            "{name} ({}), driver {driver}, register map {map}, contained by {by}, {memory}",
            self.ids()
        )
    }

    /// Returns whether it is a bridge, which the machine itself needs.
    #[must_use]
    pub fn is_bridge(&self) -> bool {
        self.pci.class.is_some_and(|c| c >> 16 == 0x06)
    }
}

/// Returns the group of a function that an IOMMU can isolate, or the reason why there is none: `None` if there is no
/// IOMMU, else a message for the user.
pub(super) fn find_iommu_group<'f>(host: &Host, function: &'f Function) -> Result<&'f Group, Option<String>> {
    let group = function.group.as_ref().ok_or(None)?;
    if let Some(other) = group.held_by() {
        let driver = other.driver.as_deref().unwrap_or_default();
        return Err(Some(format!(
            "the IOMMU cannot isolate it from {}, which the driver `{driver}` uses (group {})",
            other.name, group.number
        )));
    }
    if !host.has(format!("sys/bus/pci/drivers/{VFIO}")) {
        return Err(Some(format!(
            "it is behind an IOMMU, but the kernel's driver for that is not loaded (modprobe {VFIO})"
        )));
    }
    Ok(group)
}

/// Returns whether the kernel may detect an IOMMU only when a driver binds to the function, as on device-tree machines.
/// If VFIO may take functions without an IOMMU, this is not tried.
pub(super) fn may_be_hidden(host: &Host) -> bool {
    // The file exists if the kernel is built with that feature.
    let without = host.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    !host.list("sys/class/iommu").is_empty()
        && host.has(format!("sys/bus/pci/drivers/{VFIO}"))
        && !without.is_ok_and(|w| w == "Y")
}

/// Returns the readable functions of this machine, by address.
#[must_use]
pub fn list_functions(host: &Host) -> Vec<Function> {
    let names = host.list("sys/bus/pci/devices");
    let mut all: Vec<Function> = names
        .iter()
        .filter_map(|n| Function::read(host, Address::parse(n)?).ok())
        .collect();
    all.sort_by_key(|f| f.address);
    all
}
