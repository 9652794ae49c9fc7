//! Names after `qemu:`: a QEMU device and its properties, checked before they reach a process.

use super::error::QemuError;

/// Maximum length of the text, bytes.
const MAX_TEXT: usize = 256;

/// Properties for the location of the device, which the target sets itself.
const OURS: [&str; 6] = ["id", "bus", "addr", "multifunction", "driver", "help"];

/// Name prefixes of devices that pass through a host device instead of emulating one.
const PASSED_ON: [&str; 5] = ["vfio", "vhost", "x-pci-proxy", "xen", "usb-host"];

/// A device and its properties: `ati-vga,model=rv100`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    text: String,
    device: String,
}

impl Name {
    /// Parses `DEVICE[,PROPERTY=VALUE…]`. Names consist of letters, digits, `-`, `_` and `.`; values may also have `:`
    /// and `+`. So no part can end an option, start another or name a file by its path.
    ///
    /// # Errors
    /// [`QemuError::Name`], if a part is missing, too long, has another character, or is reserved.
    pub fn parse(text: &str) -> Result<Self, QemuError> {
        let bad = |reason: String| QemuError::Name {
            text: text.chars().take(MAX_TEXT).collect(),
            reason,
        };
        if text.len() > MAX_TEXT {
            return Err(bad(format!("longer than {MAX_TEXT} bytes")));
        }
        let mut parts = text.split(',');
        let device = parts.next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !device.starts_with(|c: char| c.is_ascii_alphanumeric()) || !device.chars().all(plain) {
            return Err(bad("it does not begin with a device name".to_owned()));
        }
        if PASSED_ON.iter().any(|p| device.starts_with(p)) {
            let reason = format!("{device} passes through a device of this machine; name a device that QEMU emulates");
            return Err(bad(reason));
        }
        if device == "help" {
            return Err(bad("`help` is not a device".to_owned()));
        }
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| bad(format!("`{part}` is not PROPERTY=VALUE")))?;
            if key.is_empty() || !key.chars().all(plain) {
                return Err(bad(format!("`{key}` is not a property name")));
            }
            if OURS.contains(&key) {
                return Err(bad(format!("the property `{key}` cannot be set")));
            }
            if seen.contains(&key) {
                return Err(bad(format!("the property `{key}` is given twice")));
            }
            if let Some(c) = value.chars().find(|c| !plain(*c) && !":+".contains(*c)) {
                return Err(bad(format!("the value of `{key}` contains the character {c:?}")));
            }
            seen.push(key);
        }
        Ok(Self {
            text: text.to_owned(),
            device: device.to_owned(),
        })
    }

    /// Returns the full text, `ati-vga,model=rv100`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the device without properties, `ati-vga`.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_device_names_accept_properties() {
        for good in [
            "edu",
            "ati-vga,model=rv100",
            "edu,dma_mask=0xffffffffffff",
            "virtio-gpu-pci,vectors=0,romfile=",
            "e1000,mac=52:54:00:12:34:56",
        ] {
            let name = Name::parse(good).unwrap();
            assert_eq!(name.text(), good);
            assert_eq!(Some(name.device()), good.split(',').next());
        }
    }

    #[test]
    fn qemu_names_that_reach_beyond_the_device_are_refused() {
        let long = "a".repeat(MAX_TEXT + 1);
        for (bad, word) in [
            ("", "begin with a device name"),
            ("-S", "begin with a device name"),
            ("{\"driver\":\"edu\"}", "begin with a device name"),
            ("edu -S", "begin with a device name"),
            ("edu\n", "begin with a device name"),
            ("help", "help"),
            ("edu,help", "PROPERTY=VALUE"),
            ("edu,", "PROPERTY=VALUE"),
            ("edu,,id=x", "PROPERTY=VALUE"),
            ("edu,=1", "not a property name"),
            ("edu,a b=1", "not a property name"),
            ("edu,id=x", "cannot be set"),
            ("edu,addr=4", "cannot be set"),
            ("edu,bus=pci.0", "cannot be set"),
            ("edu,driver=vfio-pci", "cannot be set"),
            ("edu,dma_mask=1,dma_mask=2", "twice"),
            ("edu,romfile=/etc/passwd", "'/'"),
            ("edu,x=$(id)", "'$'"),
            ("edu,x=a;b", "';'"),
            ("edu,x=é", "'é'"),
            ("vfio-pci,host=01:00.0", "passes through"),
            ("vhost-vsock-pci", "passes through"),
            (long.as_str(), "longer"),
        ] {
            match Name::parse(bad) {
                Err(QemuError::Name { reason, .. }) => assert!(reason.contains(word), "{bad}: {reason}"),
                other => panic!("{bad}: {other:?}"),
            }
        }
    }
}
