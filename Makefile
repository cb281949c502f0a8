# make              build/flotilla             make test       unit, property and process tests
# make deps         install what is missing    make testnet    a swarm of real processes here
# make asan tsan    tests under sanitizers     make scenarios  every scenario of testnet/scenarios
# make fuzz         FUZZ_SECONDS=60 a parser   make bench      timings
# make fuzz-corpus  parsers on tests/fuzz/corpus
# make bench-gossip  gossip at 10 to 10,000 nodes, each figure against its bar
# make tidy         every static check         make rules      layering, banned calls, file lengths
# make format       rewrite the layout         make install    PREFIX=/usr/local
# make sim          simulator (SEEDS=2000), model make soak       SOAK_SEEDS=100000, resumable
# make bench-planner  how good plans are, how long they take
# make clean        remove build/              make help       this text
#
# CC=clang, SAN=address,undefined and CFLAGS choose a variant: give BUILD=folder with them, so that
# it has a folder of its own. WERROR=1 stops at warnings. Tests of a folder: make build/test_gossip.
# FLOTILLA_SEED=N replays tests that use chance, FLOTILLA_SEEDS=N runs the simulated agreement over
# more seeds. tests/model/run.sh checks the model of the agreement (needs spin).

CC       ?= cc
BUILD    ?= build
CFLAGS   ?= -O2 -g
PREFIX   ?= /usr/local
GOALS     = $(or $(MAKECMDGOALS),all)

# What Debian calls what we need: compilers and tools, libraries, the text to train on.
DEPS      = gcc make pkg-config libzmq3-dev libsodium-dev libmsgpack-dev libcyaml-dev \
            libyaml-dev libjansson-dev libdnnl-dev libopenblas-serial-dev check \
            bible-kjv bible-kjv-text
DEPS_MORE = clang libclang-rt-14-dev clang-format clang-tidy

# Goals that build nothing; all others install what is missing before pkg-config is asked.
IDLE     := deps help clean rules format install-deps
ifneq ($(filter-out $(IDLE),$(GOALS)),)
DEPS_DONE := $(shell tests/deps.sh $(DEPS) >&2 && echo yes)
ifneq ($(DEPS_DONE),yes)
$(error what is listed above is missing and could not be installed; do it by hand, then make again)
endif
MSGPACK  := $(shell pkg-config --exists msgpack-c && echo msgpack-c || echo msgpack)
PKGS      = libzmq libsodium libcyaml yaml-0.1 jansson $(MSGPACK)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
PKG_LIBS := $(shell pkg-config --libs $(PKGS))
CHECK_LIBS := $(shell pkg-config --libs check)
endif

ifdef CUDA
$(error CUDA=1 is reserved for the GPU engine, which this version has not; build without it)
endif

WARNINGS  = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wpointer-arith
override CFLAGS += -std=c17 -D_GNU_SOURCE -I. -MMD -MP -pthread -ffp-contract=off \
            $(WARNINGS) $(EXTRA) $(PKG_CFLAGS)
LDLIBS    = $(PKG_LIBS) -ldnnl -lm -lpthread
ifdef WERROR
override CFLAGS += -Werror
endif
ifdef SAN                         # make test SAN=address,undefined BUILD=build/asan
override CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
override LDFLAGS += -fsanitize=$(SAN)
endif

# Folders from the bottom up; a test of one folder links what is at its level and below.
FOLDERS  := transport/base transport gossip planner node/engine node/plan node node/command testnet
sources   = $(filter-out node/main.c,$(wildcard $(1)/*.c))
obj       = $(patsubst %,$(BUILD)/obj/%.o,$(1))
CORE     := $(foreach f,$(FOLDERS),$(call sources,$(f)))
SUITES   := transport gossip planner node testnet
FUZZERS  := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
BENCHES  := $(patsubst tests/bench/%.c,$(BUILD)/%,$(wildcard tests/bench/bench_*.c))
CORPUS   := build/kjv.txt

.PHONY: all deps help test sim sim-mutants soak asan tsan testnet scenarios fuzz fuzzers \
        fuzz-corpus corpora bench bench-gossip bench-planner tidy rules format install clean \
        suites
all: $(BUILD)/flotilla $(CORPUS)

help:
	@sed -n '1,/^$$/s/^# \?//p' Makefile
deps:
	@tests/deps.sh $(DEPS)

$(BUILD)/flotilla: $(call obj,node/main.c) $(BUILD)/libflotilla.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libflotilla.a: $(call obj,$(CORE))
	@rm -f $@
	ar rcs $@ $^

# One test program per folder, so that a folder is tested by itself: make build/test_gossip.
$(BUILD)/libtest.a: $(call obj,$(wildcard tests/*.c))
	@rm -f $@
	ar rcs $@ $^
at_level_transport = transport/base transport
at_level_gossip    = $(at_level_transport) gossip
at_level_planner   = transport/base planner
at_level_node      = $(FOLDERS)
at_level_testnet   = $(FOLDERS)
define suite
$(BUILD)/test_$(1): $(call obj,$(wildcard tests/$(1)/*.c) \
        $(foreach f,$(at_level_$(1)),$(call sources,$(f)))) $(BUILD)/libtest.a
	$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(CHECK_LIBS) $$(LDLIBS)
endef
$(foreach s,$(SUITES),$(eval $(call suite,$(s))))

# The simulator: whole nodes on invented hosts (tests/sim/world.h). Left out of the program are the
# files that tests/sim replaces; calls of the C library and libsodium are led to tests/sim/system.c.
SIM_WRAPS := socket bind listen accept4 recv send signalfd sigprocmask open close read write pwrite \
             fsync rename unlink mkdir access stat lstat fstat flock opendir readdir closedir \
             clock_gettime printf randombytes_buf sodium_malloc sodium_free \
             crypto_sign_seed_keypair crypto_sign_detached crypto_sign_verify_detached \
             crypto_sign_ed25519_sk_to_curve25519 crypto_sign_ed25519_pk_to_curve25519 \
             crypto_box_seal crypto_box_seal_open sodium_mlock view_judge plan_next
SIM_OUT   := transport/base/log.c transport/base/mailbox.c transport/loop.c transport/socket.c \
             $(wildcard transport/mesh*.c) transport/admit.c transport/join.c transport/twin.c \
             transport/group_ring.c \
             $(wildcard transport/bulk*.c) node/events.c node/doctor.c
SIM_CORE  := $(filter-out $(SIM_OUT),$(foreach f,transport/base transport gossip planner node/plan \
             node,$(call sources,$(f)))) node/engine/recover.c \
             node/engine/lineage.c tests/gossip/agree_history.c
$(BUILD)/sim: $(call obj,$(wildcard tests/sim/*.c) $(SIM_CORE))
	$(CC) $(LDFLAGS) $(SIM_WRAPS:%=-Wl,--wrap=%) -o $@ $^ $(LDLIBS)

# The same with the mistakes of transport/base/mutant.h in it; one is chosen when it runs.
MUTATED   := $(shell grep -lw MUTANT $(SIM_CORE))
$(BUILD)/sim_mutants: $(call obj,$(wildcard tests/sim/*.c) $(filter-out $(MUTATED),$(SIM_CORE))) \
        $(MUTATED:%=$(BUILD)/obj/mutants/%.o)
	$(CC) $(LDFLAGS) $(SIM_WRAPS:%=-Wl,--wrap=%) -o $@ $^ $(LDLIBS)
$(BUILD)/obj/mutants/%.c.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -DFLOTILLA_MUTANTS -c -o $@ $<

$(BUILD)/bench_%: $(BUILD)/obj/tests/bench/bench_%.c.o $(BUILD)/libflotilla.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# Gossip's thousand cores share one check of each signature.
$(BUILD)/bench_gossip: $(call obj,tests/bench/bench_gossip.c tests/bench/gossip_world.c) \
        $(BUILD)/libflotilla.a
	$(CC) $(LDFLAGS) -Wl,--wrap=key_verify,--wrap=secret_admitted -o $@ $^ $(LDLIBS)
$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.c.o $(BUILD)/libflotilla.a
	$(CC) $(LDFLAGS) -fsanitize=fuzzer $(WRAPPED) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)
$(BUILD)/fuzz_node $(BUILD)/fuzz_control: $(call obj,tests/fuzz/leader.c)
# What the loop would watch is called by the fuzzer.
$(BUILD)/fuzz_control: WRAPPED = -Wl,--wrap=loop_fd,--wrap=loop_fd_cancel,--wrap=loop_timer

# The engine's loops are worth more optimisation (and gcc's note on 64-byte vectors in calls is of
# no use); contraction is off everywhere, so that builds agree bit for bit.
$(BUILD)/obj/node/engine/%.c.o: EXTRA = -O3 -fno-math-errno -fno-trapping-math -Wno-psabi
$(BUILD)/obj/tests/node/%.c.o: EXTRA = -Wno-psabi

$(BUILD)/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

suites: $(SUITES:%=$(BUILD)/test_%) $(BUILD)/sim
test: $(BUILD)/flotilla suites rules $(CORPUS)
	@BUILD=$(BUILD) SAN=$(SAN) tests/run.sh $(BUILD)/test_transport $(BUILD)/test_node \
		$(BUILD)/test_testnet --beside $(BUILD)/test_gossip $(BUILD)/test_planner tests/sailor/check

asan:
	CK_TIMEOUT_MULTIPLIER=5 $(MAKE) test BUILD=build/asan SAN=address,undefined CFLAGS='-O1 -g'
tsan:
	CK_TIMEOUT_MULTIPLIER=10 TSAN_OPTIONS=suppressions=tests/tsan.supp $(MAKE) test BUILD=build/tsan SAN=thread CFLAGS='-O1 -g'

fuzz:
	@tests/deps.sh $(DEPS_MORE)
	$(MAKE) fuzzers CC=clang BUILD=build/fuzz SAN=fuzzer-no-link,address,undefined \
	    CFLAGS='-O1 -g'
# An input that has more than this allocated at once was not held against its limits.
FUZZ_LIMITS := -malloc_limit_mb=64 -timeout=60
fuzzers: $(FUZZERS)
	for f in $^; do mkdir -p build/corpus/$${f##*/}; \
	    $$f $(FUZZ_LIMITS) -max_total_time=$${FUZZ_SECONDS:-60} build/corpus/$${f##*/} \
	        tests/fuzz/corpus/$${f##*/} || exit 1; done
fuzz-corpus:
	@tests/deps.sh $(DEPS_MORE)
	$(MAKE) corpora CC=clang BUILD=build/fuzz SAN=fuzzer-no-link,address,undefined \
	    CFLAGS='-O1 -g'
corpora: $(FUZZERS)
	for f in $^; do $$f $(FUZZ_LIMITS) -runs=0 tests/fuzz/corpus/$${f##*/} >$$f.log 2>&1 || \
	    { tail -n 40 $$f.log; exit 1; }; done
	@echo "$(words $^) parsers took their corpora"

sim: $(BUILD)/sim $(BUILD)/sim_mutants
	@tests/deps.sh spin
	@BUILD=$(BUILD) SEEDS=$(or $(SEEDS),2000) tests/sim.sh
sim-mutants: $(BUILD)/sim_mutants
	$(BUILD)/sim_mutants --mutants 2000
soak: $(BUILD)/sim
	$(BUILD)/sim --soak $(BUILD)/soak.state --seeds $(or $(SOAK_SEEDS),100000) --jobs $(or $(JOBS),$(shell nproc))

testnet: all
	$(BUILD)/flotilla testnet run testnet/scenarios/smoke.yaml
scenarios: all
	@BUILD=$(BUILD) tests/scenarios.sh

bench-gossip: $(BUILD)/bench_gossip
	@$<
bench: all $(BENCHES)
	for b in $(BENCHES); do $$b || exit 1; done
bench-planner: all $(BUILD)/bench_planner
	@$(BUILD)/bench_planner $(BUILD)/flotilla

rules:
	@awk -f tests/rules.awk $$(git ls-files '*.[ch]' '*.cu')

tidy: rules
	@tests/deps.sh $(DEPS_MORE)
	clang-format --dry-run -Werror $$(git ls-files '*.[ch]')
	git ls-files "*.c" | xargs -P2 -n8 sh -c 'clang-tidy --quiet "$$@" -- -std=c17 -D_GNU_SOURCE -I. $(PKG_CFLAGS)' tidy

format:
	clang-format -i $$(git ls-files '*.[ch]' '*.cu')

# The King James Bible, public domain, from Debian's bible-kjv: the text that scenarios train on.
$(CORPUS):
	@mkdir -p $(@D)
	bible -f gen1:1-rev22:21 > $@.new
	@mv $@.new $@

install: $(BUILD)/flotilla
	install -Dm755 $< $(DESTDIR)$(PREFIX)/bin/flotilla

clean:
	rm -rf build

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
