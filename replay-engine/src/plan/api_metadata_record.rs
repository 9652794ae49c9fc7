//! Metadata of an API trace as a part of binary records. The JSON form leaves fields out, which a record cannot.

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use trace_core::recording::{
    Api, ApiTraceMetadata, CallDevice, CallFunction, CallGlobal, CallModule, CallProcess, CallStream, CallWindow,
    CodeKind,
};

/// The fields of a [`CallModule`], in order.
type ModuleRecord = (String, CodeKind, u64, String, Vec<[u32; 2]>, Vec<CallGlobal>, String);
/// The fields of a [`CallFunction`], in order.
type FunctionRecord = ((String, String), Option<u32>, Vec<[u32; 2]>, [u32; 4], Vec<[i32; 2]>);
/// The fields of a [`CallProcess`], in order.
type ProcessRecord = (u32, u32, Vec<String>, bool);
/// The fields of [`ApiTraceMetadata`], in order.
type MetadataRecord = (
    (Api, u32, CallDevice, CallWindow, CallWindow),
    Vec<String>,
    Vec<ModuleRecord>,
    Vec<FunctionRecord>,
    Vec<CallStream>,
    Vec<[u64; 2]>,
    ProcessRecord,
    String,
);

pub fn serialize<S: Serializer>(metadata: &ApiTraceMetadata, to: S) -> Result<S::Ok, S::Error> {
    let m = metadata.clone();
    let module = |c: CallModule| (c.origin, c.kind, c.bytes, c.digest, c.pages, c.globals, c.missing);
    let function = |f: CallFunction| {
        let sizes = [f.registers, f.shared, f.local, f.most_threads];
        ((f.name, f.demangled), f.module, f.parameters, sizes, f.attributes)
    };
    let record: MetadataRecord = (
        (m.api, m.version, m.device, m.window, m.reserved),
        m.names,
        m.modules.into_iter().map(module).collect(),
        m.functions.into_iter().map(function).collect(),
        m.streams,
        m.limits,
        (m.process.number, m.process.parent, m.process.command, m.process.ended),
        m.range,
    );
    record.serialize(to)
}

pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<ApiTraceMetadata, D::Error> {
    let (head, names, modules, functions, streams, limits, process, range) = MetadataRecord::deserialize(from)?;
    let (api, version, device, window, reserved) = head;
    let module = |(origin, kind, bytes, digest, pages, globals, missing): ModuleRecord| CallModule {
        origin,
        kind,
        bytes,
        digest,
        pages,
        globals,
        missing,
    };
    let function = |((name, demangled), module, parameters, sizes, attributes): FunctionRecord| {
        let [registers, shared, local, most_threads] = sizes;
        CallFunction {
            name,
            demangled,
            module,
            parameters,
            registers,
            shared,
            local,
            most_threads,
            attributes,
        }
    };
    let (number, parent, command, ended) = process;
    Ok(ApiTraceMetadata {
        api,
        version,
        device,
        window,
        reserved,
        names,
        modules: modules.into_iter().map(module).collect(),
        functions: functions.into_iter().map(function).collect(),
        streams,
        limits,
        process: CallProcess {
            number,
            parent,
            command,
            ended,
        },
        range,
        // Only runs of WebAssembly programs have them, which are replayed without a plan.
        argument_names: Vec::new(),
        // A plan replays calls, not requests to the kernel driver.
        driver: None,
        clock_start: None,
    })
}
