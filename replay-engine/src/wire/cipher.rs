//! The cipher of a connection: AES-256-GCM where both ends have instructions for it, ChaCha20-Poly1305 elsewhere.

use super::preamble::{PREAMBLE_BYTES, announces_aes};

/// A cipher of Noise transport messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// ChaCha20-Poly1305: fast in software.
    ChaChaPoly,
    /// AES-256-GCM: several times as fast on processors with instructions for AES and carry-less products.
    AesGcm,
}

impl Cipher {
    /// Returns the cipher of the connection whose prologue is the preambles of both ends.
    #[must_use]
    pub fn of_prologue(prologue: &[u8]) -> Self {
        match prologue.as_chunks::<PREAMBLE_BYTES>() {
            ([client, agent], []) if announces_aes(client) && announces_aes(agent) => Self::AesGcm,
            _ => Self::ChaChaPoly,
        }
    }

    /// Returns the name of the Noise protocol with this cipher.
    #[must_use]
    pub const fn noise_pattern(self) -> &'static str {
        match self {
            Self::ChaChaPoly => "Noise_XX_25519_ChaChaPoly_BLAKE2s",
            Self::AesGcm => "Noise_XX_25519_AESGCM_BLAKE2s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Preamble, PreambleWord};

    #[test]
    fn both_ends_need_instructions_for_aes() {
        let prologue = |client: bool, agent: bool| {
            let bytes = |word, has_aes| {
                let preamble = Preamble {
                    has_aes,
                    ..Preamble::new(word)
                };
                preamble.to_bytes()
            };
            [bytes(PreambleWord::Session, client), bytes(PreambleWord::Go, agent)].concat()
        };
        assert_eq!(Cipher::of_prologue(&prologue(true, true)), Cipher::AesGcm);
        for (client, agent) in [(true, false), (false, true), (false, false)] {
            assert_eq!(Cipher::of_prologue(&prologue(client, agent)), Cipher::ChaChaPoly);
        }
        assert_eq!(Cipher::of_prologue(&[]), Cipher::ChaChaPoly);
    }
}
