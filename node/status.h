/*
 * status.h - what a node shows of itself: its event log, its status document, and the
 * names of the files by which other programs find them. The testnet's runner and the
 * commands read these.
 *
 * DIR/events.jsonl: one JSON object a line, appended and flushed as things happen. Each
 * has "mono_ms" (CLOCK_MONOTONIC: one clock for all processes of a machine) and "event":
 *
 *   event       also has
 *   ----------  -----------------------------------------------------------------------
 *   start       id, name, zone, address, incarnation (the boot counter), founded (bool)
 *   joined      swarm, seed: admitted by it
 *   member      id, name, zone, state, before, reason: gossip changed its mind about it
 *   leader      term, id, name
 *   epoch       epoch, term, leader, leader_name, cause, hash, base_step (-1: no plan),
 *               job (its name or ""), members[] {id, name}, voters[] names, plan (below),
 *               predicted_step_s
 *   progress    epoch, step, loss, tokens, nodes (members), step_s: a step that a worker
 *               told of, at a node without a part in the plan
 *   compute     epoch, step: the first forward pass of an epoch began here
 *   step        epoch, step, loss, tokens, nodes, norm, step_s, samples_hash: applied
 *               here; loss in nats per token; the hash is a running one, 16 hexadecimal
 *               digits
 *   halted      epoch, applied, prepared (-1: not): stopped for a new plan
 *   rollback    from_step, to_step: applied steps are given up, since all replicas of a
 *               stage were lost
 *   copy        step: all stages' recovery copies of it are complete
 *   checkpoint  step, path: written here, whole
 *   paused      reason: training does not advance here
 *   resumed
 *   fenced      epoch: it is in force without us; all work of the old one is dropped
 *   memory      predicted_bytes: what the plan lets this node's engine take
 *   stall       peer (name or ""), waited_ms, what
 *   failed      what, reason: the engine could not do it. "checkpoint" and "copy":
 *               training goes on; "profile" and "epoch": this device is planned around;
 *               all others end the run
 *   job         name, state: "running", "stopping", then how it ended: "done", "stopped
 *               at step N", "failed: why"
 *   reach       address, verdict ("reachable", "reachable by some", "unreachable"): what
 *               peers found who dialled this node back
 *   policy      what ("evicted", "secret replaced", "invite open", "invite used",
 *               "invite ended", "allowed", "no longer allowed", "mode"), id, name (about
 *               whom), by, version: a change was decided on
 *   secret      this node has the swarm's new secret
 *   twin        address, goes_on (bool): another process has this node's identity; this
 *               one goes on or ends
 *   stop        reason
 *
 * A plan is {micro_batch, pipelines, nodes (that take part), blocks (of the model: layer 0
 * is the embedding, the last one the head), loosened (bool: what the job fixes could not
 * all be kept), fixed {pipeline, replicas, micro_batch, zones[]: those that the job
 * fixes}, stages[] {first_layer, layers, replicas[] {node (its name), zone, device, tp,
 * micro_batches}}}; without one, stages is empty, the numbers are 0, fixed is absent.
 *
 * DIR/control.sock: a UNIX stream socket. A request is one JSON object on one line,
 * {"command": NAME, ...}. The answer is lines of JSON objects until the node closes: zero
 * or more lines as in the event log, then one {"done": true, ...}, or
 * {"error": "sentence", "usage": bool}. Two lines are of the talk alone: {"event":
 * "submitted"} while the leader's answer to a job is waited for, and {"event": "run",
 * epoch, cause, leader_name, nodes (members), job, step, steps, plan} when a command
 * begins to follow, for a submission once it is accepted.
 *
 *   command     also has, and the answer
 *   ----------  -----------------------------------------------------------------------
 *   status      {"done": true, "status": the document below}
 *   cluster     prefix (of the profiles' file names): {"done": true, "cluster": the text of
 *               a cluster.yaml, "profiles": [{file, text}]} for flotilla plan
 *   train       job (the YAML), name (what to call it in messages), data (its hash in
 *               hexadecimal), data_bytes, run (id of a run to resume, or ""), follow
 *               (bool: events until the command hangs up)
 *   follow      events from here on
 *   stop        follow: the run ends after a checkpoint
 *   invite      uses, seconds, votes: {"done": true, "invite": the string}
 *   revoke      invite: its short name or the string
 *   evict       node: a name, a short id or a whole id
 *   rotate      the swarm's secret is replaced
 *   allow, disallow   nodes[]
 *   mode        mode: "secret" or "allow-list"
 *   recover     survivors[] (empty: all that are reached), yes (bool: do it):
 *               {"done": true, "text": what is or would be}
 *   check       others are to dial this node back soon: see reach in the status
 *   leave       the node hands over and goes; events until it is gone
 *
 * The status document:
 *
 *   id, name, zone, address, version, entered (bool: in a swarm); if so, also
 *   swarm, generation, epoch, term, role, leader, leader_name, quorum (bool),
 *   member (bool: this node is in the newest epoch), paused (why, or ""),
 *   rival_generation (its generation, which another recovery began, too; 0: none),
 *   ended (how the last run ended or why this one waits, or "")
 *   submitted (the job on which the members measure themselves, or "")
 *   members[]   {id, name, zone, address, state, since_s (in it), member (bool),
 *               voter (bool), worker (bool), device, memory_bytes, epoch,
 *               round_trip_ms, self (bool), reach (as its record says), way ("out": by our
 *               connection to it, "back": by its to us, "round": by another node, "none"),
 *               via (who that is, or ""), data_way (the same of data in this epoch)}
 *   links[]     {from, to (names), from_zone, to_zone, mbit_per_s (0: unknown),
 *               low_mbit_per_s (a fifth of the samples were below), round_trip_ms,
 *               confidence (0 to 100), method ("passive": from what was sent anyway,
 *               "probe", "model": derived from others, "unknown"), age_s (of the last
 *               sample, when its receiver told it), curve[] {bytes, mbit_per_s: what
 *               messages of this size got}}: directed, as their receivers measure them
 *   probes      {count, sent_bytes (since the start), left_bytes (may be sent now),
 *               hour_bytes (what any hour may see)}: of this node, to measure links
 *   warnings[]  what does not fit together: zones that the round trips contradict
 *   job         {name, state, step, steps, loss, tokens_per_s, step_s, predicted_step_s,
 *               checkpoint_step (written by this node), copy_step, participating
 *               (workers), samples_hash}, or null
 *   plan        as above
 *   twin        where another process with this node's identity was met, or ""
 *   policy      {version, mode ("secret" or "allow-list"), secret (short name of the one
 *               in force), secret_here (bool: this node has it), changing_over (bool),
 *               allowed[], evicted[], never_voters[] {id (whole), name}, invites[] {id,
 *               uses, uses_left, seconds_left, votes}}
 *   refused     handshakes that were refused
 *   reach       {address, verdict, seen (where the last peer saw us come from), answers[]
 *               {peer, age_ms, join, control, data ("open", "shut", "of another": somebody
 *               else answers, "untried")}}: what others found who dialled this node back
 *   connections {known, kept (connected all the time), out, back, round}: nodes by way
 *   carried     {frames, chunks, bytes}: what this node took to others for others
 */
#ifndef NODE_STATUS_H
#define NODE_STATUS_H

#define STATUS_EVENTS_FILE "events.jsonl"
#define STATUS_SOCKET_FILE "control.sock"
#define STATUS_LOCK_FILE "lock"
#define STATUS_SECRET_FILE "swarm.secret"
#define STATUS_CHECKPOINTS_FOLDER "checkpoints"
#define STATUS_DATA_FOLDER "data"

#define FLOTILLA_VERSION "0.1.0"

#endif
