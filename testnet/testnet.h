/*
 * testnet.h - a network of real nodes on this machine:
 * `flotilla testnet run SCENARIO.yaml`.
 *
 *     scenario.yaml --> [ runner ] --starts--> node processes (this same binary)
 *                           |  `--> relay: one thread that joins the zones and shapes
 *                           |       each directed link
 *                           `--> reads their event logs, does the events, checks the
 *                                expectations, gives a verdict
 */
#ifndef TESTNET_TESTNET_H
#define TESTNET_TESTNET_H

/* The subcommand; argv[0] is "flotilla testnet". Exit code 0: the scenario's expectations
 * hold; 1: they do not; 2: asked wrongly. */
int testnet_main(int argc, char **argv);

#endif
