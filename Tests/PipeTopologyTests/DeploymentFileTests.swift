import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire
import TestSupport
import Testing

@Suite("Deployment files")
struct DeploymentFileTests {
  static let schema = JSONSchema(root: try! JSONValue(parsing: DeploymentFile.schema.utf8))

  private func read(_ text: String, _ variables: [String: String] = [:]) throws -> Deployment {
    try DeploymentFile.read(
      text: text.utf8, file: "lab.yaml", variables: TopologyVariables(variables)
    ).deployment
  }

  private func json(_ text: String) throws -> JSONValue {
    try #require(try YAMLDocument.parse(Array(text.utf8))).json
  }

  static let whole = Deployment(
    address: "10.1.2.3",
    places: [
      Placement(name: "front", address: "127.0.0.1"),
      Placement(name: "back-2", address: "127.0.0.2"),
    ], journals: "/shared/a $b")

  @Test("Every key of a deployment file is read into the model")
  func everything() throws {
    let text = """
      engine: local
      address: 10.1.2.3
      places: { front: { address: 127.0.0.1 }, back-2: { address: 127.0.0.2 } }
      journals: /shared/a $$b
      """
    let found = try read(text)
    #expect(found == Self.whole)
    #expect(found.places.map(\.name) == ["front", "back-2"])
    #expect(found.place("back-2")?.address == "127.0.0.2" && found.place("back") == nil)
    #expect(Self.schema.accepts(try json(text)))
  }

  @Test("Keys missing from a deployment file have their defaults")
  func defaults() throws {
    let found = try read("places: { a: { address: 10.0.0.1 } }")
    #expect(found.engine == .local && found.address == nil && found.journals == nil)
    #expect(try read("engine: local") == Deployment())
  }

  @Test("A deployment that is written as YAML or JSON is read as an equal deployment")
  func roundTrip() throws {
    #expect(try read(Self.whole.yaml) == Self.whole)
    #expect(try read(Self.whole.json.text) == Self.whole)
    #expect(Self.schema.accepts(Self.whole.json))
    #expect(try read(Deployment().yaml) == Deployment())
  }

  @Test("In a deployment for Slurm, each place lists hosts")
  func hosts() throws {
    let found = try read(
      "engine: slurm\nlease: 2s\nplaces: { a: { hosts: [n-1, n2.lab], spare: [n3] } }")
    #expect(found.lease == .seconds(2) && Deployment().lease == .seconds(5))
    #expect(
      found.place("a") == Placement(name: "a", hosts: ["n-1", "n2.lab"], spare: ["n3"]))
    #expect(try read(found.yaml) == found && read(found.json.text) == found)
    #expect(Self.schema.accepts(found.json))
  }

  @Test("A deployment for Kubernetes has places with hosts or labels, and describes the pods")
  func kubernetes() throws {
    let found = try read(
      """
      engine: kubernetes
      image: registry.example:5000/hall/nodes:1.0@sha256:0
      namespace: hall-2
      port: 9000
      storage: { size: 20Gi, class: fast.local }
      places:
        front: { hosts: [n-1, n2.lab] }
        back: { labels: { zone: east, example.org/disk: ssd, tier: 2, spare: true, none: "" } }
      """)
    #expect(
      found
        == Deployment(
          engine: .kubernetes,
          places: [
            Placement(name: "front", hosts: ["n-1", "n2.lab"]),
            Placement(
              name: "back",
              labels: [
                "zone": "east", "example.org/disk": "ssd", "tier": "2", "spare": "true", "none": "",
              ]),
          ], image: "registry.example:5000/hall/nodes:1.0@sha256:0", namespace: "hall-2",
          port: 9000, storage: DeploymentStorage(size: "20Gi", className: "fast.local")))
    #expect(try read(found.yaml) == found && read(found.json.text) == found)
    #expect(Self.schema.accepts(found.json))
  }

  @Test("A deployment for Kubernetes has a default for every key except 'image'")
  func kubernetesDefaults() throws {
    let found = try read("engine: kubernetes\nimage: hall")
    #expect(found.namespace == nil && found.port == 7300)
    #expect(found.storage == DeploymentStorage(size: "1Gi", className: nil))
    #expect(try read(found.yaml) == found && read(found.json.text) == found)
    #expect(Self.schema.accepts(found.json))
  }

  @Test("Variables, merge keys and extension sections work as in a topology file")
  func shared() throws {
    let text = """
      x-lab: &lab { address: "${LAB}" }
      engine: ${E:-local}
      address: "${LAB}"
      places: { a: { <<: *lab }, b: *lab, c: { address: 10.0.0.2 } }
      journals: ${J:-/j}/x
      """
    let found = try read(text, ["LAB": "10.0.0.9"])
    #expect(found.address == "10.0.0.9" && found.journals == "/j/x")
    #expect(found.places.map(\.address) == ["10.0.0.9", "10.0.0.9", "10.0.0.2"])
    let plain = "engine: ${E}\naddress: ${A}\nplaces: { a: { address: '${B}' } }\nx-y: [1]\n"
    #expect(Self.schema.accepts(try json(plain)))
  }

  private static let kubernetes = "engine: kubernetes\nimage: a\n"

  /// A text, the location of its only error, a part of the message, the code, and whether the
  /// schema detects it.
  static let bad: [(text: String, place: String, message: String, code: String, schema: Bool)] = [
    (
      "engine: locl", "1:9",
      "valid values are 'local', 'slurm', 'kubernetes'. Did you mean "
        + "'local'?",
      "bad-value", true
    ),
    ("engine: {}", "1:9", "the deployment: 'engine' cannot be", "bad-value", true),
    ("engin: local", "1:1", Suggestion.hint("engine"), "unknown-key", true),
    (
      "address: localhost", "1:10",
      "a numeric IPv4 address, such as 127.0.0.1, not 'localhost'",
      "bad-value", true
    ),
    ("address: 10.0.0", "1:10", "must be a numeric IPv4 address", "bad-value", true),
    ("address: 10.0.0.256", "1:10", "must be a numeric IPv4 address", "bad-value", true),
    ("address: 10.0.00.1", "1:10", "must be a numeric IPv4 address", "bad-value", true),
    ("address: 10.0.0.1.", "1:10", "must be a numeric IPv4 address", "bad-value", true),
    ("address: '::1'", "1:10", "must be a numeric IPv4 address", "bad-value", true),
    ("address: 7", "1:10", "must be a numeric IPv4 address", "bad-value", true),
    (
      "address: 0.0.0.0", "1:10", "cannot be 0.0.0.0, to which no process can connect", "bad-value",
      true
    ),
    ("engine: slurm\nlease: 0s", "2:8", "must be longer than 0s", "bad-duration", true),
    (
      "engine: slurm\nlease: 1.9s", "2:8", "must be from 2s to 30s, not 1s900ms", "bad-duration",
      false
    ),
    ("engine: slurm\nlease: 31s", "2:8", "must be from 2s to 30s, not 31s", "bad-duration", false),
    (
      "lease: 5s", "1:1", "'lease' has no effect with engine 'local'; remove it",
      "conflicting-keys",
      true
    ),
    ("places: [a]", "1:9", "must be a mapping from names, not a list", "bad-value", true),
    ("places: { a: 10.0.0.1 }", "1:14", "place 'a' must be a mapping", "bad-value", true),
    (
      "places: { a: {} }", "1:14",
      "place 'a' has no 'address', which engine 'local' requires; add it", "missing-key", true
    ),
    (
      "engine: slurm\nplaces: { a: { spare: [b] } }", "2:14",
      "place 'a' has no 'hosts', which engine 'slurm' requires; add it", "missing-key", true
    ),
    (
      "places: { a: { address: 10.0.0.1, hosts: [b] } }", "1:35",
      "place 'a': 'hosts' has no effect with engine 'local'; remove it", "conflicting-keys", true
    ),
    (
      "engine: slurm\nplaces: { a: { hosts: [b], address: 10.0.0.1 } }", "2:28",
      "place 'a': 'address' has no effect with engine 'slurm'; remove it", "conflicting-keys", true
    ),
    (
      "engine: slurm\nplaces: { a: { hosts: [] } }", "2:23", "place 'a': 'hosts' is empty",
      "bad-value", true
    ),
    (
      "engine: slurm\nplaces: { a: { hosts: [b c] } }", "2:24",
      "place 'a': 'hosts' lists 'b c', which is not a valid host name", "bad-name", true
    ),
    (
      "engine: slurm\nplaces: { a: { hosts: [b, b] } }", "2:27",
      "place 'a': 'hosts' lists 'b' twice", "duplicate-key", true
    ),
    (
      "engine: slurm\nimage: a", "2:1",
      "the deployment: 'image' has no effect with engine 'slurm'; remove it", "conflicting-keys",
      true
    ),
    (
      "port: 7300", "1:1", "the deployment: 'port' has no effect with engine 'local'; remove it",
      "conflicting-keys", true
    ),
    (
      "storage: { size: 2Gi }", "1:1", "'storage' has no effect with engine 'local'; remove it",
      "conflicting-keys", true
    ),
    (
      "places: { a: { address: 10.0.0.1, labels: { b: c } } }", "1:35",
      "place 'a': 'labels' has no effect with engine 'local'; remove it", "conflicting-keys", true
    ),
    (
      "engine: kubernetes", "1:1",
      "the deployment has no 'image', which engine 'kubernetes' requires; add it", "missing-key",
      true
    ),
    (
      kubernetes + "address: 10.0.0.1", "3:1",
      "'address' has no effect with engine 'kubernetes': each pod has its own address",
      "conflicting-keys", true
    ),
    (
      kubernetes + "journals: /j", "3:1", "each journal is on a volume claim of its pod",
      "conflicting-keys", true
    ),
    (
      kubernetes + "lease: 5s", "3:1", "nodes do not move to other hosts; remove it",
      "conflicting-keys", true
    ),
    (
      kubernetes + "places: { a: {} }", "3:14",
      "place 'a' has no 'hosts' or 'labels', which engine 'kubernetes' requires; add it",
      "missing-key", true
    ),
    (
      kubernetes + "places: { a: { labels: { b: c }, hosts: [d] } }", "3:16",
      "place 'a' has both 'hosts' and 'labels', which exclude each other; remove one of them",
      "conflicting-keys", true
    ),
    (
      kubernetes + "places: { a: { hosts: [d], spare: [e] } }", "3:28",
      "place 'a': 'spare' has no effect with engine 'kubernetes': a pod waits for its host",
      "conflicting-keys", true
    ),
    (
      kubernetes + "places: { a: { labels: {} } }", "3:24", "'labels' is empty", "bad-value", true
    ),
    (
      kubernetes + "places: { a: { labels: { /b: c } } }", "3:26",
      "place 'a': 'labels': '/b' is not a valid label name", "bad-name", true
    ),
    (
      kubernetes + "places: { a: { labels: { b: c d } } }", "3:29",
      "place 'a': 'labels.b' must be at most 63 characters of A-Z a-z 0-9 . _ -", "bad-value", true
    ),
    (
      kubernetes + "namespace: Hall", "3:12", "'namespace' must be 1 to 63 characters of a-z 0-9 -",
      "bad-value",
      true
    ),
    (
      "engine: kubernetes\nimage: a b", "2:8",
      "'image' must be an image, such as registry.example/hall:1.0, not 'a b'", "bad-value", true
    ),
    (
      kubernetes + "port: 80", "3:7", "'port' must be a port from 1024 to 65535, not 80",
      "bad-value", true
    ),
    (
      kubernetes + "storage: { size: 10 }", "3:18", "must be a size with its unit, such as 1Gi",
      "bad-value", true
    ),
    (
      kubernetes + "storage: { size: 1.5Gi }", "3:18", "must be a size with its unit, such as 1Gi",
      "bad-value", true
    ),
    (
      kubernetes + "storage: { class: Fast }", "3:19", "must be a storage class name",
      "bad-value",
      true
    ),
    (
      kubernetes + "storage: { sise: 1Gi }", "3:12", "unknown key 'sise'", "unknown-key", true
    ),
    (
      "places: { a: { addres: 10.0.0.1, address: 10.0.0.1 } }", "1:16",
      "place 'a': unknown key 'addres'",
      "unknown-key", true
    ),
    (
      "places: { a: { address: front } }", "1:25",
      "place 'a': 'address' must be a numeric IPv4 "
        + "address",
      "bad-value", true
    ),
    (
      "places: { a.b: { address: 10.0.0.1 } }", "1:11", "'a.b' is not a valid name", "bad-name",
      true
    ),
    (
      "places: { 1: { address: 10.0.0.1 } }", "1:11",
      "a name must be text, and 1 without quotes is not text",
      "bad-name", false
    ),
    (
      "places: { a: { address: 10.0.0.1 }, a: { address: 10.0.0.2 } }", "1:37",
      "duplicate place 'a', first defined at line 1, column 11", "duplicate-key", false
    ),
    ("journals: 3", "1:11", "must be a path; put 3 in quotes", "bad-value", true),
    ("journals:", "1:10", "must be a path, not nothing", "bad-value", true),
    (
      "journals: ${NONE}/x", "1:11",
      "variable 'NONE' is not set; set it in the environment or in '.env' beside the deployment file",
      "unset-variable", false
    ),
    (
      "local", "1:1", "must be a mapping that starts with 'engine: local', not 'local'",
      "bad-value",
      true
    ),
  ]

  @Test(
    "A bad deployment file is refused with the location, the error and what to do", arguments: bad)
  func refused(
    text: String, place: String, message: String, code: String, isReportedBySchema: Bool
  ) throws {
    do {
      let found = try DeploymentFile.read(
        text: text.utf8, file: "lab.yaml", variables: TopologyVariables([:]))
      Issue.record("it was read as \(found.deployment)")
    } catch {
      let found = error.diagnostics.map(\.description)
      #expect(found.count == 1, "\(found)")
      #expect(found[0].hasPrefix("lab.yaml:\(place): error: "), "\(found)")
      #expect(found[0].contains(message), "\(found)")
      #expect(found[0].hasSuffix("[\(code)]"), "\(found)")
    }
    #expect(Self.schema.accepts(try json(text)) == !isReportedBySchema)
  }

  @Test("All errors of a deployment file are found at once, in the order of the file")
  func allAtOnce() throws {
    let text = "engine: slum\naddress: x\nplaces:\n  a: { address: y }\n  b: {}\njurnals: z\n"
    #expect {
      try read(text)
    } throws: { error in
      let lines = (error as? TopologyErrors)?.diagnostics.map(\.line)
      return lines == [1, 2, 4, 6]
    }
  }

  @Test("An empty or missing deployment file causes an error that says what to do")
  func nothing() {
    #expect {
      try read("# nothing\n")
    } throws: {
      "\($0)".contains(
        "lab.yaml:1:1: error: the file is empty; a deployment starts with 'engine: local'")
    }
    #expect {
      try DeploymentFile.read(path: "/no/such/lab.yaml")
    } throws: {
      "\($0)".contains("/no/such/lab.yaml: error: no such file; check the path")
    }
  }

  @Test("The deployment schema in the code equals the schema file and has the reader's keys")
  func schemaFile() throws {
    let file = try packageFile("topologies/deployment.schema.json")
    #expect(DeploymentFile.schema == String(decoding: file, as: UTF8.self))
    for (pointer, text) in [
      (["properties"], "x: 1"),
      (["$defs", "place", "properties"], "places: { a: { address: 10.0.0.1, x: 1 } }"),
    ] {
      guard case .object(let members)? = pointer.reduce(Optional(Self.schema.root), { $0?[$1] })
      else {
        Issue.record("the schema has no \(pointer)")
        continue
      }
      let names = members.keys.sorted()
      #expect {
        try read(text)
      } throws: { error in
        let list = "\(error)".split(separator: "valid keys are ").last?.split(separator: " [").first
        let listed = list?.split(separator: ", ").map { $0.filter { $0 != "'" } }.sorted()
        return listed == names
      }
    }
  }
}
