/* BLAKE3 with 256 bits, after the specification (github.com/BLAKE3-team/BLAKE3-specs), for content of known length. */
#ifndef HIPCACHE_BLAKE3_H
#define HIPCACHE_BLAKE3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_BYTES 32
#define KEY_BYTES 32
#define PIECE_BYTES (1u << 20) /* a whole subtree: 1024 chunks */

/* Gives the next `size` bytes (at most PIECE_BYTES), or NULL where they cannot be had. */
typedef const uint8_t *(*blake3_next)(void *source, size_t size);

void blake3(const void *content, size_t size, uint8_t digest[DIGEST_BYTES]);

/* The specification's keyed hash: a message authentication code. */
void blake3_keyed(const uint8_t key[KEY_BYTES], const void *content, size_t size, uint8_t digest[DIGEST_BYTES]);

/* A key made of a secret of any length. `context` says what it is for. */
void blake3_derive_key(const char *context, const void *secret, size_t size, uint8_t key[KEY_BYTES]);

/* The same of content that comes in pieces, in order. False where `next` gave NULL. */
bool blake3_of(blake3_next next, void *source, uint64_t size, uint8_t digest[DIGEST_BYTES]);

#endif
