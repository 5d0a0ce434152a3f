import PipeJournal
import PipeWire

extension TopologyClient {
  /// The dead letters of a node, oldest first: all of them where it keeps a journal, else the last
  /// few.
  /// - Throws: ``TopologyClientError``: `nodeDown` where it keeps none and does not run.
  public func letters(of node: String) async throws -> [DeadLetter] {
    let information = try self.node(node, in: await directory())
    if let path = information.journal {
      do {
        return try await records.letters(of: node, journal: path).letters
      } catch JournalError.missing {
        return []
      } catch let error as JournalError {
        throw TopologyClientError.failed("\(error)")
      }
    }
    guard information.isRunning, let status = information.status else {
      throw TopologyClientError.nodeDown(
        node, (information.reason ?? information.phase) + "; it keeps no journal of its letters")
    }
    return status.recentLetters
  }

  /// What the nodes have recorded.
  package var records: TopologyRecords {
    if remote == nil, let directories = try? RuntimeDirectories(topology: topology) {
      .files(directories)
    } else {
      .orchestrator(self)
    }
  }

  /// Lets a node take the event of one of its dead letters again. Where the machine takes it, the
  /// letter is gone; where it refuses it again, the letter stays. One that stands for an effect has that run
  /// again: the outcome is `done`.
  /// - Throws: ``TopologyClientError``: `invalidEvent` where there is no such letter.
  @discardableResult
  public func resend(
    letter id: UInt64, of node: String, timeout: Duration? = nil
  ) async throws -> RequestOutcome {
    try await request(node, .deadLetter(id, drops: false), timeout: timeout ?? answerTimeout)
  }

  /// Removes one of a node's dead letters.
  /// - Throws: ``TopologyClientError``: `invalidEvent` where there is no such letter.
  public func drop(
    letter id: UInt64, of node: String, timeout: Duration? = nil
  ) async throws {
    _ = try await request(node, .deadLetter(id, drops: true), timeout: timeout ?? answerTimeout)
  }
}
