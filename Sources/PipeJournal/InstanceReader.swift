import PipeMachines
import PipeSystem
import PipeWire

/// A reader of the instances in a keyed node's journal. The node may be running.
///
/// The database may have a million instances. So this reader, unlike ``JournalReader``, does not
/// copy the database. If the latest record of an instance is still in the log, that record replaces
/// the instance from the database.
package struct InstanceReader {
  private let path: String
  private let node: String
  private let database: Database
  /// The instances whose latest record is in the log, by key; `nil` for a removed instance.
  private var instancesInLog: [InstanceKey: RecordedInstance?] = [:]

  /// Opens the journal read-only.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    do {
      guard try JournalCheck.exists(path, node: node) else {
        throw JournalError.missing(path: path, node: node)
      }
      // Reads the log before the database. If the node moves records from the log into the database
      // in between, the reader finds these records in the database.
      let log = StepMarkerFile.logWords(ofJournal: path)
      database = try Database(path, .readOnly)
      database.keepLogOnClose()
      try JournalCheck.checkVersion(database, path, node: node)
      let stream = try JournalCheck.streamID(of: database, path, node: node)
      let written = try RecordWriter.lastWrittenNumber(in: database)
      try log.withUnsafeBufferPointer { words in
        guard let start = words.baseAddress else { return }
        for record in RecordLog.records(start, count: words.count, stream: stream, after: written) {
          for operation in try EncodedOperation.operations(in: record) { add(operation) }
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
      instancesInLog[instance.key] = .some(instance)
    case .instanceRemoved:
      if case .text(let key)? = operation.values.last {
        instancesInLog[InstanceKey(recorded: String(decoding: key, as: UTF8.self))] = .some(nil)
      }
    default: break
    }
  }

  /// Returns the selected instances, sorted by the bytes of their keys.
  package func instances(_ selection: InstanceSelection) throws(JournalError) -> [RecordedInstance]
  {
    do {
      var found = try instancesInDatabase(selection).filter { instancesInLog[$0.key] == nil }
      found += instancesInLog.values.compactMap(\.self).filter(selection.contains)
      found.sort { InstanceSelection.precedes($0.key.text, $1.key.text) }
      return Array(found.prefix(selection.limit))
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Returns the instances in the database that match the selection. Raises the limit by the number
  /// of instances in the log, because an instance in the log can replace or remove a result.
  private func instancesInDatabase(_ selection: InstanceSelection) throws -> [RecordedInstance] {
    guard JournalSchema.hasInstances(try JournalCheck.version(of: database)) else { return [] }
    if let keys = selection.keys {
      let query = try database.prepare(
        "SELECT \(RecordedInstance.instanceColumns) FROM instance WHERE key = ?")
      var instances: [RecordedInstance] = []
      for key in keys {
        try query.forEachRow(.text(key)) { instances.append(RecordedInstance($0)) }
      }
      return instances.filter(selection.contains)
    }
    var conditions = ["1"]
    var sqlValues: [SQLValue] = []
    if let after = selection.after {
      conditions.append("key > ?")
      sqlValues.append(.text(after))
    }
    if let label = selection.label {
      conditions.append("label = ?")
      sqlValues.append(.text(label))
    }
    if let time = selection.time {
      conditions.append("time < ?")
      sqlValues.append(.integer(time))
    }
    sqlValues.append(.integer(Int64(selection.limit + instancesInLog.count)))
    return try database.select(
      """
      SELECT \(RecordedInstance.instanceColumns) FROM instance
      WHERE \(conditions.joined(separator: " AND ")) ORDER BY key LIMIT ?
      """, sqlValues
    ) { RecordedInstance($0) }
  }
}
