import PipeSupervision
import PipeSystem
import PipeTopology

/// What is asked about the nodes of a topology: one for each program and environment.
final class ProgramOracles {
  private struct Key: Hashable {
    let path: String
    let environment: [String: String]
  }

  private let loaded: LoadedTopology
  private let patience: Duration
  private var known: [Key: ProgramOracle] = [:]

  /// - Parameter patience: How long a program may compute, or wait for something, over one answer.
  init(_ loaded: LoadedTopology, patience: Duration) {
    self.loaded = loaded
    self.patience = patience
  }

  func oracle(of node: NodeSpecification) throws(OracleTrouble) -> ProgramOracle {
    try oracle(
      loaded.topology.program(of: node) ?? "", loaded.topology.environment(of: node))
  }

  func oracle(of composite: CompositeSpecification) throws(OracleTrouble) -> ProgramOracle {
    try oracle(
      loaded.topology.program(of: composite) ?? "", loaded.topology.environment)
  }

  private func oracle(
    _ program: String, _ environment: [String: String]
  ) throws(OracleTrouble) -> ProgramOracle {
    guard let path = loaded.programs[program] else {
      throw .notStarted("there is no program '\(program)'")
    }
    let environment = ProcessEnvironment.current.merging(environment) { _, own in own }
    let key = Key(path: path, environment: environment)
    if let oracle = known[key] { return oracle }
    let oracle = ProgramOracle(path: path, environment: environment, patience: patience)
    known[key] = oracle
    return oracle
  }
}
