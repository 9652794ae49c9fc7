//! Names after `pci:`: a function by its address, or by its ids.

use super::error::PciError;
use std::fmt;

/// The address of a function: domain, bus, device, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// Parses a hexadecimal number with exactly this many digits.
fn hex(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let all = text.bytes().all(|b| b.is_ascii_hexdigit());
    (all && digits.contains(&text.len())).then(|| u32::from_str_radix(text, 16).ok())?
}

impl Address {
    /// Parses `0000:00:03.0`, or `00:03.0` of domain 0.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (place, function) = text.rsplit_once('.')?;
        let (bus, device) = place.rsplit_once(':')?;
        let (domain, bus) = bus.rsplit_once(':').unwrap_or(("0000", bus));
        let device = hex(device, 2..=2)?;
        let function = hex(function, 1..=1)?;
        if device > 31 || function > 7 {
            return None;
        }
        Some(Self {
            domain: hex(domain, 4..=8)?,
            bus: hex(bus, 2..=2)?.try_into().ok()?,
            device: device.try_into().ok()?,
            function: function.try_into().ok()?,
        })
    }

    /// Returns its folder in `/sys`.
    pub(super) fn folder(&self) -> String {
        format!("sys/bus/pci/devices/{self}")
    }
}

/// A parsed function name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The function at an address.
    At(Address),
    /// The only function with these ids.
    Ids {
        /// Vendor id.
        vendor: u16,
        /// Device id.
        device: u16,
    },
}

impl Name {
    /// Parses the text after `pci:`.
    ///
    /// # Errors
    /// [`PciError::Name`], if it has neither form.
    pub fn parse(text: &str) -> Result<Self, PciError> {
        if let Some(address) = Address::parse(text) {
            return Ok(Self::At(address));
        }
        let id = |text: &str| hex(text, 4..=4).and_then(|n| u16::try_from(n).ok());
        let ids = text.split_once(':').and_then(|(v, d)| Some((id(v)?, id(d)?)));
        match ids {
            Some((vendor, device)) => Ok(Self::Ids { vendor, device }),
            None => Err(PciError::Name {
                text: text.chars().take(80).collect(),
            }),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => write!(f, "{address}"),
            Self::Ids { vendor, device } => write!(f, "{vendor:04x}:{device:04x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_by_address_or_by_ids() {
        for (text, message) in [
            ("0000:00:03.0", "0000:00:03.0"),
            ("00:1f.7", "0000:00:1f.7"),
            ("10000:E1:00.0", "10000:e1:00.0"),
            ("1002:5159", "1002:5159"),
        ] {
            assert_eq!(Name::parse(text).unwrap().to_string(), message);
        }
        assert!(matches!(Name::parse("1234:11e8"), Ok(Name::Ids { .. })));
        for bad in [
            "",
            ":",
            "1002",
            "1002:",
            "1002:515",
            "1002:51590",
            "+002:5159",
            "00:20.0",
            "00:03.8",
            "00:03.00",
            "../../x",
            "0000:00:03.0/..",
            "0000:00:03.0\n",
            "000:00:03.0",
            "0:0:0.0",
        ] {
            let e = Name::parse(bad).unwrap_err();
            assert!(matches!(&e, PciError::Name { .. }), "{bad}: {e}");
        }
    }
}
