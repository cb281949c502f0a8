/*
 * Any bytes as a node.yaml: taken with every value in its range, or refused with a
 * sentence.
 */
#include "node/config.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("node.yaml", MFD_CLOEXEC);
        must(file >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    must(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);

    struct node_config config;
    struct err err = {0};
    config_init(&config);
    if (config_read(path, &config, &err)) {
        must(err.code == ERR_USAGE && strlen(err.msg) > 0);
    } else {
        struct err bad;
        must(config_name_check("zone", config.zone, &bad) == 0);
        must(!config.name[0] || config_name_check("name", config.name, &bad) == 0);
        must(config.threads >= 0 && config.threads <= 1024 && config.memory_bytes >= 0);
        must(strlen(config.data) < PATH_BYTES_MAX - CONFIG_PATH_ROOM);
        must(config.log_level <= LOG_DEBUG && config.routes.count >= 0);
    }
    config_release(&config);
    return 0;
}
