import Glibc
import PipeSystem
import PipeTransport

/// Shows lines on the terminal of this process, and reports pressed keys, as part of a poll loop.
/// Draws no faster than the terminal accepts output.
///
/// Owned by the loop's thread.
package final class TerminalDriver {
  private let loop: PollLoop
  private let terminal: Terminal
  private let pause: Duration
  private var painter: ScreenPainter
  private var parser = KeyParser()
  private var inputRegistration: PollLoop.Registration?
  private var keyTimer: TimerQueue.ID?
  private var drawTimer: TimerQueue.ID?
  private var lastDrawn = ContinuousClock.now - .seconds(1)
  /// Called with the keys that were pressed.
  package var onKeys: ([Key]) -> Void = { _ in }
  /// Called when the terminal was closed.
  package var onClosed: () -> Void = {}
  /// Returns all lines to show on a terminal of this size.
  package var screenContent: (TerminalSize) -> [StyledLine] = { _ in [] }

  /// How long the parser waits after ESC for the rest of a sequence.
  private static let keyPause: Duration = .milliseconds(50)

  /// - Parameter pause: The minimum time between two drawings.
  /// - Returns: `nil` if standard input or output is not a terminal, or the terminal cannot move
  ///   the cursor.
  package init?(on loop: PollLoop, pause: Duration) {
    guard let terminal = Terminal() else { return nil }
    self.loop = loop
    self.terminal = terminal
    self.pause = pause
    painter = ScreenPainter(isColored: terminal.isColored)
  }

  /// The current size of the terminal.
  package var size: TerminalSize { terminal.size }
  /// Whether the driver shows the alternate screen.
  package var isStarted: Bool { terminal.isEntered }

  /// Switches to the terminal's alternate screen, and begins to report keys. If the process is in
  /// the background, does nothing; call this again when the process may be in the foreground.
  package func start() throws(SystemError) {
    guard !isStarted else { return }
    try terminal.enter()
    painter.forget()
    if isStarted, inputRegistration == nil {
      inputRegistration = loop.add(descriptor: STDIN_FILENO, for: self) { $0.read() }
    }
  }

  /// Starts again after the process was continued, since the shell may have changed the terminal's
  /// mode.
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
    if let inputRegistration { loop.remove(inputRegistration) }
    inputRegistration = nil
  }

  /// Restores the terminal.
  package func leave() { terminal.leave() }

  /// Writes text to the terminal. Precondition: the text does not change the screen's contents.
  package func send(_ text: String) { terminal.write(text) }

  /// Draws now or, if the last drawing was too recent, after a pause.
  package func draw() {
    guard isStarted, drawTimer == nil else { return }
    let wait = pause - (.now - lastDrawn)
    if wait <= .zero, terminal.isFlushed { return paint() }
    drawTimer = loop.schedule(after: max(wait, .milliseconds(1)), for: self) { driver in
      driver.drawTimer = nil
      driver.terminal.flush()
      // The output of the last drawing must be written completely before the next drawing, which
      // then shows the newest content.
      if driver.terminal.isFlushed { driver.paint() } else { driver.draw() }
    }
  }

  private func paint() {
    guard isStarted else { return }
    lastDrawn = .now
    let size = size
    terminal.write(painter.paint(screenContent(size), size: size))
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

/// Computes the output that makes a terminal show new content. Only lines that have changed are
/// written.
package struct ScreenPainter {
  private let isColored: Bool
  private var shownLines: [String] = []
  private var size: TerminalSize?

  package init(isColored: Bool) { self.isColored = isColored }

  /// Switches to the terminal's alternate screen, hides the cursor, and turns off line wrapping.
  package static let enter = "\u{1B}[?1049h\u{1B}[?7l\u{1B}[?25l"
  /// Restores the terminal.
  package static let leave = "\u{1B}[0m\u{1B}[?25h\u{1B}[?7h\u{1B}[?1049l"

  /// Makes the next drawing write all lines, because the terminal may no longer show the last
  /// drawing.
  package mutating func forget() { size = nil }

  /// Returns the bytes that make the terminal show these lines, starting at the top. Returns an
  /// empty text if the terminal already shows the lines.
  package mutating func paint(_ lines: [StyledLine], size: TerminalSize) -> String {
    var text = ""
    if size != self.size {
      text = "\u{1B}[0m\u{1B}[2J"
      shownLines = Array(repeating: "", count: size.rows)
      self.size = size
    }
    for row in 0..<size.rows {
      let line = row < lines.count ? lines[row].cut(to: size.columns) : ""
      let encoded = line.encoded(isColored: isColored)
      guard encoded != shownLines[row] else { continue }
      shownLines[row] = encoded
      text += "\u{1B}[\(row + 1);1H\(encoded)"
      // After a line that fills all columns, the cursor is still on the last character, and the
      // sequence ESC [ K would erase that character.
      if line.width < size.columns { text += "\u{1B}[K" }
    }
    return text
  }
}
