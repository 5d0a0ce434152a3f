import PipeJournal
import PipeWire

extension LetterPage {
  /// The most that one has, but for a letter that takes more. Unit: bytes.
  private static let byteLimit = 1 << 20
  /// Unit: letters.
  private static let letterLimit = 200

  /// Those in a journal that have higher numbers than this; none where there is no journal.
  package init(of node: String, journal path: String, after id: UInt64) throws(JournalError) {
    let found: [DeadLetter]
    do {
      found = try JournalReader(path, node: node).letters(after: id, limit: Self.letterLimit)
    } catch {
      guard case .missing = error else { throw error }
      found = []
    }
    var byteCount = 0
    let fitting = found.prefix { letter in
      byteCount += letter.byteCount
      return byteCount <= Self.byteLimit
    }
    let letters = fitting.isEmpty ? Array(found.prefix(1)) : Array(fitting)
    self.init(
      letters: letters,
      hasMore: letters.count < found.count || found.count == Self.letterLimit)
  }
}

extension TopologyClient {
  /// The dead letters of a node, oldest first: all of them where it keeps a journal, else the last
  /// few.
  /// - Throws: ``TopologyClientError``: `nodeDown` where it keeps none and does not run.
  public func letters(of node: String) async throws -> [DeadLetter] {
    let information = try self.node(node, in: await directory())
    if let path = information.journal {
      if remote != nil { return try await remoteLetters(of: node) }
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

  /// Those in the journal of a node, as the orchestrator reads them.
  private func remoteLetters(of node: String) async throws -> [DeadLetter] {
    var letters: [DeadLetter] = []
    while true {
      let page = try await command(.letters(node: node, after: letters.last?.id ?? 0)).take {
        if case .letters(let page) = $0 { page } else { nil }
      }
      letters += page.letters
      if !page.hasMore || page.letters.isEmpty { return letters }
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
