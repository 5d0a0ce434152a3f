import PipeClient
import PipeSupervision
import PipeTopology
import PipeWire
import Testing

@Suite("Names that make socket paths too long")
struct SocketPathTests {
  @Test("A node name is refused at its line if and only if the node's socket paths are too long")
  func names() throws {
    let roots = RuntimeRoots(environment: [
      "PIPERUNTIME_ROOT": "/" + String(repeating: "r", count: 60)
    ])
    let directories = try RuntimeDirectories(topology: "lift", roots: roots)
    let left = RuntimeDirectories.pathLimit - directories.runtime.utf8.count - "/.feed".utf8.count
    for (length, isRefused) in [(left, false), (left + 1, true)] {
      let name = String(repeating: "n", count: length)
      let text =
        "topology: lift\nprogram: p\nnodes:\n  a: { machine: M }\n  \(name): { machine: M }\n"
      let read = try TopologyReader.read(text: text.utf8, file: "lift.yaml", variables: .init([:]))
      let found = SocketPathChecker.check(read.topology, source: read.source, roots: roots)
      #expect(found.count == (isRefused ? 1 : 0), "\(found)")
      guard let diagnostic = found.first else { continue }
      #expect(diagnostic.code == .badName && diagnostic.severity == .error)
      #expect(diagnostic.line == 5 && diagnostic.column == 3)
      #expect(diagnostic.message.hasPrefix("node '\(name)': the socket path '"))
    }
  }

  @Test("A topology name that makes the control socket's path too long is refused at its line")
  func topology() throws {
    let roots = RuntimeRoots(environment: [
      "PIPERUNTIME_ROOT": "/" + String(repeating: "r", count: 99)
    ])
    let text = "topology: lift\nprogram: p\nnodes:\n  a: { machine: M }\n"
    let read = try TopologyReader.read(text: text.utf8, file: "lift.yaml", variables: .init([:]))
    let found = SocketPathChecker.check(read.topology, source: read.source, roots: roots)
    #expect(found.map(\.line) == [1])
  }
}
