import PipeSystem

// What a node finds in the journals of others, in the same directory, after the topology's file has changed.

extension Journal {
  /// The journal of another node of the topology.
  package func path(ofNode node: String) -> String {
    FileSystem.directory(of: path) + "/" + node + ".sqlite"
  }

  /// Where the pipes from here led to as far as that is recorded, by their names.
  package func receivers() throws(JournalError) -> [String: JournalContents.Receiver] {
    let key = JournalSnapshot.receiverKey
    do {
      let rows = try upToDate().select(
        "SELECT key, value FROM meta WHERE key GLOB ?", .text(key + "*")
      ) { row -> (String, JournalContents.Receiver)? in
        let parts = row.text(1).split(separator: " ", maxSplits: 1).map(String.init)
        guard parts.count == 2, let turnedAfter = UInt64(parts[0]) else { return nil }
        return (
          String(row.text(0).dropFirst(key.count)),
          JournalContents.Receiver(parts[1], turnedAfter: turnedAfter)
        )
      }
      return Dictionary(rows.compactMap { $0 }) { first, _ in first }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// A pipe from here leads to this node; recorded with or before its first event that is sent there.
  package func leads(_ pipe: String, to receiver: JournalContents.Receiver) throws {
    run(
      .meta, .text(JournalSnapshot.receiverKey + pipe),
      .text("\(receiver.turnedAfter) \(receiver.name)"))
  }
}

extension JournalSnapshot {
  /// What the keys of the table `meta` begin with that say where a pipe leads.
  static let receiverKey = "receiver "
}

extension JournalReader {
  /// The last event of a pipe that this node has taken, or keeps for later; zero where it has none of this
  /// stream.
  /// - Parameter caller: As whom a coordinator asks for the events of the pipe. What it has committed may
  ///   not be recorded as taken yet.
  package func taken(
    of pipe: String, stream: UInt64, caller: String
  ) throws(JournalError) -> UInt64 {
    try read {
      let consumed = try database.select(
        "SELECT applied FROM consumed WHERE pipe = ? AND stream = ?", .text(pipe),
        .integer(stream)
      ) { $0.unsigned(0) }
      let committed = try database.select(
        "SELECT coalesce(max(number), 0) FROM committed WHERE caller = ?", .text(caller)
      ) { $0.unsigned(0) }
      return (consumed + committed).max() ?? 0
    }
  }
}
