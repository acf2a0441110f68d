// Nothing for a GPU: the object has no fat binary.
#include <stdlib.h>

extern "C" int twice(int value) { return abs(value) * 2; }
struct Counter {
    ~Counter() { ++ended; }
    static int ended;
};
int Counter::ended = 0;
thread_local Counter counter;
