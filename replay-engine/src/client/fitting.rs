//! Selection of the targets that fit a recording, by target names and device descriptions.
//!
//! A recording of a PCI device fits a device with the same ids: QEMU's models of it ([`QEMU_MODELS`]), and devices of
//! agents. A GPU recording with a GPU id fits the simulators of that GPU, and those of other models of its group, for which
//! the plan is rewritten. An API trace fits CUDA devices, and the channels
//! of NVIDIA GPUs, which a driver trace fits too.

use super::error::ClientError;
use super::targets::{Availability, Factories, ReplayTarget, TargetName, parse};
use crate::device::qemu::{self, QemuModel};
use crate::device::{DeviceInfo, DeviceInterface};
use trace_core::families::{ModelMismatch, check_models};
use trace_core::recording::{Api, Hardware, Recording};
use trace_core::registers::{RegisterMap, gpu_name, recorded_name};

/// A target that fits a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittingTarget {
    /// The name for `--on`.
    pub name: String,
    /// Why it cannot be used now, in a few words (`QEMU not installed`), or `None` if no obstacle is known.
    pub missing: Option<String>,
    /// Whether it is another model than the recorded one, for which the plan is rewritten.
    pub is_other_model: bool,
}

/// Whether a target fits a recording, as far as its name or its own description shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The target is the recorded device, or a simulator of it.
    Fits,
    /// The target is another model of the recorded GPU's group: a plan is rewritten for it, if the recording allows that.
    FitsRewritten,
    /// The target is another device: it would refuse a plan of the recording.
    Unfit,
    /// Unknown: the target was not queried yet, or the recording does not name its device.
    Unknown,
}

impl Fit {
    /// Returns whether a recording is known to replay on the target.
    #[must_use]
    pub fn is_known_to_fit(self) -> bool {
        matches!(self, Self::Fits | Self::FitsRewritten)
    }
}

/// The properties of a recording that decide which targets fit it. The value is small, so it can be checked at every
/// frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedDevice {
    /// The API of an API trace; `None` for a register trace.
    pub api: Option<Api>,
    /// Whether the recording has submissions to the channels of an NVIDIA GPU.
    pub has_submissions: bool,
    /// Raw GPU id register; 0 when unknown.
    pub gpu_id: u32,
    /// Name of the recorded GPU, or an empty string if the recording does not name it.
    pub gpu_name: String,
    /// The recorded device on its bus, if the recording names it.
    pub hardware: Option<Hardware>,
    /// Common name: `ATI Radeon 7000 (RV100 QY)`. Empty if unknown.
    pub name: String,
}

impl RecordedDevice {
    /// Returns the device that was recorded.
    #[must_use]
    pub fn new(recording: &Recording) -> Self {
        let identity = &recording.metadata.identity;
        Self {
            api: recording.api().map(|trace| trace.api.clone()),
            has_submissions: recording.driver_trace().is_some() && !recording.events.ring_entries.is_empty(),
            gpu_id: identity.gpu_id,
            gpu_name: identity.gpu_name.clone(),
            // A log that does not name its device has ids of zero.
            hardware: recording.hardware().filter(|h| h.is_named()).cloned(),
            name: recorded_name(recording),
        }
    }

    /// Returns whether the channels of an NVIDIA GPU can take it: recorded submissions, or calls of CUDA that become
    /// submissions.
    #[must_use]
    pub fn fits_channels(&self) -> bool {
        self.has_submissions || self.api == Some(Api::Cuda)
    }

    /// Returns the device in words: `1002:5159, ATI Radeon 7000 (RV100 QY)`, `Mali-G71`; `an unknown device` if the
    /// recording does not name it.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.api {
            Some(Api::Cuda) => return "CUDA calls".to_owned(),
            Some(Api::Wasm) => return "a run of a WebAssembly program".to_owned(),
            Some(api) => return format!("calls of '{}'", api.name()),
            None if self.has_submissions => return "submissions to channels".to_owned(),
            None => {}
        }
        match &self.hardware {
            Some(hardware) if self.name.is_empty() || self.name == hardware.id() => hardware.id(),
            Some(hardware) => format!("{}, {}", hardware.id(), self.name),
            None if self.name.is_empty() => "an unknown device".to_owned(),
            None => self.name.clone(),
        }
    }
}

/// Returns which targets would fit, as the end of a sentence: `qemu:edu would fit`. A target that cannot be used here
/// is named only if no other fits, with the reason. Other models are named only if no target is the recorded device.
#[must_use]
pub fn fitting_hint(targets: &[FittingTarget]) -> String {
    let of_kind = |is_other_model: bool| {
        let usable = targets
            .iter()
            .filter(move |t| t.missing.is_none() && t.is_other_model == is_other_model);
        usable.map(|t| t.name.as_str()).collect::<Vec<_>>()
    };
    let usable = Some(of_kind(false))
        .filter(|u| !u.is_empty())
        .unwrap_or_else(|| of_kind(true));
    match (usable.as_slice(), targets.first()) {
        ([], None) => "no target of this program would fit".to_owned(),
        ([], Some(t)) => {
            let why = match t.name.starts_with("qemu:") {
                true => format!("QEMU is not installed here (package {})", qemu::PACKAGE),
                false => format!("there is {}", t.missing.as_deref().unwrap_or("none")),
            };
            format!("{} would fit, but {why}", t.name)
        }
        (names, _) => format!("{} would fit", names.join(" or ")),
    }
}

impl Factories {
    /// Returns what this machine lacks for a target, in a few words, or `None`. The check only looks for files and is
    /// fast. It queries no agent.
    #[must_use]
    pub fn missing(&self, target: &str) -> Option<String> {
        if target.starts_with("qemu:") && !self.has_qemu() {
            return Some("QEMU not installed".to_owned());
        }
        match target.split_once(':') {
            Some(("cuda", _)) => self.missing_cuda(),
            Some(("nvidia", _)) => self.missing_nvidia(),
            _ => None,
        }
    }

    /// Returns the targets that fit a recording, best first: the targets of this program, then those among `known` (the
    /// targets of paired agents) that report the recorded device, then other models that a plan is rewritten for.
    /// Targets that this machine cannot use come last, with the reason.
    #[must_use]
    pub fn fitting_targets(&self, recorded: &RecordedDevice, known: &[ReplayTarget]) -> Vec<FittingTarget> {
        let mut all: Vec<FittingTarget> = Vec::new();
        let mut add = |name: String, missing: Option<String>, fit: Fit| {
            if all.iter().all(|t| t.name != name) {
                let missing = self.missing(&name).or(missing);
                all.push(FittingTarget {
                    name,
                    missing,
                    is_other_model: fit == Fit::FitsRewritten,
                });
            }
        };
        for name in self.names() {
            let fit = self.fit_by_name(recorded, &name);
            if fit.is_known_to_fit() {
                add(name, None, fit);
            }
        }
        // A recording without ids has no QEMU model, whatever its registers are named: a plan needs a device that is
        // known to be the same.
        if let Some(model) = recorded.hardware.as_ref().and_then(QemuModel::for_hardware) {
            add(model.target(), None, Fit::Fits);
        }
        for target in known {
            let Some(info) = &target.info else { continue };
            let fit = determine_fit(recorded, info);
            if fit.is_known_to_fit() {
                let missing = match &target.reach {
                    Availability::Away(why) => Some(why.clone()),
                    Availability::Busy(who) => Some(format!("held by {who}")),
                    Availability::Here | Availability::Free => None,
                };
                add(target.name.clone(), missing, fit);
            }
        }
        if recorded.api == Some(Api::Cuda) {
            add("cuda:0".to_owned(), None, Fit::Fits);
        }
        if recorded.has_submissions {
            add("nvidia:0".to_owned(), None, Fit::Fits);
        }
        all.sort_by_key(|t| (t.missing.is_some(), t.is_other_model));
        all
    }

    /// Returns whether the target of this name fits a recording. No device is created or queried, so it may be called
    /// at every frame. For an agent's device the answer is [`Fit::Unknown`].
    #[must_use]
    pub fn fit_by_name(&self, recorded: &RecordedDevice, target: &str) -> Fit {
        let yes = |fits: bool| if fits { Fit::Fits } else { Fit::Unfit };
        if recorded.api == Some(Api::Wasm) {
            // Its program runs again without a plan, and no target of plans takes it.
            return Fit::Unfit;
        }
        match parse(target) {
            Ok(TargetName::Cuda(_)) => yes(recorded.api == Some(Api::Cuda)),
            Ok(TargetName::Nvidia(_)) => yes(recorded.fits_channels()),
            Ok(TargetName::Software(_) | TargetName::Qemu(_)) if recorded.fits_channels() => Fit::Unfit,
            Ok(TargetName::Software(model)) => match self.find_gpu_id(&model) {
                Some(gpu) => fit_of_gpu(recorded, gpu, RegisterMap::for_gpu(gpu)),
                None => Fit::Unknown,
            },
            Ok(TargetName::Qemu(name)) => match (QemuModel::for_argument(name.text()), &recorded.hardware) {
                (Some(model), Some(hardware)) => yes(model.matches(hardware)),
                (_, None) if recorded.gpu_id != 0 => Fit::Unfit,
                _ => Fit::Unknown,
            },
            Ok(TargetName::Paired { .. } | TargetName::Tcp { .. } | TargetName::Unix { .. }) | Err(_) => Fit::Unknown,
        }
    }

    /// Returns a description of a target from its name alone: `Mali-G71`, `1234:11e8`, or the name itself.
    #[must_use]
    pub fn describe_by_name(&self, target: &str) -> String {
        match parse(target) {
            Ok(TargetName::Software(model)) => match self.find_gpu_id(&model).and_then(gpu_name) {
                Some(gpu) => format!("{target}, {gpu}"),
                None => target.to_owned(),
            },
            Ok(TargetName::Qemu(name)) => match QemuModel::for_argument(name.text()) {
                Some(m) => format!("{target}, {:04x}:{:04x}", m.vendor, m.device),
                None => target.to_owned(),
            },
            _ => target.to_owned(),
        }
    }

    /// Checks that the recorded device and a target's device match. `target` is the target's name for messages.
    /// Properties that the recording does not hold are not checked.
    ///
    /// # Errors
    /// [`ClientError::OtherGpu`] or [`ClientError::OtherDevice`], with the targets that would fit.
    pub fn check_fit(&self, recording: &Recording, target: &str, device: &DeviceInfo) -> Result<(), ClientError> {
        let recorded = RecordedDevice::new(recording);
        // The plan compiler reports an API trace on a register device, and the reverse.
        let by_registers = device.interface == DeviceInterface::Registers && !recorded.fits_channels();
        if !by_registers || determine_fit(&recorded, device) != Fit::Unfit {
            return Ok(());
        }
        let fits = fitting_hint(&self.fitting_targets(&recorded, &[]));
        let describe_gpu = |id: u32, name: &str| format!("a {} ({id:#010x})", gpu_name(id).unwrap_or(name));
        let target = target.to_owned();
        let mismatch = check_model(&recorded, device).map(|fits| match fits {
            Ok(()) => ", and a plan is rewritten for another model only on simulators".to_owned(),
            Err(mismatch) => format!(", and {mismatch}"),
        });
        Err(if recorded.gpu_id == 0 || recorded.hardware.is_some() {
            ClientError::OtherDevice {
                recorded: recorded.describe(),
                device: match &device.hardware {
                    Some(other) => other.id(),
                    None => device.gpu_name.clone(),
                },
                target,
                fits,
            }
        } else {
            ClientError::OtherGpu {
                recorded: describe_gpu(recorded.gpu_id, &recorded.gpu_name),
                target,
                device: match &device.hardware {
                    Some(hardware) => format!("the device {} ({})", hardware.id(), device.gpu_name),
                    None => describe_gpu(device.gpu_id, &device.gpu_name),
                },
                mismatch: mismatch.unwrap_or_default(),
                fits,
            }
        })
    }
}

/// Returns whether a device with this description fits a recording.
#[must_use]
pub fn determine_fit(recorded: &RecordedDevice, device: &DeviceInfo) -> Fit {
    match (device.interface, &recorded.api) {
        // The only devices that run API traces are those of CUDA.
        (DeviceInterface::Api, Some(Api::Cuda)) => return Fit::Fits,
        (DeviceInterface::Channel, _) if recorded.fits_channels() => return Fit::Fits,
        (DeviceInterface::Registers, None) if !recorded.has_submissions => {}
        _ => return Fit::Unfit,
    }
    match (&device.hardware, &recorded.hardware) {
        (Some(is), Some(was)) if is.is_same_device(was) => Fit::Fits,
        (Some(_), Some(_)) => Fit::Unfit,
        (Some(_), None) if recorded.gpu_id != 0 => Fit::Unfit,
        (Some(_), None) => Fit::Unknown,
        // The registers of real hardware are not known, so that no plan is rewritten for it.
        (None, _) => match fit_of_gpu(recorded, device.gpu_id, RegisterMap::by_name(&device.register_map)) {
            Fit::FitsRewritten if !device.virtual_time => Fit::Unfit,
            fit => fit,
        },
    }
}

/// Checks whether a recording compiles for the model of a device. `None`: their register maps differ, or the recording
/// compiles only for its own model.
fn check_model(recorded: &RecordedDevice, device: &DeviceInfo) -> Option<Result<(), ModelMismatch>> {
    let map = RegisterMap::for_gpu(recorded.gpu_id).filter(|m| m.name() == device.register_map)?;
    check_models(map, recorded.gpu_id, device.gpu_id)
}

/// Returns whether a simulator of this GPU fits. Revisions of one product are treated as equal.
fn fit_of_gpu(recorded: &RecordedDevice, gpu: u32, map: Option<&RegisterMap>) -> Fit {
    // `Mali` of `Mali-G71`, `Adreno` of `Adreno 630`.
    let line = |name: &str| {
        let end = name.find(['-', ' ']).unwrap_or(name.len());
        name.get(..end).unwrap_or(name).to_ascii_lowercase()
    };
    let simulated = gpu_name(gpu).unwrap_or_default();
    match (recorded.gpu_id, map) {
        // A bus recording is replayed through the BARs of a bus device. Simulators have none.
        _ if recorded.hardware.is_some() => Fit::Unfit,
        // Nor does a GPU of another product line fit, if the recording has no GPU id.
        (0, _) if !recorded.gpu_name.is_empty() && line(&recorded.gpu_name) != line(simulated) => Fit::Unfit,
        (0, _) | (_, None) => Fit::Unknown,
        (id, Some(map)) if map.gpu_name(id).is_some() && map.is_same_product(id, gpu) => Fit::Fits,
        (id, Some(map)) if map.is_same_product(id, gpu) => Fit::Unknown,
        (id, Some(map)) if check_models(map, id, gpu) == Some(Ok(())) => Fit::FitsRewritten,
        _ => Fit::Unfit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::PciFunction;

    fn of_pci(vendor: u16, device: u16) -> RecordedDevice {
        let mut recording = Recording::default();
        recording.set_hardware(&Hardware::Pci(PciFunction {
            vendor,
            device,
            ..PciFunction::default()
        }));
        RecordedDevice::new(&recording)
    }

    #[test]
    fn no_target_of_plans_takes_a_webassembly_run() {
        let here = Factories::new();
        let recorded = RecordedDevice {
            api: Some(Api::Wasm),
            ..RecordedDevice::new(&Recording::default())
        };
        assert!(here.fitting_targets(&recorded, &[]).is_empty());
        for name in ["software:mali-g71", "qemu:edu", "cuda:0", "nvidia:0", "agent:lab/cuda0"] {
            assert_eq!(here.fit_by_name(&recorded, name), Fit::Unfit, "{name}");
        }
    }

    #[test]
    fn pci_recording_is_offered_only_its_qemu_model() {
        let here = Factories::new();
        for (vendor, device, name) in [
            (0x1002, 0x5159, "qemu:ati-vga,model=rv100"),
            (0x1002, 0x5046, "qemu:ati-vga,model=rage128p"),
            (0x1234, 0x1111, "qemu:bochs-display"),
            (0x1234, 0x11e8, "qemu:edu"),
            (0x1af4, 0x1050, "qemu:virtio-gpu-pci,vectors=0"),
        ] {
            let recording = of_pci(vendor, device);
            let offered = here.fitting_targets(&recording, &[]);
            assert_eq!(offered.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), [name]);
            assert_eq!(here.fit_by_name(&recording, name), Fit::Fits);
            let other = if name == "qemu:edu" {
                "qemu:bochs-display"
            } else {
                "qemu:edu"
            };
            assert_eq!(here.fit_by_name(&recording, other), Fit::Unfit);
            assert_eq!(here.fit_by_name(&recording, "cuda:0"), Fit::Unfit);
            // If neither the name nor the table decides, the target decides.
            assert_eq!(here.fit_by_name(&recording, "agent:lab/x"), Fit::Unknown);
            assert_eq!(here.fit_by_name(&recording, "qemu:igb"), Fit::Unknown);
        }
        assert!(here.fitting_targets(&of_pci(0x8086, 0x10c9), &[]).is_empty());
    }

    #[test]
    fn simulator_fits_only_the_recorded_gpu() {
        let gpu_factory = || -> crate::device::RegisterFactory {
            std::sync::Arc::new(|| Err(crate::device::ReplayDeviceError::Failed("no".into())))
        };
        let here = Factories::new().with_gpu("mali-g71", 0x6000_0000, gpu_factory());
        let fits = |id: u32, name: &str| {
            let recording = RecordedDevice {
                gpu_id: id,
                gpu_name: name.to_owned(),
                ..RecordedDevice::default()
            };
            let offered = here.fitting_targets(&recording, &[]);
            let offered: Vec<String> = offered.into_iter().map(|t| t.name).collect();
            (here.fit_by_name(&recording, "software:mali-g71"), offered)
        };
        assert_eq!(
            fits(0x6000_0001, "Mali-G71"),
            (Fit::Fits, vec!["software:mali-g71".to_owned()])
        );
        assert_eq!(fits(0x7212_0000, "Mali-G52"), (Fit::Unfit, Vec::new()));
        assert_eq!(fits(0, "Adreno 630"), (Fit::Unfit, Vec::new()));
        assert_eq!(fits(0, ""), (Fit::Unknown, Vec::new()));
    }

    #[test]
    fn other_models_of_the_group_fit_after_the_recorded_one() {
        let factory = || -> crate::device::RegisterFactory {
            std::sync::Arc::new(|| Err(crate::device::ReplayDeviceError::Failed("no".into())))
        };
        let names = [
            ("mali-g52", 0x7212_0000),
            ("mali-g71", 0x60a0_0002),
            ("mali-g76", 0x7211_0000),
        ];
        let here = names
            .into_iter()
            .fold(Factories::new(), |all, (name, id)| all.with_gpu(name, id, factory()));
        let recording = |id: u32| RecordedDevice {
            gpu_id: id,
            gpu_name: gpu_name(id).unwrap_or_default().to_owned(),
            ..RecordedDevice::default()
        };
        let offered = |id: u32| {
            let targets = here.fitting_targets(&recording(id), &[]);
            let rows = targets.into_iter().map(|t| (t.name, t.is_other_model));
            rows.collect::<Vec<_>>()
        };
        let row = |name: &str, is_other: bool| (name.to_owned(), is_other);
        assert_eq!(
            offered(0x7211_0000),
            [row("software:mali-g76", false), row("software:mali-g52", true)]
        );
        // A G31, of which no simulator is here, and a G72.
        assert_eq!(
            offered(0x7093_0000),
            [row("software:mali-g52", true), row("software:mali-g76", true)]
        );
        assert_eq!(offered(0x6221_0030), [row("software:mali-g71", true)]);
        assert_eq!(
            here.fit_by_name(&recording(0x6221_0030), "software:mali-g52"),
            Fit::Unfit
        );
        // A T860 fits nothing.
        assert_eq!(offered(0x0860_0000), []);
    }

    #[test]
    fn target_hint_names_usable_targets_and_missing_parts() {
        let target = |name: &str, missing: Option<&str>| FittingTarget {
            name: name.to_owned(),
            missing: missing.map(str::to_owned),
            is_other_model: false,
        };
        assert_eq!(fitting_hint(&[]), "no target of this program would fit");
        let lacking = target("qemu:edu", Some("QEMU not installed"));
        let hint = fitting_hint(std::slice::from_ref(&lacking));
        assert_eq!(
            hint,
            "qemu:edu would fit, but QEMU is not installed here (package qemu-system-x86)"
        );
        let both = [target("agent:lab/pci:1234:11e8", None), lacking];
        assert_eq!(fitting_hint(&both), "agent:lab/pci:1234:11e8 would fit");
        let hint = fitting_hint(&[target("cuda:0", Some("no driver here"))]);
        assert_eq!(hint, "cuda:0 would fit, but there is no driver here");
        let other = FittingTarget {
            is_other_model: true,
            ..target("software:mali-g72", None)
        };
        let same = target("software:mali-g71", None);
        assert_eq!(fitting_hint(&[same, other.clone()]), "software:mali-g71 would fit");
        assert_eq!(fitting_hint(&[other]), "software:mali-g72 would fit");
    }
}
