//! One copy of a program: its two instances, its host functions, its run in slices.

use crate::instrument::{PLACE_EXPORT, START_EXPORT};
use std::time::Instant;
use wasm_run::{INITIALIZE_FUNCTION, Input, Limits, ProgramRun, RunEnd, Trap, TrapKind};
use wasm_system::{HostFunction, PROGRAM_MEMORY, SYSTEM_MEMORY, Stream, SystemLayout};
use wasmi::errors::{ErrorKind, HostError, InstantiationError};
use wasmi::{
    Caller, Engine, Error, Extern, ExternType, Func, FuncType, Instance, Memory, Module, ResumableCall, Store,
    StoreLimits, StoreLimitsBuilder, TrapCode, Val,
};

/// Fuel of one slice: after it, the copy checks its time and whether the run was cancelled. Some milliseconds.
const SLICE_FUEL: u64 = 1 << 20;
/// Fuel that a system call has: enough for each of them, so that it never stops in the middle. The program pays for it
/// afterwards, so that many long calls end its slice.
const SYSTEM_FUEL: u64 = u64::MAX >> 1;

/// What all copies of a run share.
pub(crate) struct SharedRun<'a> {
    pub engine: &'a Engine,
    /// The system module with the memory of `layout`; `None` for a program without system calls.
    pub system: Option<&'a Module>,
    pub layout: &'a SystemLayout,
    pub limits: &'a Limits,
    pub function: &'a str,
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Why a copy has no result.
#[derive(Debug)]
pub(crate) enum CopyError {
    Cancelled,
    Failed(String),
}

impl From<Error> for CopyError {
    fn from(e: Error) -> Self {
        Self::Failed(e.to_string())
    }
}

/// The end of a copy, with the offset of the last instruction that could trap if the program notes it.
pub(crate) struct CopyResult {
    pub run: ProgramRun,
    pub place: Option<u64>,
}

/// The call of `kinescope_host.exit`.
#[derive(Debug)]
struct HostExit {
    kind: u32,
    code: u32,
}

impl std::fmt::Display for HostExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {} with code {}", self.kind, self.code)
    }
}

impl HostError for HostExit {}

/// The data of a copy's host functions.
struct CopyData<'a> {
    shared: &'a SharedRun<'a>,
    /// Exports of the system module that serve the program's imports, in their order.
    served: Vec<Func>,
    requests: std::slice::Iter<'a, Vec<u8>>,
    standard_output: Vec<u8>,
    standard_error: Vec<u8>,
    limits: StoreLimits,
}

/// Returns the limits of a copy's instances: the program's memory has at most `max_bytes`.
fn store_limits(max_bytes: usize) -> StoreLimits {
    StoreLimitsBuilder::new()
        .memory_size(max_bytes)
        .instances(4)
        .memories(4)
        .tables(4)
        .build()
}

/// Runs one copy of `program` to its end.
///
/// `system_memory` is the start of the system module's memory. Without fuel, only the time limit holds.
pub(crate) fn run_copy(
    shared: &SharedRun<'_>,
    program: &Module,
    input: &Input,
    system_memory: &[u8],
    fuel: Option<u64>,
) -> Result<CopyResult, CopyError> {
    let max_bytes = (shared.limits.memory_pages as usize).saturating_mul(1 << 16);
    let data = CopyData {
        shared,
        served: Vec::new(),
        requests: input.more_requests.iter(),
        standard_output: Vec::new(),
        standard_error: Vec::new(),
        limits: store_limits(max_bytes),
    };
    let mut store = Store::new(shared.engine, data);
    store.limiter(|data| &mut data.limits);
    store.set_fuel(SYSTEM_FUEL)?;
    let instance = match instantiate(&mut store, program) {
        Ok(instance) => instance,
        // Segments outside memory or table trap before the first instruction.
        Err(e) => match instantiation_trap(&e) {
            Some(kind) => return Ok(unstarted(kind)),
            None => return Err(e.into()),
        },
    };
    let memory = start_system(&mut store, &instance, program, system_memory)?;
    let functions = [START_EXPORT, INITIALIZE_FUNCTION, shared.function];
    let mut functions: Vec<Func> = functions
        .iter()
        .filter_map(|name| instance.get_func(&store, name))
        .collect();
    functions.dedup_by_key(|f| format!("{f:?}"));
    let mut budget = Budget::new(shared, fuel);
    let mut end = RunEnd::Exit(0);
    for function in functions {
        if let Some(early) = budget.call(&mut store, function)? {
            end = early;
            break;
        }
    }
    let place = instance
        .get_global(&store, PLACE_EXPORT)
        .and_then(|g| g.get(&store).i32())
        .and_then(|place| u64::try_from(place).ok());
    let run = finish(store, memory, end)?;
    Ok(CopyResult { run, place })
}

/// Creates the instance of the program. Its imports call the system module, which needs the program's memory first.
fn instantiate(store: &mut Store<CopyData<'_>>, program: &Module) -> Result<Instance, Error> {
    let mut imports = Vec::new();
    for (position, import) in program.imports().enumerate() {
        let ExternType::Func(signature) = import.ty() else {
            return Err(Error::new(format!(
                "{}.{} is not a function",
                import.module(),
                import.name()
            )));
        };
        imports.push(Extern::Func(forward(store, signature.clone(), position)));
    }
    Instance::new(store, program, &imports)
}

/// Creates the host function that forwards an import of the program to the system module.
fn forward<'a>(store: &mut Store<CopyData<'a>>, signature: FuncType, position: usize) -> Func {
    Func::new(
        store,
        signature,
        move |mut caller: Caller<'_, CopyData<'a>>, arguments, results| {
            let function = caller.data().served.get(position).copied();
            let function = function.ok_or_else(|| Error::new("a system call before the start of the program"))?;
            let fuel = caller.get_fuel()?;
            caller.set_fuel(SYSTEM_FUEL)?;
            let result = function.call(&mut caller, arguments, results);
            let used = SYSTEM_FUEL.saturating_sub(caller.get_fuel()?);
            caller.set_fuel(fuel.saturating_sub(used))?;
            result
        },
    )
}

/// Creates the instance of the system module, and returns its memory.
fn start_system<'a>(
    store: &mut Store<CopyData<'a>>,
    instance: &Instance,
    program: &Module,
    system_memory: &[u8],
) -> Result<Option<Memory>, CopyError> {
    let Some(system) = store.data().shared.system else {
        return Ok(None);
    };
    let memory = instance
        .get_memory(&*store, PROGRAM_MEMORY)
        .ok_or_else(|| CopyError::Failed("the program exports no memory".into()))?;
    // The limit is for the program's memory; the size of the other is the host's choice.
    let limits = std::mem::replace(&mut store.data_mut().limits, store_limits(usize::MAX));
    let mut imports = Vec::new();
    for import in system.imports() {
        let host = HostFunction::ALL.into_iter().find(|h| h.name() == import.name());
        imports.push(match host {
            Some(HostFunction::Drain) => Extern::Func(Func::wrap(&mut *store, drain)),
            Some(HostFunction::Next) => Extern::Func(Func::wrap(&mut *store, next)),
            Some(HostFunction::Exit) => Extern::Func(Func::wrap(&mut *store, exit)),
            None => Extern::Memory(memory),
        });
    }
    let instance = Instance::new(&mut *store, system, &imports)?;
    store.data_mut().limits = limits;
    for import in program.imports() {
        let function = wasm_system::find_export(import.module(), import.name())
            .and_then(|name| instance.get_func(&*store, name))
            .ok_or_else(|| CopyError::Failed(format!("no system call {}.{}", import.module(), import.name())))?;
        store.data_mut().served.push(function);
    }
    let own = instance
        .get_memory(&*store, SYSTEM_MEMORY)
        .ok_or_else(|| CopyError::Failed("the system module exports no memory".into()))?;
    own.write(&mut *store, 0, system_memory)
        .map_err(|e| CopyError::Failed(e.to_string()))?;
    Ok(Some(own))
}

/// Returns the memory of the system module that calls a host function.
fn own_memory(caller: &Caller<'_, CopyData<'_>>) -> Result<Memory, Error> {
    let memory = caller.get_export(SYSTEM_MEMORY).and_then(Extern::into_memory);
    memory.ok_or_else(|| Error::new("the system module exports no memory"))
}

fn drain(mut caller: Caller<'_, CopyData<'_>>, stream: i32) -> Result<(), Error> {
    let stream = Stream::from_number(stream.cast_unsigned()).ok_or_else(|| Error::new("an unknown stream"))?;
    let (memory, data) = own_memory(&caller)?.data_and_store_mut(&mut caller);
    let bytes = data.shared.layout.read_stream(memory, stream);
    let bytes = bytes.map_err(|e| Error::new(e.to_string()))?;
    match stream {
        Stream::Output => data.standard_output.extend_from_slice(bytes),
        Stream::Error => data.standard_error.extend_from_slice(bytes),
    }
    Ok(())
}

fn next(mut caller: Caller<'_, CopyData<'_>>) -> Result<i32, Error> {
    let (memory, data) = own_memory(&caller)?.data_and_store_mut(&mut caller);
    let Some(request) = data.requests.next() else {
        return Ok(0);
    };
    let writes = data.shared.layout.encode_request(request);
    for write in writes.map_err(|e| Error::new(e.to_string()))? {
        let to = memory
            .get_mut(write.offset as usize..)
            .and_then(|m| m.get_mut(..write.bytes.len()));
        to.ok_or_else(|| Error::new("a request outside the memory"))?
            .copy_from_slice(&write.bytes);
    }
    Ok(1)
}

fn exit(_caller: Caller<'_, CopyData<'_>>, kind: i32, code: i32) -> Result<(), Error> {
    Err(Error::host(HostExit {
        kind: kind.cast_unsigned(),
        code: code.cast_unsigned(),
    }))
}

/// The rest of the fuel and the time of a copy.
struct Budget<'a> {
    shared: &'a SharedRun<'a>,
    fuel: Option<u64>,
    start: Instant,
}

impl<'a> Budget<'a> {
    fn new(shared: &'a SharedRun<'a>, fuel: Option<u64>) -> Self {
        Self {
            shared,
            fuel,
            start: Instant::now(),
        }
    }

    /// Calls a function without parameters, slice by slice. Returns how the copy ended, or `None` if it goes on.
    fn call(&mut self, store: &mut Store<CopyData<'_>>, function: Func) -> Result<Option<RunEnd>, CopyError> {
        let mut results: Vec<Val> = function
            .ty(&*store)
            .results()
            .iter()
            .map(|t| Val::default_for_ty(*t))
            .collect();
        let mut slice = self.next_slice(0);
        store.set_fuel(slice)?;
        let mut call = function.call_resumable(&mut *store, &[], &mut results);
        loop {
            let left = store.get_fuel()?;
            if let Some(fuel) = &mut self.fuel {
                *fuel = fuel.saturating_sub(slice.saturating_sub(left));
            }
            let stopped = match call {
                Ok(ResumableCall::Finished) => return Ok(None),
                Ok(ResumableCall::HostTrap(trap)) => return end_of(trap.host_error()).map(Some),
                Ok(ResumableCall::OutOfFuel(stopped)) => stopped,
                Err(e) => return end_of(&e).map(Some),
            };
            if (self.shared.is_cancelled)() {
                return Err(CopyError::Cancelled);
            }
            let required = stopped.required_fuel();
            let is_late = self
                .shared
                .limits
                .time
                .is_some_and(|limit| self.start.elapsed() >= limit);
            if is_late || self.fuel.is_some_and(|fuel| fuel < required || fuel == 0) {
                return Ok(Some(trap(TrapKind::TimeLimit)));
            }
            slice = self.next_slice(required);
            store.set_fuel(slice)?;
            call = stopped.resume(&mut *store, &mut results);
        }
    }

    fn next_slice(&self, required: u64) -> u64 {
        let slice = SLICE_FUEL.max(required);
        self.fuel.map_or(slice, |fuel| fuel.min(slice))
    }
}

fn trap(kind: TrapKind) -> RunEnd {
    RunEnd::Trap(Trap { kind, place: None })
}

/// Returns how a copy ended, from the error of its call.
fn end_of(error: &Error) -> Result<RunEnd, CopyError> {
    if let Some(exit) = error.downcast_ref::<HostExit>() {
        return match exit.kind {
            0 => Ok(RunEnd::Exit(exit.code)),
            kind => TrapKind::from_number(kind)
                .map(trap)
                .ok_or_else(|| CopyError::Failed(format!("the system calls gave the unknown trap {kind}"))),
        };
    }
    match trap_kind(error) {
        Some(kind) => Ok(trap(kind)),
        None => Err(CopyError::Failed(error.to_string())),
    }
}

/// Returns the kind of a trap before the first instruction. A segment outside its table has an error of its own.
fn instantiation_trap(error: &Error) -> Option<TrapKind> {
    match error.kind() {
        ErrorKind::Instantiation(InstantiationError::ElementSegmentDoesNotFit { .. }) => {
            Some(TrapKind::TableOutOfBounds)
        }
        _ => trap_kind(error),
    }
}

/// Returns the kind of a trap of the interpreter. It has one kind for all accesses outside a table.
fn trap_kind(error: &Error) -> Option<TrapKind> {
    Some(match error.as_trap_code()? {
        TrapCode::UnreachableCodeReached => TrapKind::Unreachable,
        TrapCode::MemoryOutOfBounds => TrapKind::MemoryOutOfBounds,
        TrapCode::TableOutOfBounds => TrapKind::TableOutOfBounds,
        TrapCode::IndirectCallToNull => TrapKind::UninitializedElement,
        TrapCode::IntegerDivisionByZero => TrapKind::DivideByZero,
        TrapCode::IntegerOverflow => TrapKind::IntegerOverflow,
        TrapCode::BadConversionToInteger => TrapKind::InvalidConversion,
        TrapCode::StackOverflow => TrapKind::CallStackExhausted,
        TrapCode::BadSignature => TrapKind::IndirectCallType,
        TrapCode::OutOfFuel => TrapKind::TimeLimit,
        TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory => return None,
    })
}

fn unstarted(kind: TrapKind) -> CopyResult {
    CopyResult {
        run: ProgramRun {
            end: trap(kind),
            standard_output: Vec::new(),
            standard_error: Vec::new(),
            calls: Vec::new(),
            lost_calls: 0,
        },
        place: None,
    }
}

/// Reads the results of a copy that ended.
fn finish(store: Store<CopyData<'_>>, memory: Option<Memory>, end: RunEnd) -> Result<ProgramRun, CopyError> {
    let results = match memory {
        Some(memory) => {
            let layout = store.data().shared.layout;
            let results = layout.read_results(memory.data(&store));
            Some(results.map_err(|e| CopyError::Failed(e.to_string()))?)
        }
        None => None,
    };
    let data = store.into_data();
    let mut run = ProgramRun {
        end,
        standard_output: data.standard_output,
        standard_error: data.standard_error,
        calls: Vec::new(),
        lost_calls: 0,
    };
    if let Some(results) = results {
        run.standard_output.extend_from_slice(&results.standard_output);
        run.standard_error.extend_from_slice(&results.standard_error);
        run.calls = results.calls;
        run.lost_calls = results.lost_calls;
    }
    Ok(run)
}
