import PipeMachines

// The names of a state's fields, where that is a struct: by its JSON alone, a struct of one field looks
// like a case. They are kept for those who read the journal while its node does not run.

extension JournalSnapshot {
  /// The key of the table `meta`.
  static let fieldsKey = "fields"
}

extension Journal {
  /// Keeps the names of the fields; of a state that is an enum, none.
  package func keep(stateFields: [String]?) throws(JournalError) {
    do {
      let key = JournalSnapshot.fieldsKey
      guard try JournalReader.fields(in: database) != stateFields else { return }
      if let stateFields {
        let names = JSONValue.texts(stateFields).text
        try database.prepare("REPLACE INTO meta VALUES (?, ?)").run(.text(key), .text(names))
      } else {
        try database.prepare("DELETE FROM meta WHERE key = ?").run(.text(key))
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}

extension JournalReader {
  /// The names of the state's fields, where that is a struct.
  static func fields(in database: Database) throws -> [String]? {
    guard let text = try JournalCheck.meta(JournalSnapshot.fieldsKey, in: database),
      case .array(let names)? = try? JSONValue(parsing: Array(text.utf8))
    else { return nil }
    return names.compactMap(\.string)
  }
}
