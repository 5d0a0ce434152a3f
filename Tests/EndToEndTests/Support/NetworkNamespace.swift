import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

extension Trait where Self == ConditionTrait {
  /// A condition that skips the test, with a reason, if this host lacks the permissions or tools to
  /// create networks.
  static var needsNetworkNamespace: Self {
    .enabled(
      if: NetworkNamespace.isAvailable,
      "needs root, and Debian's 'iproute2' and 'nftables': 'tools/setup iproute2 nftables'")
  }
}

/// A network for one test, in which packets can be lost.
///
/// The network has only loopback addresses. Processes outside of the network can still connect to
/// sockets in the file system.
struct NetworkNamespace {
  /// The share of packets that are lost.
  enum Loss {
    case none
    /// This percentage of packets is lost.
    case percent(Int)
    case all
  }

  static let ip = ["/usr/sbin/ip", "/usr/bin/ip", "/sbin/ip"].first(
    where: FileSystem.exists)
  private static let nft = ["/usr/sbin/nft", "/sbin/nft"].first(where: FileSystem.exists)

  static var isAvailable: Bool { geteuid() == 0 && ip != nil && nft != nil }

  let name: String
  private let tool: CommandLineTool

  /// Runs a deployed topology in a new network, and removes both after `body`.
  static func with(
    _ yaml: String, deployment: String,
    _ body: (DetachedTopology, NetworkNamespace) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      let name = "prt-" + tool.directory.path.split(separator: "-").suffix(1).joined()
      let network = NetworkNamespace(name: name, tool: tool)
      try await network.call(ip, "netns", "add", name)
      do {
        try await network.prepare()
        var inside = tool
        inside.prefix = network.prefix
        var topology = try DetachedTopology(tool: inside, name: "ward", yaml: yaml)
        try topology.deploy(by: deployment)
        try await topology.up()
        try await body(topology, network)
        try await topology.run("down")
      } catch {
        try await network.call(ip, "netns", "del", name)
        throw error
      }
      try await network.call(ip, "netns", "del", name)
    }
  }

  private func prepare() async throws {
    try await inside(Self.ip, "link", "set", "lo", "up")
    try await inside(Self.nft, "add", "table", "inet", "loss")
    try await inside(
      Self.nft, "add", "chain", "inet", "loss", "input",
      "{ type filter hook input priority 0; }")
  }

  /// Returns the number of connections to these ports.
  func connections(to ports: some Sequence<UInt16>) async throws -> Int {
    let condition = ports.map { "dport = :\($0)" }.joined(separator: " or ")
    let result = try await inside(
      "/usr/bin/ss", ["-Htn", "state", "established", "( \(condition) )"])
    return result.output.split(separator: "\n").count
  }

  /// The words before a command line that make the command run in the network.
  private var prefix: [String] { Self.prefix(of: name) }

  /// Returns the words before a command line that make the command run in a namespace.
  static func prefix(of name: String) -> [String] { [ip ?? "ip", "netns", "exec", name] }

  /// Sets the loss of packets to and from these TCP ports. Replaces the former loss.
  func setPacketLoss(_ loss: Loss, ports: some Sequence<UInt16>) async throws {
    try await inside(Self.nft, "flush", "chain", "inet", "loss", "input")
    let chance: [String]
    switch loss {
    case .none: return
    case .percent(let percent): chance = ["numgen", "random", "mod", "100", "<", "\(percent)"]
    case .all: chance = []
    }
    for port in ports {
      for end in ["sport", "dport"] {
        try await inside(
          Self.nft,
          ["add", "rule", "inet", "loss", "input", "tcp", end, "\(port)"] + chance + ["drop"])
      }
    }
  }

  private func inside(_ program: String?, _ arguments: String...) async throws {
    try await inside(program, arguments)
  }

  @discardableResult
  private func inside(
    _ program: String?, _ arguments: [String]
  ) async throws -> CommandLineTool.Result {
    try await call(Self.ip, ["netns", "exec", name, program ?? ""] + arguments)
  }

  private func call(_ program: String?, _ arguments: String...) async throws {
    try await call(program, arguments)
  }

  @discardableResult
  private func call(
    _ program: String?, _ arguments: [String]
  ) async throws -> CommandLineTool.Result {
    let started = try tool.start(program: try #require(program), arguments)
    let result = try await tool.result(of: started, within: .seconds(30))
    try #require(result.code == 0, "\(arguments): \(result)")
    return result
  }
}
