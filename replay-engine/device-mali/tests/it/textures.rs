//! Tests that decode the descriptors of Mesa's driver like Mesa's own decoder, and fetch the texels.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device_mali::texture::{
    Arch, Attribute, Channel, Derivatives, FetchRequest, Operation, Ordering, RegisterFormat, SampleRequest, Sampler,
    Shape, TexMemory, Texture, fetch, format_name, sample,
};
use serde_json::Value;
use std::path::PathBuf;
use trace_core::GpuVa;

/// Buffers of a submit by address.
struct Submit {
    folder: PathBuf,
    job: Value,
    buffers: Vec<(GpuVa, Vec<u8>)>,
}

fn address(v: &Value) -> GpuVa {
    GpuVa::new(u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap())
}

fn submit(name: &str) -> Option<Submit> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    );
    let folder = root.join("panfrost").join(name);
    if !folder.is_dir() {
        println!("skipped: {} is missing", folder.display());
        return None;
    }
    let read = |f: &str| serde_json::from_slice::<Value>(&std::fs::read(folder.join(f)).unwrap()).unwrap();
    let (spec, submit) = (read("spec.json"), read("submit000.json"));
    let buffers = submit["bos"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|b| b["heap"] == false)
        .map(|b| {
            let bytes = match b["file"].as_str() {
                Some(f) => std::fs::read(folder.join(f)).unwrap(),
                None => vec![0; b["size"].as_u64().unwrap() as usize],
            };
            (address(&b["va"]), bytes)
        });
    Some(Submit {
        buffers: buffers.collect(),
        job: spec["submits"][0]["jobs"][0].clone(),
        folder,
    })
}

impl TexMemory for Submit {
    type Error = GpuVa;

    fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), GpuVa> {
        let inside = self.buffers.iter().find_map(|(base, bytes)| {
            let from = usize::try_from(va.offset_from(*base)?).ok()?;
            bytes.get(from..from.checked_add(out.len())?)
        });
        out.copy_from_slice(inside.ok_or(va)?);
        Ok(())
    }
}

/// Returns a lookup of values by name in Mesa's text, from the first line that equals `from`.
fn find_mesa_values(s: &Submit, from: &str) -> impl Fn(&str) -> String + use<> {
    let text = std::fs::read_to_string(s.folder.join("pandecode.ctx-0.0000")).unwrap();
    let lines: Vec<String> = text.lines().map(|l| l.trim().to_owned()).collect();
    let at = lines.iter().position(|l| l == from).unwrap();
    let lines = lines[at..].to_vec();
    move |name| {
        let prefix = format!("{name}: ");
        let line = lines.iter().find_map(|l| l.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("{prefix}")).to_owned()
    }
}

fn swizzle(s: [Channel; 4]) -> String {
    s.iter()
        .map(|c| match c {
            Channel::Component(n) => b"RGBA"[usize::from(*n)] as char,
            Channel::Zero => '0',
            Channel::One => '1',
        })
        .collect()
}

#[test]
fn texture_descriptors_match_mesas_decoder() {
    for name in ["zoo/g71/texsample", "g71/texfetch"] {
        let Some(mut s) = submit(name) else { return };
        let (textures, samplers) = (address(&s.job["textures"]), address(&s.job["samplers"]));
        let t = Texture::load(Arch::V6, &mut s, textures).unwrap();
        let mesa_value = find_mesa_values(&s, "Texture:");
        assert_eq!(
            format!("{:?}", t.dimension),
            format!("D{}", &mesa_value("Dimension")[..1])
        );
        let format = format!(
            "{} {}",
            format_name(Arch::V6, t.format.index()),
            swizzle(t.format.order)
        );
        assert_eq!(format, mesa_value("Format (v6)"));
        for (ours, name) in [
            (t.width, "Width"),
            (t.height, "Height"),
            (t.levels, "Levels"),
            (t.samples, "Sample count"),
            (t.layers, "Array size"),
            (t.depth, "Depth"),
        ] {
            assert_eq!(ours.to_string(), mesa_value(name), "{name}");
        }
        assert!(mesa_value("Swizzle").ends_with(&format!("({})", swizzle(t.swizzle))));
        assert_eq!(
            (t.ordering, mesa_value("Texel ordering")),
            (Ordering::Interleaved { side: 16 }, "Tiled".to_owned())
        );
        assert_eq!(format!("{:#x}", t.surfaces), mesa_value("Surfaces"));
        let surface = t.surface(&mut s, 0, 0, 0, 0).unwrap();
        assert_eq!(format!("{:#x}", surface.pointer), mesa_value("Pointer"));
        assert_eq!(surface.row_stride.to_string(), mesa_value("Row stride"));
        assert_eq!(surface.surface_stride.to_string(), mesa_value("Surface stride"));

        let sampler = Sampler::load(&mut s, samplers).unwrap();
        let mesa_value = find_mesa_values(&s, "Sampler 0:");
        for (axis, wrap) in ["S", "T", "R"].into_iter().zip(sampler.wrap) {
            assert_eq!(format!("{wrap:?}"), mesa_value(&format!("Wrap Mode {axis}")));
        }
        for (ours, name) in [
            (sampler.srgb_override, "sRGB override"),
            (sampler.seamless, "Seamless Cube Map"),
            (sampler.clamp_integer_coordinates, "Clamp integer coordinates"),
            (sampler.normalized, "Normalized Coordinates"),
            (sampler.clamp_layers, "Clamp integer array indices"),
            (sampler.minify_nearest, "Minify nearest"),
            (sampler.magnify_nearest, "Magnify nearest"),
            (sampler.magnify_cutoff != 0, "Magnify cutoff"),
        ] {
            assert_eq!(ours.to_string(), mesa_value(name), "{name}");
        }
        assert_eq!(format!("{:?}", sampler.mipmap), mesa_value("Mipmap Mode"));
        let lod = |v: i32| format!("{:.6}", f64::from(v) / 256.0);
        assert_eq!(lod(sampler.min_lod), mesa_value("Minimum LOD"));
        assert_eq!(lod(sampler.max_lod), mesa_value("Maximum LOD"));
        assert_eq!(lod(sampler.lod_bias), mesa_value("LOD bias"));
        assert!(!sampler.anisotropic);
    }
}

#[test]
fn image_descriptors_match_mesas_decoder() {
    let Some(mut s) = submit("zoo/g71/image") else { return };
    let (attributes, buffers) = (address(&s.job["attributes"]), address(&s.job["attribute_buffers"]));
    let a = Attribute::load(Arch::V6, &mut s, attributes, buffers, 0).unwrap();
    let mesa_value = find_mesa_values(&s, "Type: 3D Interleaved");
    assert_eq!(format!("{:#x}", a.pointer), mesa_value("Pointer"));
    assert_eq!(
        (a.stride.to_string(), a.size.to_string()),
        (mesa_value("Stride"), mesa_value("Size"))
    );
    let Shape::Image {
        ordering,
        extent,
        row_stride,
        slice_stride,
    } = a.shape
    else {
        panic!()
    };
    assert_eq!(ordering, Ordering::Interleaved { side: 16 });
    assert_eq!(
        extent.map(|n| n.to_string()),
        ["S", "T", "R"].map(|n| mesa_value(&format!("{n} dimension")))
    );
    assert_eq!(
        (row_stride.to_string(), slice_stride.to_string()),
        (mesa_value("Row Stride"), mesa_value("Slice Stride"))
    );
    let b = Attribute::load(Arch::V6, &mut s, attributes, buffers, 1).unwrap();
    assert_eq!(b.pointer, GpuVa::new(0xf7fb_a000));
    let empty = a.texel(0, 0).unwrap();
    assert_eq!(a.load_from(&mut s, empty, Some(RegisterFormat::F32)), Ok([0; 4]));
}

#[test]
fn texels_that_were_uploaded_are_fetched() {
    let Some(mut s) = submit("g71/texfetch") else { return };
    let words = |f: &str| -> Vec<u32> {
        let bytes = std::fs::read(s.folder.join(f)).unwrap();
        bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    let (uploaded, expected) = (words("texture_r32ui_16x8.bin"), words("o.expected.bin"));
    let (textures, samplers) = (address(&s.job["textures"]), address(&s.job["samplers"]));
    let texture = Texture::load(Arch::V6, &mut s, textures).unwrap();
    let sampler = Sampler::load(&mut s, samplers).unwrap();
    // The shader of this program contains this word.
    let Operation::Single(op) = Operation::decode(0xfe18_6800).unwrap() else {
        panic!()
    };
    assert_eq!(op.indices(&[0]), (0, 0));
    for (y, x) in (0..8u32).flat_map(|y| (0..16u32).map(move |x| (y, x))) {
        let fetch_request = FetchRequest {
            texel: [x as i32, y as i32, 0],
            ..Default::default()
        };
        let texel = fetch(&mut s, &texture, &sampler, &fetch_request).unwrap();
        assert_eq!(texel.bits, [uploaded[(y * 16 + x) as usize], 0, 0, 1]);
        let [v, ..] = op
            .run(&mut s, &texture, &sampler, (15 - x, y), &[0], Derivatives::default())
            .unwrap();
        assert_eq!(v ^ 0x00ff_00ff, expected[(y * 16 + x) as usize]);
    }
}

#[test]
fn an_empty_texture_samples_as_zeros() {
    let Some(mut s) = submit("zoo/g71/texsample") else {
        return;
    };
    let (textures, samplers) = (address(&s.job["textures"]), address(&s.job["samplers"]));
    let texture = Texture::load(Arch::V6, &mut s, textures).unwrap();
    let sampler = Sampler::load(&mut s, samplers).unwrap();
    let request = SampleRequest {
        coordinates: [0.3, 0.9, 0.0],
        face: 0,
        layer: 0,
        offset: [0; 3],
        lod: device_mali::texture::Lod::Zero,
        reference: None,
    };
    assert_eq!(sample(&mut s, &texture, &sampler, &request).unwrap().bits, [0; 4]);
}
