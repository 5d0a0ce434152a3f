import PipeRuntime
import Synchronization

/// The verb `orchestrator wait`.
struct Wait: Verb {
  let description = VerbDescription(
    "wait", "Waits until nodes are in given states",
    discussion:
      "A label matches the state with any values. If the state is a struct, you can give only "
      + "some of its fields. For a node with a 'key', give numbers of instances by state. Each "
      + "condition must be met at least once, but the conditions do not have to be met at the "
      + "same time. Exit code 124: timed out.",
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
      ("orchestrator wait 'orders[4711]=paid'", "Returns when the order 4711 is paid"),
      (
        "orchestrator wait orders='{\"placed\":0}'",
        "Returns when the node 'orders' has no instance in the state 'placed'"
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

  /// Waits until each condition has been met. Returns the changes that have met the conditions.
  mutating func run(within timeout: Duration?) async throws -> [StateChange] {
    for index in conditions.indices {
      conditions[index].state.fields = try await check(&conditions[index])?.map(\.name)
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
        $0.unmetDescription(downReasons: Self.downReasons(nodes), states: Self.states(nodes))
      }
      throw TopologyClientError.timedOut("after \(timeout?.shortText ?? ""): \(missing)")
    }
  }

  /// Throws an error if the condition can never be met.
  /// - Returns: The fields of the node's state; `nil` if the state is not a struct, or if its type
  ///   is unknown.
  private func check(_ condition: inout NodeCondition) async throws -> [CaseDescription.Field]? {
    let directory = try await topology.directory()
    let shards = directory.shards(of: condition.node)
    if let first = shards.first {
      throw TopologyClientError.hasShards(condition.node, first: first.name, count: shards.count)
    }
    let node = try directory.nodes(named: [condition.node], includingInstances: true)[0]
    var machine: MachineDescription
    switch node.kind {
    case .monitor:
      throw TopologyClientError.invalidEvent(node.name, "monitors have no states")
    case .composite:
      // Without a projection, the state of a composite is an object that contains the states of its
      // components. It is never a label.
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
        // The node has not described itself yet, so its possible states are unknown.
        return nil
      }
    }
    if node.kind == .constant, let only = machine.initial.caseName {
      machine.states = [CaseDescription(name: only)]
    }
    if let key = node.instanceField, InstanceName(condition.node) == nil {
      condition.hasCounts = true
      if let problem = condition.problem(withCounts: machine, key: key) {
        throw CommandError(problem, code: .usage)
      }
      return machine.states.map { .init(name: $0.name, type: "Int") }
    }
    if let problem = condition.problem(with: machine) {
      throw CommandError(problem, code: .usage)
    }
    return machine.stateFields
  }

  /// Returns the reasons why nodes are not running, by node.
  private static func downReasons(_ nodes: [NodeInformation]) -> [String: String] {
    Dictionary(
      nodes.filter { !$0.isRunning }.map { node in
        (node.name, "is \(node.phase)" + (node.reason.map { " (\($0))" } ?? ""))
      }, uniquingKeysWith: { first, _ in first })
  }

  /// Returns the states of the running nodes, by node.
  private static func states(_ nodes: [NodeInformation]) -> [String: JSONValue] {
    Dictionary(
      nodes.compactMap { node in node.status?.state.map { (node.name, $0) } },
      uniquingKeysWith: { first, _ in first })
  }
}

/// A node and a state to wait for, such as `door=closed`.
package struct NodeCondition: Hashable, Sendable {
  package let node: String
  package var state: StateCondition
  /// Whether the condition lists numbers of instances by state, for a node with a `key`.
  var hasCounts = false

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
      // The text may contain the fields of a struct. It is not known here whether the node's state
      // is a struct with these fields.
      guard let value = try? JSONValue(parsing: text.utf8), case .object = value,
        StateCondition(value).isWellFormed
      else { throw error }
      return value
    }
  }

  /// Returns whether a state of the node meets the condition. A node with a `key` does not list
  /// states without instances.
  fileprivate func matches(_ other: JSONValue) -> Bool {
    guard hasCounts, case .object(let counts) = state.state else { return state.matches(other) }
    return counts.allSatisfy { (other[$0.key] ?? 0).integer == $0.value.integer }
  }

  /// Returns the reason why the node can never be in this state; `nil` if there is no such reason.
  package func problem(with machine: MachineDescription) -> String? {
    state.problem(with: machine, owner: "node '\(node)'")
  }

  /// Returns the reason why a node with a `key` can never have these numbers of instances by state;
  /// `nil` if there is no such reason.
  package func problem(withCounts machine: MachineDescription, key: String) -> String? {
    guard case .object(let counts) = state.state,
      counts.values.allSatisfy({ $0.integer.map { $0 >= 0 } ?? false })
    else {
      let label = machine.states.first?.name ?? "STATE"
      return
        "node '\(node)' has an instance for each value of '\(key)'; wait for one of them, as in "
        + "'\(node)[KEY]=\(label)', or for numbers of instances, as in '\(node)={\"\(label)\":3}'"
    }
    let labels = machine.states.map { CaseDescription(name: $0.name) }
    for label in counts.keys.sorted() {
      if let problem = labels.problem(with: .string(label), noun: "state", owner: "node '\(node)'")
      {
        return problem
      }
    }
    return nil
  }
}

/// A set of conditions. Each of them must be met at least once.
package struct NodeConditions: Sendable {
  package let all: [NodeCondition]
  private var firstMatches: [StateChange?]
  private var latestStates: [String: JSONValue] = [:]

  package init(_ conditions: [NodeCondition]) {
    all = conditions
    firstMatches = conditions.map { _ in nil }
  }

  /// Processes a change. Returns whether each condition has been met.
  package mutating func take(_ change: StateChange) -> Bool {
    latestStates[change.node] = change.state
    for (index, condition) in all.enumerated()
    where firstMatches[index] == nil && condition.node == change.node
      && condition.matches(change.state)
    {
      firstMatches[index] = change
    }
    return isMet
  }

  package var isMet: Bool { !firstMatches.contains(nil) }

  /// The changes that have met the conditions, in the order of the conditions.
  package var changes: [StateChange] { firstMatches.compactMap(\.self) }

  /// Returns a description of the conditions that have not been met, with the current states of
  /// their nodes.
  /// - Parameters:
  ///   - downReasons: The reason for each node that is not running.
  ///   - states: The states of nodes that have not reported a state during the wait.
  package func unmetDescription(
    downReasons: [String: String] = [:], states: [String: JSONValue] = [:]
  ) -> String {
    zip(all, firstMatches).filter { $0.1 == nil }.map { condition, _ in
      let node = condition.node
      let currentText =
        downReasons[node]
        ?? (latestStates[node] ?? states[node]).map { "is in \(condition.state.text(of: $0))" }
        ?? "has not reported a state yet"
      return "'\(node)' \(currentText), not in \(condition.state)"
    }.joined(separator: "; ")
  }
}
