import PipeSupport

/// The parameters of a machine that a topology file can set: a struct whose properties all have
/// defaults.
///
/// ```swift
/// struct Parameters: MachineParameters {
///   var capacity = 10
///
///   func validate() throws(ParameterMismatch) {
///     try require("capacity", capacity, atLeast: 1)
///   }
/// }
/// ```
public protocol MachineParameters: Codable, Sendable {
  /// Makes the default parameters.
  init()

  /// Checks rules that the types of the parameters cannot express. Default: no rules.
  /// - Throws: ``ParameterMismatch``, which `orchestrator check` reports at the parameter's
  ///   position in the file. A machine with such parameters does not start.
  func validate() throws(ParameterMismatch)
}

extension MachineParameters {
  /// Accepts all values.
  public func validate() throws(ParameterMismatch) {}

  /// Checks that the value of a parameter is not below a minimum.
  /// - Throws: ``ParameterMismatch`` if the value is below the minimum.
  public func require<Value: Comparable>(
    _ parameter: String, _ value: Value, atLeast minimum: Value
  ) throws(ParameterMismatch) {
    guard value >= minimum else { throw ParameterMismatch(parameter, "must be \(minimum) or more") }
  }
}

/// An error in the value of a parameter.
public struct ParameterMismatch: Error, Hashable, Sendable {
  /// The parameter's name.
  public var parameter: String
  /// The requirement for the value: `must be 1 or more`.
  public var constraint: String

  /// Makes an error.
  public init(_ parameter: String, _ constraint: String) {
    self.parameter = parameter
    self.constraint = constraint
  }
}

/// The parameter type of a machine without parameters.
public struct NoParameters: MachineParameters, Equatable {
  /// Makes the empty parameters.
  public init() {}
}

extension MachineParameters {
  /// Decodes parameters. A parameter that is missing in the object has its default value.
  /// - Throws: ``ParametersError``, which names the parameter.
  package init(parameters: JSONValue) throws(ParametersError) {
    let defaults = Self()
    guard case .object(let given) = parameters else { throw .notAnObject }
    // If no parameters are given, which is the common case, the defaults are used directly, without
    // a conversion to JSON.
    self = given.isEmpty ? defaults : try Self.decoded(given, defaults)
    do {
      try validate()
    } catch {
      throw .invalidValue(error.parameter, given[error.parameter], error.constraint)
    }
  }

  private static func decoded(
    _ given: [String: JSONValue], _ defaults: Self
  ) throws(ParametersError) -> Self {
    guard case .object(let members)? = try? JSONValue(encoding: defaults) else {
      throw .notAnObject
    }
    // The JSON of the defaults omits an optional parameter without a value, but the type lists this
    // parameter.
    let types = fieldTypesByName
    let known = Set(members.keys).union(types.keys)
    if let unknown = given.keys.sorted().first(where: { !known.contains($0) }) {
      throw .unknown(unknown, known: known.sorted())
    }
    do {
      return try JSONValue.object(members.merging(given) { $1 }).decode()
    } catch {
      throw mismatch(among: given, defaults: members, types: types)
        ?? .undecodable(nil, describe(error))
    }
  }

  /// Returns whether the parameters have a stored property of this name.
  package static func hasParameter(named name: String) -> Bool { fieldTypesByName[name] != nil }

  /// The types of the stored properties, by their names; empty if the type is not a struct.
  private static var fieldTypesByName: [String: String] {
    (StructFields.of(Self.self) ?? []).reduce(into: [:]) { types, field in
      types[field.name] = TypeName.of(field.type)
    }
  }

  /// Decodes each given parameter separately, with the defaults of all other parameters. Returns
  /// the first error.
  private static func mismatch(
    among given: [String: JSONValue], defaults: [String: JSONValue], types: [String: String]
  ) -> ParametersError? {
    for (name, value) in given.sorted(by: { $0.key < $1.key }) {
      do {
        _ = try JSONValue.object(defaults.merging([name: value]) { $1 }).decode(Self.self)
      } catch {
        if let type = types[name], !SwiftType(type).canDecode(value) {
          return .mismatch(name, value, type: type)
        }
        return .undecodable(name, describe(error))
      }
    }
    return nil
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
      case .typeMismatch(let type, _), .valueNotFound(let type, _): " must be of type \(type)"
      default: ": \(context.debugDescription)"
      }
    return (path.isEmpty ? "the value" : "'\(path)'") + type
  }
}

/// An error in the parameters of a machine.
package enum ParametersError: Error, Hashable, Sendable, CustomStringConvertible {
  case notAnObject
  case unknown(String, known: [String])
  case mismatch(String, JSONValue, type: String)
  /// Carries the parameter and the error. The parameter is `nil` if it is unknown which parameter
  /// cannot be decoded.
  case undecodable(String?, String)
  /// Carries the parameter, its value and the requirement. The value is `nil` if the parameter has
  /// its default.
  case invalidValue(String, JSONValue?, String)

  /// The name of the parameter that caused the error; `nil` if it is unknown.
  package var parameter: String? {
    switch self {
    case .notAnObject: nil
    case .unknown(let name, _), .mismatch(let name, _, _), .invalidValue(let name, _, _): name
    case .undecodable(let name, _): name
    }
  }

  package var description: String {
    switch self {
    case .notAnObject: "parameters must be an object: { name: value }"
    case .unknown(let name, let known):
      "unknown parameter '\(name)'"
        + Suggestion.among(known, like: name, verb: "valid parameters are")
    case .mismatch(let name, let value, let type):
      "parameter '\(name)' cannot be \(value.text); write \(SwiftType(type).constraint(of: type))"
    case .undecodable(let name, let reason):
      "cannot decode " + (name.map { "parameter '\($0)'" } ?? "the parameters") + ": \(reason)"
    case .invalidValue(let name, let value, let constraint):
      "parameter '\(name)' \(constraint)" + (value.map { ", not \($0.text)" } ?? "")
    }
  }
}
