import PipeMachines
import PipeWire

// The table of DESIGN.md 3.3, a method for each input.

extension ParticipantStateMachine {
  /// The node has started; its journal has been read.
  package func start() -> [Action] {
    switch phase {
    case .prepared: [.startQueryTimer]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// The connection to the coordinator is there, or there again.
  package func connected() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// The coordinator has not told the end for a while.
  package func queryTimerFired() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// The coordinator asks whether the event is enabled.
  /// - Parameter evaluate: Asks the machine, once, without a step.
  package mutating func prepare(
    _ transaction: TransactionID, event: [UInt8], wantsChange: Bool,
    evaluate: (_ event: [UInt8]) -> Vote
  ) -> [Action] {
    switch phase {
    case .free:
      guard transaction > watermark else { return [] }
      watermark = transaction
      switch evaluate(event) {
      case .enabled(let move):
        let step = PreparedStep(transaction: transaction, event: event, move: move)
        phase = .preparing(step)
        return [.record(.prepared(step))]
      case .withheld(let refusal):
        owesChange = owesChange || wantsChange
        return [.send(.no(transaction, refusal))]
      }
    case .prepared(let step) where step.transaction == transaction:
      return [.send(.yes(transaction, step.move))]
    case .preparing(let step) where step.transaction == transaction,
      .applying(let step) where step.transaction == transaction,
      .delivering(let step) where step.transaction == transaction:
      // The answer follows when the record is durable.
      return []
    case .preparing, .prepared, .applying, .delivering:
      watermark = max(watermark, transaction)
      owesChange = owesChange || wantsChange
      return [.send(.no(transaction, .busy))]
    }
  }

  /// The coordinator says that all take the event.
  package mutating func commit(_ transaction: TransactionID) -> [Action] {
    switch phase {
    case .prepared(let step) where step.transaction == transaction:
      phase = .applying(step)
      return [.stopQueryTimer, enter(step), .record(.step(step))]
    case .applying(let step) where step.transaction == transaction:
      return []
    case .free, .preparing, .prepared, .applying, .delivering:
      return [
        transaction <= applied
          ? .send(.ack(transaction)) : .report(.commitOfUnknown(transaction))
      ]
    }
  }

  /// The coordinator says that none takes the event.
  package mutating func abort(_ transaction: TransactionID) -> [Action] {
    watermark = max(watermark, transaction)
    switch phase {
    case .preparing(let step) where step.transaction == transaction:
      return unfreeze(after: [])
    case .prepared(let step) where step.transaction == transaction:
      return unfreeze(after: [.stopQueryTimer])
    case .applying(let step) where step.transaction == transaction:
      return [.report(.abortOfCommitted(transaction))]
    case .free, .preparing, .prepared, .applying, .delivering:
      return []
    }
  }

  /// The coordinator asks the node to take the event for itself.
  /// - Parameter evaluate: Asks the machine, once, without a step.
  package mutating func deliver(
    _ transaction: TransactionID, event: [UInt8], evaluate: (_ event: [UInt8]) -> Vote
  ) -> [Action] {
    switch phase {
    case .free:
      guard transaction > watermark else { return [] }
      watermark = transaction
      switch evaluate(event) {
      case .enabled(let move):
        let step = PreparedStep(transaction: transaction, event: event, move: move)
        phase = .delivering(step)
        return [enter(step), .record(.step(step))]
      case .withheld(let refusal):
        return [.send(.delivered(transaction, .refused(refusal)))]
      }
    case .delivering(let step) where step.transaction == transaction:
      return []
    case .preparing, .prepared, .applying, .delivering:
      watermark = max(watermark, transaction)
      return [.send(.delivered(transaction, .refused(.busy)))]
    }
  }

  /// A record is durable.
  package mutating func recorded(_ record: ParticipantRecord) -> [Action] {
    switch (phase, record) {
    case (.preparing(let step), .prepared(let recorded)) where step == recorded:
      phase = .prepared(step)
      return [.send(.yes(step.transaction, step.move)), .startQueryTimer]
    case (.applying(let step), .step(let recorded)) where step == recorded:
      applied = step.transaction
      return unfreeze(after: [.send(.ack(step.transaction))])
    case (.delivering(let step), .step(let recorded)) where step == recorded:
      applied = step.transaction
      let result = ParticipantMessage.Result.moved(version: step.move.version)
      return unfreeze(after: [.send(.delivered(step.transaction, result))])
    case (.free, .prepared), (.preparing, .prepared), (.prepared, .prepared),
      (.applying, .prepared), (.delivering, .prepared):
      // The transaction was aborted meanwhile.
      return []
    case (.free, .step), (.preparing, .step), (.prepared, .step), (.applying, .step),
      (.delivering, .step):
      return []
    }
  }

  /// The node has taken a step of its own.
  package mutating func stepped() -> [Action] {
    guard owesChange else { return [] }
    owesChange = false
    return [.send(.changed)]
  }

  private func enter(_ step: PreparedStep) -> Action {
    .enter(step.transaction, event: step.event, step.move)
  }

  private mutating func unfreeze(after actions: [Action]) -> [Action] {
    phase = .free
    var actions = actions
    if owesChange { actions += stepped() }
    actions.append(.unfreeze)
    return actions
  }
}
