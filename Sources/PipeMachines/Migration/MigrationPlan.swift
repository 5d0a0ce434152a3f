import PipeSupport

/// The migrations of a machine, in the order of their versions.
package struct MigrationPlan: Sendable {
  private let machine: String
  private let schema: Int
  private let migrations: [Migration]

  package init<Hosted: Machine>(_ machine: Hosted.Type) {
    self.init(machine: machine.name, schema: machine.schema, migrations: machine.migrations)
  }

  package init(machine: String, schema: Int, migrations: [Migration]) {
    self.machine = machine
    self.schema = schema
    self.migrations = migrations
  }

  /// The error in the declaration of the migrations; `nil` if there is none.
  package var problem: String? {
    guard schema >= 1 else { return "'schema' is \(schema); the first version is 1" }
    guard !migrations.isEmpty else { return nil }
    var seen: Set<String> = []
    for migration in migrations {
      let (version, subject) = (migration.version, migration.subject.rawValue)
      guard 1..<schema ~= version else {
        return "there is a migration from version \(version), but 'schema' is \(schema); a "
          + "migration starts at version 1 or later, and before 'schema'"
      }
      guard seen.insert("\(version) \(subject)").inserted else {
        return "there are two migrations of \(subject) from version \(version); remove one of them"
      }
    }
    let versions = Set(migrations.map(\.version))
    guard let oldest = versions.min(),
      let gap = (oldest..<schema).first(where: { !versions.contains($0) })
    else { return nil }
    return "there is a migration from version \(oldest), but none from version \(gap); add "
      + "'Migration(from: \(gap))'"
  }

  /// Whether there is a migration of parameters.
  var migratesParameters: Bool { migrations.contains { $0.subject == .parameters } }

  /// Converts the JSON of a stored value to the current schema version.
  /// - Parameter version: The version of the value.
  package func migrate(
    _ bytes: [UInt8], _ subject: Migration.Subject, from version: Int
  ) throws(MigrationError) -> [UInt8] {
    func error(_ cause: MigrationError.Cause, _ field: String? = nil) -> MigrationError {
      MigrationError(
        subject: subject, machine: machine, version: version, cause: cause, field: field)
    }
    guard version <= schema else { throw error(.newer(schema: schema)) }
    var bytes = bytes
    for step in version..<schema {
      guard migrations.contains(where: { $0.version == step }) else {
        throw error(.noMigration(from: step, schema: schema))
      }
      for migration in migrations where migration.version == step && migration.subject == subject {
        do { bytes = try migration.migrate(bytes) } catch let problem {
          throw error(
            .thrown(from: step, reason: "\(problem)"), (problem as? UndecodableValue)?.field)
        }
      }
    }
    return bytes
  }

  /// Decodes a stored value of any version.
  func decode<Value>(
    _ bytes: [UInt8], _ subject: Migration.Subject, from version: Int, by codec: EventCodec<Value>
  ) throws(MigrationError) -> Value {
    let migrated = try migrate(bytes, subject, from: version)
    do { return try codec.decode(migrated) } catch {
      throw MigrationError(
        subject: subject, machine: machine, version: version,
        cause: .undecodable(schema: schema, reason: "\(error)"),
        field: (error as? UndecodableValue)?.field)
    }
  }
}

/// The reason why a stored value of another version cannot be read.
package struct MigrationError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Cause: Hashable, Sendable {
    /// A later version of the machine has written the value.
    case newer(schema: Int)
    /// The machine has no migration from the version `from`.
    case noMigration(from: Int, schema: Int)
    /// A migration has thrown an error.
    case thrown(from: Int, reason: String)
    /// The migrated JSON is not a value of the machine.
    case undecodable(schema: Int, reason: String)
  }

  package var subject: Migration.Subject
  package var machine: String
  /// The version of the value.
  package var version: Int
  package var cause: Cause
  /// The field that is missing or wrong; `nil` if it is unknown.
  package var field: String?

  private var noun: String {
    switch subject {
    case .states: "state"
    case .events: "event"
    case .parameters: "parameters"
    }
  }

  package var description: String {
    switch cause {
    case .newer(let schema):
      "the \(noun) has schema version \(version), but machine '\(machine)' has schema version "
        + "\(schema); run the later program"
    case .noMigration(let step, let schema):
      "the \(noun) has schema version \(version), and machine '\(machine)' with schema version \(schema) "
        + "has no migration from version \(step)"
    case .thrown(let step, let reason):
      "the migration of machine '\(machine)' from version \(step) threw: \(reason)"
    case .undecodable(let schema, let reason):
      "the \(noun) of schema version \(version) was migrated to version \(schema) of machine "
        + "'\(machine)', but \(reason)"
    }
  }
}

/// The number that is stored in place of an unknown schema version. A node stores this number with
/// an event that has the node's own schema version, but cannot be decoded. A later program of the
/// node decodes such an event without a migration, as an event of the later program's own schema
/// version.
package let unknownSchema = 0

extension Machine {
  /// Decodes a state that this or another version of the machine has stored.
  @export(interface)
  package static func decodeState(
    _ bytes: [UInt8], schema: Int, by codec: EventCodec<State>
  ) throws -> State {
    if schema == Self.schema || schema == unknownSchema { return try codec.decode(bytes) }
    return try MigrationPlan(self).decode(bytes, .states, from: schema, by: codec)
  }

  /// Decodes an event that this or another version of the machine, or of a sender, has stored.
  @export(interface)
  package static func decodeEvent(
    _ bytes: [UInt8], schema: Int, by codec: EventCodec<Event>
  ) throws -> Event {
    if schema == Self.schema || schema == unknownSchema { return try codec.decode(bytes) }
    return try MigrationPlan(self).decode(bytes, .events, from: schema, by: codec)
  }

  /// Returns the parameters in the current version.
  ///
  /// Parameters in a topology file have no version. The function assumes the latest version from
  /// which the migrations produce parameters that the machine accepts. If there is no such version,
  /// the function returns `parameters` unchanged.
  @export(interface)
  package static func migrated(parameters: JSONValue) -> JSONValue {
    let plan = MigrationPlan(self)
    guard plan.migratesParameters, (try? Parameters(parameters: parameters)) == nil else {
      return parameters
    }
    for version in (1..<max(1, schema)).reversed() {
      guard let bytes = try? plan.migrate(parameters.bytes, .parameters, from: version),
        let migrated = try? JSONValue(parsing: bytes),
        (try? Parameters(parameters: migrated)) != nil
      else { continue }
      return migrated
    }
    return parameters
  }
}
