/// The keys of a topology in a cluster, as texts: what its Secrets are made of.
package struct ManifestKeys: Sendable {
  /// Those of a process's agent.
  package struct Agent: Sendable {
    /// What its key file holds.
    package var file: String
    /// The public half, which the orchestrator lets in.
    package var key: String

    package init(file: String, key: String) {
      self.file = file
      self.key = key
    }
  }

  /// The key file of the orchestrator's pair.
  package var control: String
  /// That of clients elsewhere.
  package var client: String
  /// By the processes' names.
  package var agents: [String: Agent]

  package init(control: String, client: String, agents: [String: Agent]) {
    self.control = control
    self.client = client
    self.agents = agents
  }
}
