/* Seals records with a secret that the members of a shared store hold: see store/seal.py, which says it first. */
#define _GNU_SOURCE
#include "direct.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC_BYTES = 8, LEAST = 16, MOST = 4096, MOST_NAMESPACE = 64 }; /* bytes of a secret */
static const uint8_t PLAIN[MAGIC_BYTES] = {0x89, 'h', 'c', 'A', '1', '\r', '\n', 0x1a};
static const uint8_t SEALED[MAGIC_BYTES] = {0x89, 'h', 'c', 'K', '1', '\r', '\n', 0x1a};

/* If the file is not as it should be, the engine says why. */
bool seal_read_secret(const char *path, uint8_t secret[KEY_BYTES]) {
    uint8_t content[MOST + 1];
    struct stat found;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    const bool good = fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
                      (found.st_uid == geteuid() || found.st_uid == 0) && (found.st_mode & 077) == 0;
    const ssize_t size = good ? read(fd, content, sizeof content) : -1;
    close(fd);
    if (size < LEAST || size > MOST)
        return false;
    blake3_derive_key(SEAL_CONTEXT, content, (size_t)size, secret);
    return true;
}

bool seal_is_namespace(const char *name) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
    return strlen(name) <= MOST_NAMESPACE && strspn(name, letters) == strlen(name);
}

void seal_within(const char *namespace, bool sealed, uint8_t secret[KEY_BYTES]) {
    uint8_t text[KEY_BYTES + MOST_NAMESPACE];
    const size_t before = sealed ? KEY_BYTES : 0, size = strlen(namespace);
    memcpy(text, secret, before);
    memcpy(text + before, namespace, size);
    blake3_derive_key(NAMESPACE_CONTEXT, text, before + size, secret);
}

void seal_name(const uint8_t *secret, char key[2 * DIGEST_BYTES + 1]) {
    uint8_t text[sizeof SEALED_NAME_DOMAIN + 2 * DIGEST_BYTES], digest[DIGEST_BYTES];
    if (!secret)
        return;
    memcpy(text, SEALED_NAME_DOMAIN, sizeof SEALED_NAME_DOMAIN);
    memcpy(text + sizeof SEALED_NAME_DOMAIN, key, 2 * DIGEST_BYTES);
    blake3_keyed(secret, text, sizeof text, digest);
    hexadecimal(digest, DIGEST_BYTES, key);
}

const uint8_t *seal_magic(const uint8_t *secret) { return secret ? SEALED : PLAIN; }

void seal_digest(const uint8_t *secret, const void *content, size_t size, uint8_t digest[DIGEST_BYTES]) {
    if (secret)
        blake3_keyed(secret, content, size, digest);
    else
        blake3(content, size, digest);
}
