//! A function in this program's hands: through VFIO where an IOMMU contains it, else through the kernel's files of it.

use super::board::Options;
use super::config::{Config, command};
use super::driver::{self, UIO, VFIO};
use super::error::PciError;
use super::function::Function;
use super::interrupts::Interrupts;
use super::name::Address;
use super::region_access::{RegionAccess, RegionSource, windows};
use super::virtio;
use crate::device::guard::{DriverState, Guard};
use crate::device::host::Host;
use crate::device::memory::{self, Memory};
use crate::device::vfio::{Group, Vfio};
use crate::device::{Containment, Window};
use std::sync::Arc;
use trace_core::recording::Hardware;
use trace_core::registers::RegisterMap;

/// One past the highest address of functions that nothing is known of, where their memory may lie anywhere.
const LOW: u64 = 1 << 32;

/// A function with all that driving it takes.
pub(super) struct OpenFunction {
    /// It has addresses now.
    pub function: Function,
    pub config: Config,
    pub interrupts: Interrupts,
    pub windows: Vec<Window>,
    /// By their numbers in plans.
    pub ways: Vec<Option<RegionAccess>>,
    pub memory: Memory,
    pub containment: Containment,
    /// The function as VFIO gives it, where it does.
    pub vfio: Option<Arc<Vfio>>,
    /// How it is had, in words for a person.
    pub description: String,
}

/// What was changed about who has a function. The guard knows before anything is changed, so that nothing is left behind
/// whatever happens.
struct Claim<'a> {
    host: &'a Host,
    address: Address,
    guard: Option<&'a Guard>,
    taken: DriverState,
}

impl Claim<'_> {
    fn tell(&self) -> Result<(), PciError> {
        let result = self.guard.map(|g| g.watch_function(self.address, &self.taken));
        result.unwrap_or(Ok(())).map_err(PciError::Guard)
    }

    /// Takes it from its driver.
    fn take(&mut self, from: String) -> Result<(), PciError> {
        self.taken.from = Some(from.clone());
        self.tell()?;
        driver::unbind(self.host, self.address, &from)
    }

    /// Gives it to a driver for programs; `false` where the kernel does not have that one.
    fn bind(&mut self, to: &str) -> Result<bool, PciError> {
        self.taken.bound = Some(to.to_owned());
        self.tell()?;
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
            self.tell()?;
            self.host.write(&file, "1").map_err(failed)?;
        }
        Ok(())
    }
}

/// Why a function is not driven through VFIO.
enum NoVfioReason {
    /// No IOMMU stands in front of it.
    NoIommu,
    /// In words for a person.
    Because(String),
}

impl From<PciError> for NoVfioReason {
    fn from(e: PciError) -> Self {
        Self::Because(e.to_string())
    }
}

/// The group of a function whose IOMMU can keep it apart from everything else, or why there is none: `None` where no
/// IOMMU stands in front of it, else in words for a person.
pub(super) fn find_iommu_group<'f>(host: &Host, function: &'f Function) -> Result<&'f Group, Option<String>> {
    let group = function.group.as_ref().ok_or(None)?;
    if let Some(other) = group.held_by() {
        let driver = other.driver.as_deref().unwrap_or_default();
        return Err(Some(format!(
            "the IOMMU cannot keep it apart from {}, which the driver `{driver}` has (group {})",
            other.name, group.number
        )));
    }
    if !host.has(format!("sys/bus/pci/drivers/{VFIO}")) {
        return Err(Some(format!(
            "an IOMMU is in front of it, but this kernel's driver for it is not there (modprobe {VFIO})"
        )));
    }
    Ok(group)
}

/// Whether the kernel may find an IOMMU in front of a function only when a driver takes it, as it does where firmware
/// describes the machine by a device tree. Where VFIO is let take functions without one, it is not tried.
pub(super) fn may_be_hidden(host: &Host) -> bool {
    // The file is there where the kernel is built for that.
    let without = host.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    !host.list("sys/class/iommu").is_empty()
        && host.has(format!("sys/bus/pci/drivers/{VFIO}"))
        && !without.is_ok_and(|w| w == "Y")
}

impl OpenFunction {
    /// Takes a function, and opens it the best way there is.
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
            let odd = |e| {
                NoVfioReason::Because(format!(
                    "this machine's IOMMU is not in front of it, as VFIO has it ({e})"
                ))
            };
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

    /// Opens a function that VFIO may take; tells in `ours` whether it was bound to VFIO's driver here.
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
                "an IOMMU is in front of it, but it is bound to {UIO} and not to {VFIO}"
            )));
        }
        if !*ours && found.driver.as_deref() != Some(VFIO) {
            *ours = claim.bind(VFIO)?;
        }
        Self::of_group(host, found, group, map, options, limit)
    }

    /// Opens a function that is bound to VFIO's driver.
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
        // Enabled by the kernel, a function has addresses.
        let function = Function::read(host, address)?;
        Self::settle(&config, &function)?;
        let (windows, ways) = windows(RegionSource::Vfio(&vfio), &function, map)?;
        if virtio::can_bypass_iommu(&function, &config, &windows, &ways)? {
            return Err(NoVfioReason::Because(
                "an IOMMU is in front of it, but it goes round it: a virtio device that does not offer \
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
            // Without the driver, or with a function that has no interrupt, its status tells of interrupts.
            let _ = claim.bind(UIO);
        }
        claim.enable()?;
        claim.tell()?;
        let folder = address.folder();
        let file = host.open(format!("{folder}/config"), true);
        let file = file.map_err(|source| PciError::Host { address, source })?;
        let config = Config::new(address, file, 0);
        config.check_present()?;
        config.quiet()?;
        // Enabled by the kernel, a function has addresses.
        let function = Function::read(host, address)?;
        Self::settle(&config, &function)?;
        let (windows, ways) = windows(RegionSource::Files(host), &function, map)?;
        // What the kernel set up for its own drivers maps nothing of this program's.
        let translated = function.group.as_ref().is_some_and(|g| !g.is_identity());
        let kept = translated && !virtio::can_bypass_iommu(&function, &config, &windows, &ways)?;
        let memory = match kept {
            true => Err("the IOMMU keeps the function from memory that only VFIO could let it reach".to_owned()),
            false => Memory::from_huge_pages(host, options.memory, options.among, limit),
        };
        let (memory, message) = match memory {
            Ok(memory) => memory.with_description(),
            Err(why) => (Memory::none(), format!("no memory for DMA: {why}")),
        };
        let interrupts = Interrupts::open(host, address)?;
        let why = match not {
            // The kernel may have found one meanwhile.
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

    /// Makes a function quiet, and has it answer in its windows.
    fn settle(config: &Config, function: &Function) -> Result<(), PciError> {
        config.check_present()?;
        config.quiet()?;
        config.command(decode_bits(function), 0)
    }
}

/// Bits of the command register that make a function answer in the windows that it has.
pub(super) fn decode_bits(function: &Function) -> u16 {
    let has = |ports: bool| function.pci.bars.iter().any(|b| b.ports == ports);
    let ports = if has(true) { command::PORTS } else { 0 };
    let memory = if has(false) { command::MEMORY } else { 0 };
    ports | memory
}
