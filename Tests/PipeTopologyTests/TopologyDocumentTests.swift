import PipeMachines
import PipeTopology
import PipeWire
import TestSupport
import Testing

@Suite("The documents about topology files")
struct TopologyDocumentTests {
  /// Returns the rows of the table under a heading.
  private func rows(
    under heading: String, of file: String = "docs/TOPOLOGY.md"
  ) throws -> [String] {
    let text = String(decoding: try packageFile(file), as: UTF8.self)
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let start = try #require(lines.firstIndex { $0 == "## \(heading)" })
    let section = lines[(start + 1)...].prefix { !$0.hasPrefix("## ") }
    return section.filter { $0.hasPrefix("| `") }.map(String.init)
  }

  @Test(
    "docs/TOPOLOGY.md has every key with its meaning and default",
    arguments: TopologyKeys.documentationTables)
  func keys(heading: String, lines: [String]) throws {
    #expect(try rows(under: heading) == lines)
  }

  @Test(
    "docs/EXPLORE.md has every key of scenario files", arguments: ScenarioKeys.documentationTables)
  func scenarioKeys(heading: String, lines: [String]) throws {
    #expect(try rows(under: heading, of: "docs/EXPLORE.md") == lines)
  }

  @Test(
    "docs/DEPLOYMENT.md has every key of deployment files",
    arguments: DeploymentKeys.documentationTables)
  func deploymentKeys(heading: String, lines: [String]) throws {
    #expect(try rows(under: heading, of: "docs/DEPLOYMENT.md") == lines)
  }

  @Test("docs/DEPLOYMENT.md has every kind of error that only a deployment has")
  func deploymentCodes() throws {
    let text = try rows(under: "Errors", of: "docs/DEPLOYMENT.md").joined()
    for code: Diagnostic.Code in [
      .unknownPlace, .unusedPlace, .unknownHost, .foreignAddress, .badHostLoss,
    ] {
      #expect(text.contains("`\(code.rawValue)`"))
    }
  }

  @Test("The example in docs/DEPLOYMENT.md is read as explained")
  func deploymentExample() throws {
    let text = String(decoding: try packageFile("docs/DEPLOYMENT.md"), as: UTF8.self)
    let blocks = text.split(separator: "```yaml\n").dropFirst()
      .map { $0.split(separator: "```", omittingEmptySubsequences: false)[0] }
    let (deployment, _) = try DeploymentFile.read(
      text: try #require(blocks.last).utf8, file: "lab.yaml", variables: TopologyVariables([:]))
    #expect(
      deployment
        == Deployment(
          address: "127.0.0.1",
          places: [
            Placement(name: "front", address: "127.0.0.1"),
            Placement(name: "back", address: "127.0.0.2"),
          ], journals: "/shared/piperuntime"))
    let nodes = withNodes(
      try #require(blocks.first).split(separator: "\n").dropFirst().map { String($0.dropFirst(2)) }
        .joined(separator: "\n"))
    #expect(try topology(nodes).node("motor")?.hostLossPolicy == .move)
  }

  @Test("docs/EXPLORE.md has every code of a finding")
  func codes() throws {
    let text = try rows(under: "Findings", of: "docs/EXPLORE.md").joined()
    for code in ExplorationFinding.Code.allCases { #expect(text.contains("`\(code.rawValue)`")) }
  }

  @Test("The documented defaults match a topology without the keys")
  func defaults() throws {
    let plain = Topology(
      name: "t", nodes: [.machine("M", name: "a")],
      pipes: [.rule(from: "a", when: "s", to: "a", send: "e")])
    let node = try #require(plain.json["nodes"]?["a"])
    for (heading, value) in [("Top level", plain.json), ("A node", node)] {
      for row in try rows(under: heading) where !row.hasSuffix("|  |") {
        let cells = row.split(separator: " | ").map { $0.trimmed(of: ["|", "`", " "]) }
        let path = cells[0].split(separator: ".").map(String.init)
        // The default of a node's key may be a key of the topology.
        let isOfTopology = ["timeouts.", "logs.", "journal."].contains {
          cells.last?.hasPrefix($0) == true
        }
        guard path.count > 1, !isOfTopology else { continue }
        let found = path.reduce(Optional(value)) { $0?[$1] }
        #expect(found?.string ?? found?.text == cells.last, "\(row)")
      }
    }
    guard case .array(let pipes)? = plain.json["pipes"] else {
      Issue.record("no pipes")
      return
    }
    let capacity = try #require(try rows(under: "A pipe").first { $0.hasPrefix("| `capacity`") })
    #expect(capacity.hasSuffix("| \(try #require(pipes[0]["capacity"]).text) |"))
  }
}

extension Substring {
  fileprivate func trimmed(of marks: Set<Character>) -> String {
    String(drop(while: marks.contains).reversed().drop(while: marks.contains).reversed())
  }
}
