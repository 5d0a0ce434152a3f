#define _GNU_SOURCE
#include "CProcess.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <nss.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/// The child's descriptors above the standard descriptors: the record file, and the write end of the
/// pipe that reports a failure to the parent, as an errno.
enum { RECORD = 3, REPORT = 4 };

static _Noreturn void fail(int report, int code) {
  while (write(report, &code, sizeof code) < 0 && errno == EINTR) {}
  _exit(127);
}

/// Returns a copy of `descriptor` with a number above REPORT, so that the later dup2 calls do not
/// overwrite the copy.
static int lifted(int descriptor, int report) {
  int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, REPORT + 1);
  if (copy < 0) fail(report, errno);
  return copy;
}

static void close_from(int first, int limit) {
  if (close_range((unsigned)first, ~0U, 0) == 0) return;
  for (int descriptor = first; descriptor < limit; descriptor++) close(descriptor);
}

/// Appends the child's /proc/self/stat, with its process id and start time, to the record. The
/// child writes before exec, so that no program runs without a record.
static void sign(int record, int report) {
  char text[1024];
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(report, errno);
  ssize_t count = read(file, text, sizeof text);
  if (count <= 0) fail(report, count < 0 ? errno : EIO);
  close(file);
  if (write(record, text, (size_t)count) != count) fail(report, ENOSPC);
}

/// Runs in the child between vfork and exec, in the memory of the parent, while the parent's thread
/// waits. Must not lock, allocate, return, or write to the parent's variables.
static _Noreturn void run_child(
    const struct pr_spawn *options, int report, pid_t parent, int descriptor_limit) {
  report = lifted(report, report);
  int input = options->standard_input;
  input = input < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : input;
  if (input < 0) fail(report, errno);
  input = lifted(input, report);
  int output = options->standard_output < 0 ? -1 : lifted(options->standard_output, report);
  int error = options->standard_error < 0 ? -1 : lifted(options->standard_error, report);
  int record = options->record < 0 ? -1 : lifted(options->record, report);

  if (options->new_session ? setsid() < 0 : setpgid(0, 0) < 0) fail(report, errno);
  if (options->death_signal) {
    if (prctl(PR_SET_PDEATHSIG, options->death_signal) < 0) fail(report, errno);
    // If the parent died before prctl took effect, the kernel never sends the signal.
    if (getppid() != parent) _exit(127);
  }
  if (record >= 0) sign(record, report);

  if (dup2(input, 0) < 0) fail(report, errno);
  if (output >= 0 && dup2(output, 1) < 0) fail(report, errno);
  if (error >= 0 && dup2(error, 2) < 0) fail(report, errno);
  if (dup3(report, REPORT, O_CLOEXEC) < 0) fail(report, errno);
  if (record >= 0 && dup2(record, RECORD) < 0) fail(REPORT, errno);
  if (record < 0) close(RECORD);
  close_from(REPORT + 1, descriptor_limit);

  if (options->directory && chdir(options->directory) < 0) fail(REPORT, errno);

  struct sigaction standard = {.sa_handler = SIG_DFL};
  for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &standard, NULL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);

  execve(options->path, options->arguments, options->environment);
  fail(REPORT, errno);
}

int pr_spawn_begin(const struct pr_spawn *options, pid_t *pid, int *report) {
  // If this process inherited an ignored SIGCHLD, the kernel discards the exit status of children.
  struct sigaction action;
  if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN) signal(SIGCHLD, SIG_DFL);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) return errno;
  struct rlimit limit;
  int descriptor_limit = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 65536
    ? (int)limit.rlim_cur : 65536;

  // The parent's signal handlers must not run in the child before the child resets them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t parent = getpid();
  // Uses vfork, because fork would copy the mappings of this process, although exec discards the
  // copy.
  pid_t child = vfork();
  if (child == 0) run_child(options, ends[1], parent, descriptor_limit);
  int code = child < 0 ? errno : 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);

  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return code;
  }
  *pid = child;
  *report = ends[0];
  return 0;
}

int pr_spawn_report(int report) {
  int code;
  ssize_t count;
  while ((count = read(report, &code, sizeof code)) < 0 && errno == EINTR) {}
  if (count < 0 && errno == EAGAIN) return -1;
  // End of file: exec has closed the pipe, and the child runs the new program.
  return count == sizeof code ? code : 0;
}

int pr_spawn(const struct pr_spawn *options, pid_t *pid) {
  int report;
  pid_t child;
  int code = pr_spawn_begin(options, &child, &report);
  if (code != 0) return code;
  struct pollfd item = {.fd = report, .events = POLLIN};
  while ((code = pr_spawn_report(report)) < 0) poll(&item, 1, -1);
  close(report);
  if (code != 0) while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  if (code == 0) *pid = child;
  return code;
}

/// Adds a block to a hash. The last block of a file may have any size; all others are multiples of 8 bytes.
static uint64_t hashed(uint64_t hash, const unsigned char *bytes, size_t count) {
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
  }
  for (; count > 0; bytes++, count--) hash = (hash ^ *bytes) * 0x100000001B3ULL;
  return hash;
}

/// Writes all bytes. Returns 0 or an errno.
static int write_all(int descriptor, const unsigned char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(descriptor, bytes, count);
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) {
      bytes += written;
      count -= (size_t)written;
    }
  }
  return 0;
}

uint64_t pr_hash(uint64_t hash, const void *bytes, size_t count) { return hashed(hash, bytes, count); }

void pr_lower_thread_priority(void) { setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10); }

/// Returns whether the disk of a file has space for the contents of another file, and a megabyte more. Otherwise, an
/// attempt to copy would for a moment take the space that other files need.
static bool has_space(int copy, int source) {
  struct stat status;
  struct statvfs disk;
  if (fstat(source, &status) != 0 || fstatvfs(copy, &disk) != 0) return true;
  return (uint64_t)disk.f_bavail * disk.f_frsize >= (uint64_t)status.st_size + (1 << 20);
}

int pr_copy_file(int source, int copy, uint64_t *hash) {
  bool is_cloned = copy >= 0 && ioctl(copy, FICLONE, source) == 0;
  if (copy >= 0 && !is_cloned && !has_space(copy, source)) return ENOSPC;
  size_t size = 1 << 18;
  unsigned char *buffer = malloc(size);
  if (!buffer) return ENOMEM;
  int code = 0;
  *hash = 0xCBF29CE484222325ULL;
  off_t offset = 0;
  while (code == 0) {
    ssize_t count = pread(is_cloned ? copy : source, buffer, size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) code = errno;
    if (count <= 0) break;
    *hash = hashed(*hash, buffer, (size_t)count);
    offset += count;
    if (copy >= 0 && !is_cloned) code = write_all(copy, buffer, (size_t)count);
  }
  *hash = (*hash ^ (uint64_t)offset) * 0x9E3779B97F4A7C15ULL;
  *hash ^= *hash >> 29;
  free(buffer);
  return code;
}

int pr_process_descriptor(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

int pr_process_signal(int descriptor, int signal, int group) {
  // PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9.
  unsigned flags = group ? 1U << 2 : 0;
  if (syscall(SYS_pidfd_send_signal, descriptor, signal, NULL, flags) == 0) return 0;
  if (!group || errno != EINVAL) return errno;
  return syscall(SYS_pidfd_send_signal, descriptor, signal, NULL, 0) == 0 ? 0 : errno;
}

/// The first version of Linux's struct pidfd_info.
struct process_information {
  uint64_t mask;
  uint64_t cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};

int pr_process_exit(int descriptor, int *status) {
  // PIDFD_INFO_EXIT and PIDFD_GET_INFO, since Linux 6.15.
  struct process_information information = {.mask = 1U << 3};
  if (ioctl(descriptor, _IOWR(0xFF, 11, struct process_information), &information) < 0) return errno;
  if (!(information.mask & 1U << 3)) return ENODATA;
  *status = information.exit_code;
  return 0;
}

void pr_protocols_from_file(void) {
  // Ignores errors, because lookups also work without this setting, and only take longer.
  (void)__nss_configure_lookup("protocols", "files");
}

int pr_pipe(int *read_end, int *write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return errno;
  // The write end stays blocking: a child with a non-blocking stdout would lose lines.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  *read_end = ends[0];
  *write_end = ends[1];
  return 0;
}

/// Whether this process inherited `signal` as ignored. For example, nohup ignores SIGHUP, and
/// shells ignore SIGINT for background commands. False for SIGCHLD, SIGCONT and SIGWINCH, which do
/// not end a process.
static bool is_inherited_ignored(int signal) {
  struct sigaction action;
  if (signal == SIGCHLD || signal == SIGCONT || signal == SIGWINCH) return false;
  return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int pr_signal_descriptor(const int *signals, int count) {
  sigset_t set;
  sigemptyset(&set);
  for (int index = 0; index < count; index++) {
    if (!is_inherited_ignored(signals[index])) sigaddset(&set, signals[index]);
  }
  int code = pthread_sigmask(SIG_BLOCK, &set, NULL);
  if (code != 0) {
    errno = code;
    return -1;
  }
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int pr_next_signal(int descriptor) {
  struct signalfd_siginfo info;
  for (;;) {
    ssize_t count = read(descriptor, &info, sizeof info);
    if (count == (ssize_t)sizeof info) return (int)info.ssi_signo;
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && errno != EAGAIN ? -1 : 0;
  }
}

void pr_line_buffer_output(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

int pr_kill_self_at(int64_t instant) {
  static timer_t timer;
  static bool is_made = false;
  if (!is_made) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    if (timer_create(CLOCK_BOOTTIME, &event, &timer) < 0) return errno;
    is_made = true;
  }
  struct itimerspec due = {
    .it_value = {.tv_sec = instant / 1000000000, .tv_nsec = instant % 1000000000}};
  return timer_settime(timer, TIMER_ABSTIME, &due, NULL) < 0 ? errno : 0;
}

// Functions of libdispatch for programs with their own run loop.
int _dispatch_get_main_queue_handle_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);

int pr_main_queue_descriptor(void) { return _dispatch_get_main_queue_handle_4CF(); }

void pr_run_main_queue(void) {
  eventfd_t count;
  while (eventfd_read(pr_main_queue_descriptor(), &count) < 0 && errno == EINTR) {}
  _dispatch_main_queue_callback_4CF(NULL);
}

static struct {
  int input, output;
  struct termios attributes;
  char text[128];
  size_t count;
} terminal;

static const int crashes[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGQUIT};

static void restore_terminal(int signal) {
  ssize_t written = write(terminal.output, terminal.text, terminal.count);
  (void)written;
  tcsetattr(terminal.input, TCSANOW, &terminal.attributes);
  // SA_RESETHAND has restored the default action, so that the raised signal ends the process.
  raise(signal);
}

void pr_guard_terminal(int input, const struct termios *attributes, int output, const char *text) {
  struct sigaction action = {.sa_handler = SIG_DFL};
  if (text) {
    terminal.input = input;
    terminal.output = output;
    terminal.attributes = *attributes;
    terminal.count = strlen(text) < sizeof terminal.text ? strlen(text) : sizeof terminal.text;
    memcpy(terminal.text, text, terminal.count);
    action.sa_handler = restore_terminal;
    action.sa_flags = SA_RESETHAND;
  }
  for (size_t index = 0; index < sizeof crashes / sizeof *crashes; index++) {
    sigaction(crashes[index], &action, NULL);
  }
}

static struct sigaction before_watch[NSIG];
static void (*note_crash)(void);

static void crashed(int signal, siginfo_t *info, void *context) {
  (void)context;
  sigaction(signal, &before_watch[signal], NULL);
  int is_foreign = info->si_code <= 0 && info->si_pid != getpid();
  if (!is_foreign) note_crash();
  // After this handler returns, a faulty instruction runs again and causes its signal again. A
  // signal that a process has sent (`si_code` <= 0) does not repeat, so it is raised again here.
  if (info->si_code <= 0) raise(signal);
}

static void exited(void) { note_crash(); }

void pr_watch_crashes(void (*note)(void)) {
  int is_first = !note_crash;
  note_crash = note;
  if (!is_first) return;
  struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  for (size_t index = 0; index < sizeof crashes / sizeof *crashes; index++) {
    if (crashes[index] != SIGQUIT) sigaction(crashes[index], &action, &before_watch[crashes[index]]);
  }
  atexit(exited);
}

void pr_suspend(void) {
  sigset_t stop, before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, &before);
  kill(0, SIGTSTP);
  // The kernel may deliver the signal of `kill` to another thread, while this thread continues for
  // a moment. The signal of `pthread_kill` stops the process before the function returns.
  pthread_kill(pthread_self(), SIGTSTP);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int64_t pr_birth_time(int descriptor) {
  struct statx status;
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BTIME, &status) != 0) return 0;
  if (!(status.stx_mask & STATX_BTIME)) return 0;
  return (int64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec;
}
