import PipeJournal
import PipeMachines
import PipeWire

/// Checks whether the processes that a new file starts can continue from the existing journals and
/// accept the events that are queued for them. The check runs before any node is stopped.
struct JournalCompatibility: Sendable {
  /// A node with a journal to check.
  private struct Node: Sendable {
    let name: String
    let journal: String
    let machine: String
    /// The description of the node's machine; `nil` if it is unknown, as for a coordinator.
    let description: MachineDescription?
    /// Whether a new process continues from the journal.
    let isStarted: Bool
    /// By pipe: the receivers that are started again.
    let receivers: [String: (name: String, machine: MachineDescription)]
  }

  private let nodes: [Node]

  /// The maximum number of events per pipe that are checked.
  private static let eventLimit = 10_000

  init(of next: LaunchPlan, after change: TopologyChange) {
    let started = Set(change.started)
    nodes = next.nodes.compactMap { node in
      guard !node.isRemote, let journal = node.information.journal else { return nil }
      var receivers: [String: (name: String, machine: MachineDescription)] = [:]
      for out in node.configuration.outs where started.contains(out.receiver) {
        guard let machine = next[out.receiver]?.description else { continue }
        receivers[out.name] = (out.receiver, machine)
      }
      let isStarted = started.contains(node.name)
      guard isStarted || !receivers.isEmpty else { return nil }
      return Node(
        name: node.name, journal: journal,
        machine: node.composites.isEmpty
          ? node.information.hosts ?? "" : JournalSnapshot.compositeMachine,
        description: node.description, isStarted: isStarted, receivers: receivers)
    }
  }

  var isEmpty: Bool { nodes.isEmpty }

  /// Reads the journals, which may take seconds.
  /// - Returns: The first problem and its remedy; `nil` if all processes can continue.
  func obstacle() -> String? { nodes.lazy.compactMap(Self.obstacle).first }

  private static func obstacle(of node: Node) -> String? {
    do throws(JournalError) {
      let reader = try JournalReader(node.journal, node: node.name)
      let snapshot = try reader.snapshot(limit: eventLimit)
      if node.isStarted, let error = error(in: snapshot, of: node) {
        return "node '\(node.name)' could not start: \(error)"
      }
      return snapshot.outs.lazy.compactMap { pipe in
        node.receivers[pipe.name].flatMap { receiver in
          obstacle(pipe.waiting, of: pipe.name, to: receiver.name, receiver.machine)
        }
      }.first
    } catch {
      switch error {
      case .damaged, .otherVersion, .stateTooLarge:
        return node.isStarted ? "node '\(node.name)' could not start: \(error)" : nil
      case .missing, .inaccessible, .full, .other, .undecodable, .locked, .superseded, .failed:
        // Nothing is recorded, or no other process may read the journal now. The node itself reports
        // the problem.
        return nil
      }
    }
  }

  private static func error(in snapshot: JournalSnapshot, of node: Node) -> JournalError? {
    guard snapshot.machine == node.machine else {
      return .other(
        path: node.journal, node: node.name, attribute: "machine", found: snapshot.machine,
        expected: node.machine)
    }
    guard let machine = node.description else { return nil }
    let states = snapshot.records.suffix(1).map(\.state) + snapshot.effects.map(\.state)
    let problem =
      states.lazy.compactMap(machine.problem(withRecordedState:)).first
      ?? snapshot.ins.lazy.flatMap(\.postponed).compactMap {
        machine.problem(withQueuedEvent: $0.event)
      }.first
    return problem.map { .undecodable(path: node.journal, node: node.name, problem: $0) }
  }

  private static func obstacle(
    _ events: [JournalSnapshot.Event], of pipe: String, to receiver: String,
    _ machine: MachineDescription
  ) -> String? {
    let problems = events.compactMap { machine.problem(withQueuedEvent: $0.event) }
    guard let problem = problems.first else { return nil }
    return
      "\(problems.count == 1 ? "1 queued event" : "\(problems.count) queued events") of pipe "
      + "'\(pipe)' would be refused by node '\(receiver)': \(problem); apply the file after the "
      + "running node '\(receiver)' has accepted the queued events, or keep the event in the "
      + "machine"
  }
}

extension MachineDescription {
  /// Returns why a recorded state cannot be a state of this machine, in a sentence; `nil` if it may be.
  package func problem(withRecordedState state: JSONValue) -> String? {
    let owner = "machine '\(machine)'"
    if let stateFields {
      guard Self.problem(with: initial, of: stateFields, owner) == nil else { return nil }
      return Self.problem(with: state, of: stateFields, owner)
    }
    // A type with custom coding can only be checked by its own decoder.
    guard !states.isEmpty, states.problems(with: initial).isEmpty else { return nil }
    return states.decodingProblem(with: state, noun: "state", owner: owner)
  }

  /// Returns why a queued event cannot be an event of this machine, in a sentence; `nil` if it may be.
  package func problem(withQueuedEvent event: JSONValue) -> String? {
    guard !events.isEmpty else { return nil }
    return events.decodingProblem(with: event, noun: "event", owner: "machine '\(machine)'")
  }

  private static func problem(
    with state: JSONValue, of fields: [CaseDescription.Field], _ owner: String
  ) -> String? {
    guard case .object(let members) = state else {
      return "the state of \(owner) is a struct, and cannot be \(state.text)"
    }
    for field in fields {
      let type = SwiftType(field.type)
      guard let value = members[field.name] else {
        if case .optional = type { continue }
        return "the state \(state.text) has no field '\(field.name)'"
      }
      if !type.canDecode(value) {
        return "field '\(field.name)' of the state of \(owner) cannot be \(value.text)"
      }
    }
    return nil
  }
}

extension [CaseDescription] {
  /// Returns why a JSON value cannot be decoded as a case, in a sentence. Unknown fields are ignored.
  fileprivate func decodingProblem(
    with json: JSONValue, noun: String, owner: String
  ) -> String? {
    problems(with: json).first { problem in
      if case .unknownField = problem { false } else { true }
    }?.text(noun: noun, owner: owner)
  }
}
