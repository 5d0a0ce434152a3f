import PipeMachines

/// Why what a node tells of itself cannot be used: its `status` is not what ``NodeStatus`` is.
package enum StatusProblem: Error, Hashable, Sendable {
  /// A path of keys: `outs[0].waiting`.
  case lacksKey(String)
  /// The value of this path of keys is of another kind.
  case wrongValue(of: String)
  /// It is no JSON object.
  case unreadable
}

extension StatusProblem: CustomStringConvertible {
  package var description: String {
    let fault =
      switch self {
      case .lacksKey(let key): "lacks the key '\(key)'"
      case .wrongValue(let key): "has a value under '\(key)' that does not belong there"
      case .unreadable: "is no JSON object"
      }
    return "its status \(fault), and is not shown; rebuild its program with the same version of "
      + "PipeRuntime as the orchestrator"
  }
}

extension NodeStatus {
  /// Reads the body of a `status` frame, which a node in any language may have written.
  package init(reading body: [UInt8]) throws(StatusProblem) {
    do {
      self = try JSONRecord.decode(NodeStatus.self, from: body)
    } catch {
      throw StatusProblem(error)
    }
  }
}

extension StatusProblem {
  fileprivate init(_ error: any Error) {
    switch error as? DecodingError {
    case .keyNotFound(let key, let context):
      self = .lacksKey(Self.path(context.codingPath + [key]))
    case .typeMismatch(_, let context), .valueNotFound(_, let context),
      .dataCorrupted(let context):
      self =
        context.codingPath.isEmpty ? .unreadable : .wrongValue(of: Self.path(context.codingPath))
    case nil: self = .unreadable
    @unknown default: self = .unreadable
    }
  }

  private static func path(_ keys: [any CodingKey]) -> String {
    let path = keys.map { key in key.intValue.map { "[\($0)]" } ?? ".\(key.stringValue)" }.joined()
    return String(path.drop { $0 == "." })
  }
}
