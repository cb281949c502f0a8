/*
 * mutant.h - mistakes made on purpose in the invented parts, as transport/base/mutant.h
 * has for the real ones.
 */
#ifndef TESTS_SIM_MUTANT_H
#define TESTS_SIM_MUTANT_H

#include "transport/base/mutant.h"

extern enum mutant mutant_chosen;

#define SIM_MUTANT(name) (mutant_chosen == MUTANT_##name)

#endif
