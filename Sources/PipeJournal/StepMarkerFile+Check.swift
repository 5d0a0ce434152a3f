import PipeWire

extension StepMarkerFile {
  /// Checks that the step marker file and the database belong together and that neither is an older
  /// copy.
  /// - Parameters:
  ///   - last: The number of the last record, whether in the database or in the log.
  ///   - written: The number of the last record in the database.
  /// - Returns: Whether records may be lost, because the file is missing after a shutdown or crash
  ///   of the system.
  /// - Throws: ``JournalError`` if a record is missing, or if the step marker file or the database
  ///   is an older copy.
  func check(
    _ stream: UInt64, last: UInt64, written: UInt64, _ opening: JournalOpeningCounters,
    _ durability: Durability, path: String, node: String
  ) throws(JournalError) -> Bool {
    func damageError(_ reason: String) -> JournalError {
      .damaged(path: path, node: node, reason: reason)
    }
    guard let formerContents,
      formerContents.streamID == stream || formerContents.lastRecordNumber > 0
    else {
      guard opening.isOpen else { return false }
      guard opening.isSameBoot else { return true }
      throw damageError(
        "the '.step' file was \(didExist ? "overwritten" : "removed"), and the node had not stopped "
          + "gracefully: the last records were in this file")
    }
    guard formerContents.streamID == stream else {
      throw damageError("the '.step' file belongs to another journal")
    }
    // After a restart of the system, records that were only in memory may be missing. That is not
    // an error.
    guard formerContents.isSameBoot || durability == .power else { return false }
    guard last >= formerContents.lastRecordNumber else {
      throw damageError(
        "the journal ends at record \(last), but record \(formerContents.lastRecordNumber) was written: the '-wal' "
          + "file was removed, or a file of the journal is an older copy")
    }
    guard formerContents.isSameBoot else { return false }
    // The process writes a record's number to the step marker file before it writes the record to
    // the database.
    guard written <= max(formerContents.lastRecordNumber, formerContents.lastWrittenRecord),
      formerContents.openingCount >= opening.count
    else {
      throw damageError(
        "the '.step' file is an older copy: it ends at record \(formerContents.lastRecordNumber) after opening "
          + "\(formerContents.openingCount), the database at record \(written) after opening \(opening.count)"
      )
    }
    guard formerContents.openingCount <= opening.count + 1 else {
      throw damageError(
        "the journal is an older copy: it was opened \(opening.count) times, its '.step' file "
          + "\(formerContents.openingCount) times")
    }
    guard hasPreparedStep else {
      throw damageError(
        "the last prepared step of a synchronized event is missing in the '.step' file")
    }
    return false
  }
}
