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
    let stepsByParticipant = stepsByParticipant(steps)
    for (id, simulatedRequest) in simulatedRequests {
      found += requestViolations(
        id, simulatedRequest, stepsByParticipant[simulatedRequest.body] ?? [:])
    }
    found += orderViolations(steps.map { $0.map(\.transaction) })
    return found.sorted()
  }

  /// Returns the participants that took each event, with their steps.
  private func stepsByParticipant(_ steps: [[PreparedStep]]) -> [[UInt8]: [String: [PreparedStep]]]
  {
    var stepsByParticipant: [[UInt8]: [String: [PreparedStep]]] = [:]
    for (name, steps) in zip(Self.names, steps) {
      for step in steps {
        stepsByParticipant[step.event, default: [:]][name, default: []].append(step)
      }
    }
    return stepsByParticipant
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
    _ id: RequestID, _ simulatedRequest: SimulatedRequest,
    _ stepsByParticipant: [String: [PreparedStep]]
  ) -> [String] {
    var found: [String] = []
    func addViolation(_ what: String) {
      found.append(
        "request \(id.number) of \(simulatedRequest.composite.name), \(simulatedRequest.mode): \(what)"
      )
    }
    if stepsByParticipant.values.contains(where: { $0.count > 1 }) {
      addViolation("taken twice by one")
    }
    let answers = Set(
      simulatedRequest.replies.filter { if case .atomic(.unknown) = $0 { false } else { true } })
    if answers.count > 1 { addViolation("answered in different ways: \(answers)") }
    if answers.isEmpty { addViolation("never answered") }
    if simulatedRequest.mode != .broadcast {
      let takingParticipants = Set(stepsByParticipant.keys)
      if !takingParticipants.isEmpty
        && takingParticipants != Set(simulatedRequest.composite.participants)
      {
        addViolation("taken by \(takingParticipants.sorted()) only")
      }
      if Set(stepsByParticipant.values.flatMap { $0.map(\.transaction) }).count > 1 {
        addViolation("taken in different transactions")
      }
    }
    for answer in answers {
      found += answerViolations(answer, stepsByParticipant).map { "\(id.number): \($0)" }
    }
    return found
  }

  private func answerViolations(
    _ answer: TransactionReply, _ stepsByParticipant: [String: [PreparedStep]]
  ) -> [String] {
    switch answer {
    case .atomic(.committed(let transaction, let versions)):
      let moves = stepsByParticipant.mapValues { $0[0].move.version }
      let transactions = stepsByParticipant.values.flatMap { $0.map(\.transaction) }
      return moves == versions && transactions.allSatisfy { $0 == transaction }
        ? [] : ["committed as \(transaction) \(versions), but moved \(moves)"]
    case .atomic(.refused), .atomic(.busy), .atomic(.unavailable):
      return stepsByParticipant.isEmpty
        ? [] : ["\(answer), but taken by \(stepsByParticipant.keys.sorted())"]
    case .atomic(.unknown): return []
    case .broadcast(let results):
      return results.compactMap { name, result in
        switch result {
        case .accepted(let version):
          stepsByParticipant[name]?.first?.move.version == version
            ? nil : "\(name) has not moved to \(version)"
        case .refused, .busy, .unavailable:
          stepsByParticipant[name] == nil ? nil : "\(name) has moved"
        case .unknown: nil
        }
      }
    }
  }

  /// Checks that participants have taken their shared transactions in the same order.
  private func orderViolations(_ orders: [[TransactionID]]) -> [String] {
    var found: [String] = []
    for left in orders.indices {
      let leftTransactions = Set(orders[left])
      for right in orders.indices
      where right > left && Self.classOf[left] == Self.classOf[right] {
        let rightTransactions = Set(orders[right])
        if orders[left].filter(rightTransactions.contains)
          != orders[right].filter(leftTransactions.contains)
        {
          let both = "\(Self.names[left]) and \(Self.names[right])"
          found.append("\(both) took their events in different orders")
        }
      }
    }
    return found
  }
}
