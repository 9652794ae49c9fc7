//! Images that may hold CUDA code: their container kind, and the code in them that holds a kernel.

use crate::cubin::Cubin;
use crate::fatbin::{self, Fatbin, Kind};
use crate::ptx::{self, Ptx};
use crate::{Arch, Capability, Error, Form};

/// The container kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// One fatbin or several.
    Fatbin,
    /// A cubin.
    Cubin,
    /// PTX text, with or without trailing zero bytes.
    Ptx,
    /// None of these.
    Unknown,
}

/// Bytes with the container kind that their first bytes indicate. Damage shows when they are read.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Their kind.
    pub kind: ImageKind,
}

/// Code selected from an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedCode {
    /// Whether it is a cubin or PTX text.
    pub form: Form,
    /// The target architecture.
    pub arch: Arch,
    /// Offset of its fatbin entry, or `None` if the image is the code itself.
    pub entry: Option<u64>,
    /// The unpacked code. PTX comes without the zero byte that a driver requires after it.
    pub code: Vec<u8>,
}

/// First bytes of every ELF file.
const ELF: &[u8] = b"\x7fELF";

impl<'a> Image<'a> {
    /// Detects the container kind of `bytes` by their first bytes.
    pub fn detect(bytes: &'a [u8]) -> Self {
        let kind = if bytes.starts_with(&fatbin::MAGIC.to_le_bytes()) {
            ImageKind::Fatbin
        } else if bytes.starts_with(ELF) && bytes.get(18..20) == Some(&crate::cubin::MACHINE.to_le_bytes()) {
            ImageKind::Cubin
        } else if ptx::is_ptx(bytes) {
            ImageKind::Ptx
        } else {
            ImageKind::Unknown
        };
        Self { bytes, kind }
    }

    /// Returns the code that a driver loads on `device`, unpacked. Of several consecutive fatbins, the first one
    /// counts.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] for bytes of no known kind; [`Error::NoCode`] if no code runs on the device; and the errors
    /// of the container readers.
    pub fn code(&self, device: Capability) -> Result<SelectedCode, Error> {
        match self.kind {
            ImageKind::Fatbin => select_entry(&Fatbin::parse(self.bytes)?, device),
            _ => self.single_code(device),
        }
    }

    /// Returns the code that holds the kernel `name` on `device`, unpacked.
    ///
    /// A driver selects one entry of a fatbin, whatever the entry holds; this function does the same. Of several
    /// consecutive fatbins, it takes the first whose entry holds the kernel.
    ///
    /// # Errors
    ///
    /// Same as [`Image::code`]; [`Error::NoKernel`] if there is code for the device, but without the kernel;
    /// [`Error::Entry`] if the chosen code of a fatbin cannot be read.
    pub fn find_kernel(&self, name: &str, device: Capability) -> Result<SelectedCode, Error> {
        if self.kind != ImageKind::Fatbin {
            let found = self.single_code(device)?;
            return if has_kernel(&found, name)? {
                Ok(found)
            } else {
                Err(no_kernel(name, device))
            };
        }
        // Architectures of the code, for the error if nothing runs there.
        let mut held = Vec::new();
        let mut any = false;
        for image in fatbin::images(self.bytes) {
            let image = image?;
            let found = match select_entry(&image, device) {
                Err(Error::NoCode { held: more, .. }) => {
                    held.extend(more);
                    continue;
                }
                other => other?,
            };
            any = true;
            let entry = found.entry.unwrap_or_default();
            if has_kernel(&found, name).map_err(|e| Error::Entry {
                entry,
                error: Box::new(e),
            })? {
                return Ok(found);
            }
        }
        if any {
            Err(no_kernel(name, device))
        } else {
            Err(Error::NoCode {
                capability: device,
                held,
            })
        }
    }

    /// Returns the code of an image that is no fatbin.
    fn single_code(&self, device: Capability) -> Result<SelectedCode, Error> {
        let (form, arch, code) = match self.kind {
            ImageKind::Cubin => (Form::Machine, Cubin::parse(self.bytes)?.arch(), self.bytes),
            ImageKind::Ptx => {
                let len = self.bytes.iter().position(|&b| b == 0).unwrap_or(self.bytes.len());
                (
                    Form::Ptx,
                    Ptx::parse(self.bytes)?.arch,
                    self.bytes.get(..len).unwrap_or_default(),
                )
            }
            ImageKind::Fatbin | ImageKind::Unknown => return Err(Error::Unknown),
        };
        if !arch.can_run_on(form, device) {
            return Err(Error::NoCode {
                capability: device,
                held: vec![arch],
            });
        }
        Ok(SelectedCode {
            form,
            arch,
            entry: None,
            code: code.to_vec(),
        })
    }
}

/// Returns the entry of one fatbin that a driver loads.
fn select_entry(image: &Fatbin<'_>, device: Capability) -> Result<SelectedCode, Error> {
    let Some(entry) = image.choose(device)? else {
        let held = image.list_entries()?.into_iter().map(|(_, arch)| arch).collect();
        return Err(Error::NoCode {
            capability: device,
            held,
        });
    };
    let form = if entry.kind == Kind::Ptx {
        Form::Ptx
    } else {
        Form::Machine
    };
    Ok(SelectedCode {
        form,
        arch: entry.arch,
        entry: Some(entry.at),
        code: entry.code()?.into_owned(),
    })
}

/// Whether code holds a kernel.
fn has_kernel(found: &SelectedCode, name: &str) -> Result<bool, Error> {
    Ok(match found.form {
        Form::Machine => Cubin::parse(&found.code)?.contains_kernel(name),
        Form::Ptx => Ptx::parse(&found.code)?.entry(name).is_some(),
    })
}

fn no_kernel(name: &str, device: Capability) -> Error {
    Error::NoKernel {
        capability: device,
        name: name.into(),
    }
}
