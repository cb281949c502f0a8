#include "node/config.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/word.h"
#include "transport/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct route_file {
    char *to, *via;
};

struct log_file {
    char *level, *format;
};

struct config_file {
    char *name, *zone, *data, *listen, *advertise, *join, *secret_file, *memory, *engine;
    int64_t *threads, *voter_age;
    struct log_file log;
    struct route_file *routes;
    uint32_t routes_count;
};

#define OPTIONAL (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)
#define TEXT(key, field)                                                                 \
    CYAML_FIELD_STRING_PTR(key, OPTIONAL, struct config_file, field, 1,                  \
                           PATH_BYTES_MAX - CONFIG_PATH_ROOM)

static const cyaml_schema_field_t route_fields[] = {
    CYAML_FIELD_STRING_PTR("to", CYAML_FLAG_POINTER, struct route_file, to, 1, 128),
    CYAML_FIELD_STRING_PTR("via", CYAML_FLAG_POINTER, struct route_file, via, 1, 128),
    CYAML_FIELD_END};
static const cyaml_schema_value_t route_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct route_file, route_fields)};
static const cyaml_schema_field_t log_fields[] = {
    CYAML_FIELD_STRING_PTR("level", OPTIONAL, struct log_file, level, 1, 16),
    CYAML_FIELD_STRING_PTR("format", OPTIONAL, struct log_file, format, 1, 16),
    CYAML_FIELD_END};
static const cyaml_schema_field_t config_fields[] = {
    TEXT("name", name),
    TEXT("zone", zone),
    TEXT("data", data),
    TEXT("listen", listen),
    TEXT("advertise", advertise),
    TEXT("join", join),
    TEXT("secret_file", secret_file),
    TEXT("memory", memory),
    CYAML_FIELD_INT_PTR("threads", OPTIONAL, struct config_file, threads),
    CYAML_FIELD_INT_PTR("voter_age", OPTIONAL, struct config_file, voter_age),
    TEXT("engine", engine),
    CYAML_FIELD_MAPPING("log", CYAML_FLAG_OPTIONAL, struct config_file, log, log_fields),
    CYAML_FIELD_SEQUENCE("routes", OPTIONAL, struct config_file, routes, &route_value, 0,
                         4096),
    CYAML_FIELD_END};
static const cyaml_schema_value_t config_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct config_file, config_fields)};

void
config_data_default(char path[PATH_BYTES_MAX])
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && data[0] == '/')
        snprintf(path, PATH_BYTES_MAX, "%s/flotilla", data);
    else
        snprintf(path, PATH_BYTES_MAX, "%s/.local/share/flotilla", home ? home : ".");
}

int
config_advertise(const char *given, struct node_config *config, struct err *err)
{
    struct address address;
    if (address_parse(given, &address, err))
        return -1;
    if (strcmp(address.host, "0.0.0.0") == 0 || strcmp(address.host, "::") == 0)
        return err_set(
            err, ERR_USAGE,
            "nobody can dial the address \"%.80s\": --advertise names the one by "
            "which others reach this machine (--listen may be every address)",
            given);
    config->advertise = address;
    return 0;
}

int
config_data_take(const char *given, char path[PATH_BYTES_MAX], struct err *err)
{
    if (given[0] == '\0')
        return err_set(err, ERR_USAGE, "--data is empty; name a folder");
    if (strlen(given) > PATH_BYTES_MAX - CONFIG_PATH_ROOM)
        return err_set(err, ERR_USAGE, "--data is a path of more than %d bytes",
                       PATH_BYTES_MAX - CONFIG_PATH_ROOM);
    memcpy(path, given, strlen(given) + 1);
    return 0;
}

int
config_join_take(const char *given, struct node_config *config, struct err *err)
{
    config->invited = strncmp(given, INVITE_PREFIX, strlen(INVITE_PREFIX)) == 0;
    if (!config->invited)
        return address_parse(given, &config->join, err);
    if (invite_parse(given, &config->invite, err))
        return -1;
    config->join = config->invite.seeds[0];
    return 0;
}

void
config_init(struct node_config *config)
{
    memset(config, 0, sizeof(*config));
    config_data_default(config->data);
    snprintf(config->zone, sizeof(config->zone), "default");
    snprintf(config->listen.host, sizeof(config->listen.host), "0.0.0.0");
    config->listen.port = ADDRESS_DEFAULT_PORT;
    config->voter_age_s = CONFIG_VOTER_AGE_S;
    config->log_level = LOG_INFO;
}

void
config_release(struct node_config *config)
{
    free(config->routes.list);
    config->routes = (struct address_routes){0};
}

int
config_name_check(const char *what, const char *name, struct err *err)
{
    if (!word_names(name))
        return err_set(
            err, ERR_USAGE,
            "%s is \"%.64s\"; use 1 to %d letters, digits, '.', '_' or '-', not "
            "beginning with '.'",
            what, name, NAME_BYTES_MAX);
    return 0;
}

int
config_memory_take(const char *what, const char *given, int64_t *bytes, struct err *err)
{
    int64_t size;
    if (size_parse(given, &size, err))
        return err_wrap(err, "%s", what);
    if (size < CONFIG_MEMORY_MIN)
        return err_set(err, ERR_USAGE,
                       "%s is \"%.64s\", but must be at least %d MiB; write it with its "
                       "unit, such as 4GiB",
                       what, given, CONFIG_MEMORY_MIN >> 20);
    *bytes = size;
    return 0;
}

int
config_engine_take(const char *what, const char *given, struct node_config *config,
                   struct err *err)
{
    config->engine_off = strcmp(given, "off") == 0;
    if (!config->engine_off && strcmp(given, "on") != 0)
        return err_set(err, ERR_USAGE, "%s is \"%.64s\"; use on or off", what, given);
    return 0;
}

/* A path of the file, relative to the file's folder. */
static int
take_path(const char *file, const char *what, const char *given, char out[PATH_BYTES_MAX],
          struct err *err)
{
    const char *slash = strrchr(file, '/');
    int folder = slash && given[0] != '/' ? (int)(slash + 1 - file) : 0;
    if (snprintf(out, PATH_BYTES_MAX, "%.*s%s", folder, file, given) >=
        PATH_BYTES_MAX - CONFIG_PATH_ROOM)
        return err_set(err, ERR_USAGE, "%s is a path of more than %d bytes", what,
                       PATH_BYTES_MAX - CONFIG_PATH_ROOM);
    return 0;
}

static int
take_log(const struct log_file *log, struct node_config *config, struct err *err)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    if (log->level) {
        size_t i = 0;
        while (i < 4 && strcmp(levels[i], log->level) != 0)
            i++;
        if (i == 4)
            return err_set(err, ERR_USAGE,
                           "log.level is \"%s\"; use error, warn, info or debug",
                           log->level);
        config->log_level = (enum log_level)i;
    }
    if (log->format) {
        config->log_json = strcmp(log->format, "json") == 0;
        if (!config->log_json && strcmp(log->format, "text") != 0)
            return err_set(err, ERR_USAGE, "log.format is \"%s\"; use text or json",
                           log->format);
    }
    return 0;
}

static int
take_routes(const struct config_file *file, struct node_config *config, struct err *err)
{
    if (file->routes_count == 0)
        return 0;
    free(config->routes.list);
    config->routes.count = (int)file->routes_count;
    config->routes.list = xcalloc(file->routes_count, sizeof(*config->routes.list));
    for (uint32_t i = 0; i < file->routes_count; i++)
        if (address_parse(file->routes[i].to, &config->routes.list[i].to, err) ||
            address_parse(file->routes[i].via, &config->routes.list[i].via, err))
            return err_wrap(err, "routes");
    return 0;
}

static int
take_file(const char *path, const struct config_file *file, struct node_config *config,
          struct err *err)
{
    if ((file->name && config_name_check("name", file->name, err)) ||
        (file->zone && config_name_check("zone", file->zone, err)))
        return -1;
    if (file->name)
        snprintf(config->name, sizeof(config->name), "%s", file->name);
    if (file->zone)
        snprintf(config->zone, sizeof(config->zone), "%s", file->zone);
    if ((file->data && take_path(path, "data", file->data, config->data, err)) ||
        (file->secret_file &&
         take_path(path, "secret_file", file->secret_file, config->secret_file, err)))
        return -1;
    if ((file->listen && address_parse(file->listen, &config->listen, err)) ||
        (file->advertise && config_advertise(file->advertise, config, err)) ||
        (file->join && config_join_take(file->join, config, err)) ||
        (file->memory &&
         config_memory_take("memory", file->memory, &config->memory_bytes, err)))
        return -1;
    if (file->threads && (*file->threads < 1 || *file->threads > 1024))
        return err_set(err, ERR_USAGE, "threads is %lld, but must be from 1 to 1024",
                       (long long)*file->threads);
    if (file->threads)
        config->threads = (int)*file->threads;
    if (file->voter_age && (*file->voter_age < 0 || *file->voter_age > 86400))
        return err_set(err, ERR_USAGE,
                       "voter_age is %lld, but must be from 0 to 86400 seconds",
                       (long long)*file->voter_age);
    if (file->voter_age)
        config->voter_age_s = (int)*file->voter_age;
    if (file->engine && config_engine_take("engine", file->engine, config, err))
        return -1;
    return take_log(&file->log, config, err) || take_routes(file, config, err) ? -1 : 0;
}

int
config_read(const char *path, struct node_config *config, struct err *err)
{
    void *file;
    if (yaml_read(path, &config_schema, &file, err)) {
        err->code = ERR_USAGE; /* a file that is not there, too */
        return -1;
    }
    int result = take_file(path, file, config, err);
    if (result)
        err_wrap(err, "%s", path);
    yaml_free(&config_schema, file);
    return result;
}
