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

/// How a child process is started.
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
  int keeps_program;          ///< Non-zero: the child keeps it open as descriptor 5, for the interpreter of a script.
};

/// Starts a child that leads a process group of its own, with default signal handling and no
/// inherited descriptors above 2 but for its record. Returns 0 and sets `*pid`, or an errno; a failed exec is reported
/// here too, and its child already reaped.
int pr_spawn(const struct pr_spawn *options, pid_t *pid);

/// The same without waiting for exec. Returns 0 and sets `*pid` and `*report`, a descriptor that
/// becomes readable once it is known whether exec worked, or an errno where there is no child.
int pr_spawn_begin(const struct pr_spawn *options, pid_t *pid, int *report);

/// Reads such a descriptor: 0 where the program runs, -1 where that is not known yet, or the errno
/// with which the child is ending; it is still to be reaped.
int pr_spawn_report(int report);

/// Opens a new close-on-exec file in memory, which goes with its last descriptor. Returns -1 and errno where it cannot.
int pr_memory_file(const char *name);

/// Returns when an open file was made, in nanoseconds since 1970; 0 where its file system does not record that.
int64_t pr_birth_time(int descriptor);

/// Opens a close-on-exec descriptor of any process, readable once that has ended, or -1 and errno.
int pr_process_descriptor(pid_t pid);

/// Sends a signal to the process of such a descriptor, or to its whole group where the kernel can,
/// and to no other that may have its number by now. Returns 0 or an errno.
int pr_process_signal(int descriptor, int signal, int group);

/// Asks how the process of such a descriptor ended: 0 and its wait status, or an errno. Kernels from
/// Linux 6.15 on tell that once its parent has reaped it.
int pr_process_exit(int descriptor, int *status);

/// Has this process look network protocols up in /etc/protocols alone. One of libzmq's libraries asks for its
/// own at each start, and Debian's /etc/nsswitch.conf names a database before the file, whose module is looked
/// for in every library path: a hundred system calls.
void pr_protocols_from_file(void);

/// Opens a close-on-exec pipe whose read end alone is non-blocking. Returns 0 or an errno.
int pr_pipe(int *read_end, int *write_end);

/// Blocks the given signals in the calling thread (threads started later inherit that) and returns
/// a non-blocking, close-on-exec descriptor that becomes readable when one arrives, or -1 and errno.
int pr_signal_descriptor(const int *signals, int count);

/// Takes the next signal from such a descriptor: its number, or 0 when none waits, or -1 and errno.
int pr_next_signal(int descriptor);

/// Makes each line that is printed to stdout go out at once, also into a pipe.
void pr_line_buffer_output(void);

/// Has the system kill this process, be it stopped, at an instant of CLOCK_BOOTTIME, in place of one that was
/// given before. Unit: nanoseconds. Returns an errno, 0 for none. For one thread.
int pr_kill_self_at(int64_t instant);

/// The descriptor of the main queue, on which the main actor's work comes: readable when there is some.
/// For a program whose main thread runs a loop of its own.
int pr_main_queue_descriptor(void);

/// Does what waits in the main queue. To be called on the main thread.
void pr_run_main_queue(void);

/// Gives the terminal back where this process crashes: writes the text to `output`, and sets `input`
/// to the attributes. NULL as the text ends that.
void pr_guard_terminal(int input, const struct termios *attributes, int output, const char *text);

/// Has `note` called on the thread that ends this process, by a crash or by `exit`, before it ends. A signal of
/// another process is no crash. `note` must be fit for a signal handler. To be called on one thread.
void pr_watch_crashes(void (*note)(void));

/// Lets this process's group stop, as ^Z does; returns when it goes on.
void pr_suspend(void);

#endif
