//! Code: modules, libraries, functions and variables, as a program's PTX text describes them.

pub mod functions;
pub mod libraries;
pub mod modules;
mod values;

use crate::codes::{INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, NO_BINARY};
use crate::device::CAPABILITY;
use crate::kernels::translated::is_translated;
use cuda_code::fatbin::{self, HEADER_BYTES, WRAPPER_BYTES, Wrapper};
use cuda_code::ptx::{Ptx, is_ptx};
use cuda_code::{Capability, Form, Image};
use ptx_interpreter::Program;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

pub use libraries::forget;

/// Options of the module linker that the stand-in supports.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkOptions {
    /// Maximum number of registers per thread; 0 for no limit.
    pub registers: u32,
}

/// A kernel in a PTX text.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    /// Offset and size of each parameter.
    pub layout: Vec<[usize; 2]>,
    /// Maximum number of threads in a block.
    pub max_threads: u32,
    /// Registers per thread.
    pub registers: u32,
}

/// A variable in a PTX text.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub bytes: u64,
    /// Initial values, each as long as an element.
    pub values: Vec<values::Value>,
    pub element: u64,
}

/// A parsed PTX text.
#[derive(Clone, Debug, Default)]
pub struct Text {
    pub entries: Vec<Entry>,
    pub variables: Vec<Variable>,
    /// The program that the interpreter runs, if the text is a translated one.
    pub translated: Option<Arc<Program>>,
}

/// Why a PTX text is refused: the driver's error code, and a message for a requested log.
#[derive(Debug)]
pub struct ImageError {
    pub code: u32,
    pub why: String,
}

fn image_error(code: u32, why: impl ToString) -> ImageError {
    ImageError {
        code,
        why: why.to_string(),
    }
}

/// Reads a program's image: zero-terminated PTX, a container, or the wrapper structure that points to a container.
///
/// The device runs no machine code: only the PTX of a container is used.
pub fn read(image: *const c_void, options: LinkOptions) -> Result<Text, ImageError> {
    if image.is_null() {
        return Err(image_error(INVALID_VALUE, "there is no image"));
    }
    let mut at = image.cast::<u8>();
    // SAFETY: the program guarantees an image that is as long as its header. A text can be shorter, so this code reads
    // byte by byte.
    let begins = |at: *const u8, bytes: &[u8]| bytes.iter().enumerate().all(|(n, b)| unsafe { *at.add(n) } == *b);
    let wrapper = 0x4662_43b1_u32.to_le_bytes();
    if begins(at, &wrapper) {
        // SAFETY: the structure with this magic number has this size.
        let head = unsafe { std::slice::from_raw_parts(at, WRAPPER_BYTES) };
        let wrapper = Wrapper::parse(head).map_err(|e| image_error(INVALID_IMAGE, e))?;
        at = std::ptr::with_exposed_provenance(wrapper.data as usize);
    }
    if begins(at, &fatbin::MAGIC.to_le_bytes()) {
        // SAFETY: a container has a header of this size, which contains its length.
        let head = unsafe { std::slice::from_raw_parts(at, HEADER_BYTES) };
        let bytes = fatbin::total_bytes(head).map_err(|e| image_error(INVALID_IMAGE, e))?;
        // SAFETY: the header contains the length of the container.
        let container = unsafe { std::slice::from_raw_parts(at, bytes as usize) };
        return read_bytes(container, options);
    }
    if begins(at, b"\x7fELF") {
        return Err(image_error(NO_BINARY, "the stand-in runs no machine code"));
    }
    // SAFETY: every other image is a text, which ends in a zero.
    read_bytes(unsafe { CStr::from_ptr(at.cast()) }.to_bytes(), options)
}

/// Does the same as [`read`] for bytes of known length.
pub fn read_bytes(bytes: &[u8], options: LinkOptions) -> Result<Text, ImageError> {
    let text;
    let text: &[u8] = if is_ptx(bytes) {
        bytes
    } else {
        let selected = Image::detect(bytes).code(Capability::new(CAPABILITY.0, CAPABILITY.1));
        let selected = selected.map_err(|e| image_error(INVALID_IMAGE, e))?;
        if selected.form != Form::Ptx {
            return Err(image_error(NO_BINARY, "the stand-in runs no machine code"));
        }
        text = selected.code;
        &text
    };
    if is_translated(text) {
        return read_translated(text, options);
    }
    let ptx = Ptx::parse(text).map_err(|e| image_error(INVALID_PTX, e))?;
    let entries = ptx.entries.iter().map(|e| {
        let max = e.required_threads.or(e.max_threads);
        let max = max.map_or(crate::device::BLOCK_THREADS, |t| {
            t.iter().fold(1, |n: u32, d| n.saturating_mul(*d))
        });
        let natural = crate::kernels::registers(e.name);
        let limits = [e.max_registers.unwrap_or(0), options.registers];
        Entry {
            name: e.name.to_owned(),
            layout: e
                .parameters
                .iter()
                .map(|p| [p.offset as usize, p.bytes as usize])
                .collect(),
            max_threads: max.min(crate::device::BLOCK_THREADS),
            registers: limits
                .iter()
                .filter(|n| **n > 0)
                .fold(natural, |n, limit| n.min(*limit)),
        }
    });
    let mut variables = Vec::new();
    for v in ptx.variables.iter().filter(|v| !v.external) {
        let bytes = v
            .bytes
            .ok_or_else(|| image_error(INVALID_PTX, format!("{} has no size", v.name)))?;
        let element = v.element.bytes.unwrap_or(1) / v.element.vector.max(1);
        variables.push(Variable {
            name: v.name.to_owned(),
            bytes,
            values: if v.initialised {
                values::parse_values(text, v.name)
            } else {
                Vec::new()
            },
            element: element.max(1),
        });
    }
    Ok(Text {
        entries: entries.collect(),
        variables,
        translated: None,
    })
}

/// Reads the text of a translated program. Its variables belong to the interpreter.
fn read_translated(text: &[u8], options: LinkOptions) -> Result<Text, ImageError> {
    let text = std::str::from_utf8(text).map_err(|e| image_error(INVALID_PTX, e))?;
    let program = Program::parse(text).map_err(|e| image_error(INVALID_PTX, e))?;
    let entries = program.entries().into_iter().map(|e| {
        let mut end = 0usize;
        let layout = e.parameters.iter().map(|bytes| {
            let bytes = *bytes as usize;
            let offset = end.next_multiple_of(bytes.max(1));
            end = offset + bytes;
            [offset, bytes]
        });
        let layout = layout.collect();
        let max = if e.max_threads == 0 { u32::MAX } else { e.max_threads };
        let natural = crate::kernels::registers(&e.name);
        let limit = Some(options.registers).filter(|n| *n > 0);
        Entry {
            name: e.name,
            layout,
            max_threads: max.min(crate::device::BLOCK_THREADS),
            registers: limit.map_or(natural, |n| natural.min(n)),
        }
    });
    Ok(Text {
        entries: entries.collect(),
        variables: Vec::new(),
        translated: Some(Arc::new(program)),
    })
}
