//! Layouts of launch descriptors by version.

use crate::field::{Field, read_bits};
use crate::table::{Layout, Table, TableError};
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

static LAYOUTS: LazyLock<Result<Vec<QmdLayout>, TableError>> =
    LazyLock::new(|| parse(include_str!("../../../../assets/registers/nvidia/qmd.txt")));

/// Position of the version in descriptors of version 2 to 4: lowest bit of the minor version, then the major one.
const VERSION_BIT: u32 = 576;
/// Position of the version in descriptors of version 5.
const VERSION_5_BIT: u32 = 464;
/// Bytes of the descriptors before version 4.
const SMALL_BYTES: usize = 256;

/// A version of the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QmdVersion {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
}

impl fmt::Display for QmdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "V{:02}_{:02}", self.major, self.minor)
    }
}

/// The fields of a version, as a class defines them.
#[derive(Debug)]
pub struct QmdLayout {
    version: QmdVersion,
    class: u16,
    bytes: usize,
    fields: Vec<Field>,
    by_name: HashMap<&'static str, usize>,
}

impl QmdLayout {
    /// Returns the layout of a version. The class of the compute engine selects among definitions of one version. A
    /// class that does not define the version, and `None`, give the first definition.
    #[must_use]
    pub fn find(version: QmdVersion, class: Option<u16>) -> Option<&'static Self> {
        let layouts = || Self::all().filter(|l| l.version == version);
        layouts().find(|l| Some(l.class) == class).or_else(|| layouts().next())
    }

    /// Returns all layouts.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        LAYOUTS.as_ref().ok().into_iter().flatten()
    }

    /// Returns the version that descriptor bytes have. Classes since Blackwell have it at another place than those
    /// before; without a class, the number of bytes decides. Returns `None` if the bytes have no place for a version.
    #[must_use]
    pub fn detect_version(bytes: &[u8], class: Option<u16>) -> Option<QmdVersion> {
        let at = |low| {
            let bits = read_bits(bytes, low, 8)?;
            Some(QmdVersion {
                major: (bits >> 4) as u8,
                minor: bits as u8 & 0xf,
            })
        };
        let may_be_5 = match class {
            Some(class) => Self::all().any(|l| l.class == class && l.version.major == 5),
            None => bytes.len() > SMALL_BYTES,
        };
        let version_5 = at(VERSION_5_BIT).filter(|v| may_be_5 && v.major == 5);
        let version = at(VERSION_BIT)?;
        // The place of the newer form is a reserved one in the older form.
        Some(match version_5 {
            Some(newer) if Self::find(newer, class).is_some() && version.major != 4 => newer,
            _ => version,
        })
    }

    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> QmdVersion {
        self.version
    }

    /// Returns the compute class that defines the fields.
    #[must_use]
    pub fn class(&self) -> u16 {
        self.class
    }

    /// Returns the size of a descriptor in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the fields in the order of their bits.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns a field by its name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(*self.by_name.get(name)?)
    }
}

/// Returns a layout for each version and class.
fn parse(text: &'static str) -> Result<Vec<QmdLayout>, TableError> {
    let table = Table::parse(text)?;
    let layouts = table.layouts.iter().flat_map(|layout| {
        let classes = layout.classes.iter();
        classes.map(|class| of_class(layout, *class))
    });
    Ok(layouts.collect())
}

fn of_class(layout: &Layout, class: u16) -> QmdLayout {
    let sections = layout.sections.iter().filter(|s| s.classes.contains(&class));
    let mut fields: Vec<Field> = sections.flat_map(|s| s.fields.iter().cloned()).collect();
    fields.sort_by_key(|f| f.low);
    QmdLayout {
        version: QmdVersion {
            major: layout.major,
            minor: layout.minor,
        },
        class,
        bytes: layout.bytes,
        by_name: fields.iter().enumerate().map(|(n, f)| (f.name, n)).collect(),
        fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(major: u8, minor: u8) -> QmdVersion {
        QmdVersion { major, minor }
    }

    #[test]
    fn every_version_is_embedded_once_for_each_class() {
        assert_eq!(LAYOUTS.as_ref().err(), None);
        let mut versions: Vec<(QmdVersion, u16)> = QmdLayout::all().map(|l| (l.version, l.class)).collect();
        assert_eq!(versions.len(), 18);
        versions.dedup();
        assert_eq!(versions.len(), 18);
        for (major, minor, bytes) in [
            (2, 2, 256),
            (2, 3, 256),
            (2, 4, 256),
            (3, 0, 256),
            (4, 0, 384),
            (4, 1, 384),
            (5, 0, 384),
            (5, 1, 384),
        ] {
            let layout = QmdLayout::find(version(major, minor), None);
            assert_eq!(layout.map(QmdLayout::bytes), Some(bytes));
            // Names are unique, and fields fit.
            let layout = layout.unwrap();
            assert_eq!(layout.by_name.len(), layout.fields.len());
            for f in &layout.fields {
                let end = f.high as usize + f.stride as usize * (f.count as usize - 1);
                assert!(end < 8 * bytes, "{} {}", layout.version, f.name);
            }
        }
    }

    #[test]
    fn fields_are_where_the_headers_have_them() {
        for (major, minor, name, high, low) in [
            (4, 0, "QMD_TYPE", 25, 23),
            (4, 0, "SHARED_MEMORY_SIZE", 601, 584),
            (4, 0, "GRID_WIDTH", 1055, 1024),
            (4, 0, "REGISTER_COUNT", 1208, 1200),
            (3, 0, "RELEASE0_PAYLOAD_LOWER", 863, 832),
            (3, 0, "CTA_RASTER_DEPTH", 463, 448),
            (5, 0, "PROGRAM_ADDRESS_LOWER_SHIFTED4", 1055, 1024),
            (2, 2, "REGISTER_COUNT", 991, 984),
        ] {
            let field = QmdLayout::find(version(major, minor), None).and_then(|l| l.field(name));
            assert_eq!(field.map(|f| (f.high, f.low)), Some((high, low)), "{name}");
        }
        let valid = QmdLayout::find(version(4, 0), None).and_then(|l| l.field("CONSTANT_BUFFER_VALID"));
        assert_eq!(valid.map(|f| (f.low, f.stride, f.count)), Some((416, 4, 8)));
    }

    #[test]
    fn version_is_found_by_class_or_size() {
        let mut small = [0; 256];
        small[72] = 0x30;
        assert_eq!(QmdLayout::detect_version(&small, None), Some(version(3, 0)));
        let mut large = [0; 384];
        large[72] = 0x41;
        assert_eq!(QmdLayout::detect_version(&large, None), Some(version(4, 1)));
        large[72] = 0;
        large[58] = 0x50;
        assert_eq!(QmdLayout::detect_version(&large, None), Some(version(5, 0)));
        assert_eq!(QmdLayout::detect_version(&large, Some(0xcec0)), Some(version(5, 0)));
        // Hopper has no version 5.
        assert_eq!(QmdLayout::detect_version(&large, Some(0xcbc0)), Some(version(0, 0)));
        assert_eq!(QmdLayout::detect_version(&[0; 60], None), None);
    }
}
