/*
 * main.c - the one binary: a table of subcommands.
 */
#include "node/command/command.h"
#include "node/status.h"
#include "testnet/testnet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command commands[] = {
    {"node", cmd_node, "run a node: found a swarm, join one, or come back to one"},
    {"train", cmd_train, "submit a job to the swarm and follow it"},
    {"status", cmd_status, "show the swarm, its links, the plan and the progress"},
    {"plan", cmd_plan, "say what a cluster would do with a job, and why"},
    {"profile", cmd_profile, "measure this machine on a job's layers, for plan"},
    {"stop", cmd_stop, "end the job after a checkpoint"},
    {"leave", cmd_leave, "let this machine's node hand over and go"},
    {"invite", cmd_invite, "print one string that lets other machines in"},
    {"allow", cmd_allow, "say which nodes may join"},
    {"evict", cmd_evict, "shut a node out for good"},
    {"secret", cmd_secret, "replace the swarm's secret"},
    {"recover", cmd_recover, "go on without a majority that is lost for good"},
    {"doctor", cmd_doctor, "say what is wrong with this machine, and what to do"},
    {"generate", cmd_generate, "write text with what was trained"},
    {"testnet", testnet_main, "run a network of real nodes on this machine"},
};

static void
print_help(FILE *out)
{
    fputs("Usage: flotilla COMMAND [OPTION...]\n\n"
          "Trains transformer models on machines that find each other. Commands:\n\n",
          out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\nExample:\n"
          "  flotilla node --zone a                     on a first machine: prints how "
          "to join\n"
          "  flotilla node --zone b --join HOST:7700 --secret-file swarm.secret\n"
          "  flotilla train job.yaml                    on any of them\n\n"
          "flotilla COMMAND --help says more; flotilla --version prints the version.\n"
          "Exit status: 0 done, 1 failed, 2 asked wrongly.\n",
          out);
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts("flotilla " FLOTILLA_VERSION);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        /* What argp, getopt and command_fail() put before a sentence. */
        static char name[64];
        snprintf(name, sizeof(name), "flotilla %s", commands[i].name);
        argv[1] = program_invocation_short_name = name;
        setenv("ARGP_HELP_FMT", "no-dup-args-note", 0); /* it says what is plain */
        int code = commands[i].run(argc - 1, argv + 1);
        if (fflush(stdout) == EOF && code == EXIT_DONE) {
            command_note("could not write to standard output: %s", strerror(errno));
            code = EXIT_FAILED;
        }
        return code;
    }
    fprintf(stderr, "flotilla: there is no command \"%s\"; flotilla --help lists them\n",
            argv[1]);
    return EXIT_USAGE;
}
