//! Fuzz targets for register maps of other projects: an accepted file must read back as a map in the project's format.

use register_maps::{Format, ImportError, NoSources, Options, import};

fn read(bytes: &[u8], format: Format) -> bool {
    let options = Options {
        format: Some(format),
        ..Options::default()
    };
    match import("fuzz.xml", bytes, &options, &mut NoSources) {
        Ok(_) => true,
        Err(ImportError::Unreadable { reason, .. }) => panic!("an imported map does not read back: {reason}"),
        Err(_) => false,
    }
}

/// Fuzzes a CMSIS-SVD file.
pub fn map_svd(bytes: &[u8]) -> bool {
    read(bytes, Format::Svd)
}

/// Fuzzes a rules-ng-ng file.
pub fn map_rnn(bytes: &[u8]) -> bool {
    read(bytes, Format::Rnn)
}

/// Fuzzes a file of Mesa's genxml.
pub fn map_genxml(bytes: &[u8]) -> bool {
    read(bytes, Format::Genxml)
}

/// Fuzzes a file of Mesa's csbgen.
pub fn map_csbgen(bytes: &[u8]) -> bool {
    read(bytes, Format::Csbgen)
}
