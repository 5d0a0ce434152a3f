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

  /// Those of the orchestrator.
  package struct Orchestrator: Sendable {
    /// The key file of its pair.
    package var control: String
    /// That of clients elsewhere.
    package var client: String

    package init(control: String, client: String) {
      self.control = control
      self.client = client
    }
  }

  /// `nil` where it has its own already.
  package var orchestrator: Orchestrator?
  /// By the processes' names: of those that get new ones.
  package var agents: [String: Agent]

  package init(orchestrator: Orchestrator?, agents: [String: Agent]) {
    self.orchestrator = orchestrator
    self.agents = agents
  }
}
