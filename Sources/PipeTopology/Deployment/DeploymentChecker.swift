import PipeSystem
import PipeWire

/// Checks a deployment against the machine that it is read on, and the topologies that are to run by it.
package struct DeploymentChecker: Examiner {
  let examined: DeploymentFile.Examined
  var source: SourceMap { examined.source }
  var diagnostics: [Diagnostic] = []

  /// Checks a deployment.
  /// - Parameters:
  ///   - topologies: All that are to run by it; `nil` where one of them could not be read.
  ///   - interfaces: The addresses of this machine.
  /// - Returns: Errors and warnings in the order of the file, but for those of its reading.
  package static func check(
    _ examined: DeploymentFile.Examined, for topologies: [Topology]?,
    interfaces: [InterfaceAddress]
  ) -> [Diagnostic] {
    var checker = DeploymentChecker(examined: examined)
    let deployment = examined.deployment
    if let address = deployment.address {
      checker.check(address, at: ["address"], owner: "the deployment", interfaces)
    }
    for place in deployment.places {
      guard let address = place.address else { continue }
      checker.check(
        address, at: ["places", place.name, "address"], owner: "place '\(place.name)'",
        interfaces)
    }
    if let topologies { checker.checkUse(by: topologies) }
    return checker.diagnostics.inFileOrder
  }

  private init(examined: DeploymentFile.Examined) {
    self.examined = examined
  }

  /// The engine `local` starts processes on this machine, which can listen at its own addresses alone.
  private mutating func check(
    _ address: String, at path: [String], owner: String, _ interfaces: [InterfaceAddress]
  ) {
    guard examined.deployment.engine == .local, let number = IPv4Address(address),
      !interfaces.contains(where: { $0.owns(number) })
    else { return }
    let own = interfaces.map(\.address.description)
    let remedy =
      own.isEmpty
      ? "it has none that is up: see that there is a loopback interface"
      : "write one that it has: " + own.joined(separator: ", ")
    report(
      .foreignAddress, at: path,
      "\(owner): 'address' \(address) is not this machine's, and engine 'local' starts processes on "
        + "this machine alone; \(remedy)")
  }

  private mutating func checkUse(by topologies: [Topology]) {
    let used = Set(topologies.flatMap(\.nodes).compactMap(\.place))
    for place in examined.deployment.places where !used.contains(place.name) {
      report(
        .unusedPlace, .warning, at: source.mark(ofKey: ["places", place.name]),
        "place '\(place.name)': no node runs there; give a node 'place: \(place.name)', or remove it"
      )
    }
  }
}
