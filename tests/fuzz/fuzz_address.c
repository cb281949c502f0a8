/* Any text as an address: refused with a sentence, or written in a form that is read as
 * the same address. */
#include "transport/address.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xcalloc(size + 1, 1);
    if (size > 0)
        memcpy(text, data, size);
    struct address address, again;
    struct err err = {0};
    if (address_parse(text, &address, &err)) {
        must(err.code == ERR_USAGE && err.msg[0]);
    } else {
        char out[ADDRESS_BYTES_MAX + 8], endpoint[ADDRESS_BYTES_MAX + 16];
        address_text(&address, out);
        must(strlen(out) < ADDRESS_BYTES_MAX);
        must(address_parse(out, &again, &err) == 0);
        must(strcmp(address.host, again.host) == 0 && address.port == again.port);
        address_endpoint(&address, ADDRESS_BULK, endpoint);
    }
    free(text);
    return 0;
}
