import PipeSystem

// A change of the topology file can redirect a pipe to another receiver. The sender then reads the
// journal of the former receiver, which is in the same directory.

extension Journal {
  /// Returns the path of another node's journal.
  package func path(ofNode node: String) -> String {
    FileSystem.parentDirectory(of: path) + "/" + node + ".sqlite"
  }

  /// Returns the recorded receiver of each outbound pipe, by the pipe's name.
  package func recordedReceivers() throws(JournalError) -> [String: JournalContents.Receiver] {
    let key = JournalSnapshot.receiverKey
    do {
      let rows = try updatedDatabase().select(
        "SELECT key, value FROM meta WHERE key GLOB ?", .text(key + "*")
      ) { row -> (String, JournalContents.Receiver)? in
        let parts = row.text(1).split(separator: " ", maxSplits: 1).map(String.init)
        guard parts.count == 2, let redirectedAfter = UInt64(parts[0]) else { return nil }
        return (
          String(row.text(0).dropFirst(key.count)),
          JournalContents.Receiver(parts[1], lastNumberBeforeRedirection: redirectedAfter)
        )
      }
      return Dictionary(rows.compactMap { $0 }) { first, _ in first }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Records the receiver of a pipe. Call this together with or before the first event for this
  /// receiver.
  package func recordReceiver(of pipe: String, _ receiver: JournalContents.Receiver) throws {
    run(
      .meta, .text(JournalSnapshot.receiverKey + pipe),
      .text("\(receiver.lastNumberBeforeRedirection) \(receiver.name)"))
  }
}

extension JournalSnapshot {
  /// The prefix of the keys in the table `meta` that hold the receivers of pipes.
  static let receiverKey = "receiver "
}

extension JournalReader {
  /// Returns the number of the last event of `stream` that this node has accepted from the pipe,
  /// including postponed events. Returns 0 if the node has accepted no event of the stream.
  /// - Parameter caller: The caller id under which a coordinator requests the pipe's events. An
  ///   event that the coordinator has committed counts as accepted, because the node may not have
  ///   recorded the acceptance yet.
  package func lastAcceptedNumber(
    of pipe: String, stream: UInt64, caller: String
  ) throws(JournalError) -> UInt64 {
    try readConsistently {
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
