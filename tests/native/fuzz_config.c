/* Any bytes as what the engine has left of a config file: each setting that is taken fits. */
#include "settings.c"

int LLVMFuzzerTestOneInput(const uint8_t *content, size_t size) {
    static settings found;
    memset(&found, 0, sizeof found);
    found.of = 1;
    if (take_values((const char *)content, size, &found) && (!found.of || found.part > found.of))
        abort();
    if (!memchr(found.store, 0, sizeof found.store) || !memchr(found.namespace, 0, sizeof found.namespace))
        abort();
    return 0;
}
