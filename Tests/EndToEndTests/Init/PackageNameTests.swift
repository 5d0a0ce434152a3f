import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("The name of a new package", .timed)
struct PackageNameTests {
  @Test(
    "A package name is accepted if it is valid for folders, topologies and Swift",
    arguments: [
      "crossing", "Crossing", "traffic-light", "trafficlight", "a", "x2", "my_nodes", "yes", "e5",
      "actor", "program", String(repeating: "a", count: 41),
    ])
  func good(name: String) throws {
    let template = PackageTemplate(name: try PackageName(name), dependency: "../PipeRuntime")
    let file = try #require(template.files.first { $0.path == template.topologyPath })
    let topology = try TopologyReader.read(text: file.text.utf8, file: file.path).topology
    #expect(topology.name == name)
  }

  @Test(
    "An invalid package name is refused with the reason",
    arguments: [
      ("a/b", .path), ("../a", .path), ("/", .path), ("", .characters), (".", .characters),
      ("a b", .characters), ("2x", .characters), ("-x", .characters), ("_x", .characters),
      ("a.b", .characters), ("größe", .characters), ("a\nb", .characters),
      (String(repeating: "a", count: 42), .length), ("null", .value), ("True", .value),
      ("class", .keyword), ("main", .keyword),
      ("TrafficLight", .type), ("Program", .type), ("Testing", .module), ("swift", .module),
      ("Foundation", .module), ("Modules", .buildFolder),
    ] as [(String, InitError.NameProblem)])
  func bad(name: String, problem: InitError.NameProblem) {
    #expect(throws: InitError.name(name, problem)) { try PackageName(name) }
  }

  @Test("The names of the generated types are refused as package names")
  func types() throws {
    let template = PackageTemplate(name: try PackageName("crossing"), dependency: "..")
    let code = template.files.filter { $0.path.hasPrefix("Sources/") }
    #expect(code.count == 2)
    for file in code {
      let name = try #require(file.path.split(separator: "/").last?.split(separator: ".").first)
      #expect(file.text.contains(" \(name): "))
      #expect(throws: InitError.name(String(name), .type)) { try PackageName(String(name)) }
    }
  }

  @Test("The names in PipeRuntime's own package are refused as package names")
  func dependency() throws {
    let checkout = try Checkout.named(PackagePath.root)
    let names = checkout.manifest.usedNames
    #expect(names.isSuperset(of: ["PipeRuntime", "nodes", "orchestrator", "CZMQ", "TestNodes"]))
    for name in names {
      #expect(throws: InitError.name(name, .dependency)) {
        try PackageName(name).check(against: checkout)
      }
    }
    try PackageName("crossing").check(against: checkout)
  }

  @Test("The name of the checkout's folder is refused as a package name")
  func folder() throws {
    let checkout = Checkout(
      path: "/work/Main-Line", manifest: PackageManifest(text: #"Package(name: "PipeRuntime")"#))
    #expect(throws: InitError.name("main-line", .folderOfDependency)) {
      try PackageName("main-line").check(against: checkout)
    }
  }

  @Test("Each reason for a refused name has a separate message that says what to do")
  func wording() {
    let texts = InitError.NameProblem.allCases.map { InitError.name("x", $0).description }
    #expect(Set(texts).count == texts.count)
    for text in texts {
      #expect(["choose", "--", "write", "use "].contains { text.contains($0) })
    }
  }
}
