#ifndef CPROCESS_H
#define CPROCESS_H

// Linux interfaces that Swift's Glibc module leaves out.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <termios.h>

/// The options of a child process.
struct pr_spawn {
  const char *path;           ///< The executable; not searched in PATH.
  char *const *arguments;     ///< argv, ended by NULL.
  char *const *environment;   ///< envp, ended by NULL.
  const char *directory;      ///< The working directory, or NULL for the parent's.
  int standard_input;         ///< The child's descriptor 0, or -1 for /dev/null.
  int standard_output;        ///< The child's descriptor 1, or -1 for the parent's.
  int standard_error;         ///< The child's descriptor 2, or -1 for the parent's.
  int death_signal;           ///< Sent to the child when the calling thread ends; 0 for none.
  int new_session;            ///< Non-zero: the child leads a session of its own.
  int record;                 ///< The child's descriptor 3, to which it first appends its
                              ///< /proc/self/stat, or -1.
  int program;                ///< An open file to execute in place of `path`, or -1.
  int keeps_program;          ///< Non-zero: `program` stays open as descriptor 5, for the interpreter of a script.
};

/// Starts a child that leads a process group of its own, with default signal handling and no inherited descriptors
/// above 2 except its record and program. Returns 0 and sets `*pid`, or an errno. If exec fails, returns its errno and
/// has reaped the child.
int pr_spawn(const struct pr_spawn *options, pid_t *pid);

/// Starts a child like `pr_spawn`, without waiting for exec. Returns 0 and sets `*pid` and `*report`, a descriptor that
/// becomes readable when exec has succeeded or failed. Returns an errno if no child was started.
int pr_spawn_begin(const struct pr_spawn *options, pid_t *pid, int *report);

/// Reads the report of `pr_spawn_begin`. Returns 0 if the program runs, -1 if the result of exec is pending, or the
/// errno of exec; then the caller must reap the child.
int pr_spawn_report(int report);

/// Opens a new close-on-exec file in memory, which exists until its last descriptor is closed. Returns -1 and sets
/// errno on failure.
int pr_memory_file(const char *name);

/// Returns the creation time of an open file in nanoseconds since 1970, or 0 if the file system does not record it.
int64_t pr_birth_time(int descriptor);

/// Opens a close-on-exec descriptor of any process, which becomes readable when the process ends. Returns -1 and sets
/// errno on failure.
int pr_process_descriptor(pid_t pid);

/// Sends a signal to the process of a process descriptor, or to its group if the kernel supports this. Never signals
/// another process that reuses the process id. Returns 0 or an errno.
int pr_process_signal(int descriptor, int signal, int group);

/// Reads the wait status of an ended process from its process descriptor. Requires Linux 6.15 or newer, after the
/// parent has reaped the process. Returns 0 and sets `*status`, or an errno.
int pr_process_exit(int descriptor, int *status);

/// Makes this process look up network protocols only in /etc/protocols. A library of libzmq looks up a protocol at each
/// start, and Debian's /etc/nsswitch.conf names a database before the file. glibc would search every library path for
/// the database's module, with a hundred system calls.
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

/// Returns the descriptor of the main queue, which becomes readable when the main actor has work. For programs whose
/// main thread runs a loop of its own.
int pr_main_queue_descriptor(void);

/// Runs the pending work of the main queue. Must be called on the main thread.
void pr_run_main_queue(void);

/// Restores the terminal if this process crashes: writes the text to `output`, and sets the attributes of `input`. With
/// NULL as the text, stops doing so.
void pr_guard_terminal(int input, const struct termios *attributes, int output, const char *text);

/// Calls `note` before this process ends by a crash or by `exit`, on the thread that ends it. A signal from another
/// process is no crash. `note` must be async-signal-safe. Not thread-safe.
void pr_watch_crashes(void (*note)(void));

/// Stops this process's group, as ^Z does. Returns when the process continues.
void pr_suspend(void);

#endif
