import PipeSystem
import PipeTopology
import PipeWire
import Testing

@Suite("A topology and its deployment")
struct DeploymentCheckTests {
  /// The interfaces of a machine with a loopback network and another network.
  private static let interfaces = [
    InterfaceAddress(
      address: IPv4Address("127.0.0.1")!, mask: IPv4Address("255.0.0.0")!.addressBits,
      isLoopback: true),
    InterfaceAddress(
      address: IPv4Address("10.0.0.9")!, mask: IPv4Address("255.255.255.0")!.addressBits,
      isLoopback: false),
  ]

  private func examined(_ text: String) throws -> DeploymentFile.Examination {
    try DeploymentFile.examine(
      text: Array(text.utf8), file: "lab.yaml", variables: TopologyVariables([:]))
  }

  /// Returns the diagnostics of the topology.
  private func placed(
    _ nodes: String, and rest: String = "", in deployment: String, plans: [ConflictClassPlan] = []
  ) throws -> [String] {
    let (topology, source) = try TopologyReader.read(
      text: withNodes(nodes, and: rest).utf8, file: "test.yaml")
    return PlacementChecker.check(
      topology, source: source, coordinatorPlans: plans, in: try examined(deployment)
    ).map(\.description)
  }

  /// Returns the diagnostics of the deployment.
  private func checked(_ deployment: String, for nodes: String?) throws -> [String] {
    let topologies = try nodes.map { [try topology(withNodes($0))] }
    return DeploymentChecker.check(
      try examined(deployment), for: topologies, interfaces: Self.interfaces
    ).map(\.description)
  }

  // MARK: Places

  @Test("If a deployment lacks a place, the error is reported where the topology names the place")
  func unknownPlace() throws {
    let places = "engine: local\nplaces: { front: { address: 127.0.0.1 } }"
    let nodes = "a: { machine: M, place: frnt }\nb: { machine: M, place: front }\nc: { machine: M }"
    #expect(
      try placed(nodes, in: places) == [
        "test.yaml:4:27: error: node 'a': no such place 'frnt' in lab.yaml:2:1; it has 'front'. "
          + "Did you mean 'front'? [unknown-place]"
      ])
    #expect(
      try placed("a: { machine: M, place: front }", in: "engine: local") == [
        "test.yaml:4:27: error: node 'a': no such place 'front' in lab.yaml:1:1; add the place "
          + "there [unknown-place]"
      ])
  }

  @Test("A place that could not be read is not reported as unknown")
  func brokenPlace() throws {
    let text = "places: { front: , back: { address: x } }"
    let nodes = "a: { machine: M, place: front }\nb: { machine: M, place: back }"
    #expect(try examined(text).diagnostics.count == 2)
    #expect(try placed(nodes, in: text) == [])
  }

  @Test("A place without nodes causes a warning, unless a topology could not be read")
  func unusedPlace() throws {
    let text = "places:\n  front: { address: 127.0.0.1 }\n  back: { address: 127.0.0.2 }\n"
    #expect(
      try checked(text, for: "a: { machine: M, place: back }") == [
        "lab.yaml:2:3: warning: place 'front' is not used by any node; write 'place: front' for a "
          + "node, or remove the place [unused-place]"
      ])
    #expect(try checked(text, for: nil) == [])
  }

  // MARK: Addresses

  @Test(
    "The engine 'local' accepts addresses of this machine, and of its whole loopback network",
    arguments: [
      ("127.0.0.1", true), ("127.0.0.2", true), ("127.255.3.4", true), ("10.0.0.9", true),
      ("10.0.0.8", false), ("128.0.0.1", false), ("255.255.255.255", false),
    ])
  func foreignAddress(address: String, isOwn: Bool) throws {
    let nodes = "a: { machine: M, place: front }"
    let message =
      "'address' \(address) is not an address of this host, and engine 'local' starts processes "
      + "only on this host; use one of the addresses of this host: 127.0.0.1, 10.0.0.9 "
      + "[foreign-address]"
    #expect(
      try checked("places: { front: { address: \(address) } }", for: nodes)
        == (isOwn ? [] : ["lab.yaml:1:29: error: place 'front': \(message)"]))
    #expect(
      try checked("address: \(address)\nplaces: { front: { address: 127.0.0.1 } }", for: nodes)
        == (isOwn ? [] : ["lab.yaml:1:10: error: the deployment: \(message)"]))
  }

  @Test("The addresses of this machine include the loopback network, but no example address")
  func thisMachine() throws {
    let interfaces = try InterfaceAddress.ofThisMachine()
    let home = try #require(IPv4Address("127.0.0.7"))
    let example = try #require(IPv4Address("192.0.2.1"))
    #expect(interfaces.contains { $0.owns(home) })
    #expect(!interfaces.contains { $0.owns(example) })
  }

  @Test("An IPv4 address is accepted only as four decimal numbers from 0 to 255")
  func addresses() {
    for text in ["0.0.0.0", "127.0.0.1", "255.254.10.9"] {
      #expect(IPv4Address(text)?.description == text)
    }
    for text in [
      "", "1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3", "1..2.3", "1.2.3.256", "1.2.3.04",
      "1.2.3.+4",
      "1.2.3.-0", "1.2.3.4 ", "a.b.c.d", "1.2.3.٤", "1.2.3.99999999999999999999",
    ] {
      #expect(IPv4Address(text) == nil, "\(text)")
    }
  }

  // MARK: Movable nodes

  private static let without = "places: { front: { address: 127.0.0.1 } }"
  private static let with = without + "\njournals: /shared\n"
  private static let tooLittle = "survives a process crash, not the loss of the host; set"
  private static let staysThere =
    "stays on the lost host, since lab.yaml:1:1 has no 'journals'; add 'journals: PATH' there"

  @Test(
    "A node can move if it has no journal, or a journal of durability 'power' on shared storage",
    arguments: [
      ("none", without, nil), ("none", with, nil), ("power", with, nil),
      ("power", without, staysThere), ("process", with, tooLittle), ("process", without, tooLittle),
      (nil, with, tooLittle),
    ] as [(String?, String, String?)])
  func move(durability: String?, deployment: String, problem: String?) throws {
    let key = durability.map { ", durability: \($0)" } ?? ""
    let node = "a: { machine: M, place: front, on_host_loss: move\(key) }"
    let found = try placed(node, in: deployment)
    #expect(found.count == (problem == nil ? 0 : 1), "\(found)")
    guard let problem else { return }
    #expect(
      found[0].hasPrefix(
        "test.yaml:4:48: error: node 'a' cannot move to another host: its journal \(problem)"
      ),
      "\(found)")
    #expect(found[0].hasSuffix("or write 'on_host_loss: wait' [bad-host-loss]"), "\(found)")
    #expect(try placed(node.replacing("move", with: "wait"), in: deployment) == [])
  }

  @Test("A constant node can move, because it records nothing")
  func constant() throws {
    let node = "a: { constant: s, place: front, on_host_loss: move }"
    #expect(try placed(node, in: Self.without) == [])
  }

  @Test(
    "A node can move in a deployment for Slurm if its place has another host",
    arguments: [
      ("hosts: [h1]", true), ("hosts: [h1], spare: [h1]", true),
      ("hosts: [h1], spare: [h2]", false),
      ("hosts: [h1, h2]", false),
    ])
  func alone(hosts: String, isRefused: Bool) throws {
    let node = "a: { machine: M, place: front, on_host_loss: move, durability: none }"
    let found = try placed(node, in: "engine: slurm\nplaces:\n  front: { \(hosts) }")
    #expect(
      found
        == (isRefused
          ? [
            "test.yaml:4:48: error: node 'a' has no host to move to: place 'front' has only host "
              + "'h1'; add 'spare: [HOST]' at lab.yaml:3:3, or write 'on_host_loss: wait' "
              + "[bad-host-loss]"
          ] : []))
  }

  @Test("No node can move in a deployment for Kubernetes")
  func pods() throws {
    let node = "a: { machine: M, place: front, on_host_loss: move, durability: none }"
    let deployment = "engine: kubernetes\nimage: i\nplaces:\n  front: { hosts: [h1, h2] }"
    let found = try placed(node, in: deployment)
    #expect(
      found.count == 1
        && found[0].hasPrefix(
          "test.yaml:4:48: error: node 'a' cannot move with engine 'kubernetes': the pod of a StatefulSet waits"
        )
        && found[0].hasSuffix("write 'on_host_loss: wait' [bad-host-loss]"), "\(found)")
    #expect(try placed(node.replacing("move", with: "wait"), in: deployment) == [])
    #expect(try checked(deployment, for: "a: { machine: M, place: front }") == [])
  }

  @Test("A node cannot have several shards in a deployment for Kubernetes")
  func shards() throws {
    let node = "a: { machine: M, key: k, shards: 2, place: front }"
    let deployment = "engine: kubernetes\nimage: i\nplaces:\n  front: {}"
    let found = try placed(node, in: deployment)
    #expect(
      found == [
        "test.yaml:4:36: error: node 'a': 'shards' is not supported with engine 'kubernetes' yet; "
          + "remove 'shards' [bad-value]"
      ], "\(found)")
  }

  @Test("Journals that could not be read are not reported as missing")
  func brokenJournals() throws {
    let node = "a: { machine: M, place: front, on_host_loss: move, durability: power }"
    #expect(try placed(node, in: Self.without + "\njournals: 3\n") == [])
  }

  @Test("A movable node can have pipes, with or without a journal")
  func pipes() throws {
    let nodes = """
      a: { machine: M, place: front, on_host_loss: move, durability: power }
      b: { machine: M }
      c: { machine: M, place: front, on_host_loss: move, durability: none }
      """
    let pipes = "pipes: [{ from: a.out, to: b }, { from: b.out, to: a }, { from: b.out, to: c }]\n"
    #expect(try placed(nodes, and: pipes, in: Self.with) == [])
  }

  @Test("A coordinator embedded in a movable node must be able to move with the node")
  func embeddedCoordinator() throws {
    let nodes = """
      a: { machine: M, place: front, on_host_loss: move, durability: none }
      b: { machine: M }
      """
    let composites = "composites: { c: { components: [a, b], synchronize: [e], within: a } }\n"
    let found = try placed(nodes, and: composites, in: Self.with)
    #expect(
      found == [
        "test.yaml:4:48: error: node 'a' cannot move to another host: the journal of composite "
          + "'c', whose coordinator is embedded in the node, survives a process crash, not the "
          + "loss of the host; set the 'durability' of the composite's nodes to 'power' or "
          + "'none', or write 'on_host_loss: wait' [bad-host-loss]"
      ])
    let apart = composites.replacing(", within: a", with: "")
    #expect(try placed(nodes, and: apart, in: Self.with) == [])
  }

  @Test("The durability of a shared embedded coordinator comes from the programs' descriptions")
  func sharedLodger() throws {
    let nodes = """
      a: { machine: M, place: front, on_host_loss: move, durability: none }
      b: { machine: M, durability: none }
      """
    let composites = "composites: { c: { components: [a, b], synchronize: [e], within: a } }\n"
    #expect(try placed(nodes, and: composites, in: Self.with) == [])
    let shared = ConflictClassPlan(
      name: "c", host: "a", program: "p", durability: .process, composites: [], components: [])
    let found = try placed(nodes, and: composites, in: Self.with, plans: [shared])
    #expect(
      found.count == 1
        && found[0].contains(
          "the journal of composite 'c', whose coordinator is "
            + "embedded")
    )
  }

  // MARK: Names in a cluster

  private static let cluster = "engine: kubernetes\nimage: i"

  @Test("A node's name is refused if its cluster name equals another node's or the orchestrator's")
  func clusterNames() throws {
    let nodes = "a_b: { machine: M }\nc: { machine: M }\nA-b: { machine: M }"
    #expect(
      try placed(nodes, in: Self.cluster) == [
        "test.yaml:6:3: error: 'a_b' and 'A-b' would both be named 't-a-b' in a cluster, where "
          + "names contain only lowercase letters, digits and '-'; rename 'A-b' [cluster-name]"
      ])
    #expect(try placed(nodes, in: Self.without) == [])
    #expect(
      try placed("Orchestrator: { machine: M }", in: Self.cluster) == [
        "test.yaml:4:3: error: 'Orchestrator' would be named 't-orchestrator' in a cluster, which "
          + "is the name of the orchestrator; rename 'Orchestrator' [cluster-name]"
      ])
  }

  @Test(
    "A coordinator's name must be unique in a cluster only if the coordinator has its own process",
    arguments: [(nil, true), ("b", false)] as [(String?, Bool)])
  func coordinatorName(host: String?, isRefused: Bool) throws {
    let composites = "composites: { A: { components: [a, b], synchronize: [e] } }\n"
    let plan = ConflictClassPlan(
      name: "A", host: host, program: "p", durability: .process, composites: [], components: [])
    let found = try placed(
      "a: { machine: M }\nb: { machine: M }", and: composites, in: Self.cluster, plans: [plan])
    #expect(found.count == (isRefused ? 1 : 0), "\(found)")
    if isRefused {
      #expect(
        found[0].hasPrefix("test.yaml:6:15: error: 'a' and 'A' would both be named 't-a'"),
        "\(found)")
    }
  }

  @Test("A topology name that begins with a digit is refused in a cluster")
  func digit() throws {
    let (topology, source) = try TopologyReader.read(
      text: withNodes("a: { machine: M }").replacing("topology: t", with: "topology: 3d").utf8,
      file: "test.yaml")
    let found = PlacementChecker.check(topology, source: source, in: try examined(Self.cluster))
    #expect(
      found.map(\.description) == [
        "test.yaml:1:11: error: topology '3d' cannot run in a cluster under this name: the names "
          + "of its services start with the topology's name, and a service name must start with "
          + "a letter; rename the topology [cluster-name]"
      ])
  }
}
