/// The conversion of a machine's states, events or parameters from one version to the next version.
///
/// When the type of a machine's states changes, declare the new version in ``Machine/schema``, and
/// a migration from the previous version:
///
/// ```swift
/// enum Door: Machine {
///   static let schema = 3
///   static let migrations = [
///     Migration(from: 1, Renamed("open", to: "opened")),
///     Migration(from: 2) { (old: DoorState2) in State(old) },
///   ]
/// }
/// ```
///
/// A value that is several versions old goes through several migrations. If there is no migration
/// of a ``Subject`` from a version, the values of this subject have the same form in that version
/// and in the next version.
public struct Migration: Sendable {
  /// The values that a migration changes.
  public enum Subject: String, CaseIterable, Hashable, Sendable {
    /// The states of the machine. An unfinished effect is stored as the state that started it, so
    /// this migration also applies to the effect.
    case states
    /// The events that the machine receives.
    case events
    /// The parameters in a topology file.
    case parameters
  }

  /// The version that the migration reads. The result has the next version.
  public let version: Int
  /// The values that the migration changes.
  public let subject: Subject
  /// Converts the JSON of a value to the JSON of the next version.
  let migrate: @Sendable ([UInt8]) throws -> [UInt8]

  /// Makes a migration from a function that converts a value to the next version.
  ///
  /// The function receives the value in the old version's type. It returns a value of the machine's
  /// own type, or of a type that describes a version in between. With ``JSONValue`` as the type of
  /// the argument or the result, the function works on JSON.
  /// - Parameters:
  ///   - version: The version that the migration reads.
  ///   - subject: The values that the migration changes.
  ///   - migrate: Returns the value in the next version. If the function throws, the value cannot
  ///     be migrated.
  public init<Old: Codable & Sendable, New: Codable & Sendable>(
    from version: Int, of subject: Subject = .states,
    _ migrate: @escaping @Sendable (Old) throws -> New
  ) {
    self.version = version
    self.subject = subject
    self.migrate = { bytes in try JSONForm.bytes(of: migrate(JSONForm.value(of: bytes))) }
  }

  /// Makes a migration that renames cases, or fields.
  /// - Parameters:
  ///   - version: The version that the migration reads.
  ///   - subject: The values that the migration changes.
  ///   - names: The cases and fields to rename.
  public init(from version: Int, of subject: Subject = .states, _ names: Renamed...) {
    self.version = version
    self.subject = subject
    self.migrate = { bytes in try Renamed.apply(names, to: JSONValue(parsing: bytes)).bytes }
  }
}

/// A case of an enum, or a field, that a ``Migration`` renames.
public struct Renamed: Hashable, Sendable {
  private let name: String
  private let newName: String
  private let enclosingCase: String?

  /// Describes the renaming of a case or a field.
  /// - Parameters:
  ///   - name: The old name of a case or of a struct's property, or the old label of an associated
  ///     value.
  ///   - newName: The new name.
  ///   - place: The old name of the case that has the associated value, if `name` is a label;
  ///     otherwise `nil`. Default: `nil`.
  public init(_ name: String, to newName: String, in place: String? = nil) {
    self.name = name
    self.newName = newName
    self.enclosingCase = place
  }

  /// Changes all names at once, so that two names can be exchanged.
  fileprivate static func apply(_ names: [Renamed], to json: JSONValue) throws -> JSONValue {
    let outer = names.filter { $0.enclosingCase == nil }
    switch json {
    case .string(let label):
      return .string(outer.first { $0.name == label }?.newName ?? label)
    case .object(let members):
      let changed = try members.map { label, value -> (String, JSONValue) in
        let inner = names.filter { $0.enclosingCase == label }
        guard !inner.isEmpty, case .object(let fields) = value else { return (label, value) }
        return (label, try rename(fields, inner))
      }
      return try rename(Dictionary(changed) { first, _ in first }, outer)
    case .null, .bool, .integer, .number, .array: return json
    }
  }

  private static func rename(
    _ members: [String: JSONValue], _ names: [Renamed]
  ) throws -> JSONValue {
    var renamed: [String: JSONValue] = [:]
    for (label, value) in members {
      let newLabel = names.first { $0.name == label }?.newName ?? label
      guard renamed.updateValue(value, forKey: newLabel) == nil else {
        throw RenameError(name: newLabel)
      }
    }
    return .object(renamed)
  }
}

/// The error when two fields would have the same name after the renaming.
private struct RenameError: Error, CustomStringConvertible {
  let name: String
  var description: String { "there are two fields '\(name)' after the renaming" }
}

/// Converts values to the JSON in which nodes store them, and back.
private enum JSONForm {
  // `JSONValue` does not go through `EventCodec`, which would write the case `null` as its label.
  static func value<Value: Codable & Sendable>(of bytes: [UInt8]) throws -> Value {
    if Value.self == JSONValue.self, let json = try JSONValue(parsing: bytes) as? Value {
      return json
    }
    return try EventCodec<Value>().decode(bytes)
  }

  static func bytes<Value: Codable & Sendable>(of value: Value) throws -> [UInt8] {
    if let json = value as? JSONValue { return json.bytes }
    return try EventCodec<Value>().encode(value)
  }
}
