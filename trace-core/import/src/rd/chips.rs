//! Models of Adreno GPUs: numbers (`630`), chip ids (`0x06030001`), names and generations.
//!
//! Facts: the device lists of Mesa (`freedreno_devices.py`) and of the Linux kernel's msm driver.

/// Lowest byte of a chip id, the patch level: a model whose own patch level is not listed matches the other patch
/// levels.
const PATCH: u32 = 0xff;
/// Models whose chip id does not contain their number, or whose registers are of another generation than it says.
const MODELS: [(u32, &str, u32); 9] = [
    // Its registers are those of the sixth generation.
    (0x0700_0200, "Adreno 702", 6),
    (0x4303_0b00, "Adreno 735", 7),
    (0x4305_0a01, "Adreno 740", 7),
    (0x4305_0a00, "Adreno A32", 7),
    (0x4305_0b00, "Adreno 740v3", 7),
    (0x4305_0c01, "Adreno X1-85", 7),
    (0x4305_1401, "Adreno 750", 7),
    (0x4405_0000, "Adreno 830", 8),
    (0x4405_0a31, "Adreno 840", 8),
];

/// The GPU of a file: some files have a number, others a chip id, many have both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chip {
    number: u32,
    id: u64,
}

impl Chip {
    /// Sets the number, `630`. The first that is not 0 counts.
    pub(crate) fn take_number(&mut self, number: u32) {
        if self.number == 0 {
            self.number = number;
        }
    }

    /// Sets the chip id; its upper half holds fuses, which do not identify the model. The first that is not 0 counts.
    pub(crate) fn take_id(&mut self, id: u64) {
        if self.id as u32 == 0 {
            self.id = id;
        }
    }

    /// Whether the file has neither.
    pub(crate) fn is_unknown(self) -> bool {
        self.number == 0 && self.id as u32 == 0
    }

    /// Returns the chip id without fuses: as given, or derived from the number, with a patch level of 0xff for any.
    /// Returns 0 if nothing is known.
    pub(crate) fn gpu_id(self) -> u32 {
        match (self.id as u32, self.number) {
            (0, 0) => 0,
            (0, n) => ((n / 100) & 0xff) << 24 | (n / 10 % 10) << 16 | (n % 10) << 8 | PATCH,
            (id, _) => id,
        }
    }

    fn model(self) -> Option<(&'static str, u32)> {
        let own = self.gpu_id();
        let exact = MODELS.iter().find(|(id, ..)| *id == own);
        let found = exact.or_else(|| MODELS.iter().find(|(id, ..)| id & !PATCH == own & !PATCH));
        found.map(|(_, name, generation)| (*name, *generation))
    }

    /// Returns the generation of commands and registers, or 0 if nothing is known.
    pub(crate) fn generation(self) -> u32 {
        match (self.model(), self.gpu_id() >> 24) {
            (Some((_, generation)), _) => generation,
            (None, 0x43) => 7,
            (None, 0x44) => 8,
            (None, n) => n,
        }
    }

    /// Returns the name of the model; empty if nothing is known.
    pub(crate) fn name(self) -> String {
        let id = self.gpu_id();
        let [generation, major, minor, _] = id.to_be_bytes();
        match (self.number, self.model()) {
            _ if self.is_unknown() => String::new(),
            (0, Some((name, _))) => name.to_owned(),
            (0, None) if generation < 0x40 && major < 10 && minor < 10 => {
                format!("Adreno {generation}{major}{minor}")
            }
            (0, None) => format!("Adreno chip {id:#x}"),
            (n, _) => format!("Adreno {n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(number: u32, id: u64) -> Chip {
        let mut chip = Chip::default();
        chip.take_number(number);
        chip.take_id(id);
        chip
    }

    #[test]
    fn numbers_and_chip_ids_name_models_and_generations() {
        for (number, id, name, generation, gpu_id) in [
            (630, 0, "Adreno 630", 6, 0x0603_00ff),
            (201, 0, "Adreno 201", 2, 0x0200_01ff),
            (690, 0xffff_0609_0000, "Adreno 690", 6, 0x0609_0000),
            (0, 0x0603_0001, "Adreno 630", 6, 0x0603_0001),
            (0, 0x0700_0200, "Adreno 702", 6, 0x0700_0200),
            (702, 0, "Adreno 702", 6, 0x0700_02ff),
            (0, 0x0703_0001, "Adreno 730", 7, 0x0703_0001),
            (0, 0x4305_0a01, "Adreno 740", 7, 0x4305_0a01),
            (0, 0x4305_0a00, "Adreno A32", 7, 0x4305_0a00),
            (0, 0x4305_0aff, "Adreno 740", 7, 0x4305_0aff),
            (0, 0x4305_1401, "Adreno 750", 7, 0x4305_1401),
            (0, 0x4305_0c01, "Adreno X1-85", 7, 0x4305_0c01),
            (0, 0x4405_0000, "Adreno 830", 8, 0x4405_0000),
            (0, 0xffff_4405_0a31, "Adreno 840", 8, 0x4405_0a31),
            (0, 0x4399_9999, "Adreno chip 0x43999999", 7, 0x4399_9999),
            (0, 0, "", 0, 0),
            (0, 0xffff_0000_0000, "", 0, 0),
            (u32::MAX, 0, "Adreno 4294967295", 0xff & (u32::MAX / 100), 0),
        ] {
            let chip = chip(number, id);
            assert_eq!(chip.name(), name);
            assert_eq!(chip.generation(), generation, "{name}");
            if number != u32::MAX {
                assert_eq!(chip.gpu_id(), gpu_id, "{name}");
            }
            assert_eq!(chip.is_unknown(), name.is_empty());
        }
    }
}
