//! Register maps of other projects: whatever is taken must read back as a map of the project's form.

use register_maps::{Format, ImportError, NoSources, Options, import};

fn read(bytes: &[u8], format: Format) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let options = Options {
        format: Some(format),
        ..Options::default()
    };
    match import("fuzz.xml", text, &options, &mut NoSources) {
        Ok(_) => true,
        Err(ImportError::Unreadable { reason, .. }) => panic!("an imported map does not read back: {reason}"),
        Err(_) => false,
    }
}

/// CMSIS-SVD.
pub fn map_svd(bytes: &[u8]) -> bool {
    read(bytes, Format::Svd)
}

/// rules-ng-ng.
pub fn map_rnn(bytes: &[u8]) -> bool {
    read(bytes, Format::Rnn)
}

/// Mesa's genxml.
pub fn map_genxml(bytes: &[u8]) -> bool {
    read(bytes, Format::Genxml)
}
