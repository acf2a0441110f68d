/* Looks for the same absent file N times: what the observer of a pass costs for each call. Usage: STATS N. */
#include <stdlib.h>
#include <sys/stat.h>

int main(int count, char **words) {
    struct stat found;
    for (long left = count > 1 ? atol(words[1]) : 0; left > 0; left--)
        stat("/usr/include/hip/absent.h", &found);
    return 0;
}
