//! The key of one direction of a connection: messages of Noise's transport phase, encrypted and decrypted in place.
//!
//! `snow` does the handshake. Its transport functions copy each message once more than its encryption needs, which costs
//! as much as the encryption.

use super::cipher::Cipher;
use super::error::WireError;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// Size of the authentication tag of a message, bytes.
pub const TAG: usize = 16;

/// The key of one direction.
pub struct TransportKey {
    key: LessSafeKey,
    cipher: Cipher,
    /// Number of the next message.
    number: u64,
}

impl TransportKey {
    /// Creates the key from its bytes.
    ///
    /// # Errors
    /// If the cipher takes no such key.
    pub fn new(cipher: Cipher, bytes: &[u8; 32]) -> Result<Self, WireError> {
        let algorithm = match cipher {
            Cipher::ChaChaPoly => &CHACHA20_POLY1305,
            Cipher::AesGcm => &AES_256_GCM,
        };
        let key = UnboundKey::new(algorithm, bytes).map_err(|_| failure("the key"))?;
        Ok(Self {
            key: LessSafeKey::new(key),
            cipher,
            number: 0,
        })
    }

    /// Takes the nonce of the next message: its number behind four zero bytes. Noise writes it in another byte order
    /// for each cipher.
    fn next_nonce(&mut self) -> Result<Nonce, WireError> {
        let number = self.number;
        // Noise reserves the last number.
        self.number = number.checked_add(1).ok_or_else(|| failure("the number of messages"))?;
        let mut nonce = [0; 12];
        let (_, end) = nonce.split_at_mut(4);
        end.copy_from_slice(&match self.cipher {
            Cipher::ChaChaPoly => number.to_le_bytes(),
            Cipher::AesGcm => number.to_be_bytes(),
        });
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Encrypts the next message in place and returns its tag.
    ///
    /// # Errors
    /// If there were too many messages, or it is too long for the cipher.
    pub fn seal(&mut self, text: &mut [u8]) -> Result<[u8; TAG], WireError> {
        let nonce = self.next_nonce()?;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), text)
            .map_err(|_| failure("the length"))?;
        let mut bytes = [0; TAG];
        bytes.copy_from_slice(tag.as_ref());
        Ok(bytes)
    }

    /// Decrypts the next message, which is `bytes` from `at` on with its tag, to the start of `bytes`. Returns the size
    /// of its text, bytes.
    ///
    /// # Errors
    /// If it is not authentic. `bytes` has no meaning then.
    pub fn open(&mut self, bytes: &mut [u8], at: usize) -> Result<usize, WireError> {
        let nonce = self.next_nonce()?;
        let text = self.key.open_within(nonce, Aad::empty(), bytes, at..);
        Ok(text.map_err(|_| failure("the tag"))?.len())
    }
}

fn failure(what: &str) -> WireError {
    WireError::Crypto(format!("{what} is wrong"))
}

impl std::fmt::Debug for TransportKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TransportKey({:?})", self.cipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of a handshake of `snow`, and its raw keys.
    fn handshake(cipher: Cipher) -> (snow::TransportState, snow::TransportState, ([u8; 32], [u8; 32])) {
        let pattern = || cipher.noise_pattern().replace("XX", "NN").parse().unwrap();
        let mut client = snow::Builder::new(pattern()).build_initiator().unwrap();
        let mut agent = snow::Builder::new(pattern()).build_responder().unwrap();
        let (mut message, mut text) = ([0; 200], [0; 200]);
        let n = client.write_message(&[], &mut message).unwrap();
        agent.read_message(&message[..n], &mut text).unwrap();
        let n = agent.write_message(&[], &mut message).unwrap();
        client.read_message(&message[..n], &mut text).unwrap();
        let keys = client.dangerously_get_raw_split();
        let transport = |state: snow::HandshakeState| state.into_transport_mode().unwrap();
        (transport(client), transport(agent), keys)
    }

    #[test]
    fn messages_are_those_of_noise() {
        for cipher in [Cipher::ChaChaPoly, Cipher::AesGcm] {
            let (mut client, mut agent, (initiator, responder)) = handshake(cipher);
            let mut to_agent = TransportKey::new(cipher, &initiator).unwrap();
            let mut to_client = TransportKey::new(cipher, &responder).unwrap();
            let mut of_client = TransportKey::new(cipher, &initiator).unwrap();
            for size in [1, 15, 16, 17, 1000, 65_519] {
                let text: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
                // A message of this end is one of Noise.
                let mut message = text.clone();
                let tag = to_agent.seal(&mut message).unwrap();
                message.extend_from_slice(&tag);
                let mut read = vec![0; message.len()];
                let n = agent.read_message(&message, &mut read).unwrap();
                assert_eq!(read[..n], text, "{cipher:?}, {size} bytes");
                // A message of Noise is one for this end, at any distance from its text.
                let mut message = vec![0; size + TAG];
                client.write_message(&text, &mut message).unwrap();
                for at in [0, 2, 18, 4099] {
                    let mut key = TransportKey::new(cipher, &initiator).unwrap();
                    key.number = of_client.number;
                    let mut bytes = [vec![0xaa; at], message.clone()].concat();
                    assert_eq!(key.open(&mut bytes, at).unwrap(), size);
                    assert_eq!(bytes[..size], text, "{cipher:?}, {size} bytes at {at}");
                }
                of_client.number += 1;
            }
            let mut message = b"answer".to_vec();
            let tag = to_client.seal(&mut message).unwrap();
            message.extend_from_slice(&tag);
            let mut read = [0; 64];
            assert_eq!(client.read_message(&message, &mut read).unwrap(), 6);
        }
    }

    #[test]
    fn a_changed_message_is_refused() {
        for cipher in [Cipher::ChaChaPoly, Cipher::AesGcm] {
            let key = || TransportKey::new(cipher, &[3; 32]).unwrap();
            let mut message = b"a text of some length, longer than a block".to_vec();
            let tag = key().seal(&mut message).unwrap();
            message.extend_from_slice(&tag);
            for at in 0..message.len() {
                let mut changed = message.clone();
                changed[at] ^= 1;
                assert!(key().open(&mut changed, 0).is_err(), "{cipher:?}, byte {at}");
            }
            let mut short = message[..TAG - 1].to_vec();
            assert!(key().open(&mut short, 0).is_err());
            let mut second = key();
            second.number = 1;
            assert!(second.open(&mut message, 0).is_err(), "a message of another number");
        }
    }
}
