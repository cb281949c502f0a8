#define KERNELS kernels_avx2
#ifdef __x86_64__
#define TARGET __attribute__((target("avx2")))
#else
#define TARGET
#endif
#include "node/engine/kernels_body.h"
