import Glibc
import PipeRuntime

/// The reader of stdout has closed it, so there is nothing more to do.
package struct ConsoleClosedError: Error {}

/// The command's two outputs: data to stdout, buffered until `flush`, and diagnostics to stderr.
///
/// Writes block until the reader takes the data, unless the command supervises: see ``detach()``.
///
/// Not safe for concurrent use: one thread owns it.
package final class Console {
  package let isTerminal: Bool
  /// Whether stdout is a terminal on which frames can be redrawn in place.
  package let canRedraw: Bool
  /// Colours and times for stdout.
  package private(set) var style: Style
  /// Colours for stderr.
  package private(set) var errorStyle: Style
  private let output: Int32
  private let errors: Int32
  private var buffer: [UInt8] = []
  /// The queues that write in place of this thread, by descriptor.
  private var queues: [Int32: OutputQueue] = [:]

  /// The longest time that a reader may read nothing before the remaining output is dropped at the
  /// end.
  package static let patience: Duration = .seconds(2)

  package init(
    output: Int32 = 1, errors: Int32 = 2,
    environment: [String: String] = ProcessEnvironment.current
  ) {
    self.output = output
    self.errors = errors
    isTerminal = isatty(output) == 1
    canRedraw = isTerminal && environment["TERM"] != "dumb"
    let isColorAllowed = (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
    style = Style(isColored: isColorAllowed && isTerminal, usesLocalTime: isTerminal)
    errorStyle = Style(isColored: isColorAllowed && isatty(errors) == 1)
  }

  /// `--no-color`
  package func disableColor() {
    style.isColored = false
    errorStyle.isColored = false
  }

  /// The terminal's columns and rows, or 80 × 24.
  package var size: (columns: Int, rows: Int) {
    var size = winsize()
    guard ioctl(output, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
      return (80, 24)
    }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// Writes text to stdout unchanged.
  package func write(_ text: String) throws {
    buffer.append(contentsOf: text.utf8)
    if buffer.count >= 65536 { try flush() }
  }

  /// Writes a line to stdout.
  package func print(_ line: String = "") throws {
    try write(line)
    try write("\n")
  }

  /// Writes a line of compact JSON to stdout.
  package func print(_ value: JSONValue) throws { try print(value.text) }

  /// Writes records in the format that `-o` selects: equivalent text lines, a JSON array, or one
  /// JSON line per record.
  package func print(
    _ records: [JSONValue], as format: OutputFormat, lines: @autoclosure () throws -> [String]
  ) throws {
    switch format {
    case .text: for line in try lines() { try print(line) }
    case .json: try print(.array(records))
    case .jsonl: for record in records { try print(record) }
    }
  }

  /// Writes records in the format that `-o` selects. As text: a table that fits the terminal's
  /// width.
  package func print(_ records: [JSONValue], as format: OutputFormat, table: () -> Table) throws {
    try print(
      records, as: format,
      lines: table().lines(style: style, width: isTerminal ? size.columns : nil))
  }

  /// Writes one record in the format that `-o` selects.
  package func print(
    _ record: JSONValue, as format: OutputFormat, lines: @autoclosure () throws -> [String]
  ) throws {
    try print([record], as: format == .json ? .jsonl : format, lines: try lines())
  }

  /// Writes the buffered output.
  /// - Throws: ``ConsoleClosed`` if the reader has gone, `SystemError` for other failures.
  package func flush() throws {
    defer { buffer.removeAll(keepingCapacity: true) }
    try write(buffer, to: output)
  }

  // MARK: Output that waits for no reader

  /// Moves writing to other threads. Then a reader that stops reading, as a terminal does after ^S,
  /// never delays this process. Output that such a reader does not take is dropped, counted, and
  /// reported when it reads again.
  ///
  /// Call it after the process has blocked the signals that it reads from descriptors.
  package func detach() {
    guard queues.isEmpty else { return }
    let queue = OutputQueue(output)
    queues[output] = queue
    // One queue per file keeps the order of what is written to that file.
    let isShared = FileIdentity(descriptor: output).map { $0 == FileIdentity(descriptor: errors) }
    queues[errors] = isShared == true ? queue : OutputQueue(errors)
  }

  /// Waits until the remaining output is written, as long as the reader makes progress.
  /// - Parameter patience: The longest time that the reader may read nothing.
  package func drain(patience: Duration = patience) {
    for descriptor in [output, errors] { queues[descriptor]?.drain(patience: patience) }
  }

  /// Writes a line for the person that is not data, such as progress or a hint, to stderr.
  package func note(_ line: String) {
    try? write(Array((line + "\n").utf8), to: errors)
  }

  package func warning(_ message: String) {
    note(errorStyle.yellow("warning:") + " " + message)
  }

  /// `FILE:LINE:COLUMN: error: …`
  package func diagnostic(_ diagnostic: Diagnostic) {
    let word = "\(diagnostic.severity.rawValue):"
    let isError = diagnostic.severity == .error
    let parts = "\(diagnostic)".split(separator: word, maxSplits: 1)
    guard parts.count == 2 else { return note("\(diagnostic)") }
    note(parts[0] + (isError ? errorStyle.red(word) : errorStyle.yellow(word)) + parts[1])
  }

  /// `orchestrator: error: …`
  package func error(_ message: String) {
    note("orchestrator: " + errorStyle.red("error:") + " " + message)
  }

  /// Whether there is a terminal on which to ask a person.
  package var canPrompt: Bool { isatty(0) == 1 }

  /// Asks a person at the terminal. Any answer other than `y` and `yes` counts as no.
  package func confirm(_ question: String) throws -> Bool {
    try flush()
    try? write(Array((question + " [y/N] ").utf8), to: errors)
    return ["y", "yes"].contains((readLine() ?? "").lowercased())
  }

  /// Waits up to `timeout` for the reader of stdout to go away, and returns whether it has gone.
  package func waitUntilClosed(timeout: Duration) -> Bool {
    var item = pollfd(fd: output, events: 0, revents: 0)
    return poll(&item, 1, Int32(clamping: timeout.wholeMilliseconds)) > 0
      && item.revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0
  }

  package enum WaitOutcome: Hashable, Sendable {
    case readable(Int32)
    case readerGone, timedOut
  }

  /// Waits until one of the descriptors is readable, or the reader of stdout goes away. Earlier
  /// descriptors have priority.
  /// - Parameter deadline: `nil` waits without limit.
  package func wait(
    for descriptors: [Int32], until deadline: ContinuousClock.Instant? = nil
  ) -> WaitOutcome {
    while true {
      var items = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      items.append(pollfd(fd: output, events: 0, revents: 0))
      let remaining = deadline.map { max(.zero, $0 - .now) }
      let timeoutMilliseconds = remaining.map { Int32(clamping: $0.wholeMilliseconds + 1) } ?? -1
      let count = poll(&items, nfds_t(items.count), remaining == .zero ? 0 : timeoutMilliseconds)
      if count > 0 {
        return items.dropLast().first { $0.revents != 0 }.map { .readable($0.fd) } ?? .readerGone
      }
      if count == 0, let deadline, ContinuousClock.now >= deadline { return .timedOut }
    }
  }

  private func write(_ bytes: [UInt8], to descriptor: Int32) throws {
    if let queue = queues[descriptor] {
      guard queue.append(bytes) else { throw ConsoleClosedError() }
      return
    }
    var writtenCount = 0
    while writtenCount < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.write(descriptor, $0.baseAddress! + writtenCount, bytes.count - writtenCount)
      }
      if count >= 0 {
        writtenCount += count
        continue
      }
      switch errno {
      case EINTR: continue
      case EAGAIN:
        // Another process made a shared terminal non-blocking.
        var item = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&item, 1, -1)
      case EPIPE: throw ConsoleClosedError()
      default: throw SystemError("write", on: "stdout", code: errno)
      }
    }
  }
}

/// The style of text: colours, weights, and the time zone of times.
package struct Style: Hashable, Sendable {
  package var isColored: Bool
  /// Whether times are in the local time zone, as on a terminal, and not in UTC.
  package var usesLocalTime: Bool

  package init(isColored: Bool, usesLocalTime: Bool = false) {
    self.isColored = isColored
    self.usesLocalTime = usesLocalTime
  }

  /// Formats a time for a person to read.
  package func text(of time: Timestamp) -> String {
    usesLocalTime ? time.localText : time.description
  }

  /// - Parameter nanoseconds: Nanoseconds since 1970.
  package func time(_ nanoseconds: Int64) -> String {
    text(of: Timestamp(nanoseconds: nanoseconds))
  }

  package func bold(_ text: String) -> String { wrap(text, "1") }
  package func dim(_ text: String) -> String { wrap(text, "2") }
  package func red(_ text: String) -> String { wrap(text, "31") }
  package func green(_ text: String) -> String { wrap(text, "32") }
  package func yellow(_ text: String) -> String { wrap(text, "33") }

  /// Colours text with one of a few colours, so that nodes can be distinguished.
  package func number(_ index: Int, _ text: String) -> String {
    let palette = ["36", "33", "32", "35", "34", "96", "93", "92", "95", "94"]
    return wrap(text, palette[index % palette.count])
  }

  /// Colours text by a node's lifecycle word.
  package func status(_ word: String, _ text: String? = nil) -> String {
    let text = text ?? word
    return switch word {
    case "running": green(text)
    case "failed": red(text)
    case "starting", "configuring", "ready", "stopping", "backing off", "waiting": yellow(text)
    default: dim(text)
    }
  }

  /// Formats labelled values, one line per value. A label without values has no line.
  func lines(of parts: [(label: String, values: [String])], labelWidth: Int) -> [String] {
    parts.flatMap { label, values in
      values.enumerated().map { index, value in
        "  \(dim((index == 0 ? label : "").padded(to: labelWidth)))  \(value.printable)"
      }
    }
  }

  private func wrap(_ text: String, _ code: String) -> String {
    isColored && !text.isEmpty ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
  }
}

extension Int {
  /// `1 node`, `2 nodes`
  func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
