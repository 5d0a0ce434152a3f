import PipeRuntime
import TestTraits
import Testing

@Suite("A deployment file on the command line", .timed, .blocking)
struct DeploymentVerbTests {
  /// Two nodes with a place and one without.
  private static let topology = """
    topology: hall
    program: TestNodes
    nodes:
      a: { machine: Button, place: front }
      b: { machine: Button, place: back, on_host_loss: move, durability: power }
      c: { machine: Button }
    """
  private static let deployment = """
    engine: local
    places:
      front: { address: 127.0.0.1 }
      back: { address: 127.0.0.2 }
    journals: /shared
    """

  private func run(
    _ line: String, topology: String = topology, deployment: String = deployment
  ) throws -> Command.Result {
    try Command.run(line, among: ["hall.yaml": topology, "lab.yaml": deployment])
  }

  private static let good =
    "hall.yaml: ok: 3 nodes, 0 pipes\nlab.yaml: ok: engine local, 2 places\n"

  @Test(
    "'check' reads a topology and its deployment, in any order and from any directory",
    arguments: [
      ("orchestrator check hall.yaml --deployment lab.yaml", 0, good, ""),
      ("orchestrator check --deployment=lab.yaml --file-only hall.yaml", 0, good, ""),
      (
        "orchestrator check hall.yaml --deployment - < lab.yaml", 0,
        good.replacing("lab.yaml", with: "<stdin>"), ""
      ),
      (
        "sed 's/127.0.0.2/${BACK}/' lab.yaml > v.yaml; echo BACK=127.0.0.3 > .env; "
          + "orchestrator check hall.yaml --deployment v.yaml", 0,
        good.replacing("lab.yaml", with: "v.yaml"), ""
      ),
      ("orchestrator check hall.yaml", 0, "hall.yaml: ok: 3 nodes, 0 pipes\n", ""),
      (
        "orchestrator check - --deployment - < lab.yaml", 2, "",
        "standard input cannot be both the topology file and the deployment file"
      ),
      (
        "orchestrator check --explore hall.yaml --deployment lab.yaml", 2, "",
        "\(UsageError.conflict("--explore", "--deployment"))"
      ),
      (
        "orchestrator check hall.yaml --deployment none.yaml", 2,
        "hall.yaml: ok: 3 nodes, 0 pipes\n",
        "[unreadable-file]"
      ),
      (
        "orchestrator check hall.yaml --deployment hall.yaml", 2,
        "",
        "[unknown-key]"
      ),
    ] as [(String, Int32, String, String)])
  func check(line: String, code: Int32, output: String, error: String) throws {
    let result = try run(line)
    #expect(result.exit == .exited(code: code), "\(result)")
    #expect(result.output == output)
    #expect(error.isEmpty ? result.error.isEmpty : result.error.contains(error), "\(result.error)")
  }

  /// A topology and a deployment that do not match. Each of them also has separate errors.
  private static let misfits = (
    topology: topology.replacing("place: front", with: "place: frnt")
      .replacing("machine: Button }", with: "machine: Buton }"),
    deployment: deployment.replacing("127.0.0.2", with: "192.0.2.1")
      .replacing("journals: /shared", with: "x-y: z")
  )

  @Test("'check' reports the errors of the topology file and of the deployment file together")
  func allAtOnce() throws {
    let result = try run(
      "orchestrator check hall.yaml --deployment lab.yaml",
      topology: Self.misfits.topology, deployment: Self.misfits.deployment)
    #expect(result.exit == .exited(code: 2))
    #expect(result.output == "")
    let lines = result.error.split(separator: "\n").map(String.init)
    try #require(lines.count == 4, "\(result.error)")
    let expected = [
      ("hall.yaml:4:32: error: ", " [unknown-place]"),
      ("hall.yaml:5:52: error: ", " [bad-host-loss]"),
      ("hall.yaml:6:17: error: ", " [unknown-machine]"),
      ("lab.yaml:4:20: error: ", " [foreign-address]"),
    ]
    for (line, (beginning, end)) in zip(lines, expected) {
      #expect(line.hasPrefix(beginning) && line.hasSuffix(end), "\(line)")
    }
  }

  @Test(
    "'run' and 'up' start nothing and report all errors when topology and deployment do not match",
    arguments: ["run", "up", "up -d", "up --wait"])
  func notStarted(verb: String) throws {
    let result = try run(
      "orchestrator \(verb) hall.yaml --deployment lab.yaml; code=$?; orchestrator ls; exit $code",
      topology: Self.misfits.topology, deployment: Self.misfits.deployment)
    #expect(result.exit == .exited(code: 2), "\(result)")
    for code in ["unknown-place", "bad-host-loss", "unknown-machine", "foreign-address"] {
      #expect(result.error.contains("[\(code)]"), "\(result.error)")
    }
    #expect(!result.output.contains("running"), "\(result.output)")
  }

  @Test("'check' reports a place as unused only if no checked topology uses the place")
  func severalFiles() throws {
    let line = """
      sed 's/front/side/; s/hall/other/' hall.yaml > other.yaml
      sed '/back:/a\\  side: { address: 127.0.0.1 }' lab.yaml > all.yaml
      orchestrator check hall.yaml other.yaml --deployment all.yaml
      echo $?
      orchestrator check hall.yaml --deployment all.yaml
      """
    let result = try run(line)
    #expect(result.exit == .exited(code: 0), "\(result)")
    #expect(
      result.output == """
        hall.yaml: ok: 3 nodes, 0 pipes
        other.yaml: ok: 3 nodes, 0 pipes
        all.yaml: ok: engine local, 3 places
        0
        hall.yaml: ok: 3 nodes, 0 pipes
        all.yaml: ok: engine local, 3 places, 1 warning

        """)
    #expect(
      result.error.hasPrefix("all.yaml:5:3: warning: ")
        && result.error.hasSuffix(" [unused-place]\n"), "\(result.error)")
  }

  @Test(
    "'check -o json' and '-o jsonl' write the deployment as the last record",
    arguments: ["json", "jsonl"])
  func records(format: String) throws {
    let result = try run("orchestrator check hall.yaml --deployment lab.yaml -o \(format)")
    #expect(result.exit == .exited(code: 0))
    let records = try result.output.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
    var last = try #require(records.last)
    if format == "json", case .array(let files) = last { last = try #require(files.last) }
    #expect(
      last == [
        "file": "lab.yaml", "valid": true, "engine": "local", "places": 2, "diagnostics": [],
        "silenced": [:],
      ])
    let bad = try run(
      "orchestrator check hall.yaml --deployment lab.yaml -o \(format)",
      topology: Self.misfits.topology, deployment: Self.misfits.deployment)
    #expect(bad.exit == .exited(code: 2) && bad.error == "")
    for code in ["unknown-place", "bad-host-loss", "unknown-machine", "foreign-address"] {
      #expect(bad.output.contains("\"code\":\"\(code)\""), "\(bad.output)")
    }
  }

  @Test("'check -o sarif' names the file of each result")
  func sarif() throws {
    let result = try run(
      "orchestrator check hall.yaml --deployment lab.yaml -o sarif",
      topology: Self.misfits.topology, deployment: Self.misfits.deployment)
    #expect(result.exit == .exited(code: 2))
    let log = try JSONValue(parsing: result.output.utf8)
    guard case .array(let runs)? = log["runs"], case .array(let results)? = runs.first?["results"]
    else {
      Issue.record("\(result.output)")
      return
    }
    let places = results.map { result -> String in
      guard case .array(let places)? = result["locations"] else { return "" }
      let place = places.first?["physicalLocation"]
      let line = place?["region"]?["startLine"]?.text ?? ""
      return "\(place?["artifactLocation"]?["uri"]?.string ?? ""):\(line)"
    }
    #expect(places == ["hall.yaml:4", "hall.yaml:5", "hall.yaml:6", "lab.yaml:4"])
  }

  @Test("'schema' prints the schema of deployment files, and 'config' shows nodes' placement keys")
  func shown() throws {
    let schema = try run("orchestrator schema --deployment").output
    #expect(schema == DeploymentFile.schema)
    let config = try run(
      "orchestrator config hall.yaml > one; orchestrator config one | cmp one; cat one")
    #expect(config.exit == .exited(code: 0) && config.error == "")
    #expect(config.output.contains("    place: front\n    on_host_loss: wait\n"))
    #expect(config.output.contains("    place: back\n    on_host_loss: move\n"))
    #expect(
      config.output.hasSuffix(
        "  durability: process\ntimeouts:\n  start: 10s\n  heartbeat: 5s\n  stop: 5s\n"
          + "logs:\n  max_size: 1MiB\n  max_files: 3\n"
          + "journal:\n  records: 1000\n  dead_letters: 10000\n"))
  }
}
