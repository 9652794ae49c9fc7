//! Random numbers of the tests, and arguments at the edges of types.

use wasm_ptx::ValueType;

/// A source of random numbers: splitmix64.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8))
            .flat_map(|_| self.next().to_le_bytes())
            .take(count)
            .collect()
    }

    /// Returns the bits of an argument: often a value at an edge.
    pub fn argument(&mut self, t: ValueType) -> u64 {
        const EDGES: [u64; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, u64::MAX];
        let any = self.next();
        match (t, any % 4) {
            (ValueType::F32, 0) => u64::from((any as i16 as f32 / 8.0).to_bits()),
            (ValueType::F64, 0) => (any as i32 as f64 / 8.0).to_bits(),
            (ValueType::F32, 1) => 0x7f80_0000 | (any >> 8 & 1) << 22 | any & 1 << 31,
            (ValueType::F64, 1) => 0x7ff << 52 | (any >> 8 & 1) << 51 | any & 1 << 63,
            (t, 2) => EDGES[(any >> 8) as usize % EDGES.len()] & if t.is_wide() { u64::MAX } else { 0xffff_ffff },
            (t, _) => any & if t.is_wide() { u64::MAX } else { 0xffff_ffff },
        }
    }
}
