//! Numbers of ioctls.

use super::table::TABLES;

/// The driver that a device file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceFile {
    /// `/dev/nvidiactl` or `/dev/nvidiaN`: the resource manager.
    Rm,
    /// `/dev/nvidia-uvm`: unified memory.
    Uvm,
}

impl DeviceFile {
    /// Returns the driver of a path, or `None` if it is not one of these files.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix("/dev/nvidia")?;
        match name {
            "ctl" => Some(Self::Rm),
            "-uvm" => Some(Self::Uvm),
            _ => (!name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())).then_some(Self::Rm),
        }
    }
}

/// An ioctl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its number: the command byte of a request to RM, the whole request to UVM.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Names of the structs that the argument may be. The size selects among several.
    pub structures: Vec<&'static str>,
    /// The argument is an array of the struct.
    pub repeated: bool,
}

impl Request {
    /// Returns an ioctl by its number, or `None` if it is unknown.
    #[must_use]
    pub fn find(file: DeviceFile, number: u32) -> Option<&'static Self> {
        let tables = TABLES.as_ref().ok()?;
        match file {
            DeviceFile::Rm => tables.rm.get(&number),
            DeviceFile::Uvm => tables.uvm.get(&number),
        }
    }
}

/// The request word of an ioctl to RM, in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestCode {
    /// The command byte.
    pub number: u8,
    /// Size of the argument in bytes, up to 0x3fff.
    pub bytes: u16,
}

/// Direction and magic byte of every request to RM: `_IOWR('F', ...)`.
const RM_CODE: u32 = 3 << 30 | 0x46 << 8;

impl RequestCode {
    /// Returns the parts of a request word, or `None` for one that is not for RM.
    #[must_use]
    pub fn decode(request: u32) -> Option<Self> {
        (request & 0xc000_ff00 == RM_CODE).then_some(Self {
            number: request as u8,
            bytes: (request >> 16) as u16 & 0x3fff,
        })
    }

    /// Returns the request word, or `None` if the size does not fit.
    #[must_use]
    pub fn encode(self) -> Option<u32> {
        (self.bytes <= 0x3fff).then(|| RM_CODE | u32::from(self.bytes) << 16 | u32::from(self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_words() {
        let control = RequestCode {
            number: 0x2a,
            bytes: 32,
        };
        assert_eq!(RequestCode::decode(0xc020_462a), Some(control));
        assert_eq!(control.encode(), Some(0xc020_462a));
        assert_eq!(RequestCode::decode(0x3000_0001), None);
        let name = |number| Request::find(DeviceFile::Rm, number).map(|r| r.name);
        assert_eq!(
            (name(0x2a), name(0xc8), name(0x26)),
            (Some("RM_CONTROL"), Some("CARD_INFO"), None)
        );
        let uvm = |number| Request::find(DeviceFile::Uvm, number).map(|r| r.name);
        assert_eq!(
            (uvm(0x3000_0001), uvm(0x21)),
            (Some("UVM_INITIALIZE"), Some("UVM_MAP_EXTERNAL_ALLOCATION"))
        );
    }

    #[test]
    fn files_of_the_drivers() {
        for (path, file) in [
            ("/dev/nvidiactl", Some(DeviceFile::Rm)),
            ("/dev/nvidia0", Some(DeviceFile::Rm)),
            ("/dev/nvidia17", Some(DeviceFile::Rm)),
            ("/dev/nvidia-uvm", Some(DeviceFile::Uvm)),
            ("/dev/nvidia", None),
            ("/dev/nvidia-uvm-tools", None),
            ("/dev/nvidia-modeset", None),
            ("/dev/dri/card0", None),
        ] {
            assert_eq!(DeviceFile::from_path(path), file, "{path}");
        }
    }
}
