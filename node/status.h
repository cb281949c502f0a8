/*
 * status.h - what a node shows of itself: its event log, its status document, and the
 * names of the files by which other programs find them. The testnet's runner and the
 * commands read these.
 *
 * DIR/events.jsonl   one JSON object a line, appended and flushed as things happen. Each
 * has "mono_ms" (CLOCK_MONOTONIC, one clock for all processes of a machine) and "event":
 *
 *   start     id, name, zone, address, incarnation, founded (bool)
 *   joined    swarm, seed                      admitted by a seed
 *   member    id, name, zone, state, before, reason   gossip changed its mind about a
 * member leader    term, id, name epoch     epoch, term, leader, leader_name, cause,
 * hash, base_step, job, members[] {id, name}, voters[] names, plan {micro_batch,
 * pipelines, stages[] {first_layer, layers, replicas[] {node, zone, device, tp,
 * micro_batches}}}, predicted_step_s              (stages empty without a job; `node` is
 * the node's name) progress  epoch, step, loss, tokens, nodes, step_s   heard from a
 * worker by a node without a part in the plan compute   epoch, step the first forward
 * pass of an epoch began here step      epoch, step, loss, tokens, nodes, norm, step_s,
 * samples_hash (16 hex digits, running) applied here; loss in nats per token halted
 * epoch, applied, prepared         stopped for a new plan rollback  from_step, to_step
 * applied steps given up (all replicas of a stage were lost) copy      step all stages'
 * recovery copies of this step are complete checkpoint step, path written here, whole
 *   paused    reason                           no quorum: training does not advance
 *   resumed
 *   fenced    epoch                            an epoch without us is in force: all work
 * of the old one is dropped memory    predicted_bytes                  what the plan lets
 * this node's engine take stall     peer, waited_ms, what failed    what, reason the
 * engine could not do `what` (a checkpoint: training goes on) job       name, state
 * running, stopping, then how it ended: done, stopped at step N, failed: why stop reason
 *
 * DIR/control.sock   a UNIX stream socket. One request, a JSON object on one line:
 * {"command": NAME, ...}. The answer is lines of JSON objects until the node closes: zero
 * or more {"event": ...} (train follows a run), then one {"done": true, ...} or {"error":
 * "sentence", "usage": bool}. status    the last line is {"done": true, "status": {...}}
 * (the document below) train     "job": the YAML, "name": what to call it in messages,
 * "data": hash in hexadecimal, "data_bytes", "run": id of a run to resume or "",
 * "follow": events until the run ends follow    events of the run from here on stop ends
 * the run after a checkpoint; "follow" leave     hands over and goes; events until the
 * node is gone
 *
 * The status document: id, name, zone, address, swarm, version, epoch, term, role,
 * leader, leader_name, quorum (bool), paused (text), members[] {id, name, zone, address,
 * state, member (bool), voter (bool), device, memory_bytes, epoch, round_trip_ms, self
 * (bool)}, links[] {from, to, mbit_per_s, round_trip_ms, confidence} (by zone), job
 * {name, state, step, steps, loss, tokens_per_s, step_s, predicted_step_s,
 * checkpoint_step, copy_step, participating, samples_hash} or null, plan as in the event,
 * refused (admission refusals).
 */
#ifndef NODE_STATUS_H
#define NODE_STATUS_H

#define STATUS_EVENTS_FILE "events.jsonl"
#define STATUS_SOCKET_FILE "control.sock"
#define STATUS_SECRET_FILE "swarm.secret"
#define STATUS_CHECKPOINTS_FOLDER "checkpoints"
#define STATUS_DATA_FOLDER "data"

#define FLOTILLA_VERSION "0.1.0"

#endif
