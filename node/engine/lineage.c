#include "node/engine/lineage.h"
#include "transport/base/mutant.h"

bool
lineage_same(const struct lineage *left, const struct lineage *right)
{
    if (MUTANT(lineage))
        return true;
    return left->epoch == right->epoch && left->tag == right->tag;
}

bool
state_same(const struct state_name *left, const struct state_name *right)
{
    return left->step == right->step && lineage_same(&left->lineage, &right->lineage);
}

int
state_compare(const struct state_name *left, const struct state_name *right)
{
    if (left->step != right->step)
        return left->step < right->step ? -1 : 1;
    if (left->lineage.epoch != right->lineage.epoch)
        return left->lineage.epoch < right->lineage.epoch ? -1 : 1;
    return (left->lineage.tag > right->lineage.tag) -
           (left->lineage.tag < right->lineage.tag);
}
