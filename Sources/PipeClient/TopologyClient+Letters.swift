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
        return try JournalReader(path, node: node).letters()
      } catch JournalError.missing {
        return []
      } catch {
        throw TopologyClientError.failed("\(error)")
      }
    }
    guard information.isRunning, let status = information.status else {
      throw TopologyClientError.nodeDown(
        node, (information.reason ?? information.phase) + "; it keeps no journal of its letters")
    }
    return status.recentLetters
  }

  /// Lets a node take the event of one of its dead letters again. Where the machine takes it, the
  /// letter is gone; where it refuses it again, the letter stays.
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
