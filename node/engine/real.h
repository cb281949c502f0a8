/*
 * real.h - the type of the engine's numbers.
 *
 * The engine is fp32. Its arithmetic lives in headers named *_body.h, which a .c file of
 * this folder compiles for float; the tests compile them once more for double, to hold
 * gradients against finite differences.
 */
#ifndef NODE_ENGINE_REAL_H
#define NODE_ENGINE_REAL_H

#ifdef REAL_IS_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
