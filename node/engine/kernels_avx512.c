#define KERNELS kernels_avx512
#ifdef __x86_64__
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define TARGET
#endif
#include "node/engine/kernels_body.h"
