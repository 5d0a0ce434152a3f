#ifndef CPROCESS_H
#define CPROCESS_H

// Linux interfaces that Swift's Glibc module leaves out.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <stdint.h>
#include <termios.h>

/// The options of a child process.
struct pr_spawn {
  const char *path;           ///< The file to execute; not searched in PATH.
  char *const *arguments;     ///< argv, ended by NULL.
  char *const *environment;   ///< envp, ended by NULL.
  const char *directory;      ///< The working directory, or NULL for the parent's.
  int standard_input;         ///< The child's descriptor 0, or -1 for /dev/null.
  int standard_output;        ///< The child's descriptor 1, or -1 for the parent's.
  int standard_error;         ///< The child's descriptor 2, or -1 for the parent's.
  int death_signal;           ///< Sent to the child when the calling thread ends; 0 for none.
  int new_session;            ///< Non-zero: the child leads its own session.
  int record;                 ///< The child's descriptor 3, or -1. The child appends its
                              ///< /proc/self/stat to the file before exec.
};

/// Starts a child, and waits until exec has succeeded or failed. The child leads its own process
/// group, has default signal handling, and inherits no descriptors above 2 except its record.
/// Returns 0 and sets `*pid`, or returns an errno. If exec has failed, the child is
/// already reaped.
int pr_spawn(const struct pr_spawn *options, pid_t *pid);

/// Starts a child like `pr_spawn`, without waiting for exec. Returns 0 and sets `*pid` and
/// `*report`. The descriptor `*report` becomes readable when exec has succeeded or failed. Returns
/// an errno if no child was started.
int pr_spawn_begin(const struct pr_spawn *options, pid_t *pid, int *report);

/// Reads the result of exec from the descriptor of `pr_spawn_begin`. Returns 0 if the program runs,
/// -1 if exec has not finished, or the errno of exec. After an errno, the caller must reap the
/// child.
int pr_spawn_report(int report);

/// Copies the contents of an open file into an empty file, and hashes them. With -1 as the copy, only hashes them. If the
/// disk has not enough space, returns ENOSPC and writes nothing. A file system that supports it shares the
/// blocks of both files. The hash detects other contents; it gives no protection against an attacker. Returns 0 and
/// sets `*hash`, or returns an errno.
int pr_copy_file(int source, int copy, uint64_t *hash);

/// Adds bytes to a hash, and returns the new hash. The count must be a multiple of 8, except for the last bytes.
uint64_t pr_hash(uint64_t hash, const void *bytes, size_t count);

/// Lowers the priority of the calling thread.
void pr_lower_thread_priority(void);

/// Returns the creation time of an open file in nanoseconds since 1970, or 0 if the file system does not record it.
int64_t pr_birth_time(int descriptor);

/// Opens a close-on-exec process descriptor (pidfd_open(2)), which becomes readable when the
/// process ends. Returns -1 and sets errno on failure.
int pr_process_descriptor(pid_t pid);

/// Sends a signal to the process of a process descriptor. If `group` is not 0 and the kernel
/// supports it, sends the signal to the whole process group. Unlike kill(2), never signals another
/// process that reuses the process id. Returns 0 or an errno.
int pr_process_signal(int descriptor, int signal, int group);

/// Reads the wait status of an ended process from its process descriptor, after the parent has
/// reaped the process. Requires Linux 6.15. Returns 0 and sets `*status`, or returns an errno.
int pr_process_exit(int descriptor, int *status);

/// Makes this process look up network protocols only in /etc/protocols.
///
/// A library that libzmq uses looks up a protocol at each start. Debian's /etc/nsswitch.conf lists
/// a database before the file, and glibc searches every library path for the module of that
/// database, which takes a hundred system calls.
void pr_protocols_from_file(void);

/// Opens a close-on-exec pipe with a non-blocking read end and a blocking write end. Returns 0 or an errno.
int pr_pipe(int *read_end, int *write_end);

/// Blocks the signals in the calling thread and in threads that it starts later. Skips signals that this process
/// inherited as ignored. Returns a non-blocking, close-on-exec descriptor that becomes readable when a signal arrives,
/// or -1 and sets errno.
int pr_signal_descriptor(const int *signals, int count);

/// Reads the next signal from the descriptor of `pr_signal_descriptor`. Returns the signal's number, 0 if no signal is
/// pending, or -1 and sets errno.
int pr_next_signal(int descriptor);

/// Makes stdout line-buffered, even if it is a pipe.
void pr_line_buffer_output(void);

/// Makes the kernel kill this process at an instant of CLOCK_BOOTTIME, even if the process is stopped. Replaces an
/// earlier instant. Unit: nanoseconds. Returns 0 or an errno. Not thread-safe.
int pr_kill_self_at(int64_t instant);

/// Returns a descriptor that becomes readable when libdispatch's main queue has work. For programs
/// whose main thread runs its own loop.
int pr_main_queue_descriptor(void);

/// Runs the pending work of the main queue. Must be called on the main thread.
void pr_run_main_queue(void);

/// Installs signal handlers that restore the terminal when this process crashes: they write `text`
/// to `output`, and set the attributes of `input`. If `text` is NULL, removes the handlers.
void pr_guard_terminal(int input, const struct termios *attributes, int output, const char *text);

/// Makes this process call `note` before a crash or `exit` ends it, on the thread that crashes or
/// exits. A signal from another process does not count as a crash. `note` must be
/// async-signal-safe. Not thread-safe.
void pr_watch_crashes(void (*note)(void));

/// Stops the process group of this process, as ^Z does. Returns when the process continues.
void pr_suspend(void);

#endif
