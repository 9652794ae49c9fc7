//! Programs that are not a single computation with a result: a drawn picture, a texture of a common size, an endless
//! shader. Each program reports its observations, which depend on the features of the GPU.

use crate::gpu::{Gpu, GpuError};
use crate::work::{Access, Kind, Uniform, words};

/// A scene of the table.
pub struct Scene {
    /// Name of the scene.
    pub name: &'static str,
    /// Description of the scene.
    pub description: &'static str,
    /// Runs the scene and returns a message.
    pub run: fn(&Gpu) -> Result<String, SceneError>,
}

/// The reason why a scene failed.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// The GPU refused a call.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A result is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// All scenes.
pub const SCENES: &[Scene] = &[
    Scene {
        name: "draw",
        description: "a triangle with vertices, colours and glReadPixels, between two dispatches that are checked",
        run: draw,
    },
    Scene {
        name: "texture",
        description: "a texture of 256 by 256 colours read by a compute shader, checked",
        run: texture,
    },
    Scene {
        name: "endless",
        description: "a shader that never ends, then one that does, checked",
        run: endless,
    },
];

const VERTEX: &str = include_str!("../shaders/triangle.vert");
const FRAGMENT: &str = include_str!("../shaders/triangle.frag");
const DOUBLE: &str = include_str!("../shaders/double.comp");
const TEXELS: &str = include_str!("../shaders/texels.comp");
const ENDLESS: &str = include_str!("../shaders/endless.comp");

/// Number of values that `double` processes.
const NUMBERS: u32 = 256;

/// Doubles numbers on the GPU and compares them.
fn doubled(gpu: &Gpu, salt: u32) -> Result<(), SceneError> {
    let numbers: Vec<u32> = (0..NUMBERS).map(|n| n * 3 + salt).collect();
    let program = gpu.program("double", DOUBLE)?;
    let buffer = gpu.buffer(Kind::Storage, &words(&numbers))?;
    gpu.bind(&buffer, 0)?;
    gpu.uniforms(&program, &[("n", Uniform::U32(NUMBERS))])?;
    gpu.dispatch([NUMBERS.div_ceil(64), 1, 1])?;
    let got = gpu.read(&buffer)?;
    gpu.free(&[program], &[buffer], &[]);
    let expected: Vec<u32> = numbers.iter().map(|n| n * 2).collect();
    if got == words(&expected) {
        Ok(())
    } else {
        Err(SceneError::Wrong("the doubled numbers are wrong".into()))
    }
}

fn draw(gpu: &Gpu) -> Result<String, SceneError> {
    const SIDE: u32 = 64;
    const DRAWN: [u8; 4] = [255, 128, 0, 255];
    doubled(gpu, 1)?;
    let picture = gpu.picture(SIDE, SIDE)?;
    let program = gpu.drawing_program("triangle", VERTEX, FRAGMENT)?;
    gpu.draw(&picture, &program, [0.0, 0.0, 1.0, 1.0])?;
    let pixels = gpu.read_picture(&picture)?;
    let drawn = pixels.chunks_exact(4).filter(|p| *p == DRAWN).count();
    doubled(gpu, 2)?;
    gpu.free_picture(picture);
    gpu.free(&[program], &[], &[]);
    Ok(format!("{drawn} of {} pixels are drawn", SIDE * SIDE))
}

fn texture(gpu: &Gpu) -> Result<String, SceneError> {
    const SIDE: u32 = 256;
    let pixels: Vec<u32> = (0..SIDE * SIDE).map(|n| n.wrapping_mul(2_654_435_761)).collect();
    let texture = gpu.colours(SIDE, SIDE, Some(&words(&pixels)))?;
    let program = gpu.program("texels", TEXELS)?;
    let buffer = gpu.buffer(Kind::Storage, &vec![0; pixels.len() * 4])?;
    gpu.bind(&buffer, 0)?;
    gpu.bind_texture(&texture, 0, Access::Sampled)?;
    gpu.uniforms(&program, &[])?;
    gpu.dispatch([SIDE / 8, SIDE / 8, 1])?;
    let got = gpu.read(&buffer)?;
    gpu.free(&[program], &[buffer], &[texture]);
    let expected = words(&pixels);
    let pairs = got.chunks_exact(4).zip(expected.chunks_exact(4));
    match pairs.filter(|(a, b)| a != b).count() {
        0 => Ok(format!("{} texels as expected", SIDE * SIDE)),
        n => Err(SceneError::Wrong(format!("{n} of {} texels are wrong", SIDE * SIDE))),
    }
}

fn endless(gpu: &Gpu) -> Result<String, SceneError> {
    let program = gpu.program("endless", ENDLESS)?;
    let buffer = gpu.buffer(Kind::Storage, &words(&[0, 7]))?;
    gpu.bind(&buffer, 0)?;
    gpu.uniforms(&program, &[])?;
    gpu.dispatch([1, 1, 1])?;
    let ended = gpu.finish();
    let message = match gpu.read(&buffer) {
        Ok(bytes) if bytes == words(&[0, 7]) => "its buffer is as before".to_owned(),
        Ok(bytes) => return Err(SceneError::Wrong(format!("the endless shader left {bytes:?}"))),
        Err(e) => e.to_string(),
    };
    doubled(gpu, 3)?;
    gpu.free(&[program], &[buffer], &[]);
    let ended = ended.map_or_else(|e| e.to_string(), |()| "no error".into());
    Ok(format!(
        "after the endless shader: {ended}, {message}; the next shader is correct"
    ))
}
