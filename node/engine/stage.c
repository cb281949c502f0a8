#include "node/engine/stage_body.h"

#include "node/engine/stage_state_body.h"
