//! The pairing code: short enough for two users to compare, and not controllable by either end or an attacker.
//!
//! A relay could search for a short digest of the handshake alone: it needs about 2^30 tries of its keys until both
//! sides show the same nine digits. So the client first commits to a nonce, then the agent sends its own, then the
//! client reveals. The code hashes all three, and a relay has one try in 2^30.

use super::keys::KeyError;

/// Returns a random nonce: the hash of a new key's public half, so that there is only one source of random numbers.
///
/// # Errors
/// If the operating system gives no random numbers.
pub fn nonce() -> Result<[u8; 32], KeyError> {
    let pair = super::keys::KeyPair::generate()?;
    Ok(blake3::derive_key("kinescope pairing nonce v1", pair.private()))
}

/// Returns the client's commitment.
#[must_use]
pub fn commitment(handshake: &[u8; 32], nonce: &[u8; 32]) -> [u8; 32] {
    let mut h = blake3::Hasher::new_derive_key("kinescope pairing commitment v1");
    h.update(handshake).update(nonce);
    *h.finalize().as_bytes()
}

/// Returns the code: nine digits in three groups.
#[must_use]
pub fn code(handshake: &[u8; 32], client: &[u8; 32], agent: &[u8; 32]) -> String {
    let mut h = blake3::Hasher::new_derive_key("kinescope pairing code v1");
    h.update(handshake).update(client).update(agent);
    let mut number = [0; 8];
    h.finalize_xof().fill(&mut number);
    let n = u64::from_le_bytes(number) % 1_000_000_000;
    format!("{:03} {:03} {:03}", n / 1_000_000, n / 1000 % 1000, n % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_changes_the_pairing_code_and_the_commitment() {
        let base = code(&[1; 32], &[2; 32], &[3; 32]);
        assert_eq!(base.len(), 11);
        assert!(base.bytes().all(|b| b.is_ascii_digit() || b == b' '));
        assert_ne!(base, code(&[9; 32], &[2; 32], &[3; 32]));
        assert_ne!(base, code(&[1; 32], &[9; 32], &[3; 32]));
        assert_ne!(base, code(&[1; 32], &[2; 32], &[9; 32]));
        assert_ne!(commitment(&[1; 32], &[2; 32]), commitment(&[1; 32], &[3; 32]));
        assert_ne!(commitment(&[1; 32], &[2; 32]), commitment(&[2; 32], &[2; 32]));
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
