import Glibc
import PipeRuntime
import TestTraits
import Testing

@Suite("The verb 'export kubernetes'", .timed, .blocking)
struct KubernetesExportTests {
  private static let topology = """
    topology: Hall
    program: TestNodes
    nodes:
      door: { machine: Button, place: front }
      Motor_2: { machine: Button, place: back, durability: none, environment: { KEY: "${KEY:-none}" } }
    """
  private static let deployment = """
    engine: kubernetes
    image: registry.example/hall:${TAG:-1.0}
    places:
      front: { hosts: [n1, n2] }
      back: { labels: { zone: east, tier: "1_000" } }
    """
  private static let call = "orchestrator export kubernetes hall.yaml --deployment cluster.yaml"

  private func run(
    _ line: String, topology: String = topology, deployment: String = deployment
  ) throws -> Command.Result {
    try Command.run(line, among: ["hall.yaml": topology, "cluster.yaml": deployment])
  }

  // MARK: Written manifests

  @Test("The exported manifests are reproducible and contain no values of environment variables")
  func same() throws {
    // For a variable whose value is not its default, the manifest refers to the Secret that holds
    // the value.
    let result = try run("\(Self.call) > a && KEY=hidden \(Self.call) > b && diff a b")
    #expect(result.exit == .exited(code: 1) && result.error == "", "\(result)")
    #expect(result.output.contains("secretRef:") && !result.output.contains("hidden"), "\(result)")
    #expect(!result.output.contains("<"), "\(result)")
    let again = try run("\(Self.call) > a && \(Self.call) > b && cmp a b && cat a")
    #expect(again.exit == .exited(code: 0), "\(again)")
    for line in [
      "  name: hall-door", "  name: hall-motor-2", "        - Motor_2",
      "        image: \"registry.example/hall:1.0\"",
    ] {
      #expect(again.output.contains(line + "\n"), "\(line)")
    }
    #expect(!again.output.contains("kind: Secret"))
  }

  @Test("'--secrets' writes new keys at each call, and agents and clients can use these keys")
  func secrets() throws {
    let result = try run("KEY=k1 \(Self.call) --secrets; \(Self.call) --secrets")
    #expect(result.exit == .exited(code: 0) && result.error == "", "\(result)")
    let lines = result.output.split(separator: "\n").map { $0.drop { $0 == " " } }
    #expect(lines.filter { $0 == "kind: Secret" }.count == 7)
    #expect(lines.contains("KEY: k1") && !result.output.contains("StatefulSet"))
    let texts = zip(lines, lines.dropFirst()).filter { $0.0.hasSuffix(".key: |") }
    #expect(
      texts.map(\.0)
        == Array(
          repeating: [
            "control.key: |", "client.key: |", "agent.key: |", "agent.key: |",
          ], count: 2
        ).flatMap(\.self))
    let directory = try FileSystem.makeTemporaryDirectory("/tmp/pr-secrets-")
    defer { FileSystem.removeTree(directory) }
    let path = directory + "/key"
    var keys: Set<String> = []
    var control: String?
    for (name, text) in texts {
      try FileSystem.replace(path, with: Array("\(text)\n".utf8))
      guard name != "control.key: |" else {
        control = try KeyFile.read(path).publicKey.text
        keys.insert(control!)
        continue
      }
      let (pair, address) = try KeyFile.readWithControl(path)
      keys.insert(pair.publicKey.text)
      #expect(address.topology == "Hall" && address.key == control)
      #expect(address.endpoint == "tcp://hall-orchestrator.hall.svc:7300")
      guard name == "agent.key: |" else { continue }
      // The public keys that the orchestrator admits.
      #expect(lines.contains("agent.public: \"\(pair.publicKey.text)\""))
    }
    #expect(keys.count == 8)
  }

  /// A command that extracts the client's key from the Secrets that the first export wrote.
  private static let take =
    "sed -n '/client.key: |/{n;s/^ *//p;q}' first > client.key; chmod 600 client.key"

  @Test("'--key' writes the Secrets of selected nodes and of variables for a running orchestrator")
  func added() throws {
    let result = try run(
      """
      \(Self.call) --secrets > first; \(Self.take)
      sed -i 's/^nodes:/&\\n  lamp: { machine: Button }/' hall.yaml
      cat client.key; KEY=k1 \(Self.call) lamp --secrets --key client.key
      \(Self.call) --secrets --key client.key
      """)
    #expect(result.exit == .exited(code: 0) && result.error == "", "\(result)")
    let lines = result.output.split(separator: "\n").map { $0.drop { $0 == " " } }
    #expect(
      lines.filter { $0.hasPrefix("name: ") } == [
        "name: hall-orchestrator.variables", "name: hall-lamp",
      ])
    let texts = lines.filter { $0.hasPrefix("{") }.map { "\($0)\n" }
    let directory = try FileSystem.makeTemporaryDirectory("/tmp/pr-secrets-")
    defer { FileSystem.removeTree(directory) }
    let read = try texts.map { text in
      try FileSystem.replace(directory + "/key", with: Array(text.utf8))
      return try KeyFile.readWithControl(directory + "/key")
    }
    #expect(read.count == 2 && read[0].control == read[1].control)
    #expect(read[0].pair.publicKey != read[1].pair.publicKey)
    #expect(lines.contains("agent.public: \"\(read[1].pair.publicKey.text)\""))
  }

  @Test(
    "'--key' refuses another topology's key and a node without a pod",
    arguments: [
      ("\(call) doar --secrets --key client.key", "has no node or coordinator 'doar' with a pod"),
      ("\(call) doar --secrets --key client.key", Suggestion.hint("door")),
      (
        "sed -i 's/topology: Hall/topology: Barn/' hall.yaml; \(call) door --secrets --key client.key",
        "'client.key' is a key of topology 'Hall', not of 'Barn'"
      ),
      ("\(call) door --secrets --key nowhere", "nowhere"),
      ("\(call) door --secrets", "NODE requires --secrets and --key FILE"),
      ("\(call) door", "NODE requires --secrets and --key FILE"),
      ("\(call) --key client.key", "--key requires --secrets"),
    ])
  func otherKeys(line: String, message: String) throws {
    let result = try run("\(Self.call) --secrets > first; \(Self.take); \(line)")
    #expect(result.exit == .exited(code: 2) && result.output == "", "\(result)")
    #expect(result.error.contains(message), "\(result.error)")
  }

  @Test("If a program is named by a path, the export prints the program's path in the image")
  func program() throws {
    let result = try run(
      "mkdir bin; cp $(command -v TestNodes) bin/; \(Self.call) > /dev/null",
      topology: Self.topology.replacing("program: TestNodes", with: "program: bin/TestNodes"))
    #expect(result.exit == .exited(code: 0))
    #expect(
      result.error
        == "note: the image must contain program 'bin/TestNodes' at "
        + "'/etc/piperuntime/topology/bin/TestNodes'\n")
  }

  // MARK: Refused exports

  @Test(
    "The export refuses invalid combinations of options",
    arguments: [
      ("orchestrator export kubernetes hall.yaml", "requires --deployment FILE"),
      ("\(call) --time 1s", "--time is only for 'export promela'"),
      (
        "orchestrator export promela hall.yaml --deployment cluster.yaml",
        "are only for 'export kubernetes'"
      ),
      ("orchestrator export promela hall.yaml --secrets", "'export kubernetes'"),
      (
        "orchestrator export kubernetes - --deployment cluster.yaml < hall.yaml",
        "cannot read standard input"
      ),
      ("orchestrator export kubernets hall.yaml", Suggestion.hint("kubernetes")),
      (
        "echo 'engine: local' > l.yaml; sed -i 's/, place: [a-z]*//' hall.yaml; "
          + "orchestrator export kubernetes hall.yaml --deployment l.yaml",
        "manifests require engine 'kubernetes', and the deployment has engine 'local'"
      ),
      (
        "sed -i 's/Motor_2/DOOR/' hall.yaml; \(call)",
        "hall.yaml:5:3: error: 'door' and 'DOOR'"
      ),
      ("sed -i 's/front:/side:/' cluster.yaml; \(call)", "[unknown-place]"),
      ("sed -i 's/, place: back/&, on_host_loss: move/' hall.yaml; \(call)", "[bad-host-loss]"),
      ("sed -i /image/d cluster.yaml; \(call)", "has no 'image'"),
      ("sed -i 's/Button, place: front/Buton/' hall.yaml; \(call)", "[unknown-machine]"),
      ("TAG='1 2' \(call)", "must be an image"),
    ])
  func refused(line: String, message: String) throws {
    let result = try run(line)
    #expect(result.exit == .exited(code: 2) && result.output == "", "\(result)")
    #expect(result.error.contains(message), "\(result.error)")
  }

  @Test("Completion offers the formats and options of 'export'")
  func completion() throws {
    let command = try Command()
    defer { command.remove() }
    #expect(try command.complete("export", "") == ["promela", "kubernetes"])
    #expect(try command.complete("export", "kubernetes", "--sec") == ["--secrets"])
  }

  // MARK: Validation

  /// The versions of kubernetes-validate, each with the versions of Kubernetes that it knows.
  private static let validators = [
    ("1.28", ["1.20", "1.24", "1.28"]), ("1.37", ["1.30", "1.37"]),
  ]
  private static func validator(_ version: String) -> String {
    PackagePath.root + "/.build/kubernetes/\(version)/bin/kubernetes-validate"
  }
  private static var areThere: Bool {
    validators.allSatisfy { FileSystem.exists(validator($0.0)) }
  }

  private static let places = """
    engine: kubernetes
    image: registry.example/nodes:1.0
    port: 7400
    storage: { size: 2Gi, class: fast }
    """

  @Test(
    "kubernetes-validate (if installed) accepts all examples' manifests for 1.20 to 1.37",
    .enabled(
      if: areThere,
      "kubernetes-validate is missing: 'tools/kubernetes-validate' fetches it from PyPI"))
  func examples() throws {
    let folder = PackagePath.root + "/topologies"
    let names = FileSystem.entryNames(of: folder).filter { $0.hasSuffix(".yaml") }
    #expect(names.count >= 16)
    let script = """
      for file in \(folder)/*.yaml hall.yaml; do
        name=$(basename $file .yaml) deployment=places.yaml
        [ $name = hall ] && deployment=cluster.yaml
        orchestrator export kubernetes $file --deployment $deployment > m-$name.yaml || exit 3
      done
      orchestrator export kubernetes $file --deployment $deployment --secrets > s-$name.yaml || exit 3
      ls [ms]-*.yaml | wc -l

      """
    let validations = Self.validators.flatMap { version, known in
      known.map { "'\(Self.validator(version))' -k \($0) --strict --quiet [ms]-*.yaml || exit 4\n" }
    }
    let result = try run(
      "cat > places.yaml <<'TEXT'\n\(Self.places)\nTEXT\n" + script + validations.joined()
        + "sed 's/podManagementPolicy/podManagementPolice/' m-hall.yaml > bad.yaml\n"
        + "'\(Self.validator("1.28"))' -k 1.20 --strict --quiet bad.yaml > /dev/null && exit 5; exit 0"
    )
    #expect(result.exit == .exited(code: 0), "\(result)")
    #expect(result.output == "\(names.count + 2)\n", "\(result)")
  }
}
