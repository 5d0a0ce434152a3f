import PipeRuntime

/// A pipe, with the reports of its two ends.
package struct PipeSnapshot: Hashable, Sendable {
  package var pipe: PipeInformation
  /// The position of the pipe in the file, counted from 1.
  package var positionInFile: Int
  package var sender: NodeInformation?
  package var receiver: NodeInformation?

  package init(
    _ pipe: PipeInformation, positionInFile: Int, sender: NodeInformation?,
    receiver: NodeInformation?
  ) {
    self.pipe = pipe
    self.positionInFile = positionInFile
    self.sender = sender
    self.receiver = receiver
  }

  /// The report of the sending end; `nil` if the sender has not reported yet.
  package var sendingEnd: NodeStatus.Pipe? { sender?.status?.outs.first { $0.name == pipe.name } }
  /// The report of the receiving end; `nil` if the receiver has not reported yet.
  package var receivingEnd: NodeStatus.Pipe? {
    receiver?.status?.ins.first { $0.name == pipe.name }
  }

  /// Whether the sender accepts no events because this pipe is full.
  package var isFull: Bool { sender?.status?.blocked.contains(pipe.name) == true }

  /// The number of events that were sent but are not applied yet.
  package var underWayCount: UInt64? { sendingEnd?.underWay }

  /// The reason why events are not delivered, in a few words; empty if there is no such reason.
  package var stallReason: String {
    let ends = [("sender", sender), ("receiver", receiver)].compactMap { end, node -> String? in
      guard let node else { return "\(end) unknown" }
      return node.isRunning ? nil : "\(end) \(node.phase)"
    }
    return ((isFull ? ["full"] : []) + ends.prefix(1)).joined(separator: ", ")
  }

  /// The JSON for `-o json` and `-o jsonl`.
  package var record: JSONValue {
    [
      "number": .integer(Int64(positionInFile)), "pipe": .string(pipe.name),
      "from": .string(pipe.from),
      "to": .string(pipe.to), "capacity": .integer(Int64(pipe.capacity)),
      "sent": Self.countValue(sendingEnd?.events),
      "received": Self.countValue(receivingEnd?.events),
      "applied": Self.countValue(receivingEnd?.applied), "underWay": Self.countValue(underWayCount),
      "waiting": receivingEnd.map { .integer(Int64($0.waiting)) } ?? .null, "full": .bool(isFull),
      "lost": Self.countValue(sendingEnd.map { $0.lost ?? 0 }),
      "unsendable": Self.countValue(sendingEnd.map { $0.unsendable ?? 0 }),
      "stallReason": stallReason.isEmpty ? .null : .string(stallReason),
    ]
  }

  private static func countValue(_ count: UInt64?) -> JSONValue {
    count.map { .count($0) } ?? .null
  }

  /// The rows of `pipe ls`.
  package static func table(_ snapshots: [PipeSnapshot]) -> Table {
    var table = Table(
      .init("#", .right), .init("PIPE", minimumWidth: 16, keepsEnd: true), .init("SENT", .right),
      .init("APPLIED", .right, dropOrder: 1), .init("UNDER WAY", .right),
      .init("CAPACITY", .right, dropOrder: 2), .init("STALLED", minimumWidth: 8))
    for snapshot in snapshots {
      table.add(
        String(snapshot.positionInFile), snapshot.pipe.name, text(snapshot.sendingEnd?.events),
        text(snapshot.receivingEnd?.applied), text(snapshot.underWayCount),
        String(snapshot.pipe.capacity),
        snapshot.stallReason)
    }
    return table
  }

  private static func text(_ count: UInt64?) -> String { count.map { String($0) } ?? "-" }

  /// Returns a description of the pipe for users.
  /// - Parameter events: The events that the receiver accepts, with their fields.
  package func lines(events: [String], _ style: Style) -> [String] {
    let sent = sendingEnd.map { sendingEnd in
      "\(sendingEnd.events) sent, \(sendingEnd.applied) acknowledged as applied, \(sendingEnd.waiting) waiting "
        + "to be sent"
        + [(sendingEnd.lost, "lost"), (sendingEnd.unsendable, "not sendable")].compactMap {
          count, label in
          count.flatMap { $0 > 0 ? ", \($0) \(label)" : nil }
        }.joined()
    }
    let received = receivingEnd.map {
      "\($0.events) received, \($0.applied) applied, \($0.waiting) waiting"
        + ($0.ignored.map { ", \($0) refused and ignored" } ?? "")
    }
    return [style.bold(pipe.name)]
      + style.lines(
        of: [
          ("from", [Self.line(of: sender, pipe.from)] + [sent].compactMap(\.self)),
          ("to", [Self.line(of: receiver, pipe.to)] + [received].compactMap(\.self)),
          ("capacity", [pipe.capacity.counted("event") + " under way at most"]),
          ("takes", events), ("stalled", stallReason.isEmpty ? [] : [stallReason]),
        ], labelWidth: 8)
  }

  private static func line(of node: NodeInformation?, _ name: String) -> String {
    node.map { "\($0.name): \($0.phase)" } ?? name
  }
}

extension TopologyDirectory {
  /// The pipes, with the reports of both ends.
  package var pipeSnapshots: [PipeSnapshot] {
    pipes.enumerated().map { index, pipe in
      PipeSnapshot(
        pipe, positionInFile: index + 1, sender: self[node: pipe.from],
        receiver: self[node: pipe.to])
    }
  }

  /// Returns the pipe with this name, or the pipe with this number; the number is the pipe's
  /// position in the file.
  /// - Throws: ``TopologyClientError/unknownPipe(_:known:)``
  package func pipeSnapshot(_ word: String) throws(TopologyClientError) -> PipeSnapshot {
    let snapshots = pipeSnapshots
    guard
      let found = snapshots.first(where: { $0.pipe.name == word })
        ?? snapshots.first(where: { String($0.positionInFile) == word })
    else { throw .unknownPipe(word, known: pipes.map(\.name)) }
    return found
  }
}

/// The rates at which a pipe's sender sends events and the pipe's receiver applies events.
///
/// The rates are computed from two readings of the counters at both ends of the pipe.
package struct PipeRate: Hashable, Sendable {
  package let snapshot: PipeSnapshot
  /// The rate at which the sender sends. Unit: events per second.
  ///
  /// `nil` if the rate is unknown, for example because the sender was restarted between the
  /// readings.
  package let sendRate: Double?
  package let applyRate: Double?

  package init(from before: PipeSnapshot, to now: PipeSnapshot) {
    snapshot = now
    sendRate = Self.rate(
      before.sendingEnd?.events, now.sendingEnd?.events, at: before.sender, now.sender)
    applyRate = Self.rate(
      before.receivingEnd?.applied, now.receivingEnd?.applied, at: before.receiver, now.receiver)
  }

  /// - Parameters:
  ///   - earlier: The node at the first reading.
  ///   - node: The node at the second reading.
  private static func rate(
    _ before: UInt64?, _ now: UInt64?, at earlier: NodeInformation?, _ node: NodeInformation?
  ) -> Double? {
    guard let before, let now, now >= before, earlier?.incarnation == node?.incarnation,
      let start = earlier?.status?.time, let end = node?.status?.time, end > start
    else { return nil }
    return Double(now - before) * 1e9 / Double(end - start)
  }

  /// The rates in one line, such as `1203.4 sent/s  1203.4 applied/s  17 under way`.
  package func line(nameWidth: Int, _ style: Style) -> String {
    let name = snapshot.pipe.name.printable.padded(to: nameWidth)
    let underWay = snapshot.underWayCount.map { "\($0) under way" } ?? ""
    let stallReason = snapshot.stallReason.isEmpty ? "" : "  " + style.yellow(snapshot.stallReason)
    return "\(name)  \(Self.text(sendRate)) sent/s  \(Self.text(applyRate)) applied/s  "
      + underWay + stallReason
  }

  private static func text(_ rate: Double?) -> String {
    let tenths = rate.map { UInt64(($0 * 10).rounded()) }
    let text = tenths.map { "\($0 / 10).\($0 % 10)" } ?? "-"
    return String(repeating: " ", count: max(0, 9 - text.count)) + text
  }

  /// The JSON for `-o json` and `-o jsonl`.
  package var record: JSONValue {
    guard case .object(var record) = snapshot.record else { return .null }
    record["sentPerSecond"] = sendRate.map { .number($0) } ?? .null
    record["appliedPerSecond"] = applyRate.map { .number($0) } ?? .null
    return .object(record)
  }
}
