import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// A node that must not go on without its orchestrator: the test speaks for that.
@Suite("A node with a lease", .timed) struct LeaseTests {
  /// What the node says, and what it hears.
  private struct Bench {
    let directory: TestDirectory
    let control: Socket
    let node: LaunchedProgram
    var journal: String { directory.path + "/party.sqlite" }

    init(in directory: TestDirectory) throws {
      self.directory = directory
      control = try Socket(.router, in: Context())
      func endpoint(_ name: String) -> String { "ipc://\(directory.path)/\(name)" }
      try control.bind(endpoint("control"))
      let arguments = NodeArguments(
        topology: "leases", node: "party", content: .machine("Party", parameters: [:]),
        control: endpoint("control"), inbox: endpoint("in"), feed: endpoint("feed"), incarnation: 3,
        journal: .init(path: directory.path + "/party.sqlite", durability: .power),
        lease: .seconds(1))
      node = try LaunchedProgram(
        CommandLineTool.products + "/TestNodes", arguments.arguments,
        environment: directory.environment(adding: [:]), directory: directory.path)
    }

    /// Reads until it has said this.
    /// - Parameter hears: Called with each frame before it.
    func await(
      _ kind: FrameKind, _ hears: (FrameHeader) -> Void = { _ in }
    ) async throws -> FrameHeader {
      let found = try await poll(every: .milliseconds(5), within: .seconds(20), of: directory) {
        () -> FrameHeader? in
        var found: FrameHeader?
        while found == nil,
          control.receive({ _, bytes in
            guard let header = try? FrameHeader(bytes) else { return }
            if header.kind == kind { found = header } else { hears(header) }
          })
        {}
        return found
      }
      return try #require(found, "\(node.errorText)")
    }

    func renew(_ asked: FrameHeader) {
      #expect(asked.number == 3)
      control.send(
        FrameHeader(.renewed, sequence: asked.sequence), to: Array(WireName.node("party").utf8))
    }

    func expectKilled() async throws {
      let exit = try await node.waitForExit(within: .seconds(20))
      #expect(exit == .signalled(number: SIGKILL), "\(node.errorText)")
    }
  }

  private func with(_ body: (Bench) async throws -> Void) async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let bench = try Bench(in: directory)
    defer {
      bench.node.signal(.kill)
      bench.control.close()
    }
    try await body(bench)
  }

  @Test(
    "it opens nothing before it has one, goes on as long as it is renewed, and dies though it is stopped"
  )
  func life() async throws {
    try await with { bench in
      var others: [FrameKind] = []
      for _ in 0..<2 { _ = try await bench.await(.renew) { others.append($0.kind) } }
      #expect(others == [] && !FileSystem.exists(bench.journal))
      bench.renew(try await bench.await(.renew))
      _ = try await bench.await(.hello, bench.renew)
      #expect(FileSystem.exists(bench.journal))
      let begin = BootClock.nanoseconds
      // Three leases long.
      while BootClock.nanoseconds - begin < 3_000_000_000 {
        bench.renew(try await bench.await(.renew))
      }
      #expect(bench.node.exit == nil)
      bench.node.signal(.stop)
      try await bench.expectKilled()
    }
  }

  @Test("an answer gives no more than what was asked for when it was asked")
  func late() async throws {
    try await with { bench in
      let first = try await bench.await(.renew)
      let hasEnded: Bool? = try await poll(
        every: .milliseconds(20), within: .seconds(20), of: bench.directory
      ) {
        bench.renew(first)
        return bench.node.exit == nil ? nil : true
      }
      #expect(hasEnded == true)
      try await bench.expectKilled()
    }
  }

  @Test("it ends in order where it is told to before it has one")
  func ended() async throws {
    try await with { bench in
      _ = try await bench.await(.renew)
      bench.node.signal(.terminate)
      #expect(try await bench.node.waitForExit(within: .seconds(20)) == .exited(code: 0))
      #expect(!FileSystem.exists(bench.journal))
    }
  }
}
