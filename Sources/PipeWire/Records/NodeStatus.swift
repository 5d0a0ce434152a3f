import PipeMachines

/// A node's report about itself: the answer to `ping`.
public struct NodeStatus: Codable, Hashable, Sendable {
  /// One end of a pipe.
  public struct Pipe: Codable, Hashable, Sendable {
    /// The pipe's name.
    public var name: String
    /// Sending end: the number of events queued so far. Receiving end: the number of events
    /// received in order.
    public var events: UInt64
    /// Sending end: the number of events that the receiver has applied. Receiving end: the number
    /// of events applied.
    public var applied: UInt64
    /// The number of events that wait at this end.
    public var waiting: Int
    /// The maximum number of events in flight.
    public var capacity: Int
    /// Sending end: the number of events that a receiver without a journal had taken, and lost with
    /// its process.
    public var lost: UInt64?
    /// Sending end: the number of events that could not be encoded, or were too large to send.
    public var unsendable: UInt64?
    /// Receiving end: the number of refused events that were dropped since this start; `nil` without
    /// `on_refused: ignore`.
    public var ignored: UInt64?

    /// Sending end: the number of events that were sent and are not applied yet, wherever they
    /// wait. The pipe is full when this number reaches its capacity.
    public var underWay: UInt64 { events - min(applied, events) }

    package init(
      name: String, events: UInt64, applied: UInt64, waiting: Int, capacity: Int,
      lost: UInt64? = nil, unsendable: UInt64? = nil, ignored: UInt64? = nil
    ) {
      self.ignored = ignored
      self.lost = lost
      self.unsendable = unsendable
      self.name = name
      self.events = events
      self.applied = applied
      self.waiting = waiting
      self.capacity = capacity
    }
  }

  /// A composite of a coordinator.
  public struct Composite: Codable, Hashable, Sendable {
    /// The composite's name.
    public var name: String
    /// The state that the composite shows, or `nil` until every component has reported its state.
    public var state: JSONValue?
    /// The number of states that the composite has shown after the first, since this start.
    public var version: UInt64
    /// The outcomes of its synchronized events; `nil` if no client has requested one since this start.
    public var requests: Requests?

    package init(
      name: String, state: JSONValue? = nil, version: UInt64, requests: Requests? = nil
    ) {
      self.name = name
      self.state = state
      self.version = version
      self.requests = requests
    }
  }

  /// A coordinator's answers to requests for a composite's synchronized events.
  public struct Requests: Codable, Hashable, Sendable {
    /// The number of requests by outcome: `committed`, `refused`, `busy`, `unavailable`, `unknown`
    /// or `broadcast`.
    public var outcomes: [String: UInt64] = [:]
    /// The time from the request to the answer.
    public var durations = DurationCounts()

    package init() {}
  }

  /// The messages exchanged for synchronized events: by a coordinator with its callers and all
  /// participants, by a participant with its coordinator.
  public struct Messages: Codable, Hashable, Sendable {
    /// The number of messages sent since this start.
    public var sent: UInt64 = 0
    /// The number of messages received since this start.
    public var received: UInt64 = 0

    package init() {}
  }

  /// The time of the report. Unit: nanoseconds since 1970.
  public var time: Int64?
  /// The current state, or `nil` before the start.
  public var state: JSONValue?
  /// The number of steps since the node first entered its initial state. With a journal, this
  /// includes the steps of earlier processes.
  public var version: UInt64 = 0
  /// The number of events taken or refused.
  public var events: UInt64 = 0
  /// The number of events refused.
  public var refused: UInt64 = 0
  /// The number of dead letters.
  public var deadLetters: UInt64 = 0
  /// The number of refused events that did not become dead letters because the limit was reached;
  /// `nil` if there are none.
  public var deadLettersLost: UInt64?
  /// The most recent dead letters.
  public var recentDeadLetters: [DeadLetter] = []
  /// The number of events sent to ports without a pipe.
  public var unconnected: UInt64 = 0
  /// The number of gaps reported on in-pipes.
  public var gaps: UInt64 = 0
  /// The number of frames that the node could not decode.
  public var invalidFrames: UInt64 = 0
  /// The number of effects in progress.
  public var effects: Int = 0
  /// The full pipes that keep the node from taking input.
  public var blocked: [String] = []
  /// The sending ends of pipes.
  public var outs: [Pipe] = []
  /// The receiving ends of pipes.
  public var ins: [Pipe] = []
  /// The synchronized event in doubt: the node is prepared to take it and does not know the outcome.
  public var doubt: InDoubtTransaction?
  /// The composites of a coordinator; empty for any other node.
  public var composites: [Composite] = []
  /// The number of records since this start, each one transaction of the journal; `nil` without a journal.
  public var records: UInt64?
  /// The messages for synchronized events, without messages that belong to no single event, such as
  /// `join`; `nil` if the node takes no part in synchronized events.
  public var synchronization: Messages?
  /// The durations of a machine's steps: in each turn, for the first event from a pipe or a client,
  /// and for each event of an effect. They exclude the record, and what an asynchronous transition
  /// waits for. `nil` if there was no step.
  public var steps: DurationCounts?
  /// The durations of records, each one transaction of the journal; `nil` if there was no record.
  public var recording: DurationCounts?

  package init() {}
}

/// A histogram of durations: how many were at most 1 µs, 4 µs, 16 µs, and so on.
public struct DurationCounts: Codable, Hashable, Sendable {
  /// The number of durations that were at most the bound with the same index and above the bound
  /// before it. The last number counts the durations above all bounds.
  public private(set) var counts: [UInt64]
  /// The sum of all durations. Unit: nanoseconds.
  public private(set) var total: UInt64 = 0

  /// Creates an empty histogram.
  public init() { counts = Array(repeating: 0, count: Self.boundCount + 1) }

  /// The number of bounds. Each bound is four times the one before.
  package static let boundCount = 12
  /// The lowest bound. Unit: nanoseconds.
  private static let lowestBound: UInt64 = 1_000

  /// The bounds in ascending order. Unit: nanoseconds.
  package static var bounds: [UInt64] { (0..<boundCount).map { lowestBound << (2 * UInt64($0)) } }

  /// Counts one duration.
  package mutating func add(nanoseconds: Int64) {
    let time = UInt64(max(0, nanoseconds))
    var bucket = 0
    while bucket < Self.boundCount, time > Self.lowestBound << (2 * UInt64(bucket)) { bucket += 1 }
    counts[bucket] &+= 1
    total &+= time
  }

  /// The number of measured durations.
  public var count: UInt64 { counts.reduce(0, &+) }

  /// Whether there is one count for each bound, and one more. Another program may have written the counts.
  package var isComplete: Bool { counts.count == Self.boundCount + 1 }
}

/// A node's report beside its state, at most ten times a second: its counters, and how often it has
/// taken each transition.
public struct NodeSummary: Codable, Hashable, Sendable {
  /// The node's counters, without a state; `nil` if another composite of the same process reports them.
  public var status: NodeStatus?
  /// The transition counts; `nil` if there are none.
  public var transitions: TransitionCounts?

  package init(status: NodeStatus? = nil, transitions: TransitionCounts? = nil) {
    self.status = status
    self.transitions = transitions
  }
}

/// How often a machine has taken each of its transitions. The node counts only while a subscriber
/// asks for it.
public struct TransitionCounts: Codable, Hashable, Sendable {
  /// The version after which counting began.
  public var since: UInt64
  /// The counts, by the name of the state's case and then of the event's; `*` represents all values
  /// of a type without cases.
  public var counts: [String: [String: UInt64]]

  package init(since: UInt64, counts: [String: [String: UInt64]] = [:]) {
    self.since = since
    self.counts = counts
  }

  /// The name that represents all states, or all events, of a type without cases.
  package static let anyCase = "*"

  /// The total of all transitions.
  public var total: UInt64 { counts.values.reduce(0) { $1.values.reduce($0, +) } }
}

/// The reason why a node's `status` cannot be used: it does not match ``NodeStatus``.
package enum StatusError: Error, Hashable, Sendable {
  /// The key with this path is missing: `outs[0].waiting`.
  case missingKey(String)
  /// The value of the key with this path has another type.
  case wrongValue(of: String)
  /// The status is not a JSON object.
  case unreadable
}

extension StatusError: CustomStringConvertible {
  package var description: String {
    let fault =
      switch self {
      case .missingKey(let key): "lacks the key '\(key)'"
      case .wrongValue(let key): "has an invalid value for the key '\(key)'"
      case .unreadable: "is not a JSON object"
      }
    return "the node's status \(fault), and is not shown; rebuild the node's program with the same "
      + "version of PipeRuntime as the orchestrator"
  }
}

extension NodeStatus {
  /// Reads the body of a `status` frame, which a node in any language may have written.
  package init(reading body: [UInt8]) throws(StatusError) {
    do {
      self = try JSONRecord.decode(NodeStatus.self, from: body)
    } catch {
      throw StatusError(error)
    }
  }
}

extension StatusError {
  fileprivate init(_ error: any Error) {
    switch error as? DecodingError {
    case .keyNotFound(let key, let context):
      self = .missingKey(Self.path(context.codingPath + [key]))
    case .typeMismatch(_, let context), .valueNotFound(_, let context),
      .dataCorrupted(let context):
      self =
        context.codingPath.isEmpty ? .unreadable : .wrongValue(of: Self.path(context.codingPath))
    case nil: self = .unreadable
    @unknown default: self = .unreadable
    }
  }

  private static func path(_ keys: [any CodingKey]) -> String {
    let path = keys.map { key in key.intValue.map { "[\($0)]" } ?? ".\(key.stringValue)" }.joined()
    return String(path.drop { $0 == "." })
  }
}
