import PipeMachines

/// What a node tells of itself when asked: the answer to `ping`.
public struct NodeStatus: Codable, Hashable, Sendable {
  /// One end of a pipe.
  public struct Pipe: Codable, Hashable, Sendable {
    /// The pipe's name.
    public var name: String
    /// Sending end: events queued so far. Receiving end: events received in order.
    public var events: UInt64
    /// Sending end: events that the receiver has applied. Receiving end: events applied.
    public var applied: UInt64
    /// Events that wait at this end.
    public var waiting: Int
    /// Events that may be under way.
    public var capacity: Int
    /// Sending end: events that a receiver without a journal had taken, and lost with its process.
    public var lost: UInt64?
    /// Sending end: events that could not be written, or were too large to be sent.
    public var unsendable: UInt64?

    /// Sending end: events that were sent and are not applied yet, wherever they wait. The pipe is full when these
    /// reach its capacity.
    public var underWay: UInt64 { events - min(applied, events) }

    package init(
      name: String, events: UInt64, applied: UInt64, waiting: Int, capacity: Int,
      lost: UInt64? = nil, unsendable: UInt64? = nil
    ) {
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
    /// What it shows, or `nil` while some component has not told its state.
    public var state: JSONValue?
    /// The count of states that it has shown after the first, since this start.
    public var version: UInt64
    /// What has become of its synchronized events; `nil` where nobody has asked for one since this start.
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

  /// What a coordinator has answered to those who asked for a composite's synchronized events.
  public struct Requests: Codable, Hashable, Sendable {
    /// How often, by what has become of the event: `committed`, `refused`, `busy`, `unavailable`, `unknown`
    /// or `broadcast`.
    public var outcomes: [String: UInt64] = [:]
    /// The time from the request to the answer.
    public var durations = DurationCounts()

    package init() {}
  }

  /// What passes between a coordinator and others because of synchronized events: at a coordinator
  /// its callers and all participants, at a participant its coordinator.
  public struct Messages: Codable, Hashable, Sendable {
    /// Messages sent since this start.
    public var sent: UInt64 = 0
    /// Messages received since this start.
    public var received: UInt64 = 0

    package init() {}
  }

  /// When the node told this. Unit: nanoseconds since 1970.
  public var time: Int64?
  /// The current state, or `nil` before the start.
  public var state: JSONValue?
  /// The count of steps since it first entered its initial state; with a journal those of earlier
  /// processes count.
  public var version: UInt64 = 0
  /// Events taken or refused.
  public var events: UInt64 = 0
  /// Events refused.
  public var refused: UInt64 = 0
  /// Events in the dead letters.
  public var letters: UInt64 = 0
  /// Refused events that are no dead letters, since there were as many as a node keeps; `nil` where
  /// there are none.
  public var lettersLost: UInt64?
  /// The last few dead letters.
  public var recentLetters: [DeadLetter] = []
  /// Events sent to ports that no pipe leads from.
  public var unconnected: UInt64 = 0
  /// Gaps reported on in-pipes.
  public var gaps: UInt64 = 0
  /// Frames that were not understood.
  public var garbage: UInt64 = 0
  /// Effects that run.
  public var effects: Int = 0
  /// The full pipes because of which the node takes no input.
  public var blocked: [String] = []
  /// The sending ends.
  public var outs: [Pipe] = []
  /// The receiving ends.
  public var ins: [Pipe] = []
  /// The synchronized event that it is prepared to take, and of which it is not told the end.
  public var doubt: InDoubtTransaction?
  /// What a coordinator coordinates; empty for any other node.
  public var composites: [Composite] = []
  /// Records made since this start, each one transaction of the journal; `nil` without a journal.
  public var records: UInt64?
  /// Messages of synchronized events, without those that belong to no one event, such as `join`; `nil`
  /// where the node has no part in any.
  public var synchronization: Messages?
  /// How long a machine's steps took: of each turn the first event that a pipe or a client has brought, and
  /// each event of an effect; without the record, and of an asynchronous transition without what it waits for.
  /// `nil` where there was none.
  public var steps: DurationCounts?
  /// How long records took, each one transaction of the journal; `nil` where there was none.
  public var recording: DurationCounts?

  package init() {}
}

/// How long something took, each time it was measured: how often at most 1 µs, 4 µs, 16 µs, and so on.
public struct DurationCounts: Codable, Hashable, Sendable {
  /// How many took at most the bound in the same place, and more than the one before; the last, more than all.
  public private(set) var counts: [UInt64]
  /// All together. Unit: nanoseconds.
  public private(set) var total: UInt64 = 0

  /// Nothing was measured yet.
  public init() { counts = Array(repeating: 0, count: Self.boundCount + 1) }

  /// How many bounds there are, each four times the one before.
  package static let boundCount = 12
  /// The least bound. Unit: nanoseconds.
  private static let least: UInt64 = 1_000

  /// The bounds, in growing order. Unit: nanoseconds.
  package static var bounds: [UInt64] { (0..<boundCount).map { least << (2 * UInt64($0)) } }

  /// Counts one.
  package mutating func add(nanoseconds: Int64) {
    let time = UInt64(max(0, nanoseconds))
    var place = 0
    while place < Self.boundCount, time > Self.least << (2 * UInt64(place)) { place += 1 }
    counts[place] &+= 1
    total &+= time
  }

  /// How many were measured.
  public var count: UInt64 { counts.reduce(0, &+) }

  /// Whether it has a count for each bound, and one more: another program may have written it.
  package var isComplete: Bool { counts.count == Self.boundCount + 1 }
}

/// What a node tells of itself beside its state, at most ten times a second: its counters, and how often it
/// has taken each transition.
public struct NodeSummary: Codable, Hashable, Sendable {
  /// Its counters, without a state; `nil` where another composite of the same process tells them.
  public var status: NodeStatus?
  /// The count of its transitions; `nil` where it has none.
  public var transitions: TransitionCounts?

  package init(status: NodeStatus? = nil, transitions: TransitionCounts? = nil) {
    self.status = status
    self.transitions = transitions
  }
}

/// How often a machine has taken each of its transitions. They are counted while somebody asks for it.
public struct TransitionCounts: Codable, Hashable, Sendable {
  /// The version after which they are counted.
  public var since: UInt64
  /// By the name of the state's case, then of the event's; `*` stands for all of a type without cases.
  public var counts: [String: [String: UInt64]]

  package init(since: UInt64, counts: [String: [String: UInt64]] = [:]) {
    self.since = since
    self.counts = counts
  }

  /// What stands for all states, or all events, of a type without cases.
  package static let anyCase = "*"

  /// All transitions together.
  public var total: UInt64 { counts.values.reduce(0) { $1.values.reduce($0, +) } }
}

/// Why what a node tells of itself cannot be used: its `status` is not what ``NodeStatus`` is.
package enum StatusProblem: Error, Hashable, Sendable {
  /// A path of keys: `outs[0].waiting`.
  case lacksKey(String)
  /// The value of this path of keys is of another kind.
  case wrongValue(of: String)
  /// It is no JSON object.
  case unreadable
}

extension StatusProblem: CustomStringConvertible {
  package var description: String {
    let fault =
      switch self {
      case .lacksKey(let key): "lacks the key '\(key)'"
      case .wrongValue(let key): "has a value under '\(key)' that does not belong there"
      case .unreadable: "is no JSON object"
      }
    return "its status \(fault), and is not shown; rebuild its program with the same version of "
      + "PipeRuntime as the orchestrator"
  }
}

extension NodeStatus {
  /// Reads the body of a `status` frame, which a node in any language may have written.
  package init(reading body: [UInt8]) throws(StatusProblem) {
    do {
      self = try JSONRecord.decode(NodeStatus.self, from: body)
    } catch {
      throw StatusProblem(error)
    }
  }
}

extension StatusProblem {
  fileprivate init(_ error: any Error) {
    switch error as? DecodingError {
    case .keyNotFound(let key, let context):
      self = .lacksKey(Self.path(context.codingPath + [key]))
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
