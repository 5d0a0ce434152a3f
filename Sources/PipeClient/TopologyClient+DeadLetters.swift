import PipeJournal
import PipeWire

extension TopologyClient {
  /// Returns the dead letters of a node, oldest first. If the node keeps no journal, returns only
  /// the few dead letters that the node keeps in memory.
  /// - Throws: ``TopologyClientError``: `nodeDown` if the node keeps no journal and is not running.
  public func deadLetters(of node: String) async throws -> [DeadLetter] {
    let information = try self.node(node, in: await directory())
    if let path = information.journal {
      do {
        return try await records.deadLetters(of: node, journal: path).deadLetters
      } catch JournalError.missing {
        return []
      } catch let error as JournalError {
        throw TopologyClientError.failed("\(error)")
      }
    }
    guard information.isRunning, let status = information.status else {
      throw TopologyClientError.nodeDown(
        node,
        (information.reason ?? information.phase) + "; the node has no journal with its dead "
          + "letters")
    }
    return status.recentDeadLetters
  }

  /// The dead letters, instances, journals and logs that the nodes have recorded.
  package var records: TopologyRecords {
    if remote == nil, let directories = try? RuntimeDirectories(topology: topology) {
      .files(directories)
    } else {
      .orchestrator(self)
    }
  }

  /// Sends the event of a dead letter to its node again. If the machine accepts the event, the dead
  /// letter is removed. If the machine refuses the event again, the dead letter stays. If the dead
  /// letter contains an effect, the effect runs again, and the outcome is `done`.
  /// - Throws: ``TopologyClientError``: `invalidEvent` if there is no such dead letter.
  @discardableResult
  public func resend(
    deadLetter id: UInt64, of node: String, timeout: Duration? = nil
  ) async throws -> RequestOutcome {
    try await request(node, .deadLetter(id, drops: false), timeout: timeout ?? answerTimeout)
  }

  /// Removes one of a node's dead letters.
  /// - Throws: ``TopologyClientError``: `invalidEvent` if there is no such dead letter.
  public func drop(
    deadLetter id: UInt64, of node: String, timeout: Duration? = nil
  ) async throws {
    _ = try await request(node, .deadLetter(id, drops: true), timeout: timeout ?? answerTimeout)
  }
}
