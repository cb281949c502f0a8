/*
 * mutant.h - mistakes that the simulator must find (make sim-mutations).
 *
 * In the program MUTANT(name) is 0 and costs nothing. The simulator's own build of it has
 * -DFLOTILLA_MUTANTS, and one name is chosen when it runs.
 */
#ifndef TRANSPORT_BASE_MUTANT_H
#define TRANSPORT_BASE_MUTANT_H

#define MUTANTS(X)                                                                       \
    X(none, "nothing")                                                                   \
    X(tie, "of an even number of voters any half is a quorum")                           \
    X(quorum, "a leader commits with one acceptance")                                    \
    X(noadopt, "a leader passes over what its voters have accepted")                     \
    X(open, "a leader that adopted goes on without new votes")                           \
    X(raise, "a commit does not raise the promise")                                      \
    X(twice, "a voter votes for two candidates of a term")                               \
    X(epoch, "a voter does not compare epochs")                                          \
    X(prevote, "a candidate does not wait for pre-votes")                                \
    X(amnesia, "who lost its state votes at once")                                       \
    X(judge, "a voter accepts without computing the plan")                               \
    X(unsynced, "files are not synced")                                                  \
    X(forget, "a promise is not written")                                                \
    X(late, "a promise is written after it left")                                        \
    X(fence, "a process that was stopped asks nobody")                                   \
    X(prepared, "a step that somebody applied is given up by those who prepared it")     \
    X(lineage, "states are told apart by their step alone")                              \
    X(look, "a leader proposes without a look at who is still here")                     \
    X(boot, "a member's newer boot is taken for the older one")                          \
    X(denied, "who is denied by a member asks nobody")                                   \
    X(stale, "data of an older epoch is taken in")                                       \
    X(early, "a step is applied before all norms are there")                             \
    X(samples, "a pipeline counts its neighbour's samples")                              \
    X(cut, "connections with who is evicted stay open")                                  \
    X(allowed, "the list of who is allowed is passed over")                              \
    X(uses, "an invite has one use more than it is for")                                 \
    X(island, "who found nobody lets others in")                                         \
    X(measure, "a job's first plan rests on links that nobody measured")

enum mutant {
#define MUTANT_ENUM(name, text) MUTANT_##name,
    MUTANTS(MUTANT_ENUM)
#undef MUTANT_ENUM
        MUTANTS_COUNT
};

#ifdef FLOTILLA_MUTANTS
extern enum mutant mutant_chosen;
#define MUTANT(name) (mutant_chosen == MUTANT_##name)
#else
#define MUTANT(name) 0
#endif

#endif
