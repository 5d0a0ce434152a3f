import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// Two networks of one test, joined by a cable: a topology runs in one, and its clients in the
/// other.
///
/// Each network has loopback addresses of its own. Packets on the cable can be lost.
struct NetworkPair {
  /// The address of the topology.
  static let address = "10.79.0.1"
  static let otherAddress = "10.79.0.2"

  /// A deployment file that gives all processes of the topology the address that the other network
  /// reaches.
  static let deployment = """
    address: \(address)
    places:
      front: { address: \(address) }
      back: { address: \(address) }
    """

  private let near: String
  private let far: String
  private let tool: CommandLineTool

  /// Runs a topology in one network, with clients in the other network, and removes everything
  /// after `body`.
  static func with(
    _ yaml: String,
    _ body: (DetachedTopology, OtherHost, NetworkPair) async throws -> Void
  ) async throws {
    try await with { tool, pair in
      var inside = tool
      inside.prefix = pair.nearPrefix
      var ward = try DetachedTopology(tool: inside, name: "ward", yaml: yaml)
      try ward.deploy(by: deployment)
      try await ward.up()
      try await OtherHost.beside(ward, prefix: pair.farPrefix) { try await body(ward, $0, pair) }
      if RunningTopology.find(try ward.directories) != nil { try await ward.run("down") }
    }
  }

  /// Creates the networks, and removes them after `body`.
  static func with(_ body: (CommandLineTool, NetworkPair) async throws -> Void) async throws {
    try await CommandLineTool.launching { tool in
      let name = "prt-" + tool.directory.path.split(separator: "-").suffix(1).joined()
      let pair = NetworkPair(near: name + "-a", far: name + "-b", tool: tool)
      do {
        try await pair.make()
        try await body(tool, pair)
      } catch {
        try? await pair.remove()
        throw error
      }
      try await pair.remove()
    }
  }

  /// The words before a command line that make the command run in the near network.
  var nearPrefix: [String] { NetworkNamespace.prefix(of: near) }
  var farPrefix: [String] { NetworkNamespace.prefix(of: far) }

  private func make() async throws {
    for name in [near, far] {
      try await ip("netns", "add", name)
      try await ip("-n", name, "link", "set", "lo", "up")
    }
    // The cable is created within the namespace, so that its name cannot collide with another name
    // on the host.
    try await ip("-n", near, "link", "add", "cable", "type", "veth", "peer", "cable", "netns", far)
    for (name, address) in [(near, Self.address), (far, Self.otherAddress)] {
      try await ip("-n", name, "address", "add", address + "/24", "dev", "cable")
      try await ip("-n", name, "link", "set", "cable", "up")
    }
  }

  private func remove() async throws {
    try await ip("netns", "del", near)
    try await ip("netns", "del", far)
  }

  /// Connects or disconnects the cable.
  func connect(_ isConnected: Bool) async throws {
    try await ip("-n", far, "link", "set", "cable", isConnected ? "up" : "down")
  }

  private func ip(_ arguments: String...) async throws {
    let started = try tool.start(program: try #require(NetworkNamespace.ip), arguments)
    let result = try await tool.result(of: started, within: .seconds(30))
    try #require(result.code == 0, "\(arguments): \(result)")
  }
}
