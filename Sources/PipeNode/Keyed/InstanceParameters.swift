import PipeMachines

/// The parameters of an instance's machine. One of the parameters is the instance's key.
struct InstanceParameters<Parameters: MachineParameters> {
  private let given: [String: JSONValue]
  private let key: String

  /// Creates the parameters from the parameters that all instances share. Returns `nil` if the
  /// machine has no parameter with the name `key`.
  init?(_ given: JSONValue, key: String) {
    guard Parameters.hasParameter(named: key) else { return nil }
    if case .object(let members) = given { self.given = members } else { self.given = [:] }
    self.key = key
  }

  /// Returns the parameters of an instance; `nil` if the parameters do not accept the key.
  func parameters(of key: InstanceKey) -> Parameters? {
    // Tries the key as text and as an integer, because an integer parameter does not accept text.
    let integer = Int64(key.text).map { JSONValue.integer($0) }
    for value in [JSONValue.string(key.text), integer].compactMap(\.self) {
      let members = given.merging([self.key: value]) { $1 }
      if let parameters = try? Parameters(parameters: .object(members)) { return parameters }
    }
    return nil
  }
}
