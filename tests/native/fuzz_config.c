/* Any bytes as a config file: what is not plain is left to the engine, and each setting that is taken fits. */
#include "settings.c"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *content, size_t size) {
    static const char *const ALLOWED[] = {"max_size", "readonly", NULL};
    static settings found;
    char path[32];
    bool unsealed, unnoted;
    const int file = memfd_create("config", MFD_CLOEXEC);
    if (file < 0 || write(file, content, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    for (int foreign = 0; foreign < 2; foreign++) {
        memset(&found, 0, sizeof found);
        if (read_file(path, foreign ? ALLOWED : NULL, &found, &unsealed, &unnoted) &&
            ((found.store[0] && found.store[0] != '/') || found.part > found.of))
            abort();
    }
    close(file);
    return 0;
}
