import Glibc
import PipeMachines
import PipeSystem

/// Reads a node's step log, line by line.
package final class StepLogReader {
  package let path: String
  /// The first line; `nil` if the process was killed before it wrote the line.
  package private(set) var header: StepLogHeader?
  private let lines: LineReader
  private var tokens = JSONTokens()
  /// The text of the current line.
  package private(set) var text = UnsafeRawBufferPointer(start: nil, count: 0)
  private var lastVersion: UInt64 = 0
  private var lastTime: Int64 = 0

  /// Opens a log and reads its first line.
  package init(_ path: String) throws(StepLogError) {
    self.path = path
    do throws(SystemError) {
      lines = try LineReader(path)
    } catch { throw .unreadable(path, error) }
    guard let (line, _) = try nextText() else { return }
    do {
      header = try JSONRecord.decode(StepLogHeader.self, from: line)
    } catch {
      throw .malformed(path, line: 1, "it is not the first line of a log of this version")
    }
    lastVersion = header?.version ?? 0
    lastTime = header?.time ?? 0
  }

  /// Whether the file ends within a line. Known after the last line is read.
  package var isTorn: Bool { lines.isTorn }
  /// The number of lines read so far.
  package var lineNumber: Int { lines.lineNumber }

  /// Returns the next line; `nil` after the last complete line.
  package func next() throws(StepLogError) -> StepLogLine? {
    guard header != nil, let (text, offset) = try nextText() else { return nil }
    self.text = text
    guard tokens.read(text), tokens.list[0].kind == .object else {
      throw malformed("it is not a JSON object")
    }
    var line = StepLogLine(
      number: lineNumber, offset: offset, version: lastVersion, time: lastTime)
    try read(into: &line)
    (lastVersion, lastTime) = (line.version, line.time)
    return line
  }

  private func nextText() throws(StepLogError) -> (UnsafeRawBufferPointer, Int)? {
    do throws(SystemError) { return try lines.next() } catch { throw .unreadable(path, error) }
  }

  /// Returns a part of the current line as text.
  package func string(_ range: Range<Int>) -> String {
    String(decoding: self[range], as: UTF8.self)
  }

  /// Returns a part of the current line.
  package subscript(range: Range<Int>) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: text[range])
  }

  // MARK: Reading the members of a line

  private func malformed(_ problem: String) -> StepLogError {
    .malformed(path, line: lineNumber, problem)
  }

  private func read(into line: inout StepLogLine) throws(StepLogError) {
    let end = Int(tokens.list[0].nextIndex)
    var position = 1
    var kind: StepLogLine.Kind?
    var hasVersion = false
    while position < end {
      let value = position + 1
      switch key(at: position) {
      case "step":
        kind = .step
        line.step = try unsigned(at: value)
      case "version":
        hasVersion = true
        line.version = try unsigned(at: value)
      case "after": line.time = lastTime &+ (try signed(at: value))
      case "event": line.event = tokens.list[value].range
      case "ignored":
        kind = .ignored
        line.event = tokens.list[value].range
      case "refused":
        kind = .refused
        line.reason = tokens.list[value].range
      case "ended": kind = .ended
      case "state": line.state = tokens.list[value].range
      case "hash": line.hash = try hash(at: value)
      case "source": line.source = try pipedEvent(at: value, isSent: false)
      case "request": line.request = try request(at: value)
      case "transaction": line.transaction = try transaction(at: value)
      case "cause": line.cause = tokens.list[value].range
      case "effect": line.effect = try unsigned(at: value)
      case "postponed": line.isPostponed = tokens.list[value].kind == .true
      case "entry": line.isInternal = true
      case "sent": line.sent = try sent(at: value)
      default: throw malformed("the key '\(key(at: position))' is unknown")
      }
      position = Int(tokens.list[value].nextIndex)
    }
    guard let known = kind ?? (line.sent.isEmpty ? nil : .initialSends) else {
      throw malformed("it has none of the keys 'step', 'refused', 'ignored' and 'sent'")
    }
    line.kind = known
    if known == .step, !hasVersion { line.version = lastVersion + 1 }
  }

  /// Returns the key of a member, given the index of the key's token.
  private func key(at index: Int) -> Key {
    let token = tokens.list[index]
    return Key(text: self[Int(token.startOffset)..<Int(token.endOffset)])
  }

  /// A key, compared in place with the literals of a `switch`.
  private struct Key: CustomStringConvertible {
    let text: UnsafeRawBufferPointer
    var description: String { String(decoding: text, as: UTF8.self) }

    static func ~= (literal: StaticString, key: Key) -> Bool {
      literal.utf8CodeUnitCount == key.text.count
        && memcmp(literal.utf8Start, key.text.baseAddress!, key.text.count) == 0
    }
  }

  private func unsigned(at index: Int) throws(StepLogError) -> UInt64 {
    let token = tokens.list[index]
    guard token.kind == .number, let number = Self.number(self[token.range]) else {
      throw malformed("a number is missing")
    }
    return number
  }

  private func signed(at index: Int) throws(StepLogError) -> Int64 {
    let token = tokens.list[index]
    var text = self[token.range]
    guard token.kind == .number else { throw malformed("a number is missing") }
    let isNegative = text.first == UInt8(ascii: "-")
    if isNegative { text = UnsafeRawBufferPointer(rebasing: text.dropFirst()) }
    guard let number = Self.number(text), let signed = Int64(exactly: number) else {
      throw malformed("a number is too large")
    }
    return isNegative ? -signed : signed
  }

  private static func number(_ text: UnsafeRawBufferPointer) -> UInt64? {
    guard !text.isEmpty, text.count <= 20 else { return nil }
    var number: UInt64 = 0
    for byte in text {
      let digit = byte &- 0x30
      guard digit < 10 else { return nil }
      let (product, hasOverflow) = number.multipliedReportingOverflow(by: 10)
      let (sum, hasCarry) = product.addingReportingOverflow(UInt64(digit))
      guard !hasOverflow, !hasCarry else { return nil }
      number = sum
    }
    return number
  }

  private func hash(at index: Int) throws(StepLogError) -> UInt64 {
    let token = tokens.list[index]
    let text = self[Int(token.startOffset)..<Int(token.endOffset)]
    guard token.kind == .string, text.count == 16 else { throw malformed("the hash is invalid") }
    var hash: UInt64 = 0
    for byte in text {
      guard let digit = Self.hexadecimalDigit(byte) else { throw malformed("the hash is invalid") }
      hash = hash << 4 | digit
    }
    return hash
  }

  private static func hexadecimalDigit(_ byte: UInt8) -> UInt64? {
    switch byte {
    case 0x30...0x39: UInt64(byte - 0x30)
    case 0x61...0x66: UInt64(byte - 0x57)
    default: nil
    }
  }

  private func request(at index: Int) throws(StepLogError) -> RequestKey {
    guard tokens.list[index].kind == .array, tokens.list[index].childCount == 2 else {
      throw malformed("'request' is invalid")
    }
    return RequestKey(client: try unsigned(at: index + 1), id: try unsigned(at: index + 2))
  }

  private func transaction(at index: Int) throws(StepLogError) -> TransactionID {
    let token = tokens.list[index]
    guard token.kind == .string,
      let id = TransactionID(string(Int(token.startOffset)..<Int(token.endOffset)))
    else { throw malformed("'transaction' is invalid") }
    return id
  }

  private func sent(at index: Int) throws(StepLogError) -> [StepLogLine.PipedEvent] {
    let list = tokens.list[index]
    guard list.kind == .array else { throw malformed("'sent' is no array") }
    var events: [StepLogLine.PipedEvent] = []
    events.reserveCapacity(Int(list.childCount))
    var position = index + 1
    while position < list.nextIndex {
      events.append(try pipedEvent(at: position, isSent: true))
      position = Int(tokens.list[position].nextIndex)
    }
    return events
  }

  private func pipedEvent(
    at index: Int, isSent: Bool
  ) throws(StepLogError) -> StepLogLine.PipedEvent {
    let token = tokens.list[index]
    guard token.kind == .array, token.childCount == (isSent ? 4 : 3),
      tokens.list[index + 1].kind == .string
    else { throw malformed("'\(isSent ? "sent" : "source")' has an invalid event") }
    let pipe = tokens.list[index + 1]
    return StepLogLine.PipedEvent(
      pipe: Int(pipe.startOffset)..<Int(pipe.endOffset), stream: try unsigned(at: index + 2),
      number: try unsigned(at: index + 3), event: isSent ? tokens.list[index + 4].range : 0..<0)
  }
}

/// The reason why a step log cannot be read.
package enum StepLogError: Error, Hashable, Sendable {
  case unreadable(String, SystemError)
  case malformed(String, line: Int, String)
}

extension StepLogError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .unreadable(_, let error): "the step log cannot be read: \(error)"
    case .malformed(let path, let line, let problem):
      "\(path):\(line): the line is invalid: \(problem)"
    }
  }
}
