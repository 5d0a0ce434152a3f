import PipeMachines

/// The contents of the file that `PROGRAM try-journals` reads: the parts of journals that the
/// program should try to read.
package struct JournalTrialRequest: Codable, Hashable, Sendable {
  /// A part of a journal that a machine of the program must be able to read.
  package struct Task: Codable, Hashable, Sendable {
    /// The path of the journal.
    package var journalPath: String
    /// The node that writes the journal.
    package var node: String
    package var machine: String
    package var parameters: JSONValue
    /// The pipe whose queued events the machine receives; `nil` for the states and events of the
    /// node's own machine.
    package var pipe: QueuedPipe?

    private enum CodingKeys: String, CodingKey {
      case node, machine, parameters, pipe
      case journalPath = "journal"
    }

    package init(
      journalPath: String, node: String, machine: String, parameters: JSONValue,
      pipe: QueuedPipe? = nil
    ) {
      self.journalPath = journalPath
      self.node = node
      self.machine = machine
      self.parameters = parameters
      self.pipe = pipe
    }
  }

  /// A pipe whose queued events are read.
  package struct QueuedPipe: Codable, Hashable, Sendable {
    package var name: String
    package var receiver: String
    /// The path of the receiver's journal, which records the events that the receiver has applied;
    /// `nil` if the receiver keeps no journal.
    package var receiverJournal: String?

    package init(_ name: String, to receiver: String, receiverJournal: String?) {
      self.name = name
      self.receiver = receiver
      self.receiverJournal = receiverJournal
    }
  }

  /// The size of the progress file. Unit: bytes.
  package static let progressByteCount = 4_096

  package var tasks: [Task]
  /// The values that the program must not read, because an earlier process of the program ended
  /// while it read them.
  package var skipped: [StoredValueID]
  /// The path of a file that the program maps into its memory. Before the program reads a value, it
  /// writes the value's identity into this file.
  package var progressPath: String
  /// The maximum processor time for reading one value. When it is exceeded, the system ends the
  /// process. Unit: milliseconds.
  package var valueTimeLimit: Int64

  private enum CodingKeys: String, CodingKey {
    case tasks, skipped
    case progressPath = "progress"
    case valueTimeLimit = "limit"
  }

  package init(tasks: [Task], skipped: [StoredValueID], progressPath: String, valueTimeLimit: Int64)
  {
    self.tasks = tasks
    self.skipped = skipped
    self.progressPath = progressPath
    self.valueTimeLimit = valueTimeLimit
  }
}

/// The identity of a value in the journals that a program tries to read.
package struct StoredValueID: Codable, Hashable, Sendable {
  package enum Kind: String, Codable, Hashable, Sendable {
    case state, effect, timer, preparedStep, postponedEvent, deadLetter, queuedEvent

    /// Whether the value belongs to the state of its node. Otherwise, the value is an event or a
    /// dead letter.
    package var isState: Bool {
      switch self {
      case .state, .effect, .timer, .preparedStep: true
      case .postponedEvent, .deadLetter, .queuedEvent: false
      }
    }
  }

  /// The index of the task in the request.
  package var task: Int
  package var kind: Kind
  /// The number that identifies the value: for an event, its number in the pipe; for a dead letter,
  /// its own number; for a prepared step, the number of its transaction; otherwise the version of
  /// the node's step.
  package var number: UInt64
  /// For an event: the name of the event's pipe; `nil` for other values.
  package var pipe: String?
  /// The key of the instance that the value belongs to; `nil` if it belongs to none.
  package var key: String?
  /// The number of the feedback that started an effect; 0 if an output started the effect.
  package var feedback: Int?

  package init(
    task: Int, kind: Kind, number: UInt64, pipe: String? = nil, key: String? = nil,
    feedback: Int? = nil
  ) {
    self.task = task
    self.kind = kind
    self.number = number
    self.pipe = pipe
    self.key = key
    self.feedback = feedback
  }
}

/// A line that a program writes while it tries to read journals.
package enum JournalTrialAnswer: Codable, Hashable, Sendable {
  /// The machine cannot read a value.
  case failed(StoredValueID, schema: Int, field: String?, reason: String)
  /// The program cannot read any value of a journal.
  case unusable(task: Int, reason: String)
  /// The end of the answers: the program has read `count` values without an error.
  case done(count: Int)
}

/// A state or an event that a node's next program cannot read.
package struct MigrationFailure: Codable, Hashable, Sendable {
  /// The node whose journal has the value.
  package var node: String
  package var kind: StoredValueID.Kind
  package var number: UInt64
  /// For an event: the name of the event's pipe; `nil` for other values.
  package var pipe: String?
  /// The node that receives a queued event.
  package var receiver: String?
  /// The key of the instance that the value belongs to; `nil` if it belongs to none.
  package var key: String?
  package var feedback: Int?
  /// The schema version of the value.
  package var schema: Int
  /// The field that is missing or wrong; `nil` if it is unknown.
  package var field: String?
  package var reason: String

  package init(
    _ value: StoredValueID, of task: JournalTrialRequest.Task, schema: Int, field: String?,
    reason: String
  ) {
    node = task.node
    kind = value.kind
    number = value.number
    pipe = value.pipe
    receiver = task.pipe?.receiver
    key = value.key
    feedback = value.feedback
    self.schema = schema
    self.field = field
    self.reason = reason
  }

  /// The names with which a user can accept the loss of the value: the names of its node, its
  /// receiver and its pipe.
  package var acceptingNames: [String] { [node, receiver, pipe].compactMap(\.self) }

  /// The value and the reason: `node 'door': state of step 12: …`.
  package var text: String {
    let owner = "node '\(node)'" + (key.map { ", instance '\($0)'" } ?? "")
    return "\(owner): \(place): \(reason)"
  }

  private var place: String {
    switch kind {
    case .state: "state of step \(number)"
    case .effect: "running effect of step \(number)"
    case .timer: "timer of step \(number)"
    case .preparedStep: "prepared step of synchronized event \(number)"
    case .postponedEvent: "postponed event \(number) of pipe '\(pipe ?? "")'"
    case .deadLetter: "dead letter \(number)"
    case .queuedEvent:
      "queued event \(number) of pipe '\(pipe ?? "")' to node '\(receiver ?? "")'"
    }
  }

  /// The failure as JSON for scripts.
  package var record: JSONValue {
    [
      "node": .string(node), "kind": .string(kind.rawValue), "number": .count(number),
      "pipe": .optional(pipe), "receiver": .optional(receiver), "key": .optional(key),
      "schema": .integer(Int64(schema)), "field": .optional(field), "reason": .string(reason),
    ]
  }
}
