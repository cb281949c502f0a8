#include "tests/fuzz/leader.h"
#include "node/voters.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the log: nobody reads it here ---- */

void
log_setup(enum log_level level, bool json)
{
    (void)level;
    (void)json;
}

bool
log_site_open(struct log_site *site, unsigned *left_out)
{
    (void)site;
    *left_out = 0;
    return true;
}

void
log_write(enum log_level level, const char *subsystem, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    must(level <= LOG_DEBUG && subsystem[0] && line[0]);
}

/* ---- a swarm of three, one of them here ---- */

static void
open_node(struct leader *leader)
{
    static unsigned opened;
    struct node_config config;
    struct err err = {0};
    for (int i = 0; i < 100 && !leader->node; i++, opened++) {
        config_init(&config);
        snprintf(config.data, sizeof(config.data), "%s/one", leader->folder);
        config.engine_off = true;
        must(address_parse("127.0.0.1:1", &config.listen, &err) == 0);
        config.listen.port =
            (uint16_t)(20000 + ((unsigned)getpid() * 7 + opened * 131) % 30000);
        config.advertise = config.listen;
        leader->node = node_open(&config, &err);
        config_release(&config);
    }
    must(leader->node && leader->node->entered);
}

static void
add_member(struct view *view, struct node *node, const struct key *key)
{
    struct report report = {.id = *key_id(key),
                            .term = agree_term(node->agree),
                            .epoch = node->decree.epoch,
                            .progress = {.reported = true, .applied = -1},
                            .profile = {.correction_ppm = 1000000}};
    struct buf record = {0}, bytes = {0};
    struct err err = {0};
    report.record = (struct record){.id = report.id,
                                    .incarnation = UINT64_C(1) << 32,
                                    .memory_bytes = 1 << 28,
                                    .zone = "default",
                                    .name = "n",
                                    .address = "127.0.0.1:9",
                                    .device = "cpu"};
    secret_admit(node->secret, &node->swarm, &report.id, report.record.admission);
    const struct member *self = gossip_member_self(node->gossip);
    bool own = key == node->key;
    if (own)
        buf_add(&record, self->bytes, self->len);
    else
        record_sign(&report.record, key, &node->swarm, &record);
    report_sign(&report, record.data, record.len, key, &node->swarm, &bytes);
    must(view_report(view, bytes.data, bytes.len, &node->swarm,
                     secret_admit_id(node->secret), &err) == 0);
    if (!own)
        must(gossip_merge(node->gossip, clock_ms(), record.data, record.len,
                          &node->effects, &err) == 0);
    buf_release(&record);
    buf_release(&bytes);
}

/* An epoch of three with an open invite, decided by the founder alone. */
static void
make_epoch(const struct leader *leader)
{
    struct node *node = leader->node;
    struct view *view = xcalloc(1, sizeof(*view));
    struct decree_member members[3];
    struct id voters[VOTERS_MAX];
    struct buf bytes = {0};
    struct err err = {0};
    view_begin(view, node->view);
    add_member(view, node, node->key);
    add_member(view, node, leader->maker);
    add_member(view, node, leader->other);
    struct policy_request request = {.from = node->id,
                                     .version = view->policy.version,
                                     .op = POLICY_INVITE,
                                     .subject = *key_id(leader->invite),
                                     .uses = 3,
                                     .left_s = 1000000,
                                     .votes = true};
    policy_request_sign(&request, node->key, &node->swarm, &bytes);
    must(policy_apply(&view->policy, &request, &node->swarm, bytes.data, bytes.len,
                      &err) == 0);
    must(view_derive(view, node->view, &err) == 0);
    for (uint32_t i = 0; i < 3; i++)
        members[i] = (struct decree_member){view->reports[i].id,
                                            view->reports[i].record.incarnation};
    uint32_t count = voters_choose(&node->decree, view, voters);
    buf_clear(&bytes);
    view_encode(view, &bytes);
    must(agree_propose(node->agree, clock_ms(), CAUSE_JOIN, members, 3, voters, count,
                       bytes.data, bytes.len, &node->effects, &err) == 0);
    node_effects(node);
    must(epoch_number(node->decree.epoch) == 2 && node->member);
    must(decree_member(&node->decree, key_id(leader->maker)));
    must(admission_invite_open(node, key_id(leader->invite)));
    buf_release(&bytes);
    view_release(view);
    free(view);
}

static char folder_left[64]; /* of a leader that is open */

static void
clean_up(void)
{
    struct err err;
    if (folder_left[0])
        file_remove_tree(folder_left, &err);
}

void
leader_open(struct leader *leader)
{
    static bool registered;
    struct err err = {0};
    must(key_setup(&err) == 0);
    *leader = (struct leader){.folder = "/tmp/fuzz_node.XXXXXX",
                              .maker = key_from_seed((const uint8_t[32]){2}),
                              .other = key_from_seed((const uint8_t[32]){3}),
                              .invite = key_from_seed((const uint8_t[32]){5})};
    must(mkdtemp(leader->folder));
    snprintf(folder_left, sizeof(folder_left), "%s", leader->folder);
    if (!registered)
        atexit(clean_up);
    registered = true;
    open_node(leader);
    make_epoch(leader);
}

void
leader_close(struct leader *leader)
{
    struct err err;
    node_close(leader->node);
    file_remove_tree(leader->folder, &err);
    folder_left[0] = '\0';
    key_free(leader->maker);
    key_free(leader->other);
    key_free(leader->invite);
    *leader = (struct leader){.node = NULL};
}
