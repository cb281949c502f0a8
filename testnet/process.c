#include "testnet/process.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_SLICE_MS = 5, PROC_BYTES_MAX = 16 << 10, EXIT_NOT_RUN = 126 };

/* In the child: only calls that are safe after fork(). */
static _Noreturn void
become(char *const argv[], int log, pid_t runner)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != runner)
        _exit(EXIT_NOT_RUN); /* it was gone before we could ask */
    setpgid(0, 0);           /* Ctrl-C is the runner's business */
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(EXIT_NOT_RUN);
    execv(argv[0], argv);
    static const char text[] = "testnet: the program could not be run\n";
    ssize_t written = write(2, text, sizeof(text) - 1);
    (void)written;
    _exit(EXIT_NOT_RUN);
}

int
process_start(struct process *process, char *const argv[], const char *log,
              struct err *err)
{
    must(process->pid == 0);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_errno(err, "could not open \"%s\"", log);
    pid_t runner = getpid();
    process->started_ms = clock_ms();
    /* A signal that comes early must not meet the runner's handlers in the child. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        become(argv, fd, runner);
    int why = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(fd);
    errno = why;
    if (pid < 0)
        return err_set_errno(err, "could not start a process");
    process->pid = pid;
    process->stopped = false;
    process->status = 0;
    return 0;
}

bool
process_ended(struct process *process)
{
    int status;
    if (process->pid && waitpid(process->pid, &status, WNOHANG) == process->pid) {
        process->pid = 0;
        process->stopped = false;
        process->status = status;
    }
    return process->pid == 0;
}

static void
send_signal(const struct process *process, int number)
{
    if (process->pid)
        kill(process->pid, number);
}

void
process_kill(struct process *process)
{
    send_signal(process, SIGKILL);
}

void
process_stop(struct process *process)
{
    send_signal(process, SIGSTOP);
    process->stopped = process->pid != 0;
}

void
process_continue(struct process *process)
{
    send_signal(process, SIGCONT);
    process->stopped = false;
}

void
process_ask_to_end(struct process *process)
{
    send_signal(process, SIGTERM);
}

bool
process_wait(struct process *process, int64_t ms)
{
    int64_t end = clock_ms() + ms;
    while (!process_ended(process) && clock_ms() < end)
        clock_sleep_ms(WAIT_SLICE_MS);
    return process->pid == 0;
}

void
process_measure(struct process *process)
{
    char path[64];
    struct buf text = {0};
    struct err err;
    if (!process->pid)
        return;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process->pid);
    if (file_read(path, PROC_BYTES_MAX, &text, &err) == 0) {
        buf_add(&text, "", 1);
        const char *at = strstr((const char *)text.data, "VmHWM:");
        int64_t bytes = at ? strtoll(at + strlen("VmHWM:"), NULL, 10) * 1024 : 0;
        if (bytes > process->peak_rss_bytes)
            process->peak_rss_bytes = bytes;
    }
    buf_release(&text);
}

const char *
process_how(const struct process *process, char text[64])
{
    if (WIFSIGNALED(process->status))
        snprintf(text, 64, "signal %d (%s)", WTERMSIG(process->status),
                 strsignal(WTERMSIG(process->status)));
    else
        snprintf(text, 64, "exit code %d", WEXITSTATUS(process->status));
    return text;
}
