import PipeMachines

/// The kinds of frames, grouped by the processes that exchange them. See the table in
/// `docs/PROTOCOL.md`.
package enum FrameKind: UInt8, CaseIterable, Sendable {
  // Frames of pipes, between the sender's DEALER and the receiver's inbox.
  case open = 1
  case events = 2
  case close = 3
  case welcome = 4
  case credit = 5
  case closed = 6
  // Frames of requests, between a client's DEALER and a node's inbox.
  case request = 16
  case reply = 17
  case deadLetter = 18
  /// A client's request to a coordinator for a synchronized event, or a query about its outcome.
  case synchronize = 19
  /// Asks how the receiver would respond to events, without changing its state.
  case explain = 20
  /// A request to a gated node, which takes only the steps that it is requested to take.
  case gate = 21
  // Frames of feeds, which a node publishes on its XPUB. See ``FeedTopic``.
  case state = 32
  case summary = 33
  case step = 34
  case tap = 35
  case refusal = 36
  case instance = 37
  // Control frames from a node to the orchestrator.
  case hello = 48
  case ready = 49
  case status = 50
  case stopped = 51
  /// A carrier node rejects an embedded coordinator.
  case rejected = 52
  /// A node asks to renew its lease.
  case renew = 53
  // Control frames from the orchestrator to a node.
  case configure = 56
  case start = 57
  case ping = 58
  case stop = 59
  case greet = 60
  /// Embeds a coordinator in the node's process.
  case embed = 61
  /// The peer list: the endpoints and keys of the processes that the node communicates with.
  case peers = 62
  /// Renews the lease. The new lease begins at the time of the node's request.
  case renewed = 63
  // Frames of synchronized events, between a coordinator's DEALER and a participant's inbox.
  case prepare = 80
  case commit = 81
  case abort = 82
  case deliver = 83
  case yes = 84
  case no = 85
  case acknowledge = 86
  case query = 87
  case delivered = 88
  case changed = 89
  case join = 90
  // Control frames between a client and the orchestrator.
  case command = 64
  case answer = 65
  // Frames from an agent to the orchestrator.
  /// The agent's report that it is alive, with the process that it runs.
  case agent = 96
  /// Lines from the standard output or standard error of the agent's node.
  case output = 97
  // Frames from the orchestrator to an agent.
  case launch = 104
  case signal = 105
  /// The state of the agent's node, as an answer to each of the agent's reports.
  case nodeState = 106
  /// Another agent has replaced the receiving agent. The receiver must kill its node and exit.
  case displaced = 107
}

/// The header of every frame: 24 bytes, little endian, before the body.
package struct FrameHeader: Hashable, Sendable {
  package static let byteCount = 24
  package static let magic: UInt8 = 0x70
  package static let version: UInt8 = 3

  /// The kind of the frame.
  package var kind: FrameKind
  /// Flags, whose meaning depends on the kind.
  package var flags: UInt8 = 0
  /// A count or a code, depending on the kind.
  package var count: UInt32 = 0
  /// A sequence number, a version or a request id, depending on the kind.
  package var sequence: UInt64 = 0
  /// An incarnation or a session, depending on the kind.
  package var incarnationOrSession: UInt64 = 0

  package init(
    _ kind: FrameKind, flags: UInt8 = 0, count: UInt32 = 0, sequence: UInt64 = 0,
    incarnationOrSession: UInt64 = 0
  ) {
    self.kind = kind
    self.flags = flags
    self.count = count
    self.sequence = sequence
    self.incarnationOrSession = incarnationOrSession
  }
}

/// The reason why bytes are not a valid frame.
package enum FrameError: Error, Hashable, Sendable, CustomStringConvertible {
  case short(byteCount: Int)
  case magic(UInt8)
  case version(UInt8)
  case kind(UInt8)
  case body(FrameKind)
  /// The transaction's epoch is in the future, so no coordinator can have begun it.
  case epoch(UInt64)

  package var description: String {
    switch self {
    case .short(let byteCount):
      "a frame of \(byteCount) bytes; the header alone has \(FrameHeader.byteCount) bytes"
    case .magic(let byte): "a frame that starts with byte \(byte), not \(FrameHeader.magic)"
    case .version(let version):
      "a frame of protocol version \(version); expected version \(FrameHeader.version)"
    case .kind(let kind): "a frame of unknown kind \(kind)"
    case .body(let kind): "a frame of kind '\(kind)' with a malformed body"
    case .epoch(let epoch): "a transaction of epoch \(epoch), which no coordinator can have begun"
    }
  }
}

extension FrameHeader {
  /// Reads the header at the start of a frame.
  package init(_ frame: UnsafeRawBufferPointer) throws(FrameError) {
    guard frame.count >= Self.byteCount else { throw .short(byteCount: frame.count) }
    guard frame[0] == Self.magic else { throw .magic(frame[0]) }
    guard frame[1] == Self.version else { throw .version(frame[1]) }
    guard let kind = FrameKind(rawValue: frame[2]) else { throw .kind(frame[2]) }
    self.kind = kind
    flags = frame[3]
    count = UInt32(littleEndian: frame.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
    sequence = UInt64(littleEndian: frame.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    incarnationOrSession = UInt64(
      littleEndian: frame.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
  }

  /// Writes the header into the first 24 bytes.
  package func write(into bytes: UnsafeMutableRawBufferPointer) {
    bytes[0] = Self.magic
    bytes[1] = Self.version
    bytes[2] = kind.rawValue
    bytes[3] = flags
    bytes.storeBytes(of: count.littleEndian, toByteOffset: 4, as: UInt32.self)
    bytes.storeBytes(of: sequence.littleEndian, toByteOffset: 8, as: UInt64.self)
    bytes.storeBytes(of: incarnationOrSession.littleEndian, toByteOffset: 16, as: UInt64.self)
  }

  /// Returns a complete frame: this header, followed by a body.
  package func frame(body: some Collection<UInt8> = EmptyCollection()) -> [UInt8] {
    let head = [UInt8](unsafeUninitializedCapacity: Self.byteCount) { buffer, count in
      write(into: UnsafeMutableRawBufferPointer(buffer))
      count = Self.byteCount
    }
    return body.isEmpty ? head : head + body
  }
}

/// The body of an `events` frame: consecutive events, each preceded by its length.
///
/// All events of a batch have the same schema version, which is a version of the receiver's schema.
/// If the schema version is not 1, the frame has ``schemaFlag``, and the body begins with the
/// schema version.
package struct EventBatch: Hashable, Sendable {
  /// The flag of an `events` frame whose body begins with the schema version of the events.
  package static let schemaFlag: UInt8 = 1

  /// The sequence number of the first event.
  package var firstSequence: UInt64
  /// The number of events.
  package private(set) var count: UInt64 = 0
  /// The encoded events: for each, a 32-bit length and then the event's JSON.
  package private(set) var bytes: [UInt8] = []
  /// The schema version of the events.
  package let schemaVersion: Int

  package init(first: UInt64, schemaVersion: Int = 1) {
    self.firstSequence = first
    self.schemaVersion = schemaVersion
    guard schemaVersion != 1 else { return }
    bytes = withUnsafeBytes(of: UInt32(clamping: schemaVersion).littleEndian, Array.init)
  }

  /// The flags of the frame.
  package var flags: UInt8 { schemaVersion == 1 ? 0 : Self.schemaFlag }

  private static func headCount(_ schema: Int) -> Int { schema == 1 ? 0 : 4 }

  /// Returns the schema version of the events in a frame, and the part of the body that contains
  /// the events.
  package static func events(
    of header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) -> (schema: Int, body: UnsafeRawBufferPointer) {
    guard header.flags & schemaFlag != 0 else { return (1, body) }
    guard body.count >= 4 else { throw .body(.events) }
    let schema = UInt32(littleEndian: body.loadUnaligned(as: UInt32.self))
    return (Int(schema), UnsafeRawBufferPointer(rebasing: body[4...]))
  }

  /// The sequence number of the last event; `firstSequence - 1` if the batch is empty.
  package var lastSequence: UInt64 { firstSequence + count - 1 }

  /// Adds an event. `write` appends the event's JSON to the bytes; an error of `write` leaves the
  /// batch unchanged.
  package mutating func append(_ write: (inout [UInt8]) throws -> Void) rethrows {
    let start = bytes.count
    bytes.append(contentsOf: [0, 0, 0, 0])
    do { try write(&bytes) } catch {
      bytes.removeSubrange(start...)
      throw error
    }
    let length = UInt32(bytes.count - start - 4).littleEndian
    bytes.withUnsafeMutableBytes { $0.storeBytes(of: length, toByteOffset: start, as: UInt32.self) }
    count += 1
  }

  /// The events of the batch, each with its sequence number.
  package var events: [(number: UInt64, event: [UInt8])] {
    bytes.withUnsafeBytes { body in
      var offset = Self.headCount(schemaVersion)
      return (0..<count).map { index in
        let length = Self.eventLength(in: body, at: offset)
        defer { offset += 4 + length }
        return (firstSequence + index, Array(body[(offset + 4)..<(offset + 4 + length)]))
      }
    }
  }

  /// Removes the events after `sequence`, and returns them as a new batch.
  package mutating func split(after sequence: UInt64) -> EventBatch {
    var rest = EventBatch(first: sequence + 1, schemaVersion: schemaVersion)
    let kept = sequence + 1 - firstSequence
    let offset = bytes.withUnsafeBytes { body in
      (0..<kept).reduce(Self.headCount(schemaVersion)) { offset, _ in
        offset + 4 + Self.eventLength(in: body, at: offset)
      }
    }
    rest.bytes += bytes[offset...]
    rest.count = count - kept
    bytes.removeSubrange(offset...)
    count = kept
    return rest
  }

  /// Calls `event` with the bytes of each event. Throws before the first call if the lengths and
  /// the count do not agree.
  package static func forEach(
    in body: UnsafeRawBufferPointer, count: UInt32,
    _ event: (UnsafeRawBufferPointer) -> Void
  ) throws(FrameError) {
    try validate(body, count: count)
    var offset = 0
    for _ in 0..<count {
      let length = Self.eventLength(in: body, at: offset)
      event(UnsafeRawBufferPointer(rebasing: body[(offset + 4)..<(offset + 4 + length)]))
      offset += 4 + length
    }
  }

  private static func validate(
    _ body: UnsafeRawBufferPointer, count: UInt32
  ) throws(FrameError) {
    var offset = 0
    for _ in 0..<count {
      guard offset + 4 <= body.count else { throw .body(.events) }
      let length = Self.eventLength(in: body, at: offset)
      guard length <= body.count - offset - 4 else { throw .body(.events) }
      offset += 4 + length
    }
    guard offset == body.count else { throw .body(.events) }
  }

  private static func eventLength(in body: UnsafeRawBufferPointer, at offset: Int) -> Int {
    Int(UInt32(littleEndian: body.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
  }
}

/// The events of a batch that are new to its receiver.
package struct ArrivedEvents {
  private let body: UnsafeRawBufferPointer
  private let count: UInt32
  private let duplicateCount: Int
  private let firstSequence: UInt64
  /// The schema version of the events.
  package let schemaVersion: Int

  /// - Parameters:
  ///   - body: The body of an `events` frame, with `count` events.
  ///   - duplicateCount: The number of events at the start of the batch that the receiver already has.
  ///   - first: The sequence number of the first new event.
  ///   - schemaVersion: The schema version of the events.
  package init(
    in body: UnsafeRawBufferPointer, count: UInt32, duplicateCount: Int, first: UInt64,
    schemaVersion: Int = 1
  ) {
    self.schemaVersion = schemaVersion
    self.body = body
    self.count = count
    self.duplicateCount = duplicateCount
    self.firstSequence = first
  }

  /// Calls `take` with each new event. Throws before the first call if the batch's lengths and
  /// count do not agree.
  package func forEach(
    _ take: (UnsafeRawBufferPointer, _ sequence: UInt64) -> Void
  ) throws(FrameError) {
    var index = 0
    try EventBatch.forEach(in: body, count: count) { bytes in
      if index >= duplicateCount { take(bytes, firstSequence + UInt64(index - duplicateCount)) }
      index += 1
    }
  }
}

/// Size limits that peers can rely on.
package enum WireLimits {
  /// The maximum size of an event, a state or a request body. Unit: bytes.
  package static let maximumEventByteCount = 1 << 20
  /// The maximum size of a message that a socket receives. A peer that sends a larger message is
  /// disconnected. Unit: bytes.
  package static let maximumMessageByteCount: Int64 = 4 << 20
}

/// Routing ids, by which a ROUTER identifies its peers.
package enum WireName {
  /// Returns the routing id of a pipe's sending end at the receiver's inbox.
  package static func pipe(_ name: String) -> String { "pipe/" + name }
  /// Returns the routing id of a coordinator at a participant's inbox.
  package static func coordinator(_ name: String) -> String { "sync/" + name }
  /// Returns the routing id of a node at the orchestrator's control socket.
  package static func node(_ name: String) -> String { "node/" + name }
  /// Returns the routing id of a node's agent at the orchestrator's control socket.
  package static func agent(ofNode name: String) -> String { "agent/" + name }

  /// Whether a routing id may belong to a client. Clients' ids begin with none of the prefixes of
  /// pipes, coordinators, nodes and agents.
  package static func isClientName(_ name: [UInt8]) -> Bool {
    for prefix in reservedPrefixes where name.starts(with: prefix) { return false }
    return true
  }

  private static let reservedPrefixes = [
    pipe(""), coordinator(""), node(""), agent(ofNode: ""),
  ].map { Array($0.utf8) }
}

extension JSONValue {
  /// Returns the first integer literal in a JSON text that does not fit into 64 bits; `nil` if
  /// there is none.
  package static func integerOutOfRange(in text: some Sequence<UInt8>) -> String? {
    Array(text).withUnsafeBytes { bytes in
      var tokens = JSONTokens()
      guard tokens.read(bytes) else { return nil }
      return tokens.list.lazy.filter { $0.kind == .number }
        .map { String(decoding: bytes[Int($0.startOffset)..<Int($0.endOffset)], as: UTF8.self) }
        .first { !$0.contains { ".eE".contains($0) } && Int64($0) == nil }
    }
  }
}
