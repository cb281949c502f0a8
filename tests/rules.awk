# The rules a compiler cannot check. Reads source files, prints each breach
# as "file:line: what", exits 1 if there is one. Run by `make rules`.
BEGIN {
    # Which folder may include which; nothing points up or sideways.
    may["transport/base"] = "transport/base/"
    may["transport"]      = "transport/"
    may["gossip"]         = "gossip/ transport/base/ transport/key.h transport/codec.h transport/frame.h"
    may["planner"]        = "planner/ transport/base/"
    may["node/engine"]    = "node/engine/ planner/ transport/"
    may["node/plan"]      = "node/plan/ node/config.h node/job.h node/view.h planner/ gossip/ transport/"
    may["node"]           = "node/ planner/ gossip/ transport/"
    may["node/command"]   = "node/ planner/ gossip/ transport/"
    may["testnet"]        = "testnet/ node/status.h transport/"
    may["tests"]          = "tests/ testnet/ node/ planner/ gossip/ transport/"

    # Each library has one home; the rest of the tree sees our header for it.
    home["zmq"]          = "^transport/(loop|socket|mesh|mesh_receive|admit|join|bulk_wire)\\.c$"
    home["sodium"]       = "^(transport/key|tests/sim/system)\\.c$"
    home["msgpack(/.*)?"] = "^transport/codec\\.c$"
    home["cyaml/.*"]     = "^transport/yaml\\.[ch]$"
    home["yaml"]         = "^transport/yaml\\.c$"
    home["jansson"]      = "^transport/json\\.c$"
    home["microhttpd"]   = "^node/http\\.c$"
    home["n?curses"]     = "^node/command/.*\\.c$"
    home["cblas|dnnl"]   = "^node/engine/matmul_.*\\.c$"
    home["sys/socket|netinet/.*|arpa/inet|poll|sys/epoll"] = "^(transport|node|testnet|tests)/[a-z]"
    home["math"]         = "^(node|testnet|tests|transport)/" # not planner/: same bits everywhere
    home["nccl"]         = "^transport/group_nccl\\.cu$"
    home["cuda.*|cublas.*"] = "\\.cu$"

    # Calls with a safer neighbour, and where (if anywhere) they may stand.
    banned["strcpy|strcat|sprintf|gets|strncpy|strtok|atoi|atof|alloca|system"] = "^$"
    banned["malloc|calloc|realloc|aligned_alloc"] = "^transport/base/(alloc|mailbox)\\.c$"
    banned["time|gettimeofday|clock_gettime"] = "^transport/base/clock\\.c$"
    banned["rand|random|srand"] = "^$"
    banned["exit|abort"] = "^(node/main|transport/base/(alloc|must)|tests/.*)\\.c$|must\\.h$"
}
function breach(what) { print FILENAME ":" FNR ": " what; bad = 1 }
FNR == 1 {
    split(FILENAME, part, "/")
    shelf = part[1] "/" part[2]
    if (!(shelf in may)) shelf = part[1]
}
FNR == 801 { breach("longer than 800 lines: give its second job a file") }
/^#include "/ {
    target = $2; gsub(/"/, "", target)
    ok = 0; count = split(may[shelf], allowed, " ")
    for (i = 1; i <= count; i++) if (index(target, allowed[i]) == 1) ok = 1
    if (FILENAME == "node/main.c" && target == "testnet/testnet.h") ok = 1
    if (shelf == "node" && FILENAME != "node/main.c" && index(target, "node/command/") == 1) ok = 0
    if (!ok) breach(shelf " may not include " target)
}
/^#include </ {
    for (library in home)
        if ($2 ~ "^<(" library ")(_v2)?\\.h>$" && FILENAME !~ home[library])
            breach(FILENAME " may not include " $2 ": it has one home")
}
{
    line = $0
    sub(/^[ \t]*\*.*/, "", line); gsub(/"[^"]*"/, "", line); gsub(/\/\*.*\*\//, "", line)
    for (names in banned)
        if (FILENAME !~ banned[names] && match(line, "(^|[^A-Za-z0-9_>.])(" names ")\\("))
            breach("banned here: " substr(line, RSTART, RLENGTH) ")")
}
END { exit bad }
