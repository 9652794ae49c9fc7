//! Texture access of one thread: sampling, gathering and fetching.
//!
//! Filtering approximates the hardware, whose precision is not documented. Positions and weights are exact here, while
//! hardware rounds them to some 8 bits. Products are summed in double precision and rounded once. Texels are decoded
//! exactly, so that an access to a single texel is exact.

use super::TexMemory;
use super::axis::{Axis, Tap};
use super::cube;
use super::descriptor::{Dimension, Sampler, Surface, Texture};
use super::format::{Channel, Class};
use super::level::{self, Levels, Lod};
use super::refusal::{Refusal, TexError};
use super::texel::Texel;
use super::tiling;

/// Parameters of a sample or gather.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRequest {
    /// Coordinates. Those beyond the texture's dimension are ignored.
    pub coordinates: [f32; 3],
    /// Face of a cube, 0 to 5.
    pub face: u32,
    /// Layer.
    pub layer: u32,
    /// Offset that is added to the texel numbers.
    pub offset: [i8; 3],
    /// Level of detail.
    pub lod: Lod,
    /// Reference for depth comparison, if depths are compared.
    pub reference: Option<f32>,
}

/// Parameters of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchRequest {
    /// Texel numbers. Those beyond the texture's dimension are ignored.
    pub texel: [i32; 3],
    /// Face of a cube, 0 to 5.
    pub face: u32,
    /// Layer.
    pub layer: u32,
    /// Level.
    pub level: u32,
    /// Sample.
    pub sample: u32,
}

/// One level of a layer, prepared for reading texels.
struct Level<'a> {
    texture: &'a Texture,
    surface: Surface,
    srgb: bool,
}

impl Level<'_> {
    /// Reads an existing texel. The texture's swizzle is not applied yet.
    fn texel<M: TexMemory>(&self, memory: &mut M, x: u32, y: u32, z: u32) -> Result<Texel, TexError<M::Error>> {
        let (format, s) = (&self.texture.format, &self.surface);
        let block = format.block();
        let (bx, by) = (x / block.width, y / block.height);
        let inside = tiling::offset(self.texture.ordering, bx, by, block.bytes, i64::from(s.row_stride))?;
        let slice = i64::from(z) * i64::from(s.surface_stride);
        let at = tiling::address(s.pointer, inside.checked_add(slice).ok_or(Refusal::Address)?)?;
        let mut bytes = [0; 16];
        if let Some(to) = bytes.get_mut(..block.bytes as usize).filter(|to| !to.is_empty()) {
            memory.read(at, to).map_err(TexError::Memory)?;
        }
        Ok(format.decode(&bytes, x % block.width, y % block.height, self.srgb))
    }
}

/// Texture and sampler with the parameters of the access.
struct Access<'a> {
    texture: &'a Texture,
    sampler: &'a Sampler,
    request: SampleRequest,
    layer: u32,
}

/// Up to eight texels with weights, and their number.
type Taps = ([Texel; 8], [f64; 8], usize);

impl Access<'_> {
    fn axis(&self, i: usize, size: u32) -> Axis {
        Axis {
            wrap: self.sampler.wrap[i],
            size,
            normalized: self.sampler.normalized,
            offset: i32::from(self.request.offset[i]),
        }
    }

    fn level<M: TexMemory>(&self, memory: &mut M, face: u32, level: u32) -> Result<Level<'_>, TexError<M::Error>> {
        Ok(Level {
            texture: self.texture,
            surface: self.texture.surface(memory, self.layer, face, 0, level)?,
            srgb: !self.sampler.srgb_override,
        })
    }

    /// Returns the border colour as a texel of this format. Components that memory lacks have the format's constants.
    fn border(&self) -> Texel {
        let format = &self.texture.format;
        let class = format.class();
        let mut bits = self.sampler.border;
        if format.is_unorm() {
            bits = bits.map(|b| f32::from_bits(b).clamp(0.0, 1.0).to_bits());
        }
        let border = Texel { class, bits };
        // A channel without a component in memory is a constant of the format and stays so.
        let kept: [Channel; 4] = std::array::from_fn(|i| match format.order[i] {
            Channel::Component(n) if n < format.components() => Channel::Component(i as u8),
            Channel::Component(3) => Channel::One,
            Channel::Component(_) => Channel::Zero,
            constant => constant,
        });
        border.swizzled(&kept)
    }

    /// Returns a texel as the shader sees it, or the result of its comparison.
    fn seen(&self, texel: Texel) -> Texel {
        match self.request.reference {
            None => texel.swizzled(&self.texture.swizzle),
            Some(reference) => {
                // Fixed-point depth is never outside 0..1, so the reference is clamped to this range too.
                let reference = if self.texture.format.is_unorm() {
                    reference.clamp(0.0, 1.0)
                } else {
                    reference
                };
                let passes = self.sampler.compare.passes(texel.as_floats()[0], reference);
                Texel::floats([f32::from(u8::from(passes)); 4]).swizzled(&self.texture.swizzle)
            }
        }
    }

    fn read<M: TexMemory>(
        &self,
        memory: &mut M,
        level: &Level<'_>,
        taps: [Tap; 3],
    ) -> Result<Texel, TexError<M::Error>> {
        let texel = match taps {
            [Tap::Texel(x), Tap::Texel(y), Tap::Texel(z)] => level.texel(memory, x, y, z)?,
            _ => self.border(),
        };
        Ok(self.seen(texel))
    }

    /// Returns the texel nearest to the coordinates.
    fn nearest<M: TexMemory>(&self, memory: &mut M, level: u32) -> Result<Texel, TexError<M::Error>> {
        let size = self.texture.extent(level);
        let used = self.axes();
        let mut taps = [Tap::Texel(0); 3];
        for (i, tap) in taps.iter_mut().enumerate().take(used) {
            let mut axis = self.axis(i, size[i]);
            if self.texture.dimension == Dimension::Cube {
                axis.wrap = super::descriptor::Wrap::ClampToEdge;
            }
            *tap = axis.nearest(self.request.coordinates[i]);
        }
        let level = self.level(memory, self.request.face, level)?;
        self.read(memory, &level, taps)
    }

    fn axes(&self) -> usize {
        match self.texture.dimension {
            Dimension::D1 => 1,
            Dimension::D2 | Dimension::Cube => 2,
            Dimension::D3 => 3,
        }
    }

    /// Returns the texels around the coordinates with their weights, first axis fastest.
    fn around<M: TexMemory>(&self, memory: &mut M, level: u32) -> Result<Taps, TexError<M::Error>> {
        if self.texture.dimension == Dimension::Cube && self.sampler.seamless {
            return self.around_on_cube(memory, level);
        }
        let size = self.texture.extent(level);
        let used = self.axes();
        let mut pairs = [([Tap::Texel(0); 2], 0.0); 3];
        for (i, pair) in pairs.iter_mut().enumerate().take(used) {
            *pair = self.axis(i, size[i]).linear(self.request.coordinates[i]);
        }
        let level = self.level(memory, self.request.face, level)?;
        let count = 1usize << used;
        let mut out: Taps = ([Texel::zero(self.texture.format.class()); 8], [0.0; 8], count);
        for i in 0..count {
            let pick = |axis: usize| i >> axis & 1;
            out.0[i] = self.read(memory, &level, std::array::from_fn(|a| pairs[a].0[pick(a)]))?;
            out.1[i] = (0..used)
                .map(|a| if pick(a) == 1 { pairs[a].1 } else { 1.0 - pairs[a].1 })
                .product();
        }
        Ok(out)
    }

    /// Returns the same across the edges of a cube. A corner has three texels, and the fourth is their mean.
    fn around_on_cube<M: TexMemory>(&self, memory: &mut M, level: u32) -> Result<Taps, TexError<M::Error>> {
        let [size, ..] = self.texture.extent(level);
        let pair = |i: usize| {
            let axis = Axis {
                wrap: super::descriptor::Wrap::ClampToEdge,
                size,
                normalized: self.sampler.normalized,
                offset: 0,
            };
            axis.linear_unwrapped(self.request.coordinates[i])
        };
        let ((xs, wx), (ys, wy)) = (pair(0), pair(1));
        let mut out: Taps = ([Texel::zero(self.texture.format.class()); 8], [0.0; 8], 4);
        let mut corner = None;
        for i in 0..4usize {
            let (right, below) = (i & 1, i >> 1);
            out.1[i] = (if right == 1 { wx } else { 1.0 - wx }) * (if below == 1 { wy } else { 1.0 - wy });
            match cube::cross_edge(self.request.face, xs[right], ys[below], i64::from(size)) {
                Some((face, x, y)) => {
                    let level = self.level(memory, face, level)?;
                    out.0[i] = self.read(memory, &level, [x, y, 0].map(Tap::Texel))?;
                }
                None => corner = Some(i),
            }
        }
        if let Some(corner) = corner {
            // The neighbours across and down, and the opposite one.
            let others = [corner ^ 1, corner ^ 2, corner ^ 3];
            let mean = mean(others.map(|i| out.0[i]));
            out.0[corner] = mean.unwrap_or(out.0[corner ^ 3]);
        }
        Ok(out)
    }

    /// Samples one level, filtered or not.
    fn at_level<M: TexMemory>(&self, memory: &mut M, level: u32, linear: bool) -> Result<Texel, TexError<M::Error>> {
        // Integers are not filtered: the API requires nearest sampling.
        if !linear || self.texture.format.class() != Class::Float {
            return self.nearest(memory, level);
        }
        let (texels, weights, count) = self.around(memory, level)?;
        let mut sums = [0f64; 4];
        for (t, w) in texels.iter().zip(weights).take(count) {
            for (sum, v) in sums.iter_mut().zip(t.as_floats()) {
                // A weight of zero adds nothing, even for an infinite value.
                *sum += if w == 0.0 { 0.0 } else { w * f64::from(v) };
            }
        }
        Ok(Texel::floats(sums.map(|s| s as f32)))
    }
}

/// Returns the mean of three texels, or `None` for integers, which have no mean.
fn mean(texels: [Texel; 3]) -> Option<Texel> {
    if texels[0].class != Class::Float {
        return None;
    }
    let sum = |i: usize| texels.iter().map(|t| f64::from(t.as_floats()[i])).sum::<f64>();
    Some(Texel::floats(std::array::from_fn(|i| (sum(i) / 3.0) as f32)))
}

/// Returns the layer to access, or `None` if it does not exist.
fn layer(texture: &Texture, clamp: bool, layer: u32) -> Option<u32> {
    match clamp {
        true => Some(layer.min(texture.layers - 1)),
        false => Some(layer).filter(|l| *l < texture.layers),
    }
}

fn access<'a>(
    texture: &'a Texture,
    sampler: &'a Sampler,
    request: &SampleRequest,
) -> Result<Option<Access<'a>>, Refusal> {
    if texture.dimension == Dimension::Cube && request.face > 5 {
        return Err(Refusal::Value {
            field: "the face of a cube",
            value: request.face,
        });
    }
    if request.reference.is_some() && texture.format.class() != Class::Float {
        return Err(Refusal::Feature("a comparison with a texture of integers"));
    }
    Ok(layer(texture, sampler.clamp_layers, request.layer).map(|layer| Access {
        texture,
        sampler,
        request: *request,
        layer,
    }))
}

/// Returns zeros in the class of the format, for accesses without a texel.
fn nothing(texture: &Texture) -> Texel {
    Texel::zero(texture.format.class())
}

fn levels(texture: &Texture, sampler: &Sampler, lod: Lod) -> Result<Levels, Refusal> {
    let lod = match lod {
        Lod::Zero => 0,
        Lod::Explicit(lod) => i32::from(lod),
        Lod::Computed { .. } if sampler.anisotropic => {
            return Err(Refusal::Feature("anisotropic filtering"));
        }
        Lod::Computed { derivatives, bias } => derivatives.lod(texture.extent(0), sampler.normalized) + i32::from(bias),
    };
    Ok(level::choose(texture, sampler, lod))
}

/// Samples a texture with a sampler: selects levels, filters, compares and applies the texture's swizzle.
///
/// # Errors
/// When memory cannot be read, or something is not implemented.
pub fn sample<M: TexMemory>(
    memory: &mut M,
    texture: &Texture,
    sampler: &Sampler,
    request: &SampleRequest,
) -> Result<Texel, TexError<M::Error>> {
    let Some(access) = access(texture, sampler, request)? else {
        return Ok(nothing(texture));
    };
    if texture.format.block().bytes == 0 {
        return Ok(nothing(texture));
    }
    let levels = levels(texture, sampler, request.lod)?;
    let first = access.at_level(memory, levels.first, levels.linear)?;
    let Some((level, weight)) = levels.second.filter(|_| first.class == Class::Float) else {
        return Ok(first);
    };
    let second = access.at_level(memory, level, levels.linear)?;
    let weight = f64::from(weight) / 256.0;
    let (a, b) = (first.as_floats(), second.as_floats());
    Ok(Texel::floats(std::array::from_fn(|i| {
        ((1.0 - weight) * f64::from(a[i]) + weight * f64::from(b[i])) as f32
    })))
}

/// Returns one component of the four texels that a linear filter would use in a level, in the order (0, 0), (1, 0), (0,
/// 1), (1, 1). The driver reorders them for the API. The level of detail of the request is ignored.
///
/// # Errors
/// When memory cannot be read, or something is not implemented.
pub fn gather<M: TexMemory>(
    memory: &mut M,
    texture: &Texture,
    sampler: &Sampler,
    request: &SampleRequest,
    component: usize,
    level: u32,
) -> Result<Texel, TexError<M::Error>> {
    if matches!(texture.dimension, Dimension::D1 | Dimension::D3) {
        return Err(TexError::Refused(Refusal::Operation {
            operation: "a gather",
            dimension: texture.dimension.name(),
        }));
    }
    let Some(access) = access(texture, sampler, request)? else {
        return Ok(nothing(texture));
    };
    if texture.format.block().bytes == 0 || level >= texture.levels {
        return Ok(nothing(texture));
    }
    let (texels, ..) = access.around(memory, level)?;
    Ok(Texel {
        class: texels[0].class,
        bits: std::array::from_fn(|i| texels[i].bits.get(component).copied().unwrap_or(0)),
    })
}

/// Returns a texel by its numbers, without a filter. Outside the texture it is zero in all components, whatever the
/// format's alpha. The API does not define this case, and robust access permits zeros.
///
/// # Errors
/// When memory cannot be read, or something is not implemented.
pub fn fetch<M: TexMemory>(
    memory: &mut M,
    texture: &Texture,
    sampler: &Sampler,
    place: &FetchRequest,
) -> Result<Texel, TexError<M::Error>> {
    let zero = nothing(texture);
    let Some(layer) = layer(texture, sampler.clamp_layers, place.layer) else {
        return Ok(zero);
    };
    let outside =
        place.level >= texture.levels || place.sample >= texture.samples || place.face >= texture.dimension.faces();
    if outside || texture.format.block().bytes == 0 {
        return Ok(zero);
    }
    let used = match texture.dimension {
        Dimension::D1 => 1,
        Dimension::D2 | Dimension::Cube => 2,
        Dimension::D3 => 3,
    };
    let size = texture.extent(place.level);
    let mut at = [0; 3];
    for (i, to) in at.iter_mut().enumerate().take(used) {
        let max = size[i] - 1;
        *to = match u32::try_from(place.texel[i]) {
            Ok(v) if v <= max => v,
            found if sampler.clamp_integer_coordinates => found.map_or(0, |_| max),
            _ => return Ok(zero),
        };
    }
    let level = Level {
        texture,
        surface: texture.surface(memory, layer, place.face, place.sample, place.level)?,
        srgb: !sampler.srgb_override,
    };
    let texel = level.texel(memory, at[0], at[1], at[2])?;
    Ok(texel.swizzled(&texture.swizzle))
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
