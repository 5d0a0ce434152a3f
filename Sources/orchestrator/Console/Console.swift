import Glibc
import PipeRuntime

/// Thrown when the program that reads this process's stdout has closed the stream.
///
/// The command then has nothing more to do.
package struct ConsoleClosedError: Error {}

/// The two outputs of a command: stdout for data, which is buffered until ``flush()``, and stderr
/// for diagnostics.
///
/// A write blocks until the reader has read enough. A command that supervises nodes must not block,
/// and therefore calls ``detach()``.
///
/// Not safe for concurrent use: only one thread may use a console.
package final class Console {
  package let isTerminal: Bool
  /// Whether stdout is a terminal whose lines can be redrawn.
  package let canRedraw: Bool
  /// The style of the text on stdout.
  package private(set) var style: Style
  /// The style of the text on stderr.
  package private(set) var errorStyle: Style
  private let outputDescriptor: Int32
  private let errorDescriptor: Int32
  private var buffer: [UInt8] = []
  /// The queues that write the output after ``detach()``, by descriptor.
  private var queues: [Int32: OutputQueue] = [:]

  /// The maximum time that a command waits at its end for a reader that reads no output.
  ///
  /// After this time, the remaining output is dropped.
  package static let drainTimeout: Duration = .seconds(2)

  package init(
    output: Int32 = 1, errors: Int32 = 2,
    environment: [String: String] = ProcessEnvironment.current
  ) {
    self.outputDescriptor = output
    self.errorDescriptor = errors
    isTerminal = isatty(output) == 1
    canRedraw = isTerminal && environment["TERM"] != "dumb"
    let isColorAllowed = (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
    style = Style(isColored: isColorAllowed && isTerminal, usesLocalTime: isTerminal)
    errorStyle = Style(isColored: isColorAllowed && isatty(errors) == 1)
  }

  /// Turns off colours, for `--no-color`.
  package func disableColor() {
    style.isColored = false
    errorStyle.isColored = false
  }

  /// The columns and rows of the terminal; 80 × 24 if they are unknown.
  package var size: (columns: Int, rows: Int) {
    var size = winsize()
    guard ioctl(outputDescriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else {
      return (80, 24)
    }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// Writes text to stdout, without a line end.
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

  /// Writes records in the format that `-o` selects: as text lines with the same contents, as a
  /// JSON array, or as one line of JSON for each record.
  package func print(
    _ records: [JSONValue], as format: OutputFormat, lines: @autoclosure () throws -> [String]
  ) throws {
    switch format {
    case .text: for line in try lines() { try print(line) }
    case .json: try print(.array(records))
    case .jsonl: for record in records { try print(record) }
    }
  }

  /// Writes records in the format that `-o` selects. The text format is a table that fits the width
  /// of the terminal.
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
  /// - Throws: ``ConsoleClosedError`` if the reader has closed stdout; `SystemError` for other
  ///   failures.
  package func flush() throws {
    defer { buffer.removeAll(keepingCapacity: true) }
    try write(buffer, to: outputDescriptor)
  }

  // MARK: Output that never blocks

  /// Moves the writing of output to other threads. Afterwards, this process is not delayed when the
  /// reader stops reading, as a terminal does after ^S. Output that does not fit into the queue is
  /// dropped and counted. The loss is reported when the reader reads again.
  ///
  /// Precondition: the process has blocked the signals that it reads from descriptors.
  package func detach() {
    guard queues.isEmpty else { return }
    let queue = OutputQueue(outputDescriptor)
    queues[outputDescriptor] = queue
    // If stdout and stderr are the same file, they share a queue, so that their output stays in
    // order.
    let isShared = FileIdentity(descriptor: outputDescriptor).map {
      $0 == FileIdentity(descriptor: errorDescriptor)
    }
    queues[errorDescriptor] = isShared == true ? queue : OutputQueue(errorDescriptor)
  }

  /// Waits until the remaining output is written. Stops waiting if the reader reads nothing for too
  /// long.
  /// - Parameter patience: The maximum time during which the reader reads nothing. After this time,
  ///   the wait ends.
  package func drain(patience: Duration = drainTimeout) {
    for descriptor in [outputDescriptor, errorDescriptor] {
      queues[descriptor]?.drain(patience: patience)
    }
  }

  /// Writes a line for the user to stderr, such as progress or a hint.
  package func note(_ line: String) {
    try? write(Array((line + "\n").utf8), to: errorDescriptor)
  }

  package func warning(_ message: String) {
    note(errorStyle.yellow("warning:") + " " + message)
  }

  /// Writes a diagnostic in the form `FILE:LINE:COLUMN: error: …`.
  package func diagnostic(_ diagnostic: Diagnostic) {
    let word = "\(diagnostic.severity.rawValue):"
    let isError = diagnostic.severity == .error
    let parts = "\(diagnostic)".split(separator: word, maxSplits: 1)
    guard parts.count == 2 else { return note("\(diagnostic)") }
    note(parts[0] + (isError ? errorStyle.red(word) : errorStyle.yellow(word)) + parts[1])
  }

  /// Writes an error in the form `orchestrator: error: …`.
  package func error(_ message: String) {
    note("orchestrator: " + errorStyle.red("error:") + " " + message)
  }

  /// Whether there is a terminal on which a user can answer a question.
  package var canPrompt: Bool { isatty(0) == 1 }

  /// Asks the user a question on the terminal. Only the answers `y` and `yes` mean yes.
  package func confirm(_ question: String) throws -> Bool {
    try flush()
    try? write(Array((question + " [y/N] ").utf8), to: errorDescriptor)
    return ["y", "yes"].contains((readLine() ?? "").lowercased())
  }

  /// Waits until the reader of stdout has closed the stream, or until `timeout` has passed. Returns
  /// whether the reader has closed the stream.
  package func waitUntilClosed(timeout: Duration) -> Bool {
    var item = pollfd(fd: outputDescriptor, events: 0, revents: 0)
    return poll(&item, 1, Int32(clamping: timeout.wholeMilliseconds)) > 0
      && item.revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0
  }

  package enum WaitOutcome: Hashable, Sendable {
    case readable(Int32)
    case readerGone, timedOut
  }

  /// Waits until a descriptor is readable, or until the reader of stdout has closed the stream. If
  /// several descriptors are readable, returns the first of them.
  /// - Parameter deadline: The end of the wait; `nil` means no limit.
  package func wait(
    for descriptors: [Int32], until deadline: ContinuousClock.Instant? = nil
  ) -> WaitOutcome {
    while true {
      var items = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      items.append(pollfd(fd: outputDescriptor, events: 0, revents: 0))
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
        // Another process that shares the terminal has set `O_NONBLOCK`, so the write must wait
        // here until the terminal accepts output.
        var item = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&item, 1, -1)
      case EPIPE: throw ConsoleClosedError()
      default: throw SystemError("write", on: "stdout", code: errno)
      }
    }
  }
}

/// The style of text: whether colours are used, and in which time zone times are shown.
package struct Style: Hashable, Sendable {
  package var isColored: Bool
  /// Whether times are shown in the local time zone, as on a terminal; otherwise, they are shown in
  /// UTC.
  package var usesLocalTime: Bool

  package init(isColored: Bool, usesLocalTime: Bool = false) {
    self.isColored = isColored
    self.usesLocalTime = usesLocalTime
  }

  /// Formats a time for users.
  package func text(of time: Timestamp) -> String {
    usesLocalTime ? time.localText : time.description
  }

  /// Formats a time for users.
  /// - Parameter nanoseconds: The time in nanoseconds since 1970.
  package func time(_ nanoseconds: Int64) -> String {
    text(of: Timestamp(nanoseconds: nanoseconds))
  }

  package func bold(_ text: String) -> String { applyCode(text, "1") }
  package func dim(_ text: String) -> String { applyCode(text, "2") }
  package func red(_ text: String) -> String { applyCode(text, "31") }
  package func green(_ text: String) -> String { applyCode(text, "32") }
  package func yellow(_ text: String) -> String { applyCode(text, "33") }

  /// Colours a text with a colour that depends on `index`, so that a user can distinguish nodes.
  package func colorByIndex(_ index: Int, _ text: String) -> String {
    let palette = ["36", "33", "32", "35", "34", "96", "93", "92", "95", "94"]
    return applyCode(text, palette[index % palette.count])
  }

  /// Colours a text according to a node's phase.
  /// - Parameters:
  ///   - phase: The phase.
  ///   - text: The text to colour; `nil` for the phase itself.
  package func colorByPhase(_ phase: String, _ text: String? = nil) -> String {
    let text = text ?? phase
    return switch phase {
    case "running": green(text)
    case "failed": red(text)
    case "starting", "configuring", "ready", "stopping", "backing off", "waiting": yellow(text)
    default: dim(text)
    }
  }

  /// Formats labelled values with one line for each value. A label without values has no line.
  func lines(of parts: [(label: String, values: [String])], labelWidth: Int) -> [String] {
    parts.flatMap { label, values in
      values.enumerated().map { index, value in
        "  \(dim((index == 0 ? label : "").padded(to: labelWidth)))  \(value.printable)"
      }
    }
  }

  private func applyCode(_ text: String, _ code: String) -> String {
    isColored && !text.isEmpty ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
  }
}

extension Style {
  /// Returns one line for each root cause, with the command that helps. If there is no root cause,
  /// returns the line `all well`.
  func lines(
    of health: TopologyHealth, topology: String, includingNotes: Bool = false
  ) -> [String] {
    let shown = health.diagnoses.filter { includingNotes || $0.severity != .note }
    guard !shown.isEmpty else { return [health.summary] }
    return shown.map { diagnosis in
      let text = diagnosis.text(at: health.time)
      let colored =
        switch diagnosis.severity {
        case .failure: red(text)
        case .warning: yellow(text)
        case .note: text
        }
      return colored + (diagnosis.remedy.map { "; '\($0.command) -p \(topology)'" } ?? "")
    }
  }
}
