//! Names after `platform:`: a device by its address and node, or by its compatible string.

use super::error::PlatformError;
use std::fmt;
use trace_core::PhysAddr;

/// A parsed device name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The kernel's name: the address of its first window, a dot, the name of its node.
    At {
        /// Physical address.
        base: PhysAddr,
        /// Name of the node, without its address.
        node: String,
    },
    /// The only device with this compatible string.
    Compatible(String),
}

impl Name {
    /// Parses the text after `platform:`.
    ///
    /// # Errors
    /// [`PlatformError::Name`], if it has neither form.
    pub fn parse(text: &str) -> Result<Self, PlatformError> {
        let bad = || PlatformError::Name {
            text: text.chars().take(80).collect(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_,.+".contains(c);
        if text.is_empty() || text.len() > 128 || !text.chars().all(plain) {
            return Err(bad());
        }
        if text.contains(',') {
            return Ok(Self::Compatible(text.to_owned()));
        }
        let (base, node) = text.split_once('.').ok_or_else(bad)?;
        let digits = !base.is_empty() && base.bytes().all(|b| b.is_ascii_hexdigit());
        let base = digits.then(|| u64::from_str_radix(base, 16).ok()).flatten();
        match base.filter(|_| !node.is_empty()) {
            Some(base) => Ok(Self::At {
                base: PhysAddr::new(base),
                node: node.to_owned(),
            }),
            None => Err(bad()),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { base, node } => write!(f, "{base:x}.{node}"),
            Self::Compatible(text) => write!(f, "{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_device_names_parse_node_or_compatible() {
        let at = Name::At {
            base: PhysAddr::new(0x901_0000),
            node: "pl031".into(),
        };
        assert_eq!(Name::parse("9010000.pl031").unwrap(), at);
        assert_eq!(at.to_string(), "9010000.pl031");
        assert_eq!(Name::parse("arm,pl031").unwrap(), Name::Compatible("arm,pl031".into()));
        for bad in [
            "",
            ".",
            "9010000",
            "9010000.",
            ".pl031",
            "x.pl031",
            "../a,b",
            "a b,c",
            "+1.x",
            "11111111111111111.x",
        ] {
            assert!(matches!(Name::parse(bad), Err(PlatformError::Name { .. })), "{bad}");
        }
    }
}
