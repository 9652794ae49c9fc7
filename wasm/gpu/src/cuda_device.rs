//! An NVIDIA GPU as a device, through its driver.
//!
//! Each call of the driver is `unsafe`, as it is in C; this is the only module of the crate with such calls.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

mod compiler;
mod rows;
mod stack;
mod staging;
mod transfer;

use crate::cache::{CacheKey, CachedCode, CodeCache};
use crate::device::{CompiledProgram, Device, DeviceAddress, DeviceError, QueueId, Rows};
use compiler::compile;
use cuda_driver::{
    CuContext, CuDevice, CuEvent, CuFunction, CuModule, CuStream, CudaError, DEVICE_CAPABILITY_MAJOR,
    DEVICE_CAPABILITY_MINOR, DEVICE_MULTIPROCESSOR_THREADS, DEVICE_MULTIPROCESSORS, Driver, FUNCTION_LOCAL,
    FUNCTION_REGISTERS, LIMIT_STACK, NOT_READY, STREAM_NON_BLOCKING,
};
use stack::{CALL_BYTES, StackNeeds, thread_share};
use staging::Staging;
use std::ffi::{CString, c_void};
use std::time::{Duration, Instant};
use wasm_ptx::{BLOCK_THREADS, ENTRY_NAME, LAUNCH_BYTES, LaunchBlock};

/// Number of queues.
const QUEUES: usize = crate::scheduler::MAX_GROUPS;
/// Device memory that stays free for the driver, and for other programs.
const MEMORY_MARGIN: u64 = 512 << 20;
/// Minimum number of nested calls: a device without room for their stack is refused.
const MIN_DEPTH: u32 = 64;
/// Default number of copies for each thread that a GPU can have at the same time.
const COPIES_OF_A_THREAD: u32 = 1;
/// Part of each text with indirect calls.
const INDIRECT_CALL: &str = ".callprototype";
/// The compiler's options, as text: a part of the cache's key.
const COMPILER_OPTIONS: &str = "link, verbose log, registers of a block, frames of the code";

impl From<CudaError> for DeviceError {
    fn from(e: CudaError) -> Self {
        Self::Driver(e.to_string())
    }
}

/// A stream with the events around its last launch.
#[derive(Debug)]
struct Queue {
    stream: CuStream,
    start: CuEvent,
    end: CuEvent,
    launched: bool,
}

/// An NVIDIA GPU. Its primary context is released on drop.
#[derive(Debug)]
pub struct CudaDevice {
    driver: Driver,
    device: CuDevice,
    capability: (i32, i32),
    driver_version: i32,
    /// Number of threads that can be resident at the same time.
    threads: u32,
    cache: Option<CodeCache>,
    queues: Vec<Queue>,
    staging: Staging,
    module: Option<CuModule>,
    function: Option<CuFunction>,
    /// The stack of the loaded program.
    stack: Option<StackNeeds>,
    /// Bytes of stack of a thread.
    stack_bytes: u64,
    /// Maximum number of nested calls in this stack.
    stack_depth: u32,
    allocations: Vec<DeviceAddress>,
}

impl CudaDevice {
    /// Opens the GPU with a number. `cache` holds compiled programs.
    ///
    /// # Errors
    /// When there is no driver or no such GPU.
    pub fn open(number: u32, cache: Option<CodeCache>) -> Result<Self, DeviceError> {
        let driver = Driver::load().map_err(|e| DeviceError::Driver(e.to_string()))?;
        let (mut count, mut device, mut driver_version) = (0, 0, 0);
        let mut context: CuContext = std::ptr::null_mut();
        // SAFETY: initializes the driver; the output pointers are valid.
        unsafe {
            driver.cuInit(0)?;
            driver.cuDriverGetVersion(&raw mut driver_version)?;
            driver.cuDeviceGetCount(&raw mut count)?;
        }
        let ordinal = i32::try_from(number).ok().filter(|n| *n < count);
        let ordinal = ordinal
            .ok_or_else(|| DeviceError::Driver(format!("there is no device cuda:{number} ({count} devices)")))?;
        // SAFETY: the output pointers are valid, and the ordinal is below the number of devices.
        unsafe {
            driver.cuDeviceGet(&raw mut device, ordinal)?;
            driver.cuDevicePrimaryCtxRetain(&raw mut context, device)?;
        }
        let attribute = |attribute: i32| {
            let mut value = 0;
            // SAFETY: the output pointer is valid.
            unsafe { driver.cuDeviceGetAttribute(&raw mut value, attribute, device) }.map(|()| value)
        };
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        let mut opened = Self {
            driver,
            device,
            capability: (attribute(DEVICE_CAPABILITY_MAJOR)?, attribute(DEVICE_CAPABILITY_MINOR)?),
            driver_version,
            threads: count(attribute(DEVICE_MULTIPROCESSORS)?)
                .saturating_mul(count(attribute(DEVICE_MULTIPROCESSOR_THREADS)?)),
            cache,
            queues: Vec::new(),
            staging: Staging::new(driver, QUEUES),
            module: None,
            function: None,
            stack: None,
            stack_bytes: 0,
            stack_depth: 0,
            allocations: Vec::new(),
        };
        // SAFETY: the context that was just retained.
        unsafe { driver.cuCtxSetCurrent(context)? };
        for _ in 0..QUEUES {
            let queue = opened.new_queue()?;
            opened.queues.push(queue);
        }
        Ok(opened)
    }

    fn new_queue(&self) -> Result<Queue, DeviceError> {
        let (mut stream, mut start, mut end) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the output pointers are valid; the context is current.
        unsafe {
            self.driver.cuStreamCreate(&raw mut stream, STREAM_NON_BLOCKING)?;
            self.driver.cuEventCreate(&raw mut start, 0)?;
            self.driver.cuEventCreate(&raw mut end, 0)?;
        }
        Ok(Queue {
            stream,
            start,
            end,
            launched: false,
        })
    }

    fn queue(&mut self, queue: QueueId) -> Result<&mut Queue, DeviceError> {
        let unknown = || DeviceError::Driver(format!("there is no queue {}", queue.0));
        self.queues.get_mut(queue.0).ok_or_else(unknown)
    }

    /// Returns the machine code from the cache, else from the driver's compiler, and whether the cache had it.
    fn code(&self, text: &str) -> Result<(CachedCode, bool), DeviceError> {
        let key = CacheKey {
            text,
            options: COMPILER_OPTIONS,
            capability: self.capability,
            driver_version: self.driver_version,
        };
        if let Some(found) = self.cache.as_ref().and_then(|cache| cache.find(&key)) {
            return Ok((found, true));
        }
        let code = compile(self.driver, text)?;
        if let Some(cache) = &self.cache {
            cache.store(&key, &code);
        }
        Ok((code, false))
    }

    fn load_module(&mut self, code: &[u8]) -> Result<CuFunction, DeviceError> {
        if let Some(module) = self.module.take() {
            // SAFETY: the module of this value; no launch is running.
            unsafe { self.driver.cuModuleUnload(module)? };
        }
        let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
        let name = CString::new(ENTRY_NAME).map_err(|e| DeviceError::Driver(e.to_string()))?;
        // SAFETY: the code is an image of the driver's linker, followed by a zero; the output pointers are valid.
        unsafe {
            let mut image = Vec::with_capacity(code.len() + 1);
            image.extend_from_slice(code);
            image.push(0);
            self.driver.cuModuleLoadData(&raw mut module, image.as_ptr().cast())?;
            self.module = Some(module);
            self.driver
                .cuModuleGetFunction(&raw mut function, module, name.as_ptr())?;
        }
        self.function = Some(function);
        Ok(function)
    }

    fn attribute(&self, function: CuFunction, attribute: i32) -> Result<u64, DeviceError> {
        let mut value = 0;
        // SAFETY: a function of the loaded module, and a valid output pointer.
        unsafe { self.driver.cuFuncGetAttribute(&raw mut value, attribute, function)? };
        Ok(u64::try_from(value).unwrap_or(0))
    }

    /// Reserves the stack of all threads that can be resident. Returns its bytes and the maximum number of nested calls:
    /// `depth_limit`, or fewer if the memory has no room for them.
    fn reserve_stack(&mut self, needs: StackNeeds, depth_limit: u32) -> Result<(u64, u32), DeviceError> {
        let free = self.memory_free()?;
        let available = thread_share(free, self.threads);
        let depth = needs.depth(available, depth_limit);
        if needs.bytes(depth) > available.saturating_add(16) || depth < depth_limit.min(MIN_DEPTH) {
            return Err(DeviceError::Memory(format!(
                "the stack of {} threads needs {} MiB for {} nested calls, and {} MiB are free",
                self.threads,
                needs
                    .bytes(MIN_DEPTH.min(depth_limit))
                    .saturating_mul(u64::from(self.threads))
                    >> 20,
                MIN_DEPTH.min(depth_limit),
                free >> 20
            )));
        }
        let bytes = needs.bytes(depth);
        self.set_stack(bytes, depth)?;
        Ok((bytes, depth))
    }

    /// Makes `bytes` bytes the stack of a thread, which is enough for `depth` nested calls.
    fn set_stack(&mut self, bytes: u64, depth: u32) -> Result<(), DeviceError> {
        let limit = usize::try_from(bytes).map_err(|_| DeviceError::Memory(format!("a stack of {bytes} bytes")))?;
        // SAFETY: the driver checks both numbers.
        unsafe { self.driver.cuCtxSetLimit(LIMIT_STACK, limit)? };
        (self.stack_bytes, self.stack_depth) = (bytes, depth);
        Ok(())
    }

    /// Returns the bytes of the stack of all threads.
    fn all_stack_bytes(&self) -> u64 {
        self.stack_bytes.saturating_mul(self.threads.into())
    }

    fn memory_free(&self) -> Result<u64, DeviceError> {
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: the output pointers are valid.
        unsafe { self.driver.cuMemGetInfo_v2(&raw mut free, &raw mut total)? };
        Ok(free as u64)
    }
}

impl Device for CudaDevice {
    fn load(&mut self, program: &wasm_ptx::Program, depth_limit: u32) -> Result<CompiledProgram, DeviceError> {
        let start = Instant::now();
        let (mut code, mut cached) = self.code(&program.text)?;
        let function = match self.load_module(&code.code) {
            Ok(function) => function,
            // Code of the cache that the driver refuses is compiled again.
            Err(_) if cached => {
                code = compile(self.driver, &program.text)?;
                cached = false;
                self.load_module(&code.code)?
            }
            Err(e) => return Err(e),
        };
        let local_bytes = self.attribute(function, FUNCTION_LOCAL)?;
        let needs = StackNeeds {
            local_bytes,
            call_bytes: code.frame_bytes.saturating_add(CALL_BYTES),
            // Without indirect calls and recursion the driver knows the stack of the kernel with all that it calls.
            uncounted: if program.recursive || program.text.contains(INDIRECT_CALL) {
                program.uncounted_frames.into()
            } else {
                0
            },
            recursive: program.recursive,
        };
        let time = start.elapsed();
        self.stack = Some(needs);
        let (stack_bytes, depth_limit) = self.reserve_stack(needs, depth_limit)?;
        Ok(CompiledProgram {
            time,
            stack_time: start.elapsed().saturating_sub(time),
            cached,
            registers: u32::try_from(self.attribute(function, FUNCTION_REGISTERS)?).unwrap_or(0),
            stack_bytes,
            depth_limit,
        })
    }

    fn deepen(&mut self, depth_limit: u32) -> Result<u32, DeviceError> {
        let Some(needs) = self.stack else {
            return Ok(depth_limit);
        };
        // The driver does not report the memory of the present stack as free, and the new stack replaces it.
        let free = self.memory_free()?.saturating_add(self.all_stack_bytes());
        let depth = needs.depth(thread_share(free, self.threads), depth_limit);
        if depth > self.stack_depth {
            // A failure keeps the present stack. Copies that need more then trap.
            let _ = self.set_stack(needs.bytes(depth), depth);
        }
        Ok(self.stack_depth)
    }

    fn free_bytes(&mut self) -> Result<u64, DeviceError> {
        let free = self.memory_free()?;
        // The driver may reserve the stack at the first launch.
        let stack = self.all_stack_bytes();
        Ok(free
            .saturating_sub(MEMORY_MARGIN.min(free / 8))
            .saturating_sub(stack.min(free / 2)))
    }

    fn first_slice(&self) -> u32 {
        1 << 20
    }

    fn max_copies(&self) -> u32 {
        self.threads.saturating_mul(COPIES_OF_A_THREAD)
    }

    fn allocate(&mut self, bytes: u64) -> Result<DeviceAddress, DeviceError> {
        let size = usize::try_from(bytes).map_err(|_| DeviceError::Memory(format!("{bytes} bytes")))?;
        let mut at = 0;
        // SAFETY: the output pointer is valid.
        unsafe { self.driver.cuMemAlloc_v2(&raw mut at, size.max(1)) }
            .map_err(|e| DeviceError::Memory(format!("{} MiB of device memory: {e}", bytes >> 20)))?;
        self.allocations.push(DeviceAddress(at));
        Ok(DeviceAddress(at))
    }

    fn release(&mut self, at: DeviceAddress) -> Result<(), DeviceError> {
        if let Some(position) = self.allocations.iter().position(|known| *known == at) {
            self.allocations.swap_remove(position);
            // SAFETY: allocated by this value, and freed once. The driver waits for launches that use it.
            unsafe { self.driver.cuMemFree_v2(at.0)? };
        }
        Ok(())
    }

    fn write_rows(&mut self, queue: QueueId, rows: Rows, from: &[u8]) -> Result<(), DeviceError> {
        self.send_rows(queue, rows, from)
    }

    fn read_rows(&mut self, queue: QueueId, rows: Rows, to: &mut [u8]) -> Result<(), DeviceError> {
        self.fetch_rows(queue, rows, to)
    }

    fn write_parts(
        &mut self,
        queue: QueueId,
        parts: &[Rows],
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<(), DeviceError> {
        self.send_parts(queue, parts, fill)
    }

    fn read_parts(
        &mut self,
        queue: QueueId,
        parts: &[Rows],
        take: &(dyn Fn(usize, &[u8]) + Sync),
    ) -> Result<(), DeviceError> {
        self.fetch_parts(queue, parts, take)
    }

    fn launch(&mut self, queue: QueueId, at: DeviceAddress, block: &LaunchBlock) -> Result<(), DeviceError> {
        self.send_parts(queue, &[Rows::single(at, LAUNCH_BYTES as u64)], &|_, to| {
            to.copy_from_slice(&block.encode())
        })?;
        let function = self
            .function
            .ok_or_else(|| DeviceError::Launch("no program is loaded".into()))?;
        let driver = self.driver;
        let queue = self.queue(queue)?;
        let mut address = at.0;
        let mut parameters: [*mut c_void; 1] = [(&raw mut address).cast()];
        // SAFETY: the function has one parameter of 64 bits, which the driver copies; the handles are of this value.
        // The kernel accesses only the areas of the launch block, its constants, and the block itself.
        let launched = unsafe {
            driver.cuEventRecord(queue.start, queue.stream)?;
            driver.cuLaunchKernel(
                function,
                block.grid_blocks(),
                1,
                1,
                BLOCK_THREADS,
                1,
                1,
                0,
                queue.stream,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        launched.map_err(|e| DeviceError::Launch(e.to_string()))?;
        // SAFETY: handles of this value.
        unsafe { driver.cuEventRecord(queue.end, queue.stream)? };
        queue.launched = true;
        Ok(())
    }

    fn poll(&mut self, queue: QueueId) -> Result<Option<Duration>, DeviceError> {
        let driver = self.driver;
        let queue = self.queue(queue)?;
        if !queue.launched {
            return Ok(Some(Duration::ZERO));
        }
        // SAFETY: a handle of this value.
        match unsafe { driver.cuStreamQuery(queue.stream) } {
            Ok(()) => {}
            Err(e) if e.result() == Some(NOT_READY) => return Ok(None),
            Err(e) => return Err(DeviceError::Launch(e.to_string())),
        }
        let mut milliseconds = 0f32;
        // SAFETY: both events have been recorded in the stream, which is empty; the output pointer is valid.
        unsafe { driver.cuEventElapsedTime(&raw mut milliseconds, queue.start, queue.end)? };
        queue.launched = false;
        Ok(Some(
            Duration::try_from_secs_f32(milliseconds / 1000.0).unwrap_or_default(),
        ))
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // Errors have no one to report to; the driver releases everything at the end of the process.
        for queue in &self.queues {
            // SAFETY: handles of this value. Destruction waits for running work.
            unsafe {
                let _ = self.driver.cuStreamSynchronize(queue.stream);
                let _ = self.driver.cuEventDestroy_v2(queue.start);
                let _ = self.driver.cuEventDestroy_v2(queue.end);
                let _ = self.driver.cuStreamDestroy_v2(queue.stream);
            }
        }
        self.queues.clear();
        self.staging = Staging::new(self.driver, 0);
        for at in &self.allocations {
            // SAFETY: allocated by this value; no work is running.
            let _ = unsafe { self.driver.cuMemFree_v2(at.0) };
        }
        if let Some(module) = self.module.take() {
            // SAFETY: loaded by this value; no work is running.
            let _ = unsafe { self.driver.cuModuleUnload(module) };
        }
        // SAFETY: this value retained the context.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
