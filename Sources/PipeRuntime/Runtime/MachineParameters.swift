/// What a topology file can set of a machine: a struct whose properties all have defaults.
///
/// ```swift
/// struct Parameters: MachineParameters { var capacity = 10 }
/// ```
public protocol MachineParameters: Codable, Sendable {
  /// Makes the default parameters.
  init()
}

/// The parameters of a machine that has none.
public struct NoParameters: MachineParameters, Equatable {
  /// Makes no parameters.
  public init() {}
}

extension MachineParameters {
  /// Decodes parameters; what the object leaves out keeps its default.
  /// - Throws: ``ParametersError``, which names the parameter.
  package init(parameters: JSONValue) throws(ParametersError) {
    let defaults = Self()
    guard case .object(let given) = parameters else { throw .notAnObject }
    guard case .object(var members)? = try? JSONValue(encoding: defaults) else {
      throw .notAnObject
    }
    // An optional without a value is not in the JSON; the mirror knows it. Not on a hot path.
    let known = Set(members.keys).union(Mirror(reflecting: defaults).children.compactMap(\.label))
    if let unknown = given.keys.sorted().first(where: { !known.contains($0) }) {
      throw .unknown(unknown, known: known.sorted())
    }
    members.merge(given) { _, given in given }
    do {
      self = try JSONValue.object(members).decode()
    } catch {
      throw .undecodable(Self.describe(error))
    }
  }

  private static func describe(_ error: any Error) -> String {
    guard let error = error as? DecodingError else { return "\(error)" }
    let context =
      switch error {
      case .typeMismatch(_, let context), .valueNotFound(_, let context),
        .keyNotFound(_, let context), .dataCorrupted(let context):
        context
      @unknown default: nil as DecodingError.Context?
      }
    guard let context else { return "\(error)" }
    let path = context.codingPath.map(\.stringValue).joined(separator: ".")
    let type =
      switch error {
      case .typeMismatch(let type, _), .valueNotFound(let type, _): " takes a value of type \(type)"
      default: ": \(context.debugDescription)"
      }
    return (path.isEmpty ? "they" : "'\(path)'") + type
  }
}

/// Why parameters are not a machine's.
package enum ParametersError: Error, Hashable, Sendable, CustomStringConvertible {
  case notAnObject
  case unknown(String, known: [String])
  case undecodable(String)

  package var description: String {
    switch self {
    case .notAnObject: "parameters are an object: { name: value }"
    case .unknown(let name, let known):
      "there is no parameter '\(name)'; "
        + (known.isEmpty
          ? "it has none" : "it has \(known.map { "'\($0)'" }.joined(separator: ", "))")
    case .undecodable(let reason): "a parameter does not decode: \(reason)"
    }
  }
}
