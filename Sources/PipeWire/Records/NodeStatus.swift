import PipeMachines

/// A node's report about itself: the answer to `ping`.
public struct NodeStatus: Codable, Hashable, Sendable {
  /// One end of a pipe.
  public struct Pipe: Codable, Hashable, Sendable {
    /// The pipe's name.
    public var name: String
    /// The number of events so far: the queued events at the sending end, or the events received in
    /// order at the receiving end.
    public var events: UInt64
    /// The number of events that the receiver has applied, as known at this end.
    public var applied: UInt64
    /// The number of events that wait at this end now.
    public var waiting: Int
    /// The maximum number of events in flight.
    public var capacity: Int
    /// At the sending end: an upper bound on the number of lost events. Events in flight are lost
    /// when a receiver without a journal is killed. Acknowledged events are lost when a receiver
    /// returns with an older journal.
    public var lost: UInt64?
    /// At the sending end: the number of events that could not be encoded, or were too large to send.
    public var unsendable: UInt64?
    /// At the receiving end: the number of refused events that were dropped since the process
    /// started. `nil` unless the pipe has `on_refused: ignore`.
    public var ignored: UInt64?

    /// At the sending end: the number of queued or sent events that the receiver has not applied
    /// yet. The pipe is full when this number reaches ``capacity``.
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

  /// The status of a composite, as its coordinator reports it.
  public struct Composite: Codable, Hashable, Sendable {
    /// The composite's name.
    public var name: String
    /// The state of the composite; `nil` until every component has reported its state.
    public var state: JSONValue?
    /// The number of state changes of the composite since the coordinator started.
    public var version: UInt64
    /// The outcomes of the composite's synchronized events; `nil` if no event was requested since
    /// the coordinator started.
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

  /// The statistics of a coordinator's answers to requests for a composite's synchronized events.
  public struct Requests: Codable, Hashable, Sendable {
    /// The number of requests by outcome: `committed`, `refused`, `busy`, `unavailable`, `unknown`
    /// or `broadcast`.
    public var outcomes: [String: UInt64] = [:]
    /// The durations from a request to its answer.
    public var durations = DurationCounts()

    package init() {}
  }

  /// The number of messages for synchronized events. A coordinator counts its messages with clients
  /// and participants; a participant counts its messages with the coordinator.
  public struct Messages: Codable, Hashable, Sendable {
    /// The number of messages sent since the process started.
    public var sent: UInt64 = 0
    /// The number of messages received since the process started.
    public var received: UInt64 = 0

    package init() {}
  }

  /// The time of the report. Unit: nanoseconds since 1970.
  public var time: Int64?
  /// The current state, or `nil` before the start.
  public var state: JSONValue?
  /// The time of the last entry into a state; `nil` if it is unknown. Unit: nanoseconds since 1970.
  public var since: Int64?
  /// The number of steps since the node first entered its initial state. If the node has a journal,
  /// this includes the steps of earlier processes.
  public var version: UInt64 = 0
  /// The number of events accepted, refused or ignored.
  public var events: UInt64 = 0
  /// The number of events refused.
  public var refused: UInt64 = 0
  /// The number of events that the node's state ignored; `nil` if there are none.
  public var ignored: UInt64?
  /// The number of dead letters.
  public var deadLetters: UInt64 = 0
  /// The number of refused events that were not stored because the limit of dead letters was
  /// reached; `nil` if there are none.
  public var deadLettersLost: UInt64?
  /// The most recent dead letters, at most five.
  public var recentDeadLetters: [DeadLetter] = []
  /// The number of events sent to ports without a pipe.
  public var unconnected: UInt64 = 0
  /// The number of gaps in the sequence numbers of inbound pipes.
  public var gaps: UInt64 = 0
  /// The number of frames that the node could not decode.
  public var invalidFrames: UInt64 = 0
  /// The number of effects in progress.
  public var effects: Int = 0
  /// The timer that is due first in the state; `nil` if no timer is running. In a node with
  /// instances, the first timer of all instances.
  public var timer: RunningTimer?
  /// The full outbound pipes, which keep the node from accepting input.
  public var blocked: [String] = []
  /// The sending ends of pipes.
  public var outs: [Pipe] = []
  /// The receiving ends of pipes.
  public var ins: [Pipe] = []
  /// The transaction in doubt: the node is prepared for a synchronized event and does not know the
  /// outcome.
  public var doubt: InDoubtTransaction?
  /// The composites of a coordinator; empty for any other node.
  public var composites: [Composite] = []
  /// The number of transactions written to the journal since the process started; `nil` without a
  /// journal.
  public var records: UInt64?
  /// The space that the journal takes, and the space on its disk; `nil` without a journal.
  public var journal: JournalSpace?
  /// The number of messages for synchronized events, without messages such as `join` that belong to
  /// no single event. `nil` if the node takes no part in synchronized events.
  public var synchronization: Messages?
  /// The durations of the machine's steps; `nil` if there was no step. Measured for each event from
  /// an effect and, in each turn, for the first event from a pipe or a client. A duration excludes
  /// writing the journal, and the time that an asynchronous transition waits.
  public var steps: DurationCounts?
  /// The durations of writing transactions to the journal; `nil` if there were none.
  public var recording: DurationCounts?

  package init() {}
}

/// A histogram of durations. The upper bounds of its buckets are 1 µs, 4 µs, 16 µs, and so on.
public struct DurationCounts: Codable, Hashable, Sendable {
  /// The number of durations in each bucket. A bucket contains the durations up to the bound with
  /// the same index and above the preceding bound. The last bucket contains the durations above all
  /// bounds.
  public private(set) var counts: [UInt64]
  /// The sum of all durations. Unit: nanoseconds.
  public private(set) var total: UInt64 = 0

  /// Creates an empty histogram.
  public init() { counts = Array(repeating: 0, count: Self.boundCount + 1) }

  /// The number of bounds. Each bound is four times the preceding bound.
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

  /// Whether the histogram has the expected number of buckets. A histogram from another program may
  /// have a different number.
  package var isComplete: Bool { counts.count == Self.boundCount + 1 }
}

/// A node's counters and transition counts, which its feed publishes at most ten times a second.
public struct NodeSummary: Codable, Hashable, Sendable {
  /// The node's counters, without a state; `nil` if another composite of the same process reports
  /// these counters.
  public var status: NodeStatus?
  /// The transition counts; `nil` if there are none.
  public var transitions: TransitionCounts?

  package init(status: NodeStatus? = nil, transitions: TransitionCounts? = nil) {
    self.status = status
    self.transitions = transitions
  }
}

/// The number of times that a machine has taken each of its transitions. A node counts only while a
/// client subscribes to the counts.
public struct TransitionCounts: Codable, Hashable, Sendable {
  /// The node's version when counting began.
  public var since: UInt64
  /// The counts, by the name of the state's case and then of the event's case. `*` represents all
  /// values of a type without cases, and `(after)` the timers of the state.
  public var counts: [String: [String: UInt64]]

  package init(since: UInt64, counts: [String: [String: UInt64]] = [:]) {
    self.since = since
    self.counts = counts
  }

  /// The name that represents all values of a state or event type without cases.
  package static let anyCase = "*"
  /// The name that represents the timers of a state, among the names of events.
  package static let timerEventName = "(after)"

  /// The total of all transitions.
  public var total: UInt64 { counts.values.reduce(0) { $1.values.reduce($0, +) } }
}

/// An error in a node's `status` frame, which does not match ``NodeStatus``.
package enum StatusError: Error, Hashable, Sendable {
  /// The key with this path is missing. Example of a path: `outs[0].waiting`.
  case missingKey(String)
  /// The value of the key with this path has the wrong type.
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
      self = .missingKey(Self.codingPathText(context.codingPath + [key]))
    case .typeMismatch(_, let context), .valueNotFound(_, let context),
      .dataCorrupted(let context):
      self =
        context.codingPath.isEmpty
        ? .unreadable : .wrongValue(of: Self.codingPathText(context.codingPath))
    case nil: self = .unreadable
    @unknown default: self = .unreadable
    }
  }

  private static func codingPathText(_ keys: [any CodingKey]) -> String {
    let path = keys.map { key in key.intValue.map { "[\($0)]" } ?? ".\(key.stringValue)" }.joined()
    return String(path.drop { $0 == "." })
  }
}
