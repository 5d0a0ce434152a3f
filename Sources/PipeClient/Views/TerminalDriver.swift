import Glibc
import PipeSystem
import PipeTransport

/// The terminal of this process on a loop. Reports keys, and draws no faster than the terminal
/// accepts output.
///
/// Owned by the loop's thread.
package final class TerminalDriver {
  private let loop: PollLoop
  private let terminal: Terminal
  private let pause: Duration
  private var painter: ScreenPainter
  private var parser = KeyParser()
  private var input: PollLoop.Registration?
  private var keyTimer: TimerQueue.ID?
  private var drawTimer: TimerQueue.ID?
  private var lastDrawn = ContinuousClock.now - .seconds(1)
  /// Called with the keys that were pressed.
  package var onKeys: ([Key]) -> Void = { _ in }
  /// Called when the terminal is gone.
  package var onClosed: () -> Void = {}
  /// Returns all lines to show.
  package var content: (TerminalSize) -> [StyledLine] = { _ in [] }

  /// How long ESC waits for the rest of a sequence.
  private static let keyPause: Duration = .milliseconds(50)

  /// - Parameter pause: The minimum time between two drawings.
  /// - Returns: `nil` if standard input or output is not a terminal with cursor movements.
  package init?(on loop: PollLoop, pause: Duration) {
    guard let terminal = Terminal() else { return nil }
    self.loop = loop
    self.terminal = terminal
    self.pause = pause
    painter = ScreenPainter(isColored: terminal.isColored)
  }

  /// The columns and rows.
  package var size: TerminalSize { terminal.size }
  /// Whether the driver shows a screen of its own.
  package var isStarted: Bool { terminal.isEntered }

  /// Switches to an empty screen of its own, and begins to report keys. Does nothing in the
  /// background of a shell: call it again when the process may be in the foreground.
  package func start() throws(SystemError) {
    guard !isStarted else { return }
    try terminal.enter()
    painter.forget()
    if isStarted, input == nil {
      input = loop.add(descriptor: STDIN_FILENO, for: self) { $0.read() }
    }
  }

  /// Starts again after the process was continued: the shell may have changed the terminal's mode.
  package func resume() throws(SystemError) {
    stopListening()
    terminal.leave()
    try start()
  }

  /// Restores the terminal, and suspends this process until the shell continues it.
  package func suspend() throws(SystemError) {
    stopListening()
    terminal.suspend()
    try start()
  }

  private func stopListening() {
    if let input { loop.remove(input) }
    input = nil
  }

  /// Restores the terminal.
  package func leave() { terminal.leave() }

  /// Sends bytes that show nothing to the terminal.
  package func send(_ text: String) { terminal.write(text) }

  /// Draws now, or as soon as the pause allows.
  package func draw() {
    guard isStarted, drawTimer == nil else { return }
    let wait = pause - (.now - lastDrawn)
    if wait <= .zero, terminal.isFlushed { return paint() }
    drawTimer = loop.schedule(after: max(wait, .milliseconds(1)), for: self) { driver in
      driver.drawTimer = nil
      driver.terminal.flush()
      // A started drawing must be completed first. The next one shows the newest content.
      if driver.terminal.isFlushed { driver.paint() } else { driver.draw() }
    }
  }

  private func paint() {
    guard isStarted else { return }
    lastDrawn = .now
    let size = size
    terminal.write(painter.paint(content(size), size: size))
    if !terminal.isFlushed { draw() }
  }

  private func read() {
    switch terminal.read() {
    case .nothing: return
    case .closed:
      stopListening()
      onClosed()
    case .bytes(let bytes): onKeys(parser.take(bytes))
    }
    if let keyTimer { loop.cancel(keyTimer) }
    keyTimer = nil
    guard parser.isWaiting else { return }
    keyTimer = loop.schedule(after: Self.keyPause, for: self) { $0.onKeys($0.parser.handlePause()) }
  }
}

/// Encodes the difference between a terminal's current and new content: only the lines that differ.
package struct ScreenPainter {
  private let isColored: Bool
  private var shown: [String] = []
  private var size: TerminalSize?

  package init(isColored: Bool) { self.isColored = isColored }

  /// Takes over the terminal: switches to another screen than the shell's, hides the cursor, and
  /// cuts off long lines.
  package static let enter = "\u{1B}[?1049h\u{1B}[?7l\u{1B}[?25l"
  /// Restores the terminal.
  package static let leave = "\u{1B}[0m\u{1B}[?25h\u{1B}[?7h\u{1B}[?1049l"

  /// Forgets what the terminal shows.
  package mutating func forget() { size = nil }

  /// Returns the bytes that make the terminal show these lines, from the top; empty if it shows
  /// them already.
  package mutating func paint(_ lines: [StyledLine], size: TerminalSize) -> String {
    var text = ""
    if size != self.size {
      text = "\u{1B}[0m\u{1B}[2J"
      shown = Array(repeating: "", count: size.rows)
      self.size = size
    }
    for row in 0..<size.rows {
      let line = row < lines.count ? lines[row].cut(to: size.columns) : ""
      let encoded = line.encoded(isColored: isColored)
      guard encoded != shown[row] else { continue }
      shown[row] = encoded
      text += "\u{1B}[\(row + 1);1H\(encoded)"
      // In the last column, the cursor would be on the last character and erase it.
      if line.width < size.columns { text += "\u{1B}[K" }
    }
    return text
  }
}
