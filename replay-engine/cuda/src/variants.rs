//! Variants of a function's code: compiled with other bounds, or replaced by the user. Each variant is loaded once.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::stage::Stage;
use cuda_code::fatbin::{self, Kind};
use cuda_code::ptx::{Change, LaunchBounds, Ptx, with_launch_bounds};
use cuda_code::{Image, ImageKind};
use cuda_driver::{
    CompiledCode, Compiler, CuFunction, CuModule, DEVICE_CAPABILITY_MAJOR, DEVICE_CAPABILITY_MINOR, Driver,
    JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_MAX_REGISTERS,
};
use replay_engine::tune::{Bounds, Point, ReplacementCode, ReplacementKind};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use trace_core::GpuVa;
use trace_core::recording::{CallFunction, CallGlobal};

/// Maximum size of kept compiler messages of the driver, bytes.
const LOG: usize = 8 << 10;

/// The key of a variant.
type Key = (u32, Option<u32>, Option<Bounds>);

/// A variable of a variant, and the recorded variable that it replaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct VariableTwin {
    pub of: GpuVa,
    pub at: GpuVa,
    pub bytes: usize,
}

/// A loaded variant.
#[derive(Debug)]
pub(super) struct Variant {
    module: Option<CuModule>,
    pub function: CuFunction,
    pub twins: Vec<VariableTwin>,
    /// Whether a cache preference was set. It stays until another is set.
    pub cache_is_set: bool,
    /// Dynamic shared memory that it may request, as far as it was set, bytes.
    pub most_shared: u32,
}

/// All code variants of one function.
pub(super) struct Variants<'a> {
    driver: Driver,
    /// The recorded function, and its module in the recording.
    recorded: CuFunction,
    metadata: CallFunction,
    globals: Vec<CallGlobal>,
    code: Option<Vec<u8>>,
    replaced: &'a [ReplacementCode],
    capability: [u32; 2],
    /// Compiled CUDA C++, by index.
    compiled: BTreeMap<u32, Result<CompiledCode, String>>,
    loaded: BTreeMap<Key, Result<Variant, String>>,
}

impl<'a> Variants<'a> {
    /// Creates the variants of the function of this number. `code` holds its module.
    pub fn new(
        stage: &Stage<'_>,
        function: u32,
        code: Option<Vec<u8>>,
        replaced: &'a [ReplacementCode],
    ) -> Option<Self> {
        let driver = stage.driver();
        let recorded = stage.function(function)?;
        let metadata = &stage.script().metadata;
        let call_function = metadata.functions.get(function as usize)?.clone();
        let module = call_function.module.and_then(|m| metadata.modules.get(m as usize));
        let capability = [DEVICE_CAPABILITY_MAJOR, DEVICE_CAPABILITY_MINOR].map(|attribute| {
            let mut value = 0;
            // SAFETY: a valid output pointer. A value that the driver does not report stays 0.
            let _ = unsafe { driver.cuDeviceGetAttribute(&raw mut value, attribute, stage.device_number()) };
            u32::try_from(value).unwrap_or(0)
        });
        Some(Self {
            driver,
            recorded,
            globals: module.map(|m| m.globals.clone()).unwrap_or_default(),
            metadata: call_function,
            code,
            replaced,
            capability,
            compiled: BTreeMap::new(),
            loaded: BTreeMap::new(),
        })
    }

    /// Returns the variant that a point needs, or the reason why there is none.
    pub fn get_or_build(&mut self, stage: &Stage<'_>, point: &Point) -> Result<&mut Variant, String> {
        let key = (point.module, point.max_registers, point.bounds());
        if !self.loaded.contains_key(&key) {
            let made = self.make(stage, key);
            self.loaded.insert(key, made);
        }
        match self.loaded.get_mut(&key) {
            Some(Ok(variant)) => Ok(variant),
            Some(Err(why)) => Err(why.clone()),
            None => Err("it is not loaded".to_owned()),
        }
    }

    fn make(&mut self, stage: &Stage<'_>, key: Key) -> Result<Variant, String> {
        let (number, registers, bounds) = key;
        let most_shared = |f: &CallFunction| {
            let set = f
                .attributes
                .iter()
                .rev()
                .find(|[a, _]| *a == cuda_driver::FUNCTION_MAX_DYNAMIC_SHARED);
            set.and_then(|[_, n]| u32::try_from(*n).ok()).unwrap_or(0)
        };
        if (number, registers, bounds) == (0, None, None) {
            return Ok(Variant {
                module: None,
                function: self.recorded,
                twins: Vec::new(),
                cache_is_set: false,
                most_shared: most_shared(&self.metadata),
            });
        }
        let is_plain = registers.is_none() && bounds.is_none();
        let (mut code, name) = self.base(number, is_plain)?;
        if !is_plain {
            code = bounded(&code, &name, registers, bounds)?;
        }
        let is_text = !code.starts_with(b"\x7fELF");
        if is_text && code.last() != Some(&0) {
            code.push(0);
        }
        let module = self.load(&code, registers)?;
        // From here on the module is unloaded with the variant.
        let mut variant = Variant {
            module: Some(module),
            function: std::ptr::null_mut(),
            twins: Vec::new(),
            cache_is_set: false,
            most_shared: most_shared(&self.metadata),
        };
        match self.finish(stage, &mut variant, module, &name, number > 0) {
            Ok(()) => Ok(variant),
            Err(why) => {
                self.unload(&variant);
                Err(why)
            }
        }
    }

    /// Returns the code that a variant is built from, and the name of its function. Machine code is used if it exists
    /// and no edit is needed.
    fn base(&mut self, number: u32, is_plain: bool) -> Result<(Vec<u8>, String), String> {
        let recorded = self.metadata.name.clone();
        let Some(at) = number.checked_sub(1) else {
            let code = self.code.as_deref().ok_or("its code is not in the recording")?;
            return Ok((ptx_with(code, &recorded)?, recorded));
        };
        let replaced = self.replaced.get(at as usize);
        let replaced = replaced.ok_or_else(|| format!("there is no code {number}"))?;
        let name = match replaced.function.is_empty() {
            true => recorded,
            false => replaced.function.clone(),
        };
        if replaced.kind != ReplacementKind::Source {
            let code = match is_plain {
                true => replaced.bytes.clone(),
                false => ptx_with(&replaced.bytes, &name)?,
            };
            return Ok((code, name));
        }
        let compiled = self
            .compiled
            .entry(number)
            .or_insert_with(|| compile(replaced, self.capability));
        let compiled = compiled.as_ref().map_err(Clone::clone)?;
        let name = compiled.function.clone().unwrap_or(name);
        let code = match &compiled.cubin {
            Some(cubin) if is_plain => cubin.clone(),
            _ => compiled.ptx.clone(),
        };
        Ok((code, name))
    }

    fn load(&self, code: &[u8], registers: Option<u32>) -> Result<CuModule, String> {
        let mut log = vec![0u8; LOG];
        let mut options = vec![JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES];
        let mut values: Vec<*mut c_void> = vec![log.as_mut_ptr().cast(), LOG as *mut c_void];
        if let Some(max) = registers {
            options.push(JIT_MAX_REGISTERS);
            values.push(max as usize as *mut c_void);
        }
        let mut module = std::ptr::null_mut();
        // SAFETY: the driver checks the code, which is zero-terminated. The option count matches, the log buffer has
        // the given size, and the output pointer is valid.
        let loaded = unsafe {
            self.driver.cuModuleLoadDataEx(
                &raw mut module,
                code.as_ptr().cast(),
                u32::try_from(options.len()).unwrap_or(0),
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        loaded.map(|()| module).map_err(|e| {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            let said = String::from_utf8_lossy(log.get(..end).unwrap_or_default()).into_owned();
            match said.trim() {
                "" => e.to_string(),
                said => format!("{e}: {said}"),
            }
        })
    }

    /// Finds the function and the variables of a loaded module.
    fn finish(
        &self,
        stage: &Stage<'_>,
        variant: &mut Variant,
        module: CuModule,
        name: &str,
        is_foreign: bool,
    ) -> Result<(), String> {
        let text = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: a loaded module, a C string, and a valid output pointer.
        unsafe {
            self.driver
                .cuModuleGetFunction(&raw mut variant.function, module, text.as_ptr())
        }
        .map_err(|e| format!("it has no function {name}: {e}"))?;
        if is_foreign && !self.takes_the_same(variant.function) {
            return Err(format!(
                "the parameters of its function {name} are not those of the recorded one"
            ));
        }
        for [attribute, value] in &self.metadata.attributes {
            // SAFETY: a loaded function. A rejected attribute shows at the launch.
            let _ = unsafe { self.driver.cuFuncSetAttribute(variant.function, *attribute, *value) };
        }
        for global in &self.globals {
            let Ok(name) = CString::new(global.name.as_bytes()) else {
                continue;
            };
            let (mut at, mut bytes) = (0, 0);
            // SAFETY: a loaded module, a C string, and valid output pointers.
            let found = unsafe {
                self.driver
                    .cuModuleGetGlobal_v2(&raw mut at, &raw mut bytes, module, name.as_ptr())
            };
            if found.is_ok() && bytes as u64 == global.bytes && bytes > 0 {
                variant.twins.push(VariableTwin {
                    of: stage.device_address(global.at),
                    at: GpuVa::new(at),
                    bytes,
                });
            }
        }
        Ok(())
    }

    /// Returns whether a function's parameters have the same layout as the recorded one's. If the driver does not
    /// report them, they are assumed equal.
    fn takes_the_same(&self, function: CuFunction) -> bool {
        let describe = |n: usize| {
            let (mut offset, mut bytes) = (0usize, 0usize);
            // SAFETY: a loaded function, and valid output pointers.
            let answer = unsafe {
                self.driver
                    .cuFuncGetParamInfo(function, n, &raw mut offset, &raw mut bytes)
            };
            answer.map(|()| [offset as u64, bytes as u64])
        };
        let wanted = &self.metadata.parameters;
        match describe(0) {
            Err(cuda_driver::CudaError::Missing { .. }) => return true,
            Err(_) => return wanted.is_empty(),
            Ok(_) if wanted.is_empty() => return true,
            Ok(_) => {}
        }
        let all_are = wanted
            .iter()
            .enumerate()
            .all(|(n, p)| describe(n).is_ok_and(|is| is == p.map(u64::from)));
        all_are && describe(wanted.len()).is_err()
    }

    fn unload(&self, variant: &Variant) {
        if let Some(module) = variant.module {
            // SAFETY: the module was loaded by this value, and none of it is still running.
            let _ = unsafe { self.driver.cuModuleUnload(module) };
        }
    }
}

impl Drop for Variants<'_> {
    fn drop(&mut self) {
        for variant in self.loaded.values().flatten() {
            self.unload(variant);
        }
    }
}

fn compile(replaced: &ReplacementCode, capability: [u32; 2]) -> Result<CompiledCode, String> {
    let name = match replaced.name.is_empty() {
        true => "code.cu",
        false => &replaced.name,
    };
    let function = Some(replaced.function.as_str()).filter(|f| !f.is_empty());
    let compiler = Compiler::load().map_err(|e| e.to_string())?;
    compiler
        .compile(&replaced.bytes, name, capability, &replaced.options, function)
        .map_err(|e| e.to_string())
}

/// Returns the PTX in the code that holds a kernel of this name, for the newest architecture if there are several.
fn ptx_with(code: &[u8], name: &str) -> Result<Vec<u8>, String> {
    let none = || {
        "the recording has only its machine code, and launch bounds need a compiler; replace the code by its PTX or \
         CUDA C++"
            .to_owned()
    };
    let holds = |text: &[u8]| Ptx::parse(text).is_ok_and(|p| p.entry(name).is_some());
    match Image::detect(code).kind {
        ImageKind::Ptx if holds(code) => Ok(code.to_vec()),
        ImageKind::Ptx => Err(format!("the PTX has no kernel {name}")),
        ImageKind::Fatbin => {
            let entries = fatbin::images(code)
                .flatten()
                .flat_map(|image| image.entries().flatten());
            let mut texts: Vec<_> = entries.filter(|e| e.kind == Kind::Ptx).collect();
            texts.sort_by_key(|e| std::cmp::Reverse(e.arch.number));
            let texts = texts.iter().filter_map(|e| e.code().ok());
            let found = texts.into_iter().find(|text| holds(text));
            found.map(std::borrow::Cow::into_owned).ok_or_else(none)
        }
        ImageKind::Cubin | ImageKind::Unknown => Err(none()),
    }
}

/// Returns the PTX text with other bounds for a kernel.
fn bounded(text: &[u8], name: &str, registers: Option<u32>, bounds: Option<Bounds>) -> Result<Vec<u8>, String> {
    let mut change = LaunchBounds::default();
    if let Some(max) = registers {
        change.max_registers = Change::Set(max);
    }
    if let Some(bounds) = bounds {
        change.max_threads = Change::Set([bounds.max_threads, 1, 1]);
        change.min_blocks = match bounds.min_blocks {
            0 => Change::Remove,
            n => Change::Set(n),
        };
    }
    with_launch_bounds(text, name, &change).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry scale(.param .u64 at)\n{\n\tret;\n}\n";

    #[test]
    fn bounds_are_written_into_the_text_of_the_kernel() {
        let bounds = Bounds {
            max_threads: 128,
            min_blocks: 4,
        };
        let text = bounded(TEXT.as_bytes(), "scale", Some(32), Some(bounds)).unwrap();
        let ptx = Ptx::parse(&text).unwrap();
        let entry = ptx.entry("scale").unwrap();
        assert_eq!(entry.max_threads, Some([128, 1, 1]));
        assert_eq!((entry.min_blocks, entry.max_registers), (Some(4), Some(32)));
        let again = Bounds {
            max_threads: 64,
            min_blocks: 0,
        };
        let text = bounded(&text, "scale", None, Some(again)).unwrap();
        let ptx = Ptx::parse(&text).unwrap();
        let entry = ptx.entry("scale").unwrap();
        assert_eq!((entry.max_threads, entry.min_blocks), (Some([64, 1, 1]), None));
        assert_eq!(
            entry.max_registers,
            Some(32),
            "a limit that is not requested keeps its value"
        );
    }

    #[test]
    fn only_ptx_with_the_kernel_is_accepted() {
        assert_eq!(ptx_with(TEXT.as_bytes(), "scale").unwrap(), TEXT.as_bytes());
        assert!(
            ptx_with(TEXT.as_bytes(), "other")
                .unwrap_err()
                .contains("no kernel other")
        );
        for code in [&b""[..], b"\x7fELF", b"nothing"] {
            assert!(
                ptx_with(code, "scale").unwrap_err().contains("machine code"),
                "{code:?}"
            );
        }
    }
}
