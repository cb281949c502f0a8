#include "tests/suite.h"
#include "transport/base/buf.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

Suite *suite_file(void);

static struct err err;

static void
setup(void)
{
    err = (struct err){0};
}

/* A path of that name that nobody has used, in a folder of this process. */
static char *
in_folder(char path[PATH_BYTES_MAX], const char *name)
{
    static char folder[4096];
    static pid_t made_by;
    static int used;
    if (made_by != getpid()) {
        suite_folder(folder);
        made_by = getpid();
    }
    char part[32], inner[PATH_BYTES_MAX];
    snprintf(part, sizeof(part), "%d", used++);
    ck_assert_int_eq(file_make_folder(path_join(inner, folder, part), &err), 0);
    return path_join(path, inner, name);
}

static void
ck_file(const char *path, const char *text)
{
    struct buf got = {0};
    ck_assert_msg(file_read(path, 1000, &got, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(got.len, strlen(text));
    ck_assert(got.len == 0 || memcmp(got.data, text, got.len) == 0);
    buf_release(&got);
}

START_TEST(a_file_is_replaced_as_a_whole)
{
    char path[PATH_BYTES_MAX], neighbour[PATH_BYTES_MAX + 8];
    in_folder(path, "state");
    ck_assert(!file_exists(path));
    ck_assert_int_eq(file_write(path, "old", 3, 0640, &err), 0);
    ck_file(path, "old");
    ck_assert_int_eq(file_write(path, "newer", 5, 0600, &err), 0);
    ck_file(path, "newer");
    ck_assert(file_exists(path));
    snprintf(neighbour, sizeof(neighbour), "%s.new", path);
    ck_assert(!file_exists(neighbour));
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    ck_assert_int_eq(file_write(path, NULL, 0, 0600, &err), 0);
    ck_file(path, "");
}
END_TEST

/* What an earlier crash left behind must not lend its mode to a secret. */
START_TEST(a_left_over_neighbour_changes_nothing)
{
    char path[PATH_BYTES_MAX], neighbour[PATH_BYTES_MAX + 8];
    in_folder(path, "node.key");
    snprintf(neighbour, sizeof(neighbour), "%s.new", path);
    int fd = open(neighbour, O_WRONLY | O_CREAT, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fchmod(fd, 0666), 0);
    ck_assert_int_eq(write(fd, "half a key", 10), 10);
    close(fd);
    ck_assert_int_eq(file_write(path, "key", 3, 0600, &err), 0);
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    ck_file(path, "key");
    ck_assert(!file_exists(neighbour));
}
END_TEST

/* A limit on the size of files stands for a disk that fills up in the middle of a
 * write. */
START_TEST(a_write_that_breaks_off_keeps_the_old_file)
{
    char path[PATH_BYTES_MAX], neighbour[PATH_BYTES_MAX + 8];
    in_folder(path, "state");
    ck_assert_int_eq(file_write(path, "old", 3, 0600, &err), 0);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        static const char large[5000];
        struct err inner = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4096, .rlim_max = 4096});
        int failed = file_write(path, large, sizeof(large), 0600, &inner);
        _exit(failed && inner.code == ERR_SYSTEM && strstr(inner.msg, "too large") ? 0
                                                                                   : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_file(path, "old");
    snprintf(neighbour, sizeof(neighbour), "%s.new", path);
    ck_assert(!file_exists(neighbour));
}
END_TEST

START_TEST(a_full_disk_is_named)
{
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) {
        suite_skip("a_full_disk_is_named", "there is no /dev/full");
        return;
    }
    ck_assert_int_eq(file_write_at(fd, "abc", 3, 0, "disk", &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.msg, "could not write \"disk\": No space left on device");
    close(fd);
}
END_TEST

START_TEST(a_file_that_cannot_be_written_says_why_and_leaves_nothing)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "absent/state");
    ck_assert_int_eq(file_write(path, "x", 1, 0600, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "absent/state"));
    ck_assert_ptr_nonnull(strstr(err.msg, "No such file"));
    /* A folder stands in the way of the rename. */
    in_folder(path, "folder");
    char inner[PATH_BYTES_MAX];
    ck_assert_int_eq(file_make_folder(path_join(inner, path, "inner"), &err), 0);
    ck_assert_int_eq(file_write(path, "x", 1, 0600, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    char neighbour[PATH_BYTES_MAX + 8];
    snprintf(neighbour, sizeof(neighbour), "%s.new", path);
    ck_assert(!file_exists(neighbour));
    /* Nor is a FIFO, a device or a link renamed away. */
    struct stat status;
    in_folder(path, "fifo");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    in_folder(inner, "link");
    ck_assert_int_eq(symlink("/dev/null", inner), 0);
    ck_assert_int_eq(file_write(path, "x", 1, 0600, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "is a FIFO, which is not replaced"));
    ck_assert_int_eq(file_write(inner, "x", 1, 0600, &err), -1);
    ck_assert_int_eq(file_check_replace("/dev/null", &err), -1);
    ck_assert(lstat(path, &status) == 0 && S_ISFIFO(status.st_mode));
    ck_assert(lstat(inner, &status) == 0 && S_ISLNK(status.st_mode));
}
END_TEST

START_TEST(a_file_is_read_up_to_its_limit)
{
    char path[PATH_BYTES_MAX];
    struct buf got = {0};
    in_folder(path, "f");
    ck_assert_int_eq(file_write(path, "12345", 5, 0600, &err), 0);
    buf_add(&got, "0", 1);
    ck_assert_int_eq(file_read(path, 5, &got, &err), 0);
    ck_assert_uint_eq(got.len, 6);
    ck_assert_mem_eq(got.data, "012345", 6);
    ck_assert_int_eq(file_read(path, 4, &got, &err), -1);
    ck_assert_int_eq(err.code, ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, "larger than 4 bytes"));
    in_folder(path, "absent");
    ck_assert_int_eq(file_read(path, 4, &got, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    buf_release(&got);
}
END_TEST

START_TEST(a_pipe_is_read_to_its_end_and_one_without_a_writer_is_given_up)
{
    char path[PATH_BYTES_MAX];
    struct buf got = {0};
    in_folder(path, "pipe");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(file_read(path, 9, &got, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "nobody writes to this pipe"));
    pid_t writer = fork();
    if (writer == 0) {
        int fd = open(path, O_WRONLY);
        bool good = fd >= 0 && write(fd, "12", 2) == 2 && usleep(100000) == 0 &&
                    write(fd, "345", 3) == 3;
        _exit(good ? 0 : 1);
    }
    int status;
    ck_assert_msg(file_read(path, 9, &got, &err) == 0, "%s", err.msg);
    ck_assert(waitpid(writer, &status, 0) == writer && status == 0);
    ck_assert_uint_eq(got.len, 5);
    ck_assert_mem_eq(got.data, "12345", 5);
    buf_release(&got);
}
END_TEST

START_TEST(bytes_are_written_at_their_offset)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "f");
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(file_write_at(fd, "world", 5, 6, path, &err), 0);
    ck_assert_int_eq(file_write_at(fd, "hello ", 6, 0, path, &err), 0);
    close(fd);
    ck_file(path, "hello world");
}
END_TEST

START_TEST(folders_are_made_and_removed_with_all_that_is_in_them)
{
    char top[PATH_BYTES_MAX], deep[PATH_BYTES_MAX], file[PATH_BYTES_MAX],
        kept[PATH_BYTES_MAX], link[PATH_BYTES_MAX];
    in_folder(top, "a");
    path_join(deep, top, "b/c");
    ck_assert_int_eq(file_make_folder(deep, &err), 0);
    ck_assert_int_eq(file_make_folder(deep, &err), 0);
    struct stat status;
    ck_assert_int_eq(stat(deep, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0700);
    ck_assert_int_eq(file_write(path_join(file, deep, "f"), "x", 1, 0600, &err), 0);
    ck_assert_int_eq(file_make_folder(file, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "is not a folder"));

    in_folder(kept, "kept");
    ck_assert_int_eq(file_write(kept, "x", 1, 0600, &err), 0);
    ck_assert_int_eq(symlink(kept, path_join(link, deep, "link")), 0);
    ck_assert_int_eq(symlink("nowhere", path_join(link, deep, "dangling")), 0);
    ck_assert_int_eq(file_remove_tree(top, &err), 0);
    ck_assert(!file_exists(top));
    ck_assert(file_exists(kept)); /* links are not followed */
    ck_assert_int_eq(file_remove_tree(top, &err), 0);
    ck_assert_int_eq(symlink("nowhere", top), 0);
    ck_assert_int_eq(file_remove_tree(top, &err), 0);
    ck_assert_int_eq(lstat(top, &status), -1); /* a dangling link is something, too */
}
END_TEST

START_TEST(a_lock_is_held_by_one_process)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "lock");
    int fd = file_lock(path, &err);
    ck_assert_msg(fd >= 0, "%s", err.msg);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct err inner = {0};
        int second = file_lock(path, &inner);
        _exit(second == -1 && inner.code == ERR_LIMIT && strstr(inner.msg, path) ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(fd);
    fd = file_lock(path, &err);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(file_lock(path_join(path, "/nowhere", "lock"), &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
}
END_TEST

START_TEST(paths_are_joined_with_one_slash)
{
    char path[PATH_BYTES_MAX];
    ck_assert_str_eq(path_join(path, "a", "b"), "a/b");
    ck_assert_str_eq(path_join(path, "a/", "b"), "a/b");
    ck_assert_str_eq(path_join(path, "/", "b"), "/b");
}
END_TEST

Suite *
suite_file(void)
{
    Suite *suite = suite_create("file");
    TCase *tests = suite_case(suite, "files", 30);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_file_is_replaced_as_a_whole);
    tcase_add_test(tests, a_left_over_neighbour_changes_nothing);
    tcase_add_test(tests, a_write_that_breaks_off_keeps_the_old_file);
    tcase_add_test(tests, a_full_disk_is_named);
    tcase_add_test(tests, a_file_that_cannot_be_written_says_why_and_leaves_nothing);
    tcase_add_test(tests, a_file_is_read_up_to_its_limit);
    tcase_add_test(tests, a_pipe_is_read_to_its_end_and_one_without_a_writer_is_given_up);
    tcase_add_test(tests, bytes_are_written_at_their_offset);
    tcase_add_test(tests, folders_are_made_and_removed_with_all_that_is_in_them);
    tcase_add_test(tests, a_lock_is_held_by_one_process);
    tcase_add_test(tests, paths_are_joined_with_one_slash);
    return suite;
}
