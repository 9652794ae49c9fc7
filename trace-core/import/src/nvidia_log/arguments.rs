//! Arguments of requests, decoded for the branch of the driver that fits, and the names of requests.

use super::records::Ioctl;
use nvidia_channel::rm::{
    Argument, ArgumentError, DeviceFile, DriverBranch, Request, RequestCode, Value, class_name, control_name,
    decode_allocation, decode_argument, decode_control,
};

/// Branches that are tried if the version of the driver is unknown: most logs come from the first.
const GUESSED_BRANCHES: [DriverBranch; 3] = [DriverBranch::R580, DriverBranch::R595, DriverBranch::R570];
/// Offset of the class in the argument of an allocation.
const CLASS_AT: usize = 12;
/// Offset of the command in the argument of a control request.
const COMMAND_AT: usize = 8;

/// A decoder of arguments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArgumentDecoder {
    /// Branch of the driver, if known. Arguments whose size does not fit it are decoded as those of another branch.
    pub branch: Option<DriverBranch>,
}

impl ArgumentDecoder {
    fn decode(self, decode: impl Fn(DriverBranch) -> Result<Argument, ArgumentError>) -> Option<Argument> {
        let branches = self.branch.into_iter().chain(GUESSED_BRANCHES);
        branches.into_iter().find_map(|branch| decode(branch).ok())
    }

    /// Decodes the argument after the call.
    pub fn argument(self, ioctl: &Ioctl<'_>) -> Option<Argument> {
        let file = device_file(ioctl)?;
        let request = u32::try_from(ioctl.request).ok()?;
        self.decode(|branch| decode_argument(branch, file, request, ioctl.after))
    }

    /// Decodes the parameters of an allocation.
    pub fn allocation(self, class: u32, bytes: &[u8]) -> Option<Argument> {
        self.decode(|branch| decode_allocation(branch, class, bytes))
    }

    /// Decodes the parameters of a control command.
    pub fn control(self, command: u32, bytes: &[u8]) -> Option<Argument> {
        self.decode(|branch| decode_control(branch, command, bytes))
    }
}

/// Returns the driver of the file of an ioctl.
fn device_file(ioctl: &Ioctl<'_>) -> Option<DeviceFile> {
    let by_path = DeviceFile::from_path(&format!("/dev/{}", ioctl.file));
    by_path.or(ioctl.is_uvm.then_some(DeviceFile::Uvm))
}

/// Returns the name of a request alone, or `None` if it is unknown.
pub(super) fn request_name(ioctl: &Ioctl<'_>) -> Option<&'static str> {
    let file = device_file(ioctl)?;
    let request = u32::try_from(ioctl.request).ok()?;
    let number = match file {
        DeviceFile::Uvm => request,
        DeviceFile::Rm => u32::from(RequestCode::decode(request)?.number),
    };
    Request::find(file, number).map(|r| r.name)
}

/// Returns the name of a call: that of the request, with the class of an allocation or the command of a control request.
/// `RM_ALLOC NV01_ROOT_CLIENT`, `UVM_FREE`, `ioctl 0xc0204699 of nvidiactl`.
pub(super) fn call_name(ioctl: &Ioctl<'_>) -> String {
    let word = |at: usize| {
        // The driver writes the class of a client that asks for the null class.
        let bytes = ioctl.after.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let Some(name) = request_name(ioctl) else {
        return format!("ioctl {:#x} of {}", ioctl.request, ioctl.file);
    };
    let subject = match name {
        "RM_ALLOC" | "RM_ALLOC_MEMORY" => {
            word(CLASS_AT).map(|c| class_name(c).map_or_else(|| format!("class {c:#06x}"), str::to_owned))
        }
        "RM_CONTROL" => word(COMMAND_AT).map(|c| control_name(c).unwrap_or_else(|| format!("command {c:#010x}"))),
        _ => None,
    };
    match subject {
        Some(subject) => format!("{name} {subject}"),
        None => name.to_owned(),
    }
}

/// Returns a field of 32 bits, 0 if there is none of this name.
pub(super) fn word(argument: &Argument, name: &str) -> u32 {
    argument.number(name).unwrap_or(0) as u32
}

/// Returns the text in a field of bytes, up to the first zero, or `None` if it is empty or not of printable letters.
pub(super) fn text(argument: &Argument, names: &[&str]) -> Option<String> {
    let value = argument.values.iter().find(|v| names.contains(&v.field.name))?;
    let Value::Bytes(bytes) = &value.value else {
        return None;
    };
    let text = bytes.split(|b| *b == 0).next()?;
    let is_printable = !text.is_empty() && text.iter().all(|b| (0x20..0x7f).contains(b));
    is_printable.then(|| String::from_utf8_lossy(text).trim().to_owned())
}
