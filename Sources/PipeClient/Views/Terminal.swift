import CProcess
import Glibc
import PipeSystem

/// The terminal of this process: its mode, its size and its output.
///
/// Owned by one thread.
final class Terminal {
  /// Whether colours are wanted.
  let isColored: Bool
  private let input: Int32
  private let output: Int32
  private let ownsOutput: Bool
  private var savedMode = termios()
  private(set) var isEntered = false
  private var pending: [UInt8] = []

  /// Opens the terminal; `nil` if standard input or output is not a terminal with cursor movements.
  init?(environment: [String: String] = ProcessEnvironment.current) {
    guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1, environment["TERM"] != "dumb"
    else { return nil }
    input = STDIN_FILENO
    isColored = (environment["NO_COLOR"] ?? "").isEmpty
    // Opens a file description of its own: the shell's must not become non-blocking.
    let own = open("/proc/self/fd/\(STDOUT_FILENO)", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
    output = own >= 0 ? own : STDOUT_FILENO
    ownsOutput = own >= 0
  }

  deinit { if ownsOutput { close(output) } }

  /// The columns and rows, or 80 × 24 if the terminal does not report them.
  var size: TerminalSize {
    var size = winsize()
    guard ioctl(output, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
      return TerminalSize(columns: 80, rows: 24)
    }
    return TerminalSize(columns: Int(size.ws_col), rows: Int(size.ws_row))
  }

  /// Whether this process is in the terminal's foreground, or the terminal is not its controlling terminal.
  ///
  /// A process in the background that changes the terminal's mode, or reads from it, is stopped by the system.
  var isInForeground: Bool {
    let group = tcgetpgrp(output)
    return group < 0 || group == getpgrp()
  }

  /// Switches to a screen of its own, and reads each key at once. Does nothing in the background.
  func enter() throws(SystemError) {
    guard !isEntered, isInForeground else { return }
    guard tcgetattr(input, &savedMode) == 0 else {
      throw SystemError("tcgetattr", on: "standard input", code: errno)
    }
    pr_guard_terminal(input, &savedMode, output, ScreenPainter.leave)
    var raw = savedMode
    cfmakeraw(&raw)
    guard tcsetattr(input, TCSADRAIN, &raw) == 0 else {
      throw SystemError("tcsetattr", on: "standard input", code: errno)
    }
    isEntered = true
    write(ScreenPainter.enter)
  }

  /// Restores the terminal. Output that the terminal does not accept within a second is dropped.
  func leave() {
    guard isEntered else { return }
    isEntered = false
    // The shell has already restored the terminal.
    guard isInForeground else {
      pending = []
      return pr_guard_terminal(input, &savedMode, output, nil)
    }
    write(ScreenPainter.leave)
    let deadline = ContinuousClock.now + .seconds(1)
    while !pending.isEmpty, ContinuousClock.now < deadline {
      var item = pollfd(fd: output, events: Int16(POLLOUT), revents: 0)
      if poll(&item, 1, 100) > 0, item.revents & Int16(POLLERR | POLLHUP) != 0 { break }
      flush()
    }
    pending = []
    tcsetattr(input, TCSANOW, &savedMode)
    pr_guard_terminal(input, &savedMode, output, nil)
  }

  /// Whether the terminal has accepted all output.
  var isFlushed: Bool { pending.isEmpty }

  /// Writes text. If the terminal does not accept all of it now, ``flush()`` writes the rest.
  func write(_ text: String) {
    pending += text.utf8
    flush()
  }

  /// Writes as much pending output as the terminal accepts now.
  func flush() {
    let (count, problem) = FileSystem.write(pending, to: output)
    // If the terminal is gone, reading reports that.
    if problem == EAGAIN { pending.removeFirst(count) } else { pending = [] }
  }

  enum Input {
    case bytes([UInt8])
    case nothing
    case closed
  }

  /// Reads the typed bytes. Call this when there are any.
  func read() -> Input {
    var bytes = [UInt8](repeating: 0, count: 1_024)
    let count = Glibc.read(input, &bytes, bytes.count)
    if count > 0 { return .bytes(Array(bytes[..<count])) }
    return count < 0 && (errno == EINTR || errno == EAGAIN) ? .nothing : .closed
  }

  /// Restores the terminal, and suspends this process until the shell continues it.
  func suspend() {
    leave()
    pr_suspend()
  }
}
