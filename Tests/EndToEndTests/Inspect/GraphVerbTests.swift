import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

extension Trait where Self == ConditionTrait {
  /// Skips the test, with the reason, where the programs of librsvg and ImageMagick are not
  /// installed.
  static var needsRenderers: Self {
    .enabled(
      if: ["/usr/bin/rsvg-convert", "/usr/bin/convert"].allSatisfy(FileSystem.exists),
      "Debian's 'librsvg2-bin' and 'imagemagick' are not installed: 'tools/setup librsvg2-bin imagemagick' does that"
    )
  }
}

@Suite("The verb 'graph'", .timed)
struct GraphVerbTests {
  @Test(
    "'graph' draws a topology in each format",
    arguments: [
      ("ascii", "| LiftDoor |"), ("dot", "subgraph \"cluster_composite:lift\" {"),
      ("mermaid", "subgraph c1[\"lift<br>together: emergencyStop, go, open, reset\"]"),
      ("plantuml", "component \"door\\nLiftDoor\" as n1"), ("svg", "</svg>"),
      ("json", "\"id\":\"composite:lift\""),
    ])
  func wiring(form: String, part: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await tool.run("graph", "topologies/lift.yaml", "-o", form, in: nil)
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains(part), "\(result)")
  }

  @Test(
    "'graph FILE NODE' draws the states of a node's machine in each format",
    arguments: [
      ("ascii", "| persons: Int |"),
      ("dot", "\"open\" -> \"open\" [label=\"enter [guard]\", style=dotted]"),
      ("mermaid", "n1 -.->|\"enter [guard]\"| n1"), ("plantuml", "[*] --> n2"),
      ("svg", "persons: Int"), ("json", "\"title\":\"door: LiftDoor\""),
    ])
  func states(form: String, part: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await tool.run("graph", "topologies/lift.yaml", "door", "-o", form, in: nil)
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains(part), "\(result)")
  }

  @Test("'describe --graph' writes each transition on a line, and as JSON")
  func described() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let page = try await tool.run(
      "describe", "--file", "topologies/lift.yaml", "--graph", "door", in: nil)
    #expect(page.output.contains("  graph        closed --emergencyStop--> stopped\n"), "\(page)")
    #expect(page.output.contains("\n               open ..enter [guard]..> open\n"), "\(page)")
    let data = try await tool.run(
      "describe", "--file", "topologies/lift.yaml", "--graph", "-o", "json", in: nil)
    guard case .array(let pages) = try JSONValue(parsing: data.output.utf8), pages.count == 3 else {
      Issue.record("\(data)")
      return
    }
    #expect(pages[0]["graph"]?["initial"] == "closed")
    // A composite has no graph.
    #expect(pages[2]["graph"] == nil)
  }

  // MARK: Graphviz

  /// Runs 'graph' with this script in place of Graphviz's `dot`, or without `dot`.
  private func svg(dot script: String?) async throws -> CommandLineTool.Result {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    if let script {
      try FileSystem.makeDirectories("\(tool.directory.path)/bin")
      try tool.directory.write("#!/bin/sh\n" + script + "\n", to: "bin/dot", mode: 0o755)
    }
    tool.environment["PATH"] = "\(tool.directory.path)/bin"
    let result = try await tool.run(
      "graph", "topologies/lift.yaml", "-o", "svg", in: nil, within: .seconds(60))
    #expect(result.code == 0, "\(result)")
    return result
  }

  @Test("'graph -o svg' draws without Graphviz and says how to install Graphviz")
  func withoutGraphviz() async throws {
    let result = try await svg(dot: nil)
    #expect(result.output.hasPrefix("<svg xmlns="), "\(result)")
    #expect(result.error.contains("install Graphviz with 'apt-get install graphviz'"))
  }

  @Test(
    "'graph -o svg' draws a picture even if Graphviz hangs, fails or writes nothing",
    arguments: [
      ("exec /bin/sleep 1000", "Graphviz takes longer than 2 s"),
      ("trap '' TERM; while :; do :; done", "Graphviz takes longer than 2 s"),
      ("echo 'Error: no memory' >&2; exit 1", "failed: Error: no memory"), ("exit 0", "failed"),
      ("kill -SEGV $$", "failed"),
    ])
  func badGraphviz(script: String, reason: String) async throws {
    let result = try await svg(dot: script)
    #expect(result.output.hasPrefix("<svg xmlns="), "\(result)")
    #expect(result.error.contains("note: using the built-in drawing: "), "\(result)")
    #expect(result.error.contains(reason), "\(result)")
  }

  @Test("'graph -o svg' lets Graphviz draw straight lines when curves take too long")
  func plainGraphviz() async throws {
    let result = try await svg(
      dot: "/bin/grep -q splines=line && echo '<svg>plain</svg>' && exit 0; exec /bin/sleep 1000")
    #expect(result.output == "<svg>plain</svg>\n", "\(result)")
    #expect(result.error.contains("note: using a simple layout"), "\(result)")
  }

  @Test(
    "librsvg and ImageMagick render an SVG with dark lines on a white background", .needsRenderers,
    arguments: ["rsvg-convert graph.svg | convert png:-", "convert graph.svg"])
  func renderers(command: String) async throws {
    let drawn = try await svg(dot: nil)
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(drawn.output, to: "graph.svg")
    // The mean and the lowest brightness, from 0 to 1.
    let script =
      "PATH=/usr/bin:/bin; export PATH; \(command) -colorspace Gray -format '%[fx:mean] %[fx:minima]' info:-"
    let result = try await tool.end(of: tool.start(program: "/bin/sh", ["-c", script]))
    let figures = result.output.split(separator: " ").compactMap { Double($0) }
    try #require(figures.count == 2, "\(result)")
    #expect(figures[0] > 0.75 && figures[0] < 0.99 && figures[1] < 0.2, "\(result)")
  }

  @Test("'graph -' reads a topology from standard input")
  func standardInput() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = try tool.start(
      program: "/bin/sh",
      ["-c", "'\(CommandLineTool.orchestrator)' graph - door < topologies/lift.yaml"], in: nil)
    let result = try await tool.end(of: program, within: .seconds(60))
    #expect(result.output.contains("| persons: Int |"), "\(result)")
  }

  // MARK: Running topologies

  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      button: { machine: Button }
      gate: { machine: Gate }
    """

  @Test("'graph --live' shows the states of the running topology and the nodes that are down")
  func live() async throws {
    try await DetachedTopology.with(Self.ward) { topology in
      try await topology.run("send", "button", "press")
      // A node that is too busy to answer is drawn in its last known state.
      try await topology.await("both tell their states") {
        $0[node: "button"]?.status?.state == ["pressed": ["times": 1]]
          && $0[node: "gate"]?.status?.state == ["shut": ["passed": 0]]
      }
      let wiring = try await topology.run("graph", "--live")
      #expect(wiring.output.contains("| = pressed(times: 1) |"), "\(wiring)")
      #expect(wiring.output.contains("| = shut(passed: 0) |"), "\(wiring)")
      let still = try await topology.run("graph")
      #expect(!still.output.contains("= "), "\(still)")
      let chart = try await topology.run("graph", "button", "--live")
      #expect(chart.output.contains("# = pressed(times: 1)"), "\(chart)")
      #expect(chart.output.contains("(start, now)"), "\(chart)")
      let filed = try await topology.run("graph", "ward.yaml", "button", "--live", "-o", "json")
      #expect(filed.output.contains("\"marks\":[\"initial\",\"current\"]"), "\(filed)")
      try await topology.run("stop", "gate")
      let down = try await topology.run("graph", "--live")
      #expect(down.output.contains(": = stopped :"), "\(down)")
      #expect(down.output.contains(": (down)    :"), "\(down)")
      let stopped = try await topology.run("graph", "gate", "--live")
      #expect(stopped.output.contains("note: now: "), "\(stopped)")
    }
  }

  @Test("'graph' of a running topology fails if the topology file is gone")
  func goneFile() async throws {
    try await DetachedTopology.with(Self.ward) { topology in
      FileSystem.removeTree("\(topology.tool.directory.path)/ward.yaml")
      let result = try await topology.run("graph", code: 1)
      #expect(result.error.contains("name the topology file"), "\(result)")
    }
  }

  // MARK: Bad input

  @Test(
    "'graph' of a node without states causes an error that says what to do",
    arguments: [
      ("pair", 2, "'pair' is a composite and has no state chart"),
      ("watcher", 2, "'watcher' is a monitor and has no state chart"),
      ("sky", 2, "node 'sky' is constant and has no state chart"),
      ("nobody", 2, "'nobody'"), ("left right", 2, "unexpected argument 'right'"),
      ("left -o png", 2, "invalid value 'png' for -o: "),
      ("left --live", 3, "topology 'parts' "),
    ])
  func noStates(arguments: String, code: Int32, message: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(
      """
      topology: parts
      program: TestNodes
      nodes:
        left: { machine: Automaton, parameters: { steps: ["0 sync 1"] } }
        right: { machine: Automaton, parameters: { steps: ["0 sync 1"] } }
        sky: { constant: blue }
      composites:
        pair: { components: [left, right], synchronize: { sync: [left, right] } }
      monitors:
        watcher: { monitor: Census }
      """, to: "parts.yaml")
    let words = ["graph", "parts.yaml"] + arguments.split(separator: " ").map(String.init)
    let result = try await tool.result(of: tool.start(words))
    #expect(result.code == code, "\(result)")
    #expect(result.error.contains(message), "\(result)")
  }

  @Test("'graph' marks an event as unanswered if the event crashes or hangs the machine's program")
  func fragile() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(
      "topology: weak\nprogram: TestNodes\nnodes: { node: { machine: Fragile } }", to: "weak.yaml")
    let result = try await tool.run(
      "graph", "weak.yaml", "node", "-o", "mermaid", within: .seconds(120))
    #expect(result.code == 0, "\(result)")
    for event in ["exit", "hang", "trap"] {
      #expect(result.output.contains("\(event) [no answer]"), "\(result)")
    }
    #expect(result.output.contains("touch"), "\(result)")
  }

  @Test(
    "'graph' draws a cycle of 500 nodes, even without Graphviz",
    arguments: ["ascii", "svg", "dot"])
  func large(form: String) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    let nodes = (0..<500).map { "  n\($0): { machine: Automaton }" }
    let pipes = (0..<500).map {
      "  - { from: n\($0), when: sending, to: n\(($0 + 1) % 500), send: x }"
    }
    try tool.directory.write(
      (["topology: many", "program: TestNodes", "nodes:"] + nodes + ["pipes:"] + pipes)
        .joined(separator: "\n") + "\n", to: "many.yaml")
    tool.environment["PATH"] = "/nowhere"
    let result = try await tool.run("graph", "many.yaml", "-o", form, within: .seconds(120))
    #expect(result.code == 0, "\(result.error)")
    #expect(result.output.contains("n499"))
  }
}
