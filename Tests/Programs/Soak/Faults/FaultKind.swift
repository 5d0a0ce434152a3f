/// A kind of fault that the soak injects from outside into nodes, their orchestrator or their
/// files.
package enum FaultKind: String, CaseIterable, Sendable {
  case kill = "kill -9 of a node"
  case killTwo = "kill -9 of two nodes at once"
  case pause = "SIGSTOP, then SIGCONT"
  case longPause = "SIGSTOP, then SIGCONT when others have asked"
  case hang = "SIGSTOP until found hung"
  case restart = "restart in order"
  case namesakeOfPipe = "namesake of a pipe"
  case namesakeOfCoordinator = "namesake of a coordinator"
  case namesakeOfNode = "namesake of a node"
  case removeSockets = "sockets of a node removed"
  case killOrchestrator = "kill -9 of the orchestrator"
  case killOrchestratorTwice = "… and of the next one"
  case killOrchestratorAndNode = "… and of a node meanwhile"
  case changeFile = "… and a node changed in the file"
  case stopOrchestrator = "SIGSTOP of it, kill -9 of a node"
  case removeLock = "lock removed"
  case removeJournal = "journal of a node removed"
  case removeRuntime = "runtime directory removed"
  case fillDisk = "full disk"

  /// The relative frequency of the fault.
  var weight: Int {
    switch self {
    case .kill: 24
    case .pause: 10
    case .killTwo: 6
    case .restart, .longPause: 4
    case .hang: 2
    case .namesakeOfPipe, .namesakeOfCoordinator, .namesakeOfNode, .removeSockets,
      .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode, .changeFile,
      .stopOrchestrator, .removeLock, .removeJournal, .removeRuntime, .fillDisk:
      1
    }
  }

  /// The range of durations. Unit: microseconds.
  var pause: ClosedRange<Int> {
    switch self {
    case .kill, .killTwo, .pause, .hang, .restart, .removeLock, .removeJournal, .removeRuntime:
      500...30_000
    // Participants ask for the outcome of a promised event after 200 ms.
    case .longPause: 220_000...350_000
    // An end that has lost its routing id reclaims it after three seconds.
    case .namesakeOfPipe, .namesakeOfCoordinator: 50_000...4_000_000
    case .namesakeOfNode: 50_000...1_000_000
    case .removeSockets, .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode,
      .changeFile, .fillDisk:
      0...300_000
    case .stopOrchestrator: 50_000...1_500_000
    }
  }

  /// Whether the fault strikes the topology as a whole. Only one such fault is active at a time.
  var isOfTopology: Bool {
    switch self {
    case .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode, .changeFile,
      .stopOrchestrator, .removeLock, .removeJournal, .removeRuntime, .fillDisk:
      true
    case .kill, .killTwo, .pause, .longPause, .hang, .restart, .namesakeOfPipe,
      .namesakeOfCoordinator, .namesakeOfNode, .removeSockets:
      false
    }
  }
}
