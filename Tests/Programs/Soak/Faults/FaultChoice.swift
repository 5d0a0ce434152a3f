import PipeRuntime

/// The kinds of faults that a soak injects from outside of the nodes, with their weights.
package struct FaultChoice: Sendable {
  package let topic: SoakTopic
  package let durability: Durability
  package let kinds: [FaultKind]

  /// The number of rare kinds that are more frequent in a round, so that each of them occurs at
  /// some time.
  private static let focusCount = 2
  private static let focusFactor = 5

  /// - Parameter fillsDisk: Whether the soak has a disk that it can fill.
  package init(_ topic: SoakTopic, _ durability: Durability, fillsDisk: Bool) {
    self.topic = topic
    self.durability = durability
    kinds = FaultKind.allCases.filter { kind in
      switch kind {
      case .longPause, .namesakeOfCoordinator: topic.involvesComposites
      case .removeJournal: durability != .volatile
      case .fillDisk: durability != .volatile && fillsDisk
      case .changeShards, .changeShardsAndKill: topic == .instances
      case .kill, .killTwo, .pause, .hang, .restart, .namesakeOfPipe, .namesakeOfNode,
        .removeSockets, .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode,
        .changeFile, .stopOrchestrator, .removeLock, .removeRuntime:
        true
      }
    }
  }

  /// Returns the kinds for a round. Each kind is repeated according to its weight.
  package func weighted(round: Int) -> [FaultKind] {
    let rare = kinds.filter { $0.weight == 1 }
    let focus = (0..<Self.focusCount).map { rare[(round * Self.focusCount + $0) % rare.count] }
    return kinds.flatMap { kind in
      Array(repeating: kind, count: kind.weight * (focus.contains(kind) ? Self.focusFactor : 1))
    }
  }
}
