// PBKDF2-HMAC-SHA256: for each line `PASSWORD<tab>SALT`, 32 bytes in hex. The argument is the number of rounds.
#include "program.h"

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
    struct bytes input = read_input(), password, salt;
    while (next_pair(&input, &password, &salt)) {
        uint8_t key[32];
        pbkdf2_sha256(password, salt, rounds, key, sizeof key);
        write_hex_line(key, sizeof key);
    }
    return 0;
}
