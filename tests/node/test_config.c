#include "node/config.h"
#include "tests/suite.h"
#include "transport/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_config(void);

static char folder[PATH_BYTES_MAX];
static char file[PATH_BYTES_MAX];
static struct node_config config;
static struct err err;

static void
setup(void)
{
    suite_folder(folder);
    path_join(file, folder, "node.yaml");
    config_init(&config);
    err = (struct err){0};
}

static void
teardown(void)
{
    config_release(&config);
    file_remove_tree(folder, &err);
}

static int
read_text(const char *text)
{
    ck_assert_int_eq(file_write(file, text, strlen(text), 0600, &err), 0);
    return config_read(file, &config, &err);
}

static void
taken(const char *text)
{
    ck_assert_msg(read_text(text) == 0, "%s", err.msg);
}

static void
refused(const char *text, const char *why)
{
    ck_assert_msg(read_text(text) == -1, "taken: %s", text);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strncmp(err.msg, file, strlen(file)) == 0, "%s", err.msg);
    ck_assert_msg(strstr(err.msg, why), "\"%s\" does not say \"%s\"", err.msg, why);
}

START_TEST(what_nobody_says_has_its_default)
{
    ck_assert_str_eq(config.zone, "default");
    ck_assert_str_eq(config.listen.host, "0.0.0.0");
    ck_assert_int_eq(config.listen.port, 7700);
    ck_assert_str_eq(config.name, "");
    ck_assert_str_eq(config.join.host, "");
    ck_assert_str_eq(config.advertise.host, "");
    ck_assert_int_eq(config.threads, 0);
    ck_assert_int_eq(config.memory_bytes, 0);
    ck_assert_int_eq(config.log_level, LOG_INFO);
    ck_assert(!config.engine_off);
    ck_assert_int_eq(config.voter_age_s, 600);
    ck_assert(!config.log_json && config.routes.count == 0);
    char path[PATH_BYTES_MAX];
    setenv("XDG_DATA_HOME", "/xdg", 1);
    config_data_default(path);
    ck_assert_str_eq(path, "/xdg/flotilla");
    setenv("XDG_DATA_HOME", "not/absolute",
           1); /* to be ignored, says its specification */
    setenv("HOME", "/home/me", 1);
    config_data_default(path);
    ck_assert_str_eq(path, "/home/me/.local/share/flotilla");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    config_data_default(path);
    ck_assert_str_eq(path, "./.local/share/flotilla");
}
END_TEST

START_TEST(a_file_says_everything_that_options_say)
{
    taken("name: one\nzone: eu-1\ndata: /srv/flotilla\nlisten: 127.0.0.1:7800\n"
          "advertise: example.org:7900\njoin: \"[::1]:7700\"\nsecret_file: /etc/secret\n"
          "threads: 3\nmemory: 1.5GiB\nengine: off\nvoter_age: 10\nlog: {level: debug, "
          "format: json}\n"
          "routes:\n  - {to: \"10.0.0.1:7700\", via: \"127.0.0.1:9000\"}\n"
          "  - {to: \"10.0.0.2:7700\", via: \"127.0.0.1:9010\"}\n");
    ck_assert_str_eq(config.name, "one");
    ck_assert_str_eq(config.zone, "eu-1");
    ck_assert_str_eq(config.data, "/srv/flotilla");
    ck_assert_str_eq(config.listen.host, "127.0.0.1");
    ck_assert_int_eq(config.listen.port, 7800);
    ck_assert_str_eq(config.advertise.host, "example.org");
    ck_assert_int_eq(config.advertise.port, 7900);
    ck_assert_str_eq(config.join.host, "::1");
    ck_assert_str_eq(config.secret_file, "/etc/secret");
    ck_assert_int_eq(config.threads, 3);
    ck_assert(config.engine_off);
    ck_assert_int_eq(config.voter_age_s, 10);
    ck_assert_int_eq(config.memory_bytes, INT64_C(3) << 29);
    ck_assert_int_eq(config.log_level, LOG_DEBUG);
    ck_assert(config.log_json);
    ck_assert_int_eq(config.routes.count, 2);
    struct address to;
    ck_assert_int_eq(address_parse("10.0.0.2:7700", &to, &err), 0);
    ck_assert_int_eq(address_route(&config.routes, &to)->port, 9010);
    ck_assert_int_eq(address_parse("10.0.0.3:7700", &to, &err), 0);
    ck_assert_ptr_eq(address_route(&config.routes, &to), &to);
    taken("memory: 64MiB\n");
    ck_assert_int_eq(config.memory_bytes, 64 << 20);
    /* A second file replaces the routes and leaves what it does not name. */
    taken("routes: [{to: \"10.0.0.3:7700\", via: \"127.0.0.1:9020\"}]\n");
    ck_assert_int_eq(config.routes.count, 1);
    ck_assert_int_eq(address_route(&config.routes, &to)->port, 9020);
    ck_assert_str_eq(config.zone, "eu-1");
    ck_assert_int_eq(config.threads, 3);
}
END_TEST

START_TEST(what_is_out_of_bounds_or_of_no_use_is_refused)
{
    taken("engine: on\nvoter_age: 0\n");
    ck_assert(!config.engine_off);
    refused("engine: maybe\n", "engine is \"maybe\"; use on or off");
    refused("voter_age: 90000\n", "from 0 to 86400 seconds");
    refused("voter_age: -1\n", "voter_age");
    refused("advertise: 0.0.0.0:7700\n", "nobody can dial the address \"0.0.0.0:7700\"");
    refused("advertise: \"[::]:7700\"\n", "nobody can dial");
}
END_TEST

START_TEST(paths_are_relative_to_the_file)
{
    char expected[PATH_BYTES_MAX];
    taken("data: state\nsecret_file: keys/swarm.secret\n");
    ck_assert_str_eq(config.data, path_join(expected, folder, "state"));
    ck_assert_str_eq(config.secret_file,
                     path_join(expected, folder, "keys/swarm.secret"));
}
END_TEST

START_TEST(the_file_s_folder_may_have_a_long_path)
{
    char deep[PATH_BYTES_MAX], path[PATH_BYTES_MAX], expected[PATH_BYTES_MAX];
    snprintf(deep, sizeof(deep), "%s", folder);
    for (int i = 0; i < 8; i++) {
        size_t used = strlen(deep);
        snprintf(deep + used, sizeof(deep) - used, "/%064d", i);
    }
    ck_assert_int_eq(file_make_folder(deep, &err), 0);
    path_join(path, deep, "node.yaml");
    ck_assert_int_eq(file_write(path, "data: state\n", 12, 0600, &err), 0);
    ck_assert_msg(config_read(path, &config, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(config.data, path_join(expected, deep, "state"));
}
END_TEST

START_TEST(every_bad_value_has_a_sentence)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"zon: a\n", "line 1: unknown key \"zon\"; did you mean \"zone\"?"},
        {"zone: a\nlog:\n  levle: info\n",
         "line 3: unknown key \"levle\" in \"log\"; did you mean "
         "\"level\"?"},
        {"zone: a b\n", "zone is \"a b\"; use 1 to 32 letters"},
        {"name: ../x\n", "name is \"../x\""},
        {"name: .x\n", "not beginning with '.'"},
        {"listen: \"here:port\"\n", "here:port"},
        {"listen: \"127.0.0.1:99999\"\n", "99999"},
        {"advertise: \"a b:1\"\n", "a b:1"},
        {"join: \":7700\"\n", ":7700"},
        {"threads: 0\n", "threads is 0, but must be from 1 to 1024"},
        {"threads: 1025\n", "threads is 1025"},
        {"threads: many\n", "line 1"},
        {"memory: lots\n", "lots"},
        {"memory: -1GiB\n", "-1GiB"},
        {"memory: 10\n", "size \"10\" has no unit; write one, such as 512MiB"},
        {"memory: 63MiB\n", "memory is \"63MiB\", but must be at least 64 MiB"},
        {"# nothing is set\n", "node.yaml: the file is empty"},
        {"log: {level: loud}\n", "log.level is \"loud\"; use error, warn, info or debug"},
        {"log: {format: xml}\n", "log.format is \"xml\"; use text or json"},
        {"routes: [{to: \"10.0.0.1:7700\"}]\n", "via"},
        {"routes: [{to: \"10.0.0.1:7700\", via: \"x y\"}]\n", "routes: "},
        {"zone: a\nzone: b\n", "line 2"},
        {"", "node.yaml"},
        {"[1, 2\n", "node.yaml"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(bad[i].text, bad[i].why);
    ck_assert_int_eq(config_read("/nonexistent/node.yaml", &config, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert(strstr(err.msg, "/nonexistent/node.yaml"));
}
END_TEST

START_TEST(a_name_is_letters_digits_and_three_signs)
{
    static const char *const good[] = {"a", "A-1_b.c", "0",
                                       "abcdefghijabcdefghijabcdefghijab"};
    static const char *const bad[] = {
        "", ".a", "a/b", "a b", "a\n", "\xc3\xa9", "abcdefghijabcdefghijabcdefghijabc"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        ck_assert_int_eq(config_name_check("--name", good[i], &err), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(config_name_check("--name", bad[i], &err), -1);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert(strncmp(err.msg, "--name is ", 10) == 0);
    }
}
END_TEST

Suite *
suite_config(void)
{
    Suite *suite = suite_create("config");
    TCase *tests = suite_case(suite, "config", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_nobody_says_has_its_default);
    tcase_add_test(tests, a_file_says_everything_that_options_say);
    tcase_add_test(tests, what_is_out_of_bounds_or_of_no_use_is_refused);
    tcase_add_test(tests, paths_are_relative_to_the_file);
    tcase_add_test(tests, the_file_s_folder_may_have_a_long_path);
    tcase_add_test(tests, every_bad_value_has_a_sentence);
    tcase_add_test(tests, a_name_is_letters_digits_and_three_signs);
    return suite;
}
