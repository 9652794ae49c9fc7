//! Seeds of the fuzz target for messages of CUDA API remoting.

use super::seed::Add;
use remote_calls::library::{
    LibraryArgument, LibraryArguments, LibraryFunction, LibraryHandle, NvidiaLibrary, OpenLibrary, ReadGenerated,
    ResultPart, ScalarPart,
};
use remote_calls::message::{
    ArrayCopy, ArrayCopyDirection, BeginSession, CaptureInfo, CodeImage, CopyToDevice, CopyToHost, CreateTexture,
    DescribeObject, DeviceSnapshot, FunctionDescription, FunctionList, FunctionLookup, HostFunctionForm, HostPart,
    JitOption, Launch, LaunchAttributeValue, LaunchHostFunction, LoadAnswer, LoadCode, MemoryCopy, MemoryPlace,
    MemorySide, ObjectKind, ObjectMemory, ObjectResource, ParameterPlace, Snapshot, TEXTURE_WORDS, VIEW_WORDS,
};
use remote_calls::{
    AnswerHeader, CallId, Encoder, HandleKind, HandleNumber, RequestFlags, RequestHeader, TABLE_DIGEST,
};

/// Adds the seeds.
pub(super) fn add(add: Add<'_>) {
    let mut seed = |kind: u8, name: &'static str, write: &dyn Fn(&mut Encoder)| {
        let mut encoder = Encoder::default();
        encoder.write(kind);
        write(&mut encoder);
        add("remote_calls", name, encoder.into_buffer());
    };
    let handle = |kind| HandleNumber::from_client(kind, 1).unwrap_or_default();
    let (stream, module) = (handle(HandleKind::Stream), handle(HandleKind::Module));
    let staging = HostPart::Staging { ticket: 1, offset: 64 };
    let function = FunctionDescription {
        handle: handle(HandleKind::Function),
        name: "vector_add".to_owned(),
        max_threads: 1024,
        shared_bytes: 64,
        parameters: vec![ParameterPlace { offset: 0, bytes: 8 }; 3],
    };
    let side = MemorySide {
        place: MemoryPlace::Window(4096),
        x: 4,
        y: 1,
        z: 0,
        level: 0,
        pitch: 512,
        layer_rows: 16,
    };
    seed(0, "answer", &|e| AnswerHeader::default().write(e));
    seed(1, "begin", &|e| {
        let (table, program, process) = (TABLE_DIGEST, "matmul", 7);
        BeginSession {
            table,
            program,
            process,
        }
        .write(e);
    });
    for (name, source) in [
        ("to-device-inline", HostPart::Inline(&[1, 2, 3])),
        ("to-device-staging", staging),
    ] {
        let (to, bytes) = (0x7000_0000, 3);
        seed(2, name, &|e| {
            CopyToDevice {
                to,
                bytes,
                stream,
                source,
            }
            .write(e)
        });
    }
    seed(3, "to-host-window", &|e| {
        let (from, bytes, target) = (0x7000_0000, 3, HostPart::Window(4096));
        CopyToHost {
            from,
            bytes,
            stream,
            target,
        }
        .write(e);
    });
    seed(4, "function", &|e| function.write(e));
    seed(5, "functions", &|e| {
        let functions = vec![function.clone(); 2];
        FunctionList { functions }.write(e);
    });
    seed(6, "lookup", &|e| {
        FunctionLookup {
            owner: module,
            name: "add",
        }
        .write(e)
    });
    seed(9, "launch", &|e| {
        Launch {
            function: handle(HandleKind::Function),
            grid: [1, 2, 3],
            block: [4, 5, 6],
            shared: 48,
            stream,
            attributes: Some(vec![LaunchAttributeValue { id: 4, value: [2; 8] }]),
            cooperative: true,
            arguments: &[1, 2, 3, 4],
        }
        .write(e);
    });
    seed(10, "host-function", &|e| {
        let form = HostFunctionForm::Callback;
        LaunchHostFunction { id: 3, stream, form }.write(e);
    });
    seed(11, "logs", &|e| {
        LoadAnswer {
            info: b"info",
            error: b"error",
        }
        .write(e)
    });
    for (name, image) in [
        ("load-inline", CodeImage::Inline(b"// ptx\0")),
        ("load-collected", CodeImage::Collected(9)),
    ] {
        let options = vec![JitOption { kind: 4, value: 8192 }];
        seed(12, name, &|e| {
            let options = options.clone();
            LoadCode {
                handle: module,
                options,
                image,
            }
            .write(e);
        });
    }
    seed(13, "box", &|e| {
        let target = MemorySide {
            place: MemoryPlace::Array(handle(HandleKind::Array)),
            ..side
        };
        let (source, width, height, depth) = (side, 16, 4, 2);
        MemoryCopy {
            source,
            target,
            width,
            height,
            depth,
        }
        .write(e);
    });
    seed(14, "snapshot", &|e| {
        let device = DeviceSnapshot {
            name: "GPU".to_owned(),
            total_bytes: 1 << 30,
            uuid: [7; 16],
            attributes: vec![None, Some(1024)],
        };
        Snapshot {
            driver_version: 13_000,
            is_relayed: true,
            devices: vec![device],
        }
        .write(e);
    });
    let object = LibraryHandle::from_number(3);
    let (value, at) = (
        LibraryArgument::Value(&[2, 0, 0, 0]),
        LibraryArgument::Address(0x7000_0000),
    );
    seed(15, "scale", &|e| {
        let scalar = LibraryArgument::Scalar(ScalarPart::Host(&[0, 0, 128, 63]));
        LibraryArguments {
            function: LibraryFunction::cublasSscal_v2,
            arguments: vec![LibraryArgument::Handle(object), value, scalar, at, value],
        }
        .write(e);
    });
    seed(15, "generate", &|e| {
        let target = LibraryArgument::Result(ResultPart::Device(0x7000_0000));
        let count = LibraryArgument::Value(&[8, 0, 0, 0, 0, 0, 0, 0]);
        LibraryArguments {
            function: LibraryFunction::curandGenerateUniform,
            arguments: vec![LibraryArgument::Handle(object), target, count],
        }
        .write(e);
    });
    seed(16, "open", &|e| {
        let (library, major) = (NvidiaLibrary::Cublas, 13);
        OpenLibrary { library, major }.write(e);
    });
    seed(18, "numbers", &|e| {
        let (generator, offset) = (object, 65_536);
        ReadGenerated { generator, offset }.write(e);
    });
    let rows = ObjectResource {
        memory: ObjectMemory::Rows {
            at: 0x7000_0000,
            texel: [32, 1],
            width: 16,
            height: 8,
            pitch: 512,
        },
        flags: 0,
    };
    seed(20, "texture", &|e| {
        CreateTexture {
            resource: rows,
            texture: [1; TEXTURE_WORDS],
            view: Some([0; VIEW_WORDS]),
        }
        .write(e);
    });
    seed(21, "array-copy", &|e| {
        ArrayCopy {
            direction: ArrayCopyDirection::FromArray,
            array: handle(HandleKind::Array),
            offset: 16,
            host: 4096,
            bytes: 64,
            stream,
        }
        .write(e);
    });
    seed(22, "capture", &|e| {
        CaptureInfo {
            status: 1,
            id: 7,
            graph: handle(HandleKind::Graph),
            nodes: vec![handle(HandleKind::GraphNode); 2],
            edges: vec![0; 2],
        }
        .write(e);
    });
    seed(23, "object", &|e| {
        let (kind, object) = (ObjectKind::Surface, 9);
        DescribeObject { kind, object }.write(e);
    });
    for (name, memory) in [
        ("resource-rows", rows.memory),
        ("resource-array", ObjectMemory::Array(handle(HandleKind::Array))),
        (
            "resource-levels",
            ObjectMemory::MipmappedArray(handle(HandleKind::MipmappedArray)),
        ),
    ] {
        seed(24, name, &|e| ObjectResource { memory, flags: 0 }.write(e));
    }
    seed(255, "request", &|e| {
        let header = RequestHeader {
            call: CallId::launch,
            flags: RequestFlags::ANSWERED,
            thread: 1,
            sequence: 9,
            context: handle(HandleKind::Context),
        };
        e.write_raw(&header.to_bytes());
    });
}
