import PipeMachines
import PipeSystem
import PipeWire

/// Reads the instances in a keyed node's journal, even while the node runs.
///
/// Unlike ``JournalReader``, it copies nothing of the database, which may have a million instances:
/// it adds the instances in the journal's own log, which are few, to the results.
package struct InstanceReader {
  private let path: String
  private let node: String
  private let database: Database
  /// The instances in the log, by their keys; `nil` if one was removed.
  private var recent: [InstanceKey: RecordedInstance?] = [:]

  /// Opens the file for reading only.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    do {
      guard try JournalCheck.exists(path, node: node) else {
        throw JournalError.missing(path: path, node: node)
      }
      // The log first: records that move from the log into the database after that are read there.
      let log = StepMarkerFile.log(ofJournal: path)
      database = try Database(path, .readOnly)
      database.keepLogOnClose()
      try JournalCheck.checkVersion(database, path, node: node)
      let stream = try JournalCheck.stream(of: database, path, node: node)
      let written = try RecordWriter.written(to: database)
      try log.withUnsafeBufferPointer { words in
        guard let start = words.baseAddress else { return }
        for record in RecordLog.records(start, count: words.count, stream: stream, after: written) {
          for operation in try EncodedOperation.all(in: record) { add(operation) }
        }
      }
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  private mutating func add(_ operation: EncodedOperation) {
    switch operation.operation {
    case .instanceChanged:
      guard let instance = RecordedInstance(operation.values) else { return }
      recent[instance.key] = .some(instance)
    case .instanceRemoved:
      if case .text(let key)? = operation.values.last {
        recent[InstanceKey(recorded: String(decoding: key, as: UTF8.self))] = .some(nil)
      }
    default: break
    }
  }

  /// Returns the selected instances in the order of their keys, compared byte by byte.
  package func instances(_ selection: InstanceSelection) throws(JournalError) -> [RecordedInstance]
  {
    do {
      var found = try recorded(selection).filter { recent[$0.key] == nil }
      found += recent.values.compactMap(\.self).filter(selection.contains)
      found.sort { InstanceSelection.precedes($0.key.text, $1.key.text) }
      return Array(found.prefix(selection.limit))
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Returns instances of the database: enough of them even if the log has changed some.
  private func recorded(_ selection: InstanceSelection) throws -> [RecordedInstance] {
    guard JournalSchema.hasInstances(try JournalCheck.version(of: database)) else { return [] }
    if let keys = selection.keys {
      let query = try database.prepare(
        "SELECT \(RecordedInstance.columns) FROM instance WHERE key = ?")
      var found: [RecordedInstance] = []
      for key in keys { try query.rows(.text(key)) { found.append(RecordedInstance($0)) } }
      return found.filter(selection.contains)
    }
    var conditions = ["1"]
    var values: [SQLValue] = []
    if let after = selection.after {
      conditions.append("key > ?")
      values.append(.text(after))
    }
    if let label = selection.label {
      conditions.append("label = ?")
      values.append(.text(label))
    }
    if let time = selection.time {
      conditions.append("time < ?")
      values.append(.integer(time))
    }
    values.append(.integer(Int64(selection.limit + recent.count)))
    return try database.select(
      """
      SELECT \(RecordedInstance.columns) FROM instance
      WHERE \(conditions.joined(separator: " AND ")) ORDER BY key LIMIT ?
      """, values
    ) { RecordedInstance($0) }
  }
}
