#include "base.h"
#include "h.h"
KERNEL k17() { managed_17 = 3; }
