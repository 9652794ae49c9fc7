//! An opened function: through VFIO if an IOMMU contains it, else through the kernel's files.

use super::config::{Config, command};
use super::driver;
use super::error::PciError;
use super::function::{Function, UIO, VFIO, find_iommu_group, may_be_hidden};
use super::interrupts::Interrupts;
use super::name::Address;
use super::region_access::{RegionAccess, RegionSource, windows};
use crate::device::guard::{DriverState, Guard};
use crate::device::host::Host;
use crate::device::memory::{self, Memory};
use crate::device::vfio::{Group, Vfio};
use crate::device::{Containment, Window};
use std::sync::Arc;
use trace_core::recording::Hardware;
use trace_core::registers::RegisterMap;

/// One past the highest address for functions with unknown limits, if their memory may be anywhere.
const LOW: u64 = 1 << 32;
/// Vendor of virtio devices.
const VIRTIO_VENDOR: u16 = 0x1af4;
/// Vendor-specific capability, and its virtio type: the common configuration.
const VENDOR_SPECIFIC: u8 = 0x09;
const VIRTIO_COMMON: u8 = 1;
/// Registers of the common configuration: the feature word selector, and the selected word.
const VIRTIO_FEATURE_SELECT: u64 = 0;
const VIRTIO_FEATURES: u64 = 4;
/// `VIRTIO_F_ACCESS_PLATFORM` is feature 33.
const VIRTIO_SECOND_WORD: u64 = 1;
const ACCESS_PLATFORM: u64 = 1 << 1;

/// The options for opening functions.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a function may be unbound from a driver.
    pub take: bool,
    /// Maximum size of memory for plans, bytes.
    pub memory: u64,
    /// Number of devices, this one included, that share the machine's free memory.
    pub among: u64,
    /// Number of address bits of the function, if the user overrides the register map.
    pub address_bits: Option<u8>,
    /// The guard that quiesces the function when this process ends.
    pub guard: Option<Guard>,
}

impl Options {
    /// Returns one past the highest address that a function can access, or `None` if unknown.
    pub(super) fn limit(&self, map: Option<&RegisterMap>) -> Option<u64> {
        let bits = self.address_bits.or_else(|| map?.address_bits())?;
        1u64.checked_shl(bits.into())
    }
}

/// An opened function with everything needed to operate it.
pub(super) struct OpenFunction {
    /// Read after its windows got addresses.
    pub function: Function,
    pub config: Config,
    pub interrupts: Interrupts,
    pub windows: Vec<Window>,
    /// By space number in plans.
    pub ways: Vec<Option<RegionAccess>>,
    pub memory: Memory,
    pub containment: Containment,
    /// The VFIO device, if VFIO is used.
    pub vfio: Option<Arc<Vfio>>,
    /// How it is accessed, for the user.
    pub description: String,
}

/// Changes to the driver binding of a function. The guard is informed before each change, so that every change is
/// undone in any case.
struct Claim<'a> {
    host: &'a Host,
    address: Address,
    guard: Option<&'a Guard>,
    taken: DriverState,
}

impl Claim<'_> {
    fn watch_with_guard(&self) -> Result<(), PciError> {
        let result = self.guard.map(|g| g.watch_function(self.address, &self.taken));
        result.unwrap_or(Ok(())).map_err(PciError::Guard)
    }

    /// Unbinds the function from its driver.
    fn take(&mut self, from: String) -> Result<(), PciError> {
        self.taken.from = Some(from.clone());
        self.watch_with_guard()?;
        driver::unbind(self.host, self.address, &from)
    }

    /// Binds it to a driver for programs. Returns `false` if the kernel does not have that driver.
    fn bind(&mut self, to: &str) -> Result<bool, PciError> {
        self.taken.bound = Some(to.to_owned());
        self.watch_with_guard()?;
        let bound = driver::bind(self.host, self.address, to);
        if !matches!(bound, Ok(true)) {
            self.taken.bound = None;
        }
        bound
    }

    fn enable(&mut self) -> Result<(), PciError> {
        let failed = |source| PciError::Host {
            address: self.address,
            source,
        };
        let file = format!("{}/enable", self.address.folder());
        if self.host.number(&file).map_err(failed)? == 0 {
            self.taken.enabled = true;
            self.watch_with_guard()?;
            self.host.write(&file, "1").map_err(failed)?;
        }
        Ok(())
    }
}

/// The reason why a function is not accessed through VFIO.
enum NoVfioReason {
    /// There is no IOMMU.
    NoIommu,
    /// Another reason, for the user.
    Because(String),
}

impl From<PciError> for NoVfioReason {
    fn from(e: PciError) -> Self {
        Self::Because(e.to_string())
    }
}

impl OpenFunction {
    /// Takes a function, and opens it in the best available way.
    pub fn open(host: &Host, found: &Function, options: &Options) -> Result<Self, PciError> {
        let hardware = Hardware::Pci(found.pci.clone());
        let map = RegisterMap::for_hardware(&hardware);
        let mut claim = Claim {
            host,
            address: found.address,
            guard: options.guard.as_ref(),
            taken: DriverState::default(),
        };
        if let Some(from) = driver::may_take(found, options.take)? {
            claim.take(from)?;
        }
        let limit = options.limit(map);
        match Self::by_vfio(&mut claim, found, map, options, limit) {
            Ok(opened) => Ok(opened),
            Err(not) => Self::by_files(&mut claim, found, map, options, limit, &not),
        }
    }

    fn by_vfio(
        claim: &mut Claim<'_>,
        found: &Function,
        map: Option<&RegisterMap>,
        options: &Options,
        limit: Option<u64>,
    ) -> Result<Self, NoVfioReason> {
        let (host, address) = (claim.host, found.address);
        let mut found = found.clone();
        let for_programs = |d: &str| [UIO, VFIO].contains(&d);
        let mut ours = false;
        if found.group.is_none() && may_be_hidden(host) && !found.driver.as_deref().is_some_and(for_programs) {
            let odd =
                |e| NoVfioReason::Because(format!("VFIO reports that it is not behind this machine's IOMMU ({e})"));
            ours = claim.bind(VFIO).map_err(odd)?;
            found.group = Function::read(host, address)?.group;
        }
        let opened = Self::of_contained(claim, &found, &mut ours, map, options, limit);
        if opened.is_err() && ours {
            claim.taken.bound = None;
            driver::unbind(host, address, VFIO)?;
        }
        opened
    }

    /// Opens a function that VFIO may take. Sets `ours` if it was bound to the VFIO driver here.
    fn of_contained(
        claim: &mut Claim<'_>,
        found: &Function,
        ours: &mut bool,
        map: Option<&RegisterMap>,
        options: &Options,
        limit: Option<u64>,
    ) -> Result<Self, NoVfioReason> {
        let host = claim.host;
        let group =
            find_iommu_group(host, found).map_err(|why| why.map_or(NoVfioReason::NoIommu, NoVfioReason::Because))?;
        if found.driver.as_deref() == Some(UIO) {
            return Err(NoVfioReason::Because(format!(
                "it is behind an IOMMU, but it is bound to {UIO} and not to {VFIO}"
            )));
        }
        if !*ours && found.driver.as_deref() != Some(VFIO) {
            *ours = claim.bind(VFIO)?;
        }
        Self::of_group(host, found, group, map, options, limit)
    }

    /// Opens a function that is bound to the VFIO driver.
    fn of_group(
        host: &Host,
        found: &Function,
        group: &Group,
        map: Option<&RegisterMap>,
        options: &Options,
        limit: Option<u64>,
    ) -> Result<Self, NoVfioReason> {
        let address = found.address;
        let failed = |source| PciError::Vfio { address, source };
        let vfio = Vfio::open(host, group.number, &address.to_string()).map_err(failed)?;
        let lost = |source| PciError::Config {
            address,
            offset: 0,
            source,
        };
        let region = vfio.config().map_err(failed)?;
        let config = Config::new(address, vfio.file().map_err(lost)?, region.at);
        // The function has addresses after the kernel enabled it.
        let function = Function::read(host, address)?;
        Self::settle(&config, &function)?;
        let (windows, ways) = windows(RegionSource::Vfio(&vfio), &function, map)?;
        if can_bypass_iommu(&function, &config, &windows, &ways)? {
            return Err(NoVfioReason::Because(
                "it is behind an IOMMU but bypasses it: it is a virtio device that does not offer \
                 VIRTIO_F_ACCESS_PLATFORM"
                    .to_owned(),
            ));
        }
        let free = memory::available(host) / 2 / options.among.max(1);
        let (memory, message) = match vfio.memory(options.memory.min(free), limit.unwrap_or(LOW)) {
            Ok((reached, mapping)) => Memory::from_dma_mapping(reached, mapping).with_description(),
            Err(why) => (Memory::none(), format!("no memory for DMA: {why}")),
        };
        let vfio = Arc::new(vfio);
        let interrupts = Interrupts::from_vfio(&vfio).map_err(failed)?;
        Ok(Self {
            description: format!(
                "contained by an IOMMU (group {}); {}; {message}",
                group.number,
                interrupts.describe()
            ),
            function,
            config,
            interrupts,
            windows,
            ways,
            memory,
            containment: Containment::Iommu,
            vfio: Some(vfio),
        })
    }

    fn by_files(
        claim: &mut Claim<'_>,
        found: &Function,
        map: Option<&RegisterMap>,
        options: &Options,
        limit: Option<u64>,
        not: &NoVfioReason,
    ) -> Result<Self, PciError> {
        let (host, address) = (claim.host, found.address);
        if let (Some(VFIO), NoVfioReason::Because(why)) = (found.driver.as_deref(), not) {
            let why = why.clone();
            return Err(PciError::Bound { address, why });
        }
        if found.driver.is_none() || claim.taken.from.is_some() {
            // Without the driver, or if the function has no interrupt, the status register is polled.
            let _ = claim.bind(UIO);
        }
        claim.enable()?;
        claim.watch_with_guard()?;
        let folder = address.folder();
        let file = host.open(format!("{folder}/config"), true);
        let file = file.map_err(|source| PciError::Host { address, source })?;
        let config = Config::new(address, file, 0);
        config.check_present()?;
        config.quiet()?;
        // The function has addresses after the kernel enabled it.
        let function = Function::read(host, address)?;
        Self::settle(&config, &function)?;
        let (windows, ways) = windows(RegionSource::Files(host), &function, map)?;
        // A translation that the kernel set up for its own drivers maps no memory of this program.
        let translated = function.group.as_ref().is_some_and(|g| !g.is_identity());
        let kept = translated && !can_bypass_iommu(&function, &config, &windows, &ways)?;
        let memory = match kept {
            true => Err("the IOMMU blocks all memory that VFIO does not map for the function".to_owned()),
            false => Memory::from_huge_pages(host, options.memory, options.among, limit),
        };
        let (memory, message) = match memory {
            Ok(memory) => memory.with_description(),
            Err(why) => (Memory::none(), format!("no memory for DMA: {why}")),
        };
        let interrupts = Interrupts::open(host, address)?;
        let why = match not {
            // The kernel may have detected an IOMMU meanwhile.
            NoVfioReason::NoIommu => find_iommu_group(host, &function).err().flatten(),
            NoVfioReason::Because(why) => Some(why.clone()),
        };
        let why = why.map_or_else(String::new, |why| format!("contained by nothing: {why}; "));
        Ok(Self {
            description: format!("{why}{}; {message}", interrupts.describe()),
            function,
            config,
            interrupts,
            windows,
            ways,
            memory,
            containment: Containment::None,
            vfio: None,
        })
    }

    /// Quiesces a function, and enables decoding of its windows.
    fn settle(config: &Config, function: &Function) -> Result<(), PciError> {
        config.check_present()?;
        config.quiet()?;
        config.command(decode_bits(function), 0)
    }
}

/// Returns whether a function accesses memory past its IOMMU.
///
/// Virtio 1.2, section 6.1 and 4.1.4: a device that does not offer `VIRTIO_F_ACCESS_PLATFORM` uses physical addresses,
/// even behind an IOMMU. Emulated machines have such devices. A virtio device without features at the specified
/// location is assumed to be one.
fn can_bypass_iommu(
    function: &Function,
    config: &Config,
    windows: &[Window],
    ways: &[Option<RegionAccess>],
) -> Result<bool, PciError> {
    if function.pci.vendor != VIRTIO_VENDOR {
        return Ok(false);
    }
    for at in config.capabilities(VENDOR_SPECIFIC)? {
        let Some([_, _, _, kind, bar, _, _, _, a, b, c, d]) = config.bytes::<12>(at)? else {
            continue;
        };
        if kind != VIRTIO_COMMON {
            continue;
        }
        let name = format!("bar{bar}");
        let number = windows.iter().find(|w| w.name == name).map(|w| usize::from(w.number));
        let Some(Some(RegionAccess::Memory(window))) = number.and_then(|n| ways.get(n)) else {
            continue;
        };
        let base = u64::from(u32::from_le_bytes([a, b, c, d]));
        let features = window
            .write(base + VIRTIO_FEATURE_SELECT, 4, VIRTIO_SECOND_WORD)
            .and_then(|()| window.read(base + VIRTIO_FEATURES, 4));
        // The value after a reset.
        let _ = window.write(base + VIRTIO_FEATURE_SELECT, 4, 0);
        return Ok(features.is_none_or(|f| f & ACCESS_PLATFORM == 0));
    }
    Ok(true)
}

/// Returns the command register bits that enable decoding of the existing windows.
pub(super) fn decode_bits(function: &Function) -> u16 {
    let has = |ports: bool| function.pci.bars.iter().any(|b| b.ports == ports);
    let ports = if has(true) { command::PORTS } else { 0 };
    let memory = if has(false) { command::MEMORY } else { 0 };
    ports | memory
}
