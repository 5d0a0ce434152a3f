/// A kind of file, as messages put it.
struct FileKind: Sendable {
  /// What it describes: `topology`.
  let noun: String
  /// What it starts with: `topology: NAME`.
  let start: String

  static let topology = FileKind(noun: "topology", start: "topology: NAME")
  static let scenario = FileKind(noun: "scenario", start: "scenario: NAME")
  static let deployment = FileKind(noun: "deployment", start: "engine: local")
}
