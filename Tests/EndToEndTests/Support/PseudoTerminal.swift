import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import Testing

/// A program on a terminal of its own, which the test reads and types on.
final class PseudoTerminal {
  let pid: Int32
  private let master: Int32
  private var isOpen = true
  private var child: ChildProcess
  private var screen: EmulatedScreen
  private let initialAttributes: termios

  /// Starts a program as the leader of the terminal's session.
  init(
    _ program: String, _ arguments: [String], environment: [String: String], columns: Int = 60,
    rows: Int = 14
  ) throws {
    master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
    try #require(master >= 0, "/dev/ptmx: errno \(errno)")
    // TIOCSPTLCK and TIOCGPTN, which Glibc's module does not have.
    var (lock, number): (Int32, Int32) = (0, -1)
    try #require(ioctl(master, 0x4004_5431, &lock) == 0 && ioctl(master, 0x8004_5430, &number) == 0)
    let path = "/dev/pts/\(number)"
    screen = EmulatedScreen(columns: columns, rows: rows)
    var size = winsize(
      ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
    try #require(ioctl(master, UInt(TIOCSWINSZ), &size) == 0)
    var attributes = termios()
    try #require(tcgetattr(master, &attributes) == 0)
    initialAttributes = attributes
    // The leader of a session gets the first terminal that it opens as its controlling terminal.
    // Output that follows after the program has restored the terminal goes there as well.
    let script = "exec < \"$0\" > \"$0\" 2>&1; exec \"$@\""
    child = try ChildProcess.spawn(
      ChildCommand(
        path: "/bin/sh", arguments: ["-c", script, path, program] + arguments,
        environment: environment.merging(["TERM": "xterm"]) { _, own in own },
        output: .inherited, deathSignal: nil, leadsSession: true))
    pid = child.pid
  }

  deinit {
    if child.reap() == nil {
      _ = child.signal(.kill)
      child.wait()
    }
    hangUp()
  }

  /// Types text, control characters and escape sequences.
  func type(_ text: String) {
    let bytes = Array(text.utf8)
    #expect(write(master, bytes, bytes.count) == bytes.count)
  }

  /// Types all bytes, as fast as the terminal accepts them.
  func feed(_ bytes: [UInt8], isolation: isolated (any Actor)? = #isolation) async throws {
    var rest = bytes[...]
    let isWritten = try await poll(within: .seconds(20)) { () -> Bool? in
      read()
      let count = rest.withUnsafeBytes { write(master, $0.baseAddress, $0.count) }
      if count > 0 { rest = rest.dropFirst(count) }
      return rest.isEmpty ? true : nil
    }
    #expect(isWritten == true, "\(rest.count) bytes were not taken")
  }

  func resize(columns: Int, rows: Int) {
    screen.resize(columns: columns, rows: rows)
    var size = winsize(
      ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
    #expect(ioctl(master, UInt(TIOCSWINSZ), &size) == 0)
  }

  /// Whether the program has ended. Does not read the program's output.
  var hasEnded: Bool { child.reap() != nil }

  func signal(_ signal: Signal) { _ = child.signal(signal) }

  /// Closes the terminal of the running program.
  func hangUp() {
    if isOpen { close(master) }
    isOpen = false
  }

  /// The current lines of the screen.
  var lines: [String] {
    read()
    return screen.lines
  }

  /// The number of bytes that the program has written.
  var byteCount: Int {
    read()
    return screen.byteCount
  }

  private func read() {
    var bytes = [UInt8](repeating: 0, count: 4_096)
    while isOpen {
      let count = Glibc.read(master, &bytes, bytes.count)
      guard count > 0 else { return }
      screen.receive(bytes[..<count])
    }
  }

  /// Waits until a line of the screen contains a text.
  /// - Returns: The lines of the screen.
  @discardableResult
  func expect(
    _ text: String, within timeout: Duration = .seconds(20),
    isolation: isolated (any Actor)? = #isolation,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> [String] {
    var comparedByteCount: Int?
    let found = try await poll(every: .milliseconds(5), within: timeout) { () -> [String]? in
      // An unchanged screen is not compared again: the CPU time for that would look like progress.
      guard byteCount != comparedByteCount else { return nil }
      comparedByteCount = byteCount
      let lines = lines
      return lines.contains { $0.contains(text) } ? lines : nil
    }
    return try #require(
      found, "'\(text)' was not shown, but:\n\(lines.joined(separator: "\n"))",
      sourceLocation: sourceLocation)
  }

  /// Waits for the program's end.
  func expectEnd(
    within timeout: Duration = .seconds(20), isolation: isolated (any Actor)? = #isolation
  ) async throws -> ProcessExit? {
    try await poll(within: timeout) {
      // The output must be read, or the program could not end.
      read()
      return child.reap()
    }
  }

  /// Types a key that leaves the program. Expects that the program restores the terminal and
  /// succeeds.
  func expectQuit(
    by key: String = "q", isolation: isolated (any Actor)? = #isolation,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    type(key)
    #expect(try await expectEnd() == .exited(code: 0), sourceLocation: sourceLocation)
    expectRestored(sourceLocation: sourceLocation)
  }

  /// Expects that the program has restored the terminal.
  func expectRestored(sourceLocation: SourceLocation = #_sourceLocation) {
    read()
    #expect(!screen.isAlternate, sourceLocation: sourceLocation)
    #expect(screen.isCursorVisible, sourceLocation: sourceLocation)
    #expect(screen.wraps, sourceLocation: sourceLocation)
    var now = termios()
    #expect(tcgetattr(master, &now) == 0, sourceLocation: sourceLocation)
    #expect(now.c_lflag == initialAttributes.c_lflag, sourceLocation: sourceLocation)
    #expect(now.c_iflag == initialAttributes.c_iflag, sourceLocation: sourceLocation)
    #expect(now.c_oflag == initialAttributes.c_oflag, sourceLocation: sourceLocation)
  }
}
