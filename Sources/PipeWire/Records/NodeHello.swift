import PipeMachines

/// The body of `hello`: who a process is.
package struct NodeHello: Codable, Hashable, Sendable {
  package var node: String
  package var pid: Int32
  package var incarnation: UInt64
  package var description: MachineDescription
  /// Where it stands; `nil` is `greeting`.
  package var phase: NodeHandshake.Phase?
  /// Why it cannot run, where no other start can help: its journal is damaged, say. The node is then
  /// failed, with this as the reason.
  package var problem: String?
  /// Why it is about to end, where another start may go better: its disk is full, say. What it says of
  /// its machine means nothing then.
  package var setback: String?
  /// Where its inbox and its feed are bound; `nil` where they are where they were to be.
  package var endpoints: NodeEndpoints?
  /// Whether it takes a `configure` with more pipes that lead from it while it runs; `nil` is no.
  package var opensPipes: Bool?

  package init(
    node: String, pid: Int32, incarnation: UInt64, description: MachineDescription,
    phase: NodeHandshake.Phase? = nil, problem: String? = nil, setback: String? = nil,
    endpoints: NodeEndpoints? = nil, opensPipes: Bool? = nil
  ) {
    self.node = node
    self.pid = pid
    self.incarnation = incarnation
    self.description = description
    self.phase = phase
    self.problem = problem
    self.setback = setback
    self.endpoints = endpoints
    self.opensPipes = opensPipes
  }
}
