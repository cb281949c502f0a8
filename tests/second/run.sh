#!/usr/bin/env bash
# The node of this folder, written from docs/protocol.md alone, with two of ours on this machine: it
# joins, is needed for a quorum, is named as successor, leads, and makes epochs that they follow.
#
#     tests/second/run.sh [PROGRAM]        build/flotilla; PYTHON=/usr/bin/python3; ten seconds
set -u
program=${1:-build/flotilla} python=${PYTHON:-/usr/bin/python3} here=$(dirname "$0")
if ! "$python" -c "import nacl, zmq" 2>/dev/null; then
    echo "skipped: second: python3-nacl or python3-zmq is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
base=$("$python" - <<'PYTHON'
import random, socket
while True:
    base = random.randrange(20000, 30000, 10)
    try:
        for port in range(base, base + 9):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        break
    except OSError:
        pass
print(base)
PYTHON
)
folder=$(mktemp -d) pids=() passed=0
trap 'kill -9 "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT

node() { # NAME PORT [OPTION ...]: started in the background; its id in $pid
    "$program" node --name "$1" --zone "$1" --threads 1 --data "$folder/$1" \
        --listen 127.0.0.1:"$2" "${@:3}" >>"$folder/$1.log" 2>&1 &
    pid=$!
    pids+=("$pid")
}

await() { # WHAT FILE PATTERN: a check, within 20 s
    for _ in {1..200}; do
        if grep -Eq -- "$3" "$folder/$2" 2>/dev/null; then
            echo "  ok    $1"
            passed=$((passed + 1))
            return
        fi
        sleep 0.1
    done
    echo "  FAIL  $1: no \"$3\" in $2"
    tail -n 20 "$folder/$2"
    echo "$passed passed, 1 failed, 0 skipped"
    exit 1
}

node a "$base"
a=$pid
await "a founds a swarm" a.log "node started"
node b $((base + 3)) --join 127.0.0.1:"$base" --secret-file "$folder/a/swarm.secret"
b=$pid
await "b joins it" a.log "epoch=2 .*members=2"
"$python" "$here/node.py" 127.0.0.1:"$base" "$folder/a/swarm.secret" $((base + 6)) 90 \
    >"$folder/second.log" 2>&1 &
pids+=($!)
await "the second implementation joins it" a.log "epoch=3 .*members=3"
sleep 1
kill -9 "$a"
{ wait "$a"; } 2>/dev/null
await "a is lost: b leads by the second's vote" b.log "epoch=4 cause=loss members=2 leader=b"
await "the second accepted that epoch" second.log "accepts epoch 4"
node a "$base"
await "a comes back" b.log "epoch=5 cause=return members=3 leader=b"
sleep 1
kill "$b"
await "b leaves: the second is its successor" a.log "leader term=[0-9]+ name=second"
await "the second makes the epoch without b" a.log "epoch=6 cause=leave members=2 leader=second"
node b $((base + 3))
await "and one with b, which comes back" a.log "epoch=7 cause=return members=3 leader=second"
await "b follows it" b.log "epoch=7 "
if grep refuses "$folder/second.log"; then
    echo "  FAIL  it was told what it had to refuse"
    echo "$passed passed, 1 failed, 0 skipped"
    exit 1
fi
echo "$passed passed, 0 failed, 0 skipped"
