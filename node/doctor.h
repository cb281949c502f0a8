/*
 * doctor.h - what keeps a machine from being a good member, found out and said with what to
 * do. The findings about this machine; those about the swarm come from a node's status
 * document.
 */
#ifndef NODE_DOCTOR_H
#define NODE_DOCTOR_H

#include "transport/address.h"
#include "transport/json.h"

enum finding_level { FINDING_OK, FINDING_WARN, FINDING_BAD };
const char *finding_level_name(enum finding_level level); /* "ok" */

enum { FINDINGS_MAX = 48, FINDING_BYTES_MAX = 600 };

struct finding {
    enum finding_level level;
    char topic[16]; /* "ports" */
    char text[FINDING_BYTES_MAX];
};

struct findings {
    int count;
    struct finding list[FINDINGS_MAX];
};

void findings_add(struct findings *findings, enum finding_level level, const char *topic,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The gravest of them. */
enum finding_level findings_worst(const struct findings *findings);

/* What one TCP connection carries at most that answers loss by halving (reno; cubic is
 * about as slow on such paths): MSS / RTT x sqrt(3/2) / sqrt(loss) (Mathis, Semke, Mahdavi,
 * Ott 1997), in bytes a second, with segments of 1448 bytes. */
double doctor_mathis(double round_trip_ms, double loss);
/* Descriptors that a node may need in a swarm of so many members. */
int64_t doctor_files_needed(int64_t members);

/* ---- this machine ---- */
void doctor_folder(struct findings *findings, const char *data);
void doctor_memory(struct findings *findings);
void doctor_files(struct findings *findings, int64_t members);
void doctor_products(struct findings *findings);
/* Can the three ports be listened at? For when no node runs. */
void doctor_ports(struct findings *findings, const struct address *base);

/* ---- the network: `status` of a node, or NULL ---- */
void doctor_network(struct findings *findings, const struct json *status);
void doctor_reach(struct findings *findings, const struct json *status);
void doctor_swarm(struct findings *findings, const struct json *status,
                  int64_t answered_ms);

#endif
