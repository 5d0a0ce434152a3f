import NumberMachines
import PipeRuntime

/// The states of all nodes of a plan at one moment.
struct MeetingView: Equatable {
  /// The meetings that each member has stored, oldest first.
  private(set) var met: [String: [String]] = [:]
  /// The last number that each source has sent.
  private(set) var sent: [String: Int] = [:]
  /// The number of dead letters of each coordinator.
  private(set) var deadLetters: [String: Int] = [:]
  /// A description of each node, pipe or effect that is not at rest.
  private(set) var unfinished: [String] = []
  /// A description of each count of arrived numbers that differs from the count of sent numbers.
  private(set) var differences: [String] = []
  /// The count of numbers that have arrived through pipes.
  private(set) var arrived = 0

  /// - Parameter until: For each source, the number up to which it should send.
  init(_ plan: MeetingPlan, until: [String: Int], _ directory: TopologyDirectory) {
    for source in plan.sources {
      let members = state(of: source, in: directory)?.caseMembers
      let sent = (members?["sent"] ?? members?["n"])?.integer.map { Int($0) } ?? 0
      self.sent[source] = sent
      if sent != until[source] ?? 0 {
        unfinished.append("\(source) has sent \(sent) of \(until[source] ?? 0)")
      }
    }
    for member in plan.members { addMember(at: member, plan, directory) }
    for coordinator in plan.coordinators {
      let status = status(of: coordinator, in: directory)
      deadLetters[coordinator] = Int(status?.deadLetters ?? 0)
    }
    addSink(plan, directory)
  }

  /// Returns the status of a node, or `nil` if the node is not running. Records which of its pipes
  /// and effects are not at rest.
  private mutating func status(of node: String, in directory: TopologyDirectory) -> NodeStatus? {
    guard let information = directory[node: node], information.isRunning,
      let status = information.status
    else {
      unfinished.append("\(node) does not run: \(directory[node: node]?.phase ?? "unknown")")
      return nil
    }
    for pipe in status.outs + status.ins where pipe.applied != pipe.events || pipe.waiting > 0 {
      unfinished.append(
        "\(pipe.applied) of \(pipe.events) events of pipe '\(pipe.name)' are done with")
    }
    if status.effects > 0 { unfinished.append("an effect of \(node) runs") }
    return status
  }

  private mutating func state(of node: String, in directory: TopologyDirectory) -> JSONValue? {
    let status = status(of: node, in: directory)
    if let deadLetters = status?.deadLetters, deadLetters > 0 {
      differences.append("\(node) has \(deadLetters) dead letters")
    }
    return status?.state
  }

  private mutating func addMember(
    at member: String, _ plan: MeetingPlan, _ directory: TopologyDirectory
  ) {
    guard let json = state(of: member, in: directory) else { return }
    guard let state = try? EventCodec<NumberMember.State>().decode(json.bytes) else {
      differences.append("\(member) is in state \(json.text)")
      return
    }
    if case .resting = state { unfinished.append("\(member) rests") }
    met[member] = state.record.met
    let wanted = plan.feedCapacitiesByMember[member] == nil ? [] : [MeetingPlan.source]
    compare(state.record.tallies, to: wanted.map { ($0, sent[$0] ?? 0) }, at: member)
  }

  private mutating func addSink(_ plan: MeetingPlan, _ directory: TopologyDirectory) {
    let json = state(of: MeetingPlan.sink, in: directory)?.caseMembers?["tallies"]
    let tallies = (try? json?.decode(Tallies.self)) ?? Tallies()
    compare(
      tallies, to: plan.members.map { ($0, met[$0]?.count ?? 0) }.filter { $0.1 > 0 },
      at: MeetingPlan.sink)
  }

  private mutating func compare(_ tallies: Tallies, to wanted: [(String, Int)], at node: String) {
    arrived += tallies.total
    for (route, count) in wanted {
      let tally = tallies.routes[route] ?? .none
      guard tally.count != count || tally.firstError != nil else { continue }
      differences.append(
        "\(node) has \(tally.count) of \(count) numbers of \(route)"
          + (tally.firstError.map { "; \($0)" } ?? ""))
    }
    for route in tallies.routes.keys.sorted() where !wanted.contains(where: { $0.0 == route }) {
      differences.append("\(node) has numbers of \(route)")
    }
  }
}
