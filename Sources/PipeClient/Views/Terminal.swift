import CProcess
import Glibc
import PipeSystem

/// The terminal of this process: its mode, its size, its input and its output.
///
/// Owned by one thread.
final class Terminal {
  /// Whether colours are enabled.
  let isColored: Bool
  private let inputDescriptor: Int32
  private let outputDescriptor: Int32
  private let ownsOutput: Bool
  private var savedMode = termios()
  private(set) var isEntered = false
  private var pendingOutput: [UInt8] = []

  /// Opens the terminal; `nil` if standard input or output is not a terminal, or the terminal
  /// cannot move the cursor.
  init?(environment: [String: String] = ProcessEnvironment.current) {
    guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1, environment["TERM"] != "dumb"
    else { return nil }
    inputDescriptor = STDIN_FILENO
    isColored = (environment["NO_COLOR"] ?? "").isEmpty
    // Opens a separate file description, since the shell's file description must not become
    // non-blocking.
    let own = open("/proc/self/fd/\(STDOUT_FILENO)", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
    outputDescriptor = own >= 0 ? own : STDOUT_FILENO
    ownsOutput = own >= 0
  }

  deinit { if ownsOutput { close(outputDescriptor) } }

  /// The size of the terminal; 80 × 24 if the terminal does not report its size.
  var size: TerminalSize {
    var size = winsize()
    guard ioctl(outputDescriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else {
      return TerminalSize(columns: 80, rows: 24)
    }
    return TerminalSize(columns: Int(size.ws_col), rows: Int(size.ws_row))
  }

  /// Whether this process is in the terminal's foreground. Also true if the terminal is not the
  /// controlling terminal of this process.
  ///
  /// If a background process reads from its controlling terminal or changes the terminal's mode,
  /// the system stops the process.
  var isInForeground: Bool {
    let group = tcgetpgrp(outputDescriptor)
    return group < 0 || group == getpgrp()
  }

  /// Switches to the terminal's alternate screen, and to the mode in which each key can be read
  /// immediately. Does nothing if the process is in the background.
  func enter() throws(SystemError) {
    guard !isEntered, isInForeground else { return }
    guard tcgetattr(inputDescriptor, &savedMode) == 0 else {
      throw SystemError("tcgetattr", on: "standard input", code: errno)
    }
    pr_guard_terminal(inputDescriptor, &savedMode, outputDescriptor, ScreenPainter.leave)
    var raw = savedMode
    cfmakeraw(&raw)
    guard tcsetattr(inputDescriptor, TCSADRAIN, &raw) == 0 else {
      throw SystemError("tcsetattr", on: "standard input", code: errno)
    }
    isEntered = true
    write(ScreenPainter.enter)
  }

  /// Restores the terminal. Output that the terminal does not accept within a second is dropped.
  func leave() {
    guard isEntered else { return }
    isEntered = false
    // If this process is in the background, the shell has already restored the terminal.
    guard isInForeground else {
      pendingOutput = []
      return pr_guard_terminal(inputDescriptor, &savedMode, outputDescriptor, nil)
    }
    write(ScreenPainter.leave)
    let deadline = ContinuousClock.now + .seconds(1)
    while !pendingOutput.isEmpty, ContinuousClock.now < deadline {
      var item = pollfd(fd: outputDescriptor, events: Int16(POLLOUT), revents: 0)
      if poll(&item, 1, 100) > 0, item.revents & Int16(POLLERR | POLLHUP) != 0 { break }
      flush()
    }
    pendingOutput = []
    tcsetattr(inputDescriptor, TCSANOW, &savedMode)
    pr_guard_terminal(inputDescriptor, &savedMode, outputDescriptor, nil)
  }

  /// Whether all output was written to the terminal.
  var isFlushed: Bool { pendingOutput.isEmpty }

  /// Writes text. If the terminal does not accept all of it now, ``flush()`` writes the rest.
  func write(_ text: String) {
    pendingOutput += text.utf8
    flush()
  }

  /// Writes as much of the pending output as the terminal accepts now.
  func flush() {
    let (count, problem) = FileSystem.write(pendingOutput, to: outputDescriptor)
    // If the terminal was closed, the next call of `read` returns `closed`.
    if problem == EAGAIN { pendingOutput.removeFirst(count) } else { pendingOutput = [] }
  }

  enum Input {
    case bytes([UInt8])
    case nothing
    case closed
  }

  /// Reads the bytes that the terminal has sent. Call this when input is available.
  func read() -> Input {
    var bytes = [UInt8](repeating: 0, count: 1_024)
    let count = Glibc.read(inputDescriptor, &bytes, bytes.count)
    if count > 0 { return .bytes(Array(bytes[..<count])) }
    return count < 0 && (errno == EINTR || errno == EAGAIN) ? .nothing : .closed
  }

  /// Restores the terminal, and suspends this process until the shell continues it.
  func suspend() {
    leave()
    pr_suspend()
  }
}
