import PipeSystem

// A node's use of the journals of other nodes, in the same directory, after the topology file has
// changed.

extension Journal {
  /// Returns the path of another node's journal in the topology.
  package func path(ofNode node: String) -> String {
    FileSystem.directory(of: path) + "/" + node + ".sqlite"
  }

  /// Returns the recorded receivers of the pipes from this node, by the names of the pipes.
  package func receivers() throws(JournalError) -> [String: JournalContents.Receiver] {
    let key = JournalSnapshot.receiverKey
    do {
      let rows = try updatedDatabase().select(
        "SELECT key, value FROM meta WHERE key GLOB ?", .text(key + "*")
      ) { row -> (String, JournalContents.Receiver)? in
        let parts = row.text(1).split(separator: " ", maxSplits: 1).map(String.init)
        guard parts.count == 2, let redirectedAfter = UInt64(parts[0]) else { return nil }
        return (
          String(row.text(0).dropFirst(key.count)),
          JournalContents.Receiver(parts[1], redirectedAfter: redirectedAfter)
        )
      }
      return Dictionary(rows.compactMap { $0 }) { first, _ in first }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Records the receiver of a pipe, with or before the first event that is sent to it.
  package func pipeConnected(_ pipe: String, to receiver: JournalContents.Receiver) throws {
    run(
      .meta, .text(JournalSnapshot.receiverKey + pipe),
      .text("\(receiver.redirectedAfter) \(receiver.name)"))
  }
}

extension JournalSnapshot {
  /// The prefix of the keys in the table `meta` that hold the receivers of pipes.
  static let receiverKey = "receiver "
}

extension JournalReader {
  /// Returns the last event of a pipe that this node has taken, or keeps for later; zero if it
  /// has no event of this stream.
  /// - Parameter caller: The caller id under which a coordinator requests the events of the pipe.
  ///   Events that it has committed may not be recorded as taken yet.
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
