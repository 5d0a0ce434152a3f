/// A kind of fault that a soak injects from outside, into nodes, their orchestrator or their files.
package enum FaultKind: String, CaseIterable, Sendable {
  case kill = "kill -9 of a node"
  case killTwo = "kill -9 of two nodes at once"
  case pause = "SIGSTOP, then SIGCONT"
  case longPause = "SIGSTOP, then SIGCONT when others have asked"
  case hang = "SIGSTOP until found hung"
  case restart = "graceful restart"
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
  case changeShards = "number of shards changed"
  case changeShardsAndKill = "… and the orchestrator killed"

  /// The relative frequency of the kind.
  var weight: Int {
    switch self {
    case .kill: 24
    case .pause: 10
    case .killTwo: 6
    case .restart, .longPause: 4
    case .hang, .changeShards, .changeShardsAndKill: 2
    case .namesakeOfPipe, .namesakeOfCoordinator, .namesakeOfNode, .removeSockets,
      .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode, .changeFile,
      .stopOrchestrator, .removeLock, .removeJournal, .removeRuntime, .fillDisk:
      1
    }
  }

  /// The range of the fault's duration. Unit: microseconds.
  var pause: ClosedRange<Int> {
    switch self {
    case .kill, .killTwo, .pause, .hang, .restart, .removeLock, .removeJournal, .removeRuntime:
      500...30_000
    // Longer than 200 ms, after which participants query the outcome of a promised event.
    case .longPause: 220_000...350_000
    // Also longer than three seconds, after which a node or coordinator reclaims a lost routing id.
    case .namesakeOfPipe, .namesakeOfCoordinator: 50_000...4_000_000
    case .namesakeOfNode: 50_000...1_000_000
    case .removeSockets, .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode,
      .changeFile, .fillDisk, .changeShards:
      0...300_000
    case .changeShardsAndKill: 0...600_000
    case .stopOrchestrator: 50_000...1_500_000
    }
  }

  /// Whether the fault strikes the topology as a whole. Only one such fault at a time is active.
  var isOfTopology: Bool {
    switch self {
    case .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode, .changeFile,
      .stopOrchestrator, .removeLock, .removeJournal, .removeRuntime, .fillDisk, .changeShards,
      .changeShardsAndKill:
      true
    case .kill, .killTwo, .pause, .longPause, .hang, .restart, .namesakeOfPipe,
      .namesakeOfCoordinator, .namesakeOfNode, .removeSockets:
      false
    }
  }
}
