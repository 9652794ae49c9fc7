//! Arrays of texels, and textures and surfaces over them: copies in all directions, kernels, and errors.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::{ClientResult, Gpu};
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::{check, words};
use cuda_driver::{
    ArrayDescription, Copy3d, CuArray, CuObject, CudaError, MEMORY_ARRAY, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED,
    RESOURCE_ARRAY, RESOURCE_LINEAR, RESOURCE_ROWS, ResourceDescription,
};
use std::ffi::c_void;

/// `CU_AD_FORMAT_UNSIGNED_INT8`.
const FORMAT_U8: u32 = 1;
/// `CU_AD_FORMAT_UNSIGNED_INT32`.
const FORMAT_U32: u32 = 3;
/// `CU_AD_FORMAT_FLOAT`.
const FORMAT_F32: u32 = 0x20;
/// `CUDA_ARRAY3D_LAYERED`.
const LAYERED: u32 = 1;
/// `CUDA_ARRAY3D_SURFACE_LDST`.
const FOR_SURFACES: u32 = 2;
/// `CU_TR_ADDRESS_MODE_CLAMP` and `CU_TR_ADDRESS_MODE_BORDER`.
const CLAMP: u32 = 1;
const BORDER: u32 = 3;
/// Number of texels of a row, of rows, and of slices.
const SIDES: [usize; 3] = [24, 10, 3];

fn text(e: CudaError) -> String {
    e.to_string()
}

/// Returns the driver's code of a call that must fail.
fn code(what: &str, result: Result<(), CudaError>) -> ClientResult<u32> {
    let code = result.err().and_then(|e| e.result());
    code.ok_or_else(|| format!("{what} did not fail"))
}

/// Returns an array's description.
const fn sized(width: usize, height: usize, depth: usize, format: u32, flags: u32) -> ArrayDescription {
    ArrayDescription {
        width,
        height,
        depth,
        format,
        channels: 1,
        flags,
    }
}

/// Memory at one end of a copy.
#[derive(Clone, Copy)]
enum Place {
    Host(*mut c_void),
    Device(u64),
    Unified(u64),
    Array(CuArray),
}

/// One end of a copy: its memory, its position, and the distances of its rows and slices.
#[derive(Clone, Copy)]
struct End {
    place: Place,
    at: [usize; 3],
    pitch: usize,
    rows: usize,
}

impl End {
    /// Returns a whole array.
    const fn array(array: CuArray) -> Self {
        Self::new(Place::Array(array), 0, 0)
    }

    const fn new(place: Place, pitch: usize, rows: usize) -> Self {
        Self {
            place,
            at: [0; 3],
            pitch,
            rows,
        }
    }

    fn host<T>(values: &[T], pitch: usize, rows: usize) -> Self {
        Self::new(Place::Host(values.as_ptr().cast_mut().cast()), pitch, rows)
    }

    const fn at(self, x: usize, y: usize, z: usize) -> Self {
        Self { at: [x, y, z], ..self }
    }

    fn fields(self) -> (u32, *mut c_void, u64, CuArray) {
        let none = std::ptr::null_mut();
        match self.place {
            Place::Host(at) => (MEMORY_HOST, at, 0, none),
            Place::Device(at) => (MEMORY_DEVICE, none, at, none),
            Place::Unified(at) => (MEMORY_UNIFIED, none, at, none),
            Place::Array(array) => (MEMORY_ARRAY, none, 0, array),
        }
    }
}

/// Returns the driver's form of a copy of a box: a width in bytes, rows and slices.
fn boxed(to: End, from: End, [width, height, depth]: [usize; 3]) -> Copy3d {
    let (source_kind, source_host, source_device, source_array) = from.fields();
    let (to_kind, to_host, to_device, to_array) = to.fields();
    Copy3d {
        source_x: from.at[0],
        source_y: from.at[1],
        source_z: from.at[2],
        source_level: 0,
        source_kind,
        source_host,
        source_device,
        source_array,
        reserved0: std::ptr::null_mut(),
        source_pitch: from.pitch,
        source_height: from.rows,
        to_x: to.at[0],
        to_y: to.at[1],
        to_z: to.at[2],
        to_level: 0,
        to_kind,
        to_host,
        to_device,
        to_array,
        reserved1: std::ptr::null_mut(),
        to_pitch: to.pitch,
        to_height: to.rows,
        width,
        height,
        depth,
    }
}

fn copy(gpu: &Gpu, form: &Copy3d) -> Result<(), CudaError> {
    // SAFETY: the memory of each end is as large as the form says, or the driver refuses the copy.
    unsafe { gpu.d.cuMemcpy3D_v2(form) }
}

fn create(gpu: &Gpu, description: &ArrayDescription) -> Result<CuArray, CudaError> {
    let mut array = std::ptr::null_mut();
    // SAFETY: the structure has the driver's form, and the pointer is valid for the answer.
    unsafe {
        gpu.d
            .cuArray3DCreate_v2(&raw mut array, std::ptr::from_ref(description).cast())?;
    }
    Ok(array)
}

fn destroy(gpu: &Gpu, array: CuArray) -> ClientResult {
    // SAFETY: nothing uses the array any more.
    unsafe { gpu.d.cuArrayDestroy(array) }.map_err(text)
}

/// Copies in all directions, textures and surfaces; `--destroyed` uses handles that are gone.
pub fn arrays(w: &mut ProgramContext<'_>) -> ClientResult {
    rows(w)?;
    slices(w)?;
    linear(w)?;
    captured(w)?;
    levels(w)?;
    textures(w)?;
    surfaces(w)?;
    errors(w)?;
    if w.options.has("--destroyed") {
        destroyed(w)?;
    }
    Ok(())
}

/// Copies rows with padding into an array, and a part of the array back, by memory that the driver knows and that it
/// does not.
fn rows(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let [width, height, _] = SIDES;
    let array = create(&gpu, &sized(width, height, 0, FORMAT_U32, 0)).map_err(text)?;
    let values = words(w.options.seed, (width as u32 + 4) * height as u32);
    let pitch = (width + 4) * 4;
    let from = End::host(&values, pitch, height);
    copy(&gpu, &boxed(End::array(array), from, [width * 4, height, 1])).map_err(text)?;
    let part: Vec<u32> = (2..7)
        .flat_map(|y| values[y * (width + 4) + 3..][..8].to_vec())
        .collect();
    let mut got = vec![0u32; 5 * 8];
    let to = End::host(&got, 8 * 4, 5);
    copy(&gpu, &boxed(to, End::array(array).at(12, 2, 0), [8 * 4, 5, 1])).map_err(text)?;
    check("part of the rows", &got, &part)?;
    w.result.give(&got);
    // Pinned memory, in a stream: the same part one row lower.
    let stream = gpu.stream()?;
    let pinned = gpu.pinned(64)?;
    for (place, kind) in [(0, "host"), (1, "unified")] {
        pinned.fill(0);
        let at = pinned.as_mut_ptr();
        let place = match place {
            0 => Place::Host(at.cast()),
            _ => Place::Unified(at.expose_provenance() as u64),
        };
        let form = boxed(
            End::new(place, 10 * 4, 5),
            End::array(array).at(12, 2, 0),
            [8 * 4, 5, 1],
        );
        // SAFETY: the pinned memory has the five rows, and stays until the process ends.
        unsafe { gpu.d.cuMemcpy3DAsync_v2(&raw const form, stream) }.map_err(text)?;
        gpu.finish(stream)?;
        let packed: Vec<u32> = (0..5).flat_map(|y| pinned[y * 10..][..8].to_vec()).collect();
        check(&format!("part in pinned memory ({kind})"), &packed, &part)?;
    }
    got.fill(7);
    pinned[..40].copy_from_slice(&got);
    let at = Place::Unified(pinned.as_mut_ptr().expose_provenance() as u64);
    let form = boxed(End::array(array).at(0, 1, 0), End::new(at, 8 * 4, 5), [8 * 4, 5, 1]);
    // SAFETY: as above.
    unsafe { gpu.d.cuMemcpy3DAsync_v2(&raw const form, stream) }.map_err(text)?;
    gpu.finish(stream)?;
    let row = vec![0u32; width];
    let to = End::host(&row, width * 4, 1);
    copy(&gpu, &boxed(to, End::array(array).at(0, 3, 0), [width * 4, 1, 1])).map_err(text)?;
    let mut right = values[3 * (width + 4)..][..width].to_vec();
    right[..8].fill(7);
    check("row from pinned memory", &row, &right)?;
    w.result.give(&row);
    destroy(&gpu, array)
}

/// Copies boxes between device memory and arrays with slices, and between arrays.
fn slices(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let [width, height, depth] = SIDES;
    let volume = create(&gpu, &sized(width, height, depth, FORMAT_U32, 0)).map_err(text)?;
    let layers = create(&gpu, &sized(width, height, depth, FORMAT_U32, LAYERED)).map_err(text)?;
    let values = words(w.options.seed ^ 1, (width * height * depth) as u32);
    let whole = [width * 4, height, depth];
    let device = gpu.upload_new(&values)?;
    let linear = End::new(Place::Device(device), width * 4, height);
    copy(&gpu, &boxed(End::array(volume), linear, whole)).map_err(text)?;
    copy(&gpu, &boxed(End::array(layers), End::array(volume), whole)).map_err(text)?;
    // The last two slices go to the first ones, two rows higher.
    let inner = [width * 4, height - 2, 2];
    let form = boxed(End::array(volume), End::array(layers).at(0, 2, 1), inner);
    copy(&gpu, &form).map_err(text)?;
    let mut right = values.clone();
    for z in 0..2 {
        for y in 0..height - 2 {
            let from = ((z + 1) * height + y + 2) * width;
            let to = (z * height + y) * width;
            right[to..to + width].copy_from_slice(&values[from..from + width]);
        }
    }
    let got = vec![0u32; values.len()];
    copy(
        &gpu,
        &boxed(End::host(&got, width * 4, height), End::array(volume), whole),
    )
    .map_err(text)?;
    check("slices", &got, &right)?;
    w.result.give(&got);
    copy(&gpu, &boxed(linear, End::array(layers), whole)).map_err(text)?;
    check("layers", &gpu.download::<u32>(device, values.len())?, &values)?;
    for (array, flags) in [(volume, 0), (layers, LAYERED)] {
        let mut description = ArrayDescription::default();
        // SAFETY: the pointer is valid for the answer.
        unsafe { gpu.d.cuArray3DGetDescriptor_v2((&raw mut description).cast(), array) }.map_err(text)?;
        check(
            "description",
            &[description],
            &[sized(width, height, depth, FORMAT_U32, flags)],
        )?;
        destroy(&gpu, array)?;
    }
    gpu.free(device)
}

/// Copies consecutive bytes of arrays with one dimension.
fn linear(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let n = 256;
    let description: [u64; 3] = [n as u64, 0, u64::from(FORMAT_U32) | 1 << 32];
    let mut array = std::ptr::null_mut();
    // SAFETY: the structure has the driver's form, and the pointer is valid for the answer.
    unsafe { gpu.d.cuArrayCreate_v2(&raw mut array, description.as_ptr().cast()) }.map_err(text)?;
    let mut described = [0u64; 3];
    // SAFETY: the pointer is valid for the answer.
    unsafe { gpu.d.cuArrayGetDescriptor_v2(described.as_mut_ptr().cast(), array) }.map_err(text)?;
    check("description of an array with one dimension", &described, &description)?;
    let other = create(&gpu, &sized(n, 0, 0, FORMAT_U32, 0)).map_err(text)?;
    let values = words(w.options.seed ^ 2, n as u32);
    let mut got = vec![0u32; n];
    let stream = gpu.stream()?;
    let pinned = gpu.pinned(n)?;
    pinned.copy_from_slice(&values);
    let bytes = n * 4;
    let device = gpu.alloc(bytes)?;
    let (from, to) = (values.as_ptr().cast(), got.as_mut_ptr().cast());
    // SAFETY: all memory has the sizes that are passed, and stays during the copies.
    unsafe {
        let d = gpu.d;
        d.cuMemcpyHtoA_v2(array, 0, from, bytes).map_err(text)?;
        // The second half goes to the first half, and the whole to the host, to device memory and back.
        d.cuMemcpyAtoA_v2(other, 0, array, bytes / 2, bytes / 2).map_err(text)?;
        d.cuMemcpyAtoD_v2(device, array, 0, bytes).map_err(text)?;
        d.cuMemcpyDtoA_v2(other, bytes / 2, device, bytes / 2).map_err(text)?;
        d.cuMemcpyAtoH_v2(to, other, 0, bytes).map_err(text)?;
    }
    let right: Vec<u32> = values[n / 2..].iter().chain(&values[..n / 2]).copied().collect();
    check("halves", &got, &right)?;
    w.result.give(&got);
    let at: *mut u32 = pinned.as_mut_ptr();
    // SAFETY: as above.
    unsafe {
        let d = gpu.d;
        d.cuMemcpyHtoAAsync_v2(other, 8, at.cast(), bytes - 8, stream)
            .map_err(text)?;
        d.cuMemcpyAtoHAsync_v2(at.cast(), other, 4, bytes - 8, stream)
            .map_err(text)?;
        gpu.finish(stream)?;
        // Memory that the driver does not know, in a stream.
        d.cuMemcpyAtoHAsync_v2(to, other, 0, 16, stream).map_err(text)?;
        gpu.finish(stream)?;
    }
    let moved: Vec<u32> = std::iter::once(right[1]).chain(values[..n - 3].to_vec()).collect();
    check("bytes in a stream", &pinned[..n - 2], &moved)?;
    check("first bytes", &got[..4], &[right[0], right[1], values[0], values[1]])?;
    w.result.give(&pinned[..n - 2]);
    destroy(&gpu, array)?;
    destroy(&gpu, other)?;
    gpu.free(device)
}

/// Captures copies of an array, and adds one to a graph by hand.
fn captured(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let [width, height, _] = SIDES;
    let n = width * height;
    let size = [width * 4, height, 1];
    let array = create(&gpu, &sized(width, height, 0, FORMAT_U32, 0)).map_err(text)?;
    let values = words(w.options.seed ^ 3, n as u32);
    let (input, output) = (gpu.pinned(n)?, gpu.pinned(n)?);
    let stream = gpu.stream()?;
    let host = |at: *mut u32| End::new(Place::Host(at.cast()), width * 4, height);
    let to_array = boxed(End::array(array), host(input.as_mut_ptr()), size);
    let from_array = boxed(host(output.as_mut_ptr()), End::array(array), size);
    let (mut graph, mut exec, mut node) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let mut described = to_array;
    // SAFETY: pinned memory stays until the process ends, the handles are the driver's, and the pointers are valid for
    // the answers.
    unsafe {
        let d = gpu.d;
        d.cuStreamBeginCapture_v2(stream, 0).map_err(text)?;
        d.cuMemcpy3DAsync_v2(&raw const to_array, stream).map_err(text)?;
        d.cuMemcpy3DAsync_v2(&raw const from_array, stream).map_err(text)?;
        d.cuStreamEndCapture(stream, &raw mut graph).map_err(text)?;
        let mut context = std::ptr::null_mut();
        d.cuCtxGetCurrent(&raw mut context).map_err(text)?;
        // A graph of one node, with the same copy to the array.
        let (mut one, none) = (std::ptr::null_mut(), std::ptr::null());
        d.cuGraphCreate(&raw mut one, 0).map_err(text)?;
        d.cuGraphAddMemcpyNode(&raw mut node, one, none, 0, &raw const to_array, context)
            .map_err(text)?;
        d.cuGraphMemcpyNodeGetParams(node, &raw mut described).map_err(text)?;
        d.cuGraphDestroy(one).map_err(text)?;
        d.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0).map_err(text)?;
    }
    let ends = (described.to_kind, described.to_array, described.source_kind);
    if ends != (MEMORY_ARRAY, array, MEMORY_HOST) {
        return Err(format!("the node is described as {described:?}"));
    }
    for factor in [1, 3] {
        let right: Vec<u32> = values.iter().map(|v| v.wrapping_mul(factor)).collect();
        input.copy_from_slice(&right);
        // SAFETY: the handles are the driver's.
        unsafe { gpu.d.cuGraphLaunch(exec, stream) }.map_err(text)?;
        gpu.finish(stream)?;
        check("captured copies", output, &right)?;
        w.result.give(output);
    }
    // SAFETY: nothing runs any more.
    unsafe {
        gpu.d.cuGraphExecDestroy(exec).map_err(text)?;
        gpu.d.cuGraphDestroy(graph).map_err(text)?;
    }
    destroy(&gpu, array)
}

/// Copies to and from the levels of an array.
fn levels(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let (mut mipmapped, width, height) = (std::ptr::null_mut(), 16, 8);
    let description = sized(width, height, 0, FORMAT_F32, 0);
    let at = (&raw const description).cast();
    // SAFETY: the structure has the driver's form, and the pointer is valid for the answer.
    unsafe { gpu.d.cuMipmappedArrayCreate(&raw mut mipmapped, at, 3) }.map_err(text)?;
    for number in 0..3u32 {
        let mut level = std::ptr::null_mut();
        let mut described = ArrayDescription::default();
        // SAFETY: the array is the driver's, and the pointers are valid for the answers.
        unsafe {
            gpu.d
                .cuMipmappedArrayGetLevel(&raw mut level, mipmapped, number)
                .map_err(text)?;
            gpu.d
                .cuArray3DGetDescriptor_v2((&raw mut described).cast(), level)
                .map_err(text)?;
        }
        let (width, height) = (width >> number, height >> number);
        check(
            "sizes of a level",
            &[described.width, described.height],
            &[width, height],
        )?;
        let values = words(w.options.seed ^ number, (width * height) as u32);
        let got = vec![0u32; values.len()];
        let size = [width * 4, height, 1];
        copy(
            &gpu,
            &boxed(End::array(level), End::host(&values, width * 4, height), size),
        )
        .map_err(text)?;
        copy(
            &gpu,
            &boxed(End::host(&got, width * 4, height), End::array(level), size),
        )
        .map_err(text)?;
        check("level", &got, &values)?;
        w.result.give(&got);
    }
    let mut level = std::ptr::null_mut();
    // SAFETY: as above. The array has no level of this number, and nothing uses the array any more.
    unsafe {
        let none = gpu.d.cuMipmappedArrayGetLevel(&raw mut level, mipmapped, 9);
        println!("level 9: {}", code("the level", none)?);
        gpu.d.cuMipmappedArrayDestroy(mipmapped).map_err(text)
    }
}

/// Creates a texture that reads the texel at a position, without filters.
fn texture(gpu: &Gpu, resource: &ResourceDescription, edge: u32) -> Result<CuObject, CudaError> {
    let mut description = [0u32; 26];
    description[..3].fill(edge);
    let mut object = 0;
    // SAFETY: the structures have the driver's forms, and the pointer is valid for the answer.
    unsafe {
        gpu.d.cuTexObjectCreate(
            &raw mut object,
            std::ptr::from_ref(resource).cast(),
            description.as_ptr().cast(),
            std::ptr::null(),
        )?;
    }
    Ok(object)
}

const fn of_array(array: u64) -> ResourceDescription {
    ResourceDescription {
        kind: RESOURCE_ARRAY,
        pad: 0,
        memory: array,
        format: 0,
        channels: 0,
        sizes: [0; 3],
        reserved: [0; 11],
        flags: 0,
    }
}

/// Reads textures over consecutive bytes, rows, and an array.
fn textures(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let [width, height, _] = SIDES;
    let n = width * height;
    let code = gpu.load(include_str!("../../ptx/arrays.ptx"))?;
    let (read_texels, read_plane) = (gpu.function(code, "read_texels")?, gpu.function(code, "read_plane")?);
    let values: Vec<f32> = words(w.options.seed ^ 4, n as u32)
        .iter()
        .map(|v| (v % 4096) as f32)
        .collect();
    let out = gpu.alloc(n * 4)?;

    let floats = gpu.upload_new(&values)?;
    let linear = ResourceDescription {
        kind: RESOURCE_LINEAR,
        memory: floats,
        format: FORMAT_F32,
        channels: 1,
        sizes: [n as u64 * 4, 0, 0],
        ..ResourceDescription::default()
    };
    let object = texture(&gpu, &linear, CLAMP).map_err(text)?;
    let arguments = [U64(out), U64(object), U32(n as u32)];
    gpu.launch_for_each(read_texels, n as u32, &arguments)?;
    let right: Vec<f32> = values.iter().rev().copied().collect();
    let got: Vec<f32> = gpu.download(out, n)?;
    check("texels of linear memory", &got, &right)?;
    w.result.give(&got);
    describe(&gpu, object, &linear)?;
    // SAFETY: nothing uses the object any more.
    unsafe { gpu.d.cuTexObjectDestroy(object) }.map_err(text)?;

    let (mut rows, mut pitch) = (0, 0);
    // SAFETY: the pointers are valid for the answers.
    unsafe {
        gpu.d
            .cuMemAllocPitch_v2(&raw mut rows, &raw mut pitch, width * 4, height, 4)
    }
    .map_err(text)?;
    let array = create(&gpu, &sized(width, height, 0, FORMAT_F32, 0)).map_err(text)?;
    let from = End::host(&values, width * 4, height);
    let size = [width * 4, height, 1];
    let padded = End::new(Place::Device(rows), pitch, height);
    copy(&gpu, &boxed(padded, from, size)).map_err(text)?;
    copy(&gpu, &boxed(End::array(array), padded, size)).map_err(text)?;
    let of_rows = ResourceDescription {
        kind: RESOURCE_ROWS,
        memory: rows,
        format: FORMAT_F32,
        channels: 1,
        sizes: [width as u64, height as u64, pitch as u64],
        ..ResourceDescription::default()
    };
    for (resource, edge) in [(of_rows, BORDER), (of_array(array.addr() as u64), CLAMP)] {
        let object = texture(&gpu, &resource, edge).map_err(text)?;
        let arguments = [U64(out), U64(object), U32(width as u32), U32(n as u32)];
        gpu.launch_for_each(read_plane, n as u32, &arguments)?;
        let right: Vec<f32> = (0..n)
            .map(|i| match (i % width, i / width) {
                (x, y) if edge == BORDER && (x == 0 || y == 0) => 0.0,
                (x, y) => values[y.saturating_sub(1) * width + x.saturating_sub(1)],
            })
            .collect();
        let got: Vec<f32> = gpu.download(out, n)?;
        check("texels of a plane", &got, &right)?;
        w.result.give(&got);
        describe(&gpu, object, &resource)?;
        // SAFETY: as above.
        unsafe { gpu.d.cuTexObjectDestroy(object) }.map_err(text)?;
    }
    destroy(&gpu, array)?;
    [out, floats, rows].iter().try_for_each(|at| gpu.free(*at))
}

/// Checks what the driver says about a texture object.
fn describe(gpu: &Gpu, object: CuObject, resource: &ResourceDescription) -> ClientResult {
    let mut described = ResourceDescription::default();
    let mut texture = [u32::MAX; 26];
    // SAFETY: the object is the driver's, and the pointers are valid for the answers.
    unsafe {
        gpu.d
            .cuTexObjectGetResourceDesc((&raw mut described).cast(), object)
            .map_err(text)?;
        gpu.d
            .cuTexObjectGetTextureDesc(texture.as_mut_ptr().cast(), object)
            .map_err(text)?;
    }
    let fields = |r: &ResourceDescription| match r.kind {
        RESOURCE_ARRAY => (r.kind, r.memory, 0, 0, [0; 3]),
        RESOURCE_LINEAR => (r.kind, r.memory, r.format, r.channels, [r.sizes[0], 0, 0]),
        _ => (r.kind, r.memory, r.format, r.channels, r.sizes),
    };
    check("resource of a texture", &[fields(&described)], &[fields(resource)])?;
    // Two sides have the mode, and the filter reads one texel.
    check(
        "modes of a texture",
        &[texture[0] == texture[1], texture[3] == 0],
        &[true; 2],
    )
}

/// Changes an array by a surface.
fn surfaces(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let [width, height, _] = SIDES;
    let n = width * height;
    let code = gpu.load(include_str!("../../ptx/arrays.ptx"))?;
    let change_plane = gpu.function(code, "change_plane")?;
    let array = create(&gpu, &sized(width, height, 0, FORMAT_U32, FOR_SURFACES)).map_err(text)?;
    let values = words(w.options.seed ^ 5, n as u32);
    let size = [width * 4, height, 1];
    copy(
        &gpu,
        &boxed(End::array(array), End::host(&values, width * 4, height), size),
    )
    .map_err(text)?;
    let resource = of_array(array.addr() as u64);
    let mut described = ResourceDescription::default();
    let mut surface = 0;
    // SAFETY: the structure has the driver's form, and the pointers are valid for the answers.
    unsafe {
        gpu.d
            .cuSurfObjectCreate(&raw mut surface, (&raw const resource).cast())
            .map_err(text)?;
        gpu.d
            .cuSurfObjectGetResourceDesc((&raw mut described).cast(), surface)
            .map_err(text)?;
    }
    check(
        "resource of a surface",
        &[(described.kind, described.memory)],
        &[(RESOURCE_ARRAY, resource.memory)],
    )?;
    let arguments = [U64(surface), U32(width as u32), U32(n as u32)];
    gpu.launch(change_plane, n.div_ceil(128) as u32, 128, DEFAULT, &arguments)?;
    let got = vec![0u32; n];
    copy(
        &gpu,
        &boxed(End::host(&got, width * 4, height), End::array(array), size),
    )
    .map_err(text)?;
    let right: Vec<u32> = values
        .iter()
        .zip(0..)
        .map(|(v, i)| v.wrapping_mul(3).wrapping_add(i))
        .collect();
    check("words of a surface", &got, &right)?;
    w.result.give(&got);
    // SAFETY: nothing uses the surface any more.
    unsafe { gpu.d.cuSurfObjectDestroy(surface) }.map_err(text)?;
    destroy(&gpu, array)
}

/// Prints the errors of sizes that no array has, and of copies beyond the edges.
fn errors(w: &ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let [width, height, _] = SIDES;
    let no_width = create(&gpu, &sized(0, height, 0, FORMAT_U32, 0)).map(drop);
    println!("no width: {}", code("an array without width", no_width)?);
    let three = ArrayDescription {
        channels: 3,
        ..sized(width, height, 0, FORMAT_U8, 0)
    };
    println!(
        "three channels: {}",
        code("an array of three channels", create(&gpu, &three).map(drop))?
    );
    let array = create(&gpu, &sized(width, height, 0, FORMAT_U32, 0)).map_err(text)?;
    let values = vec![0u32; width * height * 2];
    for (what, at, size) in [
        ("beyond a row", [4, 0, 0], [width * 4, 1, 1]),
        ("beyond the rows", [0, 1, 0], [4, height, 1]),
        ("beyond the slices", [0, 0, 1], [4, 1, 1]),
    ] {
        let end = End::array(array).at(at[0], at[1], at[2]);
        let refused = copy(&gpu, &boxed(end, End::host(&values, width * 4, height), size));
        println!("{what}: {}", code(what, refused)?);
        let refused = copy(&gpu, &boxed(End::host(&values, width * 4, height), end, size));
        println!("{what}, from the array: {}", code(what, refused)?);
    }
    let none = texture(&gpu, &of_array(0), CLAMP).map(drop);
    println!(
        "texture without an array: {}",
        code("a texture without an array", none)?
    );
    destroy(&gpu, array)
}

/// Prints the errors of handles that are gone. Drivers may end the process instead.
fn destroyed(w: &ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let [width, height, _] = SIDES;
    let array = create(&gpu, &sized(width, height, 0, FORMAT_U32, 0)).map_err(text)?;
    let object = texture(&gpu, &of_array(array.addr() as u64), CLAMP).map_err(text)?;
    let mut described = ResourceDescription::default();
    let at = (&raw mut described).cast();
    // SAFETY: the pointer is valid for the answer, and the stand-in checks objects.
    unsafe {
        gpu.d.cuTexObjectDestroy(object).map_err(text)?;
        let again = gpu.d.cuTexObjectDestroy(object);
        println!("texture, destroyed again: {}", code("a destroyed texture", again)?);
        let asked = gpu.d.cuTexObjectGetResourceDesc(at, object);
        println!("destroyed texture, described: {}", code("a destroyed texture", asked)?);
        let surface = gpu.d.cuSurfObjectDestroy(object);
        println!("texture as a surface: {}", code("a texture as a surface", surface)?);
    }
    destroy(&gpu, array)?;
    let values = vec![0u32; width];
    let size = [width * 4, 1, 1];
    let gone = copy(&gpu, &boxed(End::array(array), End::host(&values, width * 4, 1), size));
    println!("copy to a destroyed array: {}", code("a copy", gone)?);
    let gone = texture(&gpu, &of_array(array.addr() as u64), CLAMP).map(drop);
    println!("texture of a destroyed array: {}", code("a texture", gone)?);
    // SAFETY: as above.
    unsafe {
        let again = gpu.d.cuArrayDestroy(array);
        println!("array, destroyed again: {}", code("a destroyed array", again)?);
        let asked = gpu.d.cuArray3DGetDescriptor_v2(at, array);
        println!("destroyed array, described: {}", code("a destroyed array", asked)?);
        // A level ends with its array alone.
        let (mut mipmapped, mut level) = (std::ptr::null_mut(), std::ptr::null_mut());
        let description = sized(16, 8, 0, FORMAT_F32, 0);
        gpu.d
            .cuMipmappedArrayCreate(&raw mut mipmapped, (&raw const description).cast(), 2)
            .map_err(text)?;
        gpu.d
            .cuMipmappedArrayGetLevel(&raw mut level, mipmapped, 1)
            .map_err(text)?;
        println!("level, destroyed: {}", code("a level", gpu.d.cuArrayDestroy(level))?);
        gpu.d.cuMipmappedArrayDestroy(mipmapped).map_err(text)?;
        let asked = gpu.d.cuArray3DGetDescriptor_v2(at, level);
        println!("level of a destroyed array: {}", code("a level", asked)?);
    }
    Ok(())
}
