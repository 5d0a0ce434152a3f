import PipeMachines

// A refusal in JSON records: its word under `reason`, and the text of a thrown error under `error`.

extension Refusal {
  /// The members of a record that tell it.
  package var members: [String: JSONValue] {
    var members: [String: JSONValue] = ["reason": .string(code)]
    if let error { members["error"] = .string(error) }
    return members
  }

  /// Reads what ``members`` tells; `nil` where the record tells no refusal.
  package init?(of record: JSONValue?) {
    guard let code = record?["reason"]?.string else { return nil }
    self.init(code: code, error: record?["error"]?.string)
  }
}
