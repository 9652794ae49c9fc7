//! Passwords with known hashes. Python computed the hashes: `hashlib.scrypt` with n=1024, r=1, p=1, dklen=64, and
//! `hashlib.pbkdf2_hmac` with SHA-256, 1000 rounds, 32 bytes.

use super::equality::{as_text, expect_equal};
use super::random::Random;

/// Maximum number of lines of an input.
const MAX_LINES: u64 = 3;

struct HashVector {
    password: &'static str,
    salt: &'static str,
    scrypt: &'static str,
    pbkdf2: &'static str,
}

static VECTORS: [HashVector; 8] = [
    HashVector {
        password: "password",
        salt: "NaCl",
        scrypt: "8bb740a753619bbb66185549639d5f540396aea07bbd123032197014c28f8affc96ba38bddfff4fa68e93d297297479eb686f70f821450efb3f9aaa550336a6a",
        pbkdf2: "67dbcc78548a75328f6890125bec2c59876e8de2e4c92c99b201872a760e2aec",
    },
    HashVector {
        password: "",
        salt: "",
        scrypt: "b34ab7cd1ce0c308146ab970fa75517bcf20f95c7ed7a34efc0d5f096469b2e1b41bf3dec2408b6a46ee4257754d56ca12a430c66d51a544248fc0690845e1e6",
        pbkdf2: "4fc58a21c100ce1835b8f9991d738b56965d14b24e1761fbdffc69ac5e0b667a",
    },
    HashVector {
        password: "pleaseletmein",
        salt: "SodiumChloride",
        scrypt: "d42e6c0310ed4d37c18fa5a864bf7d08b7cb611153e1530b5bc26a1db63f4d7cff0038398aea809f2e4a7191a0b0cae6f2f0676035d3bd9b0527dcba082eb086",
        pbkdf2: "81fc7f893e6d9963913730387fc2398914ee39696705c4ed945d4e6b4ecb8414",
    },
    HashVector {
        password: "größer",
        salt: "salt with spaces",
        scrypt: "2140dae0dc63d498c59e573534beb17424395b2af89c50a20726303f2476e723720a5e1073f40cb2b77722c0df886ba127bd089b0aea1834b6fefff3eef5d265",
        pbkdf2: "6c315104d258e73580b04b66ac2ef059d0a5c83fa8b6516d110ac5cd1725919f",
    },
    HashVector {
        password: "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
        salt: "ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss",
        scrypt: "1ee7162f6c427c4bbfb0629f13a8d561fe41019af46e9668dee7692faf9aaf717273a6aa8294d96cd7e68e030309eb43b5b93325b73cf8bb9831a82c175f09ac",
        pbkdf2: "1ea3d651a6c9a658477f26b1a6e7167c77a1952767f608d3f6828815bf3a5789",
    },
    HashVector {
        password: "a",
        salt: "b",
        scrypt: "c04718eb923145ece23b0f8d87f5ab93f6c28e5e0caa63c5020cd63527e4f9c28c874007fc35731e974d99800c95e79a885d439f755e145c4b7110ae366ba290",
        pbkdf2: "a9ad83929ae9ec538bc0f44e36ada66fedb00425310583960ad798a416eec3aa",
    },
    HashVector {
        password: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        salt: "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
        scrypt: "a8b1b7e28487c59d71e8d79c2b35e1e4d753197c855dbcb180ecfa94b7b8c2c9f998f1c68d33e1cdc2b6650417b57f408684894527d3f5ede81b958e394b64b3",
        pbkdf2: "546d598547ad9584ed193956d345bbac1278c93b1757a63c8cadc4ed39566819",
    },
    HashVector {
        password: "correct horse battery staple",
        salt: "0123456789abcdef",
        scrypt: "146269b56396e770cdfcb9210b1649007361f3b2bd2bebb153d21299edafd7af7727bfd77883a22eaaf0963037ff3ec68cf6290c267a2ffea5bf9b608aa59c3c",
        pbkdf2: "caa4aad92ca0635b01e04707f5fd851b42533044bec2a2ec393e589a2441a652",
    },
];

/// Returns up to three lines `PASSWORD<tab>SALT`.
pub(super) fn make_lines(random: &mut Random) -> Vec<u8> {
    let mut lines = String::new();
    for _ in 0..=random.below(MAX_LINES) {
        if let Some(vector) = random.pick(&VECTORS) {
            lines.extend([vector.password, "\t", vector.salt, "\n"]);
        }
    }
    lines.into_bytes()
}

pub(super) fn check_scrypt(input: &[u8], output: &[u8]) -> Result<(), String> {
    check(input, output, |v| v.scrypt)
}

pub(super) fn check_pbkdf2(input: &[u8], output: &[u8]) -> Result<(), String> {
    check(input, output, |v| v.pbkdf2)
}

fn check(input: &[u8], output: &[u8], hash: fn(&HashVector) -> &str) -> Result<(), String> {
    let mut expected = String::new();
    for line in as_text(input)?.lines() {
        let vector = VECTORS
            .iter()
            .find(|v| line.split_once('\t') == Some((v.password, v.salt)));
        let vector = vector.ok_or_else(|| format!("no known hash of the input '{line}'"))?;
        expected.extend([hash(vector), "\n"]);
    }
    expect_equal(as_text(output)?, &expected)
}
