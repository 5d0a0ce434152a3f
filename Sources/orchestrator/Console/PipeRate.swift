import PipeRuntime

/// How many events a second go into a pipe and are applied, from two readings of its ends' own counters.
package struct PipeRate: Hashable, Sendable {
  package let reading: PipeReading
  /// Unit: events a second; `nil` where it cannot be told, since that end's process is another one now.
  package let sent: Double?
  package let applied: Double?

  package init(from before: PipeReading, to now: PipeReading) {
    reading = now
    sent = Self.rate(
      before.out?.events, now.out?.events, at: before.sender, now.sender)
    applied = Self.rate(
      before.into?.applied, now.into?.applied, at: before.receiver, now.receiver)
  }

  /// - Parameters:
  ///   - earlier: The node as it was at the first reading.
  ///   - node: The same at the second one.
  private static func rate(
    _ before: UInt64?, _ now: UInt64?, at earlier: NodeInformation?, _ node: NodeInformation?
  ) -> Double? {
    guard let before, let now, now >= before, earlier?.incarnation == node?.incarnation,
      let start = earlier?.status?.time, let end = node?.status?.time, end > start
    else { return nil }
    return Double(now - before) * 1e9 / Double(end - start)
  }

  /// `1203.4 sent/s  1203.4 applied/s  17 under way`
  package func line(nameWidth: Int, _ style: Style) -> String {
    let name = reading.pipe.name.printable.padded(to: nameWidth)
    let underWay = reading.underWay.map { "\($0) under way" } ?? ""
    let trouble = reading.trouble.isEmpty ? "" : "  " + style.yellow(reading.trouble)
    return "\(name)  \(Self.text(sent)) sent/s  \(Self.text(applied)) applied/s  "
      + underWay + trouble
  }

  private static func text(_ rate: Double?) -> String {
    let tenths = rate.map { UInt64(($0 * 10).rounded()) }
    let text = tenths.map { "\($0 / 10).\($0 % 10)" } ?? "-"
    return String(repeating: " ", count: max(0, 9 - text.count)) + text
  }

  /// The JSON form of `-o json` and `-o jsonl`.
  package var record: JSONValue {
    guard case .object(var record) = reading.record else { return .null }
    record["sentPerSecond"] = sent.map { .number($0) } ?? .null
    record["appliedPerSecond"] = applied.map { .number($0) } ?? .null
    return .object(record)
  }
}
