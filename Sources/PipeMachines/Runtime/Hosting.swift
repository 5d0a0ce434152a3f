/// What a node gives to the machine that it hosts; its runtime knows more of it.
public protocol _Hosting {}

/// A machine as a node holds it; its runtime knows more of it.
public protocol _HostedMachine {}

/// What a node can make of a machine; do not write it.
public protocol _Hostable: SendableMetatype {
  /// Makes what a node hosts. Provided for every machine by the runtime; do not write one.
  ///
  /// A requirement, so that its default is compiled for the machine's own types.
  static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine
}

extension _Hostable {
  // The runtime's own default, of `Machine`, comes before this one where a file imports the runtime.
  /// Refuses: nobody can host a machine of which the file imports the portable part alone.
  public static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine {
    throw NotHostableError(machine: "\(Self.self)")
  }
}

/// A machine is to be a node, and its file imports the portable part alone.
struct NotHostableError: Error, CustomStringConvertible {
  let machine: String

  var description: String {
    "machine '\(machine)' is compiled with PipeMachines alone, which has no nodes; import PipeRuntime in "
      + "the file that declares it a Machine"
  }
}
