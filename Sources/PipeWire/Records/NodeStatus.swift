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
