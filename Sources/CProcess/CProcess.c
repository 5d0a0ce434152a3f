#define _GNU_SOURCE
#include "CProcess.h"

#include <errno.h>
#include <fcntl.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/// The descriptors of a child above the standard descriptors: the record, which the program inherits; the write end of
/// the errno pipe; and the file to execute if there is no path.
enum { RECORD = 3, REPORT = 4, PROGRAM = 5 };

static _Noreturn void fail(int report, int code) {
  while (write(report, &code, sizeof code) < 0 && errno == EINTR) {}
  _exit(127);
}

/// Returns a copy of `descriptor` that no later dup2 onto 0…PROGRAM can overwrite.
static int lifted(int descriptor, int report) {
  int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, PROGRAM + 1);
  if (copy < 0) fail(report, errno);
  return copy;
}

static void close_from(int first, int limit) {
  if (close_range((unsigned)first, ~0U, 0) == 0) return;
  for (int descriptor = first; descriptor < limit; descriptor++) close(descriptor);
}

/// Appends /proc/self/stat, which contains the process id and the start time, to the record. The child writes this
/// itself, so that no process runs without a record.
static void sign(int record, int report) {
  char text[1024];
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(report, errno);
  ssize_t count = read(file, text, sizeof text);
  if (count <= 0) fail(report, count < 0 ? errno : EIO);
  close(file);
  if (write(record, text, (size_t)count) != count) fail(report, ENOSPC);
}

/// Runs between vfork and exec in the memory of the parent, while the parent's thread waits. Must not lock, allocate,
/// return, or write to the parent's variables.
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
  int program = options->program < 0 ? -1 : lifted(options->program, report);

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
  if (program >= 0 && dup3(program, PROGRAM, options->keeps_program ? 0 : O_CLOEXEC) < 0) fail(REPORT, errno);
  if (program < 0) close(PROGRAM);
  close_from(PROGRAM + 1, descriptor_limit);

  if (options->directory && chdir(options->directory) < 0) fail(REPORT, errno);

  struct sigaction standard = {.sa_handler = SIG_DFL};
  for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &standard, NULL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);

  if (program >= 0) {
    syscall(SYS_execveat, PROGRAM, "", options->arguments, options->environment, AT_EMPTY_PATH);
  } else {
    execve(options->path, options->arguments, options->environment);
  }
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
  // fork would spend most of its time copying the mappings of this process, which exec discards.
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

int pr_memory_file(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

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
  // If this fails, lookups only take longer.
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

/// Returns whether this process inherited an ignored signal whose default action ends the process. nohup ignores
/// signals, and shells do for background commands.
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

// libdispatch's interface for run loops other than its own.
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
  // SA_RESETHAND has restored the default action, which now ends the process as without this handler.
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
  // A faulting instruction faults again when the handler returns. A signal that was sent must be raised again.
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
  // Another thread may handle the first signal, and this thread would continue until the process stops.
  pthread_kill(pthread_self(), SIGTSTP);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int64_t pr_birth_time(int descriptor) {
  struct statx status;
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BTIME, &status) != 0) return 0;
  if (!(status.stx_mask & STATX_BTIME)) return 0;
  return (int64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec;
}
