#define KERNELS kernels_base
#define TARGET
#include "node/engine/kernels_body.h"
