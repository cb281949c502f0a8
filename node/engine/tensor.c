#include "node/engine/tensor_body.h"

#include "node/engine/attention_body.h"
