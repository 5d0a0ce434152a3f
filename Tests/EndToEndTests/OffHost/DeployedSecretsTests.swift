import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The keys of a deployed topology", .timed)
struct DeployedSecretsTests {
  /// Returns the sockets of the orchestrator and of a node, from the node's command line.
  private func places(
    _ ward: DetachedTopology
  ) async throws -> (control: PeerPlaceOf, node: NodeInformation) {
    let directory = try await ward.directory()
    let node = try #require(directory[node: "sink"])
    let process = try #require(ward.tool.directory.processes.first { $0.pid == node.pid })
    let words = process.command.split(separator: " ").map(String.init)
    func value(_ option: String) throws -> String {
      let place = try #require(words.firstIndex(of: option))
      return words[place + 1]
    }
    let key = try #require(PublicKey(value("--control-key")))
    return (PeerPlaceOf(endpoint: try value("--control"), key: key), node)
  }

  /// A socket with its public key.
  private struct PeerPlaceOf {
    let endpoint: String
    let key: PublicKey

    func place(as pair: CurveKeyPair) -> PeerEndpoint {
      PeerEndpoint(endpoint, key: key, own: pair)
    }
  }

  @Test(
    "Secret keys are only in files of mode 600, and the files are removed when their processes end"
  )
  func secrets() async throws {
    try await DetachedTopology.with(
      DeployedTopologyTests.numbers, deployment: DeployedTopologyTests.lab
    ) { ward in
      let directories = try ward.directories
      let nodes = ["source", "sink"].map { directories.keyFile(of: $0) }
      var secrets: [String] = []
      for path in nodes + [directories.controlKeyFile, directories.clientKeyFile] {
        var status = stat()
        try #require(stat(path, &status) == 0, "\(path)")
        #expect(status.st_mode & 0o777 == 0o600, "\(path)")
        let text = try #require(FileSystem.contents(of: path))
        secrets.append(try #require(try JSONValue(parsing: text)["secret"]?.string))
      }
      #expect(Set(secrets).count == 4)
      let processes = ward.tool.directory.processes
      #expect(processes.count == 3)
      for process in processes {
        for file in ["cmdline", "environ"] {
          let bytes = try #require(FileSystem.contents(of: "/proc/\(process.pid)/\(file)"))
          let text = String(decoding: bytes, as: UTF8.self)
          #expect(!secrets.contains { text.contains($0) }, "\(file) of \(process.command)")
        }
      }
      let former = try #require(FileSystem.contents(of: nodes[1]))
      try await ward.run("stop", "sink")
      #expect(!FileSystem.exists(nodes[1]))
      try await ward.run("start", "sink")
      #expect(FileSystem.contents(of: nodes[1]) != former)

      // The key of the ended process is no longer admitted.
      let secret = try #require(try JSONValue(parsing: former)["secret"]?.string)
      let ended = try #require(CurveKeyPair(secret: Array(secret.utf8)))
      let (control, _) = try await places(ward)
      let revenant = try KeyedPeer(
        WireName.node("sink"), at: control.place(as: ended), in: ward.tool.directory)
      try await revenant.exchangeFrames { _ in
        let log = try? ward.log("orchestrator")
        return log?.contains { $0.contains("its key '\(ended.publicKey)' was revoked") } == true
      }
      #expect(revenant.received == 0 && revenant.connected == 0)
    }
  }

  @Test("A client without a topology key receives nothing from control socket, inbox or feed")
  func strangers() async throws {
    try await DetachedTopology.with(
      DeployedTopologyTests.numbers, deployment: DeployedTopologyTests.lab
    ) { ward in
      let (control, node) = try await places(ward)
      let key = try #require(node.key.flatMap { PublicKey($0) })
      let pair = try CurveKeyPair.make()
      let turnedAway = "its key '\(pair.publicKey)' is unknown"
      let files = ward.tool.directory
      let ends = [
        (WireName.node("sink"), control.place(as: pair), "orchestrator"),
        ("me", control.place(as: pair), "orchestrator"),
        ("me", PeerEndpoint(node.inbox, key: key, own: pair), "sink"),
        (nil, PeerEndpoint(node.feed, key: key, own: pair), "sink"),
      ]
      for (name, place, log) in ends {
        let bare = try KeyedPeer(name, at: PeerEndpoint(place.endpoint), in: files)
        let stranger = try KeyedPeer(name, at: place, in: files)
        try await stranger.exchangeFrames {
          $0.disconnected > 0
            && (try? ward.log(log).contains { $0.contains(turnedAway) }) == true
        }
        #expect(stranger.received == 0 && stranger.connected == 0, "\(place.endpoint)")
        // A client without any key receives nothing, either.
        try await bare.exchangeFrames { _ in true }
        #expect(bare.received == 0 && bare.connected == 0, "\(place.endpoint)")
      }
      // A client's key is not valid for a node: messages under a node's name are ignored.
      let own = try KeyFile.read(ward.directories.clientKeyFile)
      let impostor = try KeyedPeer(
        WireName.node("sink"), at: control.place(as: own), in: files)
      try await impostor.exchangeFrames { $0.disconnected > 0 && $0.connected > 0 }
      #expect(
        try ward.log("orchestrator").contains { $0.contains(" to 'node/sink' (") })
      let client = try ward.client()
      defer { client.close() }
      try await client.send("source", Source.Event.go(count: 3))
      let last = try JSONValue(encoding: Sink.State.counting(last: 3, count: 3, wrong: 0))
      try await ward.await("all have arrived") { $0[node: "sink"]?.status?.state == last }
    }
  }
}
