import PipeNode
import PipeWire

/// A simulated coordinator process with its journal and its timers.
final class SimulatedCoordinator {
  typealias Output = (
    messages: [(to: String, CoordinatorMessage)], replies: [(RequestID, TransactionReply)]
  )

  let name: String
  private let resultCapacity: Int
  private(set) var journal = CoordinatorJournal()
  private(set) var pending: [CoordinatorRecord] = []
  private(set) var machine: CoordinatorStateMachine?
  private(set) var timers: [CoordinatorStateMachine.Timer] = []
  private(set) var recordCount = 0
  /// The number of transactions that a restart found committed and not acknowledged.
  private(set) var inDoubt = 0
  private(set) var aborts = 0
  private(set) var problems: [String] = []

  init(name: String, resultCapacity: Int = 4096) {
    self.name = name
    self.resultCapacity = resultCapacity
  }

  func crash(using random: inout some RandomNumberGenerator) {
    let written = pending.prefix(Int.random(in: 0...pending.count, using: &random))
    for record in written { write(record) }
    pending = []
    machine = nil
    timers = []
  }

  func restart() -> Output {
    machine = CoordinatorStateMachine(
      name: name, journal: journal, resultCapacity: resultCapacity)
    inDoubt += machine?.transactionsInProgress.count ?? 0
    return perform(machine?.start() ?? [])
  }

  /// Passes an input to the state machine, and performs the resulting actions.
  func take(
    _ input: (inout CoordinatorStateMachine) -> [CoordinatorStateMachine.Action]
  ) -> Output {
    guard var machine else { return ([], []) }
    self.machine = nil
    let actions = input(&machine)
    self.machine = machine
    return perform(actions)
  }

  func record() -> Output {
    let record = pending.removeFirst()
    write(record)
    return take { $0.recorded(record) }
  }

  func fire(_ index: Int) -> Output {
    let timer = timers.remove(at: index)
    return take { $0.fired(timer) }
  }

  private func write(_ record: CoordinatorRecord) {
    switch record {
    case .start(let epoch): journal.epoch = epoch
    case .commit(let commit): journal.commits.append(commit)
    }
  }

  private func perform(_ actions: [CoordinatorStateMachine.Action]) -> Output {
    var output: Output = ([], [])
    for action in actions {
      switch action {
      case .record(let record):
        pending.append(record)
        recordCount += 1
      case .acknowledged(let transaction): journal.acknowledged.insert(transaction)
      case .forget(let transaction):
        journal.commits.removeAll { $0.transaction == transaction }
        journal.acknowledged.remove(transaction)
        journal.forgottenThrough = max(journal.forgottenThrough, transaction)
      case .send(let message, let participant):
        if case .abort = message { aborts += 1 }
        output.messages.append((participant, message))
      case .forgetRequests(let last): journal.highestForgottenRequestNumber = last
      case .reply(let id, let reply): output.replies.append((id, reply))
      case .replyForgotten(let id, let last): problems.append("\(id) is forgotten through \(last)")
      case .publish: break
      case .startTimer(let timer): timers.append(timer)
      case .cancelTimer(let timer): timers.removeAll { $0 == timer }
      case .report(let problem): problems.append("\(name): \(problem)")
      case .refuse(let mismatch): problems.append("\(name): \(mismatch)")
      }
    }
    return output
  }
}
