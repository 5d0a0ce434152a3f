/// What the soak does to nodes, to their orchestrator and to their files from outside.
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

  /// How often it is chosen, beside others.
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

  /// How long it lasts. Unit: microseconds.
  var pause: ClosedRange<Int> {
    switch self {
    case .kill, .killTwo, .pause, .hang, .restart, .removeLock, .removeJournal, .removeRuntime:
      500...30_000
    // Participants ask for the end of what they have promised after 200 ms.
    case .longPause: 220_000...350_000
    // Who has lost his name takes it back after three seconds.
    case .namesakeOfPipe, .namesakeOfCoordinator: 50_000...4_000_000
    case .namesakeOfNode: 50_000...1_000_000
    case .removeSockets, .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode,
      .changeFile, .fillDisk:
      0...300_000
    case .stopOrchestrator: 50_000...1_500_000
    }
  }

  /// Whether it strikes the topology as a whole: there is one such at a time.
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
