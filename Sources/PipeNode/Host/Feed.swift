import PipeMachines
import PipeTransport
import PipeWire

/// One published step of a node.
struct FeedEntry {
  /// Whose it is, where it is not the node's own; as JSON.
  var node: [UInt8]?
  var version: UInt64
  /// Unit: nanoseconds since 1970.
  var time: Int64
  var cause: String
  /// The state as JSON.
  var state: [UInt8]
  /// What it is prepared for in this state, and of which it is not told the end.
  var doubt: InDoubtTransaction?
  /// Whether the state is on the way of a step that is not over.
  var isPassing = false
  /// Whether the coordinator has committed the step, and so knows it.
  var isCommitted = false
}

/// The publishing end of a node's states: the last value to whoever comes, then every change.
final class Feed {
  let socket: Socket
  private let node: [UInt8]
  private let incarnation: UInt64
  private var topics: Set<[UInt8]> = []
  /// Whether somebody listens to steps, and whether also to those that a coordinator has committed.
  private var isWanted = (other: false, committed: false)
  /// Entries that subscribers are told of once they are recorded.
  private var kept: [FeedEntry] = []
  /// Asked for the last steps when a subscriber comes.
  var last: (() -> [FeedEntry])?

  init(node: String, incarnation: UInt64, context: Context) throws(TransportError) {
    socket = try Socket(.publisher, in: context)
    // A subscriber that is slower by more than this misses states, and learns that it did.
    try socket.setHighWaterMark(10_000)
    self.node = JSONValue.string(node).bytes
    self.incarnation = incarnation
  }

  /// What a coordinator subscribes to: the frames of steps that it has not committed itself.
  static let uncommitted = topic(flags: 0)

  /// Set in frames of steps that a coordinator has committed.
  private static let committedFlag: UInt8 = 1

  private static func topic(flags: UInt8) -> [UInt8] {
    [FrameHeader.magic, FrameHeader.version, FrameKind.state.rawValue, flags]
  }

  /// Whether anybody listens to such steps; where nobody does, a step need not be encoded.
  func isWanted(isCommitted: Bool) -> Bool { isCommitted ? isWanted.committed : isWanted.other }

  private func topicsHaveChanged() {
    func isWanted(flags: UInt8) -> Bool {
      let start = Self.topic(flags: flags)
      // A longer topic asks for some of them.
      return topics.contains { $0.starts(with: start.prefix($0.count)) }
    }
    self.isWanted = (isWanted(flags: 0), isWanted(flags: Self.committedFlag))
  }

  /// Keeps a step that is not recorded yet.
  func keep(_ entry: FeedEntry) { kept.append(entry) }

  /// What was kept is recorded, or needs no record: sends it to all subscribers.
  func publishKept() {
    for entry in kept { publish(entry) }
    kept.removeAll(keepingCapacity: true)
  }

  /// What was published goes out within the socket's linger.
  func close() { socket.close(lingering: .milliseconds(300)) }

  private func publish(_ entry: FeedEntry) {
    var body: [UInt8] = []
    body.reserveCapacity(160 + entry.state.count)
    body.append(contentsOf: #"{"node":"#.utf8)
    body.append(contentsOf: entry.node ?? node)
    body.append(contentsOf: ",\"incarnation\":\(incarnation),\"version\":\(entry.version)".utf8)
    body.append(contentsOf: ",\"time\":\(entry.time),\"cause\":".utf8)
    body.append(contentsOf: JSONValue.string(entry.cause).bytes)
    body.append(contentsOf: ",\"state\":".utf8)
    body.append(contentsOf: entry.state)
    if let doubt = entry.doubt, let json = try? JSONValue(encoding: doubt) {
      body.append(contentsOf: ",\"doubt\":".utf8)
      body.append(contentsOf: json.bytes)
    }
    if entry.isPassing { body.append(contentsOf: #","passing":true"#.utf8) }
    body.append(UInt8(ascii: "}"))
    socket.send(
      FrameHeader(
        .state, flags: entry.isCommitted ? Self.committedFlag : 0, sequence: entry.version,
        number: incarnation), body: body)
  }

  /// Takes subscriptions; each asks for the last value, a repeated one too.
  func readSubscriptions() {
    var asked = false
    while socket.receive({ _, bytes in
      guard let kind = bytes.first else { return }
      let topic = Array(bytes.dropFirst())
      if kind == 1 {
        asked = true
        topics.insert(topic)
      } else if kind == 0 {
        // Passed up only when the last subscriber of the topic has gone.
        topics.remove(topic)
      }
    }) {}
    topicsHaveChanged()
    guard asked else { return }
    for entry in last?() ?? [] { publish(entry) }
  }
}
