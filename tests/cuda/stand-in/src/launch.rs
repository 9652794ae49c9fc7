//! A launch: function, arguments and number of threads, and how it runs.

use crate::Answer;
use crate::code::functions::Function;
use crate::code::libraries::find_function;
use crate::codes::{INVALID_CLUSTER, INVALID_VALUE, NOT_SUPPORTED, TOO_MANY_BLOCKS};
use crate::context::Context;
use crate::device::MULTIPROCESSORS;
use crate::handles::pointer;
use crate::health::Health;
use crate::kernels::run::KernelRun;
use crate::kernels::translated;
use crate::memory::view::View;
use crate::pointers::{bytes, get, get_at};
use crate::settings::settings;
use cuda_driver::{
    CuFunction, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, FUNCTION_MAX_DYNAMIC_SHARED, KernelNode, LAUNCH_CLUSTER,
    LAUNCH_COOPERATIVE,
};
use std::ffi::c_void;
use std::sync::Arc;

/// Maximum size of the argument buffer, bytes.
const MAX_ARGUMENTS: usize = 32_764;
/// Maximum number of blocks of a grid, by dimension.
const MAX_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// Maximum number of threads of a block, by dimension.
const MAX_THREADS: [u32; 3] = [1024, 1024, 64];

/// Arguments in the layout of the function's parameters, and the address of each, as a graph node returns them.
struct Arguments {
    buffer: Box<[u8]>,
    addresses: Box<[usize]>,
}

/// A launch.
#[derive(Clone)]
pub struct Launch {
    function: Arc<Function>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    cluster: [u32; 3],
    cooperative: bool,
    arguments: Arc<Arguments>,
}

/// Dimensions and attributes of a launch.
#[derive(Clone, Copy)]
pub struct LaunchShape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared: u32,
    pub cooperative: bool,
}

impl Arguments {
    fn pack(function: &Function, parameters: *mut *mut c_void, extra: *mut *mut c_void) -> Answer<Self> {
        let layout = &function.entry.layout;
        let total = layout.iter().map(|[at, bytes]| at + bytes).max().unwrap_or(0);
        let mut buffer = vec![0u8; total];
        if !parameters.is_null() {
            for (n, [at, length]) in layout.iter().enumerate() {
                let from = get_at(parameters.cast_const(), n)?;
                let argument = bytes(from, *length)?;
                if let Some(to) = buffer.get_mut(*at..at + length) {
                    to.copy_from_slice(&argument);
                }
            }
        } else if !extra.is_null() {
            let (mut from, mut length) = (std::ptr::null_mut(), 0);
            for n in 0.. {
                let key = get_at(extra.cast_const(), 2 * n)? as usize;
                if key == EXTRA_END {
                    break;
                }
                let value = get_at(extra.cast_const(), 2 * n + 1)?;
                match key {
                    EXTRA_BUFFER => from = value,
                    EXTRA_SIZE => length = get(value.cast::<usize>().cast_const())?,
                    _ => return Err(INVALID_VALUE),
                }
            }
            if length > MAX_ARGUMENTS || length < total {
                return Err(INVALID_VALUE);
            }
            let packed = bytes(from, length)?;
            buffer.copy_from_slice(packed.get(..total).ok_or(INVALID_VALUE)?);
        } else if total > 0 {
            return Err(INVALID_VALUE);
        }
        let buffer = buffer.into_boxed_slice();
        let base = buffer.as_ptr().expose_provenance();
        let addresses = layout.iter().map(|[at, _]| base + at).collect();
        Ok(Self { buffer, addresses })
    }
}

impl Launch {
    /// Checks the launch of a function and packs its arguments.
    pub fn prepare(
        context: &Context,
        function: CuFunction,
        shape: LaunchShape,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Answer<Self> {
        let function = find_function(context, function)?;
        let is_within = |sizes: [u32; 3], max: [u32; 3]| sizes.iter().zip(max).all(|(n, max)| (1..=max).contains(n));
        let threads = shape.block.iter().fold(1u32, |n, d| n.saturating_mul(*d));
        let max_shared = function.attribute(FUNCTION_MAX_DYNAMIC_SHARED)? as u32;
        if !is_within(shape.grid, MAX_BLOCKS)
            || !is_within(shape.block, MAX_THREADS)
            || threads > function.entry.max_threads
            || shape.shared > max_shared
        {
            return Err(INVALID_VALUE);
        }
        if shape.cluster != [0; 3] {
            let fits = shape
                .grid
                .iter()
                .zip(shape.cluster)
                .all(|(n, c)| c > 0 && n.is_multiple_of(c));
            if !fits || shape.cluster.iter().product::<u32>() > 8 {
                return Err(INVALID_CLUSTER);
            }
        }
        let blocks = shape.grid.iter().fold(1u64, |n, d| n.saturating_mul(u64::from(*d)));
        let resident = u64::from(function.max_resident_blocks(threads, shape.shared)) * u64::from(MULTIPROCESSORS);
        if shape.cooperative && blocks > resident {
            return Err(TOO_MANY_BLOCKS);
        }
        let arguments = Arc::new(Arguments::pack(&function, parameters, extra)?);
        Ok(Self {
            function,
            grid: shape.grid,
            block: shape.block,
            shared: shape.shared,
            cluster: shape.cluster,
            cooperative: shape.cooperative,
            arguments,
        })
    }

    /// Returns the launch of a graph node.
    pub fn from_node(context: &Context, form: &KernelNode) -> Answer<Self> {
        let function = if form.function.is_null() {
            form.kernel
        } else {
            form.function
        };
        let shape = LaunchShape {
            grid: form.grid,
            block: form.block,
            cluster: [0; 3],
            shared: form.shared,
            cooperative: false,
        };
        Self::prepare(context, function, shape, form.parameters, form.extra)
    }

    /// Returns an attribute, as a graph node does.
    pub fn attribute(&self, number: u32) -> Answer<[u64; 8]> {
        let [x, y, z] = self.cluster.map(u64::from);
        let mut value = [0; 8];
        match number {
            LAUNCH_COOPERATIVE => value[0] = u64::from(self.cooperative),
            LAUNCH_CLUSTER => (value[0], value[1]) = (x | y << 32, z),
            _ => return Err(INVALID_VALUE),
        }
        Ok(value)
    }

    /// Sets an attribute of a graph's node.
    pub fn set_attribute(&mut self, number: u32, value: [u64; 8]) -> Answer {
        let [low, high, ..] = value;
        match number {
            LAUNCH_COOPERATIVE => self.cooperative = low as u32 != 0,
            LAUNCH_CLUSTER => self.cluster = [low as u32, (low >> 32) as u32, high as u32],
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }

    /// Returns the launch with the attributes of the launch that it replaces: a node's structure has none.
    pub fn with_attributes_of(mut self, old: &Self) -> Self {
        (self.cluster, self.cooperative) = (old.cluster, old.cooperative);
        self
    }

    /// Returns the launch as a graph node's structure. The node owns the arguments, which live as long as it.
    pub fn to_node(&self) -> KernelNode {
        let addresses = self.arguments.addresses.as_ptr().cast::<*mut c_void>().cast_mut();
        KernelNode {
            function: pointer(self.function.handle),
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            parameters: if self.arguments.addresses.is_empty() {
                std::ptr::null_mut()
            } else {
                addresses
            },
            extra: std::ptr::null_mut(),
            kernel: std::ptr::null_mut(),
            context: std::ptr::null_mut(),
        }
    }

    /// Returns whether the stand-in implements the function.
    pub fn is_implemented(&self) -> bool {
        self.function.body.is_some() || self.function.translated.is_some()
    }

    /// Runs the launch.
    pub fn run(&self, health: &Health) -> Answer {
        settings().tick();
        settings().print_text();
        if let Some(code) = settings().due_kernel() {
            return Err(code);
        }
        let run = KernelRun {
            grid: self.grid,
            block: self.block,
            arguments: &self.arguments.buffer,
            layout: &self.function.entry.layout,
            variables: &self.function.variables,
            memory: View::now(),
            health,
        };
        if settings().pace {
            run.pace();
        }
        if let Some(program) = &self.function.translated {
            return translated::run(program, &self.function.entry.name, &run);
        }
        let body = self.function.body.ok_or(NOT_SUPPORTED)?;
        body(&run)
    }
}
