import PipeRuntime
import Synchronization

/// `orchestrator wait`
struct Wait: Verb {
  let description = VerbDescription(
    "wait", "Waits until nodes are in given states",
    discussion:
      "A label matches the state with any values. If the state is a struct, some of its "
      + "fields are sufficient. Each condition must hold at least once, not necessarily at "
      + "the same time. Exit code 124: timed out.",
    options: [
      .topology, .output,
      Option("timeout", value: .duration, "Maximum time to wait. Default: no limit"),
    ],
    positionals: [Positional("NODE=STATE", .text("NODE=STATE"), .some, "The states to wait for")],
    examples: [
      ("orchestrator wait door=closed --timeout 10s", "Returns when the door is closed"),
      (
        "orchestrator wait counter='{\"count\":3}'",
        "Returns when the field 'count' of the counter's state is 3"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    var parsed: [NodeCondition] = []
    for text in arguments.positionals { parsed.append(try NodeCondition(text)) }
    let conditions = parsed
    let timeout = arguments.duration("timeout")
    let (changes, fields) = try await arguments.onTopology { topology in
      var wait = StateWait(topology: topology, conditions: conditions)
      let changes = try await wait.run(within: timeout)
      return (changes, wait.conditions.map { ($0.node, $0.state.fields) })
    }
    let lines = changes.map { change in
      let state = change.state.stateText(fields: fields.first { $0.0 == change.node }?.1)
      return "\(change.node): \(state.printable)  (version \(change.version))"
    }
    try console.print(changes.map(\.record), as: arguments.format, lines: lines)
    return .success
  }
}

/// Waits until nodes of a running topology have been in given states.
private struct StateWait {
  let topology: TopologyClient
  var conditions: [NodeCondition]

  /// Returns the changes that met the conditions.
  mutating func run(within timeout: Duration?) async throws -> [StateChange] {
    for index in conditions.indices {
      conditions[index].state.fields = try await check(conditions[index])?.map(\.name)
    }
    let stream = try await topology.states(of: Array(Set(conditions.map(\.node))))
    let progress = Mutex(NodeConditions(conditions))
    let wait: @Sendable () async -> Bool = {
      for await change in stream where progress.withLock({ $0.take(change) }) { return true }
      return false
    }
    let isMet: Bool?
    if let timeout { isMet = try await withTimeout(timeout, wait) } else { isMet = await wait() }
    switch isMet {
    case true: return progress.withLock { $0.changes }
    case false: throw TopologyClientError.orchestratorGone(topology.topology)
    case nil:
      let nodes = (try? await topology.directory())?.nodes ?? []
      let missing = progress.withLock {
        $0.missing(downReasons: Self.downReasons(nodes), states: Self.states(nodes))
      }
      throw TopologyClientError.timedOut("after \(timeout?.shortText ?? ""): \(missing)")
    }
  }

  /// Throws if a condition can never hold.
  /// - Returns: The fields of the node's state, if it is a struct.
  private func check(_ condition: NodeCondition) async throws -> [CaseDescription.Field]? {
    let node = try await topology.directory().nodes(
      named: [condition.node], includingInstances: true)[0]
    var machine: MachineDescription
    switch node.kind {
    case .monitor:
      throw TopologyClientError.invalidEvent(node.name, "monitors have no states")
    case .composite:
      // Without a projection, a composite's state is an object of its nodes' states, and never a
      // label.
      if node.hosts == nil, let label = condition.state.state.string {
        throw CommandError(
          "composite '\(node.name)' has no projection and therefore no state '\(label)'; "
            + "wait for one of its nodes, as in 'NODE=\(label)'", code: .usage)
      }
      return nil
    case .machine, .constant:
      do {
        machine = try await topology.describe(node.name)
      } catch TopologyClientError.failed {
        // The node has not described itself yet, so its possible states are not known.
        return nil
      }
    }
    if node.kind == .constant, let only = machine.initial.caseName {
      machine.states = [CaseDescription(name: only)]
    }
    if let problem = condition.problem(with: machine) {
      throw CommandError(problem, code: .usage)
    }
    return machine.stateFields
  }

  /// Returns the reasons why nodes do not run, by node.
  private static func downReasons(_ nodes: [NodeInformation]) -> [String: String] {
    Dictionary(
      nodes.filter { !$0.isRunning }.map { node in
        (node.name, "is \(node.phase)" + (node.reason.map { " (\($0))" } ?? ""))
      }, uniquingKeysWith: { first, _ in first })
  }

  /// Returns the states of the running nodes.
  private static func states(_ nodes: [NodeInformation]) -> [String: JSONValue] {
    Dictionary(
      nodes.compactMap { node in node.status?.state.map { (node.name, $0) } },
      uniquingKeysWith: { first, _ in first })
  }
}

/// A node and the state to wait for: `door=closed`.
package struct NodeCondition: Hashable, Sendable {
  package let node: String
  package var state: StateCondition

  /// Reads `NODE=STATE`.
  package init(_ text: String) throws(CommandError) {
    guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
      throw CommandError(
        "'\(text)' is not NODE=STATE; write a condition such as 'door=closed'", code: .usage)
    }
    node = String(text[..<equals])
    state = StateCondition(try Self.parse(String(text[text.index(after: equals)...])))
  }

  private static func parse(_ text: String) throws(CommandError) -> JSONValue {
    do {
      return try CaseArgument.parse(text, noun: "state")
    } catch {
      // It may be the fields of a struct. Whether the node's state is that struct is not known
      // here.
      guard let value = try? JSONValue(parsing: text.utf8), case .object = value,
        StateCondition(value).isWellFormed
      else { throw error }
      return value
    }
  }

  /// Returns the reason why the node can never be in this state, or `nil`.
  package func problem(with machine: MachineDescription) -> String? {
    state.problem(with: machine, owner: "node '\(node)'")
  }
}

/// Conditions that must each hold at least once.
package struct NodeConditions: Sendable {
  package let all: [NodeCondition]
  private var firstMatches: [StateChange?]
  private var latest: [String: JSONValue] = [:]

  package init(_ conditions: [NodeCondition]) {
    all = conditions
    firstMatches = conditions.map { _ in nil }
  }

  /// Adds a change, and returns whether all conditions have been met.
  package mutating func take(_ change: StateChange) -> Bool {
    latest[change.node] = change.state
    for (index, condition) in all.enumerated()
    where firstMatches[index] == nil && condition.node == change.node
      && condition.state.matches(change.state)
    {
      firstMatches[index] = change
    }
    return isMet
  }

  package var isMet: Bool { !firstMatches.contains(nil) }

  /// The changes that met the conditions, in the conditions' order.
  package var changes: [StateChange] { firstMatches.compactMap(\.self) }

  /// Describes the conditions that have not been met, with the current state of each node.
  /// - Parameters:
  ///   - downReasons: The reasons why nodes do not run, by node.
  ///   - states: The states of nodes that have not reported one during the wait.
  package func missing(
    downReasons: [String: String] = [:], states: [String: JSONValue] = [:]
  ) -> String {
    zip(all, firstMatches).filter { $0.1 == nil }.map { condition, _ in
      let node = condition.node
      let currentText =
        downReasons[node]
        ?? (latest[node] ?? states[node]).map { "is in \(condition.state.text(of: $0))" }
        ?? "has not reported a state yet"
      return "'\(node)' \(currentText), not in \(condition.state)"
    }.joined(separator: "; ")
  }
}
