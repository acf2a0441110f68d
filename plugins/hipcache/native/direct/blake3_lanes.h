/* The part of blake3.c that is compiled once for each size of vectors: LANES, HASH_LANES and VECTOR (names), TARGET. */
typedef uint32_t VECTOR __attribute__((vector_size(4 * LANES)));

TARGET static void HASH_LANES(const uint8_t *content, size_t stride, size_t blocks, input kind, uint32_t cv[][8]) {
    VECTOR h[8], low, high;
    for (int i = 0; i < 8; i++)
        h[i] = (VECTOR){0} + kind.of->words[i];
    for (int l = 0; l < LANES; l++) {
        const uint64_t counter = kind.counter + (uint64_t)l * kind.step;
        low[l] = (uint32_t)counter, high[l] = (uint32_t)(counter >> 32);
    }
    for (size_t b = 0; b < blocks; b++) {
        const uint32_t flags = kind.of->flags | kind.all | (b == 0 ? kind.start : 0) | (b == blocks - 1 ? kind.end : 0);
        const VECTOR zero = {0};
        VECTOR m[16], v[16];
        for (int i = 0; i < 8; i++)
            v[i] = h[i], v[8 + i] = zero + IV[i % 4];
        v[12] = low, v[13] = high, v[14] = zero + BLOCK, v[15] = zero + flags;
        for (int i = 0; i < 16; i++)
            for (int l = 0; l < LANES; l++)
                m[i][l] = little(content + (size_t)l * stride + b * BLOCK + 4 * i);
        for (int r = 0; r < 7; r++)
            ROUND(v, m, SCHEDULE[r]);
        for (int i = 0; i < 8; i++)
            h[i] = v[i] ^ v[i + 8];
    }
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < 8; i++)
            cv[l][i] = h[i][l];
}

#undef LANES
#undef HASH_LANES
#undef VECTOR
#undef TARGET
