#pragma once
__managed__ int managed_17 = 17;
