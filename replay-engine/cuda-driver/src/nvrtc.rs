//! NVRTC, the CUDA C++ compiler, loaded at run time from a toolkit or a package.
//!
//! This is one of the modules that contain `unsafe`: the signatures of a library's functions are taken from its vendor.
#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Environment variable with the path of the compiler library, if it is not in the loader's search path.
pub const COMPILER_VARIABLE: &str = "KINESCOPE_NVRTC_LIBRARY";
/// File names of the library in toolkits, newest first.
const NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
/// Maximum size of compiled code or of a log, bytes.
const MAX_BYTES: usize = 256 << 20;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type AddName = unsafe extern "C" fn(Program, *const c_char) -> c_int;
type LoweredName = unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> c_int;

/// Reasons why compilation returns no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The compiler library is not found.
    #[error(
        "there is no compiler of CUDA C++ here: {why} (expected libnvrtc of a CUDA toolkit; if the loader does not \
         find it, name its file in {COMPILER_VARIABLE})"
    )]
    NoCompiler {
        /// Error of the loader.
        why: String,
    },
    /// The compiler does not export a function, because it is too old.
    #[error("the compiler of CUDA C++ has no {name}: a newer one is needed")]
    Missing {
        /// Name of the function.
        name: &'static str,
    },
    /// A string contains a zero byte.
    #[error("{what} contains a zero byte, which the compiler does not accept")]
    Zero {
        /// Which string it is.
        what: &'static str,
    },
    /// The compiler rejected the source.
    #[error("it does not compile (NVRTC answers {code}): {log}")]
    Refused {
        /// Result code of the compiler.
        code: i32,
        /// Log of the compiler.
        log: String,
    },
}

/// Compiled code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompiledCode {
    /// PTX, followed by a zero byte.
    pub ptx: Vec<u8>,
    /// Machine code, if the compiler generates it.
    pub cubin: Option<Vec<u8>>,
    /// Mangled name of the requested function, if one was requested.
    pub function: Option<String>,
}

/// Loaded compiler library.
#[derive(Debug)]
pub struct Compiler {
    create: Create,
    destroy: Destroy,
    compile: Compile,
    ptx: (Size, Get),
    cubin: Option<(Size, Get)>,
    log: (Size, Get),
    names: Option<(AddName, LoweredName)>,
    _library: Library,
}

impl Compiler {
    /// Loads the compiler: the library named by the environment variable `KINESCOPE_NVRTC_LIBRARY`, or the one in the
    /// loader's search path.
    ///
    /// # Errors
    /// When the library cannot be loaded.
    pub fn load() -> Result<Self, CompileError> {
        let given = std::env::var_os(COMPILER_VARIABLE).filter(|v| !v.is_empty());
        let names: Vec<std::ffi::OsString> = match given {
            Some(path) => vec![path],
            None => NAMES.iter().map(Into::into).collect(),
        };
        let mut first = None;
        for name in &names {
            // SAFETY: loading a compiler runs its initialisers.
            match unsafe { Library::new(name) } {
                Ok(library) => return Self::from_library(library),
                Err(e) => first = first.or(Some(e.to_string())),
            }
        }
        Err(CompileError::NoCompiler {
            why: first.unwrap_or_default(),
        })
    }

    fn from_library(library: Library) -> Result<Self, CompileError> {
        // SAFETY: functions of these names have these signatures in every version of the library.
        unsafe {
            let both = |size: &'static str, get: &'static str| {
                Ok::<(Size, Get), CompileError>((require_symbol(&library, size)?, require_symbol(&library, get)?))
            };
            let names = require_symbol(&library, "nvrtcAddNameExpression").and_then(|add| {
                let lowered = require_symbol(&library, "nvrtcGetLoweredName")?;
                Ok((add, lowered))
            });
            Ok(Self {
                create: require_symbol(&library, "nvrtcCreateProgram")?,
                destroy: require_symbol(&library, "nvrtcDestroyProgram")?,
                compile: require_symbol(&library, "nvrtcCompileProgram")?,
                ptx: both("nvrtcGetPTXSize", "nvrtcGetPTX")?,
                cubin: both("nvrtcGetCUBINSize", "nvrtcGetCUBIN").ok(),
                log: both("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?,
                names: names.ok(),
                _library: library,
            })
        }
    }

    /// Compiles a source text for a device of this compute capability. `function` is an expression that names one of
    /// its functions (`scale<float, 4>`); the result then contains its mangled name.
    ///
    /// # Errors
    /// When the compiler rejects the source; the error contains the compiler's log.
    pub fn compile(
        &self,
        text: &[u8],
        name: &str,
        capability: [u32; 2],
        options: &[String],
        function: Option<&str>,
    ) -> Result<CompiledCode, CompileError> {
        let source = c_string(text, "the text")?;
        let name = c_string(name.as_bytes(), "its name")?;
        let expression = function
            .map(|f| c_string(f.as_bytes(), "the function's name"))
            .transpose()?;
        let mut all = vec![format!("--gpu-architecture=sm_{}{}", capability[0], capability[1])];
        all.extend(options.iter().cloned());
        let all = all.iter().map(|o| c_string(o.as_bytes(), "an option"));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = all.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: NUL-terminated strings that live longer than the program, no headers, and a location for the result.
        let answer = unsafe {
            (self.create)(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        if answer != 0 {
            return Err(CompileError::Refused {
                code: answer,
                log: String::new(),
            });
        }
        let program = ProgramHandle {
            compiler: self,
            program,
        };
        if let Some(expression) = &expression {
            let (add, _) = self.names.ok_or(CompileError::Missing {
                name: "nvrtcAddNameExpression",
            })?;
            // SAFETY: a valid program, and a NUL-terminated string.
            program.check(unsafe { add(program.program, expression.as_ptr()) })?;
        }
        // SAFETY: a valid program, and as many strings as the count says.
        let answer = unsafe {
            (self.compile)(
                program.program,
                c_int::try_from(pointers.len()).unwrap_or(0),
                pointers.as_ptr(),
            )
        };
        program.check(answer)?;
        let mut lowered = None;
        if let (Some(expression), Some((_, of))) = (&expression, self.names) {
            let mut at: *const c_char = std::ptr::null();
            // SAFETY: a compiled program, an expression that was added to it, and a location for the result.
            program.check(unsafe { of(program.program, expression.as_ptr(), &raw mut at) })?;
            if !at.is_null() {
                // SAFETY: a string of the compiler, which lives as long as the program.
                let message_text = unsafe { CStr::from_ptr(at) };
                lowered = Some(message_text.to_string_lossy().into_owned());
            }
        }
        Ok(CompiledCode {
            ptx: program.bytes(self.ptx)?,
            cubin: self
                .cubin
                .and_then(|of| program.bytes(of).ok())
                .filter(|code| !code.is_empty()),
            function: lowered,
        })
    }
}

/// Program object of the compiler, destroyed when dropped.
struct ProgramHandle<'a> {
    compiler: &'a Compiler,
    program: Program,
}

impl ProgramHandle<'_> {
    fn check(&self, answer: c_int) -> Result<(), CompileError> {
        if answer == 0 {
            return Ok(());
        }
        let log = self.bytes(self.compiler.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        Err(CompileError::Refused {
            code: answer,
            log: log.trim_end_matches('\0').trim().to_owned(),
        })
    }

    fn bytes(&self, (size, get): (Size, Get)) -> Result<Vec<u8>, CompileError> {
        let refused = |code| CompileError::Refused {
            code,
            log: String::new(),
        };
        let mut bytes = 0;
        // SAFETY: a valid program, and a location for the result.
        let answer = unsafe { size(self.program, &raw mut bytes) };
        if answer != 0 || bytes > MAX_BYTES {
            return Err(refused(answer));
        }
        let mut to = vec![0u8; bytes];
        // SAFETY: a valid program, and a buffer of the size that the compiler returned.
        match unsafe { get(self.program, to.as_mut_ptr().cast()) } {
            0 => Ok(to),
            code => Err(refused(code)),
        }
    }
}

impl Drop for ProgramHandle<'_> {
    fn drop(&mut self) {
        // SAFETY: the compiler created the program, and nothing uses it any more.
        let _ = unsafe { (self.compiler.destroy)(&raw mut self.program) };
    }
}

/// Looks up a function of the library.
///
/// # Safety
/// `T` is a pointer to a function of the signature that the library's function has.
unsafe fn require_symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T, CompileError> {
    // SAFETY: the caller guarantees the signature.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|s| *s).map_err(|_| CompileError::Missing { name })
}

fn c_string(bytes: &[u8], what: &'static str) -> Result<CString, CompileError> {
    // A string from a file may end in zero bytes.
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
    CString::new(bytes.get(..end).unwrap_or_default()).map_err(|_| CompileError::Zero { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_with_nul_bytes_is_not_compiled() {
        assert_eq!(
            c_string(b"a\0b", "the text"),
            Err(CompileError::Zero { what: "the text" })
        );
        assert_eq!(c_string(b"ab\0\0", "the text").unwrap().to_bytes(), b"ab");
    }

    #[test]
    fn missing_compiler_is_reported_with_a_remedy() {
        let e = CompileError::NoCompiler {
            why: "not found".into(),
        };
        let text = e.to_string();
        assert!(text.contains("not found") && text.contains(COMPILER_VARIABLE), "{text}");
    }
}
