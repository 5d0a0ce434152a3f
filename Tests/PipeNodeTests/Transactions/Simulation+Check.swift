import PipeMachines
import PipeNode
import PipeWire

extension Simulation {
  /// Returns the violations after the end of a run. Empty if all guarantees have held.
  func violations() -> [String] {
    var found = participants.flatMap { participant in
      participant.checkModel()
      return participant.problems
    }
    found += coordinators.flatMap(\.problems)
    if !isAtRest { found.append("something is still locked, prepared or under way") }
    let steps = participants.map(\.steps)
    for (participant, steps) in zip(participants, steps) {
      found += journalViolations(of: participant, steps)
    }
    let takers = takers(steps)
    for (id, one) in asked { found += requestViolations(id, one, takers[one.body] ?? [:]) }
    found += orderViolations(steps.map { $0.map(\.transaction) })
    return found.sorted()
  }

  /// Returns the participants that took each event, with their steps.
  private func takers(_ steps: [[PreparedStep]]) -> [[UInt8]: [String: [PreparedStep]]] {
    var takers: [[UInt8]: [String: [PreparedStep]]] = [:]
    for (name, steps) in zip(Self.names, steps) {
      for step in steps { takers[step.event, default: [:]][name, default: []].append(step) }
    }
    return takers
  }

  private func journalViolations(
    of participant: SimulatedParticipant, _ steps: [PreparedStep]
  ) -> [String] {
    let name = participant.name
    var version: UInt64 = 0
    var found: [String] = []
    for entry in participant.journal {
      switch entry {
      case .own: version += 1
      case .record(.prepared): continue
      case .record(.step(let step)):
        version += 1
        if step.move.version != version {
          found.append("\(name) recorded version \(step.move.version) after \(version - 1)")
        }
      }
    }
    let transactions = steps.map(\.transaction)
    if Set(transactions).count != transactions.count {
      found.append("\(name) applied a transaction twice")
    }
    return found
  }

  private func requestViolations(
    _ id: RequestID, _ one: Asked, _ takers: [String: [PreparedStep]]
  ) -> [String] {
    var found: [String] = []
    func complain(_ what: String) {
      found.append("request \(id.number) of \(one.composite.name), \(one.mode): \(what)")
    }
    if takers.values.contains(where: { $0.count > 1 }) { complain("taken twice by one") }
    let answers = Set(
      one.replies.filter { if case .atomic(.unknown) = $0 { false } else { true } })
    if answers.count > 1 { complain("answered in different ways: \(answers)") }
    if answers.isEmpty { complain("never answered") }
    if one.mode != .broadcast {
      let who = Set(takers.keys)
      if !who.isEmpty && who != Set(one.composite.participants) {
        complain("taken by \(who.sorted()) only")
      }
      if Set(takers.values.flatMap { $0.map(\.transaction) }).count > 1 {
        complain("taken in different transactions")
      }
    }
    for answer in answers {
      found += answerViolations(answer, takers).map { "\(id.number): \($0)" }
    }
    return found
  }

  private func answerViolations(
    _ answer: TransactionReply, _ takers: [String: [PreparedStep]]
  ) -> [String] {
    switch answer {
    case .atomic(.committed(let transaction, let versions)):
      let moves = takers.mapValues { $0[0].move.version }
      let transactions = takers.values.flatMap { $0.map(\.transaction) }
      return moves == versions && transactions.allSatisfy { $0 == transaction }
        ? [] : ["committed as \(transaction) \(versions), but moved \(moves)"]
    case .atomic(.refused), .atomic(.busy), .atomic(.unavailable):
      return takers.isEmpty ? [] : ["\(answer), but taken by \(takers.keys.sorted())"]
    case .atomic(.unknown): return []
    case .broadcast(let results):
      return results.compactMap { name, result in
        switch result {
        case .accepted(let version):
          takers[name]?.first?.move.version == version ? nil : "\(name) has not moved to \(version)"
        case .refused, .busy, .unavailable: takers[name] == nil ? nil : "\(name) has moved"
        case .unknown: nil
        }
      }
    }
  }

  /// Checks that participants have taken their shared transactions in the same order.
  private func orderViolations(_ orders: [[TransactionID]]) -> [String] {
    var found: [String] = []
    for left in orders.indices {
      let here = Set(orders[left])
      for right in orders.indices
      where right > left && Self.classOf[left] == Self.classOf[right] {
        let there = Set(orders[right])
        if orders[left].filter(there.contains) != orders[right].filter(here.contains) {
          let both = "\(Self.names[left]) and \(Self.names[right])"
          found.append("\(both) took their events in different orders")
        }
      }
    }
    return found
  }
}
