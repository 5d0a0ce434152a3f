import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// A node that must not run without its orchestrator. The test acts as the orchestrator.
@Suite("A node with a lease", .timed) struct LeaseTests {
  /// A node and the control socket that it talks to.
  private struct Bench {
    let directory: TestDirectory
    let control: Socket
    let node: LaunchedProgram
    /// A lease that is long enough for a busy machine to answer.
    static let lease: Duration = .seconds(4)
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
        lease: Self.lease)
      node = try LaunchedProgram(
        CommandLineTool.products + "/TestNodes", arguments.arguments,
        environment: directory.environment(adding: [:]), directory: directory.path)
    }

    /// Reads until the node sends a frame of this kind.
    /// - Parameter hears: A function that is called with each earlier frame.
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
      #expect(asked.incarnationOrSession == 3)
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

  @Test("A node opens no journal before its first lease, and ends if the lease is not renewed")
  func life() async throws {
    try await with { bench in
      var others: [FrameKind] = []
      for _ in 0..<2 { _ = try await bench.await(.renew) { others.append($0.kind) } }
      #expect(others == [] && !FileSystem.exists(bench.journal))
      bench.renew(try await bench.await(.renew))
      _ = try await bench.await(.hello, bench.renew)
      #expect(FileSystem.exists(bench.journal))
      let begin = BootClock.nanoseconds
      // Longer than the first lease.
      while BootClock.nanoseconds - begin < (Bench.lease + .seconds(1)).clampedNanoseconds {
        bench.renew(try await bench.await(.renew))
      }
      #expect(bench.node.exit == nil)
      bench.node.signal(.stop)
      try await bench.expectKilled()
    }
  }

  @Test("The duration of a lease counts from the request, and not from the reply")
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

  @Test("A node that is terminated before its first lease ends gracefully")
  func ended() async throws {
    try await with { bench in
      _ = try await bench.await(.renew)
      bench.node.signal(.terminate)
      #expect(try await bench.node.waitForExit(within: .seconds(20)) == .exited(code: 0))
      #expect(!FileSystem.exists(bench.journal))
    }
  }
}
